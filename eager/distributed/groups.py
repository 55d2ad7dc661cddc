"""Under `eager.distributed`: process groups. the engine -> groups, ranks, timeouts.

The default group holds all ranks. Collectives of a group are taken by its ranks in one order.
"""

from __future__ import annotations

import enum
import itertools
import os
import weakref
import zlib
from collections.abc import MutableMapping, Sequence
from datetime import timedelta
from typing import Any, Final

import numpy as np

from eager.base.compat_warnings import warn_once
from eager.base.dataclass import dataclass
from eager.base.process import launchers
from eager.distributed import mpi, nccl
from eager.distributed.engine import (
    DistBackendError,
    DistError,
    Engine,
    ReduceOp,
    default_pg_timeout,
    wait,
)
from eager.distributed.same_program import require_same_program

DESCRIPTION: Final = 1 << 14  # bytes of an error that a rank tells the others


class Backend:
    """Names of engines. "mpi" moves the memory of CPUs, "nccl" that of GPUs, too; "gloo" means
    "mpi"."""

    MPI = "mpi"
    NCCL = "nccl"
    GLOO = "gloo"
    UNDEFINED = "undefined"


class DebugLevel(enum.IntEnum):
    """Checks before each collective of tensors: with DETAIL, which is the default, that
    all ranks of the group came to the same one with the same sizes. It takes a reduction of two
    numbers; without it MPI may mix what does not belong together."""

    OFF = 0
    INFO = 1
    DETAIL = 2


_numbers: Final = itertools.count()
_by_number: Final[MutableMapping[int, ProcessGroup]] = weakref.WeakValueDictionary()


def by_number(number: int) -> ProcessGroup:
    """The group that a graph names. DistError where it is gone."""
    if number not in _by_number:
        raise DistError(f"process group {number} is used after it was destroyed")
    return _by_number[number]


class ProcessGroup:
    """Ranks that take part in collectives together. `ranks` are their numbers in the world."""

    def __init__(
        self, engine: Engine | None, ranks: tuple[int, ...], timeout: timedelta, name: str
    ) -> None:
        self._engine = engine
        self.ranks, self.timeout, self.name = ranks, timeout, name
        # Runs of compiled steps that were given up behind their collectives: plain Python takes
        # those again. The ranks compare it.
        self.given_up = 0
        self.object_calls = 0  # collectives of objects so far, which all ranks count
        self.number = next(_numbers)  # its name in graphs: groups are made in one order everywhere
        _by_number[self.number] = self

    @property
    def engine(self) -> Engine:
        """Raises RuntimeError where this rank is none of the group's, or the group is gone."""
        if self._engine is None:
            raise DistError(
                f"{self!r} is used by rank {get_rank()}, which is not in it (or the group was "
                "destroyed): only its ranks take part in its collectives"
            )
        return self._engine

    def rank(self) -> int:
        """This process's number in the group, -1 where it is none of it."""
        return -1 if self._engine is None else self._engine.rank

    def size(self) -> int:
        return len(self.ranks)

    @property
    def group_name(self) -> str:
        return self.name

    def local(self, rank: int, what: str = "rank") -> int:
        """A world's rank as one of the group. Raises ValueError for one that is not in it."""
        if rank not in self.ranks:
            raise ValueError(f"{what} {rank} is not in {self!r}")
        return self.ranks.index(rank)

    def __repr__(self) -> str:
        return f"ProcessGroup({self.name}, ranks={list(self.ranks)})"


class GroupMember:
    """`WORLD`: the default group. `NON_GROUP_MEMBER`: what `new_group` gives to the ranks that are
    not in it; collectives of it do nothing."""

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER: Final = object()


class group(GroupMember):
    """PyTorch's older name of it."""


@dataclass
class _State:
    """A process's knowledge of its job."""

    world: ProcessGroup | None = None
    backend: str = Backend.MPI
    named: str = Backend.MPI  # by the program
    groups: int = 0  # made so far: they get their names from it
    debug: DebugLevel = DebugLevel.DETAIL


_state: Final = _State()


def is_available() -> bool:
    """True if an engine is installed."""
    return mpi.is_available()


def is_mpi_available() -> bool:
    """True if mpi4py is installed."""
    return mpi.is_available()


def _no() -> bool:
    return False


def is_nccl_available() -> bool:
    """True if nccl4py and mpi4py are installed."""
    return nccl.is_available() and mpi.is_available()


