"""Whatever reachable thing is changed between two calls, the compiled version refuses or is still right."""

import collections
import copy
import enum
import functools
import gc
import itertools
import types
import weakref
from contextlib import nullcontext

import numpy as np
import pytest

import eager
from eager import nn
from jitcap import JitcapWarning, jit
from jitcap.capture.result import why_not
from tests.jitcap.capture.harness import MISS, outcome, plain, version_of

SCALE = 2
TABLE = {"gain": 1.5, "names": ["a", "b"]}


def helper(x, bias=1):
    return x + bias


class Config:
    depth = 2
    flag = False

    def __init__(self):
        self.width, self.rate, self.name, self.layers = 3, 0.5, "cfg", [1, 2]
        self.options = {"mode": "add", "steps": (1, 2)}
        self.nothing = None

    def offset(self):
        return self.depth

    @property
    def double(self):
        return self.width * 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Sequential(nn.ReLU(), nn.Dropout(0.0), nn.Linear(4, 2))
        self.register_buffer("mean", eager.ones(2))
        self.repeat = 2

    def forward(self, x):
        x = self.second(self.first(x)) - self.mean
        for _ in range(self.repeat):
            x = x * 2
        return x if self.training else x + 1


def make(factor):
    def inner(x):
        return x * factor

    return inner


class Scene:
    """Everything a test function can reach, made anew for each mutation."""

    def __init__(self):
        eager.manual_seed(0)
        self.config = Config()
        self.model = Model()
        self.fn = make(3)
        self.x = eager.arange(6).float().reshape(2, 3)
        self.extra = {"w": eager.ones(2, 3), "k": 4, "items": [eager.ones(3), 2.0]}

    def args(self):
        return self.x, self.config, self.model, self.fn, self.extra


def program(x, config, model, fn, extra):
    out = x * config.rate + config.width + config.offset() + config.double
    if config.options["mode"] == "add" and not config.flag and config.nothing is None:
        out = out + extra["w"] * extra["k"] + sum(config.options["steps"]) + len(config.layers)
    if hasattr(config, "surprise"):
        out = out * 100
    out = helper(fn(out), bias=SCALE) * TABLE["gain"]
    for item in extra["items"]:
        out = out + item
    if "late" in extra:
        out = out - 1000
    return out, model(x), config.name + TABLE["names"][0], x.requires_grad, out.shape[0]


def tensors(scene):
    yield "x", scene, "x"
    yield "mean", scene.model, "mean"
    yield "weight", scene.model.first, "weight"


