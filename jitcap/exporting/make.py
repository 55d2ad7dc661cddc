"""Exporting: one captured call, taken apart. function, example arguments -> Exported. Raises Break.

What the entry would do at each call (gather inputs, replay effects, make the value) is done here
once, and what comes of it is data.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eager.autograd import no_grad
from eager.core.tensor import Tensor, wrap
from eager.device.array import DeviceArray
from eager.random import default_generator
from eager.sizes.symint import hint, symbols_of
from jitcap.base.module_path import readable
from jitcap.base.origin import (
    Attribute,
    Computed,
    Drawn,
    Fixed,
    Keyword,
    Keywords,
    Origin,
    Positional,
)
from jitcap.base.terms import python, text
from jitcap.base.walks import reach
from jitcap.capture.epilogue_writes import VERSION
from jitcap.capture.result import Captured, Input, link
from jitcap.capture.sizes import DATA
from jitcap.exporting.exported import Exported
from jitcap.exporting.program import (
    ARGUMENT,
    COMPUTED,
    FUNCTIONS,
    GENERATOR,
    HELD,
    LEAF,
    NUMBER,
    SIZE,
    Program,
    form_of,
    tensors_in,
)  # fmt: skip
from jitcap.graph.graph import CHECK
from jitcap.guards.guard import Same
from jitcap.pipeline import front
from jitcap.versions.dynamism import Varying
from jitcap.versions.version import MISS, Options


def export(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic: bool = False,
) -> Exported:
    """The program that `fn(*args, **kwargs)` is, for tensors like those among the arguments.

    Arguments and results are tensors, and lists, tuples and dictionaries of them and of values that
    stay as they are. Sizes are fixed, but for those that `mark_dynamic` names, or all of the
    arguments' (`dynamic=True`). Parameters and buffers are copied; a program that updates buffers
    updates its copies, and one that draws random numbers draws anew at each call.

    Raises TypeError if `args` is no tuple or list, ValueError for a program that changes anything
    else, is given one object twice, draws numbers on the host or returns one that the run decides,
    and Break (what, where, why) for one that is no
    single graph.
    """
    if not isinstance(args, tuple | list):
        kind = type(args).__name__
        raise TypeError(f"export: args is a tuple of tensors, as in export(fn, (x,)); got a {kind}")
    given, named = tuple(args), dict(sorted((kwargs or {}).items()))

    def exported(*args: Any, **kwargs: Any) -> Any:
        return _apart(fn(*args, **kwargs))

    varying = Varying.of(Options(dynamic=dynamic or None)).known() - {DATA}
    with no_grad():
        captured = front().capture(exported, given, named, dynamic=varying)
        taken = _Taken(captured, tensors_in(([*given], named)))
        return taken.apart(given, named, _names(fn, given, named))


def _apart(result: Any) -> Any:
    """A result whose tensors are nobody else's. It is interpreted, as a part of the program."""
    if isinstance(result, Tensor):
        return result.detach().clone()
    if isinstance(result, dict):
        return {key: _apart(value) for key, value in result.items()}
    if isinstance(result, list | tuple):
        parts = [_apart(value) for value in result]
        return parts if isinstance(result, list) else tuple(parts)
    return result


