"""In which order samples are taken. dataset sizes and weights -> indices, or lists of indices."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Final, Generic, TypeVar

from eager.base import dtype as dt
from eager.construct.interop import tensor
from eager.core.tensor import Tensor
from eager.distributed import groups
from eager.random import Generator, integers, multinomial, randint, randperm

T = TypeVar("T")


class Sampler(Generic[T]):
    """Base: `__iter__` gives indices; `__len__` says how many."""

    def __init__(self, data_source: Any = None) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ..."""

    def __init__(self, data_source: Sized) -> None:
        super().__init__(data_source)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


def draw_seed(generator: Generator | None = None) -> Tensor:
    """63 random bits."""
    return integers(0, 1 << 63, (), dt.int64, generator)


BLOCK: Final = 32  # indices that are drawn at a time


class RandomSampler(Sampler[int]):
    """All indices in random order, or `num_samples` independent ones with `replacement`, which are
    drawn as they are asked for. Without a generator the default one gives the seed of its own.

    Raises TypeError and ValueError for what is no bool, and no positive number."""

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(data_source)
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got {replacement=}")
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(
                "num_samples should be a positive integer value, but got "
                f"num_samples={self.num_samples}"
            )

    @property
    def num_samples(self) -> int:
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n = len(self.data_source)
        generator = self.generator or Generator().manual_seed(draw_seed().item())
        for left in range(self.num_samples, 0, -BLOCK if self.replacement else -n):
            if self.replacement:
                drawn = randint(n, (min(left, BLOCK),), generator=generator)
            else:
                drawn = randperm(n, generator=generator)[:left]
            yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        super().__init__()
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with the given weights."""

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        if type(num_samples) is not int or num_samples <= 0:
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={num_samples}"
            )
        if not isinstance(replacement, bool):
            raise ValueError(  # noqa: TRY004 - PyTorch's
                f"replacement should be a boolean value, but got {replacement=}"
            )
        self.weights = tensor(weights, dtype=dt.float64)
        if self.weights.ndim != 1:
            shape = tuple(self.weights.shape)
            raise ValueError(f"weights should be a 1d sequence but given weights have {shape=}")
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices; the last, shorter one is left out with `drop_last`."""

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        super().__init__()
        if type(batch_size) is bool or not isinstance(batch_size, int) or batch_size <= 0:
            raise ValueError(
                f"batch_size should be a positive integer value, but got batch_size={batch_size}"
            )
        if not isinstance(drop_last, bool):
            raise ValueError(  # noqa: TRY004 - PyTorch's
                f"drop_last should be a boolean value, but got {drop_last=}"
            )
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


class DistributedSampler(Sampler[int]):
    """The part of process `rank` of `num_replicas`: every `num_replicas`-th index. With `shuffle`
    in an order drawn from `seed` and the epoch (`set_epoch`); parts are of equal length, by
    repeating the first indices, or by leaving out the last with `drop_last`.

    Without `num_replicas` and `rank`, those of `eager.distributed`: RuntimeError before
    `init_process_group`. ValueError for a rank outside [0, num_replicas)."""

    start = 0  # samples of this epoch that are left out

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        super().__init__()
        if num_replicas is None or rank is None:
            if not groups.is_initialized():
                raise RuntimeError(
                    "DistributedSampler: processes do not know of each other yet; call "
                    "distributed.init_process_group() first, or give num_replicas and rank"
                )
            num_replicas = groups.get_world_size() if num_replicas is None else num_replicas
            rank = groups.get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0
        self._count(len(dataset))

    def __iter__(self) -> Iterator[int]:
        n = len(self.dataset)
        indices = [*range(n)]
        if self.shuffle:
            generator = Generator()
            generator.manual_seed(self.seed + self.epoch)
            indices = randperm(n, generator=generator).tolist()
        stop = self.start + self.total_size
        every = itertools.islice(itertools.cycle(indices), self.start, stop)
        return itertools.islice(every, self.rank, None, self.num_replicas)

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int, start: int = 0) -> None:
        """Shuffle in another order, of which the first `start` samples are left out: those that all
        processes together had before a training was interrupted, whatever their number was.
        ValueError for more than there are."""
        n = len(self.dataset)
        if not 0 <= start <= n:
            raise ValueError(f"set_epoch: start={start}, and the dataset has {n} samples")
        if start != self.start:
            self._count(n - start)
        self.epoch, self.start = epoch, start

    def _count(self, left: int) -> None:
        """Know how many samples each process gets of those that are left."""
        ranks = self.num_replicas
        self.num_samples = left // ranks if self.drop_last else -(-left // ranks)
        self.total_size = self.num_samples * ranks
