"""What programs ask about compilers and processes: answers, refusals, memory that forks share."""

import contextvars
import gc
import multiprocessing as python

import pytest

import eager
from eager import distributed, multiprocessing, nn, version
from eager.utils.data import DistributedSampler
from jitcap import jit


def test_no_program_learns_that_it_is_compiled():
    @eager.compiler.disable
    def apart(x):
        return x * 2

    def step(x):
        return apart(x) if not eager.compiler.is_compiling() else x

    compiled = jit(step)
    with pytest.warns(UserWarning, match="disable"):
        assert compiled(eager.ones(2)).tolist() == step(eager.ones(2)).tolist() == [2, 2]
    assert compiled.stats.splits == 1
    assert eager.compiler.disable(reason="slow")(len)("ab") == 2
    assert eager.compiler.disable(len, recursive=False)("ab") == 2


def test_what_programs_say_to_a_compiler():
    step = jit(lambda x: x + 1, backend="eager")
    with eager.compiler.set_stance("force_eager"):
        step(eager.ones(2))
    assert step.stats.compiles == 0
    lasting = contextvars.copy_context()  # a statement alone holds from then on
    lasting.run(eager.compiler.set_stance, "force_eager")
    gc.collect()
    lasting.run(step, eager.ones(2))
    assert step.stats.compiles == 0
    stance = eager.compiler.set_stance("force_eager")
    for inside in (stance(step), stance(step)):
        inside(eager.ones(2))
    assert step.stats.compiles == 0
    step(eager.ones(2))
    assert step.stats.compiles == 1
    eager.compiler.reset()
    assert step.stats.compiles == 0
    with pytest.raises(ValueError, match="stance"):
        eager.compiler.set_stance("no_such")
    assert "inductor" in eager.compiler.list_backends()
    compiler = eager.compiler
    for mark in (
        compiler.allow_in_graph, compiler.assume_constant_result, compiler.nested_compile_region,
    ):  # fmt: skip
        assert mark(len) is len
    multiprocessing.set_sharing_strategy("file_system")
    assert multiprocessing.get_sharing_strategy() == "file_system"
    with pytest.raises(AssertionError, match="no_such"):
        multiprocessing.set_sharing_strategy("no_such")
    assert eager.amp.is_autocast_available("cpu")


def test_names_of_several_processes_stand_in_signatures():
    def mean(x, op=distributed.ReduceOp.SUM, group: distributed.ProcessGroup | None = None):
        if distributed.is_initialized():
            distributed.all_reduce(x, op=op, group=group or distributed.group.WORLD)
        return x / 2

    assert mean(eager.ones(2)).tolist() == jit(mean)(eager.ones(2)).tolist() == [0.5, 0.5]
    assert version.cuda is None


def _write(rank, x, weight):
    x[rank] = rank + 1.0
    weight.data[rank] = 7.0


def test_memory_that_forked_processes_share():
    x, layer, apart = eager.zeros(3), nn.Linear(2, 2), eager.zeros(3)
    before = layer.weight.tolist()
    assert x.share_memory_() is x
    layer.weight.share_memory_()
    assert layer.weight.tolist() == before
    assert x.is_shared() and layer.weight.is_shared() and not apart.is_shared()
    assert x[1:].is_shared()
    context = python.get_context("fork")
    writers = [context.Process(target=_write, args=(i, x, layer.weight)) for i in range(2)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert x.tolist() == [1, 2, 0]
    assert layer.weight.tolist() == [[7, 7], [7, 7]]
    with pytest.raises(RuntimeError, match="view"):
        apart[1:].share_memory_()


def _fail(rank):
    assert rank == 0


def test_spawn_waits_and_says_who_failed():
    assert multiprocessing.spawn(_write, (eager.zeros(3), eager.zeros(3))) is None
    given = eager.zeros(3), eager.zeros(3)
    started = multiprocessing.spawn(_write, given, join=False, start_method="fork")
    assert started.join() and len(started.pids()) == 1
    with pytest.raises(RuntimeError, match="process 1 ended with exit code 1"):
        multiprocessing.spawn(_fail, nprocs=2, start_method="fork")


def test_each_process_samples_its_part():
    def parts(**options):
        return [list(DistributedSampler(range(7), 3, rank, **options)) for rank in range(3)]

    assert parts(shuffle=False) == [[0, 3, 6], [1, 4, 0], [2, 5, 1]]
    assert parts(shuffle=False, drop_last=True) == [[0, 3], [1, 4], [2, 5]]
    assert {*sum(parts(), [])} == {*range(7)} and parts() == parts() != parts(seed=1)
    sampler = DistributedSampler(range(7), 3, 0)
    first = list(sampler)
    sampler.set_epoch(1)
    assert len(sampler) == 3 and list(sampler) != first
    with pytest.raises(ValueError, match="Invalid rank 3"):
        DistributedSampler(range(7), 3, 3)
    with pytest.raises(RuntimeError, match="num_replicas"):
        DistributedSampler(range(7))