def mutations():
    """(name, function that changes a scene and may return how to undo it)."""
    table = {}

    def mutation(fn):
        table[fn.__name__] = fn
        return fn

    for field, value in {
        "width": 5,
        "rate": 0.25,
        "name": "other",
        "layers": [1],
        "nothing": 1,
        "flag": True,
        "depth": 7,
        "surprise": 1,
        "options": {"mode": "sub", "steps": (1, 2)},
    }.items():
        table[f"config.{field}"] = lambda s, f=field, v=value: setattr(s.config, f, v)
    table["config.width type"] = lambda s: setattr(s.config, "width", 3.0)
    table["config.layers append"] = lambda s: s.config.layers.append(3)
    table["config.options item"] = lambda s: s.config.options.update(mode="x")
    table["config.options tuple"] = lambda s: s.config.options.update(steps=(1, 2, 3))
    table["config.__class__"] = lambda s: setattr(
        s.config, "__class__", type("Sub", (Config,), {"depth": 9})
    )
    table["instance method"] = lambda s: setattr(s.config, "offset", lambda: 50)
    table["extra k"] = lambda s: s.extra.update(k=9)
    table["extra new key"] = lambda s: s.extra.update(late=1)
    table["extra item"] = lambda s: s.extra["items"].append(5.0)
    table["extra item type"] = lambda s: s.extra["items"].__setitem__(1, 7)
    table["extra item tensor"] = lambda s: s.extra["items"].__setitem__(1, eager.ones(3) * 3)
    table["closure cell"] = lambda s: setattr(s.fn.__closure__[0], "cell_contents", 11)
    table["another closure"] = lambda s: setattr(s, "fn", make(20))
    table["another function"] = lambda s: setattr(s, "fn", lambda x: x - 1)
    table["builtin function"] = lambda s: setattr(s, "fn", abs)
    table["code"] = lambda s: setattr(
        s.fn, "__code__", make(1).__code__.replace(co_consts=(None, 9))
    )
    table["eval"] = lambda s: s.model.eval() and None
    table["repeat"] = lambda s: setattr(s.model, "repeat", 3)
    table["submodule"] = lambda s: setattr(s.model, "first", nn.Linear(3, 4)) or None
    table["submodule kind"] = lambda s: (
        setattr(s.model, "first", nn.Identity()) or s.model.second.__delitem__(2)
    )
    table["appended layer"] = lambda s: s.model.second.append(nn.Tanh()) and None
    table["parameter"] = lambda s: setattr(s.model.first, "weight", nn.Parameter(eager.ones(4, 3)))
    table["no bias"] = lambda s: setattr(s.model.first, "bias", None)
    table["forward hook"] = lambda s: (
        s.model.first.register_forward_hook(lambda m, a, o: o * 2) and None
    )
    table["instance forward"] = lambda s: setattr(
        s.model.first, "forward", lambda x: x @ eager.ones(3, 4)
    )
    table["frozen"] = lambda s: s.model.requires_grad_(False) and None
    table["dropout"] = lambda s: setattr(s.model.second[1], "p", 1.0)
    table["data in place"] = lambda s: (s.model.first.weight.data.mul_(2), None)[1]
    table["x shape"] = lambda s: (
        setattr(s, "x", eager.ones(5, 3)) or s.extra.update(w=eager.ones(5, 3))
    )
    table["x dtype"] = lambda s: setattr(s, "x", s.x.double()) or s.model.double() and None
    table["x strides"] = lambda s: setattr(s, "x", eager.arange(6).float().reshape(3, 2).t())
    table["x requires grad"] = lambda s: (s.x.requires_grad_(), None)[1]
    table["x is a parameter"] = lambda s: setattr(s, "x", nn.Parameter(s.x, requires_grad=False))
    table["alias"] = lambda s: s.extra.update(w=s.x)

    @mutation
    def global_int(s):
        global SCALE
        SCALE = 8

        def undo():
            global SCALE
            SCALE = 2

        return undo

    @mutation
    def global_table(s):
        TABLE["gain"] = 9.0
        return lambda: TABLE.update(gain=1.5)

    @mutation
    def global_list(s):
        TABLE["names"][0] = "zz"
        return lambda: TABLE["names"].__setitem__(0, "a")

    @mutation
    def global_function(s):
        global helper
        before, helper = helper, lambda x, bias: x - bias

        def undo():
            global helper
            helper = before

        return undo

    @mutation
    def function_code(s):
        before = helper.__code__
        helper.__code__ = (lambda x, bias=1: x * bias).__code__
        return lambda: setattr(helper, "__code__", before)

    @mutation
    def class_method(s):
        before, Config.offset = Config.offset, lambda self: 33
        return lambda: setattr(Config, "offset", before)

    @mutation
    def class_attribute(s):
        Config.depth = 44
        return lambda: setattr(Config, "depth", 2)

    @mutation
    def class_property(s):
        before = vars(Config)["double"]
        Config.double = property(lambda self: 0)
        return lambda: setattr(Config, "double", before)

    @mutation
    def layer_forward(s):
        before, nn.Linear.forward = nn.Linear.forward, lambda self, x: x[:, :1] * self.weight[0, 0]
        return lambda: setattr(nn.Linear, "forward", before)

    @mutation
    def library_function(s):
        before, eager.nn.functional.linear = eager.nn.functional.linear, lambda x, w, b: x @ w.t()
        return lambda: setattr(eager.nn.functional, "linear", before)

    @mutation
    def grad_mode(s):
        eager.set_grad_enabled(False)
        return lambda: eager.set_grad_enabled(True)

    @mutation
    def default_dtype(s):
        eager.set_default_dtype(eager.float64)
        return lambda: eager.set_default_dtype(eager.float32)

    return table


MUTATIONS = mutations()


