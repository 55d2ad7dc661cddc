"""Kept versions: what another process (or a second decoration in this one) starts from is right."""

import contextlib
import functools
import json
import os
import re
import subprocess
import sys
import types
import warnings

import pytest

import eager
from jitcap import config, jit, stance
from jitcap.store import versions
from tests.behaviour import test_changes_between_calls as changes


@pytest.fixture
def recalled(monkeypatch, tmp_path):
    """Versions are kept, as they are outside of tests; the list of those that were found again."""
    found = []
    recall = versions.recall

    def counted(*args):
        made = recall(*args)
        found.append(made)
        return made

    monkeypatch.setattr(versions, "recall", counted)
    monkeypatch.setenv("JITCAP_CACHE_DIR", str(tmp_path / "cache"))
    with config(check=False):
        yield found


@pytest.mark.parametrize("run", changes.PROGRAMS, ids=lambda run: run.__name__)
def test_programs_that_change_what_a_step_sees(run, recalled, monkeypatch):
    said = []
    monkeypatch.setattr(versions, "say", said.append)
    expected = [changes.plain(v) for v in run(changes.plainly)]
    assert [changes.plain(v) for v in run(changes.compiled)] == expected
    with config(debug=2):
        assert [changes.plain(v) for v in run(changes.compiled)] == expected
    assert not [text for text in said if "Unreadable" in text], "what was written is read"


# Everything that `step` reads, in the ways that programs read things; an edit changes one of them.
MODULE = """
import collections, dataclasses, enum, functools, math
import eager
from eager import nn
from eager.nn.functional import relu as activation
from jitcap import jit

FACTOR = 2.0
TABLE = {"a": [1, 2], "b": (3, 4.5)}

Pair = collections.namedtuple("Pair", "first second")

class Mode(enum.Enum):
    FAST = 3

@dataclasses.dataclass(frozen=True)
class Settings:
    width: int = 2
    names: tuple = ("x", "y")

class Base(nn.Module):
    bias = 0.25
    def gain(self):
        return 1.5

class Model(Base):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(eager.full((3,), 2.0, dtype=eager.float64))
    @property
    def twice(self):
        return self.weight * 2
    @staticmethod
    def shift(x):
        return x + 7
    @classmethod
    def named(cls, x):
        return x * len(cls.__name__)
    @functools.cached_property
    def cached(self):
        return 11
    def forward(self, x):
        return self.named(self.shift(activation(x * self.twice))) * self.gain() + self.bias

class Own(eager.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 13
    @staticmethod
    def backward(ctx, g):
        return g * 17

@functools.lru_cache
def looked_up(n):
    return n * 19.0

def with_default(x, by=23, *, less=0.5):
    return x * by - less

def around(fn):
    @functools.wraps(fn)
    def inner(x):
        return fn(x) + 29
    return inner

@around
def wrapped(x):
    return x * 31

@jit
def nested(x):
    return x * 37

def counted(n):
    for i in range(n):
        yield i * 41

by_name = {"square": lambda x: x * 43}

def maker(scale):
    class Local(Base):
        def forward(self, x):
            return x * scale * 47
    def inner(x):
        return Local()(x) + scale
    return inner

def make():
    model, settings, closed = Model(), Settings(), maker(3)
    def step(x):
        out = model(x) * FACTOR + TABLE["a"][1] + TABLE["b"][1] + Mode.FAST.value
        out = out + settings.width * len(settings.names) + model.cached
        out = with_default(wrapped(nested(out))) + looked_up(2) + sum(counted(3))
        out = by_name["square"](out) + closed(x) + math.tau * Pair(1, 2).second
        loss = Own.apply(out).sum()
        loss.backward()
        return loss, model.weight.grad
    return step
"""
EDITS = {
    "FACTOR = 2.0": "FACTOR = 3.0",
    "[1, 2]": "[1, 9]",
    "(3, 4.5)": "(3, 5.5)",
    "FAST = 3": "FAST = 4",
    "width: int = 2": "width: int = 5",
    '("x", "y")': '("x", "z", "w")',
    "bias = 0.25": "bias = 0.75",
    "return 1.5": "return 1.25",
    "self.weight * 2": "self.weight * 3",
    "x + 7": "x - 7",
    "len(cls.__name__)": "len(cls.__name__ * 2)",
    "return 11": "return 12",
    "relu as": "gelu as",
    "x * 13": "x * 14",
    "g * 17": "g * 18",
    "n * 19.0": "n * 20.0",
    "by=23": "by=24",
    "less=0.5": "less=0.75",
    "fn(x) + 29": "fn(x) + 30",
    "x * 31": "x * 32",
    "x * 37": "x * 38",
    "i * 41": "i * 42",
    "x * 43": "x * 44",
    "scale * 47": "scale * 48",
    "maker(3)": "maker(4)",
    "math.tau": "math.pi",
}


