"""Functions cut into segments at every place: what is carried from one segment to the next is complete."""

import argparse
import contextlib
import copy
import logging
import math
import os
import time
import traceback
import types
import warnings

import pytest

import eager
from jitcap import config, disable, graph_break, jit, stance
from jitcap.base.breaks import Break
from jitcap.base.diagnostics import Trail
from jitcap.capture.kinds.base import HANDLERS
from jitcap.graph_breaks.segment import capture_segment
from jitcap.graph_breaks.split import Splitter
from jitcap.pipeline import compile_captured
from jitcap.versions.version import Options

from . import programs_language as programs_language
from . import programs_objects as programs_objects
from .harness import MISS, outcome, plain
from .table import CASES


class Chopper(Splitter):
    """Stops every segment after `every` instructions, whether it needs to or not."""

    def __init__(self, every, *, verify=False):
        self.options = Options(backend="eager", verify=verify)
        super().__init__(
            self.compile,
            lambda record: None,
            lambda failure: None,
            lambda record: None,
            lambda *records: None,
            MISS,
            self.options,
        )
        self.every = every

    def compile(self, captured, part):
        return compile_captured(captured, self.options, Trail("test"), part).call

    def _capture(self, frame, varying):
        try:
            return capture_segment(frame, self.every, varying)[0]
        except Break as refusal:
            done = refusal.done
        try:
            return capture_segment(frame, done, varying)[0] if done > 0 else None
        except Break:
            return None


# An exception that passes a generator unhandled has its caller's context there: see docs/limits.md.
AS_A_WHOLE = {"the_context_of_what_is_thrown_through_a_generator"}
SPLIT = sorted(CASES.keys() - AS_A_WHOLE)


# Seven at a time are the segments of the next test, which looks closer.
@pytest.mark.parametrize(
    "every",
    [1, pytest.param(3, marks=pytest.mark.once), pytest.param(7, marks=pytest.mark.nightly)],
)
@pytest.mark.parametrize("name", SPLIT)
def test_chopped(name, every):
    fn, args, kwargs = CASES[name]
    mine, theirs = copy.deepcopy((args, kwargs)), copy.deepcopy((args, kwargs))
    chopper = Chopper(every)
    for _ in range(2):
        expected = outcome(lambda: fn(*mine[0], **mine[1]))
        assert outcome(lambda: chopper.call(fn, *theirs)) == expected
        assert plain(theirs) == plain(mine)


# Cut in the middle, it has a polyfill's own function on the stack in the place of Python's.
CUT_INSIDE = {("dataclasses_made_inside", 7)}


@pytest.mark.parametrize("every", [7, pytest.param(1_000_000, marks=pytest.mark.once)])
@pytest.mark.parametrize("name", SPLIT)
def test_chopped_and_verified(name, every):
    """Each segment beside its instructions one by one: `verify=True` finds nothing."""
    if (name, every) in CUT_INSIDE:
        return
    fn, args, kwargs = CASES[name]
    mine, theirs = copy.deepcopy((args, kwargs)), copy.deepcopy((args, kwargs))
    chopper = Chopper(every, verify=True)
    for _ in range(2):
        expected = outcome(lambda: fn(*mine[0], **mine[1]))
        assert outcome(lambda: chopper.call(fn, *theirs)) == expected
        assert plain(theirs) == plain(mine)


def test_branch_on_a_value_inside_a_loop(recwarn):
    def step(x, n):
        chosen = []
        for i in range(n):
            x = x * 2 + i
            if x.sum() > 10:
                x = x - 5
                chosen.append(i)
        return x, chosen

    jitted = jit(step, backend="eager")
    for _ in range(3):
        got, expected = jitted(eager.tensor([1.0, 2.0]), 5), step(eager.tensor([1.0, 2.0]), 5)
        assert got[0].tolist() == expected[0].tolist()
        assert got[1] == expected[1]
    assert jitted.stats.splits == 1
    assert jitted.stats.fallbacks == 0
    assert len([w for w in recwarn if "is split" in str(w.message)]) == 1


