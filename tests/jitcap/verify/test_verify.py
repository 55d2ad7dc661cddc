"""`verify=True`: every call is compared with plain Python. Planted faults are found, each with the
operation or the place, and the line."""

import dataclasses
import logging
import re

import numpy as np
import pytest

import eager
from eager.core.op import REGISTRY
from jitcap import VerifyError, jit
from jitcap.base.terms import method
from jitcap.capture import result
from jitcap.capture.epilogue import effects as effects_module
from jitcap.capture.epilogue import values as epilogue_values
from jitcap.compile import compile_graph, optimise
from jitcap.graph.graph import Node, rewrite
from jitcap.guards.guard import Equals, Guards
from jitcap.passes import PASSES


def verified(fn, backend="eager"):
    return jit(fn, verify=True, backend=backend)


def line_of(fn, text):
    """file:line of the first line of `fn` that contains `text`."""
    with open(fn.__code__.co_filename) as source:
        lines = source.read().splitlines()
    start = fn.__code__.co_firstlineno
    at = next(i for i in range(start, len(lines)) if text in lines[i - 1])
    return f"test_verify.py:{at}"


def found(fn, *args, calls=1, backend="eager", between=None):
    """The error that the last of `calls` verified calls raises; the calls before must be right."""
    jitted = fn if hasattr(fn, "stats") else verified(fn, backend)
    for _ in range(calls - 1):
        jitted(*args)
    if between is not None:
        between()
    with pytest.raises(VerifyError) as caught:
        jitted(*args)
    return caught.value


# ---- planted faults: captures


class Scaled:
    def __init__(self, factor):
        self.factor = factor
        self.seen = []


def scale(x, settings):
    y = x * settings.factor
    return y + 1


def test_a_guard_that_is_not_rendered(monkeypatch):
    """A class of guards is recorded and not tested: a version is used for a call it is not for."""
    original = Equals.test
    monkeypatch.setattr(Equals, "test", lambda *given: ("or", original(*given), "True"))
    settings = Scaled(2)
    error = found(
        scale, eager.ones(3), settings, calls=2, between=lambda: setattr(settings, "factor", 3)
    )
    assert error.where == f"settings.factor, read at {error.where.split('read at ')[1]}"
    assert line_of(scale, "settings.factor") in error.where
    assert "expected 2, found 3" in error.why


def test_a_guard_that_is_missing(monkeypatch):
    """A class of guards is not even recorded: the operation that depends on the value is named."""
    original = Guards.add
    monkeypatch.setattr(
        Guards, "add", lambda self, g: None if type(g) is Equals else original(self, g)
    )
    settings = Scaled(2)
    error = found(
        scale, eager.ones(3), settings, calls=2, between=lambda: setattr(settings, "factor", 3)
    )
    assert error.where.startswith("mul at ")
    assert line_of(scale, "settings.factor") in error.where
    assert "not guarded" in error.why


def two_writes(x, box):
    box["last"] = x.sum()
    box["n"] = 1
    del box["old"]
    return x * 2


@pytest.fixture
def effects(monkeypatch):
    """Change the list of effects of whatever is captured."""

    def change(edit):
        original = effects_module._render

        def rendered(world, value, make):
            out = original(world, value, make)
            out.effects = edit(out.effects)
            return out

        monkeypatch.setattr(effects_module, "_render", rendered)

    return change


def test_an_effect_that_is_dropped(effects):
    effects(lambda found: [e for e in found if e.name != "n"])
    error = found(two_writes, eager.ones(3), {"old": 1})
    assert error.where.startswith("box['n']")
    assert "set by Python, not by the compiled version" in error.what
    assert "no such effect" in error.why


def appended_twice(x, log):
    log.append(1)
    log.append(x.sum())
    return x


def test_an_effect_on_a_list_that_is_dropped(effects):
    effects(lambda found: [])
    error = found(appended_twice, eager.ones(3), [])
    assert error.where.startswith("log, ")
    assert "0 elements in the compiled version, 2 in Python" in error.what


def moved_to_the_end(x, table):
    table["a"] = table.pop("a") + 1
    table["b"] = table["b"] + 1
    return x


