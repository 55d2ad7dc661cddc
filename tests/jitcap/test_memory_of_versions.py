"""What was compiled gives its memory back: its code is unloaded when nothing uses it any more. What is
raised gives back what its frames hold."""

import contextlib
import gc
import threading
import weakref

import pytest

import eager
import jitcap
from codegen.targets.cpp.runtime import cpu
from eager.base.process.memory import POOL
from jitcap import jit


def loaded(modules):
    """Of shared objects, those that are mapped into this process."""
    with open("/proc/self/maps") as lines:
        paths = {line.split()[-1] for line in lines}
    return [path for path in modules if path in paths]


def test_code_is_unloaded_when_nothing_uses_it(monkeypatch):
    paths = []
    load = cpu.load
    monkeypatch.setattr(cpu, "load", lambda path: paths.append(str(path.resolve())) or load(path))
    step = jit(lambda x, w: (x * w).tanh().sum() * 3)
    w = eager.ones(64, requires_grad=True)
    y = step(eager.ones(64), w)
    kept = step(eager.ones(2, 64), eager.ones(64))
    known, first = kept.item(), set(paths)
    assert len(first) == 2
    assert len(loaded(first)) == 2
    step.reset()
    gc.collect()
    assert loaded(first) == []
    y.backward(retain_graph=True)  # compiled now
    gradient = w.grad.tolist()
    assert len(loaded(paths)) == 1
    jitcap.reset()
    gc.collect()
    assert len(loaded(paths)) == 1, "the history of y goes on in it"
    w.grad = None
    y.backward()
    assert w.grad.tolist() == gradient
    del y
    gc.collect()
    assert loaded(paths) == []
    assert kept.item() == known
    assert step(eager.ones(2, 64), eager.ones(64)).item() == known


def test_reset_in_the_middle_of_calls():
    step = jit(lambda x: (x * 2).exp().sum(1))
    x = eager.ones(300, 400)
    expected = step(x).tolist()
    found = []

    def calls():
        for _ in range(30):
            found.append(step(x).tolist() == expected)

    threads = [threading.Thread(target=calls) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        jitcap.reset()
        gc.collect()
    assert len(found) == 90
    assert all(found)
    jitcap.reset()
    assert POOL.held() == 0


def test_a_compile_leaves_nothing_frozen():
    gc.unfreeze()  # the tests froze what there was
    try:
        assert jit(lambda x: x + 1, backend="eager")(eager.ones(1)).item() == 2
        assert gc.get_freeze_count() == 0
    finally:
        gc.freeze()


@pytest.mark.parametrize("backend", ["cpp", "eager"])
def test_frames_of_what_is_raised_are_in_no_cycle(backend):
    """What they hold goes with the exception, as under plain Python, and waits for no collection."""

    @jit(backend=backend)
    def positive(x):
        if x.sum() < 0:
            raise ValueError("below")
        return x * 2

    class Held:
        pass

    def fails():
        held = Held()
        seen.append(weakref.ref(held))
        positive(-eager.ones(3))

    seen = []
    positive(eager.ones(3))
    gc.disable()
    try:
        for _ in range(3):
            with contextlib.suppress(ValueError):
                fails()
        assert [ref() for ref in seen] == [None] * 3
    finally:
        gc.enable()
