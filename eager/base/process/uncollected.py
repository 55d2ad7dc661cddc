"""Imports of these packages without Python's collector: what their modules make stays, and looking
for garbage among it takes an eighth of the time.
"""

from __future__ import annotations

import gc


class Uncollected:
    """Python's collector is off while this lives, and then takes what was made for old. A module
    that fails to import lets go of it, too."""

    def __init__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __del__(self) -> None:
        if self._was_on:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()  # into the oldest generation, none of it looked at
            gc.enable()
