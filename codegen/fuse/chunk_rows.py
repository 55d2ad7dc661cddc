"""Before lower, on the CPU: large matrices are not held, but computed and used by a few rows at a
time. Program -> Program with scans.

A product with far more columns than its depth (the logits of a loss over many classes) starts a
region: the calls that read a matrix of its size, and what lies between them. Where each of them
computes its rows from the same rows of its operands (pointwise, sums along a row, products with a
whole matrix), or sums over the rows (the gradients of weight and bias), and no matrix of that size
is needed outside, the region becomes the body of a scan over chunks of rows. Sums over rows are
carried, and added to in place; other results are stacked. Nothing is computed twice. Rows are cut
by their number alone, so results do not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, ClassVar, Final, TypeAlias

from codegen.fuse.elements import tensors
from codegen.ir.schema import Call, Program, Value
from codegen.ir.sizes import is_static
from eager.base.dataclass import dataclass
from eager.base.dtype import DType
from eager.core.op import REGISTRY, Op
from eager.ops.contract import DOT
from eager.ops.index import GATHER
from eager.ops.reduce import SUM
from eager.ops.view import EXPAND, PERMUTE, RESHAPE
from eager.sizes.aval import Aval

LARGE = 64 << 20  # bytes of a matrix that is not held
CHUNK = 32 << 20  # bytes of its rows that are computed at a time, at most
WIDE = 8  # its columns over the depth of the product: else cutting costs more than it saves
FEWEST = 8  # rows of a chunk: of fewer, products read their weights for too little


@dataclass(frozen=True, eq=False)
class Loop(Op):
    """A loop (`codegen.targets.cpp.control`) whose body adds to what it carries, in place."""

    kind: ClassVar[str] = "control"

    def __post_init__(self) -> None:
        """No op of programs: in no registry."""


@dataclass(frozen=True, eq=False)
class Product(Loop):
    """A matrix product of a program of ops, in the form that routines take."""

    kind: ClassVar[str] = "contract"


SCAN: Final = Loop("scan", ("*operands",))
DOT_ADD: Final = Product("dot_add", ("c", "a", "b"))  # which may lie in the memory of c

Place: TypeAlias = tuple[Value, int]  # a value, and the dimension of its rows
Inside: TypeAlias = dict[tuple[int, int | None], Value]  # by value, and where its rows are
Dims: TypeAlias = Sequence[int | None]  # those of a call's operands; None: all rows of it are read


def chunk_rows(program: Program) -> Program:
    for call in program.calls:
        if _is_seed(call):
            region = _Region(program, call)
            if call in program.calls and region.find():
                program = _Writer(region).run()
    return program


def _is_seed(call: Call) -> bool:
    if call.op is not DOT:
        return False
    out, a = call.outs[0].aval, call.operands[0]
    assert isinstance(a, Value)
    if out.ndim != 2 or not is_static((*out.shape, *a.aval.shape)):
        return False
    if not out.dtype.is_floating_point:
        return False
    return out.nbytes > LARGE and out.shape[1] >= WIDE * a.aval.shape[1] and _chunk(out) > 0


def _chunk(aval: Aval) -> int:
    """Rows of a chunk: the most that divide all, or 0."""
    rows = aval.shape[0]
    most = min(CHUNK * rows // aval.nbytes, rows // 2)
    return next((n for n in range(most, FEWEST - 1, -1) if rows % n == 0), 0)


# ---------------------------------------------------------------------------------- rules of rows


def spread(call: Call, dim: int) -> list[int | None] | None:
    """The dimension of the rows in each operand, where the result's is `dim`: the rows of the
    result are of the same rows of these operands, and of all of the others (None). None: they
    are of more."""
    op, attrs, out = call.op, call.attrs, call.outs[0].aval
    if len(call.outs) != 1:
        return None
    shapes = [v.aval.shape if isinstance(v, Value) else () for v in call.operands]
    if op.kind in ("pointwise", "cast") or op is EXPAND:
        return [_aligned(shape, out.ndim - dim) for shape in shapes]
    if op.kind in ("reduce", "argreduce") and "dim" in attrs:
        gone = attrs["dim"] if isinstance(attrs["dim"], tuple) else (attrs["dim"],)
        gone = tuple(d % max(len(shapes[0]), 1) for d in gone)
        if attrs["keepdim"]:
            return None if dim in gone else [dim]
        return [[d for d in range(len(shapes[0])) if d not in gone][dim]]
    if op is PERMUTE:
        return [attrs["dims"][dim]]
    if op is RESHAPE:
        before, size = math.prod(out.shape[:dim]), out.shape[dim]
        ends = (d for d, n in enumerate(shapes[0]) if n == size)
        at = next((d for d in ends if math.prod(shapes[0][:d]) == before), None)
        return None if at is None else [at]
    if op is GATHER and attrs["dim"] % out.ndim != dim:
        return [dim, dim] if shapes[0][dim] == out.shape[dim] else None
    if op is DOT and out.ndim == 2:
        return [0, None] if dim == 0 else [None, 1]
    return None


def _aligned(shape: Sequence[Any], behind: int) -> int | None:
    at = len(shape) - behind
    return at if at >= 0 and shape[at] != 1 else None


def _sums(call: Call) -> list[int] | None:
    """The dimension of the rows in each operand, where the result is a sum over them."""
    if call.op is SUM:
        (x,) = call.operands
        assert isinstance(x, Value)
        return [d % max(x.aval.ndim, 1) for d in call.attrs["dim"]]
    if call.op is DOT and call.outs[0].aval.ndim == 2:
        return [1, 0]
    return None


# ---------------------------------------------------------------------------------- regions


@dataclass(eq=False, slots=True)
class _Region:
    """The calls that are done in chunks of the rows of `seed`."""

    program: Program
    seed: Call
    rows: dict[int, int] = field(default_factory=dict)  # the dimension, by value that depends on it
    after: set[int] = field(default_factory=set)  # what depends on it
    calls: dict[Call, Dims] = field(default_factory=dict)  # with the rows of their operands
    sums: set[Call] = field(default_factory=set)  # those of `calls` that sum over the rows
    slices: dict[tuple[int, int], Place] = field(default_factory=dict)  # of operands from outside
    whole: dict[int, Value] = field(default_factory=dict)  # other operands from outside
    users: dict[int, list[Call | None]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The number of rows."""
        return int(self.seed.outs[0].aval.shape[0])

    def find(self) -> bool:
        """Collect the calls of the region. False if there is none."""
        for call in self.program.calls:
            for v in tensors(call):
                self.users.setdefault(v.id, []).append(call)
        for v in self.program.wanted():
            self.users.setdefault(v.id, []).append(None)
        self._follow()
        return self._between() and all(map(self._is_closed, self.calls))

    def _follow(self) -> None:
        """Collect the values that depend on the seed, and the dimension of their rows."""
        out = self.seed.outs[0].id
        self.rows[out] = 0
        self.after.add(out)
        for call in self.program.calls:
            if call is self.seed or not any(v.id in self.after for v in tensors(call)):
                continue
            self.after.update(v.id for v in call.outs)
            dim = self._result_rows(call)
            if dim is not None:
                self.rows[call.outs[0].id] = dim

    def _result_rows(self, call: Call) -> int | None:
        shape = call.outs[0].aval.shape
        found = (d for d, n in enumerate(shape) if n == self.size)
        return next((d for d in found if self._agrees(call, spread(call, d))), None)

    def _agrees(self, call: Call, dims: Sequence[int | None] | None) -> bool:
        """True if `dims` are the dimensions of the rows in the operands that depend on the seed."""
        if dims is None:
            return False
        return all(
            not isinstance(v, Value)
            or v.id not in self.after
            or (d is not None and self.rows.get(v.id) == d)
            for v, d in zip(call.operands, dims, strict=True)
        )

    def _is_sum(self, call: Call) -> bool:
        dims = _sums(call)
        if dims is None:
            return False
        if call.op is SUM:
            (x,) = tensors(call)
            return self.rows.get(x.id) in dims
        sizes = (v.aval.shape[d] for v, d in zip(tensors(call), dims, strict=True))
        if not call.outs[0].aval.dtype.is_floating_point:
            return False
        return self._agrees(call, dims) and all(n == self.size for n in sizes)

    def _is_large(self, v: Value) -> bool:
        return v.id in self.rows and v.aval.numel >= self.seed.outs[0].aval.numel

    def _between(self) -> bool:
        """Finds the calls, last first; False where one does more than rows."""
        needed: set[int] = set()
        for call in reversed(self.program.calls):
            outs = {v.id for v in call.outs}
            late = not outs.isdisjoint(self.after)
            if late:
                member = not outs.isdisjoint(needed) or any(map(self._is_large, tensors(call)))
                member = member or call is self.seed
            else:
                member = self._is_only_inside(call)
            if not member:
                continue
            dims = self._dims(call, summed=outs.isdisjoint(needed))
            if dims is None:
                return False
            for v, d in zip(call.operands, dims, strict=True):
                if isinstance(v, Value) and v.id in self.after:
                    needed.add(v.id)
                elif isinstance(v, Value) and d is not None:
                    self.slices[v.id, d] = v, d
                elif isinstance(v, Value):
                    self.whole[v.id] = v
            self.calls[call] = dims
        self.calls = dict(reversed(self.calls.items()))
        made = {v.id for call in self.calls for v in call.outs}
        self.slices = {key: place for key, place in self.slices.items() if key[0] not in made}
        return True

    def _dims(self, call: Call, summed: bool) -> Sequence[int | None] | None:
        """The rows of a member's operands, or None where it is none."""
        if call is self.seed:
            return [0, None]
        if len(call.outs) == 1 and call.outs[0].id in self.rows:
            return spread(call, self.rows[call.outs[0].id])
        if not summed or not self._is_sum(call):
            return None
        self.sums.add(call)
        if call.op is SUM:
            return [self.rows[tensors(call)[0].id]]
        return _sums(call)

    def _is_only_inside(self, call: Call) -> bool:
        """True if an earlier call makes a large matrix for the region alone, of the same rows."""
        out = call.outs[0]
        places = [d for i, d in self.slices if i == out.id]
        if (
            len(places) != 1
            or out.id in self.whole
            or call.op.kind not in ("pointwise", "cast", "view")
        ):
            return False
        if out.aval.numel < self.seed.outs[0].aval.numel or spread(call, places[0]) is None:
            return False
        if self.is_read_outside(out):
            return False
        self.rows[out.id] = places[0]
        return True

    def _is_closed(self, call: Call) -> bool:
        """True if sizes are known, and the rest of the program reads no large result of the
        call."""
        known = all(is_static(v.aval.shape) for v in (*tensors(call), *call.outs))
        return known and not any(self._is_large(v) and self.is_read_outside(v) for v in call.outs)

    def is_read_outside(self, v: Value) -> bool:
        return any(user is None or user not in self.calls for user in self.users.get(v.id, ()))