def test_an_entry_of_what_the_call_makes_is_no_first_time(recwarn):
    """It is new at each call: a run for one way alone would be given up again and again."""

    def step(x):
        found = {}
        if x.sum() > 0:
            found["positive"] = (x * 2).exp().sum()
        return found, x + 1

    jitted = jit(step, backend="eager")
    for sign in (1, -1, 1, -1):
        x = eager.tensor([1.0, 2.0]) * sign
        assert str(jitted(x)) == str(step(x))
    assert (jitted.stats.splits, jitted.stats.discards) == (1, 0)


def test_gradient_flows_through_a_split(recwarn):
    def step(x):
        y = x * 3
        if y.sum() > 0:
            y = y * y
        return y.sum()

    jitted = jit(step, backend="eager")
    for _ in range(2):
        a = eager.tensor([1.0, 2.0], requires_grad=True)
        b = eager.tensor([1.0, 2.0], requires_grad=True)
        jitted(a).backward()
        step(b).backward()
        assert a.grad.tolist() == b.grad.tolist()


def test_split_inside_an_inlined_method(recwarn):
    class Model:
        def __init__(self):
            self.scale, self.log = 2, []

        def inner(self, x):
            return x if x.max() > 3 else -x

        def run(self, x):
            self.log.append("before")
            out = self.inner(x * self.scale)
            self.scale += 1
            self.log.append("after")
            return out

    model, other = Model(), Model()
    jitted = jit(lambda x: model.run(x) * 2, backend="eager")
    for _ in range(4):
        x = eager.tensor([0.5, 1.0])
        assert jitted(x).tolist() == (other.run(x) * 2).tolist()
        assert (model.scale, model.log) == (other.scale, other.log)


def test_grad_mode_and_handlers_survive(recwarn):
    def step(x):
        log = []
        with eager.no_grad():
            try:
                if x.sum() > 1:
                    log.append(eager.is_grad_enabled())
                    raise ValueError("big")
            except ValueError as error:
                log.append(str(error))
            finally:
                log.append("finally")
        return log, eager.is_grad_enabled()

    jitted = jit(step, backend="eager")
    for value in (0.0, 5.0, 0.0, 5.0):
        x = eager.tensor([value])
        assert jitted(x) == step(x)
        assert eager.is_grad_enabled()


@contextlib.contextmanager
def _noted(log):
    log.append("in")
    try:
        yield
    finally:
        log.append("out")


@pytest.mark.parametrize(
    "around",
    [
        eager.no_grad(),
        eager.no_grad,
        eager.inference_mode(),
        eager.enable_grad(),
        lambda fn: eager.set_grad_enabled(False)(fn),
        eager.autocast("cpu"),
    ],
)
def test_what_a_decorator_makes_is_split_too(recwarn, around):
    w, log = eager.ones(3, 3, requires_grad=True), []

    def halves(x):
        y = x @ w
        if y.sum() > 100:
            raise ValueError("too large")
        graph_break()
        return (y * 2).sin(), eager.is_grad_enabled()

    body = _noted(log)(around(halves))
    step = jit(body, backend="eager")
    for x in (eager.ones(2, 3), eager.zeros(2, 3), eager.full((2, 3), 50.0)):
        assert outcome(lambda x=x: step(x)) == outcome(lambda x=x: body(x))
        assert eager.is_grad_enabled()
    assert log == ["in", "out"] * 6
    assert step.stats.fallbacks == 0, step.stats
    assert step.stats.graphs >= 2


def test_fullgraph_refuses():
    step = jit(lambda x: [-x, x][int(x.sum() > 0)], fullgraph=True)
    with pytest.raises(Break, match="known only when the program runs"):
        step(eager.ones(2))


