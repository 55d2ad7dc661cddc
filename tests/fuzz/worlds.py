"""Random programs over a world of globals, objects, closures and tensors, and what can happen to that
world between two calls. seed -> a world with `step(x)`, and mutations of it.

The world is text that is executed: two worlds of one seed are equal and share nothing, so one is
for plain Python and one for @jit. A mutation is a function of a world and a generator of random
choices, which makes the same choices in both.
"""

import collections
import enum
import functools
import math
import random
import sys
import types

import numpy as np

import eager
from eager import nn

WORLD = """
class Mode(Enum):
    FAST = 1
    SLOW = 2
class Base:
    kind = 1
    shared = [1, 2]
    def scale(self):
        return self.kind + 1
    @property
    def twice(self):
        return self.factor * 2
    @classmethod
    def made(cls):
        return cls.kind
    @staticmethod
    def plain(v):
        return v + 1
class Thing(Base):
    def __init__(self):
        self.factor, self.items, self.table, self.child = 3, [1, 2.5], {"a": 1, "b": 2}, None
    def total(self):
        return self.factor + len(self.items)
    @cached_property
    def once(self):
        return [self.factor]
class Sub(Thing):
    kind = 7
    def total(self):
        return 100
class Slotted:
    __slots__ = ("a", "b")
class Value:
    def __init__(self, v):
        self.v = v
    def __mul__(self, other):
        return self.v * other
    __rmul__ = __mul__
    def __eq__(self, other):
        return isinstance(other, Value) and self.v == other.v
    def __hash__(self):
        return hash(self.v)
    def __len__(self):
        return 2
def helper(v, k=2, *, c=1):
    return v * k + c
def another(v, k=2, *, c=1):
    return v - k - c
@lru_cache(maxsize=3)
def kept(v, k=1):
    return [v, NUM]
MEMO = {}
def remembered(v):
    if v not in MEMO:
        MEMO[v] = v, NUM
    return MEMO[v]
def make(n):
    def inner(v):
        return v + n
    def put(m):
        nonlocal n
        n = m
    return inner, put
inner, put = make(3)
thing, second, slotted = Thing(), Thing(), Slotted()
slotted.a = 2
second.child = thing
NUM, TEXT, FLAG, NOTHING, PAIR = 2, "ab", True, None, (1, 2)
LIST, TABLE = [1, 2, 3], {"a": 1.5, "b": 2}
ORDER, COUNTS, SET = OrderedDict(u=1, v=2), defaultdict(int, w=4), {1, 2}
FUNCTIONS = {"f": helper, "g": lambda v: v + 1}
BOUND = partial(helper, k=3)
MODE = Mode.FAST
WEIGHT = torch.ones(2, requires_grad=True)
ROWS = [torch.ones(2), torch.ones(2) * 2]
MODEL = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.0))
with torch.no_grad():
    for p in MODEL.parameters():
        p.fill_(0.5)
LOG = []
"""
CODE = compile(WORLD, "<world>", "exec")  # once: it takes a tenth of a seed's time


