"""Datasets, samplers, the loader: what comes out, in which order."""

import tracemalloc
from collections import Counter, OrderedDict, UserDict, UserList, defaultdict, namedtuple

import numpy as np
import pytest

eager = pytest.importorskip("eager")
from eager.utils import data  # noqa: E402
from eager.utils.data import collate  # noqa: E402


def dataset(n=10):
    return data.TensorDataset(eager.arange(n), eager.arange(n) * 2.0)


class Squares(data.Dataset):
    def __len__(self):
        return 7

    def __getitem__(self, i):
        return {"x": i, "y": np.full(2, i * i, np.float32), "name": f"n{i}"}


class Stream(data.IterableDataset):
    def __iter__(self):
        return iter(range(5))


def test_batches_in_order():
    batches = list(data.DataLoader(dataset(), batch_size=4))
    assert [x.tolist() for x, _ in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert batches[0][1].tolist() == [0.0, 2.0, 4.0, 6.0]
    assert len(data.DataLoader(dataset(), batch_size=4)) == 3
    assert len(data.DataLoader(dataset(), batch_size=4, drop_last=True)) == 2


def test_shuffle_is_a_permutation_and_repeats_with_the_seed():
    loader = data.DataLoader(dataset(50), batch_size=7, shuffle=True)
    eager.manual_seed(3)
    first = [i for x, _ in loader for i in x.tolist()]
    second = [i for x, _ in loader for i in x.tolist()]
    assert sorted(first) == list(range(50))
    assert first != second
    eager.manual_seed(3)
    assert first == [i for x, _ in loader for i in x.tolist()]


@pytest.mark.parametrize("workers", [0, 2])
def test_dicts_numbers_arrays_strings(workers):
    batches = list(data.DataLoader(Squares(), batch_size=3, num_workers=workers))
    assert batches[0]["x"].tolist() == [0, 1, 2]
    assert batches[0]["x"].dtype is eager.int64
    assert batches[1]["y"].tolist() == [[9.0, 9.0], [16.0, 16.0], [25.0, 25.0]]
    assert batches[2]["name"] == ["n6"]


def test_streams():
    assert [b.tolist() for b in data.DataLoader(Stream(), batch_size=2)] == [[0, 1], [2, 3], [4]]
    assert list(data.DataLoader(Stream(), batch_size=None)) == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError):
        data.DataLoader(Stream(), shuffle=True)


def test_collate_keeps_named_tuples_and_floats():
    Point = namedtuple("Point", "x y")
    out = data.default_collate([Point(1.5, True), Point(2.5, False)])
    assert type(out) is Point
    assert out.x.dtype is eager.float64
    assert out.y.dtype is eager.bool
    with pytest.raises(TypeError):
        data.default_collate([object()])


class Pair:
    pass


@pytest.mark.parametrize(
    "made",
    [
        lambda lib: [OrderedDict(b=1, a=[1.0]), OrderedDict(b=2, a=[2.0])],
        lambda lib: [defaultdict(list, a=lib.ones(2)), defaultdict(list, a=lib.zeros(2))],
        lambda lib: [UserDict(a=1), UserDict(a=2)],
        lambda lib: [np.ones(2), np.zeros(2)],
        lambda lib: [np.float32(1), np.float32(2)],
        lambda lib: [(True, "a", b"b", 2.0), (False, "c", b"d", 3.0)],
        lambda lib: [{"a": Pair(), "b": [lib.ones(1)]}, {"a": Pair(), "b": [lib.zeros(1)]}],
    ],
)
def test_collate_keeps_mappings_and_takes_types_of_the_programs(made):
    torch = pytest.importorskip("torch")
    from torch.utils.data._utils.collate import default_collate_fn_map as of_torch

    for joins in (collate.default_collate_fn_map, of_torch):
        joins[Pair] = lambda batch, *, collate_fn_map: len(batch) * [collate_fn_map is not None]
    try:
        ours = data.default_collate(made(eager))
        want = torch.utils.data.default_collate(made(torch))
    finally:
        del collate.default_collate_fn_map[Pair], of_torch[Pair]
    assert type(ours).__name__ == type(want).__name__
    assert repr(ours).replace("eager.", "torch.") == repr(want)
    converted = data.default_convert(made(eager)[0])
    assert (
        type(converted).__name__ == type(torch.utils.data.default_convert(made(torch)[0])).__name__
    )
    with pytest.raises(TypeError):
        data.default_collate([Pair()])


