"""Members of classes, modules and builtins in the ways that a guard by value cannot tell apart."""

import abc
import builtins
import collections.abc
import sys
import types
import typing

import numpy as np

import eager
from eager import nn
from eager.nn import functional as F
from tests.never_wrong.harness import case
from tests.never_wrong.scene import module, nothing, rows, scene


@case("members")
def a_method_becomes_a_static_method_of_the_same_function():
    class Layer:
        def run(*args):
            return len(args)

    layer, run = Layer(), Layer.run
    return scene(lambda x: x * layer.run(x), lambda: setattr(Layer, "run", staticmethod(run)))


@case("members")
def indexing_of_tensors_is_replaced():
    original = eager.Tensor.__getitem__
    return scene(
        lambda x: x[0] + len(x),
        lambda: setattr(eager.Tensor, "__getitem__", lambda self, key: original(self, key) * 7),
        lambda: setattr(eager.Tensor, "__getitem__", original),
        lambda: setattr(eager.Tensor, "__len__", lambda self: 100),
    )


@case("members")
def a_property_of_tensors_reads_a_global():
    m = module("scale = 2\ndef get(x): return x * scale\n")
    return scene(
        lambda x: getattr(x, "never_wrong", 0) + x,
        lambda: setattr(eager.Tensor, "never_wrong", property(m.get)),
        lambda: setattr(m, "scale", 3),
    )


@case("members")
def a_list_in_the_class_of_tensors():
    log = [1]

    def step(x):
        if hasattr(x, "never_wrong"):
            x.never_wrong.append(2)
            return x * len(x.never_wrong)
        return x

    def put():
        eager.Tensor.never_wrong = log

    return scene(step, put, lambda: log.append(5), nothing, observe=lambda: log.copy())


@case("members")
def the_operator_of_a_subclass_of_tensors_reads_a_global():
    m = module("scale = 2\n")

    class Scaled(eager.Tensor):
        def __add__(self, other):
            return self.sum() * m.scale

        def __neg__(self):
            return self.sum() * -m.scale

        def __len__(self):
            return m.scale

    made = Scaled([1.0, 2.0, 3.0])
    return scene(lambda x: (made + x, -made, len(made)), lambda: setattr(m, "scale", 3))


@case("members")
def a_function_that_a_layer_uses_is_replaced_where_it_is_looked_up():
    original, layer = F.linear, nn.Linear(3, 2)
    return scene(
        lambda x: layer(x).detach(),
        lambda: setattr(F, "linear", lambda x, weight, bias: original(x, weight, bias) * 2),
        lambda: setattr(F, "linear", original),
    )


@case("members")
def a_base_of_a_library_gets_a_member_nearer():
    class Stack(collections.UserList):
        pass

    stack = Stack([1, 2])
    return scene(
        lambda x: x * stack.count(1), lambda: setattr(Stack, "count", lambda self, item: 50)
    )


@case("members")
def a_builtin_is_set_inside():
    def step(x):
        had = hasattr(builtins, "never_wrong_inside")
        builtins.never_wrong_inside = 3
        return x * never_wrong_inside, had  # noqa: F821

    return scene(step, nothing, lambda: delattr(builtins, "never_wrong_inside"))


@case("members")
def the_name_and_the_bases_of_a_class_are_read():
    class One:
        pass

    class Two:
        pass

    class Thing(One):
        pass

    def change():
        Thing.__name__ = "Other"
        Thing.__bases__ = (Two,)

    def step(x):
        return Thing.__name__, Thing.__bases__[0].__name__, [c.__name__ for c in Thing.__mro__], x

    return scene(step, change)


@case("members")
def a_base_is_assigned_and_isinstance_asked():
    class One:
        pass

    class Two:
        pass

    class Middle(One):
        pass

    class Thing(Middle):
        pass

    thing = Thing()
    return scene(
        lambda x: (isinstance(thing, Two), issubclass(Middle, (int, Two)), isinstance(thing, One)),
        lambda: setattr(Middle, "__bases__", (Two,)),
    )


@case("members")
def a_class_claims_to_be_another():
    class Real:
        pass

    class Proxy:
        claimed = Real

        @property
        def __class__(self):
            return self.claimed

    proxy = Proxy()
    return scene(
        lambda x: (isinstance(proxy, Real), isinstance(proxy, int), x),
        lambda: setattr(Proxy, "claimed", int),
    )


@case("members")
def unions_and_tuples_of_abstract_classes():
    class Shape(abc.ABC):  # noqa: B024
        pass

    class Square:
        pass

    square = Square()

    def step(x):
        return isinstance(square, int | Shape), isinstance(square, typing.Union[str, Shape])  # noqa: UP007

    return scene(step, lambda: Shape.register(Square))


@case("members")
def a_pattern_reads_the_order_of_arguments_of_a_class():
    class Point:
        __match_args__ = ("a", "b")

        def __init__(self):
            self.a, self.b = 1, 2

    point = Point()

    def step(x):
        match point:
            case Point(first):
                return x * first

    return scene(step, lambda: setattr(Point, "__match_args__", ("b", "a")))


@case("members")
def a_class_becomes_a_mapping():
    class Table:
        def keys(self):
            return ["a"]

        def get(self, key, default=None):
            return 5

        def __getitem__(self, key):
            return 5

        def __len__(self):
            return 1

    table = Table()

    def step(x):
        match table:
            case {"a": value}:
                return x * value
        return x

    return scene(step, lambda: collections.abc.MutableMapping.register(Table))