# What a program reads: places, each with what else can lie there.
PLACES = (
    "NUM", "TEXT", "FLAG", "NOTHING", "PAIR", "LIST", "TABLE", "ORDER", "COUNTS", "SET", "MODE",
    "WEIGHT", "ROWS[0]", "ROWS[1]", "LIST[0]", "LIST[-1]", "TABLE['a']", "ORDER['u']", "thing.factor",
    "thing.items", "thing.items[0]", "thing.table", "thing.table['b']", "thing.child", "thing.kind",
    "second.factor", "second.child", "slotted.a", "Thing.kind", "Base.shared", "thing.twice",
    "MODEL.training", "ROWS", "thing.once", "kept(2)", "remembered(2)",
)  # fmt: skip
CALLS = (
    "helper({x})", "helper({p})", "inner({x})", "FUNCTIONS['f']({x})", "FUNCTIONS['g']({x})",
    "BOUND({x})", "thing.scale()", "thing.total()", "second.total()", "Thing.made()",
    "Thing.plain({x})", "MODEL({x})", "helper({x}, {p})", "helper({x}, c={p})", "inner({p})",
    "COUNTS['w']", "TABLE.get('c', 5)", "getattr(thing, 'late', 'none')", "hasattr(slotted, 'b')",
    "'late' in vars(thing)", "[*TABLE]", "[*ORDER.items()]", "{{**TABLE}}", "isinstance(thing, Sub)",
    "thing is second.child", "ROWS[0] is ROWS[1]", "thing.items is LIST", "len(thing.table)",
    "{x} * WEIGHT", "({x} + ROWS[0]).sum()", "list(map(helper, LIST))", "TABLE == thing.table",
    "sum(v for v in LIST)", "MODE is Mode.FAST", "MODE.name", "thing == second",
    "kept({p})", "kept(1, k={p})", "kept(2)[0]", "remembered({p})", "remembered(1)", "thing.once[0]",
    "kept(3) is kept(3)", "second.once is second.once", "ROWS[0].sum() + ROWS[1].sum().item()",
    "{x}.reshape(-1)[int(ROWS[1].sum().item())]", "3 // int(ROWS[0].sum().item() - 3)",
    "LIST[int(ROWS[0].sum().item())]", "math.sqrt(4.5 - ROWS[1].sum().item())",
)  # fmt: skip
USES = (
    "{p}", "{x} * {p}", "{p} + 1", "type({p}).__name__", "len({p})", "[*{p}]", "{p} == 2", "not {p}",
    "{p} is None", "isinstance({p}, int)", "{p} in (1, 2, 'ab')", 'f"{{{p}}}"', "repr({p})", "str({p})",
    "{x}.reshape(-1)[{p}]", "({p}, {q})", "{p} is {q}", "{p} == {q}", "{{'k': {p}}}", "sorted({p})",
    "torch.full((2,), {p})", "{x} if {p} else {x} + 1", "max({p}, 1)", "{p} * 2",
)  # fmt: skip
EFFECTS = (
    "LOG.append({p})", "thing.seen = {p}", "TABLE['new'] = {p}", "LIST.append(1)", "thing.factor = 4",
    "ROWS[0].add_(1)", "COUNTS['z'] += 1", "put(9)", "slotted.b = {p}", "Base.count = 1",
    "del thing.seen", "TABLE.pop('new', None)", "ORDER.move_to_end('u')", "SET.add(5)",
    "global NUM; NUM = 3", "LOG.append(({x} * 2).sum().item())", "WEIGHT.grad = None",
    "({x} * WEIGHT).sum().backward()", "thing.items[0] = {p}", "setattr(second, 'fresh', {p})",
    "kept(2).append(1)", "MEMO.clear()", "ROWS[1].mul_({p})", "ROWS[1][0] = ROWS[0].sum().item()",
    "ROWS[0].add_(1); out.append({x}.reshape(-1)[int(ROWS[0].sum().item()) - 3])",
)  # fmt: skip


class Writer:
    def __init__(self, seed):
        self.rng = random.Random(seed)

    def fill(self, text):
        pick = self.rng.choice
        return text.format(x="x", p=pick(PLACES), q=pick(PLACES))

    def statement(self):
        kind = self.rng.random()
        if kind < 0.25:
            return self.fill(self.rng.choice(EFFECTS))
        text = self.fill(self.rng.choice(CALLS if kind < 0.6 else USES))
        return f"out.append({text})"

    def program(self):
        names = "NUM"
        lines = ["def step(x):", f"    global {names}", "    out = []"]
        for _ in range(self.rng.randint(2, 6)):
            text = self.statement().replace("global NUM; ", "")
            if self.rng.random() < 0.7:
                lines += ["    try:", f"        {text}", "    except Exception as error:"]
                lines += ["        out.append((type(error).__name__, str(error)))"]
            else:
                lines.append(f"    {text}")
        return "\n".join([*lines, "    return out"])