def test_effects_that_are_swapped(effects):
    """Clearing after filling, instead of before."""
    effects(lambda found: found[::-1])
    error = found(moved_to_the_end, eager.ones(3), {"a": 1, "b": 2})
    assert error.where.startswith("table")
    assert line_of(moved_to_the_end, 'table["a"]') in error.where or (
        line_of(moved_to_the_end, 'table["b"]') in error.where
    )
    assert "replays" in error.why


def test_an_effect_with_a_wrong_value(effects):
    def edit(found):
        return [dataclasses.replace(e, value="2") if e.name == "n" else e for e in found]

    effects(edit)
    error = found(two_writes, eager.ones(3), {"old": 1})
    assert (
        error.where
        == f"box['n'], written at {two_writes.__code__.co_filename}:"
        + (line_of(two_writes, '"n"').split(":")[1])
    )
    assert "2 in the compiled version, 1 in Python" in error.what


def updated(p, x):
    p.mul_(2)
    p.add_(x)
    return x


def test_a_write_that_is_dropped(monkeypatch):
    """The new value of an input does not get into its memory."""
    original = result.Captured.__init__

    def without(self, *args, **kwargs):
        original(self, *args, **kwargs | {"writes": ()})

    monkeypatch.setattr(result.Captured, "__init__", without)
    error = found(updated, eager.ones(3), eager.ones(3))
    assert error.where.startswith("p")
    assert "test_verify.py:" in error.where


def pair(x):
    y = x + 1
    return y, y * 2


@pytest.mark.parametrize(
    ("planted", "what"),
    [
        ("tuple 1 0", r"value\[0\]: element \[0\]: 4.0 in the compiled version, 2.0 in Python"),
        ("tuple 0", r"value: 1 elements in the compiled version, 2 in Python"),
        ("list 0 1", r"value: a list in the compiled version, a tuple in Python"),
        ("tuple 0 0", r"value\[1\]: one object in the compiled version, two in Python"),
    ],
)
def test_a_returned_structure_that_is_wrong(monkeypatch, planted, what):
    original = effects_module._render

    def rendered(session, value, make):
        out = original(session, value, make)
        *before, (_, name, (_, *parts)) = out.rows
        kind, *which = planted.split()
        out.rows = [*before, ("let", name, (kind, *(parts[int(i)] for i in which)))]
        return out

    monkeypatch.setattr(effects_module, "_render", rendered)
    error = found(pair, eager.ones(3))
    assert re.search(what, error.what)
    assert "test_verify.py:" in error.where


def same_object(x):
    return x


def test_an_alias_that_is_a_copy(monkeypatch):
    original = epilogue_values.ValueEmitter.expr

    def copied(self, value):
        term = original(self, value)
        return method(term, "clone") if isinstance(value, eager.Tensor) else term

    monkeypatch.setattr(epilogue_values.ValueEmitter, "expr", copied)
    error = found(same_object, eager.ones(3))
    assert "the returned value: a new object in the compiled version, x in Python" in error.what
    assert "same_object at" in error.where


def transposed(x):
    return (x + 1).t()


def test_a_view_with_wrong_strides(monkeypatch):
    original = epilogue_values.view

    def contiguous(base, chain, record):
        return original(base, chain, record).contiguous()

    monkeypatch.setattr(epilogue_values, "view", contiguous)
    error = found(transposed, eager.ones(2, 3))
    assert "strides (8, 4) in the compiled version, (4, 12) in Python" in error.what
    assert "transposed at" in error.where


def test_a_wrong_dtype(monkeypatch):
    original = epilogue_values.ValueEmitter._base

    def doubled(self, storage, cls):
        return self.let(method(original(self, storage, cls), "double"))

    monkeypatch.setattr(epilogue_values.ValueEmitter, "_base", doubled)
    error = found(lambda x: x * 2, eager.ones(3))
    assert "dtype float64 in the compiled version, float32 in Python" in error.what
    assert "test_verify.py" in error.where


def drawn(x):
    noise = eager.rand(3)
    return x + noise + eager.rand(3)


def test_a_wrong_random_ordinal(effects):
    """The generator is left where it was: the next draw would repeat this one."""

    def edit(found):
        return [
            dataclasses.replace(e, value=(*e.value[:-1], 1)) if e.key == "'ordinal" else e
            for e in found
        ]

    effects(edit)
    error = found(drawn, eager.ones(3))
    assert "ordinal: 1 in the compiled version, 2 in Python" in error.what
    assert "ordinal" in error.where


