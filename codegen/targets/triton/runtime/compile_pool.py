"""Triton runtime: many kernels compiled at once, in processes. kernels, target -> machine code in
the compile cache.

Triton compiles one kernel at a time in a process. So the kernels of a program that the cache lacks
are shared among as many processes as there are cores, each of which keeps what it compiled; the
first is this one. Whoever launches finds them there. A process that fails changes nothing: what it
left is compiled when asked for, and says then what is wrong.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from codegen.runtime import cache, progress
from codegen.targets.triton.runtime.build import Platform
from codegen.targets.triton.runtime.kernel import TritonKernel
from codegen.targets.triton.runtime.program import Tables

LEAST: Final = 8  # kernels for each process: importing triton costs as much as compiling some


Work = tuple[TritonKernel, Sequence[bool] | None]  # and what `compiled` is told of its arguments


def compile_all(kernels: Sequence[Work], target: Platform) -> int:
    """Compile the kernels for `target`; how many processes did."""
    store = cache.default()
    missing = {kernel.key(target, aligned): (kernel, aligned) for kernel, aligned in kernels}
    missing = {key: work for key, work in missing.items() if store.get(key) is None}
    count = min(len(os.sched_getaffinity(0)), len(missing) // LEAST)
    todo = [*missing.values()]
    others = [_begin(todo[i::count], target) for i in range(1, count)]
    beside = max(count, 1)
    for i, (kernel, aligned) in enumerate(todo[::beside]):
        progress.at("Triton", i * beside, len(todo))
        kernel.compiled(target, aligned)
    for each in others:
        if each is not None:
            each.wait()
    return 1 + len(others)


def _begin(kernels: Sequence[Work], target: Platform) -> subprocess.Popen[bytes] | None:
    """A process that compiles these."""
    sources = [*dict.fromkeys(k.source for k, _ in kernels)]
    number = {text: i for i, text in enumerate(sources)}
    rows = [
        [number[k.source], k.symbol, k.parameters, k.warps, k.group is not None, k.strides, aligned]
        for k, aligned in kernels
    ]
    work = json.dumps({"target": target, "sources": sources, "kernels": rows})
    variables = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "JITCAP_CACHE_DIR": str(cache.default().roots[-1]),
    }
    quiet = subprocess.DEVNULL
    try:
        made = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=quiet, stderr=quiet,
            env=variables,
        )  # fmt: skip
        assert made.stdin is not None
        with made.stdin as pipe:
            pipe.write(work.encode())
    except OSError:
        return None  # no interpreter to run, or it is gone
    return made


def main() -> None:
    """Compile in such a process: the kernels come on the standard input."""
    work = json.load(sys.stdin)
    kind, arch, threads = work["target"]
    for source, symbol, parameters, warps, grouped, strides, aligned in work["kernels"]:
        pairs = tuple((name, letters) for name, letters in parameters)
        group = Tables((), (), 1) if grouped else None
        text = work["sources"][source]
        kernel = TritonKernel(symbol, symbol, text, pairs, warps, group, tuple(strides))
        kernel.compiled((kind, arch, threads), aligned)


if __name__ == "__main__":
    main()
