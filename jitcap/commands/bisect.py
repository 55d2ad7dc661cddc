"""`python -m jitcap bisect script.py`: a program -> its first compiled call that is wrong.

The program runs in a child process (`inside`), in which every compiled call is compared with plain
Python, or, with `--nan`, every operation is looked at. The child says in a small file which call of
compiled code it is at: if it ends there by a signal, or does not end, the program runs once more up
to that call, whose graph is then tried in processes of its own.
"""

from __future__ import annotations

import argparse
import linecache
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from eager.base.config import config
from eager.base.run_script import run_script
from jitcap import api, reproduce
from jitcap.compile.executable import Run
from jitcap.compile.suspect import Suspect, SuspectCall
from jitcap.graph.graph import ITEM, Node
from jitcap.passes.dead import dead_code
from jitcap.pipeline import SUSPECT
from jitcap.reproduce.fault import NAN, raised
from jitcap.store import versions
from jitcap.verify.nans import copy_of, first_made, is_endless
from jitcap.versions.version import Suspects

SECONDS: Final = 120  # for the reduction, by default
LIMIT: Final = 60.0  # seconds that one compiled call may take, by default
EVERY: Final = 0.2  # seconds between two looks at the child
FOUND: Final = 1
_PLACE: Final = re.compile(r"(?:at|,) ?((?:/|\w:)?[^\s:]+):(\d+)")


def add_to(commands: Any) -> None:
    parser = commands.add_parser("bisect", help="run a program, and find what is compiled wrongly")
    parser.add_argument("--nan", action="store_true", help="find the first NaN or Inf instead")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="to reduce a fault, at most")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of one compiled call")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("--stop", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the program's own")
    parser.set_defaults(run=run)


def run(given: Any) -> int:
    """Run the program and say what is wrong: 1 if something is, else the program's own status."""
    if given.inside:
        return inside(given)
    with tempfile.NamedTemporaryFile(prefix="jitcap-bisect-") as file:
        command = [sys.executable, "-m", "jitcap", "bisect", "--inside", file.name]
        command += ["--seconds", str(given.seconds)] + ["--nan"] * given.nan
        rest = [given.script, *given.arguments]
        status, hung = _watched([*command, *rest], Path(file.name), given.limit)
        at = _call_at(Path(file.name))
        if status >= 0:
            return status
        name = signal.Signals(-status).name
        if not at:
            _say(f"{name} ended the process, outside of compiled code")
            return 128 - status
        what = "does not end" if hung else f"ends the process by {name}"
        _say(f"call {at} of compiled code {what}: the program runs again, up to there")
        again = [*command, "--stop", str(at), *rest]
        return subprocess.run(again, check=False).returncode


def _watched(command: Sequence[str], log: Path, limit: float) -> tuple[int, bool]:
    """The status of the child, and whether it was killed because one compiled call took too
    long."""
    with subprocess.Popen(command) as child:
        last, since, hung = 0, time.monotonic(), False
        while True:
            try:
                return child.wait(EVERY), hung
            except subprocess.TimeoutExpired:
                at = _call_at(log)
                if at != last:
                    last, since = at, time.monotonic()
                elif at and time.monotonic() - since > limit:
                    hung = True
                    child.kill()


def _call_at(log: Path) -> int:
    """The number of the compiled call that the child is in; 0 outside of any."""
    return int(log.read_text() or 0)


# ---- in the child


class Found(BaseException):
    """The end of the program: something is wrong, and was told. Nothing of the program's catches
    it."""


