"""Conformance programs: isinstance and issubclass of all that may stand for a class."""

import abc
import collections.abc
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


@case()
def what_typing_names_and_refuses():
    found = []
    for kind in (typing.Any, typing.List[int], list[int], Typed):
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
    class Abstract(metaclass=abc.ABCMeta):
        pass

    class Registered:
        pass

    found = [issubclass(Registered, Abstract), isinstance(Registered(), Abstract)]
    Abstract.register(Registered)
    return [*found, issubclass(Registered, Abstract), isinstance(3, Abstract)]
