"""Beside the guards: what they are in an entry. guards -> rows.

What a model has thousands of is tested together: types by one call, and what is the same object at
two places; parameters and their state in loops; short tests as one condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import Any, Final

from jitcap.base.equality import all_are, are_same, identity
from jitcap.base.origin import Item, Origin
from jitcap.base.terms import Row, Term, every, filled
from jitcap.guards.guard import Guard, Is, Names, Same, TypeIs
from jitcap.guards.size_guard import BLOCK, LastSizes

_JOINED: Final = 8  # short tests to a condition
_MANY: Final = 4  # places of which the same is asked, from which on that is a loop
Place = tuple[Origin, list[Guard]]  # and what is asked of it, and of what is found in it


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
    sized_late: list[Callable[[Names], Term]] = []
    for guard in alone:
        if guard.size_test is not None:
            follows = block.precedes((guard.origin,))  # found by a size: what a cache keeps for it
            (late if follows else first).append(guard)
            (sized_late if follows else sized).append(guard.size_test)
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
    names.rows += [("hold", test(names)) for test in sized_late]


def _statements(guards: Iterable[Guard], names: Names) -> None:
    """One guard after the other, but for those that are tested together; of one depth types first,
    on which the others rely."""
    seen: set[Term] = set()
    for own, alike in _by_depth([*guards]):
        _level(own, names, seen)
        names.rows += [_loop(places, names) for places in alike]


def _level(guards: Iterable[Guard], names: Names, seen: set[Term]) -> None:
    """The guards of one depth. `seen`: the tests before them."""
    tables: dict[Term, list[tuple[str, Any]]] = {}
    typed: dict[str, list[str]] = {}  # class -> what is of it
    short_tests: list[Term] = []
    pairs: dict[tuple[str, str], None] = {}
    for guard in guards:
        if type(guard) is TypeIs:
            v, cls = sides = guard.sides(names)
            if sides not in seen:
                seen.add(sides)
                typed.setdefault(cls, []).append(v)
            continue
        if typed:
            _types(typed, names)
        if type(guard) is Same and guard.same:
            pairs[names.var(guard.origin), names.var(guard.other)] = None
            continue
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
    _pairs([*pairs], names)
    _conditions(short_tests, names)
    _loops(tables, names)


def _alone(guards: Iterable[Guard], names: Names) -> list[Guard]:
    """The guards that are rendered one by one, when those that are so together were."""
    alone: list[Guard] = []
    groups: dict[Callable[[list[Guard], Names], None], list[Guard]] = {}
    for guard in guards:
        together = guard.together
        group = alone if together is None else groups.setdefault(together, [])
        group.append(guard)
    for render_together, group in groups.items():
        render_together(group, names)
    return alone


def _by_depth(guards: list[Guard]) -> Iterator[tuple[list[Guard], list[list[Place]]]]:
    """The guards, by the number of guards of what each is read from: those that are tested for
    themselves, types first, and those for loops over places alike."""
    depths, inner = _depths(guards)
    alike = _alike(guards, depths, inner)
    in_loops = {g for places in alike for _, own in places for g in own}
    levels: dict[float, tuple[list[Guard], list[list[Place]]]] = {}
    for guard in guards:
        if guard not in in_loops:
            level = inf if guard.after_rows else max(map(depths.__getitem__, guard.places()))
            levels.setdefault(level, ([], []))[0].append(guard)
    for places in alike:
        levels.setdefault(depths[places[0][0]], ([], []))[1].append(places)
    for level in sorted(levels):
        alone, loops = levels[level]
        yield sorted(alone, key=lambda g: type(g) is not TypeIs), loops


def _depths(guards: list[Guard]) -> tuple[dict[Origin, int], set[Origin]]:
    """The number of guards that each place lies behind, and the places of which more is read."""
    guarded = {guard.origin for guard in guards}
    depths: dict[Origin, int] = {}
    inner: set[Origin] = set()
    for guard in guards:
        stack = [*guard.places()]
        while stack:
            origin = stack.pop()
            if origin in depths:
                continue
            above, depth = origin.parents(), 0
            for parent in above:
                if parent not in depths:
                    stack += (origin, parent)  # once more, when it is known
                    break
                depth = max(depth, depths[parent] + (parent in guarded))
            else:
                depths[origin] = depth
                inner.update(above)
    return depths, inner


def _alike(
    guards: list[Guard], depths: Mapping[Origin, int], inner: set[Origin]
) -> list[list[Place]]:
    """Places of which the same is asked, where there are many. What is found in one, and only
    looked at for itself, is asked with it: no `inner` place, of which more is read."""
    plain: list[Guard] = []
    for guard in guards:
        if guard.is_short or type(guard) is TypeIs:
            plain.append(guard)
        else:
            inner.update(guard.places())
    asked: dict[Origin, list[Guard]] = {}
    for guard in plain:
        place = guard.origin
        if type(place) is Item and place.by is None and place not in inner:
            place = place.base
        elif type(guard) is TypeIs:
            continue  # tested before all else
        if place.parents():
            asked.setdefault(place, []).append(guard)
    groups: dict[Any, list[Place]] = {}
    for place, own in asked.items():
        own.sort(key=lambda g: type(g) is not TypeIs)
        key = depths[place], frozenset([_question(guard, place) for guard in own])
        groups.setdefault(key, []).append((place, own))
    return [places for places in groups.values() if len(places) >= _MANY]


def _question(guard: Guard, place: Origin) -> Any:
    """Key of a guard among those of a place: all but the place."""
    origin = guard.origin
    step = identity(origin.key) if origin is not place and type(origin) is Item else None
    # Of what is asked by identity, equal tuples and texts are other objects.
    own = (id(guard.value),) if isinstance(guard, Is) else guard.key()[2:]
    return type(guard), step, own


def _loop(places: list[Place], names: Names) -> Row:
    """The tests of places of which the same is asked."""
    first, own = places[0]
    read: dict[str, Term] = {}
    for origin in dict.fromkeys(g.origin for g in own if g.origin is not first):
        name = names.variables[origin] = f"x{len(read)}"
        read[name] = origin.term(names.var, names.bind)
    start = len(names.rows)
    test = every(*[guard.test(names) for guard in own])
    names.rows[start:] = [filled(row, read) for row in names.rows[start:]]  # what the first finds
    for guard in own if read else ():
        if guard.origin is not first:
            names.variables.pop(guard.origin, None)
    given = {names.var(first): "v"}
    lets = [("let", name, filled(term, given)) for name, term in read.items()]
    every_place = ("tuple", *[names.var(place) for place, _ in places])
    return ("each", every_place, "None", filled(test, given), *lets)


def _types(typed: dict[str, list[str]], names: Names) -> None:
    """The types of many values, of which a model has thousands; the table is empty afterwards."""
    for cls, values in typed.items():
        if len(values) < _JOINED:
            tests: list[Term] = [("is", ("type", v), cls) for v in values]
        else:
            tests = [("call", names.bind(all_are), cls, ("tuple", *values))]
        names.rows += [("hold", test) for test in tests]
    typed.clear()


def _pairs(pairs: list[tuple[str, str]], names: Names) -> None:
    """Pairs of places that hold one object, as a model's parameters and its optimizer's list do."""
    tests: list[Term] = [("is", *pair) for pair in pairs]
    if len(pairs) >= _JOINED:
        rows = (("tuple", *row) for row in zip(*pairs, strict=True))
        tests = [("call", names.bind(are_same), *rows)]
    names.rows += [("hold", test) for test in tests]


def _conditions(tests: list[Term], names: Names) -> None:
    """Some tests to a condition; the list is empty afterwards."""
    for start in range(0, len(tests), _JOINED):
        names.rows.append(("hold", every(*tests[start : start + _JOINED])))
    tests.clear()


def _loops(tables: dict[Term, list[tuple[str, Any]]], names: Names) -> None:
    """One loop per condition that rows share; the tables are empty afterwards."""
    for test, rows in tables.items():
        if len(rows) == 1 and test[0] == "or":
            ((place, constant),) = rows
            names.rows.append(("hold", filled(test, {"v": place, "i": names.bind(constant)})))
            continue
        places = ("tuple", *(place for place, _ in rows))
        constants = names.bind(tuple(constant for _, constant in rows))
        names.rows.append(("each", places, constants, test))
    tables.clear()
