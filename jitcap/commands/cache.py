"""`python -m jitcap cache`: entries of the compile cache -> listed, pruned, cleared, filled."""

from __future__ import annotations

import argparse
import atexit
import time
from collections import Counter
from typing import Any, Final

from codegen.runtime.cache import Cache, Row, default
from eager.base.byte_text import byte_text
from eager.base.run_script import run_script

_SIZES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_TIMES: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def size_of(text: str) -> int:
    """Bytes that "500M" or "2G" says. Raises ArgumentTypeError."""
    return int(_scaled(text.lower().removesuffix("b"), _SIZES, "500M or 2G"))


def seconds_of(text: str) -> float:
    """Seconds that "12h" or "30d" says. Raises ArgumentTypeError."""
    return _scaled(text.lower(), _TIMES, "12h or 30d")


def _scaled(text: str, units: dict[str, int], like: str) -> float:
    number, unit = (text, "") if text[-1:].isdigit() else (text[:-1], text[-1:])
    try:
        return float(number) * units[unit]
    except (KeyError, ValueError):
        raise argparse.ArgumentTypeError(f"{text!r} is nothing like {like}") from None


def add_to(commands: Any) -> None:
    parser = commands.add_parser("cache", help="what compiling kept on disk")
    actions = parser.add_subparsers(required=True, metavar="action")
    for name, run, what in (
        ("list", _list, "every entry, the most recently used first"),
        ("size", _size, "the folder, the number of entries and their bytes"),
        ("prune", _prune, "delete what was not used for long, or the oldest of too much"),
        ("clear", _clear, "delete every entry"),
        ("warm", _warm, "run a program, so that what it compiles is there for later ones"),
    ):
        action = actions.add_parser(name, help=what)
        action.set_defaults(run=run)
        if name == "prune":
            action.add_argument("--older", type=seconds_of, metavar="AGE", help="12h, 30d")
            action.add_argument("--to-size", type=size_of, metavar="SIZE", help="500M, 2G")
        elif name == "warm":
            action.add_argument("script")
            action.add_argument("arguments", nargs=argparse.REMAINDER)


def _total(rows: list[Row]) -> str:
    return f"{len(rows)} entries, {byte_text(sum(row.size for row in rows))}"


def _list(_: Any) -> int:
    rows = sorted(default().rows(), key=lambda row: -row.used)
    for row in rows:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.used))
        print(f"{used}  {byte_text(row.size):>10}  {row.kind:<10}  {row.key[:16]}")
    print(_total(rows))
    return 0


def _size(_: Any) -> int:
    store = default()
    rows = store.rows()
    print(f"{store.roots[-1]}: {_total(rows)}, at most {byte_text(store.limit_bytes)}")
    for kind, count in Counter(row.kind for row in rows).most_common():
        size = sum(row.size for row in rows if row.kind == kind)
        print(f"  {kind:<10} {count:>6}  {byte_text(size)}")
    return 0


def _prune(given: Any) -> int:
    if given.older is None and given.to_size is None:
        print("cache prune takes --older AGE, --to-size SIZE, or both")
        return 2
    store = default()
    before = store.rows()
    if given.older is not None:
        store.evict(used_before=time.time() - given.older)
    if given.to_size is not None:
        store.evict(given.to_size)
    return _say_gone(store, before)


def _clear(_: Any) -> int:
    store = default()
    before = store.rows()
    store.clear()
    return _say_gone(store, before)


def _say_gone(store: Cache, before: list[Row]) -> int:
    left = store.rows()
    kept = {row.key for row in left}
    gone = [row for row in before if row.key not in kept]
    print(f"deleted {_total(gone)}; left {_total(left)}")
    return 0


def _warm(given: Any) -> int:
    before = {row.key for row in default().rows()}

    def report() -> None:
        made = [row for row in default().rows() if row.key not in before]
        print(f"{default().roots[-1]}: {_total(made)} new")

    atexit.register(report)  # after what the program ends with, an error too
    run_script(given.script, given.arguments)
    return 0
