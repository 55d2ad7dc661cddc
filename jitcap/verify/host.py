"""Verified calls: what the plain run tells the host, beside what the compiled version would have.

Text that is printed is seen where it is written: the `write` of the stream itself, which stays the
same object. Log records are seen where they are made, warnings where they are shown. Only what the
calling thread does counts. A stream whose `write` cannot be watched is not compared.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any, Final

from eager.base.dataclass import dataclass
from eager.base.process.locks import lock
from eager.core.tensor import Tensor
from jitcap.capture.tracebacks import report_above, warn_above

LEVELS: Final = {
    "debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING,
    "warn": logging.WARNING, "error": logging.ERROR, "critical": logging.CRITICAL,
}  # fmt: skip
Call = tuple[Any, tuple[Any, ...], dict[str, Any]]  # function, arguments, keyword arguments


@dataclass(slots=True)
class Heard:
    """Output to the host: text by stream, log records and warnings, in order. `by` and `logged_by`
    tell which call each came from, where that is known."""

    streams: dict[int, list[str]] = field(default_factory=dict)
    by: dict[int, list[int]] = field(default_factory=dict)
    logged: list[tuple[str, int, str]] = field(default_factory=list)
    logged_by: list[int] = field(default_factory=list)
    warned: list[tuple[str, str]] = field(default_factory=list)

    def write(self, stream: Any, text: str, call: int = -1) -> None:
        self.streams.setdefault(id(stream), []).append(text)
        self.by.setdefault(id(stream), []).append(call)


def expected(calls: Sequence[Call]) -> Heard:
    """Output that these calls would send to the host."""
    heard = Heard()
    for i, (fn, args, kwargs) in enumerate(calls):
        if fn is report_above:
            fn, args = args[1], args[2:]
        elif fn is warn_above:
            fn, args = warnings.warn, args[1:]
        owner, name = getattr(fn, "__self__", None), getattr(fn, "__name__", "")
        if fn is print:
            buffer, stream = io.StringIO(), kwargs.get("file") or sys.stdout
            print(*args, **{**kwargs, "file": buffer})  # noqa: T201
            heard.write(stream, buffer.getvalue(), i)
        elif isinstance(owner, io.TextIOBase) and name == "write":
            heard.write(owner, args[0], i)
        elif isinstance(owner, io.TextIOBase) and name == "writelines":
            heard.write(owner, "".join(args[0]), i)
        elif getattr(fn, "__module__", "") == "logging" and name in (*LEVELS, "log"):
            _expect_record(heard, name, args)
            heard.logged_by += [i] * (len(heard.logged) - len(heard.logged_by))
        elif name == "warn":
            category = args[1] if len(args) > 1 and args[1] else UserWarning
            category = type(args[0]) if isinstance(args[0], Warning) else category
            heard.warned.append((str(args[0]), category.__name__))
    return heard


def told(heard: Heard, watched: dict[int, str]) -> dict[str, str]:
    """The texts that the host heard, by what they are."""
    texts = {}
    for stream, name in watched.items():
        texts[f"what is printed to {name}"] = "".join(heard.streams.get(stream, []))
    for i, (name, level, text) in enumerate(heard.logged, 1):
        texts[f"log record {i}"] = f"{name}:{level}:{text}"
    return texts


def first_other(path: str, calls: Sequence[Call], heard: Heard) -> int | None:
    """Index of the call whose output at `path` differs from what was heard; the last if nothing was
    said where something was heard."""
    wanted = expected(calls)
    if path.startswith("log record"):
        number = int(path.rsplit(maxsplit=1)[-1]) - 1
        return wanted.logged_by[number] if number < len(wanted.logged_by) else None
    for stream in heard.streams.keys() | wanted.streams.keys():
        rest, by = "".join(heard.streams.get(stream, [])), wanted.by.get(stream, [])
        for text, call in zip(wanted.streams.get(stream, []), by, strict=True):
            if not rest.startswith(text):
                return call
            rest = rest[len(text) :]
        if rest and by:
            return by[-1]
    return len(calls) - 1 if calls else None


def _expect_record(heard: Heard, name: str, args: tuple[Any, ...]) -> None:
    logger = logging.root
    if args and isinstance(args[0], logging.Logger | logging.LoggerAdapter):
        logger, args = args[0], args[1:]  # type: ignore[assignment]
    level, args = (args[0], args[1:]) if name == "log" else (LEVELS[name], args)
    if logger.isEnabledFor(level):
        given: Any = args[1:]
        if len(given) == 1 and isinstance(given[0], Mapping) and given[0]:
            given = given[0]
        heard.logged.append((logger.name, level, _text(args[0], given)))


def _text(message: Any, args: Any) -> str:
    """A log record's text; its form alone if making it would run code of the user's."""
    plain = all(isinstance(a, str | int | float | Tensor | None) for a in args)
    return str(message) % args if args and plain else str(message)


def streams_of(calls: Sequence[Call]) -> list[Any]:
    """The streams to watch: the standard ones, and those that the calls name."""
    found = [sys.stdout, sys.stderr]
    for fn, _, kwargs in calls:
        owner = getattr(fn, "__self__", None)
        found += [s for s in (kwargs.get("file"), owner) if isinstance(s, io.TextIOBase)]
    return list({id(s): s for s in found if s is not None}.values())


class _Ears(threading.local):
    """Listeners of this thread."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Stop listening: what a handler writes is heard as a record already."""
        before, self.heard = self.heard, []
        try:
            yield
        finally:
            self.heard = before


