"""`jit(mode="background")`: plain calls until the version is there, and then compiled ones. What is
compiled is held up by an Event, so that the order of things is known."""

import contextlib
import copy
import gc
import io
import os
import sys
import threading
import warnings

import numpy as np
import pytest

import codegen
import eager
import jitcap
from codegen.runtime import beside, progress
from eager import nn
from jitcap import JitcapWarning, background, config, explain, jit, stance
from jitcap.base import later
from jitcap.base.breaks import Break
from jitcap.versions.version import STANCE


class Gate:
    """Holds up all that is compiled in the background until it is opened; counts what was begun."""

    def __init__(self):
        self.opened, self.begun, self.captures = threading.Event(), [], []
        self.inside = threading.Event()  # a compile has come to it

    def open(self):
        self.opened.set()


@pytest.fixture
def gate(monkeypatch):
    held = Gate()
    make, capture = background.make, background.capture_call

    def make_later(captured, *rest):
        held.begun.append(threading.current_thread().name)
        held.inside.set()
        assert held.opened.wait(60)
        return make(captured, *rest)

    def capture_counted(*args):
        held.captures.append(args[0])
        return capture(*args)

    monkeypatch.setattr(background, "make", make_later)
    monkeypatch.setattr(background, "capture_call", capture_counted)
    yield held
    held.open()


def in_background(fn, **options):
    return jit(fn, mode="background", **{"backend": "eager", **options})


def finished(step):
    """Wait for what is compiled, and say that this is over."""
    step.wait()
    assert step.stats.pending == 0


def test_calls_run_plainly_until_the_version_is_there(gate):
    state = {"n": 0}

    def step(x):
        state["n"] += 1
        return x * state["n"]

    fn = in_background(step)
    x = eager.ones(3)
    for i in range(1, 4):
        assert fn(x).tolist() == [i] * 3
        assert state["n"] == i, "its effects once"
    assert (fn.stats.calls, fn.stats.compiles, fn.stats.fallbacks) == (3, 0, 0)
    assert fn.stats.pending == 1
    assert "1 pending" in str(fn.stats)
    assert not fn.is_compiled()
    assert gate.inside.wait(60)
    assert gate.begun == ["jitcap-background"]
    gate.open()
    finished(fn)
    assert state["n"] == 3, "compiling runs nothing"
    assert fn(x).tolist() == [4] * 3
    assert (fn.stats.calls, fn.stats.compiles, fn.is_compiled()) == (4, 1, True)
    assert len(gate.captures) == len(gate.begun) == 1
    assert [e.call for e in fn.stats.history] == [4], "the call that switched"
    assert "pending" not in str(fn.stats)


def build(mode, p=0.4):
    eager.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Dropout(p), nn.Linear(16, 3))
    optimizer = eager.optim.Adam(model.parameters(), lr=0.02)

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return model, jit(step, mode=mode, backend="cpp")


