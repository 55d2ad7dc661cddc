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
    """The lines of each kernel, by its name at any stage, those of bodies too."""
    found: dict[str, dict[str, None]] = {}
    for kernel in _kernels(results):
        found.setdefault(kernel.name, {}).update(dict.fromkeys(lines_of(kernel)))
    return {name: [*lines] for name, lines in found.items()}


def _kernels(results: Mapping[str, Any]) -> Iterator[Kernel]:
    for result in results.values():
        fused = getattr(result, "fused", result)
        for item in fused.items if hasattr(fused, "buffers") else ():
            if isinstance(item, Kernel):
                yield item
                continue
            if item.epilogue is not None:
                yield item.epilogue
            for body in item.bodies:
                yield from _kernels(body)
