"""Worker processes of loaders: what they draw, what they send, how they end."""

import errno
import gc
import importlib
import json
import os
import pickle
import random
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings

import numpy as np
import pytest

eager = pytest.importorskip("eager")
from eager.base.process import locks  # noqa: E402
from eager.utils import data  # noqa: E402
from eager.utils.data import channel, pool  # noqa: E402
from jitcap import jit  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:this DataLoader has:UserWarning")
WORDS = [1333163270, 322820141, 3876486631, 305334004]  # PyTorch's for NumPy, of the seed below
LONG = 2000  # numbers, which go through shared memory


class Noisy(data.Dataset):
    """Every sample is drawn, from each of the three generators."""

    def __len__(self):
        return 22

    def __getitem__(self, i):
        return i, random.random(), np.random.rand(2), eager.rand(LONG), {"name": f"n{i}"}


class Numbers(data.IterableDataset):
    """0 ... n - 1, each worker its part if `parts`."""

    def __init__(self, n, parts=True):
        self.n, self.parts = n, parts

    def __iter__(self):
        info = data.get_worker_info()
        return iter(
            range(info.id, self.n, info.num_workers) if info and self.parts else range(self.n)
        )

    def __len__(self):
        return self.n


def plain(batch):
    """A batch as lists."""
    if isinstance(batch, dict):
        return {key: plain(value) for key, value in batch.items()}
    return (
        [plain(x) for x in batch]
        if isinstance(batch, list)
        else getattr(batch, "tolist", lambda: batch)()
    )


def drawn(seed=0, **options):
    eager.manual_seed(seed)
    options = {"batch_size": 3, "shuffle": True, "num_workers": 4, **options}
    return [plain(batch) for batch in data.DataLoader(Noisy(), **options)]


def is_gone(pid):
    return not os.path.exists(f"/proc/{pid}")


def test_one_seed_gives_one_epoch():
    first = drawn()
    assert first == drawn() == drawn(prefetch_factor=1)
    given = [drawn(generator=eager.Generator().manual_seed(5)) for _ in range(2)]
    assert given[0] == given[1] != first
    assert drawn(1) != first
    numbers = [sample for batch in first for sample in batch[1]]
    assert len({*numbers}) == len(numbers) == 22  # no two workers draw the same
    order = [batch[0] for batch in first]
    for others in ({"num_workers": 0}, {"num_workers": 2}, {"multiprocessing_context": "thread"}):
        assert [batch[0] for batch in drawn(**others)] == order
    eager.manual_seed(0)
    assert sorted(map(str, first)) == sorted(map(str, drawn(in_order=False)))


def test_draws_are_where_pytorch_makes_them():
    def place(after, **options):
        """How far the generator has come."""
        eager.manual_seed(0)
        loader = data.DataLoader(range(4), **options)
        assert eager.default_generator.ordinal == 0
        batches = iter(loader)
        after(batches)
        return eager.default_generator.ordinal

    one = place(lambda batches: None)  # a seed for workers, also without any
    assert one > 0
    assert place(list) == one
    assert place(lambda batches: None, num_workers=1, generator=eager.Generator()) == 0
    assert place(next, shuffle=True) == place(list, shuffle=True) == 2 * one  # one for the order
    before = random.getstate(), np.random.get_state(), eager.get_rng_state()
    data.worker._seed(0x123456789ABCDEF + 3, 3)
    ours = random.random(), np.random.rand(), eager.initial_seed()
    random.seed(0x123456789ABCDEF + 3)
    np.random.seed(WORDS)
    assert ours == (random.random(), np.random.rand(), 0x123456789ABCDEF + 3)
    random.setstate(before[0])
    np.random.set_state(before[1])
    eager.set_rng_state(before[2])


def spawned(number):
    random.seed(number)


def test_workers_that_are_spawned_draw_the_same():
    options = {"num_workers": 1, "worker_init_fn": spawned, "persistent_workers": True}
    assert drawn(**options) == drawn(**options, multiprocessing_context="spawn")


