"""Beside row_blocks: sums over the columns of a group that its results tell. Group -> Program.

The gradient of a softmax needs, of each row, the sum of dP * P, where dP = dO V^T. Since O = P V,

    sum_j dP[i, j] P[i, j] = sum_j sum_d dO[i, d] V[j, d] P[i, j] = sum_d dO[i, d] O[i, d]

which needs no elements at all: so they need not be there for whole rows. (Dao et al. 2022, section
B.2; here it is any sum of a product whose factors, but for numbers and numbers of rows, are those
of a product with the same matrix.)
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from codegen.ir.schema import Call, Program, Value
from codegen.ir.sizes import same
from eager.base.dataclass import dataclass
from eager.core.op import REGISTRY
from eager.ops.reduce import SUM
from eager.ops.view import PERMUTE
from eager.sizes.aval import Aval

if TYPE_CHECKING:
    from codegen.fuse.row_groups import RowGroup


@dataclass(eq=False, slots=True)
class _Factors:
    """number * rows (by power) * elements (by power)."""

    number: float = 1.0
    rows: Counter[Value] = field(default_factory=Counter)
    elements: Counter[Value] = field(default_factory=Counter)


def sums_by_results(group: RowGroup) -> Program:
    """The program with such sums computed of results; itself, if there is none."""
    fresh = group.program.free_ids()
    found: dict[Call, list[Call]] = {}
    for call, role in group.roles.items():
        if role == "reduce" and call.op is SUM and group.level(call):
            calls = _by_results(group, call, fresh)
            if calls:
                found[call] = calls
    if not found:
        return group.program
    calls = [c for call in group.program.calls for c in found.get(call, (call,))]
    return replace(group.program, calls=tuple(calls))


def _by_results(group: RowGroup, call: Call, fresh: Any) -> list[Call]:
    """The calls that compute `call`'s result, or none."""
    (x,) = call.operands
    assert isinstance(x, Value)
    wanted = _Factors()
    _split(group, x, 1, wanted)
    for source in [v for v, power in wanted.elements.items() if power == 1]:
        made = group.makers[source.id]
        if group.roles.get(made) != "source":
            continue
        a, b = made.operands
        assert isinstance(a, Value)
        rest = Counter(wanted.elements)  # (minus would drop what is divided by)
        del rest[source]
        for other, role in group.roles.items():
            if role != "product" or group.level(other) >= group.level(call):
                continue
            p, v = other.operands
            given = _Factors()
            _split(group, p, 1, given)
            if given.elements == rest and _is_turned(group, v, b) and given.number:
                return _Sum(group, call, fresh).calls(a, other.outs[0], wanted, given)
    return []


def _split(group: RowGroup, x: Any, power: int, into: _Factors) -> None:
    """Multiplies `into` by x ** power."""
    if not isinstance(x, Value):
        into.number *= float(x) ** power
        return
    call = group.makers.get(x.id)
    name = call.op.name if call is not None else ""
    alike = call is not None and all(
        v.aval.dtype is x.aval.dtype for v in call.operands if isinstance(v, Value)
    )
    if not group.is_element(x) and all(same(n, 1) for n in x.aval.shape[-1:]):
        into.rows[x] += power
    elif call is None or not alike:
        into.elements[x] += power
    elif name == "neg":
        into.number *= -1
        _split(group, call.operands[0], power, into)
    elif name == "expand":
        _split(group, call.operands[0], power, into)
    elif name in ("mul", "div"):
        _split(group, call.operands[0], power, into)
        _split(group, call.operands[1], power if name == "mul" else -power, into)
    else:
        into.elements[x] += power


def _is_turned(group: RowGroup, v: Any, other: Any) -> bool:
    """True if `other` is `v` with its last two dimensions swapped."""
    for x, y in ((v, other), (other, v)):
        call = group.makers.get(x.id)
        if call is not None and call.op is PERMUTE and call.operands[0] is y:
            last = x.aval.ndim - 1
            if call.attrs["dims"] == (*range(last - 1), last, last - 1):
                return True
    return False


@dataclass(eq=False, slots=True)
class _Sum:
    """The calls for sum_j source[i, j] rest[i, j] = sum_d a[i, d] result[i, d], in the terms of one
    call."""

    group: RowGroup
    call: Call
    fresh: Any
    made: list[Call] = field(default_factory=list)

    def calls(self, a: Value, result: Value, wanted: _Factors, given: _Factors) -> list[Call]:
        x = self.add("mul", (a, result), a.aval)
        shape = (*x.aval.shape[:-1], 1)
        last = {"dim": (len(shape) - 1,), "keepdim": True}
        x = self.add("sum", (x,), replace(x.aval, shape=shape), **last)
        if wanted.number != given.number:
            x = self.add("mul", (x, wanted.number / given.number), x.aval)
        powers = {v: wanted.rows[v] - given.rows[v] for v in (*wanted.rows, *given.rows)}
        for v, power in powers.items():
            for _ in range(abs(power)):
                x = self.add("mul" if power > 0 else "div", (x, v), x.aval)
        out = self.call.outs[0]
        shaped = Call(REGISTRY["reshape"], (x,), {"shape": out.aval.shape}, (out,), self.call.where)
        return [*self.made, shaped]

    def add(self, name: str, operands: tuple[Any, ...], aval: Aval, **attrs: Any) -> Value:
        out = Value(next(self.fresh), aval)
        self.made.append(Call(REGISTRY[name], operands, attrs, (out,), self.call.where))
        return out
