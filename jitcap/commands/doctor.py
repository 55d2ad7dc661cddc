"""`python -m jitcap doctor`: what this machine gives the compiler. -> a line for each part of it.

A line that is not well says how to mend it. The last one is the proof: a small training step is
compiled where nothing is kept, run, and compared with plain Python.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import eager
import jitcap
from codegen.runtime import cache
from codegen.targets.cpp.runtime import build
from eager import cuda
from eager.base.byte_text import byte_text
from eager.base.config import config, unknown_variables
from eager.base.process import threads
from jitcap.capture import bytecode

# What a line says: it is well, it works and could be better, or what needs it does not work.
WELL, SLOW, BAD = "ok", "slow", "FAIL"
LITTLE_DISK: Final = 1 << 30
WIDTHS: Final = {"avx512f": "AVX-512", "avx2": "AVX2", "avx": "AVX", "asimd": "NEON"}
CORE_TYPE, CACHE_SIZE = BLAS_VARIABLES = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
_CORE: Final = """
import ctypes, sys
name = getattr(ctypes.CDLL(sys.argv[1]), sys.argv[2])
name.restype = ctypes.c_char_p
print(name().decode())
"""


class Line(NamedTuple):
    """Finding about one part, and how to mend it where `state` is not WELL."""

    part: str
    state: str
    found: str
    cure: str = ""


def add_to(commands: Any) -> None:
    parser = commands.add_parser("doctor", help="what works here, what does not, how to mend it")
    parser.set_defaults(run=run)


def run(_: Any) -> int:
    """Print all lines; 1 if something that matters does not work."""
    states = []
    for check in CHECKS:
        for line in check():
            states.append(line.state)
            print(f"{line.state:<5} {line.part:<10} {line.found}")
            if line.cure:
                print(f"{'':<16} -> {line.cure}")
    return int(BAD in states)


def _versions() -> Iterator[Line]:
    known = bytecode.is_known()
    text = f"{platform.python_version()} ({sys.executable})"
    cure = "its bytecode is not known: steps are traced; 3.11, 3.12 and 3.13 are read"
    yield Line("Python", WELL if known else SLOW, text, "" if known else cure)
    yield Line("jitcap", WELL, f"{jitcap.__version__} ({Path(jitcap.__file__).parent})")
    yield Line("NumPy", WELL, np.__version__)


def _compiler() -> Iterator[Line]:
    try:
        command = build.compiler()
    except build.NoCompiler as error:
        yield Line(
            "compiler", BAD, str(error).partition(";")[0],
            "install g++ or clang++, or set CXX to its path; what is in the cache runs without",
        )  # fmt: skip
        return
    told = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    version = (told.stdout or told.stderr).strip().partition("\n")[0]
    text = f"{' '.join(command)}: {version}"
    if told.returncode:
        yield Line("compiler", BAD, text, "it does not run: set CXX to another one")
    else:
        yield Line("compiler", WELL, text)


def _instructions() -> Iterator[Line]:
    flags = build.isa().split()
    widest = next((name for flag, name in WIDTHS.items() if flag in flags), "128 bits")
    more = [name for name in ("avx512_bf16", "avx512_vnni", "amx_bf16", "fma") if name in flags]
    text = f"{platform.machine()}, {', '.join([widest, *more])}; JITCAP_ISA={config.isa}"
    lowered = config.isa != "native"
    cure = "unset JITCAP_ISA: code has all instructions of this processor then" if lowered else ""
    yield Line("processor", SLOW if lowered else WELL, text, cure)


def _blas() -> Iterator[Line]:
    """The core type for which OpenBLAS chooses its kernels, with the variables and without."""
    for part, path, symbol in _blas_libraries():
        now = _core(path, symbol, os.environ)
        clean = {k: v for k, v in os.environ.items() if k not in BLAS_VARIABLES}
        own, cures = _core(path, symbol, clean), []
        if now != own:
            cures.append(f"unset {CORE_TYPE}: kernels for {now} run where {own}'s would")
        if os.environ.get(CACHE_SIZE):
            cures.append(f"unset {CACHE_SIZE}: blocks are cut for a cache of that size")
        text = f"OpenBLAS for {now} ({Path(path).name})"
        yield Line(part, SLOW if cures else WELL, text, "; ".join(cures))


def _blas_libraries() -> Iterator[tuple[str, str, str]]:
    """Part, path, and the function that names the core type, of NumPy's and of compiled code's."""
    for library in threads._libraries():
        for symbol in ("scipy_openblas_get_corename64_", "scipy_openblas_get_corename"):
            if hasattr(library, symbol):
                yield "BLAS", library._name, symbol
                break
    spec = importlib.util.find_spec("scipy_openblas32")
    if spec is not None and spec.origin is not None:
        for path in sorted((Path(spec.origin).parent / "lib").glob("libscipy_openblas*")):
            yield "BLAS (jit)", str(path), "scipy_openblas_get_corename"


def _core(path: str, symbol: str, environment: Any) -> str:
    """The answer of a process of its own: OpenBLAS reads its variables once."""
    ran = subprocess.run(
        [sys.executable, "-c", _CORE, path, symbol],
        env=dict(environment), capture_output=True, text=True, check=False,
    )  # fmt: skip
    return ran.stdout.strip() or "an unknown core"


def _threads() -> Iterator[Line]:
    used, there = threads.get_num_threads(), threads.processors()
    text = f"{used} of compiled code, {there} processors for this process, {os.cpu_count()} in all"
    if used < there:
        yield Line("threads", SLOW, text, "unset JITCAP_THREADS and OMP_NUM_THREADS to use all")
    elif used > there:
        yield Line("threads", SLOW, text, f"more threads than processors: JITCAP_THREADS={there}")
    else:
        yield Line("threads", WELL, text)


def _gpu() -> Iterator[Line]:
    triton = _version_of("triton")
    if not cuda.is_available():
        yield Line("GPU", WELL, f"none; Triton {triton or 'is not installed'}")
        return
    names = ", ".join(cuda.get_device_name(i) for i in range(cuda.device_count()))
    text = f"{names}; Triton {triton or 'is not installed'}"
    extra = "sim" if config.device == "sim" else "gpu"
    cure = "" if triton else f"pip install 'jitcap[{extra}]': nothing is compiled for it without"
    yield Line("GPU", WELL if triton else BAD, text, cure)


def _mpi() -> Iterator[Line]:
    version = _version_of("mpi4py")
    if version is None:
        yield Line(
            "MPI", WELL, "not installed; several processes need pip install 'jitcap[distributed]'"
        )
        return
    beside = Path(sys.executable).parent / "mpiexec"
    mpiexec = str(beside) if beside.exists() else shutil.which("mpiexec")
    text = f"mpi4py {version}, {mpiexec or 'no mpiexec'}"
    cure = "" if mpiexec else "pip install mpich: jitcap.launch starts processes by mpiexec"
    yield Line("MPI", WELL if mpiexec else SLOW, text, cure)


def _version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cache() -> Iterator[Line]:
    store = cache.default()
    root, asked = store.roots[-1], store.asked
    free = shutil.disk_usage(root).free
    text = f"{root}: {byte_text(store.size())} of {byte_text(store.limit_bytes)}"
    text = f"{text}, {byte_text(free)} of disk free"
    if root != asked or not store.is_writable():
        cure = f"{asked} cannot be written or is not yours alone: set JITCAP_CACHE_DIR to a folder"
        yield Line("cache", BAD, text, f"{cure} that is, else each process compiles again")
    elif free < LITTLE_DISK:
        yield Line("cache", SLOW, text, "make room: compiled code that does not fit is not kept")
    else:
        yield Line("cache", WELL, text)


def _settings() -> Iterator[Line]:
    for text in unknown_variables():
        yield Line("settings", SLOW, text, "a misspelled setting does nothing")


def _proof() -> Iterator[Line]:
    """A training step, compiled anew and run."""
    before = os.environ.get("JITCAP_CACHE_DIR")
    with tempfile.TemporaryDirectory(prefix="jitcap-doctor-") as folder:
        os.environ["JITCAP_CACHE_DIR"] = folder
        try:
            yield _proved()
        finally:
            del os.environ["JITCAP_CACHE_DIR"]
            if before is not None:
                os.environ["JITCAP_CACHE_DIR"] = before


def _proved() -> Line:
    def losses(compiled: bool) -> tuple[list[float], Any]:
        eager.manual_seed(0)
        weight = eager.ones(8, requires_grad=True)
        optimizer = eager.optim.SGD([weight], lr=0.1)

        def step(x: Any, y: Any) -> Any:
            loss = (((x * weight).tanh().sum(1) - y) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        run = jitcap.jit(step, backend="cpp") if compiled else step
        x, y = eager.randn(4, 8), eager.randn(4)
        return [float(run(x, y)) for _ in range(3)], run

    cure = "report it, with the output of JITCAP_TRACEBACK=full JITCAP_STRICT=1 and this command"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # this line says it
            (plain, _), (compiled, step) = losses(False), losses(True)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
        return Line("proof", BAD, f"a training step: {type(error).__name__}: {error}", cure)
    stats = step.stats
    if stats.fallbacks or stats.splits:
        cure = "see the compiler's line" if any("no C++" in r for r in stats.refusals) else cure
        return Line("proof", BAD, f"a step was not compiled: {'; '.join(stats.refusals)}", cure)
    if not np.allclose(plain, compiled, rtol=1e-4):
        return Line("proof", BAD, f"compiled losses {compiled}, plain ones {plain}", cure)
    text = f"a training step compiled in {stats.compile_seconds:.1f} s, and equals plain Python"
    return Line("proof", WELL, text)


CHECKS: Final[tuple[Callable[[], Iterator[Line]], ...]] = (
    _versions, _compiler, _instructions, _blas, _threads, _gpu, _mpi, _cache, _settings, _proof,
)  # fmt: skip
