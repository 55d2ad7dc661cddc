"""`eager.distributed`: data parallel training. a module -> the module, whose gradients are averaged
over the ranks of a group.

Every rank has all parameters, equal from the start, and its part of the batch. When backward ends,
gradients go in buckets of equal dtype, the last parameters first, each reduced while the next is
packed (Li et al., "PyTorch Distributed", 2020). A parameter that a rank did not use contributes
zeros; one that no rank used keeps its gradient as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from eager.autograd import is_grad_enabled, no_grad
from eager.autograd.graph import at_end_of_backward
from eager.base.host_only import host_only
from eager.construct.interop import tensor
from eager.core.tensor import Tensor
from eager.distributed.collectives import all_reduce, broadcast
from eager.distributed.engine import DistError, ReduceOp
from eager.distributed.groups import resolve
from eager.distributed.objects import gathered
from eager.nn.modules.module import Module
from eager.ops.create import zeros_like
from eager.ops.move import cat

BUCKET_MB: Final = 25  # as in PyTorch: large enough for the bandwidth, small enough to overlap
FIRST_MB: Final = 1  # what is ready first is soon under way
PARTS: Final = 32  # parameters of a bucket, at most: what compiled code copies in loops


class DistributedDataParallel(Module):
    """`module`, whose gradients `backward()` averages over the ranks of `process_group` (default:
    all), or of `device_mesh`, a mesh of one dimension.

    At the start parameters and buffers become those of the group's first rank; with
    `broadcast_buffers`, buffers do before each forward that records gradients. `bucket_cap_mb`
    (25) bounds what is reduced at a time. What `find_unused_parameters` and `static_graph` tell
    PyTorch is seen here anyway.

    Raises DistError, on all ranks, where the ranks' parameters differ in number, shape or dtype;
    ValueError for several devices, or before `init_process_group`."""

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        *,
        device_mesh: Any = None,
    ) -> None:
        super().__init__()
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError(f"DistributedDataParallel: one device a rank, got {device_ids}")
        if device_mesh is not None:
            if process_group is not None:
                raise RuntimeError("give process_group or device_mesh, not both")
            process_group = device_mesh.get_group()  # of one dimension
        group = resolve(process_group)
        if group is None:
            raise ValueError("DistributedDataParallel: this rank is not in its process_group")
        self.module = module
        self.dim, self.device_ids, self.output_device = dim, device_ids, output_device
        self.process_group, self.broadcast_buffers = group, broadcast_buffers
        self.require_backward_grad_sync = True
        self._queued = False  # for the end of the backward that runs
        self._parameters_to_reduce = [p for p in module.parameters() if p.requires_grad]
        if not self._parameters_to_reduce:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameters "
                "that require a gradient"
            )
        if init_sync:
            self._require_same()
            self._share([*module.parameters(), *module.buffers()])
        self._buffers_to_share = _places_of_buffers(module)
        cap = BUCKET_MB if bucket_cap_mb is None else bucket_cap_mb
        self._buckets = _buckets(self._parameters_to_reduce, cap * (1 << 20))
        for p in self._parameters_to_reduce:
            p.register_post_accumulate_grad_hook(self._queue)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if self._queued:  # a backward that raised is over
            self._queued = False
        if self.broadcast_buffers and is_grad_enabled() and self.require_backward_grad_sync:
            self._share([owner._buffers[name] for owner, name in self._buffers_to_share])
        return self.module(*inputs, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, gradients add up on each rank alone; the first backward outside averages what
        has come together."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def _require_same(self) -> None:
        host_only("distributed.DistributedDataParallel")
        mine = [(n, tuple(p.shape), str(p.dtype)) for n, p in self.module.named_parameters()]
        said = gathered(self.process_group, "DistributedDataParallel's check of parameters", mine)
        for rank, theirs in zip(self.process_group.ranks, said, strict=True):
            pairs = zip([*said[0], None], [*theirs, None], strict=False)
            differ = next((pair for pair in pairs if pair[0] != pair[1]), None)
            if differ is not None:
                raise DistError(
                    f"DistributedDataParallel: rank {rank}'s model is not that of rank "
                    f"{self.process_group.ranks[0]}: {_shown(differ[1])} instead of "
                    f"{_shown(differ[0])}"
                )

    def _share(self, tensors: list[Tensor]) -> None:
        """Give all ranks the tensors of the first."""
        works = [broadcast(t, None, self.process_group, True, group_src=0) for t in tensors]
        for work in works:
            if work is not None:
                work.wait()

    def _queue(self, parameter: Tensor) -> None:
        """Hook of a gradient: at the end of this backward, all are reduced."""
        if self.require_backward_grad_sync and not self._queued:
            self._queued = True
            at_end_of_backward(self._reduce)

    def _reduce(self) -> None:
        self._queued = False
        with no_grad():
            used = tensor([float(p.grad is not None) for p in self._parameters_to_reduce])
            works = [all_reduce(used, ReduceOp.MAX, self.process_group, async_op=True)]
            under_way = []
            for bucket in self._buckets:
                flat = cat([_gradient(p) for _, p in bucket])
                works.append(all_reduce(flat, ReduceOp.AVG, self.process_group, async_op=True))
                under_way.append((bucket, flat))
            for work in works:
                if work is not None:
                    work.wait()
            for bucket, flat in under_way:
                parts = flat.split([p.numel() for _, p in bucket])
                for (i, p), part in zip(bucket, parts, strict=True):
                    if p.grad is not None:
                        p.grad.copy_(part.view_as(p))
                    elif used[i]:  # by another rank
                        p.grad = part.view_as(p).clone()


def unwrapped(target: Any) -> Any:
    """A module without `DistributedDataParallel`: its names are those of one process."""
    return target.module if isinstance(target, DistributedDataParallel) else target


def _gradient(p: Tensor) -> Tensor:
    """The gradient as a vector; zeros where this rank has none."""
    return zeros_like(p).reshape(-1) if p.grad is None else p.grad.reshape(-1)


def _places_of_buffers(module: Module) -> list[tuple[Module, str]]:
    """Owners and names of the buffers, each once: an owner may get another tensor for a name."""
    found: dict[int, tuple[Module, str]] = {}
    for owner in module.modules():
        for name, buffer in owner._buffers.items():
            if buffer is not None:
                found.setdefault(id(buffer), (owner, name))
    return list(found.values())


def _buckets(parameters: Sequence[Tensor], cap: float) -> list[list[tuple[int, Tensor]]]:
    """Parameters with their numbers, by dtype, the last first, up to `cap` bytes a bucket (or one
    parameter that is larger); the first of a dtype has a smaller share. So all ranks have the same
    buckets, whatever they use."""
    open_: dict[Any, list[tuple[int, Tensor]]] = {}
    room: dict[Any, float] = {}  # bytes, of the open ones
    buckets: list[list[tuple[int, Tensor]]] = []
    for i, p in reversed([*enumerate(parameters)]):
        size = p.numel() * p.dtype.np.itemsize
        bucket = open_.get(p.dtype)
        if bucket is None or size > room[p.dtype] or len(bucket) == PARTS:
            room[p.dtype] = cap if bucket is not None else min(cap, FIRST_MB << 20)
            bucket = open_[p.dtype] = []
            buckets.append(bucket)
        bucket.append((i, p))
        room[p.dtype] -= size
    return buckets


def _shown(parameter: Any) -> str:
    if parameter is None:
        return "nothing"
    name, shape, dtype = parameter
    return f"{name} of {list(shape)} {dtype}"