def test_fullgraph_lists_every_split():
    """Both ways of a decision are looked at, and nothing has happened when it raises."""
    log = []

    @disable
    def plainly(x):
        log.append("ran")
        return x

    def inner(y):
        if y.max() > 3:
            graph_break()
            return y + 1
        return y - time.time()

    def step(x):
        log.append("begun")
        y = plainly(inner(x))
        while x.sum() < 10:
            x *= 2
            print(x.shape)
        with open(os.devnull) as file:
            file.read()
        return sum(x.tolist()), y

    expected = {
        "if y.max() > 3:", "graph_break()", "return y - time.time()", "y = plainly(inner(x))",
        "while x.sum() < 10:", "with open(os.devnull) as file:", "return sum(x.tolist()), y",
    }  # fmt: skip
    for jitted, name in ((jit(step, fullgraph=True), "default"), (jit(step), "fail_on_split")):
        with pytest.raises(Break) as caught, stance(name):
            jitted(eager.ones(2))
        lines = [t.strip() for t in str(caught.value).splitlines() if t.startswith("    ")]
        shown = {t for t in lines if not t.startswith("^")}
        assert shown == expected
        assert log == []


def test_the_users_lines_show(recwarn, caplog):
    """In a traceback, a warning and a log record, also of what runs between two parts."""

    def inner(x):
        if x.sum() > 0:
            return {}["missing"]

    def step(x):
        warnings.warn("careful", stacklevel=1)
        warnings.warn("caller", stacklevel=2)
        os.getppid()  # splits the program here
        logging.getLogger("steps").warning("noted")
        try:
            inner(x)
        except KeyError:
            logging.getLogger("steps").exception("missing")
            shown = traceback.format_exc()
        return inner(x), shown

    first = step.__code__.co_firstlineno
    jitted = jit(step, backend="eager")
    with pytest.raises(KeyError) as caught:
        jitted(eager.ones(2))
    lines = [(f.name, f.lineno) for f in traceback.extract_tb(caught.value.__traceback__)]
    assert lines[-2:] == [("step", first + 10), ("inner", inner.__code__.co_firstlineno + 2)]
    places = {str(w.message): (w.filename, w.lineno) for w in recwarn}
    assert places["careful"] == (__file__, first + 1)
    assert places["caller"] == (__file__, first + 15)
    assert [(r.funcName, r.lineno) for r in caplog.records] == [
        ("step", first + 4),
        ("step", first + 8),
    ]
    assert f"line {inner.__code__.co_firstlineno + 2}, in inner" in caplog.text


def test_what_capture_gets_wrong_is_split_off(recwarn, monkeypatch):
    def wrong(session, value):
        raise AttributeError("an attribute that nobody loaded")

    monkeypatch.setitem(HANDLERS, math.ceil, wrong)
    step = jit(lambda x, n: (x * 2, "abc"[math.ceil(n)]), backend="eager")
    with config(strict=False):  # which else makes it fail
        for n in (0, 1, 2, 1, 0):
            assert step(eager.ones(1), n)[1] == "abc"[n]
    assert step.stats.splits == 1
    assert step.stats.fallbacks == 0
    assert "internal" in step.stats.refusals[0]


def test_exception_groups_are_captured():
    def step(x):
        try:
            raise ExceptionGroup("two", [ValueError(1), TypeError(2)])
        except* ValueError:
            x = x + 1
        except* TypeError:
            x = x + 10
        return x

    jitted = jit(step)
    assert jitted(eager.ones(1)).item() == 12
    assert (jitted.stats.graphs, jitted.stats.splits, jitted.stats.fallbacks) == (1, 0, 0)


def test_evaluated_text_sees_the_locals(recwarn):
    def step(x, n):
        y = x + n
        return eval("y * 2")

    assert jit(step, backend="eager")(eager.ones(1), 3).item() == 8


