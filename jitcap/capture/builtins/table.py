"""Capture: all handlers of builtins. importing it registers all families -> HANDLERS."""

from jitcap.capture.builtins import (
    classes,
    clocks,
    containers,
    control_flow,
    copies,
    host_rng,
    objects,
    refused,
    rng_seeds,
    values,
)
from jitcap.capture.kinds import written
from jitcap.capture.kinds.base import HANDLERS

__all__ = [
    "HANDLERS",
    "classes",
    "clocks",
    "containers",
    "control_flow",
    "copies",
    "host_rng",
    "objects",
    "refused",
    "rng_seeds",
    "values",
    "written",
]