is_gloo_available = is_mpi_available  # which it means
is_ucc_available = is_xccl_available = _no
is_torchelastic_launched = _no


def is_initialized() -> bool:
    """True between `init_process_group` and `destroy_process_group`."""
    return _state.world is not None


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Join the job that `mpiexec -n N python train.py` started: every process calls it once.

    `backend`: "mpi" (default; "gloo" is taken for it, which is said once), or "nccl", which moves
    tensors of GPUs by NCCL and all else by MPI (not run on hardware yet). mpiexec has given each
    process its rank: `world_size` and `rank`, where they are given, are checked, and `init_method`
    says nothing. Ranks that the program started by itself, or PyTorch's launcher, meet at
    `init_method` ("tcp://host:port"), or at MASTER_ADDR and MASTER_PORT. `timeout` (10 minutes) is
    how long a rank waits in a collective for the others; then it raises DistTimeoutError. An
    exception that ends one rank ends the job that mpiexec started, with its traceback.

    Raises RuntimeError if it was called before, where MPI (or nccl4py) is not installed, or where
    ranks without mpiexec have no place to meet; DistError, on all ranks, where one of them has
    another program, other versions of packages or other settings; ValueError for another backend or
    other numbers."""
    if is_initialized():
        raise RuntimeError("trying to initialize the default process group twice!")
    chosen = _chosen("init_process_group", backend)
    if store is not None or not (init_method or "env://").startswith(("env://", "tcp://")):
        raise ValueError(
            "init_process_group: ranks find each other by their launcher (mpiexec -n 4 python "
            "train.py), or at an address, 'env://' or 'tcp://host:port'; got "
            f"{init_method!r}, {store!r}"
        )
    engine: Any = mpi.world(rank, world_size, init_method, timeout or default_pg_timeout)
    if chosen == Backend.NCCL:
        engine = nccl.over(engine)
    for what, told, found in (("world_size", world_size, engine.size), ("rank", rank, engine.rank)):
        if told not in (-1, None) and told != found:
            raise ValueError(f"init_process_group: {what}={told}, and the launcher says {found}")
    mpi.stop_together(engine)
    require_same_program(engine, timeout or default_pg_timeout)
    _state.world = ProcessGroup(
        engine, tuple(range(engine.size)), timeout or default_pg_timeout, group_name or "world"
    )
    GroupMember.WORLD, _state.backend = _state.world, chosen
    named = str(backend or chosen).lower()
    _state.named = named if named in vars(Backend).values() else chosen


def _chosen(name: str, backend: Any) -> str:
    """The engine that a name means: "nccl" and "cpu:mpi,cuda:nccl" are the same."""
    wanted = str(backend or Backend.MPI).lower()
    if wanted in ("mpi", "cpu:mpi"):
        return Backend.MPI
    if wanted in ("gloo", "cpu:gloo"):
        warn_once(name, f"{name}: {backend!r} is PyTorch's engine: here MPI moves tensors of CPUs")
        return Backend.MPI
    if wanted in ("nccl", "cuda:nccl", "cpu:mpi,cuda:nccl", "cpu:gloo,cuda:nccl"):
        return Backend.NCCL
    raise ValueError(
        f"{name}: backend {backend!r} is not there; 'mpi' is, which serves tensors of CPUs, and "
        "'nccl', for those of GPUs, too"
    )


def destroy_process_group(group: Any = None) -> None:
    """Leave a group, which no collective can use any more; the default one: all."""
    found = resolve(group)
    if found is None or found._engine is None:
        return
    if found is _state.world:
        _state.world = GroupMember.WORLD = None
    found._engine.free()
    found._engine = None


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
) -> Any:
    """A group of some ranks of the world, which they make together: every rank calls this, or those
    of the group alone. The others get `GroupMember.NON_GROUP_MEMBER`.

    Raises ValueError for ranks that are not in the world, or twice in the list."""
    world = require_world()
    if backend is not None and _chosen("new_group", backend) != _state.backend:
        raise ValueError(f"new_group: groups have the world's engine, {_state.backend!r}")
    chosen = world.ranks if ranks is None else tuple(sorted(int(r) for r in ranks))
    if len(set(chosen)) != len(chosen) or not set(chosen) <= set(world.ranks):
        raise ValueError(
            f"new_group: the world has ranks 0 to {world.size() - 1}, each once; got {list(chosen)}"
        )
    _state.groups += 1
    engine = world.engine.split(chosen)
    if engine is None:
        return GroupMember.NON_GROUP_MEMBER
    name = group_desc or f"group {_state.groups}"
    return ProcessGroup(engine, chosen, timeout or world.timeout, name)


def require_world() -> ProcessGroup:
    """The default group. Raises ValueError before `init_process_group`."""
    if _state.world is None:
        raise ValueError(
            "Default process group has not been initialized: call init_process_group() first, in a "
            "program started by mpiexec -n 4 python train.py"
        )
    return _state.world


def resolve(group: Any) -> ProcessGroup | None:
    """The group that an argument means; None where this rank is none of it."""
    if group is None:
        return require_world()
    if group is GroupMember.NON_GROUP_MEMBER:
        return None
    if not isinstance(group, ProcessGroup):
        raise TypeError(f"a process group is needed, got a {type(group).__name__}")
    return group


def get_rank(group: Any = None) -> int:
    """This process's number in the group, from 0; -1 where it is none of it."""
    found = resolve(group)
    return -1 if found is None else found.rank()