class _Tap:
    """Something of the host's that is replaced while any thread listens."""

    def __init__(self, owner: Any, name: str) -> None:
        self.owner, self.name = owner, name
        self.own = name in getattr(owner, "__dict__", {})
        self.original = getattr(owner, name)
        self.users = 0

    def put(self, replacement: Any) -> None:
        self.replacement = replacement
        setattr(self.owner, self.name, replacement)

    def restore(self) -> None:
        """Put back what was there, unless the program has put something of its own."""
        if getattr(self.owner, self.name) is not self.replacement:
            return
        if self.own:
            setattr(self.owner, self.name, self.original)
        else:
            delattr(self.owner, self.name)


_ears = _Ears()
_lock = lock()
_taps: dict[tuple[int, str], _Tap] = {}


@contextmanager
def listening(streams: Sequence[Any]) -> Iterator[tuple[Heard, dict[int, str]]]:
    """Output of this thread to the host inside the block, and the streams that are watched, by id
    with their names."""
    heard, watched = Heard(), dict[int, str]()
    wanted: list[tuple[Any, str, Callable[[Any, Any], Any]]] = [
        (logging, "_logRecordFactory", _record),
        (logging.Logger, "callHandlers", _handle),
        (warnings, "showwarning", _show_warning),
        *((stream, "write", _write) for stream in streams),
    ]
    taps = []
    for owner, name, listen in wanted:
        tap = _tapped(owner, name, listen)
        if tap is not None:
            taps.append(tap)
            if name == "write":
                watched[id(owner)] = _name(owner)
    _ears.heard.append(heard)
    try:
        yield heard, watched
    finally:
        _ears.heard.remove(heard)
        for tap in taps:
            _release(tap)


def _tapped(owner: Any, name: str, listen: Callable[[Any, Any], Any]) -> _Tap | None:
    """Listen there; None if it takes no attributes."""
    with _lock:
        tap = _taps.get((id(owner), name))
        if tap is None:
            tap = _Tap(owner, name)
            try:
                tap.put(listen(owner, tap.original))
            except AttributeError:
                return None
            _taps[id(owner), name] = tap
        tap.users += 1
        return tap


def _release(tap: _Tap) -> None:
    with _lock:
        tap.users -= 1
        if not tap.users:
            del _taps[id(tap.owner), tap.name]
            tap.restore()


def _write(stream: Any, original: Any) -> Any:
    def write(text: Any, *rest: Any) -> Any:
        for heard in _ears.heard:
            if isinstance(text, str):
                heard.write(stream, text)
        return original(text, *rest)

    return write


def _record(_: Any, original: Any) -> Any:
    def record(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        for heard in _ears.heard:
            heard.logged.append((made.name, made.levelno, _text(made.msg, made.args)))
        return made

    return record


def _show_warning(_: Any, original: Any) -> Any:
    def show(message: Any, category: Any, *rest: Any, **kwargs: Any) -> None:
        for heard in _ears.heard:
            heard.warned.append((str(message), category.__name__))
        with _ears.closed():
            original(message, category, *rest, **kwargs)

    return show


def _handle(_: Any, original: Any) -> Any:
    def handle(logger: Any, record: Any) -> Any:
        with _ears.closed():
            return original(logger, record)

    return handle


def _name(stream: Any) -> str:
    known = {id(sys.stdout): "stdout", id(sys.stderr): "stderr"}
    return known.get(id(stream)) or str(getattr(stream, "name", "a stream"))
