"""Capture: all handlers of builtins. importing it registers all families -> HANDLERS."""

from jitcap.capture.builtins import (
    chance,
    classes,
    clocks,
    containers,
    control_flow,
    copies,
    objects,
    seeds,
    values,
)
from jitcap.capture.kinds import written
from jitcap.capture.kinds.base import HANDLERS

__all__ = [
    "HANDLERS",
    "chance",
    "classes",
    "clocks",
    "containers",
    "control_flow",
    "copies",
    "objects",
    "seeds",
    "values",
    "written",
]
