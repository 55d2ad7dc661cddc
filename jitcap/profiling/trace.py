"""Spans of a profile -> a file of trace events (JSON), which Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from jitcap.profiling.memory import Memory
from jitcap.profiling.rows import Timeline


def events(line: Timeline, process: int, name: str) -> list[dict[str, Any]]:
    """The spans as complete events, in microseconds from the begin on."""
    threads = {ident: i for i, ident in enumerate(dict.fromkeys(s.thread for s, *_ in line.spans))}
    found: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "ts": 0,
         "args": {"name": name}}
    ]  # fmt: skip
    found += [
        {"ph": "M", "name": "thread_name", "pid": process, "tid": number, "ts": 0,
         "args": {"name": "profiled thread" if ident == line.thread else _name(ident)}}
        for ident, number in threads.items()
    ]  # fmt: skip
    seen: set[int] = set()  # a call has two rows, and is one event
    for span, row, _ in line.spans:
        if span.end == span.start or id(span) in seen:
            continue
        seen.add(id(span))
        part, modules = span.part, {place.module: None for place in row.places if place.module}
        found.append(
            {
                "ph": "X", "name": part.name, "cat": part.kind, "pid": process,
                "tid": threads[span.thread], "ts": (span.start - line.begin) / 1e3,
                "dur": (span.end - span.start) / 1e3,
                "args": {
                    "shapes": part.shapes, "lines": ", ".join(part.lines), "code": part.code,
                    "modules": ", ".join(modules),
                },
            }
        )  # fmt: skip
    return found


def _name(thread: int | str) -> str:
    return f"stream {thread}" if isinstance(thread, str) else f"thread {thread}"


def write(line: Timeline, modelled: Timeline | None, memory: Memory | None, path: Path) -> None:
    """Both clocks begin at 0: those of simulated devices are a process of their own. Memory is a
    counter."""
    process = os.getpid()
    rows = events(line, process, "this process")
    if modelled is not None:
        rows += events(modelled, process + 1, "simulated devices, by their model")
    for us, sums in () if memory is None else memory.samples:
        rows.append(
            {"ph": "C", "name": "memory", "pid": process, "tid": 0, "ts": us, "args": dict(sums)}
        )
    path.write_text(json.dumps({"traceEvents": rows, "displayTimeUnit": "ms"}))
