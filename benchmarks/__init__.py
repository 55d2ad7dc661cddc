"""Benchmarks: eight workloads, five competitors, interleaved (python -m benchmarks).

What is measured is what a user gets: the variables that make OpenBLAS take the kernels or the cache
size of another processor are taken out of the environment, before anything loads one. At its end
each run says by which kernels it was computed.
"""

import atexit
import os
import sys

_SAID = "BENCHMARKS_SAY_KERNELS"  # a process that another benchmark starts does not say it again
if sys.argv[0] == "-m":  # so it is while `python -m benchmarks...` looks for what to run
    for _name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        os.environ.pop(_name, None)
    if _SAID not in os.environ:
        os.environ[_SAID] = "no"

        @atexit.register
        def _say() -> None:
            from benchmarks.kernels import kernels

            for row in kernels():
                print(row, file=sys.stderr)
