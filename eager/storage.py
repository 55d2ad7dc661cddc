"""Under every tensor: what its views share. memory -> version counter.

The bytes themselves belong to the NumPy array; a `Storage` is the identity that a tensor and all
its views have in common.
"""

from __future__ import annotations


class Storage:
    """Counts the writes (`version`) and the recorded writes (`history`) to one piece of memory.

    `version` lets the tape notice that a value it saved was overwritten; `history` tells a view
    that its base was given a new derivative. Class attributes are the initial counts: creating a
    storage costs nothing but the object.
    """

    version = 0
    history = 0
