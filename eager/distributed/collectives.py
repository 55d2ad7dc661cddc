"""`eager.distributed`'s collectives. tensors -> the same tensors, written; a `Work` where
`async_op` is set.

Each names its group's ranks as PyTorch does: `src` and `dst` are ranks of the world, `group_src`
and `group_dst` of the group. Tensors of one collective have one dtype, and where nothing else is
said one shape on all ranks; what is written gets no history. A rank that is not in the group does
nothing.

A tensor whose memory is contiguous is sent and written where it lies (one of a device, by NCCL);
any other by way of a copy. Under `@jit` `all_reduce`, `broadcast`, `all_gather_into_tensor`,
`reduce_scatter_tensor`, `all_to_all_single` and `barrier` are nodes of the graph, which are done
when the next operation runs; around the others the program splits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from eager.autograd import no_grad
from eager.base.dataclass import dataclass
from eager.base.dtype import float32
from eager.base.host_only import host_only
from eager.core.dispatch import tracing
from eager.core.op import Op
from eager.core.tensor import Tensor, require_writable, wrap
from eager.device.array import DeviceArray
from eager.distributed.engine import DistError, ReduceOp, Request, wait
from eager.distributed.groups import (
    ProcessGroup,
    require_agreement,
    require_world,
    resolve,
    told,
)
from eager.distributed.ops import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BROADCAST,
    REDUCE_SCATTER,
    exchanged,
)
from eager.distributed.work import Work, taken
from eager.ops.create import zeros

Start = Callable[[], Request]


@dataclass
class _Memory:
    """The memory of a tensor for an engine: `array`, which is its own or a copy (`copied`)."""

    tensor: Tensor
    array: Any
    copied: bool

    def finish(self) -> None:
        """Write what was received into the tensor."""
        if self.copied:
            with no_grad():
                self.tensor.detach().copy_(wrap(self.array))


def _require_tensors(name: str, *tensors: Any) -> None:
    for each in tensors:
        if not isinstance(each, Tensor):
            raise TypeError(f"{name}(): a Tensor is needed, got a {type(each).__name__}")


def _memory(tensor: Any, name: str, *, written: bool, rows: bool = False) -> _Memory:
    """Memory for an engine. `rows`: beside that of a list, which lies on the host."""
    _require_tensors(name, tensor)
    array: Any = tensor._array
    if type(array) is DeviceArray and require_world().engine.on_devices and not rows:
        own = array.contiguous
        if own and written:
            require_writable(tensor)
            tensor._storage.version += 1
        return _Memory(tensor, array if own else tensor.detach().contiguous()._array, not own)
    own = type(array) is np.ndarray and array.flags.c_contiguous
    if own and (array.flags.writeable or not written):
        if written:
            require_writable(tensor)
            tensor._storage.version += 1
        return _Memory(tensor, array, copied=False)
    found = np.array(tensor.detach().cpu()._array, order="C")
    return _Memory(tensor, found, copied=True)


def _launch(
    group: ProcessGroup, what: str, start: Start, end: Any, *, async_op: bool, pair: bool = False
) -> Work | None:
    """Start a collective; wait for it unless it is asynchronous."""
    if not pair:
        require_agreement(group, what)
    work = Work(start(), group, what, end)
    if async_op:
        return work
    work.wait()
    return None


def _told(name: str, tensor: Tensor, shape: Sequence[int] | None = None, **how: Any) -> str:
    """A collective of a tensor, which is sent as it is, or as one of another shape."""
    return told(name, tensor.shape if shape is None else shape, tensor.dtype.np, **how)


def _none(async_op: bool, group: ProcessGroup | None = None) -> Work | None:
    """Result for a rank outside of the group."""
    return Work(None, group, "") if async_op else None


def _in_graph(
    group: ProcessGroup, op: Op, into: Tensor, x: Tensor, async_op: bool, **attrs: Any
) -> Work | None:
    """Record a collective of what is captured, which writes `into`."""
    with no_grad():
        into.copy_(taken(op, x.detach(), group, **attrs).view_as(into))
    return _none(async_op, group)


def _root(group: ProcessGroup, rank: int | None, of_group: int | None, what: str) -> int:
    """A root's rank in the group, from one of its two names."""
    if (rank is None) == (of_group is None):
        raise ValueError(f"give {what}, a rank of the world, or group_{what}, one of the group")
    if of_group is None:
        return group.local(int(rank), what)  # type: ignore[arg-type]
    if not 0 <= of_group < group.size():
        raise ValueError(f"group_{what}={of_group} is not in {group!r}")
    return of_group


