"""Conformance programs: what `match` refuses."""

from .table import case


class Twice:
    __match_args__ = ("a", "a")
    a = 1


class Named:
    __match_args__ = ("a", "b")
    a, b = 1, 2


class Numbered:
    __match_args__ = (3,)


class Listed:
    __match_args__ = ["a", "b"]
    a, b = 1, 2


class Lettered:
    __match_args__ = "ab"
    a, b = 1, 2


class Absent(int):
    __match_args__ = None


class Own(int):
    __match_args__ = ("real",)


class Key:
    NAME = "a"
    NUMBER = 1


KIND = 5


def _text(match, *subject):
    try:
        return match(*subject)
    except (TypeError, ValueError) as error:
        return type(error).__name__, str(error)


def _two(subject, cls):
    match subject:
        case cls(a, b):
            return a, b


def _one(subject, cls):
    match subject:
        case cls(a):
            return (a,)


def _also(subject, cls):
    match subject:
        case cls(_, a=b):
            return b


@case()
def what_match_asks_of_a_class():
    found = []
    for cls in (Twice, Named, Numbered, Listed, Lettered, Absent, Own, int, dict, object):
        for match in (_two, _one, _also):
            found.append(_text(match, cls(), cls))
    return found


@case()
def what_is_matched_by_no_class():
    return _text(_one, 5, KIND), _text(_one, 5, int | str)


@case()
def a_name_is_matched_where_one_before_it_is_missing():
    class Half:
        __match_args__ = ("missing", "missing")

    return _text(_two, Half(), Half)


def _keys(subject):
    match subject:
        case {Key.NAME: a, "a": b}:
            return a, b
        case {Key.NUMBER: a, True: b}:
            return a, b


@case({"a": 1}, {1: 2}, {2: 3})
def a_key_is_matched_twice(first, second, third):
    return [_text(_keys, subject) for subject in (first, second, third)]
