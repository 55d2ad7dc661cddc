"""`python -m jitcap explain script.py`: a program that runs -> what was compiled of it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from eager.base.run_script import run_script
from jitcap import api
from jitcap.explain import Explanation
from jitcap.store import versions


def add_to(commands: Any) -> None:
    parser = commands.add_parser("explain", help="run a program, and show what was compiled of it")
    parser.add_argument("script", help="script.py, or script.py:function for one function of it")
    parser.add_argument("--html", metavar="FOLDER", help="write a page for each function there")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the program's own")
    parser.set_defaults(run=run)


def run(given: Any) -> int:
    """Run the program and show every function that it compiled, or the one that is named; 1 if
    there is none."""
    script, _, wanted = given.script.partition(":")
    versions.take_kept(False)  # stages are those of a compile
    api.force(mode=None)  # what is shown is there when the program ends
    made = api.keep_all()
    ended: BaseException | None = None
    try:
        run_script(script, given.arguments)
    except BaseException as error:  # noqa: BLE001 - raised again, below what was compiled until then
        ended = error
    shown = [each.explanation() for each in made if each.is_compiled() and _is(each, wanted)]
    shown.sort(key=lambda each: each.name)
    for explanation in shown:
        _show(explanation, given.html)
    if ended is not None:
        raise ended
    if not shown:
        what = f"nothing named {wanted}" if wanted else "nothing"
        print(f"{script} compiled {what}", file=sys.stderr)
    return 0 if shown else 1


def _is(jitted: api.Jitted, name: str) -> bool:
    full = str(getattr(jitted, "__qualname__", ""))
    return not name or full == name or full.endswith(f".{name}")


def _show(explanation: Explanation, folder: str | None) -> None:
    if folder is None:
        print(explanation, end="\n\n")
        return
    safe = "".join(c if c.isalnum() else "_" for c in explanation.name)
    path = Path(folder) / f"{safe}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    explanation.html(path)
    print(f"{path}: {explanation.summary()}")