class Odd(dict):
    def __init__(self, a, b):
        super().__init__(x=a, y=b)


SAMPLES = (
    OrderedDict(a=1, b=2.0), UserDict(a=np.arange(2)), Odd(1, 2), defaultdict(list, a=1),
    Counter(a=2), UserList([1]), [1, (2, 3)], range(2), np.str_("a"), np.array("a"), np.float32(1),
    np.float64(2), np.int8(3), np.bool_(True), True, b"x", None, 1j,
)  # fmt: skip


def collated(lib):
    """What becomes of each sample, twice in a batch and alone, as text."""
    of_torch = lib.utils.data
    for sample in SAMPLES:
        for joined in (lambda s: of_torch.default_collate([s, s]), of_torch.default_convert):
            try:
                value = joined(sample)
            except TypeError:
                value = TypeError
            yield f"{type(value).__name__.lower()} {value}".replace("torch.", "eager.")


def test_containers_keep_their_class():
    torch = pytest.importorskip("torch")
    assert [*collated(eager)] == [*collated(torch)]


def test_a_loader_is_made_again_from_its_attributes():
    """As trainers do, to give it another sampler."""
    loader = data.DataLoader(dataset(4), batch_size=2)
    kept = {k: v for k, v in vars(loader).items() if not k.startswith("_")}
    for name in ("batch_size", "sampler", "drop_last", "batch_sampler"):
        del kept[name]
    sampler = data.BatchSampler([3, 1], 1, drop_last=False)
    again = type(loader)(**kept, batch_sampler=sampler)
    assert [x.tolist() for x, _ in again] == [[3], [1]]
    assert again._dataset_kind == data.dataloader._DatasetKind.Map and again._auto_collation
    assert isinstance(iter(again), data.dataloader._SingleProcessDataLoaderIter)


def test_split_and_subsets():
    parts = data.random_split(dataset(10), [0.5, 0.25, 0.25])
    assert [len(p) for p in parts] == [6, 2, 2]  # the remainder goes to the first parts
    together = sorted(int(x) for p in parts for x, _ in p)
    assert together == list(range(10))
    batch = next(iter(data.DataLoader(parts[0], batch_size=6)))
    assert batch[0].tolist() == list(parts[0].indices)
    with pytest.raises(ValueError):
        data.random_split(dataset(10), [3, 3])


def test_samplers():
    weights = data.WeightedRandomSampler([0.0, 0.0, 1.0], 5)
    assert list(weights) == [2] * 5
    assert sorted(data.SubsetRandomSampler([3, 5, 9])) == [3, 5, 9]
    many = list(data.RandomSampler(range(3), replacement=True, num_samples=20))
    assert len(many) == 20
    assert set(many) <= {0, 1, 2}
    batches = data.BatchSampler(data.SequentialSampler(range(5)), 2, drop_last=True)
    assert list(batches) == [[0, 1], [2, 3]]
    loader = data.DataLoader(dataset(5), batch_sampler=batches)
    assert [x.tolist() for x, _ in loader] == [[0, 1], [2, 3]]


def test_samplers_draw_what_is_asked_for():
    tracemalloc.start()
    many = data.RandomSampler(range(3), replacement=True, num_samples=int(1e10))
    assert len(many) == int(1e10)
    batches = iter(data.DataLoader(range(3), batch_size=50, sampler=many))
    assert {i for _ in range(3) for i in next(batches).tolist()} == {0, 1, 2}
    weighted = [*data.WeightedRandomSampler([1.0] * 2000 + [0.0], 3000)]
    assert len(weighted) == 3000 and max(weighted) < 2000
    assert tracemalloc.get_traced_memory()[1] < 3e6
    tracemalloc.stop()


