"""Kernels of the page: which of the user's lines each is made of. results of codegen -> lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from codegen.ir.schema import Kernel, Library, line_of


def lines_of(item: Kernel | Library) -> list[str]:
    """The user's lines ("file:line") of a kernel, or of a step with its epilogue: of a derivative
    that of `backward()` and that of the forward."""
    places = [line_of(item.where)]
    if isinstance(item, Kernel):
        places += [place for _, place, _ in item.origins]
    lines = [line for place in places for line in (place.line, place.forward)]
    if isinstance(item, Library) and item.epilogue is not None:
        lines += lines_of(item.epilogue)
    return [line for line in dict.fromkeys(lines) if line]


def kernel_lines(results: Mapping[str, Any]) -> dict[str, list[str]]:
    """The lines of each kernel, by its name at any stage, those of bodies too; and of steps, by
    the names of the kernels that stand for them."""
    found: dict[str, dict[str, None]] = {}
    for name, item in _named(results, set()):
        found.setdefault(name, {}).update(dict.fromkeys(lines_of(item)))
    return {name: [*lines] for name, lines in found.items()}


def _named(results: Mapping[str, Any], seen: set[int]) -> Iterator[tuple[str, Kernel | Library]]:
    """Each item of the stages once: many stages have the same, and many calls the same body.
    `seen`: the ids of those that were met, which the results hold."""
    for result in results.values():
        fused = getattr(result, "fused", result)
        for item in fused.items if hasattr(fused, "buffers") else ():
            if id(item) in seen:
                continue
            seen.add(id(item))
            if isinstance(item, Kernel):
                yield item.name, item
                continue
            yield fused.program.prefix + item.label, item
            if item.epilogue is not None:
                yield item.epilogue.name, item.epilogue
            for body in item.bodies:
                if id(body) not in seen:
                    seen.add(id(body))
                    yield from _named(body, seen)