def get_world_size(group: Any = None) -> int:
    """Number of ranks in the group; -1 where this process is none of it."""
    found = resolve(group)
    return -1 if found is None or found.rank() < 0 else found.size()


def get_backend(group: Any = None) -> str:
    """The name of the engine, as the program said it."""
    resolve(group)
    return _state.named


def get_backend_config(group: Any = None) -> str:
    """The engine of each kind of device."""
    resolve(group)
    return f"cpu:{Backend.MPI},cuda:{_state.backend}"


def get_default_backend_for_device(device: Any) -> str:
    """The engine that moves a device's memory, of those that are installed."""
    of_gpus = str(device).startswith("cuda") and is_nccl_available()
    return Backend.NCCL if of_gpus else Backend.MPI


def is_backend_available(backend: str) -> bool:
    """True if `init_process_group` takes this name."""
    mpi_like = dict.fromkeys((Backend.MPI, Backend.GLOO), is_mpi_available)
    found = (mpi_like | {Backend.NCCL: is_nccl_available}).get(backend.lower())
    return found is not None and found()


def get_pg_count() -> int:
    """Number of groups that this process has made."""
    return _state.groups + is_initialized()


def supports_complex(reduceOp: ReduceOp) -> bool:
    """True if complex numbers can be reduced so."""
    return reduceOp in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT)


def get_process_group_ranks(group: Any = None) -> list[int]:
    """The world's ranks that the group has, in its order."""
    found = resolve(group)
    return [] if found is None else list(found.ranks)


