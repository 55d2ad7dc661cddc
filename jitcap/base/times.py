"""Beside the pipeline: seconds of stages as a tree. {stage: seconds}, {stage: what it is in} ->
lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def tree(
    seconds: Mapping[str, float], inside: Mapping[str, str]
) -> Iterator[tuple[int, str, float]]:
    """(depth, stage, seconds), the total first; what a stage does besides its parts is "other"."""
    top = {name: each for name, each in seconds.items() if name not in inside}
    yield 0, "total", sum(top.values())
    for name, each in top.items():
        yield 1, name, each
        parts = {part: seconds[part] for part, whole in inside.items() if whole == name}
        if parts:
            yield from ((2, part, spent) for part, spent in parts.items())
            yield 2, "other", max(0.0, each - sum(parts.values()))


def shown(seconds: Mapping[str, float], inside: Mapping[str, str]) -> str:
    """The tree as text, without what took less than a tenth of a millisecond."""
    return "\n".join(
        f"{'  ' * depth}{name:<{24 - 2 * depth}}{1e3 * spent:>10.1f} ms"
        for depth, name, spent in tree(seconds, inside)
        if spent >= 1e-4 or not depth
    )
