"""Beside `eager.random`: a context that leaves generators where they were. Written like user code,
which `@jit` reads: only where a stream is, and going back there, is the library's."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any


class Forked(contextlib.ContextDecorator):
    """Draws in here leave the generators as they were."""

    def __init__(self, generators: Sequence[Any]) -> None:
        self.generators = generators
        self.places: list[tuple[Any, Any]] = []

    def _recreate_cm(self) -> Forked:
        return Forked(self.generators)

    def __enter__(self) -> None:
        self.places = [(generator, generator.position()) for generator in self.generators]

    def __exit__(self, *exc: Any) -> None:
        for generator, place in self.places:
            generator.go_to(place)