def get_global_rank(group: Any, group_rank: int) -> int:
    """A rank of the group as one of the world."""
    found = resolve(group)
    if found is None or not 0 <= group_rank < found.size():
        raise ValueError(f"group rank {group_rank} is not in {found!r}")
    return found.ranks[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """A rank of the world as one of the group."""
    found = resolve(group)
    if found is None:
        raise ValueError(f"rank {global_rank} is asked for in a group without this process")
    return found.local(global_rank)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process among those of its machine, as the launcher says."""
    place = launchers.on_node()
    if place is not None:
        return place[0]
    for name in ("SLURM_LOCALID", "LOCAL_RANK"):
        if name in os.environ:
            return int(os.environ[name])
    if fallback_rank is None:
        raise RuntimeError("the launcher does not say this process's rank on its machine")
    return fallback_rank


def set_debug_level(level: Any) -> None:
    """Set a `DebugLevel`, by its name or number. ValueError for another."""
    try:
        _state.debug = DebugLevel[level.upper()] if isinstance(level, str) else DebugLevel(level)
    except (KeyError, ValueError):
        raise ValueError(f"debug level {level!r}: OFF, INFO or DETAIL") from None


def get_debug_level() -> DebugLevel:
    return _state.debug


# ------------------------------------------------------------------------------- collectives
def compares(group: ProcessGroup) -> bool:
    """True if its ranks compare what they come to."""
    return _state.debug is DebugLevel.DETAIL and group.size() > 1


class Caller(enum.Enum):
    """Callers of a collective: plain Python, a compiled step before its first, and one that has
    taken others."""

    PYTHON = "P"
    COMPILED = "C"
    AMID = "A"


def told(name: str, shape: Sequence[Any], dtype: Any, **how: Any) -> str:
    """A collective in the words by which the ranks compare it: eager ones and those of compiled
    code say the same of the same. `shape` and `dtype` (NumPy's) of what a rank sends; `how`: the
    attributes of the op.

    An exchange of parts whose sizes are given has rows of one shape, and each rank its own number
    of them."""
    sizes = list(map(int, shape))
    told_sizes = f"parts of {['*', *sizes[1:]]}" if how.get("sent") else str(sizes)
    if how.pop("averages", False):
        how["reduction"] = "avg"
    own = ("group", "ranks", "sends", "received", "sent")
    rest = "".join(f", {k} {v}" for k, v in sorted(how.items()) if k not in own)
    return f"{name.removeprefix('start_')} of {told_sizes} {dtype}{rest}"


def digest(group: ProcessGroup, what: str) -> int:
    """The number that stands for `what` when ranks compare it."""
    return zlib.crc32(f"{group.given_up} {what}".encode())


def require_agreement(group: ProcessGroup, what: str) -> None:
    """Raises DistBackendError, on all ranks, if they came to different collectives: `what` is not
    the same on all. At `DebugLevel.DETAIL` alone."""
    while not agrees(group, what):
        require_alike(group, what, Caller.PYTHON)


def agrees(group: ProcessGroup, what: str) -> bool:
    """True if all ranks came to the same, or do not compare it."""
    if not compares(group):
        return True
    number = digest(group, what)
    least = np.array([number, -number])  # the least, and minus the greatest
    request = group.engine.all_reduce(least, ReduceOp.MIN)
    wait(request, group.timeout, lambda: f"{what} of {group!r}")
    return not least.sum()


def require_fit(group: ProcessGroup, received: Sequence[int], sent: Sequence[int]) -> None:
    """Raises DistBackendError, on all ranks, where one sends other numbers of rows to a rank than
    that expects, in an exchange of parts whose sizes are given. At `DebugLevel.DETAIL` alone."""
    if not compares(group):
        return
    mine, theirs = np.array(sent, np.int64), np.empty(group.size(), np.int64)
    wait(group.engine.all_to_all(theirs, mine, (), ()), group.timeout, lambda: "sizes of parts")
    each = zip(group.ranks, theirs.tolist(), received, strict=True)
    wrong = [f"rank {r} sends {n} and {m} are expected" for r, n, m in each if n != m]
    found = np.array([-len(wrong)])
    wait(group.engine.all_reduce(found, ReduceOp.MIN), group.timeout, lambda: "sizes of parts")
    if found.item():
        what = f"all_to_all, to which {wrong[0]}" if wrong else "all_to_all"
        require_alike(group, what, Caller.PYTHON)


def require_alike(group: ProcessGroup, what: str, caller: Caller) -> None:
    """Raises DistBackendError: the ranks came to different collectives; all of them call this. Of
    what has several lines the error names the first that differs.

    Returns where that is no error: plain Python compares collectives one by one, and a compiled
    step all that it has. Where they begin alike and nothing was done yet, the ranks of compiled
    steps run plain Python, too, and all compare again."""
    size = group.size()
    mine, said = np.zeros(DESCRIPTION, np.uint8), np.empty((size, DESCRIPTION), np.uint8)
    text = f"{caller.value} {group.given_up} {what}".encode()[:DESCRIPTION]
    mine[: len(text)] = np.frombuffer(text, np.uint8)
    wait(group.engine.all_gather(said, mine), group.timeout, lambda: f"the check of {what}")
    texts = [bytes(row).rstrip(b"\0").decode(errors="replace").split(" ", 2) for row in said]
    callers, counts, patterns = zip(*texts, strict=True)
    given_up = [*map(int, counts)]
    lines = [*itertools.zip_longest(*(t.split("\n") for t in patterns), fillvalue="no more")]
    firsts = {*zip(given_up, map(_op_of, lines[0]), strict=True)}
    if {*callers} == {Caller.PYTHON.value, Caller.COMPILED.value} and len(firsts) == 1:
        return
    first = next((i for i, row in enumerate(lines) if len({*map(_op_of, row)}) > 1), 0)
    at = f" (number {first + 1} of a compiled step)" if len(lines) > 1 else ""
    again = [", after a run that was given up" if n != min(given_up) else "" for n in given_up]
    each = zip(group.ranks, lines[first], again, strict=True)
    told_each = "; ".join(f"rank {r}: {line}{more}" for r, line, more in each)
    raise DistBackendError(f"the ranks of {group!r} came to different collectives{at}: {told_each}")


def _op_of(line: str) -> str:
    """A line without the user's place."""
    return line.partition(" (at ")[0]
