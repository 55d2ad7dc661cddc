"""Each construct of Python, interpreted by capture against plain CPython: values, effects, exceptions."""

import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import math
import operator
import typing

import pytest
from .harness import check, version_of

CASES = {}


def case(*args, **kwargs):
    def register(fn):
        CASES[fn.__name__] = (fn, args, kwargs)
        return fn

    return register


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


GLOBAL = 10
TABLE = {"a": 1, "b": [1, 2]}


def helper(a, b=2, *args, c, d=4, **kw):
    return (a, b, args, c, d, sorted(kw.items()))


@case(3, 4)
def arithmetic(a, b):
    return (
        a + b,
        a - b,
        a * b,
        a / b,
        a // b,
        a % b,
        a**b,
        -a,
        +a,
        ~a,
        a & b,
        a | b,
        a ^ b,
        a << b,
        b >> 1,
    )


@case(3, 4)
def comparisons(a, b):
    return a < b, a <= b, a > b, a >= b, a == b, a != b, a is b, a is not b, a < b < 10, not a


@case([1, 2, 3])
def containers(xs):
    t = (1, *xs, 2)
    s = {*xs, 5}
    d = {"k": 1, **{"j": 2}}
    xs.append(4)
    xs[0] = "first"
    del xs[1]
    xs += [7, 8]
    return t, s, d, xs, xs[1:], xs[::-1], len(xs), 2 in xs, 9 not in xs


@case({"a": 1, "b": 2})
def dictionaries(d):
    d["c"] = d["a"] + 1
    d.pop("b")
    d.setdefault("z", []).append(3)
    out = [(k, v) for k, v in d.items()]
    d.update(q=1)
    return out, d.get("nope"), d.get("a", 5), list(d), "a" in d, list(d.values()), {**d}


@case({"a": 1, "b": 2})
def dictionary_order(d):
    v = d.pop("a")
    d["a"] = v
    return list(d)


@case(5)
def loops(n):
    out = []
    for i in range(n):
        if i == 1:
            continue
        if i == 4:
            break
        out.append(i)
    else:
        out.append("else")
    while n > 0:
        n -= 2
    else:
        out.append(n)
    return out


@case(4)
def comprehensions(n):
    y = 3
    a = [i * y for i in range(n) if i % 2]
    b = {i: j for i in range(n) for j in range(i)}
    c = {i % 3 for i in range(n)}
    d = list(i + y for i in range(n))
    e = [[j for j in range(i)] for i in range(n)]
    f = [(lambda: i)() for i in range(n)]
    return a, b, c, d, e, f, sum(x for x in a)


@case([1, 2, 3, 4])
def unpacking(xs):
    a, b, *c = xs
    *d, e = xs
    (f, g), h = (1, 2), 3
    a, b = b, a
    return a, b, c, d, e, f, g, h


@case([1, 2])
def unpack_too_few(xs):
    a, b, c = xs
    return a


@case(1, 2)
def calls(a, b):
    args, kw = (a, b, 3), {"c": 5, "e": 6}
    return (
        helper(a, c=b),
        helper(*args, **kw),
        helper(a, c=1, *[7, 8]),
        (lambda q, *r, s=1: (q, r, s))(1, 2, s=3),
    )


@case(1)
def wrong_call(a):
    return helper(a)


@case(1)
def unexpected_keyword(a):
    return Base(a, nope=1)


@case(3)
def closures(n):
    total = 0

    def add(k):
        nonlocal total
        total += k
        return total

    def outer():
        def inner():
            return n * total

        return inner

    add(1)
    add(n)
    return total, outer()()


def counter_factory():
    count = 0

    def step():
        nonlocal count
        count += 1
        return count

    return step


@case(2)
def globals_read_and_write(n):
    global GLOBAL
    before = GLOBAL
    GLOBAL = before + n
    after = GLOBAL
    GLOBAL = 10
    return before, after, TABLE["b"][0]


@case([3, 1, 2])
def exceptions(xs):
    log = []
    try:
        xs[10]
    except IndexError as error:
        log.append(str(error))
    else:
        log.append("else")
    finally:
        log.append("finally")
    try:
        try:
            {}["k"]
        except KeyError as e:
            raise ValueError("v") from e
    except ValueError as e:
        log.append((e.args, type(e.__cause__).__name__))
    try:
        int("x")
    except (TypeError, ValueError):
        log.append("bad")
    for i in range(3):
        try:
            if i == 1:
                continue
            log.append(i)
        finally:
            log.append("f")
    return log