def world(seed):
    """(namespace, text of the program). It is that of a module, the latest of its name: what a
    version needs is found there by another process."""
    text = Writer(seed).program()
    module = sys.modules[f"world_{seed}"] = types.ModuleType(f"world_{seed}")
    space = vars(module)
    space |= {
        "torch": eager, "nn": nn, "partial": functools.partial,
        "lru_cache": functools.lru_cache, "cached_property": functools.cached_property, "math": math,
        "OrderedDict": collections.OrderedDict, "defaultdict": collections.defaultdict, "Enum": enum.Enum,
    }  # fmt: skip
    exec(CODE, space)
    exec(compile(text, f"<world {seed}>", "exec"), space)
    return space, text


# ---- mutations

MUTATIONS = []


def mutation(fn):
    MUTATIONS.append(fn)
    return fn


def value(w, rng):
    """Something else, of any type."""
    return rng.choice((
        lambda: rng.randint(-2, 5), lambda: 2, lambda: 2.0, lambda: True, lambda: -0.0, lambda: 0.0,
        lambda: float("nan"), lambda: None, lambda: "ab", lambda: "zz", lambda: (1, 2),
        lambda: (True, 2), lambda: [1, 2, 3], lambda: [], lambda: {"a": 1.5, "b": 2},
        lambda: {"b": 2, "a": 1.5}, lambda: eager.ones(2), lambda: eager.ones(2) * 3,
        lambda: eager.ones(3), lambda: eager.tensor(2), lambda: eager.ones(2).double(),
        lambda: np.float64(2), lambda: np.int64(2), lambda: np.float32(2), lambda: np.array([1.0, 2.0]),
        lambda: 2**70, lambda: w["Value"](2), lambda: w["Value"](3), lambda: w["thing"],
        lambda: w["LIST"], lambda: w["Sub"](), lambda: 1j, lambda: b"ab", lambda: range(3),
        lambda: w["Mode"].SLOW, lambda: {1, 2}, lambda: frozenset({1, 2}), lambda: w["helper"], lambda: int,
    ))()  # fmt: skip


NAMES = "NUM TEXT FLAG NOTHING PAIR LIST TABLE MODE WEIGHT SET".split()


@mutation
def rebind(w, rng):
    w[rng.choice(NAMES)] = value(w, rng)


@mutation
def attribute(w, rng):
    place = w[rng.choice(("thing", "second"))]
    setattr(place, rng.choice(("factor", "items", "table", "child", "late", "kind")), value(w, rng))


@mutation
def remove_attribute(w, rng):
    place = w[rng.choice(("thing", "second"))]
    vars(place).pop(rng.choice(("factor", "items", "table", "child", "late", "seen")), None)


@mutation
def slot(w, rng):
    w["slotted"].a = value(w, rng)


@mutation
def remove_slot(w, rng):
    name = rng.choice("ab")
    if hasattr(w["slotted"], name):
        delattr(w["slotted"], name)


@mutation
def element(w, rng):
    held = w[rng.choice(("LIST", "ROWS"))]
    if isinstance(held, list) and held:
        held[rng.randrange(len(held))] = value(w, rng)


@mutation
def length(w, rng):
    if isinstance(w["LIST"], list):
        rng.choice((lambda: w["LIST"].append(4), w["LIST"].reverse, w["LIST"].clear))()


@mutation
def entry(w, rng):
    held = w[rng.choice(("TABLE", "ORDER", "COUNTS"))]
    if isinstance(held, dict):
        held[rng.choice(("a", "b", "c", "u", "w"))] = value(w, rng)


@mutation
def remove_entry(w, rng):
    held = w[rng.choice(("TABLE", "ORDER", "COUNTS"))]
    if isinstance(held, dict):
        held.pop(rng.choice(("a", "b", "u", "w", "new")), None)


@mutation
def reorder(w, rng):
    held = w[rng.choice(("TABLE", "ORDER"))]
    if isinstance(held, dict) and held:
        key = next(iter(held))
        held[key] = held.pop(key)


@mutation
def key_type(w, rng):
    if isinstance(w["TABLE"], dict):
        w["TABLE"][rng.choice((1, True, 1.0, (1, 2)))] = 1


