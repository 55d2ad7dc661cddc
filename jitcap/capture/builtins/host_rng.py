"""Capture: numbers drawn by `random` and NumPy inside a program. generator's method -> SymNumber,
array that is an input of the graph.

The host draws them anew at every call, in program order, after the guards and before the graph,
which takes them as run-time numbers. What depends on their value otherwise (a branch, an index, a
shape) is decided between two compiled parts. Registered beside the handlers of `objects.py`.
"""

from __future__ import annotations

import random
from types import MethodType
from typing import Any, Final

import numpy as np

from codegen import CheckFailed
from eager.base import dtype as dt
from eager.construct.interop import from_numpy, numpy
from eager.core.sym import SymNumber
from eager.core.traced import fresh
from eager.device import Size
from eager.sizes.aval import scalar_aval
from jitcap.base.breaks import Break
from jitcap.base.origin import Drawn, DrawnPart
from jitcap.capture.kinds.base import HANDLERS, Handler, Session
from jitcap.capture.kinds.constants import GENERATORS
from jitcap.capture.kinds.deferred import Deferred

# Methods that give an int which is as small as what they are called with. Whether another gives a
# float, or an array, is what a draw of it tells.
_INTS: Final = frozenset({"randint", "randrange"})
_KNOWN: Final = frozenset(d.np for d in dt.ALL)
_KNOWN_TYPES: Final = frozenset(d.np.type for d in dt.ALL)


def _drawing(cls: type, name: str) -> Handler:
    """Draws a float or an int, or an array. What else a method gives, or does, is refused."""

    def handler(s: Session, owner: Any, /, *args: Any, **kwargs: Any) -> Any:
        label = f"{cls.__module__.partition('.')[0]}.{name}"
        given, named = tuple(map(s.known, args)), {k: s.known(v) for k, v in kwargs.items()}
        if not s.outside.is_fixed(owner) or not all(map(_is_plain, (*given, *named.values()))):
            raise Break("time and chance", f"{label}() is called")
        if any(type(x) is int and abs(x) >= 1 << 62 for x in given):
            raise Break("time and chance", f"{label}() draws an int beyond 64 bits")
        another = _STATES[type(owner)][0]()  # the program's draws nothing while it is captured
        sample = getattr(another, name)(*given, **named)  # raises what it always raises
        drawn = Drawn(len(s.drawn), getattr(owner, name), given, label, tuple(named.items()))
        if type(sample) is np.ndarray and sample.dtype in _KNOWN:
            made = from_numpy(sample)
            node = s.tracer.input(drawn.name, made.aval)
            s.drawn[node] = drawn
            made._array = fresh(s.tracer, node, made.aval)
            return Deferred(numpy, (made,), cls=np.ndarray)
        if named or not (type(sample) is float or (type(sample) is int and name in _INTS)):
            raise Break("time and chance", f"{label}() is called")
        return number(s, drawn, type(sample))

    return handler


def number(s: Session, drawn: Drawn, pytype: type) -> SymNumber:
    """A drawn number, as an input of the graph."""
    node = s.tracer.input(drawn.name, scalar_aval(pytype()))
    s.drawn[node] = drawn
    return SymNumber(s.tracer, pytype, node)


def _shuffled(owner: random.Random, values: tuple[Any, ...]) -> list[Any]:
    """The values in the order into which `owner.shuffle` puts them."""
    made = [*values]
    owner.shuffle(made)
    return made


# How those draw among given numbers that `random` has.
_AMONG: Final[dict[str, Any]] = {
    "choice": random.Random.choice, "choices": random.Random.choices,
    "sample": random.Random.sample, "shuffle": _shuffled,
}  # fmt: skip


def _choosing(name: str) -> Handler:
    """Draws one or some of given numbers of one type, or puts them in another order."""

    def handler(s: Session, owner: Any, given: Any, /, *args: Any, **kwargs: Any) -> Any:
        label = f"random.{name}"
        made_here = type(given) in (list, tuple, range) and s.outside.shadow(given) is None
        types = {*map(type, given)} if made_here else set()
        known = s.outside.is_fixed(owner) and type(owner) is random.Random
        if len(types) != 1 or not types <= {int, float} or not known:
            raise Break("time and chance", f"{label}() is called")
        pytype = types.pop()
        if name == "choices" and args:
            args = (_plain_list(s, args[0]), *args[1:])
        named = {k: _plain_list(s, v) for k, v in kwargs.items()}
        among = given if type(given) is range else tuple(given)
        plain = among, *map(s.known, args)
        if pytype is int and not -(1 << 62) < min(among) <= max(among) < 1 << 62:
            raise Break("time and chance", f"{label}() draws an int beyond 64 bits")
        sample = _AMONG[name](random.Random(0), *plain, **named)  # raises what it always raises  # noqa: S311
        method = MethodType(_AMONG[name], owner)
        drawn = Drawn(len(s.drawn), method, plain, label, tuple(named.items()))
        if name == "choice":
            return number(s, drawn, pytype)
        s.drawn[drawn] = drawn
        made = [
            number(s, DrawnPart(len(s.drawn), method, (), label, (), drawn, i), pytype)
            for i in range(len(sample))
        ]
        if name != "shuffle":
            return made
        for i, x in enumerate(made):
            s.setitem(given, i, x)
        return None

    return handler


def _plain_list(s: Session, value: Any) -> Any:
    """Weights, or a number."""
    return tuple(map(s.known, s.list_of(value))) if type(value) in (list, tuple) else s.known(value)


def _is_plain(value: Any) -> bool:
    """A number, a shape, or the type of an array's elements."""
    if type(value) in (tuple, Size):
        return all(map(_is_plain, value))
    if type(value) is type:
        return value in _KNOWN_TYPES
    return value is None or type(value) in (bool, int, float)


# How another generator of the type is made, and how the state of one is read and written.
_STATES: Final[dict[type, tuple[Any, Any, Any]]] = {
    random.Random: (lambda: random.Random(0), random.Random.getstate, random.Random.setstate),  # noqa: S311
    np.random.RandomState: (
        lambda: np.random.RandomState(0),
        np.random.RandomState.get_state,
        np.random.RandomState.set_state,
    ),
    np.random.Generator: (
        lambda: np.random.Generator(np.random.PCG64(0)),
        lambda owner: owner.bit_generator.state,
        lambda owner, state: setattr(owner.bit_generator, "state", state),
    ),
}


def states(methods: tuple[Any, ...]) -> list[Any]:
    """The states of the generators whose methods are called, for `restore`."""
    return [_STATES[type(m.__self__)][1](m.__self__) for m in methods]


def restore(methods: tuple[Any, ...], kept: list[Any]) -> None:
    """Undo the draws of a run that was given up."""
    for method, state in zip(methods, kept, strict=True):
        _STATES[type(method.__self__)][2](method.__self__, state)


def run_once(run: Any, given: list[Any], methods: tuple[Any, ...], before: list[Any]) -> list[Any]:
    """The graph, after draws of the host: a run that is given up has drawn nothing."""
    try:
        outputs: list[Any] = run(given)
    except CheckFailed:
        restore(methods, before)
        raise
    return outputs


for _cls in GENERATORS:
    for _name in dir(_cls):
        if _name.startswith("_") or not callable(getattr(_cls, _name)):
            continue
        _among = _cls is random.Random and _name in _AMONG
        _handler = _choosing(_name) if _among else _drawing(_cls, _name)
        HANDLERS[getattr(_cls, _name)] = HANDLERS[_cls, _name] = _handler