@case()
def raises():
    d = {}
    return d["missing"]


@case(0)
def divides(n):
    return 1 / n


@case(-1)
def asserts(n):
    assert n > 0, f"n is {n}"


@case()
def reraise():
    try:
        try:
            raise KeyError("a")
        except KeyError:
            raise
    except KeyError as e:
        return repr(e)


@case()
def return_in_finally():
    def f():
        try:
            return 1
        finally:
            log.append(2)

    log = []
    return f(), log


@case([])
def with_statement(log):
    with Manager(log) as m, Manager(log, swallow=True):
        log.append(type(m).__name__)
        raise ValueError("inside")
    return log


@case([])
def with_return(log):
    with Manager(log):
        return len(log)


@case([])
def with_propagates(log):
    with Manager(log):
        raise KeyError("out")


@contextlib.contextmanager
def managed(log, name):
    log.append("in " + name)
    try:
        yield name
    finally:
        log.append("out " + name)


@case([])
def contextlib_manager(log):
    with managed(log, "a") as a, contextlib.suppress(KeyError):
        log.append(a)
        raise KeyError
    with contextlib.nullcontext(5) as five:
        log.append(five)
    return log


def gen(n):
    got = []
    for i in range(n):
        x = yield i
        got.append(x)
    return got


def delegating(n):
    result = yield from gen(n)
    yield ("result", result)


@case(3)
def generators(n):
    g = gen(n)
    a = next(g)
    b = g.send("sent")
    rest = list(g)
    return (
        a,
        b,
        rest,
        list(delegating(2)),
        next(iter(()), "default"),
        [*gen(2)],
        dict(zip("ab", gen(2))),
    )


@case()
def generator_return():
    g = gen(1)
    next(g)
    try:
        g.send("x")
    except StopIteration as stop:
        return stop.value


def closing(log):
    try:
        yield 1
        yield 2
    finally:
        log.append("closed")


@case([])
def generator_close(log):
    g = closing(log)
    next(g)
    g.close()
    h = closing(log)
    next(h)
    try:
        h.throw(ValueError("thrown"))
    except ValueError as e:
        log.append(str(e))
    return log


@case(Derived(4), Derived(2))
def user_objects(a, b):
    a.fresh = [1]
    return (
        a.get(),
        len(a),
        a[1],
        77 in a,
        a(1, 2, k=3),
        a == b,
        a != b,
        (a + b).value,
        (1 + a).value,
        a < b,
        bool(b),
        repr(a),
        str(b),
        f"{a}",
        list(a),
        (-a).value,
        max(a, b).value,
        sorted([a, b])[0].value,
        Derived.make(3).extra,
        a.double(4),
        a.count,
        hash(a),
        sum([a, b], Derived(0)).value,
        [a] == [b],
        a in [b, a],
    )


@case(Derived(4))
def inplace_method(a):
    b = a
    b += 5
    return b is a, a.value


@case(Slotted(3))
def slots(s):
    s.b = s.a + 1
    s.a = [s.b]
    return s.b, hasattr(s, "c"), hasattr(s, "b")


@case(Dynamic())
def dynamic_attributes(d):
    d.new = d.dyn_hello
    setattr(d, "other", 3)
    missing = getattr(d, "nope", "default")
    return d.seen, missing, hasattr(d, "zip"), vars(d)["new"]


@case(Dynamic())
def missing_attribute(d):
    return d.nope


@case(5)
def plain_missing_attribute(n):
    return Base(n).nothing


@case(Point(1, 5))
def dataclass_use(p):
    q = dataclasses.replace(p, x=10)
    p.tags.append("t")
    return (
        p.norm1(),
        p.swapped,
        q == p,
        Point(1) == Point(1),
        repr(p),
        Frozen(1),
        hash(Frozen(1)) == hash(Frozen(1)),
    )


@case(Pair(1, 2), Typed(3))
def named_tuples(p, t):
    q = Pair(p.right, p.left)._replace(left=9)
    l, r = q
    return p.left, q, l, r, q._asdict(), t.name, Typed(1, "z"), isinstance(q, tuple), p._fields