def test_wrong_arguments_are_told_in_pythons_words(recwarn):
    def inner(a, /, *, b):
        return a, b

    def step(x, kind):
        if x.sum() > 0:
            x = x + 1
        return (lambda: inner(1), lambda: inner(a=1, b=2), lambda: inner(1, 2, b=3))[kind]()

    jitted = jit(step, backend="eager")
    for kind in range(3):
        messages = []
        for run in (step, jitted):
            with pytest.raises(TypeError) as caught:
                run(eager.ones(1), kind)
            messages.append(str(caught.value))
        assert messages[0] == messages[1]


class Doubled(list):
    def append(self, value):
        super().append(value * 2)


@pytest.mark.parametrize("every", [1, 2, 3])
def test_a_method_of_the_base_is_carried_over(every):
    values = Doubled()
    Chopper(every).call(Doubled.append, (values, 1), {})
    assert values == [2]


def test_a_part_of_a_package_is_imported(tmp_path, monkeypatch, recwarn):
    """By the statement that names it, though the package has been imported before."""
    (tmp_path / "package_of_parts").mkdir()
    for name, text in (("__init__", ""), ("late", "FACTOR = 3")):
        (tmp_path / "package_of_parts" / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    __import__("package_of_parts")

    def step(x):
        from package_of_parts import late

        return x * late.FACTOR

    def missing(x):
        from package_of_parts import nothing

        return x * nothing

    jitted = jit(step, backend="eager")
    assert [jitted(eager.ones(1)).item() for _ in range(2)] == [3, 3]
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        jit(missing, backend="eager")(eager.ones(1))


def test_texts_stay_the_same_objects(recwarn):
    """Libraries compare marks like `argparse.SUPPRESS` by identity, also behind a split."""

    def kept():
        mark, own, byte = argparse.SUPPRESS, "na\u00efve", b"some bytes"
        held = types.SimpleNamespace(mark=mark, both=[own, byte])
        graph_break()
        return mark is argparse.SUPPRESS, held.mark is mark, held.both[0] is own, own, byte

    jitted = jit(kept)
    for _ in range(3):
        *same, own, byte = jitted()
        assert all(same)
        assert {id(own), id(byte)} <= {id(each) for each in kept.__code__.co_consts}
    assert jitted.stats.splits == 1


@pytest.mark.filterwarnings("ignore:@jit")
def test_memory_becomes_a_constant_behind_a_split():
    """What initialises a layer from its first batch, as in Glow."""

    class Layer(eager.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = eager.nn.Parameter(eager.ones(3))
            self.shift = eager.nn.Parameter(eager.zeros(3))
            self.register_buffer("ready", eager.tensor(False))

        def forward(self, x):
            if not self.ready:
                with eager.no_grad():
                    self.scale.data = 1 / x.std(0)
                    self.shift.data = eager.tensor([1.0, 2.0, 3.0])
                    self.ready.data = eager.tensor(True)
            return x * self.scale + self.shift

    def step(layer, x):
        y = layer(x)
        y.sum().backward()
        return y

    one, other, compiled = Layer(), Layer(), jit(step, backend="eager")
    for _ in range(3):
        x = eager.randn(4, 3)
        assert str(compiled(one, x)) == str(step(other, x))
        assert str([*one.parameters()]) == str([*other.parameters()])
    assert compiled.stats.fallbacks == 0


@pytest.mark.filterwarnings("ignore:@jit")
def test_a_call_that_raises_leaves_the_versions_of_others():
    def picks(x, n):
        y = x * 2
        graph_break()
        return y + {1: 2}[n]

    def refuses(x, n):
        y = x * 2
        graph_break()
        if n < 0:
            raise ValueError("negative")
        return y * 3

    for program, bad in ((picks, 5), (refuses, -1)):
        step = jit(program, backend="eager")
        step(eager.ones(3), 1)
        for _ in range(3):
            with pytest.raises((KeyError, ValueError)):
                step(eager.ones(3), bad)
            known = step.stats.compiles
            assert step(eager.ones(3), 1).tolist() == program(eager.ones(3), 1).tolist()
            assert step.stats.compiles == known
