"""Batches for a training loop. dataset and sampler -> collated batches, if wanted loaded ahead by
threads.

`num_workers` are threads, not processes: NumPy releases the interpreter while it copies, and
nothing has to be pickled. Batches come in the sampler's order whatever the number of workers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from eager.device import places
from eager.interop import tensor
from eager.notice import ignore
from eager.ops.move import stack
from eager.random import Generator
from eager.tensor import Tensor
from eager.utils.data.dataset import IterableDataset, Subset, TensorDataset
from eager.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler


def default_collate(batch: Sequence[Any]) -> Any:
    """Samples joined along a new first dimension, structure by structure: tensors, arrays and
    numbers become tensors; strings stay as they are; tuples, lists, dicts and named tuples hold
    collated parts. TypeError for what cannot be joined."""
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(batch)
    if isinstance(first, np.ndarray):
        return tensor(np.stack(batch))
    if isinstance(first, bool | int | float | np.generic):
        return tensor(np.array(batch)) if isinstance(first, np.generic | float) else tensor(batch)
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, Mapping):
        return {key: default_collate([sample[key] for sample in batch]) for key in first}
    if isinstance(first, tuple | list):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        parts = [default_collate(part) for part in zip(*batch, strict=True)]
        if hasattr(first, "_fields"):
            return type(first)(*parts)
        return parts
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
        f"{type(first)}"
    )


def default_convert(data: Any) -> Any:
    """Arrays as tensors, in any structure; everything else as it is."""
    if isinstance(data, np.ndarray | np.generic):
        return tensor(data)
    if isinstance(data, Mapping):
        return {key: default_convert(value) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(x) for x in data))
    if isinstance(data, tuple | list):
        return [default_convert(x) for x in data]
    return data


class DataLoader:
    """Iterates over batches of a dataset; a new pass (newly shuffled) at every `iter`.

    Raises ValueError for options that exclude each other, as PyTorch does."""

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        ignore(
            "DataLoader",
            timeout=timeout or None,
            worker_init_fn=worker_init_fn,
            multiprocessing_context=multiprocessing_context,
            persistent_workers=persistent_workers,
            pin_memory=pin_memory and not places.count(),
            pin_memory_device=pin_memory_device or None,
        )
        self.dataset = dataset
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.drop_last = drop_last
        self.generator = generator
        self.prefetch_factor = 2 if prefetch_factor is None else prefetch_factor
        self._streams = isinstance(dataset, IterableDataset)
        _check_options(self._streams, batch_size, shuffle, sampler, batch_sampler, drop_last)
        if num_workers < 0:
            raise ValueError(
                "num_workers option should be non-negative; use num_workers=0 to disable."
            )
        if batch_sampler is not None:
            batch_size = None
        elif not self._streams:
            sampler = sampler or _sampler(dataset, shuffle, generator)
            if batch_size is not None:
                batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.sampler: Any = sampler
        self.batch_sampler: Any = batch_sampler
        batched = batch_size is not None or batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate if batched else default_convert)
        # The i-th samples of whole tensors need no stacking: the batch is one indexed read.
        self._whole = collate_fn is None and batched and _tensors_of(dataset) is not None

    def __len__(self) -> int:
        if self._streams:
            n = len(self.dataset)
            if self.batch_size is None:
                return n
            return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)

    def __iter__(self) -> Iterator[Any]:
        batches = self._batches()
        return map(_pinned, batches) if self.pin_memory and places.count() else batches

    def _batches(self) -> Iterator[Any]:
        if self._streams:
            return self._stream()
        picks = iter(self.sampler if self.batch_sampler is None else self.batch_sampler)
        if not self.num_workers:
            return map(self._fetch, picks)
        return self._ahead(picks)

    def _fetch(self, pick: Any) -> Any:
        """The batch (or, unbatched, the sample) of one pick of the sampler."""
        if self.batch_sampler is None:
            return self.collate_fn(self.dataset[pick])
        if self._whole:
            return _read_whole(self.dataset, pick)
        if hasattr(self.dataset, "__getitems__"):
            return self.collate_fn(self.dataset.__getitems__(pick))
        return self.collate_fn([self.dataset[i] for i in pick])

    def _stream(self) -> Iterator[Any]:
        if self.batch_size is None:
            yield from map(self.collate_fn, self.dataset)
            return
        batch: list[Any] = []
        for sample in self.dataset:
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield self.collate_fn(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.collate_fn(batch)

    def _ahead(self, picks: Iterator[Any]) -> Iterator[Any]:
        """Batches loaded by threads, a bounded number of them ahead, in order."""
        waiting: deque[Future[Any]] = deque()
        with ThreadPoolExecutor(self.num_workers) as pool:
            for pick in picks:
                waiting.append(pool.submit(self._fetch, pick))
                if len(waiting) > self.num_workers * self.prefetch_factor:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()


def _pinned(batch: Any) -> Any:
    """A batch with its tensors in memory from which a GPU copies meanwhile."""
    if isinstance(batch, Mapping):
        return type(batch)({key: _pinned(each) for key, each in batch.items()})  # type: ignore[call-arg]
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*map(_pinned, batch))
    if isinstance(batch, list | tuple):
        return type(batch)(map(_pinned, batch))
    return batch.pin_memory() if hasattr(batch, "pin_memory") else batch


def _check_options(
    streams: bool, batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    if streams and (shuffle or sampler is not None or batch_sampler is not None):
        raise ValueError(
            "DataLoader with IterableDataset: expected unspecified shuffle, sampler and "
            "batch_sampler options"
        )
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None and (
        batch_size != 1 or shuffle or sampler is not None or drop_last
    ):
        raise ValueError(
            "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
            "drop_last"
        )
    if batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
        )


def _sampler(dataset: Any, shuffle: bool | None, generator: Generator | None) -> Sampler[int]:
    if shuffle:
        return RandomSampler(dataset, generator=generator)
    return SequentialSampler(dataset)


def _tensors_of(dataset: Any) -> Any:
    """The tensors behind a dataset that is nothing but whole tensors, or None."""
    if isinstance(dataset, Subset):
        return _tensors_of(dataset.dataset)
    return dataset.tensors if type(dataset) is TensorDataset else None


def _read_whole(dataset: Any, pick: list[int]) -> list[Tensor]:
    while isinstance(dataset, Subset):
        pick = [int(dataset.indices[i]) for i in pick]
        dataset = dataset.dataset
    index = tensor(np.array(pick, np.int64))
    return [t[index] for t in dataset.tensors]
