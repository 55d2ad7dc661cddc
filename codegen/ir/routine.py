"""Beside the loop IR: library steps, one record each, found by the name of the op. A step -> how a
target writes it.

Each target adds its spellings when it is imported. A step for which it has none is a callback into
the op's NumPy kernel (C++), or refused (Triton).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from codegen.ir.schema import Library
from eager.base.dataclass import dataclass


def is_real(step: Library) -> bool:
    """True if no operand and no result is complex."""
    return not any(a.dtype.is_complex for a in (*step.avals, *step.out_avals))


def anything(step: Library) -> bool:
    """True: a target writes all steps of the name."""
    return True


@dataclass(frozen=True, slots=True)
class Spelling:
    """Translation of a step for a target: `write`, in the terms of its emitter, for the steps that
    it `fits`."""

    write: Callable[..., None]
    fits: Callable[[Library], bool] = is_real


@dataclass(frozen=True, eq=False, slots=True)
class Routine:
    """A library step: the op's name, and how each target that knows it writes it."""

    name: str
    spelled: dict[str, Spelling] = field(default_factory=dict)


ROUTINES: dict[str, Routine] = {}


def spell(target: str, spellings: Mapping[str, Any]) -> None:
    """Adds how `target` writes the steps of those names."""
    for name, spelling in spellings.items():
        ROUTINES.setdefault(name, Routine(name)).spelled[target] = spelling


def spelling(step: Library, target: str) -> Any:
    """The spelling of `step` for `target`, or None."""
    routine = ROUTINES.get(step.name)
    found = routine and routine.spelled.get(target)
    return found if found and found.fits(step) else None
