"""Special methods that are no plain functions: descriptors of the program's own, callable objects,
jitted functions, partial methods, static ones. Each as in plain Python, or refused."""

import functools
import json
import types

import pytest

import eager
from jitcap import jit


class Descriptor:
    def __init__(self, function):
        self.function = function

    def __get__(self, obj, cls=None):
        return self.function if obj is None else types.MethodType(self.function, obj)

    def __call__(self, *args):
        return self.function(*args)


class Bare:
    """Called without an instance."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *args):
        return self.function(None, *args)


WAYS = {
    "descriptor": Descriptor,
    "bare": Bare,
    "jitted": lambda function: jit(function, backend="eager"),
    "partial method": functools.partialmethod,
    "partial": lambda function: functools.partial(function, None),
    "static": lambda function: staticmethod(lambda *args: function(None, *args)),
    "class": classmethod,
    "cached": functools.lru_cache(None),
    "dispatched": functools.singledispatchmethod,
}

LOG = []


def setting(obj):
    obj[3] = 4
    return list(LOG)


def storing(obj):
    obj.field = 1
    return list(LOG)


def deleting(obj):
    del obj[3]
    return list(LOG)


def adding(obj):
    obj += 1
    return obj


def entering(obj):
    with obj as value:
        return value


def having(member):
    class Owner:
        field = member

    return Owner().field, Owner.field


def made(cls):
    cls(3)
    return list(LOG)


class Made:
    """With a `__new__` in Python."""

    def __new__(cls, *args):
        return object.__new__(cls)


SPECIALS = {
    "__init__": (lambda self, *args: LOG.append(args), made),
    "__len__": (lambda self: 4, lambda cls: len(cls())),
    "__bool__": (lambda self: False, lambda cls: 1 if cls() else 2),
    "__getitem__": (lambda self, i: i * 2, lambda cls: cls()[5]),
    "__setitem__": (lambda self, i, value: LOG.append((i, value)), lambda cls: setting(cls())),
    "__delitem__": (lambda self, i: LOG.append(i), lambda cls: deleting(cls())),
    "__iter__": (lambda self: iter([1, 2, 3]), lambda cls: [*cls()]),
    "__next__": (lambda self: 5, lambda cls: next(cls())),
    "__call__": (lambda self, *args: ("called", args), lambda cls: cls()(7)),
    "__eq__": (lambda self, other: "equal", lambda cls: cls() == 3),
    "__lt__": (lambda self, other: True, lambda cls: cls() < 3),
    "__hash__": (lambda self: 77, lambda cls: (hash(cls()), {cls(): 1}.get(3, "none"))),
    "__add__": (lambda self, other: ("add", other), lambda cls: cls() + 3),
    "__radd__": (lambda self, other: ("radd", other), lambda cls: 3 + cls()),
    "__iadd__": (lambda self, other: ("iadd", other), lambda cls: adding(cls())),
    "__neg__": (lambda self: "minus", lambda cls: -cls()),
    "__contains__": (lambda self, item: item == 9, lambda cls: (9 in cls(), 8 in cls())),
    "__str__": (lambda self: "text", lambda cls: str(cls()) + f"{cls()}"),
    "__format__": (lambda self, how: "text" + how, lambda cls: f"{cls():>3}"),
    "__getattr__": (lambda self, name: name * 2, lambda cls: cls().field),
    "__setattr__": (lambda self, name, value: LOG.append((name, value)), lambda c: storing(c())),
    "__enter__": (lambda self: "in", lambda cls: entering(cls())),
    "__index__": (lambda self: 2, lambda cls: [1, 2, 3][cls()]),
    "__float__": (lambda self: 2.5, lambda cls: float(cls())),
    "__abs__": (lambda self: 3, lambda cls: abs(cls())),
    "__get__": (lambda self, obj, cls=None: ("got", obj is None), lambda cls: having(cls())),
    "__reversed__": (lambda self: "reversed", lambda cls: reversed(cls())),
    "__new__": (lambda cls, *args: 8, lambda cls: cls()),
}


def outcome(program, cls):
    LOG.clear()
    try:
        return program(cls)
    except Exception as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("name", SPECIALS)
@pytest.mark.filterwarnings("ignore:@jit")
def test_special_method_of_another_kind(name):
    function, program = SPECIALS[name]
    for way, make in WAYS.items():
        for base in (object, Made) if name == "__init__" else (object,):
            members = {name: make(function)}
            if name == "__enter__":
                members["__exit__"] = lambda self, *error: False
            cls = type("Own", (base,), members)
            expected = outcome(program, cls)
            compiled = jit(program, backend="eager")
            for _ in range(2):
                assert outcome(compiled, cls) == expected, way


class Word(str):
    """Text that compares itself: capture cannot look at it."""

    __slots__ = ()

    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


WORDS = [Word("a")]


@pytest.mark.filterwarnings("ignore:@jit")
def test_text_of_what_cannot_be_looked_at_is_refused():
    compiled = jit(lambda number: json.dumps([WORDS, number]), backend="eager")
    for number in (1.0, 2.0, 3.0):
        assert compiled(number) == f'[["a"], {number}]'
    assert "json.dumps() of a Word" in compiled.stats.refusals[0]


def test_a_size_has_no_numbers_that_are_not_ints():
    compiled = jit(lambda number: eager.Size([2, number]), backend="eager")
    for number in (1.0, 2.0, 3.0):
        with pytest.raises(TypeError, match="item 1 must be int, not float"):
            compiled(number)


@pytest.mark.filterwarnings("ignore:@jit")
def test_a_tensor_made_of_modules():
    modules = eager.nn.ModuleList()
    compiled = jit(lambda x: (eager.tensor(modules), x.new_tensor(modules), x), backend="eager")
    assert [t.numel() for t in compiled(eager.ones(2))] == [0, 0, 2]
    assert compiled.stats.refusals[0].startswith("opaque object: a tensor made of a ModuleList")


class Settings:
    """Attributes with second names, as a configuration has them that was renamed."""

    renamed = {"hidden_size": "width", "layers": "depth"}

    def __init__(self, **fields):
        for name, value in fields.items():
            setattr(self, name, value)

    def __setattr__(self, name, value):
        if name in super().__getattribute__("renamed"):
            name = super().__getattribute__("renamed")[name]
        super().__setattr__(name, value)

    def __getattribute__(self, name):
        if name != "renamed" and name in super().__getattribute__("renamed"):
            name = super().__getattribute__("renamed")[name]
        return super().__getattribute__(name)

    @property
    def scale(self):
        return self.hidden_size * 0.5

    def __getattr__(self, name):
        if name.startswith("default_"):
            return 3.0
        raise AttributeError(f"there is no {name}")


class Counted(Settings):
    """Its reads are seen: capture does not look."""

    def __getattribute__(self, name):
        Settings.reads = Settings.reads + 1
        return super().__getattribute__(name)


class Mapped(Settings):
    """Its names are looked up in what looks at them."""

    class Names(dict):
        def __contains__(self, name):
            Settings.reads = Settings.reads + 1
            return dict.__contains__(self, name)

    renamed = Names(Settings.renamed)


@pytest.mark.filterwarnings("ignore:@jit")
@pytest.mark.parametrize("cls", [Settings, Counted, Mapped])
def test_attributes_with_second_names(cls):
    def step(x, config):
        config.hidden_size += 1
        got = [config.width, config.scale, hasattr(config, "none"), config.default_a]
        try:
            config.none
        except AttributeError as error:
            got.append(str(error))
        made = Settings(layers=config.layers)
        for _ in range(made.depth):
            x = x * config.hidden_size if isinstance(config, Settings) else x
        return x, got, vars(made), getattr(config, "kind", "plain")

    compiled, x = jit(step), eager.ones(2)
    plain, jitted = (cls(hidden_size=2, depth=2) for _ in range(2))
    for i in range(5):
        if i == 3:
            plain.kind = jitted.kind = "odd"
        Settings.reads = 0
        expected, reads = step(x, plain), Settings.reads
        Settings.reads = 0
        found = compiled(x, jitted)
        assert Settings.reads == reads and vars(plain) == vars(jitted)
        assert eager.equal(found[0], expected[0]) and found[1:] == expected[1:]
    if cls is Settings:
        assert (compiled.stats.splits, compiled.stats.fallbacks) == (0, 0)
        cls.renamed = {**cls.renamed, "kind": "width"}
        assert compiled(x, jitted)[3] == step(x, plain)[3] == jitted.width
        cls.renamed = {"hidden_size": "width", "layers": "depth"}