@mutation
def class_attribute(w, rng):
    cls = w[rng.choice(("Base", "Thing"))]
    setattr(cls, rng.choice(("kind", "late", "shared", "factor")), value(w, rng))


@mutation
def remove_class_attribute(w, rng):
    if "kind" in vars(w["Thing"]):
        del w["Thing"].kind


@mutation
def method(w, rng):
    cls, name = w[rng.choice(("Base", "Thing"))], rng.choice(("scale", "total"))
    setattr(cls, name, rng.choice((lambda self: 11, lambda self: self.factor, w["another"])))


@mutation
def method_of_instance(w, rng):
    w["thing"].total = lambda: 33


@mutation
def property_of_class(w, rng):
    w["Base"].twice = rng.choice((property(lambda self: 5), 6, lambda self: 7))


@mutation
def special_method(w, rng):
    name, fn = rng.choice((
        ("__eq__", lambda a, b: True), ("__len__", lambda self: 0), ("__bool__", lambda self: False),
        ("__getattr__", lambda self, name: 77), ("__repr__", lambda self: "thing"),
    ))  # fmt: skip
    setattr(w["Thing"], name, fn)
    if name == "__eq__":
        w["Thing"].__hash__ = object.__hash__


@mutation
def defaults(w, rng):
    w["helper"].__defaults__ = (value(w, rng),)


@mutation
def keyword_defaults(w, rng):
    w["helper"].__kwdefaults__ = {"c": value(w, rng)}


@mutation
def default_in_place(w, rng):
    if w["helper"].__kwdefaults__:
        w["helper"].__kwdefaults__["c"] = value(w, rng)


@mutation
def closure(w, rng):
    w["put"](value(w, rng))


@mutation
def another_closure(w, rng):
    w["inner"], w["put"] = w["make"](value(w, rng))


@mutation
def code(w, rng):
    w["helper"].__code__ = w["another"].__code__


@mutation
def function(w, rng):
    w["helper"] = rng.choice((w["another"], lambda v, k=1, c=2: v, abs, w["BOUND"], 5))


@mutation
def function_in_table(w, rng):
    w["FUNCTIONS"][rng.choice("fg")] = rng.choice((w["another"], lambda v: v * 5, w["inner"], len))


@mutation
def bound(w, rng):
    w["BOUND"] = functools.partial(w["helper"], k=value(w, rng))


@mutation
def alias(w, rng):
    choice = rng.randrange(6)
    if choice == 0:
        w["ROWS"][1:] = w["ROWS"][:1]
    elif choice == 1:
        w["thing"].items = w["LIST"]
    elif choice == 2:
        w["second"] = w["thing"]
    elif choice == 3:
        w["thing"].table = w["TABLE"]
    elif choice == 4 and isinstance(w["WEIGHT"], eager.Tensor):
        w["ROWS"][:1] = [w["WEIGHT"].detach()]
    else:
        w["second"].child = w["second"]


@mutation
def overlap(w, rng):
    """Views of one memory, which share a part or lie side by side."""
    base = eager.ones(4)
    w["ROWS"] = [base[:2], base[rng.randrange(3) :][:2]]


@mutation
def cache(w, rng):
    rng.choice((
        w["kept"].cache_clear, w["MEMO"].clear, lambda: w["kept"](2), lambda: w["remembered"](2),
        lambda: w["kept"](2).append(value(w, rng)), lambda: w["MEMO"].update({2: value(w, rng)}),
        lambda: w["kept"](rng.random()), lambda: w.update(kept=functools.lru_cache(w["another"])),
        lambda: w.update(kept=w["kept"].__wrapped__), lambda: vars(w["thing"]).pop("once", None),
        lambda: vars(w["thing"]).update(once=value(w, rng)), lambda: setattr(w["Thing"], "once", 5),
    ))()  # fmt: skip


@mutation
def separate(w, rng):
    w["ROWS"] = [eager.ones(2), eager.ones(2) * 2]
    w["second"] = w["Thing"]()


