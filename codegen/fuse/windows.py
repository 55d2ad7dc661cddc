"""Beside row_blocks: the columns that a mask leaves out. Group -> Window.

A causal mask, or that of a sliding window, compares the number of the column with that of the row:
on one side of a diagonal it is known. There the values of the group are known as well, as far as
needed (minus infinity before softmax, zero behind it), and where they are what a reduction starts
with, and zero in every product, these columns need not be computed. That a zero cancels what it is
multiplied by is true of finite numbers: where operands hold others, a block computes all columns
(`codegen.targets.cpp.blocks`). What overflows on the way, of finite operands, is not looked for.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from codegen.ir.schema import Call, Value
from codegen.ir.sizes import Shape, same
from eager.base.dataclass import dataclass

if TYPE_CHECKING:
    from codegen.fuse.row_groups import RowGroup

INF: Final = math.inf
ZERO, LEAST = 0.0, -INF  # what elements may be known to be; also True and False


@dataclass(frozen=True, slots=True)
class Window:
    """Row i needs the columns j with first < j - i < last."""

    first: float = -INF
    last: float = INF

    def __bool__(self) -> bool:
        return self.first > -INF or self.last < INF


@dataclass(frozen=True, slots=True)
class _Line:
    """The number row * i + column * j + more of the element (i, j)."""

    row: int
    column: int
    more: int


def window_of(group: RowGroup) -> Window:
    """The narrowest that is sure to change nothing."""
    ends = sorted({e for call in group.program.calls for e in _ends(group, call)})
    last = next((e for e in ends if _Known(group, e, INF).is_nothing()), INF)
    first = next((e for e in reversed(ends) if _Known(group, -INF, e).is_nothing()), -INF)
    return Window(first, last)


COMPARED: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def _ends(group: RowGroup, call: Call) -> Iterator[int]:
    """Diagonals at which a comparison may change its answer."""
    if call.op.name in COMPARED and len(call.outs[0].aval.shape) >= 2:
        known = _Known(group, 0, 0)
        line = known.difference(call)
        if line is not None:
            at = -line.more // line.column
            yield from range(at - 1, at + 3)


@dataclass(eq=False, slots=True)
class _Known:
    """Known values of the elements where lo <= j - i <= hi."""

    group: RowGroup
    lo: float
    hi: float
    found: dict[tuple[int, str], Any] = field(default_factory=dict)

    def is_nothing(self) -> bool:
        """True if every reduction and product is the same without these columns."""
        neutral = {"sum": ZERO, "amax": LEAST}
        for call, role in self.group.roles.items():
            if role in ("product", "sum", "total", "columns"):
                elements = [x for x in call.operands if self._is_element(x)]
                want: Any = ZERO
            elif role == "reduce":
                elements, want = list(call.operands), neutral.get(call.op.name)
            else:
                continue
            if want is None or any(self._of_group(x) != want for x in elements):
                return False
        return True

    def _of_group(self, x: Any) -> Any:
        return self.element(x, "".join(self.group.axes[x.id]))

    def _is_element(self, x: Any) -> bool:
        return isinstance(x, Value) and self.group.is_inside(x) and self.group.is_element(x)

    def element(self, x: Any, axes: str = "rc") -> Any:
        """ZERO, LEAST, a truth, a line; or None. `axes`: of its last dimensions."""
        if not isinstance(x, Value):
            return x if isinstance(x, bool | int | float) else None
        if (x.id, axes) not in self.found:
            self.found[x.id, axes] = None
            call = self.group.makers.get(x.id)
            if call is not None and len(call.outs) == 1:
                self.found[x.id, axes] = self._made(call, axes)
        return self.found[x.id, axes]

    def _made(self, call: Call, axes: str) -> Any:
        name, shape = call.op.name, call.outs[0].aval.shape
        axes = axes[-len(shape) :] if shape else ""
        if name == "iota":
            return {"r": _Line(1, 0, 0), "c": _Line(0, 1, 0)}.get(axes)
        if name in ("reshape", "unsqueeze", "squeeze"):
            return self._reshaped(call, axes)
        if name == "permute" and call in self.group.roles:
            return self.element(call.operands[0], axes[::-1])
        if name in COMPARED:
            return self._compared(call, axes)
        rule = RULES.get(name)
        if rule is None:
            return None
        by = call.operands[-1]
        if (
            name == "div"
            and isinstance(by, Value)
            and not all(same(n, 1) for n in by.aval.shape[-1:])
        ):
            return None  # an element that may be zero, too
        known = [self.element(x, axes) for x in call.operands]
        if call.outs[0].aval.dtype.is_floating_point:
            known = [float(x) if type(x) is int else x for x in known]
        return rule(*known)

    def _reshaped(self, call: Call, axes: str) -> Any:
        """Counted numbers as a row or as a column."""
        (x,) = call.operands
        assert isinstance(x, Value)
        shape = call.outs[0].aval.shape
        inner = x.aval.shape
        mine = [
            (n, axes[d - len(shape)] if len(shape) - d <= len(axes) else "")
            for d, n in enumerate(shape)
            if not same(n, 1)
        ]
        whole = [n for n in inner if not same(n, 1)]
        if len(mine) != 1 or len(whole) != 1 or not same(mine[0][0], whole[0]):
            return None
        return (
            self.element(x, mine[0][1])
            if len(inner) == 1
            else self.element(x, _spread(inner, mine[0][1]))
        )

    def difference(self, call: Call, axes: str = "rc") -> _Line | None:
        """The line whose sign a comparison asks for, if it follows the diagonal."""
        line = _minus(*(self.element(x, axes) for x in call.operands))
        good = isinstance(line, _Line) and line.row == -line.column and abs(line.column) == 1
        return line if good else None

    def _compared(self, call: Call, axes: str) -> bool | None:
        line = self.difference(call, axes)
        if line is None:
            return None
        ends = [line.column * d + line.more for d in (self.lo, self.hi)]
        answers = {COMPARED[call.op.name](end, 0) for end in ends}
        return answers.pop() if len(answers) == 1 else None


def _spread(shape: Shape, axis: str) -> str:
    return "".join(" " if same(n, 1) else axis for n in shape[-2:])


def _line(x: Any) -> _Line | None:
    if isinstance(x, _Line):
        return x
    return _Line(0, 0, x) if type(x) is int else None


def _plus(x: Any, y: Any) -> Any:
    a, b = _line(x), _line(y)
    if a and b:
        return _Line(a.row + b.row, a.column + b.column, a.more + b.more)
    if LEAST in (x, y):
        return LEAST
    return ZERO if (x, y) == (ZERO, ZERO) else None


def _negative(x: Any) -> Any:
    line = _line(x)
    if line:
        return _Line(-line.row, -line.column, -line.more)
    return x if x == ZERO else None


def _minus(x: Any, y: Any) -> Any:
    if _line(x) and _line(y):
        return _plus(x, _negative(y))
    if x == LEAST:
        return None if y == LEAST else LEAST
    return ZERO if (x, y) == (ZERO, ZERO) else None


def _where(truth: Any, x: Any, y: Any) -> Any:
    if truth is True or truth is False:
        return x if truth else y
    return x if x == y and type(x) is type(y) else None


def _cast(x: Any) -> Any:
    return float(x) if x is False else x


def _not(x: Any) -> bool | None:
    return None if x is not True and x is not False else not x


def _and(x: Any, y: Any) -> bool | None:
    if x is False or y is False:
        return False
    return True if x is True and y is True else None


def _or(x: Any, y: Any) -> bool | None:
    return _not(_and(_not(x), _not(y)))


def _times(x: Any, y: Any) -> Any:
    return ZERO if ZERO in (x, y) else None


RULES: Final[dict[str, Callable[..., Any]]] = {
    "add": _plus, "sub": _minus, "neg": _negative, "mul": _times, "where": _where,
    "div": lambda x, y: ZERO if x == ZERO else None,
    "exp": lambda x: ZERO if x == LEAST else None,
    "exp2": lambda x: ZERO if x == LEAST else None,
    "cast": _cast, "full": lambda x: x, "expand": lambda x: x, "clone": lambda x: x,
    "stop_gradient": lambda x: x,
    "bitwise_not": _not, "logical_not": _not, "bitwise_and": _and, "logical_and": _and,
    "bitwise_or": _or, "logical_or": _or,
}  # fmt: skip