class Watch:
    """Observer of every compiled call."""

    def __init__(self, log: str, stop: int, *, nan: bool) -> None:
        self.log = os.open(log, os.O_WRONLY)
        self.stop = stop
        self.nan = nan
        self.calls = 0

    def around(self, run: Run, suspect: Suspect) -> Run:
        """`run`, which says that it begins and that it has ended."""

        def watched(inputs: list[Any]) -> list[Any]:
            self.calls += 1
            if self.nan:
                self._look(inputs, suspect)
            if self.calls == self.stop:
                values = [copy_of(x) for x in inputs]
                what = f"{suspect.graph.name}, which is tried in processes of its own"
                raise self._end(what, [replace(suspect, values=values)], suspect.graph.name)
            self._note(self.calls)
            try:
                return run(inputs)
            finally:
                self._note(0)

        return watched

    def differs(self, error: Exception, suspects: Suspects) -> BaseException:
        """Tell of a difference, and end."""
        return self._end(str(error), suspects, getattr(error, "name", ""))

    def conclude(self) -> int:
        """Tell that the program has ended; 1 if nothing of it was compiled."""
        right = f"{self.calls} calls of compiled code, and nothing is wrong"
        _say(right if self.calls else "nothing was compiled")
        return 0 if self.calls else 1

    def _look(self, inputs: list[Any], suspect: Suspect) -> None:
        values = [copy_of(x) for x in inputs]
        n = first_made(suspect.graph, [copy_of(x) for x in values], is_endless, numbers=True)
        if n is not None:
            shapes = ", ".join(repr(p.avals[0]) for p in n.parents)
            name, made = suspect.graph.name, "makes a NaN or Inf of finite values"
            what = f"{name}: {n.op.name} {made} ({shapes})\n  where: {n.op.name} at {n.where}"
            raise self._end(what, [replace(_up_to(suspect, n), values=values, shows=NAN)], name)

    def _end(self, what: str, suspects: Suspects, name: str) -> BaseException:
        _say(f"call {self.calls} of compiled code: {what}{_source(what)}")
        file = reproduce.write(suspects, name, what) if suspects else "none: a part of a function"
        _say(f"file: {file}")
        return Found()

    def _note(self, call: int) -> None:
        os.pwrite(self.log, f"{call:<20}".encode(), 0)


def _up_to(suspect: Suspect, n: Node) -> Suspect:
    """The graph that ends with one operation."""
    graph = suspect.graph
    ends = [i for i in graph.nodes if i.op is ITEM and i.parents == (n,)] or [n]
    less = dead_code(graph.with_(outputs=tuple(ends)))
    return replace(suspect, graph=less, writes=())


def inside(given: Any) -> int:
    """Run the program under watch."""
    versions.take_kept(False)  # what is compiled is looked at
    config.strict, config.check, config.traceback = True, True, "full"
    config.reproduce = max(1, given.seconds)
    watch = Watch(given.inside, given.stop, nan=given.nan)
    own = {"backend": "eager"} if given.nan else {"verify": True}
    api.force(watch=watch, mode=None, **own)
    try:
        run_script(given.script, given.arguments)
    except Found:
        return FOUND
    except SystemExit as end:
        if watch.conclude() and not end.code:
            return FOUND
        raise
    except Exception as error:
        if not hasattr(error, SUSPECT):
            raise
        return _failed(error, getattr(error, SUSPECT))
    return watch.conclude()


def _failed(error: Exception, suspect: Suspect | SuspectCall) -> int:
    """Tell of an internal error."""
    outcome = raised(error)
    if isinstance(suspect, Suspect):
        stage, name = "compiling", suspect.graph.name
    else:
        stage, name = "capturing", suspect.place
    _say(f"{stage} {name} failed: {outcome.text}\n  where: {outcome.stage}")
    _say(f"file: {reproduce.write([suspect], name, outcome.text)}")
    return FOUND


def _source(text: str) -> str:
    """The program's line that a message names."""
    for path, line in _PLACE.findall(text):
        found = linecache.getline(path, int(line)).strip()
        if found:
            return f"\n  line: {found}"
    return ""


def _say(text: str) -> None:
    print(f"bisect: {text.replace(f'{Path.cwd()}/', '')}", file=sys.stderr, flush=True)
