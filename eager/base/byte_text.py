"""Numbers of bytes for people. 1572864 -> "1.50 MiB"."""

from __future__ import annotations


def byte_text(nbytes: float) -> str:
    """A number of bytes in the largest unit of which there is one."""
    if nbytes < 1024:
        return f"{nbytes:.0f} B"
    for unit in ("KiB", "MiB"):
        nbytes /= 1024
        if nbytes < 1024:
            return f"{nbytes:.2f} {unit}"
    return f"{nbytes / 1024:.2f} GiB"