@mutation
def of_subclass(w, rng):
    place = w[rng.choice(("thing", "second"))]
    if type(place).__name__ in ("Thing", "Sub"):
        place.__class__ = w[rng.choice(("Sub", "Thing"))]


@mutation
def tensor_in_place(w, rng):
    if isinstance(w["WEIGHT"], eager.Tensor):
        w["WEIGHT"].data.mul_(2)


@mutation
def tensor_needs_grad(w, rng):
    weight = w["WEIGHT"]
    if isinstance(weight, eager.Tensor) and weight.is_leaf and weight.is_floating_point():
        weight.requires_grad_(not weight.requires_grad)


@mutation
def tensor_data(w, rng):
    if isinstance(w["WEIGHT"], eager.Tensor):
        w["WEIGHT"].data = rng.choice((eager.ones(2) * 5, eager.ones(1), eager.ones(4)[::2]))


@mutation
def model(w, rng):
    model = w["MODEL"]
    rng.choice((
        model.eval, model.train, lambda: model.append(nn.ReLU()), lambda: model.requires_grad_(False),
        lambda: setattr(model[0], "bias", None), lambda: setattr(model[1], "p", 1.0),
        lambda: setattr(model[0], "weight", nn.Parameter(eager.ones(2, 2) * 2)),
        lambda: setattr(model[0], "forward", lambda x: x * 3), lambda: model.zero_grad(),
        lambda: model[0].register_forward_hook(lambda m, a, o: o + 1), lambda: model.double(),
    ))()  # fmt: skip


@mutation
def nothing(w, rng):
    """The guards hold."""


# ---- what is compared

STATE = (
    *NAMES,
    "thing",
    "second",
    "slotted",
    "ROWS",
    "ORDER",
    "COUNTS",
    "FUNCTIONS",
    "LOG",
    "MODEL",
    "MEMO",
)


ATOMS = (bool, int, float, complex, str, bytes, type(None), np.generic, enum.Enum)


def shape(value, seen=None, depth=0):
    """A value as data: types, contents, and which parts are the same object."""
    seen = {} if seen is None else seen
    kind = type(value)
    if isinstance(value, ATOMS):
        return kind.__name__, repr(value)
    if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        return kind.__name__, value.__name__
    if not (kind is tuple and all(isinstance(v, ATOMS) for v in value)):  # which one is not told
        if id(value) in seen:
            return "again", seen[id(value)][0]
        seen[id(value)] = len(seen), value  # whose id is no other's meanwhile
    if isinstance(value, eager.Tensor):
        grad = None if value._grad is None or not value.is_leaf else shape(value.grad, seen)
        return kind.__name__, str(value.dtype), value.requires_grad, repr(value.tolist()), grad
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.tolist()
    if depth > 8:
        return kind.__name__
    if isinstance(value, dict):
        return kind.__name__, [
            (shape(k, seen, depth + 1), shape(v, seen, depth + 1)) for k, v in value.items()
        ]
    if isinstance(value, list | tuple | set | frozenset | collections.deque):
        return kind.__name__, [shape(v, seen, depth + 1) for v in value]
    if isinstance(value, nn.Module):
        return kind.__name__, value.training, shape(value.state_dict(), seen, depth + 1)
    if hasattr(value, "__dict__"):
        return kind.__name__, shape(vars(value), seen, depth + 1)
    names = [n for n in getattr(kind, "__slots__", ()) if hasattr(value, n)]
    return kind.__name__, [(n, shape(getattr(value, n), seen, depth + 1)) for n in names]


def state_of(w):
    seen = {}
    return {name: shape(w[name], seen) for name in STATE} | {
        "cell": shape(w["inner"].__closure__[0].cell_contents, seen)
        if getattr(w["inner"], "__closure__", None)
        else None,
        "kept": repr(w["kept"].cache_info()) if hasattr(w["kept"], "cache_info") else None,
        "class": [(n, v) for n, v in vars(w["Base"]).items() if n in ("kind", "count")].__repr__(),
    }