@case(Color.RED)
def enums(c):
    return (
        c is Color.RED,
        c.name,
        c.value,
        Color(2),
        Color["BLUE"],
        [x.name for x in Color],
        c == Color.BLUE,
        {c: 1}[Color.RED],
    )


@case(3)
def metaclasses(n):
    w = WithMeta(n)
    return w.stamp, w.x


@case(4)
def descriptors(n):
    d = Described()
    d.field = n
    return d.field, d.lazy, d.lazy, sorted(vars(d))


@case(6)
def local_classes(n):
    class Local(Base):
        factor = n

        def get(self):
            return super().get() * self.factor

    return Local(2).get(), Local.__name__, Local.make(1).value


@case({"kind": "circle", "r": 2}, (1, 2, 3), Point(0, 7), "text")
def matching(d, t, p, s):
    out = []
    for subject in (d, t, p, s, 5, [1], None, {"x": 1, "y": 2}, Color.RED):
        match subject:
            case {"kind": "circle", "r": r}:
                out.append(("circle", r))
            case {"x": x, **rest}:
                out.append((x, rest))
            case (a, *more) if a == 1 and more:
                out.append(more)
            case Point(x=0, y=y):
                out.append(y)
            case str(text):
                out.append(text)
            case 5 | 6:
                out.append("five")
            case Color.RED:
                out.append("red")
            case None:
                out.append("none")
            case _:
                out.append("other")
    return out


@case([5, 3, 8])
def builtins_over_lists(xs):
    return (
        sum(xs),
        min(xs),
        max(xs),
        sorted(xs),
        sorted(xs, key=lambda v: -v),
        list(reversed(xs)),
        list(enumerate(xs, 1)),
        list(zip(xs, "abc")),
        list(map(lambda a, b: a + b, xs, xs)),
        list(filter(lambda v: v > 3, xs)),
        any(xs),
        all(xs),
        any(v > 7 for v in xs),
        max(xs, key=lambda v: -v),
        abs(-3),
        round(2.6),
        divmod(7, 2),
        pow(2, 5, 7),
        isinstance(xs, list),
        issubclass(bool, int),
        callable(len),
        type(xs).__name__,
        str(xs),
        repr("a"),
        int("5"),
        tuple(xs),
        set(xs),
        frozenset(xs),
        list(range(1, 10, 3)),
        iter([1]).__next__(),
        chr(65),
        ord("a"),
        bin(5),
        "%d-%s" % (1, "x"),
    )


@case([5, 3, 8])
def library_functions(xs):
    return (
        functools.reduce(lambda a, b: a * b, xs),
        functools.partial(helper, 1, c=2)(3),
        operator.add(1, 2),
        list(itertools.chain(xs, [1])),
        list(itertools.product("ab", repeat=2)),
        list(itertools.accumulate(xs)),
        list(itertools.islice(itertools.count(3), 2)),
        list(itertools.zip_longest("ab", "c")),
        math.sqrt(16),
        math.floor(2.5),
        math.prod(xs),
        collections.Counter("aab")["a"],
        collections.OrderedDict(a=1),
        operator.itemgetter(1)(xs),
        list(itertools.starmap(lambda a, b: a - b, [(3, 1)])),
        list(itertools.takewhile(lambda v: v > 4, xs)),
        math.pi,
    )


@case()
def default_dictionaries():
    d = collections.defaultdict(list)
    d["a"].append(1)
    e = collections.defaultdict(lambda: 7)
    q = collections.deque([1, 2], maxlen=2)
    q.append(3)
    return dict(d), e["x"], list(q), len(e)


@case("héllo", 3.5)
def strings(s, f):
    return (
        f"{s!r:>10}|{len(s):03d}|{s}",
        s.upper(),
        s.split("l"),
        ",".join(str(i) for i in range(3)),
        s[1:3],
        "{} {x}".format(1, x=2),
        s.startswith("h"),
        s + "!",
        s * 2,
        "l" in s,
        s.replace("l", "L"),
        sorted(s),
        "a\n b".splitlines(),
        s.encode(),
    )


@case(3)
def walrus_and_conditions(n):
    if (m := n * 2) > 5 and not n < 0 or n == 100:
        r = m if n else -m
    else:
        r = 0
    return m, r, n and 5, n or 6, None or [] or "x"


