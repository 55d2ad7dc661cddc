"""Sources of samples. index -> sample, or a stream of samples."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from eager.base.compat_warnings import warn
from eager.core.tensor import Tensor
from eager.random import Generator, randperm

T = TypeVar("T")


class Dataset(Generic[T]):
    """Base: `__getitem__(index)`, and `__len__` where the size is known."""

    def __getitem__(self, index: Any) -> T:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[T]) -> ConcatDataset[T]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T]):
    """Base of streams: `__iter__`. Each worker of a loader reads the whole of its copy, unless
    `__iter__` asks `get_worker_info` for its part."""

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Sample i is the tuple of the i-th slices of all tensors."""

    def __init__(self, *tensors: Tensor) -> None:
        if any(t.shape[0] != tensors[0].shape[0] for t in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


class StackDataset(Dataset[Any]):
    """Sample i is the tuple (or dict, by keywords) of the i-th samples of all datasets."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.datasets: Any = kwargs or args
        parts = list(kwargs.values()) or list(args)
        if not parts:
            raise ValueError("At least one dataset should be passed")
        if any(len(p) != len(parts[0]) for p in parts):
            raise ValueError("Size mismatch between datasets")
        self._length = len(parts[0])

    def __getitem__(self, index: int) -> Any:
        if isinstance(self.datasets, dict):
            return {k: d[index] for k, d in self.datasets.items()}
        return tuple(d[index] for d in self.datasets)

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T]):
    """The samples of several datasets, one dataset after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        self.cumulative_sizes = list(itertools.accumulate(len(d) for d in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T:
        if index < -len(self):
            raise ValueError("absolute value of index should not exceed dataset length")
        if index >= len(self):
            raise IndexError(f"index {index} of {len(self)} samples")
        index %= len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - before]


class ChainDataset(IterableDataset[T]):
    """The samples of several streams, one stream after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)

    def __iter__(self) -> Iterator[T]:
        return itertools.chain.from_iterable(self.datasets)


class Subset(Dataset[T]):
    """The samples of a dataset at the given indices."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> T:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[float], generator: Generator | None = None
) -> list[Subset[Any]]:
    """Split at random into parts of the given sizes, or fractions that sum to 1. ValueError when
    they do not fit."""
    n = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        for i, fraction in enumerate(lengths):
            if not 0 <= fraction <= 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1")
        sizes = [math.floor(n * f) for f in lengths]
        for i in range(n - sum(sizes)):
            sizes[i % len(sizes)] += 1
        if 0 in sizes:
            warn(f"the split at index {sizes.index(0)} is empty", UserWarning)
    else:
        sizes = [int(size) for size in lengths]
    if sum(sizes) != n:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = randperm(n, generator=generator).tolist()
    ends = itertools.accumulate(sizes)
    return [Subset(dataset, order[end - size : end]) for end, size in zip(ends, sizes, strict=True)]
