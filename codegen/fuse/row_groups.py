"""Beside row_blocks: the calls that make and read the elements of a batch of products. Program ->
RowGroup.

The group of a product with many rows and columns and a small depth: what is made of its elements
pointwise, by reductions along rows and by such products again, and what ends it: products with
other matrices, of the elements or of the turned ones, and sums.

    role     source   a product that makes elements
             map      elements of elements, or numbers of rows of such
             reduce   a number of each row
             turn     elements with rows and columns swapped
             product  elements x a matrix: its rows are of the same rows of elements
             sum      turned elements x a matrix, or a matrix x elements: a sum over rows
             total    a sum over columns and more;  columns: one over rows and more
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final, TypeAlias

from codegen.fuse.elements import tensors
from codegen.ir.schema import Call, Program, Value
from codegen.ir.sizes import Shape, Size, hint, same_all
from eager.base.dataclass import dataclass
from eager.ops.contract import DOT
from eager.ops.reduce import SUM
from eager.ops.view import EXPAND
from eager.sizes.aval import Aval

LEAST = 2 << 20  # bytes of elements: what stays in the second-level caches costs little
DEEPEST = 128  # the depth of a product that is cheaper to compute again than to read
FEWEST = 64  # rows and columns

Axes: TypeAlias = tuple[str, ...]  # of the last dimensions: "r" rows, "c" columns, "" neither


@dataclass(frozen=True, slots=True)
class Frame:
    """Shape of the elements of a group: a matrix of `rows` x `columns` for each of `batch`. `seed`:
    the product that it begins with."""

    batch: Shape
    rows: Size
    columns: Size
    seed: int

    @property
    def shape(self) -> Shape:
        return (*self.batch, self.rows, self.columns)

    def axes(self, shape: Shape) -> Axes | None:
        """The axes of a value of the group, by its shape."""
        known: dict[Axes, Shape] = {
            ("r", "c"): (self.rows, self.columns),
            ("c", "r"): (self.columns, self.rows),
            ("r", ""): (self.rows, 1),
            ("r",): (self.rows,),
        }
        return next((a for a, last in known.items() if _same(shape, (*self.batch, *last))), None)


def _same(x: Shape, y: Shape) -> bool:
    return len(x) == len(y) and same_all(x, y)


def is_shallow(out: Aval, depth: Size) -> bool:
    """True if the elements of a batch of products cost less to compute again than to hold."""
    if out.ndim < 2 or not out.dtype.is_floating_point:
        return False
    depth, side = hint(depth), min(map(hint, out.shape[-2:]))
    return hint(out.nbytes) >= LEAST and side >= max(FEWEST, 2 * depth) and depth <= DEEPEST


def _depth(product: Call) -> Size:
    return tensors(product)[0].aval.shape[-1]


def frames(program: Program) -> Iterator[Frame]:
    """The frames of the products that a group may begin with."""
    for call in program.calls:
        if call.op is DOT and is_shallow(call.outs[0].aval, _depth(call)):
            *batch, rows, columns = call.outs[0].aval.shape
            yield Frame(tuple(batch), rows, columns, call.outs[0].id)


# ---------------------------------------------------------------------------------- the group

ELEMENTS: Final = (("r", "c"), ("c", "r"))


@dataclass(eq=False, slots=True)
class RowGroup:
    """The calls that make and read what has the frame's shape."""

    program: Program
    frame: Frame
    axes: dict[int, Axes] = field(default_factory=dict)  # of the values of all such groups
    roles: dict[Call, str] = field(default_factory=dict)  # of the calls of this one
    levels: dict[int, int] = field(default_factory=dict)  # of what depends on the group
    makers: dict[int, Call] = field(default_factory=dict)
    users: dict[int, list[Call]] = field(default_factory=dict)

    def find(self) -> bool:
        """True if there is such a group, and it can be computed by blocks of rows."""
        for call in self.program.calls:
            self.makers.update((v.id, call) for v in call.outs)
            for v in {v.id: v for v in tensors(call)}.values():
                self.users.setdefault(v.id, []).append(call)
        roles = {call: role for call in self.program.calls if (role := self._role(call))}
        if not self._collect(roles):
            return False
        self._order()
        kept = {v.id for v in self.program.wanted()}
        mine = [v for call in self.roles for v in call.outs]
        if any(v.id in kept and self.is_element(v) for v in mine) or self._repeats_deep():
            return False
        return any(role in ("product", "sum") for role in self.roles.values())

    def _repeats_deep(self) -> bool:
        """True if a level would compute a product of an earlier one again that costs more than its
        elements cost to hold."""
        products: dict[int, set[Call]] = {}  # of which elements are made, by value
        for call, role in self.roles.items():
            found = (products.get(v.id, set()) for v in tensors(call))
            own = {call} if role == "source" else set().union(*found)
            if any(hint(_depth(p)) > DEEPEST and self.level(p) < self.level(call) for p in own):
                return True
            if self.is_element(call.outs[0]):
                products[call.outs[0].id] = own
        return False

    def is_element(self, v: Value) -> bool:
        return self.axes.get(v.id) in ELEMENTS

    def is_inside(self, v: Value) -> bool:
        """True if it is a value of this group: elements, or numbers of rows."""
        return v.id in self.axes and self.makers.get(v.id) in self.roles

    def _role(self, call: Call) -> str:
        """Role of a call in a group; "" for one that is in none. Fills `axes`."""
        if len(call.outs) != 1:
            return ""
        out, name = call.outs[0], call.op.name
        found = [self.axes.get(v.id) for v in tensors(call)]
        if name == "dot":
            role = self._product(out, found)
            if role == "source":
                self.axes[out.id] = "r", "c"
            return role
        if not any(found):
            return ""
        x = found[0]
        if call.op.kind in ("reduce", "argreduce") and x == ("r", "c"):
            return self._reduction(call, out)
        if name == "permute" and x in ELEMENTS:
            last = len(self.frame.shape) - 1
            if call.attrs["dims"] != (*range(last - 1), last, last - 1):
                return ""
            self.axes[out.id] = x[::-1]
            return "turn"
        return self._map(call, out)

    def _product(self, out: Value, found: Sequence[Axes | None]) -> str:
        forms: dict[tuple[Axes | None, Axes | None], str] = {
            (("r", "c"), None): "product",
            (("c", "r"), None): "sum",
            (None, ("r", "c")): "sum",
            (None, None): "source" if _same(out.aval.shape, self.frame.shape) else "",
        }
        return forms.get((found[0], found[1]), "")

    def _reduction(self, call: Call, out: Value) -> str:
        dims = call.attrs.get("dim", ())
        dims = {d % len(self.frame.shape) for d in (dims if isinstance(dims, tuple) else (dims,))}
        last = len(self.frame.shape) - 1
        if dims == {last}:
            axes = self.frame.axes(out.aval.shape)
            if axes in (("r",), ("r", "")):
                self.axes[out.id] = axes
                return "reduce"
        if call.op is not SUM or not out.aval.dtype.is_floating_point:
            return ""
        return "total" if last in dims else "columns" if last - 1 in dims else ""

    def _map(self, call: Call, out: Value) -> str:
        """A function of single elements, or of single rows."""
        found = {a for v in tensors(call) if (a := self.axes.get(v.id))}
        elements = found.intersection(ELEMENTS)
        # Where rows and columns are as many, a shape does not tell elements from turned ones.
        axes = next(iter(elements)) if elements else self.frame.axes(out.aval.shape)
        if axes is None or len(elements) > 1:
            return ""
        if call.op.kind in ("pointwise", "cast", "copy") or call.op is EXPAND:
            fits = all(a == axes or (a, axes) == (("r", ""), ("r", "c")) for a in found)
        else:
            fits = axes not in ELEMENTS and call.op.keeps_order
        if not fits or out.aval.ndim != len(self.frame.batch) + len(axes):
            return ""
        self.axes[out.id] = axes
        return "map"

    def _collect(self, roles: Mapping[Call, str]) -> bool:
        """Gathers the calls that are linked with the seed; whether these are all that read
        elements."""
        seed = self.makers[self.frame.seed]
        if roles.get(seed) != "source":
            return False
        todo = [seed]
        found = {seed}
        while todo:
            call = todo.pop()
            out = call.outs[0]
            linked = [self.makers[v.id] for v in tensors(call) if v.id in self.axes]
            if out.id in self.axes:
                readers = self.users.get(out.id, ())
                if self.is_element(out) and any(r not in roles for r in readers):
                    return False
                linked += [r for r in readers if r in roles]
            todo += [c for c in linked if c not in found]
            found.update(linked)
        self.roles = {call: roles[call] for call in self.program.calls if call in found}
        return True

    def _order(self) -> None:
        """Finds the levels. Another product of elements begins the next one, where what came before
        is computed again, and sums over rows are left to it: it may go by tiles of columns, where
        the first needs whole rows for its reductions."""
        first: Call | None = None
        latest = 0
        for call in self.program.calls:
            inside = call in self.roles
            own = 0
            for v in tensors(call):
                level = self.levels.get(v.id, 0)
                if not inside and self.is_inside(v):
                    level += 1
                own = max(own, level)
            role = self.roles.get(call)
            if role == "source" and first is None:
                first = call
            elif role == "source" and first is not None:
                own = latest = max(own, self.levels[first.outs[0].id] + 1)
            elif role in ("sum", "columns"):
                own = max(own, latest)
            if inside and not self.is_inside(call.outs[0]):
                own += 1
            if own or inside:
                self.levels.update((v.id, own) for v in call.outs)

    def level(self, call: Call) -> int:
        """The level of a member."""
        own = self.levels[call.outs[0].id]
        return own if self.is_inside(call.outs[0]) else own - 1
