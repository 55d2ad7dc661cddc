"""Rules on writes to parts of a tensor, and what reads such parts. node -> simpler value.

A program that fills a table (`D[i, j] = f(D[i - 1, j], ...)`) becomes copies of the table, each
with one element replaced. What it reads was written before, or was there at the start: where the
indices are known, the value itself is taken, and nobody reads the copies in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from eager.ops.move import SELECT_SCATTER, SLICE_SCATTER
from jitcap.graph.graph import Arg, Node
from jitcap.passes.rules import Maker, Rule

LOOKED: Final = 256  # writes that a read looks through: a pass is linear but for that


class Write(NamedTuple):
    """`part` stands at `places` of dimension `dim` of a copy of `base`; `flat`: without `dim`."""

    base: Arg
    part: Arg
    dim: int
    places: range
    flat: bool


def write_of(a: Arg) -> Write | None:
    """The write that a node does, if its positions are known."""
    if not isinstance(a, Node) or a.op not in (SELECT_SCATTER, SLICE_SCATTER):
        return None
    base, part = a.args
    if a.op is SELECT_SCATTER:
        at = a.attrs["index"]
        places = range(at, at + 1) if type(at) is int else None
    else:
        places = places_of(a)
    return None if places is None else Write(base, part, a.attrs["dim"], places, "index" in a.attrs)


def places_of(n: Node) -> range | None:
    """Positions of a slice along its dimension, if they are known."""
    bounds = [n.attrs[k] for k in ("start", "stop", "step")]
    return range(*bounds) if all(type(x) is int for x in bounds) else None


def _writes(a: Arg, dim: int) -> Iterator[Write]:
    """The last writes along a dimension, the latest first."""
    for _ in range(LOOKED):
        found = write_of(a)
        if found is None or found.dim != dim:
            return
        yield found
        a = found.base


def _select(s: Maker, n: Node) -> Arg | None:
    """Store-to-load forwarding: what was written there, or a select of the tensor before."""
    dim, at, source = n.attrs["dim"], n.attrs["index"], n.args[0]
    if type(at) is not int:
        return None
    for w in _writes(source, dim):
        if at in w.places:
            where = w.places.index(at)
            return w.part if w.flat else s.make("select", w.part, like=n, dim=dim, index=where)
        source = w.base
    return None if source is n.args[0] else s.make("select", source, like=n, **n.attrs)


def _slice(s: Maker, n: Node) -> Arg | None:
    """Slice of the part of one write that covers it, or of the base of writes that are apart from
    it."""
    dim, places, source = n.attrs["dim"], places_of(n), n.args[0]
    if not places:
        return None
    for w in _writes(source, dim):
        if _are_apart(places, w.places):
            source = w.base
        elif w.flat and len(places) == 1:
            return s.make("reshape", w.part, like=n, shape=n.aval.shape)
        elif not w.flat and w.places.step == 1 and _covers(w.places, places):
            first = places[0] - w.places[0]
            where = {"start": first, "stop": first + len(places) * places.step}
            return s.make("slice", w.part, like=n, dim=dim, step=places.step, **where)
        else:
            break
    return None if source is n.args[0] else s.make("slice", source, like=n, **n.attrs)


def _overwrite(s: Maker, n: Node) -> Arg | None:
    """Drop a write that the next one covers."""
    new = write_of(n)
    old = None if new is None else write_of(new.base)
    if new is None or old is None or old.dim != new.dim or not _covers(new.places, old.places):
        return None
    return s.make(n.op, old.base, new.part, like=n, **n.attrs)


def _covers(whole: range, part: range) -> bool:
    """True if `part` is not empty, and all of it is in `whole`."""
    inside = bool(part) and part[0] in whole and part[-1] in whole
    return inside and (whole.step == 1 or part.step % whole.step == 0 or len(part) == 1)


def _are_apart(a: range, b: range) -> bool:
    return not a or not b or a[-1] < b[0] or b[-1] < a[0]


RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "select": (_select,),
    "slice": (_slice,),
    "select_scatter": (_overwrite,),
    "slice_scatter": (_overwrite,),
}