@case("members")
def settings_of_numpy_are_changed_inside():
    saved = np.geterr()

    def step(x):
        before = np.seterr(divide="ignore")
        return before["divide"], np.geterr()["divide"], x

    program = scene(step, nothing, lambda: np.seterr(divide="raise"), observe=np.geterr)
    program.close = lambda: np.seterr(**saved)
    return program


@case("members")
def a_long_int_in_a_container_is_printed():
    saved = sys.get_int_max_str_digits()
    held = [10**900]

    def step(x):
        try:
            return f"{held}", x
        except ValueError as error:
            return type(error).__name__

    program = scene(step, lambda: sys.set_int_max_str_digits(700))
    program.close = lambda: sys.set_int_max_str_digits(saved)
    return program


@case("members")
def a_metaclass_runs_when_a_class_is_made_inside():
    log = []

    class Meta(type):
        def __new__(mcs, name, bases, space):
            log.append(name)
            return super().__new__(mcs, name, bases, space)

    def step(x):
        class Made(metaclass=Meta):
            scale = 2

        return x * Made.scale

    return scene(step, nothing, observe=lambda: log.copy())


@case("members")
def the_attributes_of_numbers_and_texts_are_written_inside():
    class Tagged(int):
        pass

    class Name(str):  # noqa: SLOT000
        pass

    n, name = Tagged(3), Name("abc")
    n.tag, name.tag = 1, 1

    def step(x):
        n.tag += 1
        name.tag += n
        return x * n * n.tag, name.tag, {n: 1}[3], name + "d", [name].index("abc")

    return scene(step, nothing, lambda: setattr(n, "tag", 10), observe=lambda: (n.tag, name.tag))


class Meta(type):
    @property
    def missing(cls):
        raise AttributeError("not here")

    def __getattr__(cls, name):
        return f"{name} of the metaclass"


class Layer(metaclass=Meta):
    __slots__ = ("__held__", "__private")

    def __init__(self):
        self.__held__, self.__private = [1], 2

    def private(self):
        return self.__private


def _named():
    pass


def _said(ask):
    try:
        return ask()
    except (AttributeError, TypeError, ValueError) as error:
        return type(error), str(error)


_KINDS = (Layer, _named, Layer().private, [1], {1: 2}, "a", None, len, [].append, slice(1), (1,),
          list[int], types.CellType(1), types.SimpleNamespace(q=1), property(len), Layer())  # fmt: skip


@case("members")
def what_object_says_of_attributes_of_everything():
    def step(x, it):
        found = [
            _said(lambda name=name: ask(it, name))
            for name in ("__class__", "__bases__", "__dict__", "nope", "q")
            for ask in (object.__getattribute__, type(it).__getattribute__, getattr)
        ]
        found.append(_said(lambda: object.__setattr__(it, "x9", 3)))
        found.append(_said(lambda: it.x9))
        found.append(_said(lambda: object.__delattr__(it, "x9")))
        found.append(_said(lambda: object.__setattr__(it, "x9")))
        return x, [each if type(each) is tuple else type(each) for each in found]

    return rows(step, *((1, it) for it in _KINDS for _ in range(2)))


@case("members")
def methods_that_are_given_their_object():
    def step(x, it):
        asked = (
            lambda: object.__eq__(it, it),
            lambda: object.__ne__(it, it),
            lambda: (it.__eq__(it), it.__ne__(it)),
            lambda: len(object.__repr__(it)) > 3,
            lambda: hash(it) == hash(it),
            lambda: hash((1, (it,))) == hash((1, (it,))),
            lambda: type.__getattribute__(it, "__name__"),
            lambda: list.count(it, 3),
            lambda: object.__reduce_ex__(it, 2)[0].__name__,
            lambda: type("Made", (it,), {}).__name__,
            lambda: object.__repr__(),
        )
        return x, [_said(ask) for ask in asked]

    return rows(step, *((1, it) for it in _KINDS[1:] for _ in range(2)))


@case("members")
def a_cell_for_an_object():
    def step(x, it):
        return x, it.__class__

    return rows(step, (1, types.CellType(1)), (1, Layer), (1, _named), (1, types.CellType(2)))


@case("members")
def a_type_names_an_object():
    def step(x, held):
        return x, list[held], list[held].__args__[0] is held, dict[str, list[held]]

    return rows(step, (1, [1]), (1, [3]))


@case("members")
def slots_whose_names_are_special():
    layer = Layer()

    def step(x):
        layer.__held__.append(x)
        made = Layer()
        made.__held__ = (*layer.__held__, made.private())
        kept[:] = [made]
        return x, layer.private()

    kept = []
    return rows(
        step, (1,), (2,), observe=lambda: (layer.__held__, kept[0].__held__, kept[0].private())
    )


@case("members")
def a_metaclass_is_asked_for_what_a_descriptor_has_not():
    def step(x):
        return x, Layer.missing, Layer.other, getattr(Layer, "__private", 1)

    return scene(step, nothing)


@case("members")
def operands_that_are_of_a_type_of_c():
    def step(x):
        kinds = typing.Callable[[int], str], collections.abc.Callable[[int], str]
        return x, kinds[0] == kinds[1], kinds[1] == kinds[0], kinds[1] == kinds[1]

    return scene(step, nothing)


T = typing.TypeVar("T", bound=int)


@case("members")
def a_type_with_a_variable():
    def step(x):
        made = list[T] | str
        return (
            x,
            repr(made),
            made.__args__[0].__args__[0] is T,
            T.__name__,
            list[T][int],
            dict[T, T],
        )

    return scene(step, nothing)
