"""What stands for a value is shown to nobody: containers and what is none as text; NumPy's arrays."""

import collections
import dataclasses
import functools
import json
import types

import numpy as np

import eager
from tests.never_wrong.harness import Program, case, over

Pair = collections.namedtuple("Pair", "p q")  # noqa: PYI024


@dataclasses.dataclass
class Held:
    v: object


class Shown:
    def __init__(self, v):
        self.v = v

    def __repr__(self):
        return f"Shown({self.v})"


def containers(v):
    return [
        {"a": v}.values(), {"a": v}.items(), collections.OrderedDict(a=v).items(), {"a": [({"b": [[v]]},)]},
        functools.partial(max, v), functools.partial(max, key=[v]), types.MappingProxyType({"a": v}),
        collections.ChainMap({"a": v}), collections.deque([v], maxlen=3), collections.defaultdict(list, a=v),
        collections.Counter(a=v), collections.OrderedDict(a=v), Pair(v, 1), Held(v).__eq__, KeyError(v, 1),
        ValueError(v), types.SimpleNamespace(a=v), [[[[[[v]]]]]], slice(v), ExceptionGroup("g", [ValueError(v)]),
    ]  # fmt: skip


def texts(c):
    return [
        str(c), f"{c!r:.300}", f"{c}", "{!r}".format(c), "{a}".format(a=c), "{a!r}".format_map({"a": c}),  # noqa: UP032
        "%s" % (c,), "%(a)r" % {"a": c}, c.__repr__(), repr([c]), len(str(c)),
    ]  # fmt: skip


@case("shown")
def containers_of_tensors_as_text():
    def step(x, n):
        return [texts(c) for c in containers(x * n)[:10]]

    return over(step, [2])


@case("shown")
def further_containers_of_tensors_as_text():
    def step(x, n):
        return [texts(c) for c in containers(x * n)[10:]]

    return over(step, [2])


@case("shown")
def containers_of_numbers_as_text():
    def step(x, n):
        number = (x * n).sum().item()
        return [str(c) for v in (n, number, x.shape[0] * n) for c in containers(v)]

    return over(step, [2, 3, 5])


@case("shown", one_graph=True)
def views_and_deep_containers_are_printed_after_the_run():
    def step(x, n):
        d = {"loss": (x * n).sum(), "n": [[[[[x.sum().item()]]]]]}
        print(d.values(), d)
        print(f"{d.items()}", "{!r}".format(d), "{a}".format_map({"a": [d]}))  # noqa: UP032
        return x

    return over(step, [2.0, 3.0])


@case("shown")
def tensors_that_are_keys_as_text():
    def step(x, n):
        t = x * n
        return repr({t: 1}), str({t: n}.keys()), f"{ {t} }", repr(frozenset([t]))

    return over(step, [2.0, 3.0])


@case("shown")
def what_is_outside_is_read_before_it_is_shown():
    held = types.SimpleNamespace(l=[1, 2], d={"k": [3]}, s=Shown(4), e=ValueError(5), n=6)
    outside = [held.l, held.d, held, held.s, [held.s]]

    def step(x, n):
        held.n = n
        made = [
            f(v)
            for v in outside
            for f in (lambda v: {"a": v}.values(), lambda v: functools.partial(max, v))
        ]
        return (
            [repr(c) for c in made],
            repr(ValueError(held.e)),
            repr({held.s: n}),
            str({"a": held.s}.items()),
            x,
        )

    return over(step, [6, 7])


@case("shown")
def an_exception_is_raised_with_what_the_run_decides():
    def step(x, n):
        raise ValueError(frozenset([x * n]), KeyError(x.sum().int().item()))

    return over(step, [2.0])


@case("shown")
def exceptions_are_no_json():
    def step(x, n):
        try:
            return json.dumps(ValueError(int(x.sum())))
        except TypeError as error:
            return str(error)

    return over(step, [2])


@case("shown")
def a_deque_of_instances_keeps_its_limit():
    def step(x, n):
        return collections.deque([Held(n)], maxlen=4), f"{collections.deque([Shown(n)], 3)}", x

    return over(step, [2])


@case("shown")
def arrays_of_numbers_that_vary():
    def step(x, n, b):
        made = [
            np.array([n, 1]), np.array([[n, 1.5]]), np.array((x.shape[0], n)), np.array([n, b]), np.stack([[n], [2]]),
            np.arange(3) * [n, 1, n], np.asarray([n, 1]) / 2, np.array([n], "u1"), np.array([float(n) * 0.5, n]),
        ]  # fmt: skip
        made[0][1:] = [n]
        numbers = [
            np.prod(x.shape),
            np.min(x.shape),
            np.max([n, 3]),
            np.float32([n, 2]).sum(),
            np.sum([[n], [1]]),
        ]
        return [(a.dtype.str, a.tobytes(), a.shape) for a in made], [(type(v), v) for v in numbers]

    calls = [
        (eager.ones(k, 2), n, b)
        for k, n, b in ((2, 3, True), (3, 4, False), (5, -2, True), (2, 2**40, False))
    ]
    return Program(step, [c for c in calls[:3]] + [(calls[3][0], 200, True)])


@case("shown")
def arrays_of_tensors_are_converted():
    def step(x, n):
        a = (x * n).numpy()
        return (
            a.astype(bool),
            a.astype(np.int32),
            a.astype(float, copy=False),
            a.astype("f8"),
            a.astype(dtype="f4"),
        )

    return over(step, [2.0, 0.0])
