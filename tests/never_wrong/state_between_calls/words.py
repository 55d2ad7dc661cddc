"""Errors in Python's words: of attributes, of calls, of operators. Addresses in texts."""

import types

import numpy as np

from tests.never_wrong.harness import Program, case, vector
from tests.never_wrong.scene import nothing, rows, scene


@case("words")
def attributes_of_what_is_written_in_c():
    import decimal

    context, array = decimal.Context(), np.arange(4)

    def step(x):
        context.prec = 5
        array.shape = (2, 2) if array.ndim == 1 else (4,)
        return context.prec, array.shape, x

    return scene(step, nothing, observe=lambda: (context.prec, array))


@case("words")
def a_read_only_attribute_is_written():
    frozen = range(3)

    def step(x):
        told = []
        for target, name in (
            (frozen, "start"),
            (5, "real"),
            (None, "a"),
            ("s", "b"),
            (object(), "c"),
        ):
            try:
                setattr(target, name, 1)
            except (AttributeError, TypeError) as error:
                told.append((type(error).__name__, str(error)))
        return told

    return scene(step, nothing)


@case("words")
def a_missing_attribute_in_python_s_words():
    class Thing:
        __slots__ = ("a",)

    thing = Thing()

    def step(x):
        told = []
        for target in (thing, Thing, 5, "s", None, x, [1], len, 2.5, range(2), step):
            try:
                target.nothing_there
            except AttributeError as error:
                told.append((str(error).replace("'", ""), error.name, error.obj is target))
        return told

    return scene(step, nothing)


@case("words")
def wrong_calls_in_python_s_words():
    class Thing:
        def run(self, a, *, b):
            return a

    def helper(a, /, b, *, c=1):
        return a

    five, one, none = 5, [1], None
    calls = [
        lambda: helper(),
        lambda: helper(1),
        lambda: helper(1, 2, 3),
        lambda: helper(a=1, b=2),
        lambda: helper(1, 2, d=3),
        lambda: helper(1, b=2, **{"b": 3}),  # noqa: PLE1132
        lambda: Thing().run(),
        lambda: Thing().run(1),
        lambda: Thing(1),
        lambda: five(),
        lambda: [][0],  # noqa: PLE0643
        lambda: {}["k"],
        lambda: one["a"],
        lambda: len(5),
        lambda: 1 + "a",
        lambda: "a" < 1,
        lambda: iter(5),
        lambda: int("x"),
        lambda: [*5],
        lambda: {**5},
        lambda: -"a",
        lambda: none[0],
        lambda: sum("ab"),
    ]

    def step(x, i):
        try:
            return calls[i]()
        except (TypeError, LookupError, ValueError) as error:
            return type(error).__name__, str(error)

    return rows(step, *((0, i) for i in range(len(calls))))


@case("words")
def properties_under_two_names():
    class Held:
        first = property(lambda self: 1)
        second = first
        none = property()

    def said(fn, *args):
        try:
            return fn(*args)
        except AttributeError as error:
            return str(error)

    held = Held()

    def step(x):
        names = [(o, n) for o in (held, Held()) for n in ("first", "second", "none")]
        return x, [(said(setattr, *at, 1), said(delattr, *at), said(getattr, *at)) for at in names]

    return scene(step, nothing)


@case("words")
def texts_that_show_an_address():
    class Plain:
        pass

    class Named(Plain):
        def __str__(self):
            return "named"

    plain, named = Plain(), Named()

    def step(x):
        texts = repr(plain), f"{plain!r}", "%s" % plain, "{}".format(plain), ascii(plain)  # noqa: UP031, UP032
        lists = [str([named, plain]) == f"[{named!r}, {plain!r}]", str(named), f"{named}"]
        return x, len(set(texts)), texts[0] == object.__repr__(plain), lists

    return scene(step, nothing)


_SHOWN = (
    lambda: zip([1]),
    lambda: enumerate([1]),
    lambda: iter([1]),
    lambda: [{1: map(str, [1])}],
    lambda: filter(None, [1]),
    object,
    lambda: lambda: 0,
    lambda: [].append,
    lambda: [].__len__,
    lambda: types.SimpleNamespace(a=object()),
    lambda: property(len),
    lambda: types.CellType(3),
    lambda: ValueError(zip()),
    lambda: _SHOWN[0],
)


@case("words")
def the_address_in_a_text_is_that_of_the_object():
    kept = []

    def step(x, make):
        made = make()
        texts = repr(made), str(made), f"{made}", f"{made!r:>9}", "%r" % (made,), ascii(made)
        kept.append((made, (*texts, "{}{!r}".format(made, made))))  # noqa: UP032 - the method is meant
        return x

    def shown(made):
        return repr(made), str(made), str(made), repr(made), repr(made), repr(made)

    def right():
        pairs = [zip(shown(made), texts[:6], strict=True) for made, texts in kept]
        return [[a in b for a, b in pair] for pair in pairs]

    rows = [(vector(), make) for make in _SHOWN for _ in range(2)]
    return Program(step, rows, right)
