"""At the edge: files in memory that no folder has, for what processes share. -> a descriptor."""

from __future__ import annotations

import os


def nameless_file() -> int:
    """An open file, which ends with the last process that has it."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("shared")
    import tempfile  # slow to import

    with tempfile.TemporaryFile(buffering=0) as file:
        return os.dup(file.fileno())