def test_what_a_worker_knows_of_itself():
    class Asking(data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            info = data.get_worker_info()
            assert info.dataset is self and info.num_workers == 2
            return info.id, info.seed - info.id, self.told, eager.get_num_threads()

    def init(number):
        data.get_worker_info().dataset.told = number * 10

    assert data.get_worker_info() is None
    got = [plain(b) for b in data.DataLoader(Asking(), num_workers=2, worker_init_fn=init)]
    assert [b[0] + b[2] for b in got] == [[0, 0], [1, 10], [0, 0], [1, 10]]
    assert len({b[1][0] for b in got}) == 1 and {b[3][0] for b in got} == {1}


def test_everything_that_can_be_in_a_batch_arrives():
    things = [
        eager.arange(LONG).to(eager.bfloat16), eager.eye(60).t()[::2], eager.tensor(3.0),
        eager.zeros(0, 3), eager.nn.Parameter(eager.ones(LONG)), "x" * LONG * 10, b"y", None,
        np.arange(LONG)[::3], np.array(["a", "bc"]), np.array([None, 1], object), [1, (2, {"k": 3})],
    ]  # fmt: skip
    loader = data.DataLoader([things] * 3, batch_size=None, num_workers=1, collate_fn=list)
    for got in loader:
        for there, here in zip(got, things, strict=True):
            assert type(there) is type(here)
            if hasattr(here, "dtype"):
                assert there.dtype == here.dtype
                assert plain(there) == plain(here)
            else:
                assert there == here
    assert got[4].requires_grad
    got[0].zero_()  # memory of its own


def test_streams_are_shared_out_by_the_program():
    def got(n, **options):
        return [
            plain(b) for b in data.DataLoader(Numbers(n), batch_size=2, num_workers=2, **options)
        ]

    assert got(9) == [[0, 2], [1, 3], [4, 6], [5, 7], [8]]
    assert got(9, drop_last=True) == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert sorted(sum(got(9, in_order=False), [])) == [*range(9)]
    assert got(1) == [[0]] and got(0) == []
    loader = data.DataLoader(Numbers(3), batch_size=None, num_workers=2, persistent_workers=True)
    assert [*loader] == [*loader] == [0, 1, 2]
    whole = data.DataLoader(Numbers(2, parts=False), num_workers=2)
    assert len(whole) == 2
    with pytest.warns(UserWarning, match="length is 2, and batch 3 came.*get_worker_info"):
        assert len([*whole]) == 4


class Fails(data.Dataset):
    def __init__(self, error):
        self.error = error

    def __len__(self):
        return 6

    def __getitem__(self, i):
        if i == 2:
            raise self.error
        return i


class Custom(Exception):
    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code


def test_an_exception_is_raised_where_its_batch_would_be():
    batches = iter(data.DataLoader(Fails(KeyError("which")), num_workers=2))
    assert [next(batches).item(), next(batches).item()] == [0, 1]
    with pytest.raises(KeyError, match="which") as raised:
        next(batches)
    (note,) = raised.value.__notes__
    assert "Caught KeyError in DataLoader worker process 0" in note
    assert "raise self.error" in note
    assert [b.item() for b in batches] == [3, 4, 5]
    with pytest.raises(OSError, match="gone") as raised:
        [*data.DataLoader(Fails(FileNotFoundError(errno.ENOENT, "gone", "f.png")), num_workers=1)]
    assert raised.value.filename == "f.png"
    with pytest.raises(
        RuntimeError, match="Caught Custom in DataLoader worker process 0(.|\n)*7: no"
    ):
        [*data.DataLoader(Fails(Custom(7, "no")), num_workers=1)]
    for broken in ({"worker_init_fn": [].index}, {"collate_fn": lambda batch: lambda: 1}):
        with pytest.raises((ValueError, AttributeError, TypeError, RuntimeError)) as raised:
            [*data.DataLoader(range(3), num_workers=1, **broken)]
        assert "DataLoader worker process 0" in str(raised.value) + "".join(
            getattr(raised.value, "__notes__", [])
        )


def dies(how):
    def init(number):
        if number == 1:
            how()

    loader = data.DataLoader(Noisy(), num_workers=3, worker_init_fn=init)
    batches = iter(loader)
    pids = [worker.process.pid for worker in batches._pool.workers]
    with pytest.raises(RuntimeError, match="DataLoader worker 1 .pid ") as raised:
        [*batches]
    assert raised.value.__suppress_context__
    assert [f.name for f in traceback.extract_tb(raised.value.__traceback__)] == ["dies"]
    assert all(map(is_gone, pids))
    with pytest.raises(RuntimeError, match="have ended"):
        next(batches)
    return str(raised.value).partition(") ")[2]


def test_a_worker_that_dies_is_named():
    assert dies(lambda: os.kill(os.getpid(), signal.SIGKILL)) == (
        "was killed by signal SIGKILL: the system does that when memory runs out"
    )
    assert dies(lambda: os.kill(os.getpid(), signal.SIGTERM)) == "was killed by signal SIGTERM"
    assert dies(lambda: os._exit(3)) == "exited unexpectedly, with exit code 3"


def test_a_worker_that_is_killed_while_it_writes():
    class Large(data.Dataset):
        def __len__(self):
            return 100

        def __getitem__(self, i):
            return np.zeros(1 << 20, np.uint8)

    batches = iter(data.DataLoader(Large(), num_workers=2, prefetch_factor=8))
    next(batches)
    os.kill(batches._pool.workers[1].process.pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="worker 1 .*SIGKILL"):
        [*batches]


def test_leaving_a_loop_ends_its_workers():
    gc.collect()
    files = set(os.listdir("/proc/self/fd"))
    shared = set(os.listdir("/dev/shm"))
    pids = []
    for end in ("break", "raise", "persistent"):
        loader = data.DataLoader(Noisy(), num_workers=2, persistent_workers=end == "persistent")
        try:
            for _ in (batches := iter(loader)):
                pids += [worker.process.pid for worker in batches._pool.workers]
                if end == "raise":
                    raise KeyError
                break
        except KeyError:
            pass
        del batches, loader
    gc.collect()
    assert len(pids) == 6 and all(map(is_gone, pids))
    assert set(os.listdir("/proc/self/fd")) == files
    assert set(os.listdir("/dev/shm")) <= shared


def test_workers_that_stay():
    loader = data.DataLoader(range(6), num_workers=2, persistent_workers=True)
    first = iter(loader)
    pids = [worker.process.pid for worker in loader._pool.workers]
    next(first)
    second = iter(loader)  # what the first has asked for is not given to the second
    assert [b.item() for b in second] == [b.item() for b in loader] == [*range(6)]
    with pytest.raises(RuntimeError, match="begun anew"):
        next(first)
    assert [worker.process.pid for worker in loader._pool.workers] == pids
    os.kill(pids[0], signal.SIGKILL)
    with pytest.raises(RuntimeError, match="worker 0 .*SIGKILL"):
        [*loader]
    assert len([*loader]) == 6  # by new ones


def test_time_runs_out(monkeypatch):
    monkeypatch.setattr(pool, "GRACE", 0.0)
    loader = data.DataLoader(
        [0.0, 60.0], num_workers=2, timeout=1, collate_fn=lambda b: time.sleep(*b)
    )
    batches = iter(loader)
    next(batches)
    pids = [worker.process.pid for worker in batches._pool.workers]
    with pytest.raises(RuntimeError, match="timed out after 1 seconds"):
        next(batches)
    batches._pool.close(0)
    assert all(map(is_gone, pids))
    slow = data.DataLoader([2.0], num_workers=1, timeout=0.1, collate_fn=lambda b: time.sleep(*b),
                           multiprocessing_context="thread")  # fmt: skip
    with pytest.raises(RuntimeError, match="timed out"):
        [*slow]


def test_no_memory_is_one_message(monkeypatch):
    def limit(number):
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

    small, large = np.zeros(1000, np.uint8), np.zeros(20_000, np.uint8)
    loader = data.DataLoader([small, large, small], num_workers=1, worker_init_fn=limit)
    batches = iter(loader)
    next(batches)
    with pytest.raises(
        OSError, match="no shared memory for 20000 bytes.*smaller batches"
    ) as raised:
        next(batches)
    assert raised.value.errno == errno.EFBIG
    assert next(batches).shape == (1, 1000)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.delattr(os, "memfd_create", raising=False)  # files of a folder then
    assert next(iter(data.DataLoader([large], num_workers=1))).shape == (1, 20_000)
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left on device") as raised:
        [*data.DataLoader([large], num_workers=2)]
    assert raised.value.errno == errno.ENOSPC


def test_many_batches_ahead_and_large_picks_wait_for_nobody():
    picks = [[0] * 20_000] * 40
    loader = data.DataLoader(
        range(1), batch_sampler=picks, num_workers=1, prefetch_factor=40, collate_fn=str
    )
    assert [len(b) for b in loader] == [60_000] * 40


class Endless(data.Dataset):
    def __len__(self):
        return 1 << 30

    def __getitem__(self, i):
        time.sleep(0.01)
        return np.zeros(5000)


def run_on(file):
    """A program that loads for ever, once it has written the numbers of its workers."""
    batches = iter(data.DataLoader(Endless(), num_workers=2))
    next(batches)
    pids = [worker.process.pid for worker in batches._pool.workers]
    os.write(file, f"{pids}\n".encode())
    for _ in batches:
        pass


def wait_for(pids):
    for _ in range(200):
        if all(map(is_gone, pids)):
            return
        time.sleep(0.05)
    raise AssertionError(f"{pids} are left")


def test_ctrl_c_is_one_message():
    code = "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += f"runpy.run_path({__file__!r})['run_on'](1)"
    program = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    pids = json.loads(program.stdout.readline())
    os.killpg(program.pid, signal.SIGINT)
    _, errors = program.communicate(timeout=60)
    assert errors.count("Traceback") == errors.count("KeyboardInterrupt") == 1, errors
    wait_for(pids)


def test_workers_end_with_their_program():
    mine, its = os.pipe()
    child = os.fork()
    if child == 0:
        run_on(its)
    pids = json.loads(os.read(mine, 100))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    wait_for(pids)
    os.close(mine), os.close(its)


def test_a_fork_in_the_middle_of_a_step():
    """Threads that run and compile do not hang the workers, which run and compile the same."""

    @jit
    def step(x, n):
        return (x @ x).sin().sum() * n

    @jit(backend="python")
    def other(x, n):
        return x[:n].sum()

    x, done = eager.rand(200, 200), threading.Event()
    expected = step(x, 2.0).item()

    def train():
        n = 0
        while not done.is_set():
            n += 1
            step(x, 2.0)
            other.reset()
            other(x, n % 100 + 1)

    class Stepping(data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return step(x, 2.0).item() + 0 * other(x, i + 1).item()

    thread = threading.Thread(target=train)
    thread.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of Python 3.12: a fork among threads
            for _ in range(4):
                loader = data.DataLoader(Stepping(), num_workers=2, timeout=60)
                assert [round(b.item() - expected, 3) for b in loader] == [0] * 4
    finally:
        done.set()
        thread.join()


def test_a_fork_waits_for_imports_and_finds_locks_open(tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text("import time\ntime.sleep(0.3)\nx = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    held, begun = locks.lock(), threading.Event()

    def work():
        with held:
            begun.set()
            importlib.import_module("slow_to_import")
            time.sleep(0.3)

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        signal.alarm(20)
        with held:
            os._exit(importlib.import_module("slow_to_import").x)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    thread.join()


def test_a_child_of_the_program_leaves_the_workers_alone():
    batches = iter(data.DataLoader(range(8), num_workers=2))
    next(batches)
    child = os.fork()
    if child == 0:
        try:
            next(batches)
        except RuntimeError as error:
            os._exit("have ended" in str(error))
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert [b.item() for b in batches] == [*range(1, 8)]


def test_steps_are_compiled_once_for_what_workers_send():
    """Loops in steps, passes that steps go on with, loaders that they make; between the parts of a
    step that are compiled."""

    def batches(workers, size=2):
        x = np.arange(8, dtype=np.float32)
        source = (
            [*map(eager.from_numpy, x.reshape(8, 1))]
            if workers
            else data.TensorDataset(eager.from_numpy(x))
        )
        return data.DataLoader(source, batch_size=size, num_workers=workers, shuffle=True)

    def epoch(loader, w):
        for batch in loader:
            w = w + (batch[0] if type(batch) is list else batch).sum()
        return w

    def go_on(batches, w):
        return w + next(batches).sum()

    def inside(workers, w):
        return epoch(batches(workers), w)

    for workers in (0, 2):
        step = jit(epoch, backend="python")
        assert [step(batches(workers), eager.zeros(())).item() for _ in range(3)] == [28] * 3
        assert step.stats.splits == 0 and step.stats.graphs <= 3, step.stats
    step, loader = jit(go_on, backend="python"), iter(batches(2))
    assert sum(step(loader, eager.zeros(())).item() for _ in range(4)) == 28
    assert step.stats.graphs == 1
    with pytest.raises(StopIteration):
        step(loader, eager.zeros(()))
    for workers in (0, 2):
        with pytest.warns(UserWarning, match="is split"):
            assert jit(inside, backend="python")(workers, eager.zeros(())).item() == 28
    again = jit(lambda x: x.sum(), backend="python")
    assert [again(pickle.loads(pickle.dumps(x))).item() for x in (eager.ones(3), eager.zeros(3))]
    arrays = [pickle.loads(pickle.dumps(np.ones(3, np.float32), 5)) for _ in range(2)]
    assert [again(make(a)).item() for make in (eager.from_numpy, eager.tensor) for a in arrays] == [
        3
    ] * 4
    assert again.stats.graphs == 1
    asked = jit(lambda x: x + (data.get_worker_info() is None), backend="python")
    assert asked(eager.zeros(())).item() == 1 and asked.stats.splits == 0


def test_options():
    for bad, error in [
        ({"num_workers": -1}, ValueError), ({"prefetch_factor": 2}, ValueError),
        ({"persistent_workers": True}, ValueError), ({"timeout": 1}, ValueError),
        ({"multiprocessing_context": "fork"}, ValueError), ({"num_workers": 1, "timeout": -1}, ValueError),
        ({"num_workers": 1, "multiprocessing_context": "forks"}, ValueError),
        ({"num_workers": 1, "multiprocessing_context": 1}, TypeError),
        ({"num_workers": 1, "prefetch_factor": 0}, ValueError),
    ]:  # fmt: skip
        with pytest.raises(error):
            data.DataLoader(range(3), **bad)
    loader = data.DataLoader(range(3), num_workers=1)
    assert (loader.prefetch_factor, len(iter(loader))) == (2, 3)
    with pytest.raises(ValueError, match="batch_size attribute should not be set"):
        loader.batch_size = 2
    with pytest.warns(UserWarning, match="has 1000 workers"):
        data.DataLoader(range(3), num_workers=1000)
    assert channel.LARGE < 1 << 16  # what a socket takes at once