def imported(source):
    """The module of this text, as if this were the first process that imports it."""
    module = sys.modules["kept_sample"] = types.ModuleType("kept_sample")
    exec(compile(source, "kept_sample.py", "exec"), vars(module))
    return module


def results(source, how):
    """The step's result, compiled or plain, and whether a kept version was found."""
    step = jit(imported(source).make(), backend="eager")
    with stance(how):
        return [v.tolist() for v in step(eager.tensor([1.0, -2.0, 3.0], dtype=eager.float64))]


def test_an_edit_between_two_processes_is_seen(recalled, monkeypatch):
    monkeypatch.setitem(sys.modules, "kept_sample", None)
    whole = results(MODULE, "eager")
    assert results(MODULE, "default") == whole == results(MODULE, "default")
    # The first call of a process fills a cache of the module's, plainly.
    assert [found is not None for found in recalled] == [False, False, False, True]
    for old, new in EDITS.items():
        assert MODULE.count(old) == 1, old
        source = MODULE.replace(old, new)
        expected = results(source, "eager")
        recalled.clear()
        assert expected != whole
        assert results(source, "default") == expected == results(source, "default"), old
        assert recalled[-1] is not None, f"{old} -> {new}"


def test_a_namespace_that_no_module_holds(recalled):
    text = "def step(x):\n    log.append(len(log))\n    return x * len(log)"
    for found in (False, True):
        scope = {"log": []}
        exec(compile(text, "kept_scope.py", "exec"), scope)
        step = jit(scope["step"], backend="eager")
        assert [step(eager.ones(1)).item() for _ in range(2)] == [1, 2]
        assert scope["log"] == [0, 1]
        assert (recalled[-1] is not None) == found
        recalled.clear()


class Scaled:
    scale = 2.0


def scaled(x, by):
    return x * by.scale


@pytest.mark.parametrize("backend", ["eager", "cpp"])  # its guards are read at once, or later
def test_a_text_among_the_guards_that_are_explained(backend, recalled):
    by = Scaled()
    keys = versions.keys_of(
        scaled, (eager.ones(2), by), {}, versions.Options(backend=backend), set()
    )
    jit(scaled, backend=backend)(eager.ones(2), by)
    name = versions._slot(keys.exact, 0)
    entry = versions.cache.default().get(name)
    files = {part: entry.file(part).read_bytes() for part in ("start", "rest")}
    changed = files["rest"].replace(b'"__mro__"', b'"__mro__; import os; os.was_run = True"')
    assert changed != files["rest"]
    versions.cache.default().clear()
    versions.cache.default().put(name, entry.data, files | {"rest": changed})
    again = jit(scaled, backend=backend)
    assert again(eager.ones(2), by).tolist() == [2, 2]
    by.scale = 3
    assert again(eager.ones(2), by).tolist() == [3, 3]
    assert not hasattr(os, "was_run")


def test_a_gradient_asked_for_outside(recalled):
    def square(x):
        return (x * x).sum()

    for found in (False, True):
        x = eager.tensor([1.0, 3.0], requires_grad=True)
        jit(square)(x).backward()
        assert x.grad.tolist() == [2, 6]
        assert (recalled[-1] is not None) == found


def test_a_list_that_is_filled_anew(recalled):
    def step(x, numbers):
        numbers.sort()
        return x * numbers[0]

    for found in (False, True):
        numbers = [3.0, 1.0, 2.0]
        assert jit(step, backend="eager")(eager.ones(1), numbers).item() == 1
        assert numbers == [1.0, 2.0, 3.0]
        assert (recalled[-1] is not None) == found


def test_a_cell_that_two_functions_share_and_that_is_two_now(recalled):
    def make(shared):
        first, other = [2.0], [3.0]

        def one():
            return first

        def two():
            return other

        def same():
            return first

        def step(x, f, g):
            return f, g, x * 2, f.__closure__[0] is g.__closure__[0]

        return step, one, same if shared else two

    for shared in (True, True, False, True):
        step, f, g = make(shared)
        assert jit(step, backend="eager")(eager.ones(1), f, g)[3] is shared


