"""Conformance programs: statements, expressions, calls, exceptions, generators."""

import contextlib
import dataclasses

from .subjects import (
    Base,
    Color,
    Derived,
    Dynamic,
    Frozen,
    Manager,
    Pair,
    Point,
    Slotted,
    Typed,
)
from .table import case

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
        helper(a, c=1, *[7, 8]),  # noqa: B026
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
        dict(zip("ab", gen(2), strict=True)),
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
    d.other = 3
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
def keyword_defaults(n):
    def f(a, *, b=n, c=2, **more):
        return a, b, c, sorted(more)

    return f(1), f(1, b=5, z=0), (lambda *, k=n: k)()


@case("v")
def exception_groups(text):
    def shown(e):
        if isinstance(e, BaseExceptionGroup):
            return type(e).__name__, str(e), [shown(x) for x in e.exceptions]
        return type(e).__name__, str(e)

    def run(raised, again=False):
        log = []
        try:
            try:
                raise raised
            except* ValueError as group:
                log.append(("values", shown(group)))
                if again:
                    raise
            except* (TypeError, KeyError) as group:
                log.append(("others", shown(group)))
                if again:
                    raise RuntimeError("new") from group
            else:
                log.append("none")
        except BaseException as error:
            log.append(("left", shown(error), error.__cause__ is None))
        return log

    errors = values, types, keys = ValueError(text), TypeError("t"), KeyError("k")
    nested = ExceptionGroup("outer", [values, ExceptionGroup("inner", [types, OSError("o")])])
    return (
        run(ExceptionGroup("all", errors)),
        run(ExceptionGroup("two", [values, OSError("o")])),
        run(ExceptionGroup("all", errors), again=True),
        run(nested),
        run(nested, again=True),
        run(ValueError("lone")),
        run(OSError("other")),
    )


@case()
def a_keyword_is_given_twice():
    found = []
    for first, second in (({"a": 1}, {"a": 2}), ({"a'b": 1}, {"a'b": 2}), ({1: 1}, {1: 2})):
        try:
            helper(1, **first, **second)
        except TypeError as error:
            found.append(str(error))
    return found


@case(None, 2)
def operands_in_place_that_do_not_fit(a, b):
    found = []
    for change in ("**", "-", "@", "//", "<<", "&"):
        x = a
        try:
            match change:
                case "**":
                    x **= b
                case "-":
                    x -= b
                case "@":
                    x @= b
                case "//":
                    x //= b
                case "<<":
                    x <<= b
                case _:
                    x &= b
        except TypeError as error:
            found.append(str(error))
    return found


@case()
def notes_that_are_no_list():
    error, found = ValueError("noted"), []
    error.__notes__ = ("first",)
    try:
        error.add_note("second")
    except TypeError as refusal:
        found.append(str(refusal))
    return found, error.__notes__
