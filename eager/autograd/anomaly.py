"""Anomaly detection: the sweep back stops at the first gradient with a NaN. a region of the program
-> RuntimeErrors that name the derivative.

The checks are in `eager/core/tape.py`; a compiled function that is swept under them is split there.
"""

from __future__ import annotations

from typing import Any

from eager.base.compat_warnings import warn
from eager.core.dispatch import tracing
from eager.core.tape import Anomaly, mode
from eager.core.traced import UnknownValue


def is_anomaly_enabled() -> bool:
    return mode.anomaly is not None


def is_anomaly_check_nan_enabled() -> bool:
    return mode.anomaly is not None and mode.anomaly.check_nan


class set_detect_anomaly:
    """Sets whether gradients are checked: at once, and as a context manager until its end.

    Operations recorded meanwhile remember where they were called: a warning tells it when their
    derivative gives a NaN (looked for with `check_nan`)."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        if tracing():
            raise UnknownValue("detect_anomaly looks at every gradient while it is computed")
        self._before = _swap(Anomaly(check_nan) if mode else None)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        _swap(self._before)


class detect_anomaly(set_detect_anomaly):
    """Gradients are checked inside: `with detect_anomaly():`."""

    def __init__(self, check_nan: bool = True) -> None:
        warn("anomaly detection looks at every gradient, which takes time: use it to debug")
        super().__init__(True, check_nan)


def _swap(wanted: Any) -> Any:
    before, mode.anomaly = mode.anomaly, wanted
    return before
