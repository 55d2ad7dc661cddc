"""Spans of a profile -> a file of trace events (JSON), which Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from jitcap.profiling.rows import Timeline


def events(line: Timeline) -> list[dict[str, Any]]:
    """The spans as complete events, in microseconds from the profile's begin on."""
    process = os.getpid()
    threads = {ident: i for i, ident in enumerate(dict.fromkeys(s.thread for s, *_ in line.spans))}
    found: list[dict[str, Any]] = [
        {"ph": "M", "name": "thread_name", "pid": process, "tid": number, "ts": 0,
         "args": {"name": "profiled thread" if ident == line.thread else f"thread {ident}"}}
        for ident, number in threads.items()
    ]  # fmt: skip
    seen: set[int] = set()  # a call has two rows, and is one event
    for span, _, _ in line.spans:
        if span.end == span.start or id(span) in seen:
            continue
        seen.add(id(span))
        part = span.part
        found.append(
            {
                "ph": "X", "name": part.name, "cat": part.kind, "pid": process,
                "tid": threads[span.thread], "ts": (span.start - line.begin) / 1e3,
                "dur": (span.end - span.start) / 1e3,
                "args": {"shapes": part.shapes, "lines": ", ".join(part.lines)},
            }
        )  # fmt: skip
    return found


def write(line: Timeline, path: Path) -> None:
    path.write_text(json.dumps({"traceEvents": events(line), "displayTimeUnit": "ms"}))
