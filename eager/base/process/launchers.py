"""At the bottom: what launchers of MPI tell the processes that they start. variables -> a number,
and of how many."""

from __future__ import annotations

import os
from typing import Final

_WORLD: Final = (
    ("PMI_RANK", "PMI_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
)  # fmt: skip
_NODE: Final = (
    ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
)


def on_node() -> tuple[int, int] | None:
    """The number of this process among those of its machine, and how many they are; None for one
    that no launcher of MPI started."""
    return _told(_NODE)


def _told(pairs: tuple[tuple[str, str], ...]) -> tuple[int, int] | None:
    for number, size in pairs:
        if number in os.environ and size in os.environ:
            return int(os.environ[number]), int(os.environ[size])
    return None


def set_variables() -> None:
    """Set those that PyTorch's launcher sets, where one of MPI started this process and they are
    not set: programs read them."""
    for told, names in (
        (_told(_WORLD), ("RANK", "WORLD_SIZE")), (on_node(), ("LOCAL_RANK", "LOCAL_WORLD_SIZE")),
    ):  # fmt: skip
        for name, value in zip(names, told or (), strict=False):
            os.environ.setdefault(name, str(value))
