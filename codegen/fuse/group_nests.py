"""Second half of fusion: which stored values are computed by one kernel. Inlined -> Groups.

A group is a space of N rows and the nests that can be computed row by row: reading another member
is allowed at any place of the same row. Each member's `row` is the row number as a function of its
own axes. A group of elementwise nests only is `flexible` (rows None): every element is a row until
a reduction joins and fixes the rows.

One sweep in program order. A value may join a group that stands no earlier than everything it
reads, so there are no cycles to look for; candidates are the group of its latest producer and the
latest groups that read the same memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Final

from codegen.fuse.inline import Inlined, Stored
from codegen.ir import affine
from codegen.ir.affine import Affine, Axis
from codegen.ir.expr import Read
from codegen.ir.schema import Refusal, Step
from codegen.ir.sizes import Size, extent, hint, same, some
from eager.base.dataclass import dataclass

# Of one kernel, and nodes of all its members: C++ compile time grows faster than the kernel.
MAX_MEMBERS: Final = 48
MAX_NODES: Final = 640
# The same where all is elementwise: a straight line, which costs the compiler less than its parts
# would, and what lives at a cut goes through memory.
MAX_STRAIGHT_MEMBERS: Final = 256
MAX_STRAIGHT_NODES: Final = 4096
# Elements that one thread may do alone: fewer rows than this are not worth threads.
SERIAL_WORK: Final = 1 << 16
FEW_ROWS: Final = 8


@dataclass(eq=False, slots=True)
class Member:
    """A nest of a group; `row`: the row number as a function of the nest's axes."""

    stored: Stored
    row: Affine


@dataclass(eq=False, slots=True)
class Group:
    """Nests of one kernel. `rows` None: flexible over `numel` elements. `column`: reductions run
    over outer dimensions."""

    position: int
    numel: Size
    rows: Size | None
    column: bool = False
    members: list[Member] = field(default_factory=list)
    nodes: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class Groups:
    """Groups and steps in order of execution, and why values that read one another are apart."""

    inlined: Inlined
    items: tuple[Group | Step, ...]
    refusals: tuple[Refusal, ...]


class NoFit(Exception):
    """A value cannot join a group: the reason, for the record."""


def group_nests(inlined: Inlined) -> Groups:
    return _Grouping(inlined).run()


