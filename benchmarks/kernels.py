"""By which kernels this process computes: those of each loaded BLAS, of torch, of our own code."""

import ctypes
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from codegen.targets.cpp.runtime import build, support
from eager.base.config import config

CORE_NAMES = (
    "scipy_openblas_get_corename64_", "scipy_openblas_get_corename", "openblas_get_corename",
)  # fmt: skip


def kernels() -> Iterator[str]:
    """A row for each. A library that does not tell gives none."""
    maps = Path("/proc/self/maps")
    paths = re.findall(r"/\S*openblas\S*\.so\S*", maps.read_text()) if maps.exists() else []
    for path in map(Path, sorted(set(paths))):
        core = _core(ctypes.CDLL(str(path)))
        if core:
            yield f"BLAS {path.parent.name}/{path.name}: {core}"
    torch = sys.modules.get("torch")
    if torch is not None:
        yield f"torch: {torch.backends.cpu.get_cpu_capability()}"
    yield f"@jit: {config.isa} ({_march()})"


def _core(library: ctypes.CDLL) -> str:
    """The processor for which an OpenBLAS has taken its kernels."""
    for name in CORE_NAMES:
        if hasattr(library, name):
            ask = getattr(library, name)
            ask.restype = ctypes.c_char_p
            return ask().decode()
    return ""


def _march() -> str:
    """What the C++ compiler takes the instruction set for; g++ tells."""
    try:
        flags = (f for f in (*build.FLAGS, *support.isa_flags(config.isa)) if "-march" in f)
        asked = [*build.compiler(), *flags, "-Q", "--help=target"]
        told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    except (build.NoCompiler, OSError, subprocess.CalledProcessError):
        return "the compiler does not tell"
    found = re.search(r"-march=\s+(\S+)", told)
    return found[1] if found else "the compiler does not tell"