def test_a_training_step_has_the_losses_and_draws_of_a_synchronous_one(gate):
    x, y = eager.randn(8, 6), eager.randint(0, 3, (8,))
    found = []
    for mode in (None, "background"):
        model, step = build(mode)
        losses = []
        for i in range(8):
            if i == 4 and mode:
                gate.open()
                finished(step)
            losses.append(step(x, y).item())
        assert step.stats.compiles == 1
        found.append((losses, [p.detach().numpy() for p in model.parameters()], eager.rand(3)))
    (losses, weights, drawn), (own, own_weights, own_drawn) = found
    np.testing.assert_allclose(own, losses, rtol=1e-4)
    for a, b in zip(own_weights, weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    assert own_drawn.tolist() == drawn.tolist(), "the generator stands where it would"


def test_calls_alike_are_captured_once(gate):
    fn = in_background(lambda x: x + 1)
    together = threading.Barrier(4)

    def work():
        together.wait()
        for _ in range(3):
            assert fn(eager.ones(2)).tolist() == [2, 2]

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert (fn.stats.calls, len(gate.captures)) == (12, 1)
    gate.open()
    finished(fn)
    threads = [threading.Thread(target=lambda: fn(eager.ones(2))) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert (fn.stats.calls, fn.stats.compiles, len(gate.captures)) == (16, 1, 1)


def test_what_changes_meanwhile_is_another_version(gate):
    state = {"scale": (2, 3)}
    fn = in_background(lambda x: x * state["scale"][0])
    x = eager.ones(2)
    assert fn(x).tolist() == [2, 2]
    state["scale"] = ("no number", 1)
    with pytest.raises(TypeError):
        fn(x)
    state["scale"] = (5.0, 3)
    gate.open()
    finished(fn)
    assert fn(x).tolist() == [5, 5]
    finished(fn)
    assert fn(x).tolist() == [5, 5]
    state["scale"] = (2, 3)
    assert fn(x).tolist() == [2, 2], "the first version was not forgotten"
    assert fn.stats.compiles == 2
    assert fn.stats.recompiles


def of_array(kind):
    return np.array([[1, 0], [0, 1]], kind), lambda a: a.__setitem__((0, 0), 0)


CHANGING = {  # what a step reads, how it is changed, and the step
    "sums": ([0], lambda v: v.__setitem__(0, 1), lambda x, v: x.sum(v)),
    "orders": ([1, 0], lambda v: v.reverse(), lambda x, v: x.permute(v) * 2),
    "shapes": ([4, 1], lambda v: v.reverse(), lambda x, v: x.reshape(v) * 2),
    "shapes in a call": ([4, 1], lambda v: v.reverse(), lambda x, v: x.reshape(*v) * 2),
    "rows": ([1, 1], lambda v: v.__setitem__(0, 0), lambda x, v: x[v]),
    "pads": ([1, 0], lambda v: v.reverse(), lambda x, v: nn.functional.pad(x, v)),
    "numbers": ([1.0, 2.0], lambda v: v.reverse(), lambda x, v: x * eager.tensor(v)),
    "scalars": ({"a": 2.0}, lambda v: v.update(a=3.0), lambda x, v: x * v["a"]),
    "parts": ([1, 1], lambda v: v.__setitem__(slice(None), [2, 0]), lambda x, v: x.split(v)[0].sum()),
    "rolled": ([1, 0], lambda v: v.reverse(), lambda x, v: x.roll(v, [0, 1])),
    "flipped": ([0], lambda v: v.__setitem__(0, 1), lambda x, v: x.flip(v)),
    "repeated": ([1, 2], lambda v: v.reverse(), lambda x, v: x.repeat(v)),
    "NumPy's floats": (*of_array(np.float32), lambda x, v: x * eager.tensor(v)),
    "NumPy's memory": (*of_array(np.float32), lambda x, v: x * eager.from_numpy(v)),
    "NumPy's rows": (*of_array(np.int64), lambda x, v: x[eager.tensor(v)]),
    "NumPy's truths": (*of_array(bool), lambda x, v: eager.where(eager.tensor(v), x, 0)),
    "tensors": (eager.ones(2), lambda v: v.zero_(), lambda x, v: x * v),
    "norms": ([2], lambda v: v.__setitem__(0, 1), lambda x, v: nn.functional.layer_norm(x, v[:] if v == [2] else [2, 2])),
    "equations": (["ij,jk"], lambda v: v.__setitem__(0, "ij,kj"), lambda x, v: eager.einsum(v[0], x, x)),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGING)
@pytest.mark.parametrize("backend", ["eager", "cpp"])
def test_what_is_changed_while_it_is_compiled_and_put_back(gate, name, backend):
    """The graph has the values of the call that was captured, in no memory of the program's."""
    held, change, step = CHANGING[name]
    held, before = copy.deepcopy(held), copy.deepcopy(held)
    fn = in_background(lambda x: step(x, held), backend=backend)
    x = eager.tensor([[1.0, 2.0], [3.0, 4.0]])
    want = step(x, held).tolist()
    assert fn(x).tolist() == want
    change(held)
    gate.open()
    fn.wait()
    if isinstance(held, list):
        held[:] = before
    elif isinstance(held, dict):
        held.update(before)
    elif isinstance(held, np.ndarray):
        held[...] = before
    else:
        held.copy_(before)
    assert fn(x).tolist() == want
    assert fn.stats.compiles == 1 or fn.stats.splits
    change(held)
    other = step(x, held).tolist()
    assert other != want
    for _ in range(2):
        assert fn(x).tolist() == other
        fn.wait()


def test_sizes_that_vary_become_symbols_while_the_first_is_compiled(gate):
    fn = in_background(lambda x: (x * 2).sum(), backend="cpp")
    for n in (3, 4, 5, 3):
        assert fn(eager.ones(n)).item() == 2 * n
    assert len(gate.captures) == 2
    assert len(fn.stats.recompiles) == 1
    assert fn.stats.pending == 2
    gate.open()
    finished(fn)
    for n in (3, 4, 7, 9):
        assert fn(eager.ones(n)).item() == 2 * n
    assert (fn.stats.compiles, len(gate.captures)) == (1, 2), "the second serves them all"


def test_symbols_that_do_not_compile_are_left_out(gate, monkeypatch):
    make = background.make

    def refused(captured, *rest):
        made = make(captured, *rest)
        if captured.graph.has_symbols:
            raise RuntimeError("planted")
        return made

    monkeypatch.setattr(background, "make", refused)
    fn = in_background(lambda x: (x * 2).sum())
    gate.open()
    for n in (3, 3, 4, 4, 4, 4):
        assert fn(eager.ones(n)).item() == 2 * n
        fn.wait()
    assert fn.stats.compiles == 2
    assert not fn.stats.refusals


def test_refusals_of_capture_come_at_the_call():
    @jit(mode="background", fullgraph=True)
    def fn(x):
        return [-x, x][int(x.sum() > 0)]

    with pytest.raises(Break):
        fn(eager.ones(3))
    with stance("fail_on_split"), pytest.raises(Break):
        jit(fn.original, mode="background")(eager.ones(3))


def test_the_programs_error_is_pythons_own(gate):
    fn = in_background(lambda x: x.reshape(7))
    with pytest.raises(RuntimeError):
        fn(eager.ones(3))
    assert not gate.captures[1:]


def test_a_split_function_says_that_its_parts_do_not_wait(gate):
    def fn(x):
        return [-x, x][int(x.sum() > 0)] + 1

    step = in_background(fn)
    with pytest.warns(JitcapWarning) as said:
        assert step(eager.ones(2)).tolist() == [2, 2]
    assert sum("not in the background" in str(w.message) for w in said) == 1
    assert step.stats.compiles > 0


def test_a_fault_of_the_compiler_is_said_once_and_the_program_goes_on(gate, monkeypatch):
    def planted(*_):
        raise ValueError("planted")

    monkeypatch.setattr(background, "make", planted)
    fn = in_background(lambda x: x + 1)
    with config(strict=False, check=False):
        fn(eager.ones(2))
        fn.wait()
        with pytest.warns(JitcapWarning, match="planted") as said:
            assert fn(eager.ones(2)).tolist() == [2, 2]
        assert said[0].filename == __file__
        assert fn.stats.fallbacks == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(4):
                fn.wait()
                fn(eager.ones(2))
    with config(strict=True):
        again = in_background(lambda x: x + 2)
        again(eager.ones(2))
        again.wait()
        with pytest.raises(ValueError, match="planted"):
            again(eager.ones(2))


def test_code_that_cannot_be_made_runs_op_by_op_which_is_said_at_the_users_line(monkeypatch):
    monkeypatch.setenv("CXX", "/nowhere/c++")
    monkeypatch.setenv("JITCAP_CACHE_DIR", "")
    fn = in_background(lambda x: (x * 3).tanh(), backend="cpp")
    x = eager.ones(2)
    want = (x * 3).tanh().tolist()
    assert fn(x).tolist() == want
    fn.wait()
    with pytest.warns(JitcapWarning, match="op by op") as said:
        assert fn(x).tolist() == want
    assert said[0].filename == __file__
    assert fn.stats.compiles == 1


def test_reset_gives_up_what_is_compiled(gate):
    fn = in_background(lambda x: x + 1)
    fn(eager.ones(2))
    assert gate.inside.wait(60)
    other = in_background(lambda x: x + 2)
    other(eager.ones(2))  # waits for its turn
    task = other.stats.tasks[0]
    other.reset()
    fn.reset()
    gate.open()
    task.wait()
    assert task.is_lost
    assert len(gate.begun) == 1, "what had not begun never does"
    assert fn(eager.ones(2)).tolist() == [2, 2]
    assert fn.stats.compiles == 0
    jitcap.reset()
    assert fn(eager.ones(2)).tolist() == [2, 2]


def test_settings_are_those_of_the_call(gate):
    fn = jit(lambda x: x + 1, mode="background")
    with config(backend="python"):
        fn(eager.ones(2))
    gate.open()
    finished(fn)
    fn(eager.ones(2))
    (made,) = fn._entries.compiled.values()
    assert made.executable.backend == "python"
    assert config.backend == ""


def test_the_default_dtype_is_set_meanwhile(gate):
    fn = in_background(lambda x: x / 2)
    x = eager.tensor([1, 2])
    fn(x)
    try:
        eager.set_default_dtype(eager.float64)
    finally:
        eager.set_default_dtype(eager.float32)
    gate.open()
    fn.wait()
    assert fn(x).dtype is eager.float32, "it may have been compiled for doubles"
    assert len(gate.captures) == 2
    finished(fn)
    fn(x)
    assert fn.stats.compiles == 1


def test_what_a_plain_call_calls_is_not_compiled(gate):
    inner = jit(lambda x: x + 1, backend="eager")
    fn = in_background(lambda x: inner(x) * 2)
    assert fn(eager.ones(2)).tolist() == [4, 4]
    assert (inner.stats.compiles, STANCE.get()) == (0, "default")
    gate.open()
    finished(fn)
    assert fn(eager.ones(2)).tolist() == [4, 4]
    assert (fn.stats.graphs, inner.stats.compiles) == (1, 0)


@pytest.mark.parametrize("backend", ["eager", "cpp"])
def test_a_backward_outside_is_compiled_in_the_background_too(gate, backend):
    def gradient(call, w, x):
        w.grad = None
        call(w, x).sum().backward()
        return w.grad.numpy()

    plain = lambda w, x: (w * x).tanh() * w
    fn = in_background(plain, backend=backend)
    w, x = eager.randn(5, requires_grad=True), eager.randn(5)
    want = gradient(plain, w, x)
    for opens in (False, True, False):
        np.testing.assert_allclose(gradient(fn, w, x), want, rtol=1e-5)
        if opens:
            gate.open()
        fn.wait() if gate.opened.is_set() else None
    (region,) = [m.trail for m in fn._entries.compiled.values()]
    fn.wait()
    np.testing.assert_allclose(gradient(fn, w, x), want, rtol=1e-5)
    assert not fn.stats.tasks
    assert fn.stats.compiles == 1
    assert not fn.stats.refusals
    assert any(name.startswith("graph 2") for name in region.texts), "the backward was compiled"


def test_ranks_that_come_later_wait(gate, monkeypatch):
    """A job begun before there were other ranks is waited for: its version is there at one call."""
    fn = in_background(lambda x: x + 1)
    fn(eager.ones(2))
    monkeypatch.setattr(later, "is_alone", lambda: False)
    gate.open()
    with pytest.warns(JitcapWarning, match="several ranks"):
        assert fn(eager.ones(2)).tolist() == [2, 2]
    assert (fn.stats.compiles, fn.stats.tasks) == (1, [])
    other = in_background(lambda x: x + 3)
    assert other(eager.ones(2)).tolist() == [4, 4]
    assert other.stats.compiles == 1


def test_forms_and_options(gate):
    gate.open()

    class Counter:
        @jit(mode="background", backend="eager")
        def step(self, x):
            self.calls = getattr(self, "calls", 0) + 1
            return x * 2

    counter, model = Counter(), nn.Linear(2, 2)
    assert jit(model, mode="background", backend="eager") is model
    x = eager.ones(2)
    want = model.forward.original(x).tolist()
    for _ in range(3):
        assert counter.step(x).tolist() == [2, 2]
        assert model(x).tolist() == want
        model.forward.wait()
        counter.step.wait()
    assert counter.calls == 3
    assert model.forward.stats.compiles == 1
    verified = in_background(lambda x: x * 2, verify=True)
    sized = in_background(lambda x: x.sum(), dynamic=True)
    for n in (3, 4, 5):
        assert verified(x).tolist() == [2, 2]
        assert sized(eager.ones(n)).item() == n
        verified.wait()
        sized.wait()
    assert (verified.stats.compiles, sized.stats.compiles) == (1, 1)


def test_modes_that_are_not_there():
    for mode in ("fast", 3, ""):
        with pytest.raises(ValueError, match=r"unknown mode .*there are None and 'background'"):
            jit(lambda x: x, mode=mode)
    with pytest.raises(ValueError, match=r"unknown mode 'max-autotune'.*eager.compile"):
        jit(mode="max-autotune")
    with pytest.raises(ValueError, match="check_nans=True looks at every call"):
        jit(lambda x: x, mode="background", check_nans=True)


def test_what_shows_it(gate, capsys):
    fn = in_background(lambda x: x + 1)
    x = eager.ones(2)
    with config(debug=1):
        fn(x)
        assert "1 more versions are being compiled" in str(fn.explanation())
        gate.open()
        finished(fn)
        assert not capsys.readouterr().err
        fn(x)
    assert "in the background" in capsys.readouterr().err
    assert "more versions" not in str(fn.explanation())
    assert explain(fn)(x).graphs, "it explains at once"


def test_the_program_does_not_notice(gate, monkeypatch):
    """Its terminal is its own, and its garbage is collected."""
    seen = []
    make = background.make

    def looked_at(*args):
        made = make(*args)
        with progress.shown("step"):
            seen.append((gc.isenabled(), beside.is_here()))
        return made

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(background, "make", looked_at)
    fn = in_background(lambda x: x + 1)
    fn(eager.ones(2))
    monkeypatch.setattr(sys, "stderr", Terminal())
    gate.open()
    fn.wait()
    assert seen == [(True, True)]
    assert not sys.stderr.getvalue()
    assert not beside.is_here()


def test_deep_calls_are_the_programs(gate, monkeypatch):
    """Where the program recurses without end, that ends at its own limit also while something is
    compiled; what compiling has no room for then is done where it is waited for."""
    limits, wheres = [], []
    run_body = codegen.run_body

    def watched(*args):
        limits.append(sys.getrecursionlimit())
        wheres.append(beside.is_here())
        if beside.is_here():
            raise RecursionError("planted")
        return run_body(*args)

    monkeypatch.setattr(codegen, "run_body", watched)
    limit = sys.getrecursionlimit()
    fn = in_background(lambda w: (w * w).sum(), backend="python")
    w = eager.tensor([1.0, 2.0], requires_grad=True)
    assert fn(w).item() == 5
    gate.open()
    for _ in range(3):
        fn.wait()
        w.grad = None
        fn(w).backward()
        assert w.grad.tolist() == [2, 4]
    assert wheres[:2] == [True, False]
    assert limits[0] == limit
    assert limits[1] > limit
    assert sys.getrecursionlimit() == limit
    assert fn.stats.compiles == 1
    assert not fn.stats.refusals


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # 3.12: threads, and a fork
def test_a_forked_process_compiles_for_itself(gate):
    fn = in_background(lambda x: x + 1)
    fn(eager.ones(2))
    assert gate.inside.wait(60)
    pid = os.fork()
    if pid == 0:
        status = 1
        with contextlib.suppress(BaseException):
            gate.open()
            fn.wait()
            right = fn(eager.ones(2)).tolist() == [2, 2]
            fn.wait()
            right = right and fn(eager.ones(2)).tolist() == [2, 2] and fn.stats.compiles == 1
            status = int(not right)
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    gate.open()
    finished(fn)
    fn(eager.ones(2))
    assert fn.stats.compiles == 1


def test_a_version_on_disk_is_loaded_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("JITCAP_CACHE_DIR", str(tmp_path))
    fn = jit(kept, mode="background")
    with config(check=False):
        fn(eager.ones(3))
        fn.wait()
        fn(eager.ones(3))
        again = jit(kept, mode="background")
        assert again(eager.ones(3)).tolist() == [5, 5, 5]
    assert (again.stats.compiles, again.stats.tasks) == (1, [])


def kept(x):
    return x * 2 + 3
