"""What runs as plain Python says so, is counted at every such call, and is an error under fullgraph."""

import collections
import contextlib
import os
import re
import sys
from dataclasses import replace

import pytest

import codegen
import eager
import jitcap.compile.generate
import jitcap.entry
import jitcap.graph_breaks.split
import jitcap.pipeline
from jitcap import JitcapWarning, config, explain, jit, stance
from jitcap.base.breaks import Break
from jitcap.capture.capture import capture
from tests.helpers.work import calls_made


@contextlib.contextmanager
def lenient():
    """As users run it: a fault of capture is no error."""
    with config(strict=False, check=False):
        yield


def warned(recwarn, text):
    return [w for w in recwarn if re.search(text, str(w.message), re.DOTALL)]


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    """What an earlier process compiled would hide the faults."""
    monkeypatch.setattr(jitcap.entry.versions, "keys_of", lambda *_: None)


def moving(monkeypatch):
    """Guards that do not hold at once, as if what they look at moved by itself."""
    real = jitcap.entry.compile_captured

    def assemble(captured, *args, **kwargs):
        made = real(captured, *args, **kwargs)
        object.__setattr__(made, "call", lambda args, kwargs: jitcap.entry.MISS)
        return made

    put(monkeypatch, assemble)


def failing(monkeypatch):
    def assemble(*args, **kwargs):
        raise ValueError("no such register")

    put(monkeypatch, assemble)


def put(monkeypatch, assemble):
    """In the place of what compiles a captured function, or a part of one."""
    for where in (jitcap.entry, jitcap.pipeline):
        monkeypatch.setattr(where, "compile_captured", assemble)


def double(x):
    return x * 2


def misread(monkeypatch):
    """Capture that meets an exception which Python does not raise."""

    def capture(*args, **kwargs):
        raise Break("exception", "KeyError: 3")

    way = replace(jitcap.pipeline.BY_BYTECODE, capture=capture)
    monkeypatch.setattr(jitcap.pipeline, "BY_BYTECODE", way)


