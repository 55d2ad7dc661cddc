"""`eager.distributed.optim`: an optimizer whose state is spread over the ranks. parameters with
equal gradients -> equal parameters.

ZeRO stage 1 (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
Models", 2020), by whole parameters: each has an owner, which keeps its state, updates it and gives
it to the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from eager.autograd import enable_grad, no_grad
from eager.core.tensor import Tensor
from eager.distributed.collectives import broadcast
from eager.distributed.groups import require_world, resolve
from eager.distributed.objects import gather_object
from eager.ops.move import cat
from eager.optim import Optimizer


class ZeroRedundancyOptimizer(Optimizer):
    """`optimizer_class(params, **defaults)`, of which each rank holds a part of the state.

    Gradients are equal on all ranks when `step` is called, as `DistributedDataParallel` leaves
    them. Parameters go, the largest first, to the rank that has least. `state_dict()` is that of
    `optimizer_class` over all parameters, on the rank to which `consolidate_state_dict` brought
    it last.

    Raises ValueError where there are fewer parameters than ranks; NotImplementedError for
    `overlap_with_ddp`."""

    def __init__(
        self,
        params: Any,
        optimizer_class: Callable[..., Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError("ZeroRedundancyOptimizer: overlap_with_ddp is not there")
        group = require_world() if process_group is None else resolve(process_group)
        if group is None:
            raise ValueError("ZeroRedundancyOptimizer: this rank is not in its process_group")
        self.process_group = group
        super().__init__(params, defaults)
        everything = [p for g in self.param_groups for p in g["params"]]
        self._owned = _shares(everything, group.size())
        mine = {id(p) for p in self._owned[group.rank()]}
        self.optim = optimizer_class(
            [{**g, "params": [p for p in g["params"] if id(p) in mine]} for g in self.param_groups],
            **defaults,
        )
        for own, shared in zip(self.optim.param_groups, self.param_groups, strict=True):
            for name, value in own.items():
                shared.setdefault(name, value)
        self._consolidated: dict[int, Any] | None = None

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters before the first step, by the constructor; NotImplementedError later."""
        if hasattr(self, "optim"):
            raise NotImplementedError(
                "ZeroRedundancyOptimizer: groups are given to the constructor; make a new one"
            )
        super().add_param_group(param_group)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update what this rank owns, and get the rest from the other ranks."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for own, shared in zip(self.optim.param_groups, self.param_groups, strict=True):
            own.update({name: value for name, value in shared.items() if name != "params"})
        self.optim.step()
        with no_grad():
            for owner, parameters in enumerate(self._owned):
                self._share(owner, parameters)
        return loss

    def _share(self, owner: int, parameters: list[Tensor]) -> None:
        """Give the parameters of a rank to all, those of one dtype as one vector."""
        for dtype in dict.fromkeys(p.dtype for p in parameters):
            alike = [p for p in parameters if p.dtype is dtype]
            flat = cat([p.detach().reshape(-1) for p in alike])
            broadcast(flat, None, self.process_group, group_src=owner)
            if owner != self.process_group.rank():
                for p, part in zip(alike, flat.split([p.numel() for p in alike]), strict=True):
                    p.copy_(part.view_as(p))

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Bring all state to a rank of the group. Every rank calls it."""
        state = self.own_state_dict()["state"]
        is_target = self.process_group.rank() == to
        each: list[Any] | None = [None] * self.process_group.size() if is_target else None
        gather_object(state, each, None, self.process_group, group_dst=to)
        self._consolidated = None
        if each is not None:
            merged = {i: values for part in each for i, values in part.items()}
            self._consolidated = {i: merged[i] for i in sorted(merged)}

    def own_state_dict(self) -> dict[str, Any]:
        """The settings of all parameters, and the state of those that this rank owns."""
        numbers = self._numbers()
        mine = [numbers[id(p)] for g in self.optim.param_groups for p in g["params"]]
        state = {mine[i]: values for i, values in self.optim.state_dict()["state"].items()}
        return {**super().state_dict(), "state": state}

    def state_dict(self) -> dict[str, Any]:
        """The state of all parameters. RuntimeError where `consolidate_state_dict` did not bring
        it."""
        if self._consolidated is None:
            raise RuntimeError(
                "ZeroRedundancyOptimizer: the state is spread over the ranks; call "
                "consolidate_state_dict(to=rank) on all of them first, and state_dict() on that one"
            )
        return {**super().state_dict(), "state": self._consolidated}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take settings, and the state of what this rank owns, from the dict of all parameters."""
        super().load_state_dict({**state_dict, "state": {}})
        numbers = self._numbers()
        mine = [numbers[id(p)] for g in self.optim.param_groups for p in g["params"]]
        own = self.optim.state_dict()
        state = state_dict["state"]
        own["state"] = {i: state[n] for i, n in enumerate(mine) if n in state}
        self.optim.load_state_dict(own)

    def _numbers(self) -> dict[int, int]:
        everything = (p for g in self.param_groups for p in g["params"])
        return {id(p): i for i, p in enumerate(everything)}


def _shares(parameters: Iterable[Tensor], ranks: int) -> list[list[Tensor]]:
    """The parameters that each rank owns."""
    shares: list[list[Tensor]] = [[] for _ in range(ranks)]
    held = [0] * ranks
    for p in sorted(parameters, key=lambda p: -p.numel()):
        least = held.index(min(held))
        shares[least].append(p)
        held[least] += p.numel()
    if not all(shares):
        raise ValueError(f"ZeroRedundancyOptimizer: {ranks} ranks, and fewer parameters than that")
    return shares
