"""Reproducing: files tried one after the other. text of a file -> what it shows.

A process that imports the library once is started (it has no threads and none of the program's
state) and forks for each file, which forks again to run: neither a crash nor an endless loop in one
ends the others. `serve` is that process: texts come as lines of JSON, outcomes go.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Final

from codegen.runtime import scratch
from jitcap.reproduce.fault import INVALID, Fault, Outcome

STAGE: Final = 30.0  # seconds


class OutOfTime(Exception):
    """The time for trials is over."""


class Trials:
    """Trials for so many seconds, in order. A context manager."""

    def __init__(self, seconds: float) -> None:
        self.until = time.monotonic() + seconds
        self.count = 0
        self.folder = scratch.folder("reproduce")  # of long values
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Trials:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __call__(self, text: str) -> Outcome:
        """Outcome of the fault that a file describes. Raises OutOfTime."""
        if time.monotonic() >= self.until:
            raise OutOfTime
        self.count += 1
        return self._ask(text, staged=False)

    def staged(self, text: str) -> Outcome:
        """The outcome with the stage that is at fault, for which there is some time in any case."""
        self.until = max(self.until, time.monotonic() + STAGE)
        return self._ask(text, staged=True)

    def _ask(self, text: str, *, staged: bool) -> Outcome:
        process = self._process = self._process or _started()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps([text, staged]).encode() + b"\n")
            process.stdin.flush()
            line = self._line(process.stdout)
        except OSError:
            line = b""
        if not line:
            self._end()
            return Outcome(INVALID, "the process for trials has ended")
        return Outcome(*json.loads(line))

    def _line(self, stream: IO[bytes]) -> bytes:
        left = b""
        while not left.endswith(b"\n"):
            ready = select.select([stream], [], [], max(0.0, self.until - time.monotonic()))[0]
            if not ready:
                self._end()
                raise OutOfTime
            data = os.read(stream.fileno(), 1 << 16)
            if not data:
                return b""
            left += data
        return left

    def _end(self) -> None:
        """End it with all that it has started."""
        process, self._process = self._process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()


def _started() -> subprocess.Popen[bytes]:
    path = os.pathsep.join(p or str(Path.cwd()) for p in sys.path)
    return subprocess.Popen(
        [sys.executable, "-c", "from jitcap.reproduce.trials import serve; serve()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path}, start_new_session=True,
    )  # fmt: skip


def serve() -> None:
    """Try what comes, until nothing does."""
    out = os.dup(1)
    os.dup2(2, 1)  # what is tried may print
    for line in sys.stdin.buffer:
        ours, theirs = os.pipe()
        pid = os.fork()
        if not pid:
            found = Outcome(INVALID, "it did not begin")
            try:
                found = _tried(*json.loads(line))
            finally:
                os.write(theirs, json.dumps([found.fault, found.text, found.stage]).encode())
                os._exit(0)
        os.close(theirs)
        with os.fdopen(ours, "rb") as stream:
            told = stream.read()
        os.waitpid(pid, 0)
        os.write(out, (told or json.dumps([INVALID]).encode()) + b"\n")


def _tried(text: str, staged: bool) -> Outcome:
    scope: dict[str, Any] = {"__name__": "__trial__"}
    try:
        exec(compile(text, "<trial>", "exec", dont_inherit=True), scope)
        fault: Fault = scope["FAULT"]
        found = fault.outcome()
        if staged and found.fault:
            found = replace(found, stage=fault.stage(found))
    except Exception as error:  # noqa: BLE001 - it is told
        return Outcome(INVALID, f"{type(error).__name__}: {error}")
    return found