@case([1, 2, 3])
def iterate_and_mutate(xs):
    out = []
    for x in xs:
        out.append(x)
        if len(xs) < 6:
            xs.append(x + 10)
    return out


@case(Countdown(3))
def user_iterators(c):
    return (
        list(c),
        [x for x in Countdown(2)],
        list(zip(Countdown(3), Countdown(2))),
        sum(Countdown(4)),
        tuple(Countdown(1)),
    )


@case(4)
def recursion(n):
    def fact(k):
        return 1 if k <= 1 else k * fact(k - 1)

    return fact(n)


@functools.lru_cache(maxsize=None)
def cached(n):
    return n + 1


@case(4)
def decorated(n):
    def twice(fn):
        @functools.wraps(fn)
        def inside(*args, **kwargs):
            return fn(*args, **kwargs) * 2

        return inside

    @twice
    def f(x):
        "doc"
        return x + 1

    return f(n), f.__name__, f.__doc__, cached(n)


@case([1, [2, 3]])
def identities(xs):
    ys = [xs, xs, xs[1]]
    ys[2].append(ys[0] is ys[1])
    return ys, xs[1] is ys[2], xs


@case([1])
def returns_argument(xs):
    xs.append(xs[0])
    return {"same": xs, "also": [xs]}


@case()
def cycles():
    a = []
    a.append((a, 1))
    b = {"self": None}
    b["self"] = b
    return a[0][0] is a, b["self"] is b


@case(2)
def prints(n):
    print("start", n, [n, "x"], sep="-", end="!\n")
    for i in range(n):
        print(i, Derived(i))
    print()
    return n


@case({1, 2, 3})
def sets(s):
    s.add(4)
    s.discard(1)
    return 2 in s, s | {9}, s & {2}, len(s), {x for x in s if x > 2}


@case(5)
def imports(n):
    import math as m
    from collections import OrderedDict as O

    return m.factorial(n), O(a=1)


@case()
def unbound_local():
    if GLOBAL == -1:
        x = 1
    return x  # noqa: F821


@case()
def undefined_name():
    return nonexistent_name  # noqa: F821


@case(3)
def star_expressions(n):
    return [*range(n), *"ab"], {**{"a": 1}, "b": 2}, (*[], 1), print(*[1, 2])


@case(1.5, 2.0)
def floats(a, b):
    return (
        a + b,
        a * b,
        a / b,
        a - 1,
        -a,
        a < b,
        a == 1.5,
        a**2,
        max(a, b),
        abs(-a),
        int(a),
        float(3),
        a // 1,
        bool(a),
    )


@case([1.5, 2.5])
def float_lists(xs):
    return (
        sum(xs),
        [x * 2 for x in xs],
        max(xs),
        sorted(xs, reverse=True),
        f"{xs[0]:.2f}",
        str(xs[1]),
    )


@case([3, 4], {"n": 1})
def deletes(xs, d):
    y = 5
    del y, d["n"], xs[0]
    return xs, d


@case(Base(3))
def attribute_deletion(b):
    b.other = 1
    del b.value
    return hasattr(b, "value"), b.other


@case(Base(1))
def class_attributes(b):
    b.count += 1
    return (
        b.count,
        Base.count,
        type(b).__name__,
        b.__class__ is Base,
        isinstance(b, Base),
        Base.registry.get("x"),
    )


@case(7)
def slices_objects(n):
    s = slice(1, n, 2)
    return list(range(10))[s], s.start, s.indices(5), (1, 2, 3)[-1], "abc"[::-1]


@case(3)
def nested_functions_with_defaults(n):
    fs = [lambda x, i=i: x + i for i in range(n)]
    return [f(10) for f in fs]


@case(3)
def boolean_short_circuit(n):
    log = []

    def t(v):
        log.append(v)
        return v

    r = t(0) or t(n) and t("") or t("end")
    return r, log


@pytest.mark.parametrize("name", sorted(CASES))
def test_case(name):
    fn, args, kwargs = CASES[name]
    check(fn, *args, **kwargs)


def test_closure_state():
    plain, jitted = counter_factory(), counter_factory()
    for _ in range(3):
        _, entry = version_of(jitted, (), {})
        assert entry((), {}) == plain()
