"""At the edge: `eager.utils.collect_env`, what a report of a fault says of the machine. -> a text.

`python -m jitcap doctor` looks at more, and says how to mend it.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from contextlib import suppress
from typing import Final, NamedTuple

import numpy as np

from eager import cuda, version
from eager.base.process import threads

__all__ = ["SystemEnv", "get_env_info", "get_pretty_env_info", "main"]
PACKAGES: Final = (
    "numpy",
    "ml_dtypes",
    "scipy-openblas32",
    "triton",
    "mpi4py",
    "einops",
    "safetensors",
)


class SystemEnv(NamedTuple):
    """Findings about a machine."""

    version: str
    os: str
    python_version: str
    processor: str
    threads: str
    is_cuda_available: str
    gpus: tuple[str, ...]
    packages: tuple[str, ...]
    variables: tuple[str, ...]


def get_env_info() -> SystemEnv:
    """Versions, the processor, GPUs, packages, and variables that matter, of this process."""
    packages = []
    for name in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            packages.append(f"{name}=={importlib.metadata.version(name)}")
    there = cuda.is_available()
    gpus = [cuda.get_device_name(i) for i in range(cuda.device_count())] if there else []
    matters = ("JITCAP_", "OMP_", "OPENBLAS_", "CXX", "CUDA_")
    return SystemEnv(
        version.__version__,
        platform.platform(),
        f"{sys.version.split()[0]} ({sys.executable})",
        platform.processor() or platform.machine(),
        f"{threads.get_num_threads()} of {threads.processors()}",
        str(there),
        tuple(gpus),
        tuple(packages),
        tuple(f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith(matters)),
    )


def get_pretty_env_info() -> str:
    """Text of it, a line for each."""
    found = get_env_info()
    rows = [
        ("jitcap version", found.version),
        ("OS", found.os),
        ("Python version", found.python_version),
        ("NumPy version", np.__version__),
        ("CPU", found.processor),
        ("Threads", found.threads),
        ("Is CUDA available", found.is_cuda_available),
        *(("GPU", each) for each in found.gpus),
        *(("Package", each) for each in found.packages),
        *(("Variable", each) for each in found.variables),
    ]
    return "\n".join(f"{name}: {value}" for name, value in rows)


def main() -> None:
    """Print it."""
    print("Collecting environment information...")  # noqa: T201
    print(get_pretty_env_info())  # noqa: T201


if __name__ == "__main__":
    main()
