"""Under the profilers: spans inside each other. spans of a thread -> the time of each that no span
inside it has."""

from __future__ import annotations

from eager.base.dataclass import dataclass
from eager.base.recorder import Span


@dataclass(slots=True, eq=False)
class Nested:
    """A span around what comes: time of it that is in none inside, where its first launch began,
    without those before, and the span around it."""

    span: Span
    own: int
    before: int = -1
    outer: Nested | None = None
    hidden: bool = False  # what the profiler does for itself


def nested(spans: list[Span], *, ranges: bool = False) -> tuple[list[Nested], int]:
    """The spans of one thread with their own times, and the time of the outermost ones. `ranges`
    that the program names count as spans, too."""
    spans.sort(key=lambda s: (s.start, -s.end))
    made: list[Nested] = []
    stack: list[Nested] = []
    top = 0
    for s in spans:
        while stack and stack[-1].span.end <= s.start:
            stack.pop()
        outer = stack[-1] if stack else None
        if outer is not None and outer.hidden:
            continue
        entry = Nested(s, s.own if s.own >= 0 else s.end - s.start, outer=outer)
        entry.hidden = s.part.kind == "profiler"
        made.append(entry)
        is_sum = s.own >= 0 and s.end == s.start  # of runs that were not noted one by one
        if is_sum or (s.part.kind == "range" and not ranges):
            continue
        if outer is None:
            top += s.end - s.start
        elif s.own < 0 or outer.span.own < 0:  # compiled code has taken off its own
            if s.part.kind == "launch" and outer.span.part.kind == "call" and outer.before < 0:
                outer.before = s.start - outer.span.start
                outer.before -= outer.span.end - outer.span.start - outer.own
            outer.own -= s.end - s.start
        stack.append(entry)
    return made, top
