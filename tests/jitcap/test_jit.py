"""What users call: every form of `jit`, what it leaves unchanged, stances, threads, records."""

import copy
import functools
import math
import pickle
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import eager
import jitcap
from jitcap import JitcapWarning, config, disable, explain, jit, stance
from jitcap.base.breaks import Break


def floats(*shape, seed=0, grad=False):
    data = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return eager.tensor(data, requires_grad=grad)


def same(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


def scaled(x, y=2.0, *, shift=0):
    """A docstring."""
    return x * y + shift


jitted = jit(scaled)


@pytest.mark.smoke
def test_a_function_computes_the_same():
    x = floats(5)
    for args, kwargs in (((x,), {}), ((x, 3.0), {}), ((x, x), {"shift": 1}), ((), {"x": x})):
        same(jitted(*args, **kwargs), scaled(*args, **kwargs))


def test_forms():
    @jit
    def bare(x):
        return x + 1

    @jit(backend="eager")
    def with_options(x):
        return x + 1

    x = floats(3)
    for fn in (bare, with_options, jit(lambda x: x + 1), jit(backend="python")(bare.original)):
        same(fn(x), x + 1)


def test_it_looks_like_the_function():
    assert jitted.__name__ == "scaled"
    assert jitted.__doc__ == "A docstring."
    assert jitted.original is scaled
    assert jitted.__wrapped__ is scaled


def test_pickle_and_copy():
    again = pickle.loads(pickle.dumps(jit(np.add)))
    assert again.original is np.add
    assert copy.deepcopy(jitted).original is scaled


@jit
def decorated(x):
    return x * 3


def test_a_decorated_function_is_pickled_by_its_name():
    """As the function would be, so that it can be sent to another process."""
    counter = Counter(2)
    counter.step(eager.ones(2))
    for fn in (decorated, Counter.step):
        assert pickle.loads(pickle.dumps(fn)) is fn
    again = pickle.loads(pickle.dumps(counter.step))
    assert again(eager.ones(2)).tolist() == [2.0, 2.0]
    assert again.__self__.calls == 2
    assert pickle.loads(pickle.dumps(jitted)).original is scaled


class Counter:
    def __init__(self, by):
        self.by = by
        self.calls = 0

    @jit
    def step(self, x):
        self.calls += 1
        return x * self.by

    def __call__(self, x):
        return x + self.by


def test_methods_bind_and_change_their_object():
    a, b = Counter(2.0), Counter(3.0)
    x = floats(4)
    for _ in range(3):
        same(a.step(x), x * 2)
        same(b.step(x), x * 3)
    assert (a.calls, b.calls) == (3, 3)


def test_callable_objects():
    counter = Counter(2.0)
    fn = jit(counter)
    same(fn(floats(3)), floats(3) + 2)
    counter.by = 5.0
    same(fn(floats(3)), floats(3) + 5)


class Tools:
    @jit
    @staticmethod
    def double(x):
        return x * 2

    @classmethod
    @jit
    def triple(cls, x):
        return x * 3 + (cls is Tools)


def test_static_and_class_methods():
    same(Tools.double(floats(3)), floats(3) * 2)
    same(Tools().double(floats(3)), floats(3) * 2)
    same(Tools().triple(floats(3)), floats(3) * 3 + 1)


def test_a_class_is_refused():
    with pytest.raises(TypeError, match="jit its methods"):
        jit(Tools)


def test_not_callable():
    with pytest.raises(TypeError, match="something to call"):
        jit(3)


def test_unknown_backend():
    with pytest.raises(ValueError, match="cpp, triton, python, eager"):
        jit(scaled, backend="fortran")


def test_guards_recompile_and_say_why():
    fn = jit(scaled)
    fn(floats(3))
    fn(floats(4))
    fn(floats(3))
    assert fn.stats.compiles == 2
    assert fn.stats.calls == 3
    assert "[3]" in str(fn.stats.recompiles[0])
    assert "[4]" in str(fn.stats.recompiles[0])


def test_a_float_never_recompiles():
    fn = jit(scaled)
    x = floats(3)
    for i in range(20):
        same(fn(x, 0.1 * i), x * (0.1 * i))
    assert fn.stats.compiles == 1


def test_an_int_that_varies_becomes_a_run_time_number():
    fn = jit(scaled)
    x = floats(3)
    for i in range(10):
        same(fn(x, i), x * i)
    assert fn.stats.compiles <= 2


def test_reset():
    fn = jit(scaled)
    fn(floats(3))
    fn.reset()
    assert fn.stats.calls == 0
    same(fn(floats(3)), scaled(floats(3)))
    jitcap.reset()
    assert fn.stats.compiles == 0


def test_stance_eager_runs_the_function_itself():
    seen = []

    def fn(x):
        seen.append(type(x._array))
        return x + 1

    j = jit(fn)
    with stance("eager"):
        j(floats(2))
    assert seen == [np.ndarray]
    assert j.stats.calls == 0
    with pytest.raises(ValueError, match="unknown stance"), stance("lazy"):
        pass


def test_stance_fail_on_recompile():
    fn = jit(scaled)
    fn(floats(3))
    with stance("fail_on_recompile"), pytest.raises(RuntimeError, match="expected"):
        fn(floats(4))


def test_a_split_is_said_once():
    def fn(x):
        return [-x, x][int(x.sum() > 0)]

    j = jit(fn)
    with pytest.warns(JitcapWarning, match="data dependent"):
        same(j(floats(3)), fn(floats(3)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(5):
            same(j(-floats(3)), fn(-floats(3)))
    assert (j.stats.splits, j.stats.fallbacks) == (1, 0)


def test_fullgraph_raises_with_the_place():
    @jit(fullgraph=True)
    def fn(x):
        return [-x, x][int(x.sum() > 0)]

    with pytest.raises(Break):
        fn(floats(3))


def test_disabled_functions_run_plainly():
    seen = []

    @disable
    def log(x):
        seen.append(float(x.sum().item()))

    def fn(x):
        y = x * 2
        log(y)
        return y + 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", JitcapWarning)
        same(jit(fn)(floats(3)), floats(3) * 2 + 1)
    assert len(seen) == 1


def test_the_users_error_is_pythons_own():
    def fn(x, n):
        if n > 2:
            raise ValueError(f"too many: {n}")
        return x.reshape(n, -1)

    j = jit(fn)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="too many: 3"):
            j(floats(4), 3)
        with pytest.raises(RuntimeError):
            jit(lambda x: x.reshape(3, 3))(floats(4))
        same(j(floats(4), 2), fn(floats(4), 2))


def test_jit_inside_jit_is_one_graph():
    inner = jit(scaled)
    outer = jit(lambda x: inner(x) + inner(x, 3.0))
    same(outer(floats(3)), floats(3) * 5)
    assert outer.stats.graphs == 1
    assert inner.stats.compiles == 0


def test_recursion():
    @jit
    def power(x, n):
        return x if n == 0 else power(x, n - 1) * 2

    same(power(floats(3), 4), floats(3) * 16)


def test_gradients_flow_through_a_compiled_forward():
    def fn(x, w):
        return (x * w).tanh() * w

    def gradients(call):
        x, w = floats(4, 3), floats(3, seed=1, grad=True)
        call(x, w).sum().backward()
        return w.grad

    j = jit(fn)
    for _ in range(2):
        same(gradients(j), gradients(fn))
    with eager.no_grad():
        assert not j(floats(4, 3), floats(3, grad=True)).requires_grad


def test_saved_values_that_are_also_returned():
    def fn(x, w):
        mask = x > 0
        scale = x.exp()
        y = (w * scale).exp()
        return (y * mask).sum(), mask, scale, y

    def gradient(call):
        x, w = floats(4, 3), floats(3, seed=1, grad=True)
        total, mask, scale, y = call(x, w)
        (total + y.sum()).backward()
        return w.grad, mask, scale

    for a, b in zip(gradient(jit(fn)), gradient(fn), strict=True):
        same(a, b)


def test_a_returned_value_changed_before_backward():
    """Eager refuses, because it saved the value; a recomputed one is right either way."""

    def fn(w):
        return (w * 2).exp()

    w = floats(3, grad=True)
    y = jit(fn)(w)
    with eager.no_grad():
        y.add_(1)
    refusal = ""
    try:
        y.sum().backward()
    except RuntimeError as error:
        refusal = str(error)
    if refusal:
        assert "modified by an inplace operation" in refusal
    else:
        same(w.grad, 2 * (w * 2).exp())


def test_a_parameter_given_other_data_has_its_gradient():
    """`p.data = x` inside: the old values are not read, and the gradient still goes to `p`."""

    def fn(p, x):
        p.data = x * 2
        return (p * p).sum()

    for call in (jit(fn, backend="eager"), fn):
        p = floats(3, grad=True)
        for i in range(2):
            call(p, floats(3, seed=i)).backward()
        same(p.grad, 4 * floats(3, seed=0) + 4 * floats(3, seed=1))


@pytest.mark.parametrize("backend", ["cpp", "python"])
def test_an_old_value_is_read_before_its_memory_is_written(backend):
    """Whatever the order of the results in one kernel: `b` is kept and written over `a`."""

    def fn(a, c, x):
        b, d = x * 2, x * 3
        moved, chosen = a + b, eager.where(x > 0, c, d)
        a.copy_(b)
        c.copy_(d)
        return b, moved, d, chosen

    mine, plain = ([floats(5, 7, seed=7), floats(5, 7, seed=8)] for _ in range(2))
    compiled = jit(fn, backend=backend)
    for i in range(2):
        x = floats(5, 7, seed=i + 1)
        for one, other in zip(compiled(*mine, x), fn(*plain, x), strict=True):
            same(one, other)
        for one, other in zip(mine, plain, strict=True):
            same(one, other)


def test_rows_picked_from_blocks_side_by_side():
    """Which block an element comes from differs by lane, its row does not: both decide what is
    read."""

    def fn(x, y, rows):
        left, right = eager.stack([x * 2, x * 3]), eager.stack([y * 2, y * 3])
        return eager.cat([left, right], -1).reshape(-1, 4).index_select(0, rows)

    given = floats(2, 2), floats(2, 2, seed=1), eager.tensor([0, 1, 3])
    same(jit(fn)(*given), fn(*given))


def test_a_step_with_its_backward_inside():
    class Model:
        def __init__(self):
            self.w = floats(3, 2, grad=True)
            self.lr = 0.5
            self.losses = []

        def step(self, x):
            loss = (x.matmul(self.w) ** 2).mean()
            loss.backward()
            with eager.no_grad():
                self.w -= self.lr * self.w.grad
            self.w.grad = None
            self.losses.append(loss)
            return loss

    plain, compiled = Model(), Model()
    step = jit(compiled.step)
    for i in range(5):
        plain.lr = compiled.lr = 0.5 / (i + 1)
        same(step(floats(4, 3, seed=i)), plain.step(floats(4, 3, seed=i)))
    same(compiled.w, plain.w)
    assert len(compiled.losses) == 5
    assert step.stats.compiles == 1


def test_threads_compile_once():
    fn = jit(scaled)
    results, barrier = [None] * 8, threading.Barrier(8)

    def work(i):
        barrier.wait()
        for _ in range(20):
            results[i] = fn(floats(6, seed=i))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i, result in enumerate(results):
        same(result, scaled(floats(6, seed=i)))
    assert fn.stats.compiles == 1


def test_verify_finds_nothing_to_complain_about():
    same(jit(scaled, verify=True)(floats(5)), scaled(floats(5)))


def test_check_nans_names_the_line():
    @jit(check_nans=True)
    def fn(x):
        y = x + 1
        return y.log() * 2

    same(fn(floats(3) * 0), floats(3) * 0)
    with pytest.raises(FloatingPointError, match=r"log makes the first NaN, at .*test_jit"):
        fn(floats(3) * 0 - 5)


def test_the_limit_of_versions_is_said():
    fn = jit(scaled, dynamic=False)

    def many_shapes():
        for n in range(1, 12):
            same(fn(floats(n)), scaled(floats(n)))

    with config(entries=3), pytest.warns(JitcapWarning, match="3 versions are kept"):
        many_shapes()
    assert fn.stats.compiles == 3 + 4  # at the 1st, 2nd, 4th and 8th miss beyond
    assert fn.stats.fallbacks == 4
    assert len(fn.stats.recompiles) == 2 + 4  # a call that runs plainly leaves nothing behind
    same(fn(floats(11)), scaled(floats(11)))
    assert fn.stats.compiles == 7


def test_explain():
    e = explain(scaled)(floats(3))
    assert {"graph", "passes", "program", "loops", "fused", "plan", "source"} <= set(e.stages)
    assert "ops.mul" in e.stages["graph"]
    assert e.guards
    assert len(e.kernels) == 1
    assert "── source" in str(e)


def test_explain_shows_splits_and_parts():
    def fn(x):
        y = x * 2
        y = [y, y + 1][int(y.sum() > 0)]
        return y * 3

    with pytest.warns(JitcapWarning, match="split"):
        e = explain(fn)(floats(3).abs())
    assert len(e.splits) == 1
    assert "int(y.sum() > 0)" in str(e.splits[0])
    assert len(e.graphs) == 2
    with pytest.raises(Break):
        explain(fn, fullgraph=True)(floats(3))


def trained(x, layer, optimizer):
    optimizer.zero_grad()
    h = layer(x)
    for row in x:
        h = (h + row.sum()).tanh()
    loss = h.sum() / x.shape[0]
    if loss > 3:
        loss = loss * 2
    loss.backward()
    optimizer.step()
    return loss


def test_dump_writes_files_that_run(tmp_path, capsys):
    """With the checks of an optimizer, symbols, a branch and a loop."""
    import runpy

    with config(dump=str(tmp_path)):
        jit(scaled)(floats(3))
        layer = eager.nn.Linear(2, 3)
        step = jit(trained, dynamic=True)
        step(eager.randn(20, 2), layer, eager.optim.AdamW(layer.parameters()))
    assert step.stats.splits == 0
    files = sorted(tmp_path.rglob("*.py"))
    assert len(files) > 10
    for path in files:
        runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.count("tensor(") > 10
    kinds = {path.suffix for path in tmp_path.rglob("*.*")}
    assert kinds == {".py", ".cpp", ".txt", ".html"}


def test_debug_levels(capsys):
    with config(debug=6):
        jit(lambda x: x * 1 + 2)(floats(3))
    text = capsys.readouterr().err
    assert "kernels" in text
    assert "ops.add" in text
    assert "simplify" in text


def root_or_one(x):
    try:
        return math.sqrt(x.sum().item())
    except ValueError:
        return 1.0


def test_a_run_that_is_given_up_is_announced_once():
    step = jit(root_or_one, backend="eager")
    assert step(eager.tensor([4.0])) == 2.0
    with pytest.warns(JitcapWarning, match="failed check") as said:
        assert [step(-eager.ones(1)) for _ in range(2)] == [1.0, 1.0]
    assert step.stats.discards == 2
    assert len(said) == 1
    assert Path(said[0].filename).samefile(__file__)


def test_a_run_that_is_given_up_to_raise_says_nothing():
    step = jit(lambda x: math.sqrt(x.sum().item()), backend="eager")
    assert step(eager.tensor([4.0])) == 2.0
    with pytest.raises(ValueError, match="math domain error|nonnegative"):
        step(-eager.ones(1))
    assert step.stats.discards == 1


def test_nothing_that_is_given_up_runs_plainly_under_fullgraph():
    step = jit(root_or_one, backend="eager", fullgraph=True)
    assert step(eager.tensor([4.0])) == 2.0
    with pytest.raises(Break, match="failed check") as caught:
        step(-eager.ones(1))
    assert "test_jit.py" in caught.value.record().place.file
    assert step(eager.tensor([9.0])) == 3.0


def test_a_cache_is_not_filled_under_fullgraph():
    calls = []

    @functools.lru_cache
    def table(n):
        calls.append(n)
        return n * 2

    step = jit(lambda x, n: x * table(n), backend="eager", fullgraph=True)
    with pytest.raises(Break, match="keeps no answer"):
        step(eager.ones(2), 3)
    assert not calls
    table(3)
    assert step(eager.ones(2), 3).tolist() == [6.0, 6.0]


def test_what_a_program_catches_is_its_own():
    """A split is announced to who called, not to a program that records warnings for a while."""

    def step(x):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            y = x * float(np.sum([1, 2]))
            warnings.warn("own", stacklevel=1)
        return y, [str(w.message) for w in said]

    compiled = jit(step, backend="eager")
    with pytest.warns(JitcapWarning, match="split") as outside:
        assert compiled(eager.ones(1))[1] == ["own"]
    assert all(w.category is JitcapWarning for w in outside)