def test_random_numbers_of_another_ordinal(monkeypatch):
    tracer = "jitcap.capture.tracing.CaptureTracer.next_draw"
    original = eval_path(tracer)
    monkeypatch.setattr(
        tracer, lambda self, generator: (lambda seed, n: (seed, n + 1))(*original(self, generator))
    )
    error = found(drawn, eager.ones(3))
    assert "add at" in error.where
    assert line_of(drawn, "x + noise") in error.where


def eval_path(path):
    module, cls, name = path.rsplit(".", 2)
    return getattr(getattr(__import__(module, fromlist=[cls]), cls), name)


def reports(x):
    print("before")
    print("the sum is", x.sum().item())
    return x


def test_a_wrong_print(monkeypatch, capsys):
    original = effects_module._host_call

    def changed(make, call):
        call = dataclasses.replace(
            call, args=tuple("the sun is" if a == "the sum is" else a for a in call.args)
        )
        return original(make, call)

    monkeypatch.setattr(effects_module, "_host_call", changed)
    error = found(reports, eager.ones(3))
    assert capsys.readouterr().out == "before\nthe sum is 3.0\n"
    assert "what is printed to stdout" in error.what
    assert line_of(reports, "the sum is") in error.where


def test_a_print_that_is_lost(monkeypatch):
    monkeypatch.setattr(effects_module, "_host_call", effects_module._host_call)
    original = effects_module._render

    def quiet(world, value, make):
        world.host_calls = world.host_calls[:1]
        return original(world, value, make)

    monkeypatch.setattr(effects_module, "_render", quiet)
    error = found(reports, eager.ones(3))
    assert "what is printed to stdout: 'before" in error.what
    assert "test_verify.py" in error.where


LOGGER = logging.getLogger("somewhere")


def logs(x):
    LOGGER.warning("value %d", 7)
    return x


def test_a_wrong_log_record(monkeypatch):
    original = effects_module._host_call

    def changed(make, call):
        call = dataclasses.replace(
            call, args=tuple(8 if a == 7 and type(a) is int else a for a in call.args)
        )
        return original(make, call)

    monkeypatch.setattr(effects_module, "_host_call", changed)
    error = found(logs, eager.ones(3))
    assert "value 8" in error.what
    assert line_of(logs, "value %d") in error.where


# ---- planted faults: numbers


def loss_of(x, w):
    hidden = (x * w).tanh()
    loss = hidden.sum()
    loss.backward()
    return loss


def wrong_under_capture(op, monkeypatch, factor=2):
    """The derivative of `op`, off by a factor when it is traced."""
    original = REGISTRY[op].vjp

    def vjp(g, out):
        right = original(g, out)
        traced = type(g._array).__name__ == "Traced"
        return tuple(r * factor for r in right) if traced else right

    monkeypatch.setitem(REGISTRY[op].__dict__, "vjp", vjp)


def test_a_wrong_derivative(monkeypatch):
    wrong_under_capture("tanh", monkeypatch)
    w = eager.ones(3).requires_grad_()
    error = found(loss_of, eager.ones(3), w)
    assert error.what.startswith("w.grad: element [0]: ")
    assert error.where.startswith("tanh at ")
    assert line_of(loss_of, ".tanh()") in error.where
    assert "derivative" in error.why


def test_a_wrong_derivative_in_a_version_that_is_reused(monkeypatch):
    """The rule was wrong when the version was captured; a new capture shows which operation."""
    original = REGISTRY["tanh"].vjp
    monkeypatch.setitem(
        REGISTRY["tanh"].__dict__, "vjp", lambda g, out: tuple(r * 2 for r in original(g, out))
    )
    w = eager.ones(3).requires_grad_()

    def mend():
        w.grad = None
        REGISTRY["tanh"].__dict__["vjp"] = original

    error = found(loss_of, eager.ones(3), w, calls=2, between=mend)
    assert "derivative of TanhBackward0" in error.where
    assert line_of(loss_of, "backward") in error.where


def forward_only(x, w):
    return (x * w).tanh().sum()


def test_a_wrong_derivative_of_what_is_passed_on(monkeypatch):
    """backward() is called outside: the gradients of a call are compared with the call."""
    wrong_under_capture("tanh", monkeypatch)
    error = found(forward_only, eager.ones(3), eager.ones(3).requires_grad_())
    assert error.what.startswith("the gradient of w: ")
    assert error.where.startswith("tanh at ")