@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_mutation(name):
    scene = Scene()
    _, entry = version_of(program, scene.args(), {})
    assert outcome(lambda: entry(scene.args(), {})) == outcome(lambda: program(*scene.args()))
    undo = MUTATIONS[name](scene)
    try:
        expected = outcome(lambda: program(*scene.args()))
        got = outcome(lambda: refused_or(entry, scene.args(), expected))
        assert got == expected
    finally:
        if isinstance(undo, types.FunctionType):
            undo()


def refused_or(entry, args, expected):
    result = entry(args, {})
    if result is not MISS:
        return result
    return program(*args)  # what the caller does then: compile again, here simply run


def test_the_unchanged_scene_fits_and_another_of_its_kind_too():
    first, second = Scene(), Scene()
    _, entry = version_of(program, first.args(), {})
    second.model.load_state_dict({k: v + 1 for k, v in second.model.state_dict().items()})
    result = entry(second.args(), {})
    assert result is not MISS
    assert plain(result) == plain(program(*second.args()))


def test_a_miss_is_explained():
    scene = Scene()
    captured, _ = version_of(program, scene.args(), {})
    assert why_not(captured, scene.args(), {}) is None
    scene.model.first.weight.requires_grad_(False)
    why = why_not(captured, scene.args(), {})
    assert "requires_grad" in why
    assert "weight" in why
    scene = Scene()
    scene.config.width = 4
    why = why_not(captured, scene.args(), {})
    assert "expected 3, got 4" in why
    assert "config.width" in why
    assert "test_guards.py:" in why


class Mode(enum.Enum):
    FIRST = 1
    SECOND = 2


class Applied:
    def __call__(self, x, mode):
        return x


def test_a_miss_says_which_value_and_where():
    for fn, name in ((Applied(), "args[1]"), (Applied().__call__, "mode")):
        step = jit(fn, backend="eager")
        for value in (Mode.FIRST, Mode.SECOND, frozenset([1]), range(3)):
            step(eager.ones(1), value)
        place = f"at {__file__}:{Applied.__call__.__code__.co_firstlineno}, read as {name}"
        values = ["Mode.FIRST", "Mode.SECOND", "frozenset({1})", "range(0, 3)"]
        assert [r.reason for r in step.stats.recompiles] == [
            f"expected {a}, got {b}, {place}" for a, b in itertools.pairwise(values)
        ]


def test_floats_do_not_recompile_and_ints_stop_to():
    class Schedule:
        def __init__(self):
            self.lr, self.step = 0.1, 0

    schedule = Schedule()

    @functools.partial(jit, backend="eager")
    def update(x):
        schedule.step += 1
        return x - schedule.lr * schedule.step

    for i in range(30):
        schedule.lr = 0.1 / (i + 1)
        assert abs(update(eager.zeros(1)).item() + schedule.lr * (i + 1)) < 1e-6
    assert schedule.step == 30
    assert update.stats.compiles <= 2


def test_relational_guard_on_a_float():
    def step(x, threshold):
        return x * 2 if threshold > 0.5 else x * 3

    captured, entry = version_of(step, (eager.ones(1), 0.7), {})
    assert entry((eager.ones(1), 0.9), {}).item() == 2
    assert entry((eager.ones(1), 0.2), {}) is MISS
    assert "threshold > 0.5" in why_not(captured, (eager.ones(1), 0.2), {})


def test_capture_alone_changes_nothing():
    scene = Scene()
    before = copy.deepcopy(plain([scene.config, scene.extra, scene.model.state_dict()]))
    version_of(program, scene.args(), {})
    assert plain([scene.config, scene.extra, scene.model.state_dict()]) == before


def test_a_history_list_does_not_recompile_for_ever(recwarn):
    losses, averages = [], []

    def step(x):
        losses.append(x.sum().item())
        if len(losses) % 4 == 0:
            averages.append(sum(losses) / len(losses))
        return x + len(losses)

    jitted = jit(step, backend="eager")
    for i in range(30):
        assert jitted(eager.ones(2) * i).tolist() == [i + i + 1.0] * 2
    assert losses == [2.0 * i for i in range(30)]
    assert averages == [sum(losses[: 4 * k]) / (4 * k) for k in range(1, 8)]
    assert jitted.stats.compiles <= 8
    assert jitted.stats.fallbacks == 0


