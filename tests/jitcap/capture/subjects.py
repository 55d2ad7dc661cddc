"""Classes that the conformance programs work on."""

import collections
import dataclasses
import enum
import functools
import typing


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Point:
    x: int
    y: int = 2
    tags: list = dataclasses.field(default_factory=list)

    def norm1(self):
        return abs(self.x) + abs(self.y)

    @property
    def swapped(self):
        return Point(self.y, self.x)


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int
    b: str = "b"


Pair = collections.namedtuple("Pair", "left right")


class Typed(typing.NamedTuple):
    n: int
    name: str = "x"


class Base:
    count = 3
    registry = {}

    def __init__(self, value):
        self.value = value

    def get(self):
        return self.value

    @classmethod
    def make(cls, v):
        return cls(v)

    @staticmethod
    def double(v):
        return 2 * v


class Derived(Base):
    def __init__(self, value, extra=1):
        super().__init__(value)
        self.extra = extra

    def get(self):
        return super().get() + self.extra

    def __len__(self):
        return self.value

    def __getitem__(self, i):
        if i >= self.value:
            raise IndexError(i)
        return i * 10

    def __contains__(self, x):
        return x == 77

    def __call__(self, a, *rest, k=5):
        return a + sum(rest) + k

    def __eq__(self, other):
        return isinstance(other, Derived) and self.value == other.value

    def __hash__(self):
        return hash(self.value)

    def __add__(self, other):
        return Derived(self.value + (other.value if isinstance(other, Base) else other))

    def __radd__(self, other):
        return Derived(other + self.value)

    def __iadd__(self, other):
        self.value += other
        return self

    def __lt__(self, other):
        return self.value < other.value

    def __bool__(self):
        return self.value > 0

    def __repr__(self):
        return f"Derived({self.value})"

    def __neg__(self):
        return Derived(-self.value)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


class Dynamic:
    def __init__(self):
        self.seen = []

    def __getattr__(self, name):
        if name.startswith("dyn_"):
            return name[4:]
        raise AttributeError(name)

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        if name != "seen":
            self.seen.append(name)


class Manager:
    def __init__(self, log, swallow=False):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, tb):
        self.log.append(kind.__name__ if kind else None)
        return self.swallow


class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n <= 0:
            raise StopIteration
        self.n -= 1
        return self.n


class Meta(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.stamp = cls.__name__
        return made


class WithMeta(metaclass=Meta):
    def __init__(self, x):
        self.x = x


class Descriptor:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, owner=None):
        return self if obj is None else getattr(obj, self.name, 0)

    def __set__(self, obj, value):
        setattr(obj, self.name, value * 2)


class Described:
    field = Descriptor()

    @functools.cached_property
    def lazy(self):
        return 41 + 1