# ---------------------------------------------------------------------------------- rewriting


class _Writer:
    """The program with the region as a scan."""

    def __init__(self, region: _Region) -> None:
        self.region = region
        self.program = region.program
        self.fresh = self.program.free_ids()
        self.rows = _chunk(region.seed.outs[0].aval)
        self.length = region.size // self.rows
        self.where = region.seed.where

    def run(self) -> Program:
        region = self.region
        first: list[Call] = []
        later: list[Call] = []
        for call in self.program.calls:
            if call not in region.calls:
                late = any(v.id in region.after for v in call.outs)
                (later if late else first).append(call)
        return replace(self.program, calls=(*first, *self._scan(), *later))

    def value(self, shape: Sequence[Any], kind: DType, like: Aval) -> Value:
        return Value(next(self.fresh), Aval(tuple(shape), kind, like.device))

    def call(
        self, calls: list[Call], name: str, x: Value, shape: Sequence[Any], /, **attrs: Any
    ) -> Value:
        """`x` through an op that moves or casts it."""
        out = self.value(shape, attrs.get("dtype", x.aval.dtype), x.aval)
        calls.append(Call(REGISTRY[name], (x,), attrs, (out,), self.where))
        return out

    def moved(self, calls: list[Call], x: Value, dim: int, to: int) -> Value:
        """`x` with the dimension `dim` at `to`: one of them is the first."""
        if dim == to:
            return x
        dims = [d for d in range(x.aval.ndim) if d != dim]
        dims.insert(to, dim)
        shape = [x.aval.shape[d] for d in dims]
        return self.call(calls, "permute", x, shape, dims=tuple(dims))

    def _scan(self) -> list[Call]:
        """The scan, behind what cuts its operands and in front of what joins its results."""
        region = self.region
        before: list[Call] = []
        body: list[Call] = []
        after: list[Call] = []
        inside: Inside = {}
        xs, sequences, carries = [], [], []
        for (i, dim), (v, _) in region.slices.items():
            rows = self.moved(before, v, dim, 0)
            cut = (self.length, self.rows, *rows.aval.shape[1:])
            xs.append(self.call(before, "reshape", rows, cut, shape=cut))
            sequences.append(self.value(cut[1:], v.aval.dtype, v.aval))
            inside[i, dim] = self.moved(body, sequences[-1], 0, dim)
        constants = [Value(next(self.fresh), v.aval) for v in region.whole.values()]
        inside |= {(i, None): v for i, v in zip(region.whole, constants, strict=True)}
        totals, results, sums, ys = [], [], [], []
        for call in region.calls:
            out = call.outs[0]
            if call in region.sums:
                wide = out.aval.dtype.compute
                carries.append(self.value(out.aval.shape, wide, out.aval))
                sums.append(self._added(body, call, inside, carries[-1]))
                totals.append(self._total(after, out, wide))
                continue
            dim = region.rows[out.id]
            made = self.value(self._cut(out.aval.shape, dim), out.aval.dtype, out.aval)
            attrs = dict(call.attrs)
            if "shape" in attrs:
                attrs["shape"] = made.aval.shape
            body.append(Call(call.op, self._operands(call, inside), attrs, (made,), call.where))
            inside[out.id, dim] = made
            if region.is_read_outside(out):
                y = self.moved(body, made, dim, 0)
                ys.append(y)
                results.append(self._stacked(after, y, out, dim))
        program = Program((*carries, *sequences, *constants), tuple(body), (*sums, *ys))
        attrs = {
            "carried": len(carries), "sequences": len(xs), "length": self.length,
            "reverse": False, "steps": (), "in_place": True, "programs": (program,),
        }  # fmt: skip
        zeros = (0 for _ in carries)
        operands: tuple[Value | int, ...] = (*zeros, *xs, *region.whole.values())
        scan = Call(SCAN, operands, attrs, (*totals, *results), self.where)
        return [*before, scan, *after]

    def _total(self, after: list[Call], out: Value, wide: DType) -> Value:
        """The sum of all chunks, of which `out` is made."""
        if wide is out.aval.dtype:
            return out
        total = self.value(out.aval.shape, wide, out.aval)
        attrs = {"dtype": out.aval.dtype}
        after.append(Call(REGISTRY["cast"], (total,), attrs, (out,), self.where))
        return total

    def _cut(self, shape: Sequence[Any], dim: int) -> tuple[Any, ...]:
        return (*shape[:dim], self.rows, *shape[dim + 1 :])

    def _operands(self, call: Call, inside: Inside) -> tuple[Any, ...]:
        return tuple(
            inside[v.id, d] if isinstance(v, Value) else v
            for v, d in zip(call.operands, self.region.calls[call], strict=True)
        )

    def _added(self, body: list[Call], call: Call, inside: Inside, carry: Value) -> Value:
        """A sum over the rows of a chunk, added to what is carried."""
        kind = carry.aval.dtype
        operands = [
            v if v.aval.dtype is kind or not v.aval.dtype.is_floating_point
            else self.call(body, "cast", v, v.aval.shape, dtype=kind)
            for v in self._operands(call, inside)
        ]  # fmt: skip
        out = self.value(carry.aval.shape, kind, carry.aval)
        if call.op is DOT:
            body.append(Call(DOT_ADD, (carry, *operands), {}, (out,), call.where))
            return out
        part = self.value(carry.aval.shape, kind, carry.aval)
        body.append(Call(call.op, tuple(operands), call.attrs, (part,), call.where))
        body.append(Call(REGISTRY["add"], (carry, part), {}, (out,), call.where))
        return out

    def _stacked(self, after: list[Call], y: Value, out: Value, dim: int) -> Value:
        """The result of all chunks, of which `out` is made."""
        stacked = self.value((self.length, *y.aval.shape), y.aval.dtype, y.aval)
        whole = (self.region.size, *y.aval.shape[1:])
        if dim == 0:
            after.append(
                Call(REGISTRY["reshape"], (stacked,), {"shape": whole}, (out,), self.where)
            )
            return stacked
        flat = self.call(after, "reshape", stacked, whole, shape=whole)
        dims = (*range(1, dim + 1), 0, *range(dim + 1, out.aval.ndim))
        after.append(Call(REGISTRY["permute"], (flat,), {"dims": dims}, (out,), self.where))
        return stacked