def test_lists_that_only_grow_are_not_guarded():
    log, queue, wide = [], collections.deque(maxlen=3), []

    @functools.partial(jit, backend="eager")
    def step(x):
        nonlocal log
        total = x.sum().item()
        log += [total]
        log.extend(y * total for y in (1, 2))
        queue.extend((total, "end"))
        wide.append((x * 2).item())  # of a tensor that has a dimension
        return x

    for i in range(5):
        step(eager.full((1,), float(i)))
    assert log == [float(y) for i in range(5) for y in (i, i, 2 * i)]
    assert list(queue) == ["end", 4.0, "end"]
    assert wide == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert step.stats.compiles == 1


def test_what_is_only_read_may_share_memory():
    """Two slices of one batch, and a constant read twice, beside parameters that are written."""
    weight = eager.ones(3)
    rows = [*eager.arange(6.0).view(2, 3)]

    @functools.partial(jit, backend="eager")
    def step(x, y):
        weight.add_((x * rows[0] + y * rows[1]).sum(0))
        return weight * 1

    data, expected = eager.arange(40.0).view(4, 10), eager.ones(3)
    for i in range(3):
        x, y = data[i : i + 2, :3], data[i : i + 2, 3:6]
        expected = expected + (x * rows[0] + y * rows[1]).sum(0)
        assert step(x, y).tolist() == expected.tolist()
    assert (step.stats.compiles, step.stats.fallbacks) == (1, 0)
    before = weight.clone()
    both = eager.stack([weight, weight])
    expected = before + (both * rows[0] + before * rows[1]).sum(0)
    assert step(both, weight).tolist() == expected.tolist()  # now an argument is what is written
    assert step.stats.compiles == 2


def test_a_spent_history_is_an_error_only_when_it_is_asked_for():
    w = eager.ones(2, requires_grad=True)

    @functools.partial(jit, backend="eager")
    def step(x):
        loss = (w * w * x).sum()
        loss.backward(retain_graph=True)
        with eager.no_grad():
            w.sub_(w.grad)
        return loss

    assert step(eager.ones(2)).item() == 2
    loss = step(eager.ones(2))
    assert step.stats.fallbacks == 0
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        loss.backward()


def test_powers_of_what_only_the_graph_knows():
    """As with a divisor: 0 to a negative power raises, which is no reason to split."""

    @functools.partial(jit, backend="eager")
    def norm(x, base):
        total = sum(y.item() ** 2 for y in x) ** (1.0 / 2)
        return total, base ** x[0].item(), total**-1, x * base**2.0

    norms = norm(eager.tensor([3.0, 4.0]), 0.0)
    assert norms[:3] == (5.0, 0.0, 0.2)
    with pytest.raises(ZeroDivisionError):
        norm(eager.zeros(2), 0.0)
    assert norm(eager.tensor([0.0, 2.0]), 0.0)[:3] == (2.0, 1.0, 0.5)
    assert (norm.stats.compiles, norm.stats.splits, norm.stats.discards) == (1, 0, 1)


def test_numbers_of_numpy_are_runtime_numbers():
    """What NumPy computes (`np.exp`, `np.random.beta`) is a `np.float64`, which is a float."""

    @functools.partial(jit, backend="eager")
    def mix(x, lam):
        return lam * x + (1 - lam) * x * 2, lam, isinstance(lam, float)

    for i in range(4):
        y, lam, is_float = mix(eager.ones(2), np.float64(i / 4))
        assert y.tolist() == [2 - i / 4] * 2
        assert (type(lam), is_float) == (np.float64, True)
    assert (mix.stats.compiles, mix.stats.fallbacks) == (1, 0)

    @functools.partial(jit, backend="eager")
    def several(x, lam, y):
        tensors = (lam, [1 - lam, 2.0], lam.item(), float(lam), collections.deque([y, y]))
        return lam.astype(np.float32), *map(eager.tensor, tensors)

    given = eager.ones(2), np.float64(2), 0.5
    expected = several.original(*given)
    for one, other in zip(several(*given), expected, strict=True):
        assert (one.dtype, one.tolist()) == (other.dtype, other.tolist())
    assert [t.dtype.itemsize for t in expected] == [4, 8, 8, 4, 4, 4]
    assert (several.stats.splits, several.stats.fallbacks) == (0, 0)


