"""Under `eager.distributed`: the engine on MPI, by mpi4py. NumPy arrays -> MPI requests.

Memory that is only moved goes as bytes. Reductions go in the array's own type; MPI has none for
16-bit floats, which are reduced in float32 and rounded once, and bools are reduced as bytes.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import itertools
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from multiprocessing import util
from typing import Any, Final

import numpy as np

from eager.distributed import meeting
from eager.distributed.engine import DistBackendError, Engine, ReduceOp, default_pg_timeout

INSTALL: Final = "pip install 'jitcap[distributed]' (mpi4py, and MPICH as a wheel)"
_NAMES: Final = {
    ReduceOp.SUM: "SUM", ReduceOp.AVG: "SUM", ReduceOp.PRODUCT: "PROD", ReduceOp.MIN: "MIN",
    ReduceOp.MAX: "MAX", ReduceOp.BAND: "BAND", ReduceOp.BOR: "BOR", ReduceOp.BXOR: "BXOR",
}  # fmt: skip
# Of bools, which PyTorch adds as "or" and multiplies as "and".
_OF_BOOLS: Final = {"SUM": "LOR", "PROD": "LAND", "MIN": "LAND", "MAX": "LOR", "BAND": "LAND",
                    "BOR": "LOR", "BXOR": "LXOR"}  # fmt: skip
_OWN: Final = "RANK"
_TOLD: Final = "WORLD_SIZE"  # by PyTorch's launchers, of the processes that they started


def is_available() -> bool:
    """True if mpi4py is installed. It is not imported: that starts MPI."""
    return importlib.util.find_spec("mpi4py") is not None


def world(
    rank: int = -1,
    size: int = -1,
    init_method: str | None = None,
    timeout: timedelta = default_pg_timeout,
) -> MPIEngine:
    """The engine of all ranks; starts MPI. The ranks are those of mpiexec, or, where it did not
    start this process, those that come to `init_method` (`rank` and `size`, else the variables of
    PyTorch's launchers, say which this is). Raises DistBackendError without MPI, or where ranks
    without a launcher have no address."""
    told = size if size not in (-1, None) else int(os.environ.get(_TOLD, "1"))
    with contextlib.ExitStack() as inside:
        if told > 1 and is_available() and not meeting.is_launched():
            own, where = _own(rank, told), _where(init_method, told)
            inside.enter_context(meeting.met(own, told, where, timeout))
        mpi = _started()
    engine = MPIEngine(mpi, mpi.COMM_WORLD.Dup())
    if engine.size == 1 and told > 1:
        raise _alone(told)
    return engine


def _own(rank: int, told: int) -> int:
    number = str(rank) if rank not in (-1, None) else os.environ.get(_OWN, "")
    if not number.isdigit():
        raise _alone(told)
    return int(number)


def _where(init_method: str | None, told: int) -> tuple[str, int]:
    found = meeting.address(init_method)
    if found is None:
        raise _alone(told)
    return found


def _alone(told: int) -> DistBackendError:
    return DistBackendError(
        f"there are to be {told} ranks, and MPI knows of this process alone: start the program by "
        f"`python -m jitcap.launch -n {told} train.py`, or say where the ranks meet and which this "
        "is (MASTER_ADDR, MASTER_PORT and RANK, or init_method='tcp://host:port' and rank=)"
    )


def _started() -> Any:
    try:
        from mpi4py import MPI
    except ImportError as error:
        why = f"; it says: {error}" if is_available() else ""
        raise DistBackendError(f"the backend 'mpi' needs MPI: {INSTALL}{why}") from error
    except RuntimeError as error:  # the package is there, and no library
        raise DistBackendError(f"MPI does not start: {error}. {INSTALL}") from error
    return MPI


def stop_together(engine: MPIEngine) -> None:
    """From now on an exception that ends this rank ends the job: the others would wait for it."""
    if engine.size == 1:
        return
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, where: Any) -> None:
        sys.stderr.write(f"rank {engine.world_rank} of {engine.world_size} failed:\n")
        try:
            before(kind, error, where)
            sys.stdout.flush()
            sys.stderr.flush()
            time.sleep(DRAIN)
        finally:
            engine.abort()

    def leave() -> None:
        kind, error, where = sys.exc_info()
        if kind is not None and error is not None and getattr(error, "code", True):
            hook(kind, error, where)
        elif not engine.mpi.Is_finalized():
            engine.mpi.Finalize()
            meeting.leave()

    sys.excepthook = hook
    if multiprocessing.parent_process() is not None:  # such a process calls no hook, nor atexit
        util.Finalize(None, leave, exitpriority=100)


class _Request:
    """An MPI request, with the arrays that it reads and writes, and what is done at its end."""

    def __init__(self, engine: MPIEngine, request: Any, *keep: Any, end: Any = None) -> None:
        self._engine, self._request, self._keep, self._end = engine, request, keep, end
        self._status = engine.mpi.Status()
        self.source: int | None = None

    def done(self) -> bool:
        if self._request is None:
            return True
        try:
            if not self._request.Test(self._status):
                return False
        except self._engine.mpi.Exception as error:
            raise _refused(error) from None
        self._request, self._keep = None, ()
        self.source = self._status.Get_source()
        if self._end is not None:
            self._end()
        return True

    def __del__(self) -> None:
        """MPI reads and writes the arrays of one that nobody waits for, too."""
        if self._request is not None:
            self._engine.dropped.append((self._request, self._keep))


def _refused(error: Any) -> DistBackendError:
    text = str(error)
    hint = ""
    if "TRUNCATE" in text.upper() or "COUNT" in text.upper():
        hint = ". The ranks gave tensors of different sizes"
    return DistBackendError(f"MPI: {text}{hint}")


class MPIEngine:
    """The ranks of one MPI communicator."""

    on_devices = False

    def __init__(self, mpi: Any, comm: Any) -> None:
        self.mpi, self._comm = mpi, comm
        comm.Set_errhandler(mpi.ERRORS_RETURN)  # as exceptions
        self.rank: int = comm.Get_rank()
        self.size: int = comm.Get_size()
        self.world_rank: int = mpi.COMM_WORLD.Get_rank()
        self.world_size: int = mpi.COMM_WORLD.Get_size()
        self.dropped: list[tuple[Any, Any]] = []  # requests under way, with their arrays

    def _is_over(self, request: Any) -> bool:
        try:
            return bool(request.Test())
        except self.mpi.Exception:  # nobody asks what became of it
            return True

    def _start(self, name: str, *args: Any, keep: Sequence[Any] = (), end: Any = None) -> _Request:
        try:
            self.dropped = [each for each in self.dropped if not self._is_over(each[0])]
            request = getattr(self._comm, name)(*args)
        except self.mpi.Exception as error:
            raise _refused(error) from None
        return _Request(self, request, *keep, end=end)

    def _reducible(self, array: Any, op: ReduceOp) -> tuple[Any, Any, bool]:
        """The array as MPI reduces it (a copy where True is last), and MPI's operation."""
        name = _NAMES[op]
        if array.dtype == np.bool_:
            return array.view(np.uint8), getattr(self.mpi, _OF_BOOLS[name]), False
        wide = array.dtype.itemsize == 2 and array.dtype.kind in "fV"
        return array.astype(np.float32) if wide else array, getattr(self.mpi, name), wide

    def _ended(self, array: Any, value: Any, op: ReduceOp) -> Callable[[], None] | None:
        """Work left for the end: an average is a sum that is divided; 16 bits round."""
        rounds = value.dtype.itemsize > array.dtype.itemsize
        if op is not ReduceOp.AVG and not rounds:
            return None

        def end() -> None:
            if op is ReduceOp.AVG:
                each = value.reshape(-1).view(value.real.dtype)
                np.divide(each, self.size, out=each)
            if rounds:
                array[...] = value.astype(array.dtype)

        return end

    def all_reduce(self, array: Any, op: ReduceOp) -> _Request:
        value, mpi_op, _ = self._reducible(array, op)
        end = self._ended(array, value, op)
        given = (self.mpi.IN_PLACE, value, mpi_op)
        return self._start("Iallreduce", *given, keep=(array, value), end=end)

    def reduce(self, array: Any, op: ReduceOp, root: int) -> _Request:
        value, mpi_op, _ = self._reducible(array, op)
        if self.rank != root:
            return self._start("Ireduce", value, None, mpi_op, root, keep=(value,))
        end = self._ended(array, value, op)
        given = (self.mpi.IN_PLACE, value, mpi_op, root)
        return self._start("Ireduce", *given, keep=(array, value), end=end)

    def reduce_scatter(self, out: Any, array: Any, op: ReduceOp) -> _Request:
        value, mpi_op, wide = self._reducible(_apart(array, out), op)
        into = np.empty(out.shape, np.float32) if wide else self._reducible(out, op)[0]
        end = self._ended(out, into, op)
        keep = (array, value, out, into)
        return self._start("Ireduce_scatter_block", value, into, mpi_op, keep=keep, end=end)

    def broadcast(self, array: Any, root: int) -> _Request:
        return self._start("Ibcast", _bytes(array), root, keep=(array,))

    def all_gather(self, out: Any, array: Any) -> _Request:
        array = _apart(array, out)
        return self._start("Iallgather", _bytes(array), _bytes(out), keep=(array, out))

    def gather(self, out: Any, array: Any, root: int) -> _Request:
        into = None if self.rank != root else _bytes(out)
        return self._start("Igather", _bytes(array), into, root, keep=(array, out))

    def scatter(self, out: Any, array: Any, root: int) -> _Request:
        given = None if self.rank != root else _bytes(array)
        return self._start("Iscatter", given, _bytes(out), root, keep=(array, out))

    def all_to_all(
        self, out: Any, array: Any, received: Sequence[int], sent: Sequence[int]
    ) -> _Request:
        array = _apart(array, out)
        if not sent:  # as compiled code does
            return self._start("Ialltoall", _bytes(array), _bytes(out), keep=(array, out))
        given = [_bytes(array), _counts(sent, array), self.mpi.BYTE]
        into = [_bytes(out), _counts(received, out), self.mpi.BYTE]
        return self._start("Ialltoallv", given, into, keep=(array, out))

    def send(self, array: Any, to: int, tag: int) -> _Request:
        return self._start("Isend", _bytes(array), to, tag, keep=(array,))

    def receive(self, array: Any, source: int | None, tag: int) -> _Request:
        source = self.mpi.ANY_SOURCE if source is None else source
        return self._start("Irecv", _bytes(array), source, tag, keep=(array,))

    def barrier(self) -> _Request:
        return self.all_reduce(np.zeros(1, np.float32), ReduceOp.SUM)

    def split(self, ranks: Sequence[int]) -> Engine | None:
        if self.rank not in ranks:
            return None
        group = self._comm.Get_group().Incl(list(ranks))
        return MPIEngine(self.mpi, self._comm.Create_group(group))

    def in_c(self, start: str, dtype: Any, op: ReduceOp | None) -> dict[str, int]:
        """The call of a collective in C, by the name of its op: the function, MPI's handles, and
        bytes of an element that is moved as bytes. `kind` 0: MPI does not reduce such ones."""
        mpi = self.mpi
        kind, name = _IN_C[start]
        found = {"kind": kind, "begin": _address(mpi, name), "test": _address(mpi, "MPI_Test")}
        found["comm"] = _handle(mpi, self._comm)
        if op is None:
            return found | {"type": _handle(mpi, mpi.BYTE), "bytes": dtype.itemsize}
        if dtype.kind not in "fiu" or (dtype.kind == "f" and dtype.itemsize == 2):
            return {"kind": 0}
        found["type"] = _handle(mpi, mpi._typedict[dtype.char])
        found["op"] = _handle(mpi, getattr(mpi, _NAMES[op]))
        return found | {"in_place": int(mpi.IN_PLACE) & _WORD}

    def agreement_in_c(self) -> dict[str, int]:
        """The call by which C finds the least of numbers (int64) over the ranks."""
        mpi = self.mpi
        kinds = {"type": _handle(mpi, mpi.INT64_T), "least_of": _handle(mpi, mpi.MIN)}
        return {"reduce": _address(mpi, "MPI_Iallreduce"), **kinds}

    def explain(self, code: int) -> str:
        """MPI's text of an error code."""
        return str(self.mpi.Get_error_string(code))

    def free(self) -> None:
        self._comm.Free()

    def abort(self) -> None:
        """End all ranks of the job, now."""
        self.mpi.COMM_WORLD.Abort(1)


_IN_C: Final = {  # numbers of jitcap_exchange.h
    "start_all_reduce": (1, "MPI_Iallreduce"), "start_broadcast": (2, "MPI_Ibcast"),
    "start_all_gather": (3, "MPI_Iallgather"),
    "start_reduce_scatter": (4, "MPI_Ireduce_scatter_block"),
    "start_all_to_all": (5, "MPI_Ialltoall"),
}  # fmt: skip
DRAIN: Final = 0.2  # seconds for the launcher to read what a rank wrote last; not after an abort
_WORD: Final = (1 << 64) - 1


@functools.cache
def _address(mpi: Any, name: str) -> int:
    """The address of a function of MPI; of the one for large counts, if there is one."""
    library = ctypes.CDLL(mpi.__file__)
    function = getattr(library, f"{name}_c", None) or getattr(library, name)
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _handle(mpi: Any, of: Any) -> int:
    return int(mpi._handleof(of)) & _WORD


def _bytes(array: Any) -> Any:
    """The memory of a contiguous array, as bytes."""
    return array.reshape(-1).view(np.uint8)


def _apart(array: Any, out: Any) -> Any:
    """The array, or a copy where it lies in the memory that is written: MPI asks for two."""
    return array.copy() if np.may_share_memory(array, out) else array


def _counts(lengths: Sequence[int], array: Any) -> tuple[list[int], list[int]]:
    """Lengths and beginnings of parts, in bytes."""
    sizes = [n * array.itemsize for n in lengths]
    return sizes, [0, *itertools.accumulate(sizes)][: len(sizes)]
