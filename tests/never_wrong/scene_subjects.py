"""Subtypes of numbers, strings and containers, for the programs of state_between_calls/."""

import collections
import enum
import typing


class Count(int):
    unit = "m"

    def __repr__(self):
        return f"Count({int(self)})"

    def __add__(self, other):
        return Count(int(self) + int(other) + 100)


class Name(str):  # noqa: SLOT000
    def __eq__(self, other):
        return str(self).lower() == str(other).lower()

    def __hash__(self):
        return hash(str(self).lower())


class Color(enum.IntEnum):
    RED = 1
    BLUE = 2


class Mode(enum.StrEnum):
    TRAIN = "train"
    TEST = "test"


class Flags(enum.Flag):
    A = 1
    B = 2


class Bits(enum.IntFlag):
    A = 1
    B = 2


Point = collections.namedtuple("Point", "x y", defaults=[5])


class Pair(typing.NamedTuple):
    a: int
    b: object = None

    def total(self):
        return self.a * 10


class Missing(dict):
    def __missing__(self, key):
        return f"missing {key}"
