"""At the edge: `eager.__config__`, how the library was built, as programs print it."""

from __future__ import annotations

import numpy as np

from eager.base.process.threads import get_num_threads


def show() -> str:
    """Text of what the library is and stands on."""
    return f"eager, built with:\n  - NumPy {np.__version__}\n"


def parallel_info() -> str:
    """Text of how many threads there are."""
    return f"eager.get_num_threads() : {get_num_threads()}\n"