class _Grouping:
    def __init__(self, inlined: Inlined) -> None:
        self.inlined = inlined
        self.items: list[Group | Step] = []
        self.home: dict[int, Member] = {}  # value -> member
        self.group_of: dict[int, Group] = {}
        self.position: dict[int, int] = {}  # value -> position of the item that computes it
        self.reader: dict[int, Group] = {}  # value -> latest group that reads it
        self.refusals: list[Refusal] = []
        program = inlined.loops.program
        self.checks = {check.value.id for check in program.checks}
        self.written = {v.id for _, v in program.writes}

    def run(self) -> Groups:
        for item in self.inlined.items:
            if isinstance(item, Step):
                for out in item.call.outs:
                    self.position[out.id] = len(self.items)
                self.items.append(item)
            else:
                self.assign(item)
        return Groups(self.inlined, tuple(self.items), tuple(self.refusals))

    def assign(self, stored: Stored) -> None:
        for candidate, related in self.candidates(stored):
            if stored.value.id in self.checks and not related:
                continue  # a check comes early
            try:
                self.join(candidate, stored, related=related)
                return
            except NoFit as why:
                if related:
                    name = f"v{stored.value.id}"
                    self.refusals.append(Refusal(name, f"group {candidate.position}", str(why)))
        self.start(stored)

    def candidates(self, stored: Stored) -> Iterable[tuple[Group, bool]]:
        """(group, whether it computes something that `stored` reads), best first."""
        latest = max((self.position.get(x.value, -1) for x in stored.reads), default=-1)
        seen: set[int] = set()
        for x in stored.reads:
            own = self.group_of.get(x.value)
            if own is not None and own.position == latest and latest not in seen:
                seen.add(latest)
                yield own, True
        for x in stored.reads:
            near = self.reader.get(x.value)
            if near is not None and near.position >= latest and near.position not in seen:
                seen.add(near.position)
                yield near, False

    def join(self, target: Group, stored: Stored, *, related: bool) -> None:
        straight = target.rows is None and not stored.nest.monoid
        members = MAX_STRAIGHT_MEMBERS if straight else MAX_MEMBERS
        nodes = MAX_STRAIGHT_NODES if straight else MAX_NODES
        if len(target.members) >= members or target.nodes + stored.nodes > nodes:
            raise NoFit("the kernel is large enough")
        if self.writes_with_checks(target, stored):
            raise NoFit("inputs are written when all checks are done")
        if stored.nest.monoid:
            row = self.fit_reduction(target, stored, related=related)
        else:
            row = self.fit_map(target, stored, related=related)
        self.add(target, stored, row)

    def writes_with_checks(self, target: Group, stored: Stored) -> bool:
        """True if a check and a new value of an input would be in one group (a number may be: it
        goes through a temporary)."""
        values = [stored.value, *(m.stored.value for m in target.members)]
        large = any(v.id in self.written and not same(v.aval.numel, 1) for v in values)
        return large and any(v.id in self.checks for v in values)

    def add(self, target: Group, stored: Stored, row: Affine) -> None:
        member = Member(stored, row)
        target.members.append(member)
        target.nodes += stored.nodes
        vid = stored.value.id
        self.home[vid], self.group_of[vid] = member, target
        self.position[vid] = target.position
        for x in stored.reads:
            self.reader[x.value] = target

    def start(self, stored: Stored) -> None:
        numel = stored.value.aval.numel
        rows = numel if stored.nest.monoid else None
        column = rows is not None and some(rows) and is_column(stored)
        created = Group(len(self.items), numel, rows, column)
        self.items.append(created)
        self.add(created, stored, own_row(stored))

    # ------------------------------------------------------------------ fitting

    def internal(self, target: Group, stored: Stored) -> list[tuple[Member, Read]]:
        return [
            (self.home[x.value], x) for x in stored.reads if self.group_of.get(x.value) is target
        ]

    def fit_map(self, target: Group, stored: Stored, *, related: bool) -> Affine:
        """The row of a map nest in `target`; NoFit if it reads a member outside its own row."""
        numel, inner = stored.value.aval.numel, self.internal(target, stored)
        if target.rows is None:
            if not same(numel, target.numel):
                raise NoFit(f"{numel} elements against {target.numel}")
            row = own_row(stored)
            _check_rows(inner, row)
            return row
        if not related or not inner:
            raise NoFit("reads no row of the kernel")
        row = _row_of_read(*inner[0])
        _check_rows(inner, row)
        _check_size(target.rows, 16 * numel)  # elementwise code would rather have its own rows
        if digits(row, target.rows) is None:
            raise NoFit("reads only a part of the rows")
        return row

    def fit_reduction(self, target: Group, stored: Stored, *, related: bool) -> Affine:
        work = _work(stored)
        inner, rows, row = self.internal(target, stored), stored.value.aval.numel, own_row(stored)
        column = is_column(stored)
        if target.rows is None:
            if not inner or column:
                raise NoFit(
                    "a reduction over an outer dimension runs by columns, elementwise code by rows"
                )
            _check_size(rows, work)
            self.fix_rows(target, stored, inner)
            return row
        if column is not target.column:
            raise NoFit("one reduces over an inner, the other over an outer dimension")
        if not same(rows, target.rows):
            raise NoFit(f"{rows} rows against {target.rows}")
        _check_rows(inner, row)
        _check_size(rows, work)
        return row

    def fix_rows(self, target: Group, stored: Stored, inner: list[tuple[Member, Read]]) -> None:
        """A flexible group becomes one of rows: those of the reduction `stored`, expressed by the
        flat position."""
        member, x = inner[0]
        shape = member.stored.value.aval.shape
        found = digits(affine.ravel(x.index, shape), target.numel)
        if found is None:
            raise NoFit("the reduction does not read each element once")
        flat = affine.axis("flat", target.numel)
        by = {a: affine.mod(affine.floordiv(flat, c), a.size) for a, c in found}
        row = affine.substitute(own_row(stored), by)
        if not affine.axes_of(row) <= affine.axes_of(
            flat
        ):  # as in h @ w, which reads h for each column
            raise NoFit("the reduction reads each element in several rows")
        new_rows = []
        for m in target.members:
            whole = {affine.axis_of(flat): own_row(m.stored)} if flat.terms else {}
            new_rows.append(affine.substitute(row, whole))
        if any(digits(r, stored.value.aval.numel) is None for r in new_rows):
            raise NoFit("its rows are not whole dimensions of an elementwise value")
        for other, y in inner[1:]:
            at = new_rows[target.members.index(other)]
            if _substitute_read(other, at, y) is not own_row(stored):
                raise NoFit("reads members at different rows")
        for m, r in zip(target.members, new_rows, strict=True):
            m.row = r
        target.rows = stored.value.aval.numel


def own_row(stored: Stored) -> Affine:
    """The flat position in the nest's own output."""
    return affine.ravel(stored.nest.axes, stored.value.aval.shape)


def _row_of_read(member: Member, x: Read) -> Affine:
    return _substitute_read(member, member.row, x)


def _substitute_read(member: Member, row: Affine, x: Read) -> Affine:
    by = affine.axes_by(member.stored.nest.axes, x.index)
    return affine.substitute(row, by)


def _check_rows(inner: list[tuple[Member, Read]], row: Affine) -> None:
    for member, x in inner:
        if _row_of_read(member, x) is not row:
            raise NoFit(f"reads v{member.stored.value.id} in another row")


def _check_size(rows: Size, work: Size) -> None:
    if hint(rows) < FEW_ROWS and hint(work) > SERIAL_WORK:
        raise NoFit(f"{rows} rows for {work} elements would leave threads idle")


def _work(stored: Stored) -> Size:
    return stored.value.aval.numel * extent(stored.nest.over)


def is_column(stored: Stored) -> bool:
    """True if the reduction's memory is contiguous along an output axis rather than a reduced
    one."""
    over = {affine.axis_of(k) for k in stored.nest.over if k.terms}
    out = {affine.axis_of(a) for a in stored.nest.axes if a.terms}
    votes = 0
    for x in stored.reads:
        last = next((affine.axes_of(i) for i in reversed(x.index) if i.terms), frozenset())
        weight = len(x.index)
        votes += weight if last & out and not last & over else -weight if last & over else 0
    return votes > 0


def digits(index: Affine, total: Size) -> tuple[tuple[Axis, Size], ...] | None:
    """(axis, coefficient) of a form that counts 0..total-1 once over its axes (a mixed radix
    number), or None."""
    if not same(index.const, 0):
        return None
    step: Size = 1
    out: list[tuple[Axis, Size]] = []
    left = list(index.terms)
    while left:
        at = next((i for i, (_, c) in enumerate(left) if same(c, step)), None)
        atom, c = left.pop(at or 0)
        if at is None or not isinstance(atom, Axis):
            return None
        out.append((atom, c))
        step = step * atom.size
    return tuple(reversed(out)) if same(step, total) else None
