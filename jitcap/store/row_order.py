"""Kept versions: the order in which rows are kept. rows -> rows, each after what it needs.

Capture may name an object of the program before it comes to a place where another process finds it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Final

from jitcap.base.terms import Row, Term, defined_by


def in_order(rows: Iterable[Row], found: set[str], names: Mapping[int, list[str]]) -> list[Row]:
    """The rows of guards, each after those that define what it names: variables, and objects that
    are `found`. A place may come up after the first guard that names what is there: then that guard
    waits."""
    ordered: list[Row] = []
    late: list[Row] = []
    known = {"v", "i"}
    waiting: dict[str, list[Row]] = {}
    for each in rows:
        queue = [each]
        while queue:
            row = queue.pop(0)
            defined = defined_by(row)
            missing = next(
                (
                    n for n in names[id(row)]
                    if n not in known and (n[0] in "vm" or n in found) and n not in defined
                ),
                None,
            )  # fmt: skip
            if missing is not None:
                waiting.setdefault(missing, []).append(row)
                continue
            (late if _has(row, _REMEMBERED) else ordered).append(row)
            for name in defined:
                if name not in known:
                    known.add(name)
                    queue = waiting.pop(name, []) + queue
    for row in itertools.chain(*waiting.values()):
        (late if _has(row, _REMEMBERED) else ordered).append(row)
    # What is remembered until an array changes is asked when each was looked at: a guard that
    # waited may be the one that sees another.
    return ordered + late


_REMEMBERED: Final = ("differ", "apart", "may_write")


def _has(term: Term, operations: tuple[str, ...]) -> bool:
    if term[0] in operations:
        return True
    for part in term:  # noqa: SIM110 - many are asked
        if type(part) is tuple and _has(part, operations):
            return True
    return False


def needed(
    guards: list[Row], body: list[Row], found: set[str], names: Mapping[int, list[str]]
) -> tuple[list[Row], set[str]]:
    """The guards, without those that take what nothing names, or what is not `found`; all names."""
    named = {name for row in (*guards, *body) if row[0] != "take" for name in names[id(row)]}
    taken = [names[id(row)] for row in guards if row[0] == "take"]
    while True:
        more = {n for name, *rest in taken if name in named and name in found for n in rest}
        if more <= named:
            wanted = named & found
            kept = [row for row in guards if row[0] != "take" or row[1] in wanted]
            return kept, named
        named |= more
