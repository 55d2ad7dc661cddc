"""The loader: its options. dataset and sampler -> batches for a training loop, if wanted loaded
ahead by worker processes."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any, Final

from eager.base.compat_warnings import ignore, warn
from eager.device import places
from eager.random import Generator
from eager.utils.data.collate import default_collate, default_convert
from eager.utils.data.dataset import IterableDataset
from eager.utils.data.iterators import THREAD, BatchIterator, ByProcesses, InProcess, iterator_of
from eager.utils.data.pool import Pool
from eager.utils.data.reading import Reading, is_whole
from eager.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

_FIXED: Final = frozenset({
    "batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers",
})  # fmt: skip


class _DatasetKind:
    """Numbers for the ways of reading: by index, and as a stream."""

    Map, Iterable = 0, 1


class DataLoader:
    """Iterates over batches of a dataset; a new pass (newly shuffled) at every `iter`.

    `num_workers` processes load `prefetch_factor` batches each ahead. They are forked or spawned,
    as `multiprocessing_context` says, by default as `multiprocessing` does; "thread" means threads
    of this process instead, which share its dataset and its generators: their draws depend on who
    comes first, and a stream is read by the caller. With `persistent_workers` the processes stay
    for the next pass. An exception of a worker is raised here, with its traceback as a note;
    RuntimeError names a worker that died, or says that `timeout` seconds have passed. Batches are
    copies in memory of their own. `pin_memory` needs a device.

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
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, prefetch_factor, timeout, persistent_workers)
        streams = isinstance(dataset, IterableDataset)
        _check_batches(streams, batch_size, shuffle, sampler, batch_sampler, drop_last)
        no_device = pin_memory and not places.count()
        ignore("DataLoader", pin_memory=no_device, pin_memory_device=pin_memory_device or None)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = _context(multiprocessing_context, num_workers)
        self.in_order = in_order
        self.drop_last = drop_last
        self.generator = generator
        self.persistent_workers = persistent_workers
        if sampler is None:
            sampler = _sampler(dataset, streams, bool(shuffle), generator)
        if batch_sampler is not None:
            batch_size = None
        elif batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.sampler: Any = sampler
        self.batch_sampler: Any = batch_sampler
        batched = batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate if batched else default_convert)
        whole = collate_fn is None and batched and is_whole(dataset)
        self._reading = Reading(dataset, streams, batched, whole, self.collate_fn, drop_last)
        self._told_length: int | None = None  # what `len` has said of a stream
        self._pool: Pool | None = None  # the workers that stay
        self._iterator: Any = None  # of PyTorch's names: there is one for each pass here
        self._made = True
        if num_workers:
            _warn_of_many(num_workers)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and getattr(self, "_made", False):
            kind = type(self).__name__
            raise ValueError(f"{name} attribute should not be set after {kind} is initialized")
        super().__setattr__(name, value)

    @property
    def index_sampler(self) -> Any:
        """Whose items are read: lists of indices, or single ones without batches."""
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    # PyTorch's names, which what wraps a loader reads.
    _index_sampler = index_sampler

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _dataset_kind(self) -> int:
        return _DatasetKind.Iterable if self._reading.streams else _DatasetKind.Map

    def _get_iterator(self) -> BatchIterator:
        return iterator_of(self)

    def __iter__(self) -> BatchIterator:
        return iterator_of(self)

    def __len__(self) -> int:
        if not self._reading.streams:
            return len(self.index_sampler)
        n = self._told_length = len(self.dataset)
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


class _Endless(Sampler[None]):
    """Sampler of None without end, which asks for a stream's samples."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


_InfiniteConstantSampler = _Endless
_BaseDataLoaderIter = BatchIterator
_SingleProcessDataLoaderIter, _MultiProcessingDataLoaderIter = InProcess, ByProcesses


def _sampler(dataset: Any, streams: bool, shuffle: bool, generator: Generator | None) -> Any:
    if streams:
        return _Endless()
    return RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)


def _check_workers(workers: int, prefetch: int | None, timeout: float, persistent: bool) -> None:
    if workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if not workers and (prefetch is not None or persistent or timeout):
        raise ValueError(
            "prefetch_factor, persistent_workers and timeout options need num_workers > 0"
        )
    if prefetch is not None and prefetch < 1:
        raise ValueError("prefetch_factor option should be positive")


def _check_batches(
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


def _context(asked: Any, workers: int) -> Any:
    """Source of workers: a context of `multiprocessing`, THREAD, or None for its default."""
    if asked is None:
        return None
    if not workers:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > "
            f"0), but got num_workers={workers}"
        )
    import multiprocessing  # slow to import

    methods = [*multiprocessing.get_all_start_methods(), THREAD]
    if isinstance(asked, str) and asked not in methods:
        raise ValueError(
            f"multiprocessing_context option should specify a valid start method in {methods}, but "
            f"got multiprocessing_context={asked!r}"
        )
    if isinstance(asked, str):
        return asked if asked == THREAD else multiprocessing.get_context(asked)
    if not isinstance(asked, multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string "
            f"specifying the start method, but got multiprocessing_context={asked}"
        )
    return asked


def _warn_of_many(workers: int) -> None:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if workers > (usable or workers):
        warn(
            f"this DataLoader has {workers} workers, and this process may use {usable} processors: "
            "more workers than that seldom load faster",
            UserWarning,
        )