def test_what_samplers_draw_is_that_of_their_generator():
    """One draw of the default generator is a pass's seed: what the program draws beside a pass does
    not change it. One that is given is drawn from."""

    def order(beside=0, **options):
        eager.manual_seed(1)
        taken = []
        for i in data.RandomSampler(range(40), **options):
            taken.append(i)
            eager.rand(beside)
        return taken

    for options in ({}, {"num_samples": 90}, {"replacement": True, "num_samples": 90}):
        assert order(**options) == order(3, **options)
        assert len(order(**options)) == options.get("num_samples", 40)
    assert sorted(order(num_samples=90)[40:80]) == [*range(40)]
    own = eager.Generator().manual_seed(7)
    drawn = [[*data.RandomSampler(range(40), generator=own)] for _ in range(2)]
    assert drawn[0] != drawn[1]
    own.manual_seed(7)
    assert drawn[0] == eager.randperm(40, generator=own).tolist()
    own.manual_seed(7)
    assert [*data.SubsetRandomSampler(range(40), generator=own)] == drawn[0]
    own.manual_seed(7)
    parts = data.random_split(range(40), [30, 10], generator=own)
    assert [*parts[0].indices, *parts[1].indices] == drawn[0]


def test_samplers_and_splits_refuse_what_pytorch_refuses():
    for make, error in [
        (lambda: data.RandomSampler(range(3), replacement=1), TypeError),
        (lambda: data.RandomSampler(range(3), num_samples=0), ValueError),
        (lambda: data.RandomSampler(range(3), num_samples=2.0), ValueError),
        (lambda: data.RandomSampler([]), ValueError),
        (lambda: data.WeightedRandomSampler([1.0], True), ValueError),
        (lambda: data.WeightedRandomSampler([1.0], 1, 1), ValueError),
        (lambda: data.WeightedRandomSampler([[1.0]], 1), ValueError),
        (lambda: data.BatchSampler(range(3), True, False), ValueError),
        (lambda: data.BatchSampler(range(3), 2, 0), ValueError),
        (lambda: data.random_split(range(3), [1.5, -0.5]), ValueError),
    ]:
        with pytest.raises(error):
            make()
    with pytest.warns(UserWarning, match="split at index 1 is empty"):
        assert [len(part) for part in data.random_split(range(3), [0.9, 0.1])] == [3, 0]
    few = [[*data.DistributedSampler(range(2), 5, rank, shuffle=False)] for rank in range(5)]
    assert few == [[0], [1], [0], [1], [0]]


@pytest.mark.parametrize("drop_last", [False, True])
def test_an_epoch_goes_on_with_another_number_of_processes(drop_last):
    """Four had 8 of 23 samples; three have the rest, each once, and the next epoch whole."""

    def parts(ranks, epoch, start):
        found = []
        for rank in range(ranks):
            sampler = data.DistributedSampler(range(23), ranks, rank, seed=5, drop_last=drop_last)
            sampler.set_epoch(1, start=4)
            sampler.set_epoch(epoch, start)
            found.append([*sampler])
            assert len(found[-1]) == len(sampler)
        return found

    whole = parts(1, 2, 0)[0]
    had = [i for part in parts(4, 2, 0) for i in part[:2]]
    rest = parts(3, 2, 8)
    assert {*had} == {*whole[:8]} and [*zip(*rest, strict=True)][0] == tuple(whole[8:11])
    assert sorted(had + [i for part in rest for i in part]) == [*range(23)]
    assert parts(1, 3, 0)[0] != whole and sorted(parts(1, 3, 0)[0]) == [*range(23)]
    with pytest.raises(ValueError, match="start=24, and the dataset has 23 samples"):
        parts(1, 0, 24)


def test_concatenation_and_stacks():
    both = dataset(3) + dataset(2)
    assert [int(both[i][0]) for i in range(5)] == [0, 1, 2, 0, 1]
    assert int(both[-1][0]) == 1
    pair = data.StackDataset(a=range(3), b="xyz")
    assert pair[1] == {"a": 1, "b": "y"}


def test_errors_in_workers_reach_the_caller():
    class Bad(Squares):
        def __getitem__(self, i):
            raise KeyError(i)

    with pytest.raises(KeyError):
        list(data.DataLoader(Bad(), num_workers=2))
