"""Capture: questions about run-time numbers. (number, type wanted) -> value and a relational guard.

A number that comes from outside has a value now, and control flow may ask for it: the answer
becomes a guard on the *condition* (`lr > 0.0`), not on the number. A number that only the graph
knows (`loss.item()`) cannot answer, unless it is made of constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from eager.aval import Aval, scalar_aval
from eager.ops.pointwise import CAST
from eager.sym import SymNumber
from jitcap.capture.kinds.base import Session
from jitcap.capture.origin import Computed, Origin
from jitcap.functional import DataDependent
from jitcap.graph import Node
from jitcap.guards import Holds

# How a scalar node is spelled in Python and computed while capturing.
_INFIX: Final = {
    "add": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "div": "({} / {})",
    "floor_divide": "({} // {})", "remainder": "({} % {})", "pow": "({} ** {})",
    "eq": "({} == {})", "ne": "({} != {})", "lt": "({} < {})", "le": "({} <= {})",
    "gt": "({} > {})", "ge": "({} >= {})", "neg": "(-{})", "abs": "abs({})",
    "and_": "({} & {})", "or_": "({} | {})", "not_": "(not {})",
}  # fmt: skip
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    name: getattr(math, name)
    for name in ("sqrt", "exp", "log", "sin", "cos", "tan", "tanh", "sinh", "cosh", "log1p",
                 "expm1", "log2", "atan", "asin", "acos", "erf")
}  # fmt: skip


def concretize(s: Session, number: SymNumber, want: type) -> Any:
    """The value of `number` as `want`, guarded where it is read from outside. Raises DataDependent
    if only the graph knows it."""
    origin = origin_of(s, number.handle)
    if origin is None:
        known = s.tracer.value(number.handle)
        if known is not None:
            return want(known)
        if want is bool and _is_divisor_check(number):
            return True
        what = f"{want.__name__}() of a value that is known only when the program runs"
        if s.search is not None:
            return s.search.decide(want, what)
        raise DataDependent(what)
    value = hint_of(s, number.handle)
    value = bool(value) if want is bool else value
    s.guards.add(Holds(origin, s.line(), value))
    return want(value)


def _is_divisor_check(number: SymNumber) -> bool:
    """`x != 0` of a divisor that only the graph knows: dividing gives inf or nan, as tensors do."""
    node = number.handle
    return isinstance(node, Node) and node.op.name == "ne" and node.args[1] == 0


def origin_of(s: Session, handle: Any) -> Origin | None:
    """How to compute a number from the outside before the graph runs, or None."""
    if not isinstance(handle, Node):
        return Computed((), "{}", (handle,))
    found = s.outside.numbers.get(handle)
    if found is not None:
        return found
    template = _template(handle)
    if template is None:
        return None
    parts = [origin_of(s, a) if isinstance(a, Node) else a for a in handle.args]
    if any(p is None for p in parts):
        return None
    sources = tuple(p for p in parts if isinstance(p, Origin))
    filled = template.format(*("{}" if isinstance(p, Origin) else _literal(p) for p in parts))
    bound: tuple[Any, ...] = ()
    if handle.op.name in _FUNCTIONS:
        filled, bound = filled.replace("FUNCTION", "{}", 1), (_FUNCTIONS[handle.op.name],)
        return _FunctionOf(sources, filled, bound)
    return Computed(sources, filled, bound)


class _FunctionOf(Computed):
    """`math.f(x)`: the bound function comes first in the template."""

    def expr(self, var: Any, bind: Any) -> str:
        return self.template.format(*(bind(b) for b in self.bound), *(var(s) for s in self.sources))

    def show(self) -> str:
        names = [getattr(b, "__name__", "f") for b in self.bound]
        return self.template.format(*names, *(s.show() for s in self.sources))


def _template(node: Node) -> str | None:
    name = node.op.name
    if name in _FUNCTIONS:
        return "FUNCTION({})"
    if name == CAST.name:
        kind = {0: "bool", 1: "int", 2: "float", 3: "complex"}[node.aval.dtype.category]
        return f"{kind}({{}})"
    return _INFIX.get(name)


def _literal(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    return repr(value)


def hint_of(s: Session, handle: Any) -> Any:
    """The value of a number now, in Python's arithmetic."""
    if not isinstance(handle, Node):
        return handle
    hints = s.tracer.hints
    if handle not in hints:
        values = [hint_of(s, a) for a in handle.args]
        template = _template(handle)
        assert template is not None
        if handle.op.name in _FUNCTIONS:
            hints[handle] = _FUNCTIONS[handle.op.name](*values)
        else:
            names = [f"x{i}" for i in range(len(values))]
            hints[handle] = eval(template.format(*names), dict(zip(names, values, strict=True)))
    return hints[handle]


def cast(s: Session, number: Any, cls: type) -> Any:
    """`int(x)`, `float(x)` of a run-time number: still a run-time number."""
    if not isinstance(number, SymNumber):
        return cls(number)
    if number.pytype is cls:
        return number.item()
    if cls is int and number.pytype is float and origin_of(s, number.handle) is not None:
        return int(concretize(s, number, float))
    aval: Aval = scalar_aval(cls())
    (handle,) = s.tracer.emit(CAST, (number.handle,), {"dtype": aval.dtype}, (aval,))
    return SymNumber(s.tracer, handle, cls)