def test_arrays_of_numpy_are_read_at_every_call():
    """A step gets its batch, or the places of its minibatch, as arrays, which it must not bake in."""

    @functools.partial(jit, backend="eager")
    def take(x, places, batch):
        rows = eager.from_numpy(batch)
        parts = [eager.tensor(batch[1:]), eager.as_tensor(batch, dtype=eager.float64), rows]
        x = x.clone()
        x[places[:1], 0] = len(batch) * batch.shape[1]
        return x[places], x[0, places], x[(places, places)], parts, batch.dtype == np.float32

    places, batch = np.array([2, 0, 1]), np.ones((2, 3), np.float32)

    def leaves(values):
        return [v for value in values for v in (value if type(value) is list else [value])]

    for i in range(4):
        x = eager.arange(9.0).reshape(3, 3) + i
        got, expected = (f(x, places, batch) for f in (take, take.original))
        for one, other in zip(leaves(got), leaves(expected), strict=True):
            assert np.array_equal(one, other)
        got[3][2].add_(1)  # shares the array's memory
        assert batch[0, 0] == i + 2
        places[:] = np.roll(places, 1)
        places = places.copy() if i % 2 else places
    assert (take.stats.compiles, take.stats.splits, take.stats.fallbacks) == (1, 0, 0)

    @functools.partial(jit, backend="eager")
    def nested(arrays):
        return eager.tensor(arrays)

    for i in range(2):  # a list of arrays is left to NumPy
        with pytest.warns(JitcapWarning, match="a ndarray") if i == 0 else nullcontext():
            assert nested([np.full(2, i), np.full(2, i)]).tolist() == [[i, i]] * 2
    assert eager.asarray([1.0, 2.0]).tolist() == [1, 2]


def test_a_modulus_of_a_counter_makes_two_versions():
    class State:
        step = 0

    state = State()
    state.step = 0

    @functools.partial(jit, backend="eager")
    def advance(x):
        state.step += 1
        return x * 2 if state.step % 7 else x

    results = [advance(eager.ones(1)).item() for _ in range(21)]
    assert results == [1.0 if (i + 1) % 7 == 0 else 2.0 for i in range(21)]
    assert advance.stats.compiles == 2


@pytest.mark.parametrize("inside", [False, True])
def test_no_batch_stays_alive(inside):
    model = nn.Linear(4, 3)

    @functools.partial(jit, backend="eager")
    def step(x):
        loss = model(x).sum()
        if inside:
            loss.backward()
        return loss

    batch = eager.ones(5, 4)
    gone = weakref.ref(batch._array)
    step(batch)
    del batch
    gc.collect()
    assert gone() is None


def test_an_int_that_no_instruction_reads_is_not_guarded():
    """Every public step program passes its step counter, and few look at it."""

    def step(x, count, *, epoch=0):
        return x * 2

    def looks_around(x, count):
        return x * len(locals())

    class Trainer:
        def step(self, x, count):
            return x * 5

    def encloses(x, count):
        return (lambda: x * count)()

    for fn, compiles in ((step, 1), (Trainer().step, 1), (looks_around, 2), (encloses, 2)):
        jitted = jit(fn, backend="eager")
        for n in range(4):
            assert jitted(eager.ones(1), n).tolist() == fn(eager.ones(1), n).tolist()
        assert jitted.stats.compiles == compiles
    jitted = jit(step, backend="eager")
    for n in range(3):
        jitted(eager.ones(1), n, epoch=n)
    jitted(eager.ones(1), eager.ones(2), epoch=None)
    assert jitted.stats.compiles == 1


def test_a_recompile_shows_the_numbers_of_numpy():
    holder = types.SimpleNamespace(n=np.int64(3))
    step = jit(lambda x: x * int(holder.n), backend="eager")
    step(eager.ones(1))
    holder.n = np.int64(4)
    assert step(eager.ones(1)).tolist() == [4]
    assert "expected np.int64(3), got np.int64(4)" in str(step.stats.recompiles[0])