class _Taken:
    """One captured call, taken apart."""

    def __init__(self, captured: Captured, tensors: Sequence[Tensor]) -> None:
        self.captured = captured
        self.arguments = {id(t._array): i for i, t in enumerate(tensors)}
        self.avals = [t.aval for t in tensors]
        self.held: list[Any] = []
        inputs = zip(captured.graph.inputs, captured.inputs, strict=True)
        self.sizes = {id(x.origin): n.attrs["symbol"] for n, x in inputs if "symbol" in n.attrs}

    def apart(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], names: Mapping[int, str]
    ) -> Exported:
        captured = self.captured
        graph = replace(captured.graph, name="exported")
        self._refuse_what_is_no_data()
        draws = self._effects()
        arrays, result = self._rehearse(args, kwargs)
        takes = tuple(map(self._source, captured.inputs, arrays))
        for n, given, array, (kind, place) in zip(
            graph.inputs, captured.inputs, arrays, takes, strict=True
        ):
            if kind == ARGUMENT:
                self.avals[place] = n.aval
                n.attrs["name"] = names.get(id(array), f"x{place}")  # type: ignore[index]
            elif kind == HELD and given.origin is not None:
                n.attrs["name"] = readable(given.origin.show())  # type: ignore[index]
        symbols = [s for aval in self.avals for n in aval.shape for s in symbols_of(n)]
        scope = symbols[0].scope if symbols else None
        form, avals = form_of(([*args], kwargs)), tuple(self.avals)
        program = Program(graph, captured.writes, takes, form, avals, scope, result, draws)
        return Exported(program, self.held)

    def _refuse_what_is_no_data(self) -> None:
        """Raises for numbers that the host draws or tells at each call, and for arguments that are
        one object with each other, or with what the program holds: a call may have other ones."""
        told = [x.origin for x in self.captured.inputs if isinstance(x.origin, Drawn)]
        if drawn := [*self.captured.drawn, *told]:
            raise ValueError(f"export: the host makes {drawn[0].label}() at each call; pass it")
        for guard in self.captured.guards.items:
            if isinstance(guard, Same) and guard.same and any(map(_is_given, guard.places())):
                one, other = (place.show() for place in guard.places())
                raise ValueError(f"export: {one} is {other}; give arguments of their own")

    def _effects(self) -> int:
        """Number of random draws of the program. Raises for what it changes beside memory."""
        draws, left = 0, []
        for effect in self.captured.epilogue.effects:
            count = effect.value[-1] if type(effect.value) is tuple else None
            is_ordinal = _is_generator(effect.origin) and effect.key == text("ordinal")
            if is_ordinal and type(count) is int:
                draws = count
            elif effect.form != VERSION:
                left.append(f"{effect.show()} ({effect.where})" if effect.where else effect.show())
        left += [f"what a call of the host does ({x.where})" for x in self.captured.epilogue.calls]
        if left:
            raise ValueError(f"export: the program changes {', '.join(left)}; export one without")
        return draws

    def _rehearse(self, args: Any, kwargs: Any) -> tuple[list[Any], Any]:
        """Inputs of the graph in this call, and the form of the result: made of outputs that are
        told apart by identity, and of other values the second time."""
        captured, forms = self.captured, list[Any]()
        captured.epilogue.effects.clear()
        ends = captured.graph.outputs
        hidden = {o for _, o in captured.writes} | {o for o, n in enumerate(ends) if n.op is CHECK}
        avals = [replace(n.aval, shape=tuple(map(hint, n.aval.shape))) for n in ends]

        def form(value: int, finish: Any) -> Any:
            outputs = [np.full(a.shape, value, a.dtype.np) for a in avals]
            given_back = [a for o, a in enumerate(outputs) if o not in hidden]
            numbers = {id(array): i for i, array in enumerate(given_back)}
            return form_of(finish(outputs, {})[0], lambda t: numbers[id(t._array)])

        def run(inputs: list[Any], *more: Any) -> list[Any]:
            _, finish = more  # what was read, what makes the value
            forms.extend(form(value, finish) for value in (0, 1))
            return inputs

        code = compile(captured.recorder(), "<exported entry>", "exec")
        inputs = link(code, captured.names.namespace, run, MISS, None)(args, kwargs)
        if forms[0] != forms[1] or (self.sizes and _holds_int(forms[0])):
            raise ValueError("export: a number that the run decides is returned; return a tensor")
        return inputs, forms[0]

    def _source(self, given: Input, value: Any) -> tuple[str, Any]:
        """Source of an input of the graph: its kind, and its index or the number."""
        origin = given.origin
        if isinstance(value, np.ndarray | DeviceArray):
            if origin is not None and id(value) in self.arguments:
                return ARGUMENT, self.arguments[id(value)]
            self.held.append(wrap(value).clone()._array)
            return HELD, len(self.held) - 1
        return NUMBER, self._number(origin, value)

    def _number(self, origin: Origin | None, value: Any) -> Any:
        """A number as data: itself, or how it is made of sizes and of the generator's state."""
        if id(origin) in self.sizes:
            return [SIZE, self.sizes[id(origin)]]
        if isinstance(origin, Attribute) and _is_generator(origin.base):
            return [GENERATOR, origin.name]
        if not isinstance(origin, Computed) or not self._varies(origin):
            return value
        if _is_seed(origin.sources[0]):
            return [GENERATOR, "seed_value"]  # the graph has it with a sign
        if any(f not in FUNCTIONS.values() for f in origin.bound):
            raise ValueError(f"export: {origin.show()} is computed by the host; export one without")
        names = [name for f in origin.bound for name, g in FUNCTIONS.items() if g is f]
        parts = [self._number(s, None) for s in origin.sources]
        if None in parts:
            raise ValueError(f"export: {origin.show()} is computed of a number that is not kept")
        form = origin.of([*(f"x{i}" for i in range(len(parts))), *names])
        return [COMPUTED, python(form), *parts]

    def _varies(self, origin: Origin) -> bool:
        """True if a number depends on a size or on the generator: it may change between calls."""
        every = reach([origin], lambda o: o.parents())
        return any(id(o) in self.sizes or _is_generator(o) for o in every)


def _names(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[int, str]:
    """Parameter names of the tensors that are arguments themselves, by the ids of their arrays."""
    try:
        bound = inspect.signature(fn).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):  # a builtin's
        return {}
    return {id(x._array): name for name, x in bound.items() if isinstance(x, Tensor)}


def _is_generator(origin: Origin) -> bool:
    return isinstance(origin, Fixed) and origin.value is default_generator


def _is_seed(origin: Origin) -> bool:
    named = isinstance(origin, Attribute) and origin.name == "seed_value"
    return named and _is_generator(origin.parents()[0])


def _is_given(origin: Origin) -> bool:
    """True if an origin is read from the arguments of a call."""
    return isinstance(origin.root, Positional | Keyword | Keywords)


def _holds_int(form: Any) -> bool:
    kind, *parts = form
    if kind == "=":
        return type(parts[0]) is int
    return kind != LEAF and any(map(_holds_int, parts[kind == "dict" :]))
