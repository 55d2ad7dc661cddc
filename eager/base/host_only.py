"""Base: marks code that only runs, and is never captured. a name -> nothing.

Under `@jit` the program splits where it is called, with the name in the record.
"""

from __future__ import annotations


def host_only(what: str) -> None:
    """First statement of a function that talks to the world: other processes, here."""
