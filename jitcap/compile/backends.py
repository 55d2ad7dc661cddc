"""Beside the pipeline: which backend compiles a graph. what was asked for, devices -> its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import codegen
from eager.base.config import config
from eager.device.meta import META

HOST: Final = "cpp"  # what the host's part of a graph is compiled by


def known_backend(name: str | None) -> str:
    """`name` itself ("" for none). Raises ValueError if there is no such backend."""
    known = (*codegen.BACKENDS, "eager")
    if name and name not in known:
        raise ValueError(f"unknown backend {name!r}; there are {', '.join(known)}")
    return name or ""


def choose_backend(devices: Sequence[str], asked: str | None) -> str:
    """The backend asked for (in the call, else in the settings), else by the devices. Raises
    ValueError for one that has none there."""
    backend = known_backend(asked or config.backend)
    if META in devices:
        return "eager"  # without values there is nothing to compile
    if not devices or backend in ("", "triton", "eager"):
        return backend or ("triton" if devices else "cpp")
    there = " and ".join(devices)
    raise ValueError(f"backend={backend!r} compiles for the CPU, and tensors live on {there}")


def takes_symbols(asked: str | None) -> bool:
    """True if the backend's code is right for more than one size."""
    name = known_backend(asked or config.backend) or "cpp"
    return name == "eager" or codegen.BACKENDS[name].symbolic
