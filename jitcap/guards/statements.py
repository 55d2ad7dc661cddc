"""Beside the guards: what they are in an entry. guards -> rows.

What a model has thousands of is tested together: types by one call, parameters and their state in
loops, short tests as one condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from jitcap.base.equality import all_are
from jitcap.base.origin import Origin
from jitcap.base.terms import Row, Term, every
from jitcap.guards.guard import Guard, Names, TypeIs
from jitcap.guards.size_guard import BLOCK, LastSizes

_JOINED: Final = 8  # short tests to a condition


def render(guards: Iterable[Guard], names: Names) -> None:
    """Add the rows that refuse a call unless all guards hold. Reads may raise READ_ERRORS.

    Guards that differ in place and constant only are tested in a loop, after the others: a model's
    parameters and their state would else be most of the source. What is read of such a place
    (`p.grad`, `state[p]`) comes after its loop, when it is known what is there. What sizes decide
    is a block of its own, behind what needs none of it."""
    alone, block = _alone(guards, names), names.block
    if block is None:
        _statements(alone, names)
        return
    first: list[Guard] = []
    sized: list[Callable[[Names], Term]] = []
    late: list[Guard] = []
    for guard in alone:
        if guard.size_test is not None:
            first.append(guard)
            sized.append(guard.size_test)
        elif block.decides(guard.places()) and (
            not isinstance(guard, TypeIs) or block.computes(guard.origin)
        ):  # that a size from outside is an int is found before
            sized.append(guard.test)
        else:
            follows = guard.after_rows or block.precedes(guard.places())
            (late if follows else first).append(guard)
    _statements(first, names)
    if not block.state:
        block.begin(names.bind(LastSizes()), names.var)
        names.rows.append(BLOCK)
    for test in sized:
        row: Row = ("hold", test(names))
        if row not in block.tests:
            block.tests.add(row)
            block.rows.append(row)
    _statements(late, names)


def _statements(guards: Iterable[Guard], names: Names) -> None:
    """One guard after the other, but for those that are tested together."""
    seen: set[Term] = set()
    tables: dict[Term, list[tuple[str, Any]]] = {}
    typed: dict[str, list[str]] = {}  # class -> what is of it
    short_tests: list[Term] = []
    level = 0
    for depth, guard in _by_depth(guards):
        if depth > level:
            _types(typed, names)
            _conditions(short_tests, names)
            _loops(tables, names)
            level = depth
        if type(guard) is TypeIs:
            v, cls = sides = guard.sides(names)
            if sides not in seen:
                seen.add(sides)
                typed.setdefault(cls, []).append(v)
            continue
        if typed:
            _types(typed, names)
        shared = guard.row(names)
        if shared is not None:
            tables.setdefault(shared[0], []).append(shared[1])
            continue
        test = guard.test(names)
        if test in seen:
            continue
        seen.add(test)
        if guard.is_short:
            short_tests.append(test)
        else:
            names.rows.append(("hold", test))
    _types(typed, names)
    _conditions(short_tests, names)
    _loops(tables, names)


def _alone(guards: Iterable[Guard], names: Names) -> list[Guard]:
    """The guards that are rendered one by one, when those that are so together were."""
    alone: list[Guard] = []
    groups: dict[Callable[[list[Guard], Names], None], list[Guard]] = {}
    for guard in guards:
        group = alone if guard.together is None else groups.setdefault(guard.together, [])
        group.append(guard)
    for render_together, group in groups.items():
        render_together(group, names)
    return alone


def _by_depth(guards: Iterable[Guard]) -> list[tuple[int, Guard]]:
    """The guards, each with the number of guards of what it is read from, in that order; those of
    types first, on which the others rely."""
    found = [*guards]
    guarded = {id(g.origin) for g in found}
    depths: dict[int, int] = {}

    def depth(origin: Origin) -> int:
        known = depths.get(id(origin))
        if known is None:
            above = [depth(p) + (id(p) in guarded) for p in origin.parents()]
            known = depths[id(origin)] = max(above) if above else 0
        return known

    levels = [max(map(depth, g.places()), default=0) for g in found]
    last = max(levels, default=0) + 1
    pairs = [(last if g.after_rows else n, g) for n, g in zip(levels, found, strict=True)]
    return sorted(pairs, key=lambda pair: (pair[0], type(pair[1]) is not TypeIs))


def _types(typed: dict[str, list[str]], names: Names) -> None:
    """The types of many values, of which a model has thousands; the table is empty afterwards."""
    for cls, values in typed.items():
        if len(values) < _JOINED:
            tests: list[Term] = [("is", ("type", v), cls) for v in values]
        else:
            tests = [("call", names.bind(all_are), cls, ("tuple", *values))]
        names.rows += [("hold", test) for test in tests]
    typed.clear()


def _conditions(tests: list[Term], names: Names) -> None:
    """Some tests to a condition; the list is empty afterwards."""
    for start in range(0, len(tests), _JOINED):
        names.rows.append(("hold", every(*tests[start : start + _JOINED])))
    tests.clear()


def _loops(tables: dict[Term, list[tuple[str, Any]]], names: Names) -> None:
    """One loop per condition that rows share; the tables are empty afterwards."""
    for test, rows in tables.items():
        places = ("tuple", *(place for place, _ in rows))
        constants = names.bind(tuple(constant for _, constant in rows))
        names.rows.append(("each", places, constants, test))
    tables.clear()
