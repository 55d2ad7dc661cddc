"""How much a function works, as a count that does not depend on the machine: for tests of growth.

A callable → the number of calls that it made, of Python functions and of builtins. Unlike seconds the count is
the same on a loaded machine, so a test may compare the counts of a small and a large program.
"""

import gc
import sys


def calls_made(run):
    """Calls made while `run()` runs, itself included; a collection of garbage in between is kept out."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    collecting = gc.isenabled()
    gc.disable()
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()
    return count
