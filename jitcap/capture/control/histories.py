"""Capture: places on the tape, for `changes` and `branch`. a tensor -> where it was, and is again.

A write in place gives a tensor another history (or the base of a view, and the views theirs from
that). Where one way of a branch makes one, the tensor stays the object that it was, and what it is
on the tape is chosen, as its elements are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from eager.core.grad_fn_names import joined, label_of, put_name
from eager.core.tensor import Tensor, wrap
from jitcap.capture.kinds.contents import Place, place_of


class Unsayable(Exception):
    """Two ways leave what no choice can express."""


def standing_at(t: Tensor, place: Place) -> Tensor:
    """Another name for a tensor, with a place of its own."""
    other: Tensor = wrap(t._array, t._storage)
    place.put(other)
    return other


class Overwritten:
    """The tensors that one of two ways has overwritten on the tape. `places`: of each way, by their
    ids, they and where they are afterwards."""

    def __init__(self, places: Sequence[dict[int, tuple[Tensor, Place]]]) -> None:
        self.places = places
        self.tensors = {key: t for way in places for key, (t, _) in way.items()}
        if any(type(t) is not Tensor or t._hooks or t._retains for t in self.tensors.values()):
            raise Unsayable("a tensor with hooks, or of a class of its own, is written in place")

    def as_left(self, *pair: Tensor) -> list[Tensor]:
        """The tensors that the ways leave, each with the history that it has after its way."""
        return [
            x if id(x) not in self.tensors else standing_at(x, way.get(id(x), (x, place_of(x)))[1])
            for x, way in zip(pair, self.places, strict=True)
        ]

    def pairs(self) -> list[list[Tensor]]:
        return [self.as_left(t, t) for t in self.tensors.values()]

    def results(self) -> list[Tensor]:
        """To be given the history of both."""
        return [wrap(t._array, t._storage) for t in self.tensors.values()]

    def put(self, truth: Any, results: Sequence[Tensor]) -> Iterator[Tensor]:
        """Each is the tensor that it was, at the place of its result. Gives those whose history has
        another name in Python."""
        for t, pair, found in zip(self.tensors.values(), self.pairs(), results, strict=True):
            label = joined(truth, [*map(label_of, pair)])
            put_name(found, label)
            place_of(found).put(t)
            t._storage.history += 1
            if label is None:
                yield t


# ---- how often memory was written


def versions_of(ways: Sequence[dict[int, Any]]) -> list[tuple[Any, int, int, int]]:
    """The counters of writes: (storage, before, after each way). `ways`: those that went on."""
    rows = []
    for key in dict.fromkeys(k for way in ways for k in way):
        storage = next(way[key][0] for way in ways if key in way)
        before = storage.version
        after = [way[key][1] if key in way else before for way in ways]
        rows.append((storage, before, *after))
    return rows
