"""Under `eager.distributed`: the engine on NCCL, by nccl4py, for memory of GPUs. arrays of a device
-> commands on its current stream; arrays of the host -> MPI's engine, by which ranks find each
other and agree.

Not run on hardware yet: it is tested against a stand-in of nccl4py's interface, on simulated
devices. A collective is queued on the stream that is current, behind what computes its operands and
before what reads its result, so that its request is over at once and a rank that does not come is
noticed by NCCL, not by the timeout of the group.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from eager.base import dtype as dt
from eager.core.tensor import wrap
from eager.device import places
from eager.device.array import DeviceArray
from eager.distributed.engine import (
    DistBackendError,
    ReduceOp,
    Request,
    default_pg_timeout,
    wait,
)

INSTALL: Final = "pip install 'jitcap[distributed-gpu]' (nccl4py, with mpi4py and MPICH)"
_NAMES: Final = {
    ReduceOp.SUM: "SUM", ReduceOp.AVG: "AVG", ReduceOp.PRODUCT: "PROD", ReduceOp.MIN: "MIN",
    ReduceOp.MAX: "MAX",
}  # fmt: skip
# Of bools, which PyTorch adds as "or" and multiplies as "and", as bytes of 0 and 1.
_OF_BOOLS: Final = {"SUM": "MAX", "PROD": "MIN"}
_REDUCED: Final = frozenset({"int8", "uint8", "int32", "int64", "float16", "bfloat16", "float32",
                             "float64", "float8_e4m3fn", "float8_e5m2"})  # fmt: skip


def is_available() -> bool:
    """True if nccl4py is installed."""
    return importlib.util.find_spec("nccl") is not None


def over(host: Any) -> NCCLEngine:
    """The engine of the ranks of `host`, which all of them make together. Raises DistBackendError
    without nccl4py."""
    try:
        from nccl import core
    except ImportError as error:
        why = f"; it says: {error}" if is_available() else ""
        raise DistBackendError(f"the backend 'nccl' needs nccl4py: {INSTALL}{why}") from error
    nccl: Any = core
    places.pool()  # opens the device that is current, in whose context NCCL works
    given = bytes(nccl.get_unique_id()) if host.rank == 0 else b""
    length = np.array([len(given)])
    _finish(host.broadcast(length, 0))
    text = np.frombuffer(given, np.uint8).copy() if given else np.empty(int(length[0]), np.uint8)
    _finish(host.broadcast(text, 0))
    unique = nccl.UniqueId.from_bytes(text.tobytes())
    return NCCLEngine(host, nccl, nccl.Communicator.init(host.size, host.rank, unique))


def _finish(request: Request) -> None:
    wait(request, default_pg_timeout, lambda: "init_process_group('nccl')")


class _Queued:
    """A request of what its stream has in order: nothing is left to wait for."""

    def __init__(self, source: int | None = None) -> None:
        self.source = source

    def done(self) -> bool:
        return True


class NCCLEngine:
    """The ranks of one communicator of NCCL, with MPI's engine of the same ranks."""

    on_devices = True

    def __init__(self, host: Any, nccl: Any, comm: Any) -> None:
        self._host, self._nccl, self._comm = host, nccl, comm
        self.rank: int = host.rank
        self.size: int = host.size

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def _start(
        self,
        name: str,
        arrays: Sequence[Any],
        work: Callable[[int], None],
        source: int | None = None,
    ) -> Any:
        """Queue `work` on the current stream of the arrays' device."""
        stream = places.stream(arrays[0].buffer.device)
        try:
            work(int(getattr(stream, "handle", stream.number)))  # a simulated one has a number
        except (DistBackendError, MemoryError):
            raise
        except Exception as error:
            raise DistBackendError(f"NCCL: {name}: {error}") from error
        for array in arrays:
            array.buffer.used_on(stream)
        return _Queued(source)

    def _op(self, array: Any, op: ReduceOp) -> Any:
        name = _NAMES.get(op)
        if name is None:
            raise DistBackendError(f"NCCL has no {op!r}: move the tensor to the CPU first")
        return getattr(self._nccl, _OF_BOOLS.get(name, name) if array.dtype is dt.bool_ else name)

    def all_reduce(self, array: Any, op: ReduceOp) -> Any:
        if not _on_device(array):
            return self._host.all_reduce(array, op)
        x, code = _reducible(array), self._op(array, op)
        return self._start("all_reduce", [array], lambda stream: self._comm.allreduce(
            x, x, code, stream=stream))  # fmt: skip

    def reduce(self, array: Any, op: ReduceOp, root: int) -> Any:
        if not _on_device(array):
            return self._host.reduce(array, op, root)
        x, code = _reducible(array), self._op(array, op)
        into = x if self.rank == root else None
        return self._start("reduce", [array], lambda stream: self._comm.reduce(
            x, into, code, root, stream=stream))  # fmt: skip

    def reduce_scatter(self, out: Any, array: Any, op: ReduceOp) -> Any:
        if not _on_device(out, array):
            return self._host.reduce_scatter(out, array, op)
        array = _apart(array, out)
        x, into, code = _reducible(array), _reducible(out), self._op(array, op)
        return self._start("reduce_scatter", [array, out], lambda stream: (
            self._comm.reduce_scatter(x, into, code, stream=stream)))  # fmt: skip

    def broadcast(self, array: Any, root: int) -> Any:
        if not _on_device(array):
            return self._host.broadcast(array, root)
        x = _bytes(array)
        return self._start("broadcast", [array], lambda stream: self._comm.broadcast(
            x, x, root, stream=stream))  # fmt: skip

    def all_gather(self, out: Any, array: Any) -> Any:
        if not _on_device(out, array):
            return self._host.all_gather(out, array)
        array = _apart(array, out)
        x, into = _bytes(array), _bytes(out)
        return self._start("all_gather", [array, out], lambda stream: self._comm.allgather(
            x, into, stream=stream))  # fmt: skip

    def all_to_all(self, out: Any, array: Any, received: Sequence[int], sent: Sequence[int]) -> Any:
        if not _on_device(out, array):
            return self._host.all_to_all(out, array, received, sent)
        array = _apart(array, out)
        size, equal = array.itemsize, [array.size // self.size] * self.size
        sent, received = sent or equal, received or equal
        gives = _bytes(array).split([n * size for n in sent])
        takes = _bytes(out).split([n * size for n in received])

        def work(stream: int) -> None:
            with self._nccl.group():
                for peer in range(self.size):
                    if sent[peer]:
                        self._comm.send(gives[peer], peer, stream=stream)
                    if received[peer]:
                        self._comm.recv(takes[peer], peer, stream=stream)

        return self._start("all_to_all", [array, out], work)

    def send(self, array: Any, to: int, tag: int) -> Any:
        if not _on_device(array):
            return self._host.send(array, to, tag)
        x = _bytes(array)
        return self._start("send", [array], lambda stream: self._comm.send(x, to, stream=stream))

    def receive(self, array: Any, source: int | None, tag: int) -> Any:
        if not _on_device(array):
            return self._host.receive(array, source, tag)
        if source is None:
            raise DistBackendError("NCCL receives from one rank: give src")
        x = _bytes(array)
        return self._start("recv", [array], lambda stream: self._comm.recv(
            x, source, stream=stream), source)  # fmt: skip

    def barrier(self) -> Any:
        """Request that ends when all ranks are here, and their devices have done their work."""
        for pool in places.opened():
            pool.device.synchronize()
        return self._host.barrier()

    def split(self, ranks: Sequence[int]) -> NCCLEngine | None:
        host = self._host.split(ranks)
        return None if host is None else over(host)

    def free(self) -> None:
        self._comm.destroy()
        self._host.free()


def _on_device(*arrays: Any) -> bool:
    """True for memory of devices, False for the host's. DistBackendError for both at once."""
    found = {isinstance(array, DeviceArray) for array in arrays}
    if len(found) > 1:
        raise DistBackendError("tensors of the host and of a GPU in one collective")
    return found == {True}


def _bytes(array: DeviceArray) -> Any:
    """The memory of a contiguous array as a tensor of bytes."""
    flat: Any = wrap(array).reshape(-1)._array
    return wrap(flat.reinterpreted(dt.uint8))


def _reducible(array: DeviceArray) -> Any:
    """The memory of a contiguous array as a tensor that NCCL reduces."""
    if array.dtype is dt.bool_:
        return _bytes(array)
    if array.dtype.name not in _REDUCED:
        raise DistBackendError(f"NCCL does not reduce {array.dtype}: give another dtype")
    return wrap(array).reshape(-1)


def _apart(array: DeviceArray, out: DeviceArray) -> DeviceArray:
    """The array, or a copy where it may lie in the memory that is written."""
    same = array.buffer is out.buffer
    copy: DeviceArray = wrap(array).clone()._array if same else array
    return copy
