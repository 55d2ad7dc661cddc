"""At the edge: which of PyTorch's public names there are. The list kept with the package -> shares.

`torch_names.txt` is made by `scripts/torch_names`, from PyTorch's modules; `torch_reasons.txt` says
of each name that is missing why: reasons, and below each the patterns of names that it is for.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from importlib import resources
from typing import NamedTuple

from eager.programs.missing import first_missing


class Namespace(NamedTuple):
    """A module or class of PyTorch's: its public names, and those that are not here."""

    name: str
    names: tuple[str, ...]
    missing: tuple[str, ...]


@functools.cache
def namespaces() -> tuple[Namespace, ...]:
    """All that the list has."""
    return tuple(_namespaces())


def _namespaces() -> Iterator[Namespace]:
    for line in _data("torch_names.txt"):
        name, _, rest = line.partition(":")
        names = tuple(rest.split())
        missing = tuple(n for n in names if first_missing(f"{name}.{n}") is not None)
        yield Namespace(name, names, missing)


def reason_of(name: str) -> str:
    """Reason why a name is missing, if it is one of PyTorch's; else ""."""
    space, _, last = name.rpartition(".")
    lines = (line.partition(":") for line in _data("torch_names.txt"))
    known = any(found == space and last in rest.split() for found, _, rest in lines)
    return reason(name) if known else ""


def reason(name: str) -> str:
    """Reason why a name of PyTorch's is missing; "" if nobody has said."""
    below = name.removeprefix("torch.")
    return next((why for pattern, why in _reasons() if pattern.fullmatch(below)), "")


@functools.cache
def _reasons() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Patterns of names below `torch`, and the reason; the first that fits is meant."""
    found, why = [], ""
    for line in _data("torch_reasons.txt"):
        if not line.startswith(" "):
            why = line
            continue
        for pattern in line.split():
            anywhere = pattern.startswith("*.")  # in all namespaces
            found.append((re.compile(rf"(.+\.)?{pattern[2:]}" if anywhere else pattern), why))
    return tuple(found)


def _data(name: str) -> list[str]:
    return resources.files("eager.programs").joinpath(name).read_text("utf-8").splitlines()


def report(every: bool = False) -> str:
    """The share by namespace; with all names that are missing, and why, if `every`."""
    lines, there, total = [], 0, 0
    for space in namespaces():
        have = len(space.names) - len(space.missing)
        there, total = there + have, total + len(space.names)
        lines.append(
            f"{have / len(space.names):5.0%}  {have:>4} of {len(space.names):<4}  {space.name}"
        )
        if every:
            by_reason: dict[str, list[str]] = {}
            for name in space.missing:
                by_reason.setdefault(reason(f"{space.name}.{name}"), []).append(name)
            lines += [f"{'':20}{' '.join(names)}: {why}" for why, names in by_reason.items()]
    lines.append(f"{there / total:5.0%}  {there:>4} of {total:<4}  in all")
    return "\n".join(lines) + "\n"
