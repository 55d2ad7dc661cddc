"""Conformance programs: isinstance and issubclass of all that may stand for a class."""

import abc
import collections.abc
import copy
import typing

from .table import case


class Checks:
    """As good as a class for `isinstance`, by its hooks."""

    def __init__(self, answer):
        self.answer = answer

    def __instancecheck__(self, obj):
        return self.answer

    def __subclasscheck__(self, cls):
        return not self.answer


class Nothing:
    pass


class Typed(typing.TypedDict):
    a: int


CHECKS = Checks(True)


@case()
def what_typing_names_is_asked():
    values = 3, [], {}, None, len, int, iter([]), (x for x in [])
    kinds = (
        typing.Hashable,
        typing.Sized,
        typing.List,
        typing.Mapping,
        typing.Callable,
        typing.Iterator,
        typing.Generator,
        typing.SupportsInt,
        typing.Union[int, str],
        typing.Optional[str],
        collections.abc.Collection,
    )
    found = [[isinstance(value, kind) for kind in kinds] for value in values]
    return found, issubclass(int, typing.Hashable), issubclass(dict, typing.Sequence)


LISTS = typing.List[int]  # noqa: UP006 - not inside: typing_extensions looks at frames there


@case()
def what_typing_names_and_refuses():
    found = []
    for kind in (typing.Any, LISTS, list[int], Typed):
        for ask in (isinstance, issubclass):
            try:
                found.append(ask(int, kind))
            except TypeError:
                found.append("refused")
    return found


@case()
def an_object_checks_as_a_class_does():
    other = Checks(False)
    asked = [isinstance(3, CHECKS), isinstance(3, (str, CHECKS)), issubclass(int, CHECKS)]
    asked += [isinstance(3, other), isinstance(3, (other, str)), issubclass("no class", other)]
    for ask, given in ((isinstance, (3, Nothing())), (issubclass, (Nothing(), int))):
        try:
            ask(*given)
        except TypeError:
            asked.append("refused")
    return asked


@case()
def classes_are_registered_inside():
    class Abstract(metaclass=abc.ABCMeta):  # noqa: B024 - nothing is to be defined
        pass

    class Registered:
        pass

    found = [issubclass(Registered, Abstract), isinstance(Registered(), Abstract)]
    Abstract.register(Registered)
    return [*found, issubclass(Registered, Abstract), isinstance(3, Abstract)]


class Keyworded(int):
    def __new__(cls, *, n):
        made = int.__new__(cls, n)
        made.n = n
        return made

    def __getnewargs_ex__(self):
        return (), {"n": self.n}


@case()
def an_object_is_copied_by_the_keywords_of_its_class():
    found = []
    for copied in (copy.copy(Keyworded(n=3)), copy.deepcopy([Keyworded(n=4)])[0]):
        found.append((int(copied), copied.n, type(copied) is Keyworded))
    return found


@case()
def zero_arguments_of_super_that_are_gone():
    class Plain:
        def deleted(self):
            del self
            super()

        def in_a_cell(self):
            def inner():
                return self  # noqa: F821 - that it is gone is the point

            del self
            super()

        def without_class(self):
            nonlocal __class__
            del __class__
            super()

    found = []
    for name in ("deleted", "in_a_cell", "without_class"):
        try:
            getattr(Plain(), name)()
        except RuntimeError as error:
            found.append(str(error))
    return found


@case()
def a_missing_attribute_tells_whose_it_is():
    class Plain:
        pass

    plain, found = Plain(), []
    for ask in (
        lambda: plain.gone,
        lambda: getattr(plain, "gone"),  # noqa: B009 - it is asked by the builtin
        lambda: object.__getattribute__(plain, "gone"),
    ):
        try:
            ask()
        except AttributeError as error:
            found.append((error.name, error.obj is plain))
    return found


@case()
def comprehensions_of_class_bodies_read_what_is_around_the_class():
    x, scale = 3, 10

    class A:
        x = 1
        y = [x * scale for _ in range(2)]
        z = {k: [x + k for _ in "ab"] for k in (x, 2)}

    return A.x, A.y, A.z
