"""One batch. what a sampler picked -> samples of a dataset, collated. The same in the program's
process and in workers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np

from eager.base.dataclass import dataclass
from eager.construct.interop import tensor
from eager.core.tensor import Tensor
from eager.utils.data.dataset import Subset, TensorDataset


@dataclass(frozen=True)
class Reading:
    """Settings for reading batches. `streams`: the dataset has no indices, and only the length of a
    pick counts. `batched`: a pick is a list, and `collate` gets a list of samples. `whole`: batches
    are indexed reads of whole tensors."""

    dataset: Any
    streams: bool
    batched: bool
    whole: bool
    collate: Callable[[Any], Any]
    drop_last: bool

    def begin(self) -> Callable[[Any], Any]:
        """Function that reads the batch of a pick, a stream from its beginning; it raises
        StopIteration at a stream's end."""
        return _Stream(self) if self.streams else self._fetch

    def _fetch(self, pick: Any) -> Any:
        if not self.batched:
            return self.collate(self.dataset[pick])
        if self.whole:
            return _read_whole(self.dataset, pick)
        if hasattr(self.dataset, "__getitems__"):
            return self.collate(self.dataset.__getitems__(pick))
        return self.collate([self.dataset[i] for i in pick])


class _Stream:
    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.samples = iter(reading.dataset)
        self.ended = False

    def __call__(self, pick: Any) -> Any:
        if not self.reading.batched:
            return self.reading.collate(next(self.samples))
        batch = [] if self.ended else [*islice(self.samples, len(pick))]
        self.ended = len(batch) < len(pick)
        if not batch or (self.ended and self.reading.drop_last):
            raise StopIteration
        return self.reading.collate(batch)


def is_whole(dataset: Any) -> bool:
    """True if a dataset is nothing but whole tensors: a batch needs no stacking of samples."""
    while type(dataset) is Subset:
        dataset = dataset.dataset
    return type(dataset) is TensorDataset


def _read_whole(dataset: Any, pick: list[int]) -> list[Tensor]:
    while isinstance(dataset, Subset):
        pick = [int(dataset.indices[i]) for i in pick]
        dataset = dataset.dataset
    index = tensor(np.array(pick, np.int64))
    return [t[index] for t in dataset.tensors]
