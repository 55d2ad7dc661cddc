"""Capture: memory that constants share with arrays of the program. lifted array -> its values.

`eager.from_numpy(a)`, of an array made inside, and `t.numpy()` give tensor and array one memory. In
the graph it is a constant: the values when the tensor was first used. Writes of the graph do not
reach the array, and those of NumPy not the graph, so that neither may matter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcap.base.breaks import Break


class ConstantMemory:
    """The constants of one capture that are in the host's memory."""

    def __init__(self) -> None:
        self._lifted: list[tuple[np.ndarray, np.ndarray, Any]] = []  # array, its values, storage
        self._left: list[tuple[np.ndarray, bool]] = []  # what leaves it, but not by the graph

    def lift(self, array: Any, storage: Any) -> Any:
        """The values of a constant, whose `storage` in the graph is new."""
        if type(array) is not np.ndarray:
            return array
        self.used(array)
        values = array.copy(order="K")
        self._lifted.append((array, values, storage))
        return values

    def used(self, array: np.ndarray) -> None:
        """Raise Break if a tensor that shares the memory of an array was written to."""
        for known, _, storage in self._lifted:
            if storage.generation and np.may_share_memory(known, array):
                raise Break(
                    "array memory", "an array is used after a tensor of its memory was written to"
                )

    def leaves(self, array: Any, *, tensor: bool = False) -> None:
        """Note an array (or that of a tensor that no operation used) that outlives the capture: it
        is made again, with memory of its own."""
        known = any(array is a and tensor is of_tensor for a, of_tensor in self._left)
        if type(array) is np.ndarray and not known:
            self._left.append((array, tensor))

    def check(self, outputs: list[Any]) -> None:
        """Raise Break if memory was written by one side and the other may have read it since, or
        if both leave the capture. `outputs`: of the graph."""
        found = {id(node) for node in outputs if self._lifted}
        left = [array for array, _ in self._left]
        for array, values, storage in self._lifted:
            if array.tobytes() != values.tobytes():
                raise Break(
                    "array memory", "an array is written to, and a tensor shares its memory"
                )
            if storage.generation:
                apart = [other for other, _, of in self._lifted if of is not storage]
                if _overlaps(array, apart):
                    what = "of two tensors that share an array one is written to"
                    raise Break("array memory", what)
            if storage.generation or id(storage.handle) in found:
                _alone(array, left)
        for i, array in enumerate(left):
            _alone(array, left[:i])


def _alone(array: np.ndarray, left: list[np.ndarray]) -> None:
    if _overlaps(array, left):
        what = "an array and what shares its memory are returned or stored"
        raise Break("array memory", what)


def _overlaps(array: np.ndarray, others: list[np.ndarray]) -> bool:
    return any(np.may_share_memory(array, other) for other in others)
