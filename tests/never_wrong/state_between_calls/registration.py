"""Classes that are told about others: registration, protocols, abstract methods."""

import abc
import collections
import typing

from tests.never_wrong.harness import case
from tests.never_wrong.scene import scene


@case("registration")
def a_class_is_registered_later():
    class Shape(abc.ABC):  # noqa: B024
        pass

    class Square:
        pass

    square = Square()

    def step(x):
        return x * (2 if isinstance(square, Shape) else 3)

    return scene(step, lambda: Shape.register(Square))


@case("registration")
def issubclass_of_a_class_that_is_registered_later():
    class Shape(abc.ABC):  # noqa: B024
        pass

    class Square:
        pass

    def step(x):
        return issubclass(Square, Shape), isinstance(Square(), (str, Shape))

    return scene(step, lambda: Shape.register(Square))


@case("registration")
def a_class_becomes_a_sequence():
    class Row:
        pass

    row = Row()

    def step(x):
        match row:
            case [*_]:
                return "sequence"
        return isinstance(row, collections.abc.Sequence)

    return scene(step, lambda: collections.abc.Sequence.register(Row))


@case("registration")
def a_runtime_protocol_is_met_later():
    @typing.runtime_checkable
    class Closes(typing.Protocol):
        def close(self): ...

    class Door:
        pass

    door = Door()

    def step(x):
        return x * (2 if isinstance(door, Closes) else 3)

    return scene(
        step,
        lambda: setattr(Door, "close", lambda self: None),
        lambda: delattr(Door, "close"),
        lambda: setattr(door, "close", print),
    )


@case("registration")
def a_data_protocol_is_met_by_an_attribute():
    @typing.runtime_checkable
    class Named(typing.Protocol):
        name: str

    class Thing:
        pass

    thing = Thing()

    def step(x):
        return isinstance(thing, Named)

    return scene(step, lambda: setattr(thing, "name", "a"), lambda: delattr(thing, "name"))


@case("registration")
def a_subclass_hook_changes_its_mind():
    answers = [True]

    class Shape(abc.ABC):  # noqa: B024
        @classmethod
        def __subclasshook__(cls, other):
            return answers[0]

    class Square:
        pass

    def change():
        answers[0] = False
        Shape.register(type("Other", (), {}))

    def step(x):
        return issubclass(Square, Shape)

    return scene(step, change)


@case("registration")
def becoming_hashable_callable_iterable():
    class Thing:
        pass

    thing = Thing()

    def step(x):
        return callable(thing), isinstance(thing, collections.abc.Iterable)

    return scene(
        step,
        lambda: setattr(Thing, "__call__", lambda self: 1),
        lambda: setattr(Thing, "__iter__", lambda self: iter([])),
    )


@case("registration")
def an_abstract_method_is_implemented_later():
    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self): ...

    class Square(Shape):
        pass

    def change():
        Square.area = lambda self: 4
        abc.update_abstractmethods(Square)

    def step(x):
        return x * Square().area()

    return scene(step, change)