FAULTS = {
    "unstable": (moving, "the guards do not hold for the call they were made from"),
    "compiler": (failing, "the compiler failed: ValueError: no such register"),
    "capture": (misread, "capture met KeyError: 3, which Python does not raise"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("strictly", ["fullgraph", "fail_on_split"])
def test_fullgraph_never_runs_plainly(fault, strictly, monkeypatch):
    plant, text = FAULTS[fault]
    plant(monkeypatch)
    step = jit(double, fullgraph=strictly == "fullgraph", backend="eager")
    name = strictly if strictly == "fail_on_split" else "default"
    for _ in range(5):  # also when it would have given up
        with lenient(), stance(name), pytest.raises(Break) as caught:
            step(eager.ones(2))
        record = caught.value.record()
        assert (record.kind, record.what.startswith(text)) == ("internal", True)
        assert "test_limits.py" in record.place.file or fault == "capture"


@pytest.mark.parametrize("fault", FAULTS)
def test_without_it_each_call_is_counted(fault, monkeypatch, recwarn):
    plant, text = FAULTS[fault]
    plant(monkeypatch)
    monkeypatch.setattr(jitcap.entry, "_has_parts", lambda *_: False)
    step = jit(double, backend="eager")
    with lenient():
        for i in range(6):
            assert step(eager.ones(2)).tolist() == [2, 2]
            assert step.stats.fallbacks == i + 1
    assert len(warned(recwarn, re.escape(text))) >= 1
    assert len(warned(recwarn, "3 calls could not be compiled; the first: ")) == 1
    assert text in str(step.stats)
    assert str(step.stats).count("3 calls could not be compiled") == 1
    with lenient(), stance("fail_on_split"), pytest.raises(Break, match=re.escape(text)):
        step(eager.ones(2))


def test_the_programs_own_exception_is_its_own():
    step = jit(lambda x: x[5], fullgraph=True)
    with pytest.raises(IndexError):
        step(eager.ones(2))


def test_the_room_for_versions(recwarn):
    with config(entries=2):
        step = jit(double, backend="eager", dynamic=False)
        strict = jit(double, backend="eager", dynamic=False, fullgraph=True)
        for n in range(1, 7):
            assert step(eager.ones(n)).tolist() == [2] * n
            strict(eager.ones(n))
        assert (step.stats.compiles, step.stats.fallbacks) == (5, 1)  # not at the 3rd miss beyond
        assert (strict.stats.compiles, strict.stats.fallbacks) == (6, 0)
        for n in (6, 4, 6, 4):
            step(eager.ones(n))
        assert (step.stats.compiles, step.stats.fallbacks) == (5, 1)  # the last ones are kept
        for n in (4, 7, 8, 9, 10, 4):  # the 8th miss finds room: not that of what is used
            step(eager.ones(n))
        assert (step.stats.compiles, step.stats.fallbacks) == (6, 4)
    assert len(warned(recwarn, "2 versions are kept.*Last misses: expected")) == 1
    assert "2 versions are kept" in str(step.stats)


def branches(x, n):
    """Split by the branch; a shape of its own for each n."""
    y = x.reshape(-1)
    for _ in range(2):
        if y.sum() > 0:
            y = y + eager.ones(n)
    return y


def sizes(step, count):
    for n in range(1, count):
        assert step(eager.ones(n), n).tolist() == branches(eager.ones(n), n).tolist()


def test_the_room_for_versions_of_a_part(recwarn):
    step = jit(branches, backend="eager", dynamic=False)
    sizes(step, jitcap.graph_breaks.split.VERSIONS)
    assert step.stats.fallbacks == 0
    sizes(step, jitcap.graph_breaks.split.VERSIONS + 9)
    counted, compiled = step.stats.fallbacks, step.stats.compiles
    assert counted >= 3
    said = "8 versions of the part that begins here are kept.*The last miss: expected"
    assert warned(recwarn, said)
    assert "8 versions of the part" in str(step.stats)
    before = len(recwarn)
    for i in range(9):
        step(eager.ones(50 + i), 50 + i)
    assert counted + 5 < step.stats.fallbacks
    assert step.stats.compiles > compiled  # now and then
    assert len(recwarn) == before


def test_the_limit_of_unfinished_parts(monkeypatch, recwarn):
    monkeypatch.setattr(jitcap.graph_breaks.split, "UNFINISHED", 0)

    def program(x, n):
        import array  # an object that cannot be made again

        values = array.array("d", [float(n)])
        if x.sum() > 0:
            x = x + 1
        return x, len(values)

    step = jit(program, backend="eager")
    for n in range(5):
        assert step(eager.ones(1), n)[0].item() == 2
    if step.stats.fallbacks:
        assert warned(recwarn, "have effects or values that cannot be made again")


def test_the_limit_of_depth(monkeypatch, recwarn):
    monkeypatch.setattr(jitcap.graph_breaks.split, "DEPTH", 3)

    def down(x, n):
        if [False, True][int(x.sum() < 0)] or n == 0:
            return x
        return down(x + 1, n - 1)

    step = jit(down, backend="eager")
    for _ in range(2):
        assert step(eager.ones(1), 6).item() == 7
    assert step.stats.fallbacks == 2
    assert len(warned(recwarn, "call each other more than 3 deep")) == 1


@jit(backend="eager")
def down(x, n):
    return x if n == 0 else down(x + 1, n - 1)


@jit(backend="eager")
def down_in_parts(x, n):
    open(os.devnull).close()
    return x if n == 0 else down_in_parts(x + 1, n - 1)


@pytest.mark.parametrize("fn", [down, down_in_parts])
def test_a_recursion_is_as_deep_as_in_python(fn, recwarn):
    limit = sys.getrecursionlimit()
    n = 400 if sys.version_info[:2] == (3, 12) else 700  # where C has a limit of its own
    for depth in (n, 20, n):
        assert fn(eager.zeros(1), depth).item() == depth
        assert sys.getrecursionlimit() == limit
    for _ in range(2):
        with pytest.raises(RecursionError):
            fn(eager.zeros(1), -1)
        assert sys.getrecursionlimit() == limit


def test_a_recursion_limit_that_the_program_sets_stays(recwarn):
    @jit(backend="eager")
    def step(n):
        if n == 0:
            sys.setrecursionlimit(4321)
            return 0
        open(os.devnull).close()
        return 1 + step(n - 1)

    limit = sys.getrecursionlimit()
    try:
        assert step(200) == 200
        assert sys.getrecursionlimit() == 4321
    finally:
        sys.setrecursionlimit(limit)


def test_compiling_leaves_the_recursion_limit_as_it_is():
    limit = sys.getrecursionlimit()
    step = jit(lambda x: x.exp().sum(), backend="cpp")
    step(eager.ones(3))
    assert step.stats.compiles == 1
    assert sys.getrecursionlimit() == limit


def test_a_recursion_without_end_ends_under_a_high_limit(recwarn):
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        with pytest.raises(RecursionError):
            down(eager.zeros(1), -1)
        assert sys.getrecursionlimit() == 10_000
    finally:
        sys.setrecursionlimit(limit)


def test_a_part_that_cannot_be_compiled(monkeypatch, recwarn):
    failing(monkeypatch)
    step = jit(branches, backend="eager")
    with lenient():
        sizes(step, 3)
    assert step.stats.fallbacks == 2
    assert warned(recwarn, "the compiler failed: ValueError: no such register")


def test_a_part_whose_guards_do_not_hold(monkeypatch, recwarn):
    moving(monkeypatch)
    step = jit(branches, backend="eager")
    with lenient():
        sizes(step, 3)
    assert step.stats.fallbacks == 2
    assert warned(recwarn, "the guards do not hold for the part they were made from")


def test_explain_shows_why_nothing_was_compiled(monkeypatch, recwarn):
    failing(monkeypatch)
    with lenient():
        shown = str(explain(branches, backend="eager")(eager.ones(2), 2))
    assert "the compiler failed: ValueError: no such register" in shown


def test_a_graph_that_runs_op_by_op_is_in_the_stats(monkeypatch):
    def generate(*args, **kwargs):
        raise codegen.Unsupported("no loops today")

    monkeypatch.setattr(jitcap.compile.generate, "generate", generate)
    step = jit(double, backend="cpp")
    with pytest.warns(JitcapWarning, match="no loops today"):
        assert step(eager.ones(2)).tolist() == [2, 2]
    assert step.stats.fallbacks == 1
    assert "runs op by op: no loops today" in str(step.stats)


def test_a_function_that_could_not_be_compiled_is_tried_again(monkeypatch, recwarn):
    step = jit(lambda x: x * 2, backend="eager")
    with lenient():
        with monkeypatch.context() as m:
            m.setattr(jitcap.entry, "_has_parts", lambda *_: False)
            failing(m)
            for _ in range(40):
                assert step(eager.ones(2)).tolist() == [2, 2]
        assert (step.stats.fallbacks, step.stats.compiles) == (40, 0)
        for _ in range(40):
            assert step(eager.ones(2)).tolist() == [2, 2]
    assert step.stats.fallbacks < 80
    assert step.stats.compiles == 1
    assert len(warned(recwarn, "3 calls could not be compiled; the first: ")) == 1


def test_a_part_that_could_not_be_compiled_is_tried_again(monkeypatch):
    step = jit(branches, backend="eager")
    with lenient():
        with monkeypatch.context() as m:
            failing(m)
            for _ in range(20):
                step(eager.ones(3), 3)
        assert step.stats.compiles == 0
        for _ in range(40):
            assert step(eager.ones(3), 3).tolist() == branches(eager.ones(3), 3).tolist()
        assert step.stats.compiles > 0
        before = step.stats.fallbacks
        step(eager.ones(3), 3)
    assert step.stats.fallbacks == before


def test_parts_that_were_unfinished_are_tried_again(monkeypatch, recwarn):
    """A bad phase in which nothing can be made again, and a good one."""

    def program(x):
        return x + 1 if [False, True][int(x.sum() > 0)] else x

    def capture(self, frame, varying):
        refusal = Break("effect", "it cannot be made again")
        refusal.done = -1
        return self._note(refusal, frame)

    step = jit(program, backend="eager")
    with monkeypatch.context() as m:
        m.setattr(jitcap.graph_breaks.split.Splitter, "_capture", capture)
        for _ in range(40):
            assert step(eager.ones(1)).item() == 2
    assert step.stats.fallbacks > 20
    for _ in range(60):
        assert step(eager.ones(1)).item() == 2
    assert step.stats.compiles > 0
    counted = step.stats.fallbacks
    step(eager.ones(1))
    assert step.stats.fallbacks == counted
    assert len(warned(recwarn, "have effects or values that cannot be made again")) == 1


def means(lengths):
    """A program that asks for the mean of a list of its caller's, and calls with these lengths."""
    notes = []

    def mean(x):
        return x + sum(notes) / len(notes) if notes else x

    def run(step):
        for length in lengths:
            notes[:] = map(float, range(length))
            expected = sum(notes) / length if notes else 0
            assert step(eager.zeros(1, dtype=eager.float64)).item() == expected

    return mean, run


def test_a_list_that_only_grows_is_not_a_version_for_each_length(recwarn):
    mean, run = means(range(24))
    step = jit(mean, backend="eager")
    run(step)
    assert step.stats.fallbacks == 0 and step.stats.compiles < 20
    assert warned(recwarn, "all of notes is looked at")


def test_a_list_of_varying_length_stays_in_one_graph():
    mean, run = means([3, 1, 5, 2, 8, 7, 4, 9, 6] * 2)
    step = jit(mean, backend="eager")
    run(step)
    assert step.stats.splits == 0


def test_a_whole_graph_is_made_for_each_length():
    mean, run = means(range(24))
    step = jit(mean, backend="eager", fullgraph=True)
    run(step)
    assert step.stats.splits == 0 and step.stats.compiles == 24


@pytest.mark.parametrize(
    ("made", "step"),
    [
        ("[]", "found = [j for j in range(n)]"),
        ("[0] * n", "held.pop()"),
        ("[0] * n", "held.insert(0, i)"),
        ("[0] * n", "held[i]"),
        ("[0] * n", "del held[-1]"),
        ("tuple(range(n))", "len(held)"),
        ("deque(range(n))", "held.popleft()"),
        ("set()", "held.add(i)"),
    ],
)
def test_steps_on_a_container_take_no_longer_the_more_it_holds(made, step):
    """Each looks into no element but its own; a comprehension is one step an element."""

    def calls(n):
        found = {"deque": collections.deque}
        rounds = 1 if "for j" in step else n
        source = f"def f(x, n={n}):\n held = {made}\n for i in range({rounds}): {step}\n return x"
        exec(source, found)  # noqa: S102
        return calls_made(lambda: capture(found["f"], (eager.ones(2),), {}))

    calls(2)
    first, second, third = map(calls, (20, 60, 140))
    assert third - second < 2.6 * (second - first)
