"""Beside the guards: what an entry reads of many places alike, as lists. rows -> rows.

A model has thousands of parameters, in modules, with state, and an entry reads and tests each of
them. Reads in a row that differ in their place only become one list (`m3 = [v['weight'] for v in
m2]`), and what names many of its elements takes parts of it. So the text of an entry grows by a few
names for a layer instead of some forty for a parameter: CPython takes two microseconds for each.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final

from eager.core.tensor import wrap, wrap_all
from jitcap.base.equality import all_are, are_same
from jitcap.base.origin import entries_of, entry_of, items_of
from jitcap.base.terms import Row, Term
from jitcap.guards.guard import Names

MANY: Final = 32  # reads that are a list, from which on it is as fast as a variable for each
SHORT: Final = 4  # elements that are named one by one
CYCLE: Final = 16  # parts of a list that elements at regular distances may be
UNORDERED: Final = ("apart", "may_write", "differ")  # which ask the same in any order
ORDERED: Final = ("run", "attach")  # which are given lists
Place = tuple[str, int]  # a list, and where in it
Reads = tuple[Term, list[Term], list[Row]]  # of one base: what is read of it, and the rows


def in_columns(
    checks: Iterable[Row], body: Iterable[Row], names: Names
) -> tuple[list[Row], list[Row]]:
    """The rows of an entry, guards and what follows them, where what repeats is lists."""
    columns = _Columns(names)
    first, then = columns.rows(checks, "m"), columns.rows(body, "u")
    return [*columns.with_alone(first)], [*columns.with_alone(then)]


class _Columns:
    """The lists of an entry; `at` says which read is where."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.at: dict[Term, Place] = {}
        self.length: dict[str, int] = {}
        self.known: dict[tuple[Term, ...], str] = {}  # lists of others' elements
        self.alone: dict[str, dict[str, int]] = {}  # elements that have a name of their own, too
        self.letter = ""  # of the names of lists
        self.done: list[Row] = []

    def rows(self, rows: Iterable[Row], letter: str) -> list[Row]:
        """The rows, with lists of these names."""
        self.letter, self.done = letter, []
        for kind, group in itertools.groupby(rows, itemgetter(0)):
            if kind == "let":
                self.reads(group)
            elif kind == "set":
                self.writes([*group])
            else:
                for row in group:
                    self.done.append(self.row(row))
        return self.done

    def with_alone(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows, with variables for elements that are named by themselves."""
        for row in rows:
            yield row
            if row[0] == "let":
                for name, i in self.alone.get(row[1], {}).items():
                    yield ("let", name, ("item", row[1], i))

    # ---- rows

    def reads(self, rows: Iterable[Row]) -> None:
        """Reads that follow each other."""
        groups: list[Reads] = []
        for row in rows:
            base, key = _parts(row[2])
            last = groups[-1] if groups and base is not None else None
            if last is not None and last[0] == base and key[0] == last[1][-1][0] == "item":
                last[1].append(key)
                last[2].append(row)
            else:
                groups.append((base, [key], [row]))
        start = 0
        while start < len(groups):
            end = _end(groups, start)
            lets = [row for _, _, rows in groups[start:end] for row in rows]
            if len(lets) < MANY:
                for row in lets:
                    term = self.term(row[2])  # which may want a list before it
                    self.done.append(("let", row[1], term))
            else:
                self.column(groups[start:end], [row[1] for row in lets])
            start = end

    def column(self, groups: Sequence[Reads], members: Iterable[str]) -> None:
        """A list in the place of reads."""
        keys, bases = groups[0][1], self.sequence("tuple", [base for base, _, _ in groups])
        if len(keys) == 1:
            read = self.read(keys[0], bases)
        elif len(groups) == 1:
            given = self.term(groups[0][0]), self.constants([key for _, key in keys])
            read = ("call", self.names.bind(items_of), *given)
        elif len(groups) < len(keys):
            read = ("mapped", ("item", "v", "i"), bases, self.constants([key for _, key in keys]))
        else:
            if type(bases) is tuple and bases[0] != "part":
                bases = self.define(bases, ())
            read = ("call", self.names.bind(woven), *[self.read(key, bases) for key in keys])
        self.define(read, members)

    def read(self, key: Term, bases: Term) -> Term:
        """Term for one read of each of these."""
        operation, *parts = self.term(key)
        if operation != "call":
            return ("mapped", (operation, "v", *parts), bases)
        together = _TOGETHER.get((id(self.names.namespace.get(parts[0])), len(parts)))
        if together is not None:
            return ("call", self.names.bind(together), *parts[1:], bases)
        return ("mapped", (operation, *parts, "v"), bases)

    def define(self, term: Term, members: Iterable[Hashable]) -> str:
        """The name of a new list, which has `members`."""
        name = f"{self.letter}{len(self.length)}"
        start = len(self.at)
        self.at.update(zip(members, zip(itertools.repeat(name), itertools.count()), strict=False))
        self.length[name] = len(self.at) - start
        self.done.append(("let", name, term))
        return name

    def constants(self, keys: Sequence[Term]) -> Term:
        """Keys, as a constant if they are many."""
        if len(keys) <= CYCLE or not all(type(k) is int or k[0] == "'" for k in keys):
            return ("tuple", *map(self.term, keys))
        found = tuple(k if type(k) is int else k[1:] for k in keys)
        first = keys[0] if type(keys[0]) is int else -1
        whole = range(first, first + len(keys))
        return self.names.bind(whole if first >= 0 and found == tuple(whole) else found)

    def writes(self, rows: Sequence[Row]) -> None:
        """Writes that follow each other: a loop for those that are alike."""
        for form, group in itertools.groupby(rows, _written):
            alike = [*group]
            if form is None or len(alike) < MANY:
                for row in alike:
                    self.done.append(self.row(row))
                continue
            operation, key, constant = form
            places = self.sequence("tuple", [place[1] for _, place, _ in alike])
            values = "None" if constant else self.sequence("tuple", [row[2] for row in alike])
            value = constant or "i"
            self.done.append(("sets", (operation, "v", self.term(key)), value, places, values))

    def row(self, row: Row) -> Row:
        """Any other row."""
        kind, *parts = row
        if kind == "each":
            places, constants, *rest = parts
            free = constants == "None"
            return (kind, self.places(places, free=free), constants, *map(self.term, rest))
        if kind == "count":
            return (kind, self.places(parts[0], free=True), self.term(parts[1]))
        if kind == "sizes":
            self.note(row)
            return row
        new: Row = self.term(row)
        return new

    # ---- terms

    def term(self, term: Term) -> Term:
        """A term (or a row) that takes parts of lists, where a list will do."""
        if type(term) is not tuple:
            self.note(term)
            return term
        operation, *parts = term
        fn = self.names.namespace.get(parts[0]) if operation == "call" else None
        if operation in UNORDERED or fn is all_are:
            return (operation, *[self.places(part, free=True) for part in parts])
        if operation in ORDERED or fn is are_same or parts[1:2] == ["K"]:
            return (operation, *[self.places(part) for part in parts])
        return (operation, *map(self.term, parts))

    def places(self, term: Term, *, free: bool = False) -> Term:
        """A row of values that is only looked through. `free`: in any order."""
        if type(term) is tuple and term[0] in ("tuple", "list"):
            return self.sequence(term[0], term[1:], free=free)
        return self.term(term)

    def note(self, term: Term) -> None:
        """Note the elements of lists that a term names."""
        if type(term) is tuple:
            for part in term:
                self.note(part)
        elif type(term) is str and term in self.at:
            name, i = self.at[term]
            self.alone.setdefault(name, {})[term] = i

    def sequence(self, kind: str, terms: Sequence[Term], *, free: bool = False) -> Term:
        """Many terms, as parts of the lists that have them. `kind`: `list` for a new one, `tuple`
        for any."""
        known = self.known.get((*terms,)) if not free else None
        if known is not None:
            return known
        self.attributes(terms)
        found = [*map(self.at.get, terms)]
        if None in found:  # results of the graph have places from the beginning
            found = [p or _result(t) for p, t in zip(found, terms, strict=True)]
        if not any(found):
            return (kind, *map(self.term, terms))
        pairs: Iterable[tuple[Place | None, Term]] = zip(found, terms, strict=True)
        if free:
            pairs = sorted(pairs, key=lambda pair: pair[0] or ("", 0))
        parts: list[Term] = []
        for name, group in itertools.groupby(pairs, lambda pair: pair[0] and pair[0][0]):
            if name is None:
                parts.append(("tuple", *[self.term(term) for _, term in group]))
            else:
                places = [place[1] for place, _ in group if place]
                parts += self.parts(name, _ranges(places, free=free))
        if len(parts) >= MANY and kind == "tuple" and not free:
            name = self.known[(*terms,)] = self.define(("joined", *parts), ())
            return name
        alone = len(parts) == 1 and (kind == "tuple" or parts[0][0] == "part")
        return parts[0] if alone else ("joined", *parts)

    def parts(self, name: str, ranges: Iterable[range]) -> Iterator[Term]:
        """Parts of a list, the short ones element by element."""
        for at in ranges:
            if len(at) < SHORT:
                yield ("tuple", *[("item", name, i) for i in at])
            elif at == range(self.length.get(name, 0)):
                yield name
            else:
                yield ("part", name, at.start, at.stop, *([at.step] if at.step > 1 else []))

    def attributes(self, terms: Iterable[Term]) -> None:
        """A list for what is read of each of many elements of a list, `_array` say. (Those of one
        list are of one class, mostly, whose slots CPython then reads at once.)"""
        read: dict[tuple[str, Term], dict[int, Term]] = {}
        for term in terms:
            if type(term) is tuple and term[0] == "attribute" and term not in self.at:
                place = self.at.get(term[1])
                if place is not None:
                    read.setdefault((place[0], term[2]), {})[place[1]] = term
        for (name, key), terms_at in read.items():
            if len(terms_at) >= MANY:
                order = sorted(terms_at)
                parts = [*self.parts(name, _ranges(order, free=False))]
                bases = parts[0] if len(parts) == 1 else ("joined", *parts)
                term = ("mapped", ("attribute", "v", key), bases)
                self.define(term, map(terms_at.__getitem__, order))


def woven(*columns: Sequence[Any]) -> list[Any]:
    """The first value of each column, then the second of each, and so on. Raises ValueError if one
    is longer than another."""
    rows: list[Any] = [None] * (len(columns) * len(columns[0]))
    for i, column in enumerate(columns):
        rows[i :: len(columns)] = column
    return rows


# What reads many at once, by the id of what reads one, and the number of its arguments, of which
# the last is another one each time.
_TOGETHER: Final = {(id(wrap), 1): wrap_all, (id(entry_of), 2): entries_of}


def _parts(term: Term) -> tuple[Any, Any]:
    """A read as its base, and what is read of that; (None, None) of what is none."""
    if type(term) is not tuple:
        return None, None
    if term[0] in ("item", "attribute"):
        base, key = term[1], (term[0], term[2])
    elif term[0] == "call" and len(term) > 2:
        base, key = term[-1], term[:-1]
    else:
        return None, None
    return (base, key) if _is_name(base) or _result(base) else (None, None)


def _is_name(term: Term) -> bool:
    return type(term) is str and term[0] not in "'="


def _result(term: Term) -> Place | None:
    """The place of a result of the graph."""
    is_one = type(term) is tuple and term[:2] == ("item", "o") and type(term[2]) is int
    return ("o", term[2]) if is_one else None


def _end(groups: Sequence[Reads], start: int) -> int:
    """The end of the groups alike from one on, none of which reads of another."""
    base, keys, rows = groups[start]
    end = start + 1
    if base is None:
        return end
    own = {row[1] for row in rows}
    while end < len(groups):
        base, others, rows = groups[end]
        if others != keys or base in own:
            break
        own.update([row[1] for row in rows])
        end += 1
    return end


def _written(row: Row) -> tuple[str, Term, Term] | None:
    """Equal for writes that a loop can do: the operation, the key, and the value if it is a literal
    and so the same for all; else "". None of what no loop does."""
    _, place, value = row
    if place[0] not in ("item", "attribute") or not _is_name(place[1]):
        return None
    if type(value) is str:
        return place[0], place[2], value if value in ("None", "True", "False") else ""
    return None


def _ranges(at: Sequence[int], *, free: bool) -> list[range]:
    """Places in a list, as ranges. `free`: in increasing order, which may change."""
    if free:
        for count in range(1, min(CYCLE, len(at) // SHORT, len(at) - 1) + 1):
            step = at[count] - at[0]
            if step > 0 and all(b - a == step for a, b in zip(at, at[count:], strict=False)):
                cycle = [range(i, at[-1] + 1, step) for i in at[:count]]
                if sum(map(len, cycle)) == len(at):
                    return cycle
    found: list[range] = []
    for i in at:
        if found and len(last := found[-1]) > 1 and i == last.stop - 1 + last.step:
            found[-1] = range(last.start, i + 1, last.step)
        elif found and len(last) == 1 and i > last.start:
            found[-1] = range(last.start, i + 1, i - last.start)
        else:
            found.append(range(i, i + 1))
    return found