def _require_op(op: ReduceOp, tensor: Tensor, name: str) -> None:
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{name}(): op is a ReduceOp, got {op!r}")
    _require_tensors(name, tensor)
    dtype = tensor.dtype
    bits = op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
    floats = dtype.is_floating_point or dtype.is_complex
    wrong = (
        (bits and floats)
        or (op is ReduceOp.AVG and not floats)
        or (op in (ReduceOp.MIN, ReduceOp.MAX) and dtype.is_complex)
    )
    if wrong:
        raise RuntimeError(f"{name}(): {op!r} is not there for {dtype}")


def _require_same(name: str, first: Tensor, other: Tensor, numel: Callable[[], int]) -> None:
    """One dtype, and as many elements in the other as are needed."""
    _require_tensors(name, first, other)
    if first.dtype is not other.dtype:
        raise TypeError(
            f"{name}(): the tensors are {first.dtype} and {other.dtype}; give one dtype"
        )
    if other.numel() != numel():
        raise ValueError(
            f"{name}(): a tensor of {list(first.shape)} belongs to one of {numel()} elements, got "
            f"{list(other.shape)}"
        )


# ---------------------------------------------------------------------------------- to all
def all_reduce(
    tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduce `tensor` (any shape) over the ranks, in place: all end with the same values."""
    found = resolve(group)
    if found is None:
        return _none(async_op)
    _require_op(op, tensor, "all_reduce")
    if tracing():
        return _in_graph(found, ALL_REDUCE, tensor, tensor, async_op, reduction=op.value)
    mine = _memory(tensor, "all_reduce", written=True)
    return _launch(
        found, _told("all_reduce", tensor, reduction=op.value),
        lambda: found.engine.all_reduce(mine.array, op), mine.finish, async_op=async_op,
    )  # fmt: skip


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Give all ranks the values of `src`'s tensor, in place."""
    found = resolve(group)
    if found is None:
        return _none(async_op)
    root = _root(found, src, group_src, "src")
    if tracing():
        return _in_graph(
            found, BROADCAST, tensor, tensor, async_op, root=root, sends=found.rank() == root
        )
    mine = _memory(tensor, "broadcast", written=found.rank() != root)
    end = None if found.rank() == root else mine.finish
    return _launch(
        found, _told("broadcast", tensor, root=root),
        lambda: found.engine.broadcast(mine.array, root), end, async_op=async_op,
    )  # fmt: skip


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """The tensors of all ranks, one behind the other: (N, ...) -> (ranks * N, ...), or
    (ranks, N, ...)."""
    found = resolve(group)
    if found is None:
        return _none(async_op)
    name = "all_gather_into_tensor"
    _require_same(name, input_tensor, output_tensor, lambda: input_tensor.numel() * found.size())
    if tracing():
        return _in_graph(found, ALL_GATHER, output_tensor, input_tensor.reshape(-1), async_op)
    out = _memory(output_tensor, name, written=True)
    mine = _memory(input_tensor, name, written=False)
    return _launch(
        found, _told("all_gather", input_tensor, [input_tensor.numel()]),
        lambda: found.engine.all_gather(out.array, mine.array), out.finish, async_op=async_op,
    )  # fmt: skip


def all_gather(
    tensor_list: Sequence[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """The tensors of all ranks into those of `tensor_list`, in the order of ranks."""
    host_only("distributed.all_gather")
    found = resolve(group)
    if found is None:
        return _none(async_op)
    mine = _memory(tensor, "all_gather", written=False, rows=True)
    out = _rows("all_gather", tensor_list, tensor, found.size(), written=True)
    return _launch(
        found, _told("all_gather", tensor),
        lambda: found.engine.all_gather(out, mine.array), lambda: _spread(out, tensor_list),
        async_op=async_op,
    )  # fmt: skip


def _rows(name: str, tensors: Any, like: Tensor, ranks: int, *, written: bool) -> Any:
    """Memory (ranks, numel) for a list of tensors, with their values unless they are written."""
    if not isinstance(tensors, list | tuple) or len(tensors) != ranks:
        got = len(tensors) if isinstance(tensors, list | tuple) else type(tensors).__name__
        raise ValueError(f"{name}(): a list of {ranks} tensors is needed, one a rank; got {got}")
    for each in tensors:
        _require_same(name, like, each, like.numel)
    if written:
        return np.empty((ranks, like.numel()), like.dtype.np)
    return np.stack([_memory(t, name, written=False, rows=True).array.reshape(-1) for t in tensors])


def _spread(rows: Any, tensors: Sequence[Tensor]) -> None:
    with no_grad():
        for row, tensor in zip(rows, tensors, strict=True):
            tensor.detach().copy_(wrap(row).reshape(tensor.shape))


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Reduce over the ranks and keep this rank's part: (ranks * N, ...) -> (N, ...)."""
    found = resolve(group)
    if found is None:
        return _none(async_op)
    name = "reduce_scatter_tensor"
    _require_op(op, input, name)
    _require_same(name, output, input, lambda: output.numel() * found.size())
    if tracing():
        row = input.reshape(-1)  # its first dimension need not make equal parts
        return _in_graph(found, REDUCE_SCATTER, output, row, async_op, reduction=op.value)
    out = _memory(output, name, written=True)
    mine = _memory(input, name, written=False)
    return _launch(
        found, _told("reduce_scatter", input, [input.numel()], reduction=op.value),
        lambda: found.engine.reduce_scatter(out.array, mine.array, op), out.finish,
        async_op=async_op,
    )  # fmt: skip


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Reduce each tensor of the list over the ranks; rank r keeps number r, in `output`."""
    host_only("distributed.reduce_scatter")
    found = resolve(group)
    if found is None:
        return _none(async_op)
    _require_op(op, output, "reduce_scatter")
    rows = _rows("reduce_scatter", input_list, output, found.size(), written=False)
    out = _memory(output, "reduce_scatter", written=True, rows=True)
    return _launch(
        found, _told("reduce_scatter", output, reduction=op.value),
        lambda: found.engine.reduce_scatter(out.array, rows, op), out.finish, async_op=async_op,
    )  # fmt: skip


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Part r of the input's first dimension goes to rank r, and what rank r sent lies in part r of
    the output. Parts are equal, or of the sizes that are given (in rows)."""
    found = resolve(group)
    if found is None:
        return _none(async_op)
    name = "all_to_all_single"
    _require_tensors(name, output, input)
    if output.dtype is not input.dtype:
        raise TypeError(f"{name}(): the tensors are {input.dtype} and {output.dtype}")
    received = _split_sizes(name, output, output_split_sizes, found.size(), "output")
    sent = _split_sizes(name, input, input_split_sizes, found.size(), "input")
    equal = output_split_sizes is None and input_split_sizes is None
    rows = {k: () if equal else tuple(n) for k, n in (("received", received), ("sent", sent))}
    if tracing():
        return _in_graph(found, ALL_TO_ALL, output, input, async_op, **rows)
    out = _memory(output, name, written=True)
    mine = _memory(input, name, written=False)
    return _launch(
        found, _told("all_to_all", input, **rows),
        lambda: exchanged(out.array, mine.array, found, **rows), out.finish, async_op=async_op,
    )  # fmt: skip


def _split_sizes(name: str, tensor: Tensor, sizes: Any, ranks: int, what: str) -> list[int]:
    """Rows that each rank gets, or gives."""
    rows = tensor.shape[0] if tensor.ndim else 0
    if sizes is None:
        if rows % ranks:
            raise ValueError(f"{name}(): {rows} rows of the {what} do not make {ranks} equal parts")
        sizes = [rows // ranks] * ranks
    if len(sizes) != ranks or sum(sizes) != rows or min(sizes) < 0:
        raise ValueError(
            f"{name}(): {what}_split_sizes are {ranks} numbers whose sum is {rows}, the {what}'s "
            f"rows; got {list(sizes)}"
        )
    return [int(n) for n in sizes]


def all_to_all(
    output_tensor_list: Sequence[Tensor],
    input_tensor_list: Sequence[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Tensor r of the inputs goes to rank r, and what rank r sent lies in tensor r of the outputs.
    Sizes may differ where both sides say the same."""
    host_only("distributed.all_to_all")
    found = resolve(group)
    if found is None:
        return _none(async_op)
    name = "all_to_all"
    for what, tensors in (("output", output_tensor_list), ("input", input_tensor_list)):
        if len(tensors) != found.size() or len({t.dtype for t in tensors}) != 1:
            raise ValueError(f"{name}(): {found.size()} tensors of one dtype are the {what}s")
    sent = [_memory(t, name, written=False, rows=True).array.reshape(-1) for t in input_tensor_list]
    lengths = [t.numel() for t in output_tensor_list]
    out = np.empty(sum(lengths), output_tensor_list[0].dtype.np)
    mine = np.concatenate(sent)
    ends = np.cumsum(lengths)[:-1]
    return _launch(
        found, told("all_to_all", [0], mine.dtype, sent=lengths),
        lambda: exchanged(out, mine, found, lengths, [len(a) for a in sent]),
        lambda: _spread(np.split(out, ends), output_tensor_list), async_op=async_op,
    )  # fmt: skip


# ------------------------------------------------------------------------------- to one, from one
def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: ReduceOp = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Reduce over the ranks into `dst`'s tensor; the others keep theirs."""
    host_only("distributed.reduce")
    found = resolve(group)
    if found is None:
        return _none(async_op)
    root = _root(found, dst, group_dst, "dst")
    _require_op(op, tensor, "reduce")
    is_root = found.rank() == root
    mine = _memory(tensor, "reduce", written=is_root)
    return _launch(
        found, _told("reduce", tensor, reduction=op.value, root=root),
        lambda: found.engine.reduce(mine.array, op, root), mine.finish if is_root else None,
        async_op=async_op,
    )  # fmt: skip


def gather(
    tensor: Tensor,
    gather_list: Sequence[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """The tensors of all ranks into those of `dst`'s `gather_list` (default: rank 0 of the world);
    the others give no list."""
    host_only("distributed.gather")
    found = resolve(group)
    if found is None:
        return _none(async_op)
    root = _root(found, 0 if dst is None and group_dst is None else dst, group_dst, "dst")
    mine = _memory(tensor, "gather", written=False, rows=True)
    out, end = None, None
    if found.rank() == root:
        out = _rows("gather", gather_list, tensor, found.size(), written=True)
        end = lambda: _spread(out, gather_list)  # type: ignore[arg-type]
    elif gather_list:
        raise ValueError(f"gather(): rank {found.ranks[root]} alone gets the list")
    return _launch(
        found, _told("gather", tensor, root=root),
        lambda: found.engine.gather(out, mine.array, root), end, async_op=async_op,
    )  # fmt: skip


def scatter(
    tensor: Tensor,
    scatter_list: Sequence[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Tensor r of `src`'s list (default: of rank 0 of the world) into rank r's `tensor`."""
    host_only("distributed.scatter")
    found = resolve(group)
    if found is None:
        return _none(async_op)
    root = _root(found, 0 if src is None and group_src is None else src, group_src, "src")
    rows = None
    if found.rank() == root:
        rows = _rows("scatter", scatter_list, tensor, found.size(), written=False)
    elif scatter_list:
        raise ValueError(f"scatter(): rank {found.ranks[root]} alone gives the list")
    mine = _memory(tensor, "scatter", written=True, rows=True)
    return _launch(
        found, _told("scatter", tensor, root=root),
        lambda: found.engine.scatter(mine.array, rows, root), mine.finish, async_op=async_op,
    )  # fmt: skip


# ------------------------------------------------------------------------------------ two ranks
def isend(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Start to send; the tensor is not to be written before `wait()`."""
    host_only("distributed.isend")
    found = resolve(group)
    if found is None:
        return None
    to = _root(found, dst, group_dst, "dst")
    if to == found.rank():
        raise ValueError("isend(): a rank does not send to itself")
    mine = _memory(tensor, "send", written=False)
    return _launch(
        found, _told("send", tensor, to=found.ranks[to]),
        lambda: found.engine.send(mine.array, to, tag), None, async_op=True, pair=True,
    )  # fmt: skip


def irecv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Start to receive, from any rank where none is named."""
    host_only("distributed.irecv")
    found = resolve(group)
    if found is None:
        return None
    named = src is not None or group_src is not None
    source = _root(found, src, group_src, "src") if named else None
    mine = _memory(tensor, "recv", written=True)
    who = "any rank" if source is None else str(found.ranks[source])
    return _launch(
        found, _told("recv", tensor, source=who),
        lambda: found.engine.receive(mine.array, source, tag), mine.finish, async_op=True,
        pair=True,
    )  # fmt: skip


def send(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """Send to one rank, which receives it."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0,
    group_src: int | None = None,
) -> int:  # fmt: skip
    """Receive from one rank, or from any; the sender's rank in the world, -1 outside of the
    group."""
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    request: Any = work._request
    work.wait()
    found = resolve(group)
    return -1 if found is None else found.ranks[request.source]


class P2POp:
    """One of `batch_isend_irecv`: `op` is `isend` or `irecv`."""

    def __init__(
        self, op: Any, tensor: Tensor, peer: int | None = None, group: Any = None, tag: int = 0,
        group_peer: int | None = None,
    ) -> None:  # fmt: skip
        if op not in (isend, irecv):
            raise ValueError("P2POp: op is distributed.isend or distributed.irecv")
        self.op, self.tensor, self.peer = op, tensor, peer
        self.group, self.tag, self.group_peer = group, tag, group_peer


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Start all of them, whatever their order on the other side."""
    works = [p.op(p.tensor, p.peer, p.group, p.tag, p.group_peer) for p in p2p_op_list]
    return [work for work in works if work is not None]


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Return once all ranks have come here."""
    found = resolve(group)
    if found is None:
        return _none(async_op)
    nothing = zeros(1, dtype=float32)
    if tracing():
        return _in_graph(found, ALL_REDUCE, nothing, nothing, async_op, reduction="sum")
    what = _told("all_reduce", nothing, reduction="sum")
    return _launch(found, what, found.engine.barrier, None, async_op=async_op)


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """A barrier that says which ranks did not come within the timeout.

    Raises DistTimeoutError on rank 0 with their numbers, and on the others when it does not
    answer."""
    host_only("distributed.monitored_barrier")
    found = resolve(group)
    if found is None:
        return
    limit = timeout or found.timeout
    token, tag = np.zeros(1, np.uint8), _BARRIER_TAG
    if found.rank():
        for start in (found.engine.send(token, 0, tag), found.engine.receive(token, 0, tag)):
            wait(start, limit, lambda: f"monitored_barrier of {found!r}")
        return
    late: list[int] = []
    for rank in range(1, found.size()):
        try:
            wait(found.engine.receive(token, rank, tag), limit, lambda: "monitored_barrier")
        except DistError:
            late.append(found.ranks[rank])
            if not wait_all_ranks:
                break
    if late:
        raise DistError(f"monitored_barrier: ranks {late} did not come within {limit}")
    for rank in range(1, found.size()):
        wait(found.engine.send(token, rank, tag), limit, lambda: "monitored_barrier")


_BARRIER_TAG = 7919  # messages of it are told from the program's