def test_objects_that_were_different_and_are_one_now(recalled):
    def make(n):
        return lambda x: x * n

    def program(f, g):
        return jit(lambda x: (f(x), g(x), f is g), backend="eager")

    x, one, other = eager.ones(1), make(2), make(2)
    for f, g in ((one, other), (one, one), (other, one), (other, other)):
        assert program(f, g)(x)[2] is (f is g)
    assert [found is not None for found in recalled] == [False, False, True, True]


def test_a_store_to_a_nonlocal_variable(recalled):
    def make():
        count, last = 0, None

        def step(x):
            nonlocal count, last
            count, last = count + 1, x
            return x * count

        return step, lambda: (count, last)

    for found in (False, True):
        step, state = make()
        run = jit(step, backend="eager", fullgraph=True)
        x = eager.ones(1)
        assert [run(x).item() for _ in range(3)] == [1, 2, 3]
        assert state() == (3, x)
        assert (recalled[-1] is not None) == found


def test_the_order_of_keywords_that_are_collected(recalled):
    def step(x, **more):
        return x, [*more]

    def named(x, a, b):
        return x * a + b

    for _ in range(2):
        run = jit(step, backend="eager")
        assert run(eager.ones(1), a=1, b=2)[1] == ["a", "b"]
        assert run(eager.ones(1), b=2, a=1)[1] == ["b", "a"]
        assert run.stats.compiles == 2
        run = jit(named, backend="eager")
        assert run(eager.ones(1), a=2.0, b=3.0).item() == 5
        assert run(eager.ones(1), b=3.0, a=2.0).item() == 5
        assert run.stats.compiles == 1


def _sibling(change):
    """Two functions of one code that differ in one respect."""

    def step(x, by=2.0, *, more=0.5):
        return x * by + more + OFFSET

    change(step)
    return step


class _Owner:
    def __init__(self, scale):
        self.scale = scale

    def step(self, x):
        return x * self.scale

    def __call__(self, x):
        return x - self.scale


OFFSET = 0.25
SIBLINGS = {
    "defaults": lambda fn: setattr(fn, "__defaults__", (3.0,)),
    "kwdefaults": lambda fn: setattr(fn, "__kwdefaults__", {"more": 1.5}),
    "globals": None,
    "bound": None,
    "object": None,
    "partial": None,
}


@pytest.mark.parametrize("what", SIBLINGS)
def test_functions_of_one_code(recalled, what):
    if what == "globals":
        code = _sibling(id).__code__
        scopes = ({"OFFSET": n, "__name__": f"scope{n}"} for n in (1.0, 2.0))
        functions = [types.FunctionType(code, scope, "step", (2.0,)) for scope in scopes]
        for fn in functions:
            fn.__kwdefaults__ = {"more": 0.5}
    elif what == "bound":
        functions = [_Owner(2.0).step, _Owner(3).step, _Owner(4).step]
    elif what == "object":
        functions = [_Owner(2.0), _Owner(3), _Owner(4)]
    elif what == "partial":
        functions = [functools.partial(_sibling(id), by=by) for by in (5.0, 6, 7)]
    else:
        functions = [_sibling(id), _sibling(SIBLINGS[what])]
    x = eager.ones(2)
    for fn in [*functions, *reversed(functions)]:
        assert jit(fn, backend="eager")(x).tolist() == fn(x).tolist()


def test_a_name_that_nothing_provides_is_a_miss(recalled, monkeypatch):
    def step(x):
        return x * 59

    files_of = versions._files

    def without_a_constant(*args):
        files = files_of(*args)
        constants, body = files.start["constants"], files.start["body"]
        del constants[re.search(r"C\d+", str(body))[0]]
        return files

    monkeypatch.setattr(versions, "_files", without_a_constant)
    for _ in range(2):
        assert jit(step, backend="eager")(eager.ones(1)).item() == 59
    assert recalled == [None, None]


# ---- other processes

LIBRARY = """
import json, sys, warnings
import eager
from jitcap import jit
from jitcap.store import versions
from tests.jitcap.store.test_kept import library_calls

warnings.simplefilter("ignore")
recalled = []
recall = versions.recall
versions.recall = lambda *args: recalled.append(recall(*args)) or recalled[-1]
wrong = [name for name, fn, x, plain in library_calls() if repr(jit(fn, backend="eager")(x())) != plain]
print(json.dumps([wrong, sum(v is not None for v in recalled)]))
"""


