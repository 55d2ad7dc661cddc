"""`python -m jitcap settings`: every setting, its default, and what it is now. -> a table.

The rows come from where the settings are defined; the tables of the documentation are made here,
too (`--markdown`).
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from eager.base.config import FLAGS, VARIABLES, config
from jitcap.api import jit


class Setting(NamedTuple):
    """A setting as people see it; `now` is "" for an argument, which each function has its own."""

    name: str
    default: str
    now: str
    what: str


def flags() -> Iterator[Setting]:
    """Environment variables that are attributes of `jitcap.config`, too."""
    for flag in FLAGS.values():
        yield Setting(flag.env, _text(flag.default), _text(getattr(config, flag.name)), flag.what)


def variables() -> Iterator[Setting]:
    """Environment variables that are nothing else."""
    for each in VARIABLES:
        yield Setting(each.env, each.default, os.environ.get(each.env, ""), each.what)


def options() -> Iterator[Setting]:
    """The arguments of `jit`."""
    told = re.findall(r"^(\w+)  +(.*(?:\n {8,}.*)*)", inspect.getdoc(jit) or "", re.MULTILINE)
    what = {name: " ".join(text.split()) for name, text in told}
    for name, parameter in inspect.signature(jit).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            yield Setting(f"jit({name}=)", str(parameter.default), "", what[name])


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def markdown(rows: Iterator[Setting]) -> str:
    """The table that the documentation shows."""
    lines = [
        f"| `{row.name}` | {_cell(row.default)} | {row.what.replace('|', ',')} |" for row in rows
    ]
    return "\n".join(["| variable | default | what it does |", "|---|---|---|", *lines])


def _cell(default: str) -> str:
    return f"`{default}`" if default else ""


def add_to(commands: Any) -> None:
    parser = commands.add_parser("settings", help="every setting, its default and its value now")
    parser.add_argument("--markdown", action="store_true", help="as the documentation has them")
    parser.set_defaults(run=run)


def run(given: Any) -> int:
    """Print the table."""
    if given.markdown:
        print(f"{markdown(flags())}\n\n{markdown(variables())}")
        return 0
    rows = [*flags(), *variables(), *options()]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    for row in (Setting("setting", "default", "now", "what it does"), *rows):
        cells = [cell.ljust(max(width, 7)) for cell, width in zip(row[:3], widths, strict=True)]
        print("  ".join([*cells, row.what]))
    return 0