def chain(x):
    a = x * 3
    b = a.exp()
    return (b + 1).sqrt()


def test_a_wrong_kernel(monkeypatch):
    """What the compiler emits for one operation is wrong."""
    op = REGISTRY["exp"]
    body = op.body
    monkeypatch.setitem(op.__dict__, "body", lambda m, x: m.add(body(m, x), body(m, x)))
    monkeypatch.setitem(op.__dict__, "compute", lambda arrays, attrs, outs: (np.exp(arrays[0]),))
    monkeypatch.setitem(op.__dict__, "run", lambda arrays, attrs: (np.exp(arrays[0]),))
    error = found(chain, eager.ones(3), backend="python")
    assert error.where.startswith("exp at ")
    assert line_of(chain, "exp") in error.where
    assert "kernel" in error.why


def test_a_wrong_run_of_an_artifact(monkeypatch):
    """The whole is wrong though every part is right: what it makes is named."""
    original = compile_graph.op_by_op

    def wrong(graph, writes):
        run = original(graph, writes)
        if len(graph) < 4:
            return run
        return lambda arrays: [r + np.float32(1e-3) for r in run(arrays)]

    monkeypatch.setattr(compile_graph, "op_by_op", wrong)
    error = found(chain, eager.ones(3))
    assert error.where.startswith("sqrt at ")
    assert line_of(chain, "sqrt") in error.where
    assert "kernel" in error.why


def constants(x):
    y = x + 2 * 3
    return y * 4


def test_a_wrong_pass(monkeypatch):
    """A pass that gets a constant wrong."""

    def fold(graph):
        def rule(r, n, args):
            if n.op.name == "mul" and args[1] == 4:
                return r.append(Node(n.op, (args[0], 5), n.attrs, n.avals, n.where))
            return None

        return rewrite(graph, rule)

    passes = (*PASSES, (fold, "planted"))
    monkeypatch.setattr(optimise, "PASSES", passes)
    monkeypatch.setattr("jitcap.verify.bisect.PASSES", passes)
    error = found(constants, eager.ones(3))
    assert error.where.startswith("mul at ")
    assert line_of(constants, "y * 4") in error.where
    assert "the pass fold" in error.why


def test_a_small_error_in_a_small_element_beside_large_ones(monkeypatch):
    original = compile_graph.op_by_op

    def wrong(graph, writes):
        run = original(graph, writes)
        if len(graph) < 4:
            return run

        def off(arrays):
            (y,) = run(arrays)
            y[1] *= np.float32(1 + 1e-5)
            return [y]

        return off

    monkeypatch.setattr(compile_graph, "op_by_op", wrong)
    error = found(chain, eager.tensor([20.0, -3.0, 25.0]))
    assert "element [1]" in error.what
    assert "(1 of 3 elements differ)" in error.what
    assert "sqrt at" in error.where


def counted(x):
    return (x > 0).sum(), x.argmax()


def test_integers_are_exact(monkeypatch):
    original = compile_graph.op_by_op

    def wrong(graph, writes):
        run = original(graph, writes)
        return lambda arrays: [np.asarray(r + 1) if r.dtype == np.int64 else r for r in run(arrays)]

    monkeypatch.setattr(compile_graph, "op_by_op", wrong)
    error = found(counted, eager.ones(1000))
    assert "1001 in the compiled version, 1000 in Python" in error.what
    assert "sum at" in error.where


def raising(x, i):
    return x + 1


def test_an_exception_on_one_side_only(monkeypatch):
    def wrong(graph, writes):
        def run(arrays):
            raise IndexError("out of range")

        return run

    monkeypatch.setattr(compile_graph, "op_by_op", wrong)
    error = found(raising, eager.ones(3), 1)
    assert "the compiled version raises IndexError('out of range'), Python nothing" in error.what
    assert "raising at" in error.where


def test_results_that_nothing_can_be_derived_through():
    x = eager.tensor([1.0, 2.0], requires_grad=True)
    floor, twice = jit(lambda x: (x // 0.5, x * 2), backend="eager", verify=True)(x)
    assert (floor.tolist(), twice.tolist()) == ([2, 4], [2, 4])