def library_calls():
    """(name, function, its argument, repr of what it gives): functions of one tensor."""
    seen = set()
    for module in (eager, eager.nn.functional):
        for name, fn in sorted(vars(module).items()):
            chance = any(word in name for word in CHANCE)
            if not isinstance(fn, types.FunctionType) or name[0] == "_" or fn in seen or chance:
                continue
            seen.add(fn)
            with warnings.catch_warnings(), contextlib.suppress(Exception):
                warnings.simplefilter("ignore")
                value = fn(_argument())
                if isinstance(value, eager.Tensor):
                    yield name, fn, _argument, repr(value)


CHANCE = (
    "rand",
    "drop",
    "seed",
    "set_",
    "empty",
    "normal",
    "gumbel",
    "poisson",
    "rrelu",
    "bernoulli",
)


def _argument():
    return eager.tensor([[0.3, -1.5, 0.7], [2.0, -0.2, 1.1]])


def in_another_process(source, folder, **variables):
    env = {**os.environ, "JITCAP_CACHE_DIR": str(folder), "CHECK": "0", **variables}
    env["JITCAP_STRICT"] = "0"
    command = [sys.executable, "-c", source]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_every_function_of_the_library_in_one_process_and_the_next(tmp_path):
    """Decorated directly, hundreds of them are made by one decorator: one code, other cells."""
    (first, none), (second, found) = (in_another_process(LIBRARY, tmp_path) for _ in range(2))
    assert (first, second, none) == ([], [], 0)
    assert found > 150


SEEDS = """
import json, eager
from jitcap import jit
from jitcap.store import versions

NAMES = {"alpha", "beta", "gamma"}
TABLE = {name: i for i, name in enumerate(sorted(NAMES))}

class Model(eager.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = eager.nn.Parameter(eager.full((3,), 2.0))
    def forward(self, x):
        return x * self.weight if "beta" in TABLE else x

model = Model()
optimizer = eager.optim.AdamW(model.parameters(), lr=0.5)

def step(x, *, names=("p", "q", "r")):
    loss = (model(x) * len(names) + TABLE["gamma"]).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss

recalled = []
recall = versions.recall
versions.recall = lambda *args: recalled.append(recall(*args)) or recalled[-1]
run = jit(step, backend="eager", fullgraph=True)
values = [run(eager.ones(3)).item() for _ in range(4)]
kept = [v is not None for v in recalled]
order = jit(lambda x: (x, [*NAMES]), backend="eager")
assert order(eager.ones(3))[1] == [*NAMES]
print(json.dumps([values, kept]))
"""


def test_other_hash_seeds(tmp_path):
    runs = [in_another_process(SEEDS, tmp_path, PYTHONHASHSEED=seed) for seed in ("1", "2", "77")]
    (values, first), *others = runs
    assert not any(first)
    assert others == [[values, [True] * len(first)]] * 2


def test_a_class_that_no_module_holds(recalled):
    """Its place comes up after guards that name it."""

    def build(factor):
        class Scale(eager.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = eager.nn.Parameter(eager.ones(2))

            def forward(self, x):
                return x * self.weight * factor

        return Scale()

    def steps(model):
        return lambda x: model(x).sum()

    for factor, found in ((3, False), (3, True), (4, False)):
        step = jit(steps(build(factor)), backend="eager")
        assert step(eager.ones(2)).item() == 2 * factor
        assert (recalled[-1] is not None) == found


def test_autocast_around_a_call(recalled):
    def product(x):
        return x @ x

    for again in (False, True):
        fn = jit(product)
        for dtype in (eager.bfloat16, eager.float16):
            with eager.autocast("cpu", dtype=dtype):
                assert fn(eager.ones(2, 2)).dtype is dtype
        assert [made is not None for made in recalled[-2:]] == [again] * 2


def test_an_element_type_that_the_program_names(recalled):
    def positions(x):
        return eager.arange(x.shape[0], dtype=eager.long) * x.to(eager.long)

    for again in (False, True):
        assert jit(positions)(eager.ones(3)).tolist() == [0, 1, 2]
        assert (recalled[-1] is not None) == again
