"""Between emitted C++ and the loader: the C++ compiler. C++ text -> a shared object on disk.

The compiler is `$CXX`, else the first of c++, g++, clang++ on the path. It runs as a child process
(vfork and exec: no Python state is forked), in a process group of its own that is killed at the
deadline; several translation units compile side by side. Nothing here caches: see `cache.py`.

Flags, and why: `-O2` because the kernels carry their SIMD explicitly (-O3 costs twice the compile
time for nothing); `-march=native`, so the key of a cached object contains `isa()`;
`-ffp-contract=off`, so that `a * b + c` rounds twice as NumPy's does and compiled equals eager;
`-fno-math-errno -fno-trapping-math` change no value; `-fwrapv -fno-strict-aliasing` because
integers wrap and the arena is reused across types. Never `-ffast-math`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from codegen.runtime import progress, scratch
from codegen.runtime.pending import Pending

HEADERS: Final = Path(__file__).resolve().parent.parent / "headers"
FLAGS: Final = (
    "-std=c++17", "-O2", "-march=native", "-fPIC", "-pipe", "-fvisibility=hidden", "-pthread",
    "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fwrapv", "-fno-strict-aliasing",
    "-fno-exceptions", "-fno-rtti", "-fno-plt", "-Wno-psabi",
)  # fmt: skip
# Generated code throws nothing, allocates nothing by `new` and prints nothing: without the C++
# run-time library, linking takes half the time and loading needs no libstdc++.
LIBRARIES: Final = ("-nodefaultlibs", "-lm", "-lpthread", "-lc", "-lgcc")
DEADLINE: Final = 300.0  # seconds, after which a compiler is taken to hang


class NoCompiler(RuntimeError):
    """No C++ compiler is installed: the caller falls back to the Python backend, saying so once."""


class CompileError(RuntimeError):
    """The compiler refused, crashed or ran into the deadline. Its output is in the message."""


def compiler() -> tuple[str, ...]:
    """The command of the C++ compiler in use. Raises NoCompiler, naming what was looked for."""
    return _compiler(os.environ.get("CXX", ""), os.environ.get("PATH", ""))


@functools.lru_cache(maxsize=8)
def _compiler(cxx: str, path: str) -> tuple[str, ...]:
    candidates = [shlex.split(cxx)] if cxx.strip() else [["c++"], ["g++"], ["clang++"]]
    for command in candidates:
        found = shutil.which(command[0], path=path)
        if found:
            return (found, *command[1:])
    names = ", ".join(command[0] for command in candidates)
    raise NoCompiler(
        f"no C++ compiler found (looked for {names}); compiled code needs one: install g++ or "
        "clang++, or set CXX to its path"
    )


@functools.cache
def isa() -> str:
    """The properties that `-march=native` depends on: machine, model and feature flags of the
    processor."""
    lines = [platform.system(), platform.machine()]
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return " ".join([*lines, platform.processor()])
    wanted = ("vendor_id", "cpu family", "model", "flags", "Features", "CPU part", "CPU variant")
    for line in text.split("\n\n", 1)[0].splitlines():
        name, _, value = line.partition(":")
        if name.strip() in wanted:
            lines.append(f"{name.strip()}={value.strip()}")
    return " ".join(lines)


@functools.cache
def headers_digest() -> str:
    """A digest of the headers that generated code includes: a part of every cache key."""
    digest = hashlib.sha256()
    for header in headers():
        digest.update(header.name.encode() + b"\0" + header.read_bytes() + b"\0")
    return digest.hexdigest()


def headers() -> list[Any]:
    """The headers: files, or, where the packages are in a zip file, what can be read like them."""
    folder: Any = HEADERS
    if not HEADERS.is_dir():
        from importlib import resources  # slow to import

        folder = resources.files("codegen.targets.cpp") / HEADERS.name
    return sorted((h for h in folder.iterdir() if h.name.endswith(".h")), key=lambda h: h.name)


def fingerprint(flags: Sequence[str] = ()) -> str:
    """Everything but the source that decides what a binary does, and $CXX: a part of every name in
    the cache. A compiler that is found on the path is none: a binary serves machines without it."""
    chosen = os.environ.get("CXX", "")
    return "\n".join([chosen, isa(), headers_digest(), *FLAGS, *LIBRARIES, *flags])


def compile_shared(
    sources: Mapping[str, str],
    out: Path,
    *,
    flags: Sequence[str] = (),
    objects: Mapping[str, Path] | None = None,
    deadline: float = DEADLINE,
) -> Pending[None]:
    """Begin to compile `sources` (file name -> C++ text) into the one shared object `out`.

    With several sources each is compiled by a process of its own, at the same time. `objects` says
    where the object of a source is, or is to be left if there is none. Raises NoCompiler; waiting
    raises CompileError (with the compiler's messages and the path of the kept source).
    """
    base = (*compiler(), *FLAGS, *flags, f"-I{HEADERS if HEADERS.is_dir() else '.'}")
    made = _Compilation(base, time.monotonic() + deadline)
    try:
        made.begin(sources, out, dict(objects or {}))
    except BaseException:
        made.close()
        raise
    return Pending(made.finish, made.close)


class _Compilation:
    """The compilers at work on one shared object, in a folder of their own."""

    def __init__(self, base: Sequence[str], until: float) -> None:
        self.base = base
        self.until = until
        self.work = scratch.folder("build")
        self.keep = False  # the folder: a message points at the source
        self.closed = False
        self.jobs: list[_Job] = []
        self.link: Sequence[str] | None = None  # what comes after the jobs

    def begin(self, sources: Mapping[str, str], out: Path, objects: Mapping[str, Path]) -> None:
        """Start them all (there are hardly more than processors)."""
        if not HEADERS.is_dir():  # they lie in a zip file
            for header in headers():
                (self.work / header.name).write_bytes(header.read_bytes())
        for name, text in sources.items():
            (self.work / name).write_text(text, encoding="utf-8")
        if len(sources) == 1:
            self._start("-shared", *sources, "-o", str(out), *LIBRARIES)
            return
        paths = {name: self.work / f"{name}.o" for name in sources} | {**objects}
        for name, path in paths.items():
            if not path.exists():
                self._start("-c", name, "-o", str(path))
        self.link = ("-shared", *map(str, paths.values()), "-o", str(out), *LIBRARIES)

    def _start(self, *arguments: str) -> None:
        self.jobs.append(_Job((*self.base, *arguments), self.work, len(self.jobs)))

    def finish(self) -> None:
        """Wait for them, and link. Raises CompileError; the first failure ends all."""
        late = threading.Event()

        def end() -> None:
            late.set()
            for job in self.jobs:
                job.kill()

        # Popen.wait with a timeout asks every 50 ms: a tenth of a small kernel's compile.
        timer = threading.Timer(max(0.0, self.until - time.monotonic()), end)
        timer.daemon = True
        timer.start()
        try:
            for i, job in enumerate(self.jobs):
                if len(self.jobs) > 1:
                    progress.at("C++ compiler", i, len(self.jobs), "files")
                job.wait(late)
            if self.link is not None:
                self._start(*self.link)
                self.jobs[-1].wait(late)
        except CompileError:
            self.keep = not self.closed
            raise
        finally:
            timer.cancel()

    def close(self) -> None:
        """End what still runs, and delete what it left. Another thread may wait for it."""
        self.closed = True
        for job in self.jobs:
            job.kill()
        if not self.keep:
            shutil.rmtree(self.work, ignore_errors=True)


class _Job:
    """One compiler process. Its messages go to a file: a pipe could fill up and block it."""

    def __init__(self, command: Sequence[str], work: Path, number: int) -> None:
        self.command = command
        self.work = work
        self.log = work / f"log{number}.txt"
        env = {**os.environ, "TMPDIR": str(work), "LC_ALL": "C"}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def wait(self, late: threading.Event) -> None:
        code = self.process.wait()
        if code and late.is_set():
            raise CompileError(
                "the C++ compiler did not finish before its deadline and was stopped\n"
                f"  command: {shlex.join(self.command)}\n  source kept in: {self.work}"
            )
        made = Path(self.command[self.command.index("-o") + 1])
        if code or not made.exists():
            text = self.log.read_text(errors="replace")[:8000]
            ended = f"failed with exit status {code}" if code else f"made no {made.name}"
            raise CompileError(
                f"the C++ compiler {ended}; the generated source is kept in "
                f"{self.work}\n  command: {shlex.join(self.command)}\n{text}"
            )

    def kill(self) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
