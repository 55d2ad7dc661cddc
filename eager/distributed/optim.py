"""`eager.distributed.optim`: an optimizer whose state is spread over the ranks. parameters and
gradients -> parameters, equal on all ranks.

ZeRO stage 1 (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
Models", 2020): each rank updates its rows of every parameter, and gets the others'. Of an optimizer
that looks at whole matrices each parameter has an owner, which updates it and gives it to the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from eager.autograd import enable_grad, no_grad
from eager.base.tree import mapped
from eager.core.dispatch import tracing
from eager.core.tensor import Tensor
from eager.distributed.collectives import broadcast
from eager.distributed.groups import ProcessGroup, require_agreement, resolve
from eager.distributed.objects import gather_object
from eager.distributed.shards import Spread, full_tensor, placed_as, rows_as
from eager.nn.parameter import Parameter
from eager.nn.utils.clip import clip_grad_norm_
from eager.ops.create import empty
from eager.ops.move import cat
from eager.optim import Optimizer


class _Rows:
    """Each rank's rows of all parameters, which lie in the parameters while they are `opened` (one
    without dimensions is whole on each rank)."""

    def __init__(self, parameters: Sequence[Tensor], group: ProcessGroup, reduces: bool) -> None:
        self.parameters, self.reduces = parameters, reduces
        self.spread = Spread(parameters, group)
        self.own = [Parameter(empty(0, dtype=p.dtype), p.requires_grad) for p in parameters]
        for i, own in enumerate(self.own):
            self.spread.mark(i, own)

    @contextmanager
    def opened(self) -> Iterator[None]:
        closed = [own.data for own in self.own]
        for i, (own, p) in enumerate(zip(self.own, self.parameters, strict=True)):
            own.data = self.spread.rows_here(i, p.detach())
        try:
            yield
        finally:
            for own, nothing in zip(self.own, closed, strict=True):
                own.grad, own.data = None, nothing

    def begin(self) -> None:
        """Give the rows their gradients."""
        grads: list[Any] = [p.grad for p in self.parameters]
        if self.reduces:
            unused = [i for i, p in enumerate(self.parameters) if p.requires_grad and not _has(p)]
            if unused and not tracing():
                what = f"a step without gradients of the parameters {unused}"
                require_agreement(self.spread.group, what)
            grads = self.spread.reduce(grads)
        for i, (own, g) in enumerate(zip(self.own, grads, strict=True)):
            own.grad = g if g is None or self.reduces else self.spread.rows_here(i, g)

    def end(self) -> None:
        """Give each rank the others' rows."""
        pairs = zip(self.own, self.parameters, strict=True)
        rows = [own if p.requires_grad or own.grad is not None else None for own, p in pairs]
        for i, whole in self.spread.gather(rows):
            self.parameters[i].copy_(whole)


def _has(parameter: Tensor) -> bool:
    return parameter.grad is not None


class _Owners:
    """The parameters, each on the rank that updates it; the largest first, to the rank that has
    least."""

    def __init__(self, parameters: Sequence[Tensor], group: ProcessGroup) -> None:
        self.group = group
        self.shares = _shares(parameters, group.size())
        mine = {id(p) for p in self.shares[group.rank()]}
        self.own = [p if id(p) in mine else None for p in parameters]

    def opened(self) -> AbstractContextManager[None]:
        return nullcontext()

    def begin(self) -> None:
        """Nothing: gradients are equal on all ranks."""

    def end(self) -> None:
        for owner, parameters in enumerate(self.shares):
            self._share(owner, parameters)

    def _share(self, owner: int, parameters: list[Tensor]) -> None:
        """Give the parameters of a rank to all, those of one dtype as one vector."""
        for dtype in dict.fromkeys(p.dtype for p in parameters):
            alike = [p for p in parameters if p.dtype is dtype]
            flat = cat([p.detach().reshape(-1) for p in alike])
            broadcast(flat, None, self.group, group_src=owner)
            if owner != self.group.rank():
                for p, part in zip(alike, flat.split([p.numel() for p in alike]), strict=True):
                    p.copy_(part.view_as(p))


class ZeroRedundancyOptimizer(Optimizer):
    """`optimizer_class(params, **defaults)`, of which each rank holds a part of the state: that of
    its rows (of dimension 0) of each parameter, or that of some parameters where the class does not
    say that it updates each element for itself (`by_element`), as the library's do.

    Gradients are equal on all ranks when `step` is called, as `DistributedDataParallel` leaves
    them. With `reduce_gradients` they are each rank's own, of models of equal parameters without
    `DistributedDataParallel`: `step` averages those of its rows, which moves less, and scales them
    so that the norm of all is at most `max_norm`, if it is given (`total_norm` is what it was).
    `state_dict()` is that of `optimizer_class` over all parameters, on the rank to which
    `consolidate_state_dict` brought it last; `own_state_dict()` is this rank's part.

    Raises ValueError for sharded parameters, for `reduce_gradients` or fewer parameters than ranks
    of a class that is not `by_element`, and for `max_norm` without `reduce_gradients`;
    NotImplementedError for `overlap_with_ddp`."""

    def __init__(
        self,
        params: Any,
        optimizer_class: Callable[..., Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        *,
        reduce_gradients: bool = False,
        max_norm: float | None = None,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError("ZeroRedundancyOptimizer: overlap_with_ddp is not there")
        group = resolve(process_group)
        if group is None:
            raise ValueError("ZeroRedundancyOptimizer: this rank is not in its process_group")
        self.process_group = group
        super().__init__(params, defaults)
        everything = [*{id(p): p for g in self.param_groups for p in g["params"]}.values()]
        if any(p._shard is not None for p in everything):
            raise ValueError("ZeroRedundancyOptimizer: the parameters are sharded already")
        self.by_rows: bool = getattr(optimizer_class, "by_element", None) is True
        if reduce_gradients and not self.by_rows:
            raise ValueError(
                "ZeroRedundancyOptimizer: reduce_gradients needs an optimizer that updates each "
                "element for itself, as AdamW does; if yours does so, say by_element = True in its "
                "class"
            )
        if max_norm is not None and not reduce_gradients:
            raise ValueError(
                "ZeroRedundancyOptimizer: max_norm is for reduce_gradients; else the gradients are "
                "there before step(): call nn.utils.clip_grad_norm_"
            )
        self.max_norm = max_norm
        self.total_norm: Tensor | None = None
        for p in everything:
            if reduce_gradients:
                p._unreduced = group
            elif p._unreduced is not None:
                p._unreduced = None
        if self.by_rows:
            self._how: Any = _Rows(everything, group, reduce_gradients)
        else:
            self._how = _Owners(everything, group)
        self.parts = self._how.own if self.by_rows else everything
        own = {id(p): mine for p, mine in zip(everything, self._how.own, strict=True)}
        groups = [{**g, "params": [own[id(p)] for p in g["params"]]} for g in self.param_groups]
        for g in groups:
            g["params"] = [p for p in g["params"] if p is not None]
        with self._how.opened():
            self.optim = optimizer_class(groups, **defaults)
        for mine, shared in zip(self.optim.param_groups, self.param_groups, strict=True):
            for name, value in mine.items():
                shared.setdefault(name, value)
        self._consolidated: dict[int, Any] | None = None

    def __deepcopy__(self, memo: Any) -> Any:
        raise RuntimeError(
            "a ZeroRedundancyOptimizer is not copied: it shares its state with other ranks. Make "
            "another one, and give it this one's consolidated state_dict()"
        )

    __reduce_ex__ = __deepcopy__  # pickles neither

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters before the first step, by the constructor; NotImplementedError later."""
        if hasattr(self, "optim"):
            raise NotImplementedError(
                "ZeroRedundancyOptimizer: groups are given to the constructor; make a new one"
            )
        super().add_param_group(param_group)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update this rank's part, and get the rest from the other ranks."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for own, shared in zip(self.optim.param_groups, self.param_groups, strict=True):
            own.update({name: value for name, value in shared.items() if name != "params"})
        with self._how.opened(), no_grad():
            self._how.begin()
            if self.max_norm is not None:
                self.total_norm = clip_grad_norm_(self._how.own, self.max_norm)
            self.optim.step()
            self._how.end()
        return loss

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Bring all state to a rank of the group. Every rank calls it."""
        state, is_target = self.own_state_dict()["state"], self.process_group.rank() == to
        self._consolidated = None
        if self.by_rows:

            def gathered(value: Any) -> Any:
                if not isinstance(value, Tensor):
                    return value
                found = value.clone() if value._shard is None else full_tensor(value)
                return found if is_target else None  # each is freed before the next is gathered

            found = mapped(gathered, state)
            self._consolidated = found if is_target else None
            return
        each: list[Any] | None = [None] * self.process_group.size() if is_target else None
        gather_object(state, each, None, self.process_group, group_dst=to)
        if each is not None:
            merged = {i: values for part in each for i, values in part.items()}
            self._consolidated = {i: merged[i] for i in sorted(merged)}

    def own_state_dict(self) -> dict[str, Any]:
        """The settings of all parameters, and the state that this rank has: of its rows, whose
        place `shard_of` knows, or of the parameters that it owns."""
        mine, state = self._own_numbers(), {}
        for i, values in self.optim.state_dict()["state"].items():
            number = mine[i]
            state[number] = mapped(partial(placed_as, self.parts[number]), values)
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
        """Take settings, and the state of this rank's part, from the dict of all parameters, or
        from one that has this rank's part alone."""
        super().load_state_dict({**state_dict, "state": {}})
        own, state = self.optim.state_dict(), state_dict["state"]
        own["state"] = {
            i: mapped(partial(_own_part, self.parts[n]), state[n])
            for i, n in enumerate(self._own_numbers())
            if n in state
        }
        with self._how.opened():
            self.optim.load_state_dict(own)

    def _own_numbers(self) -> list[int]:
        """Numbers, among all parameters, of those that the inner optimizer has."""
        return [i for i, p in enumerate(self._how.own) if p is not None]


def _own_part(own: Tensor, value: Any) -> Any:
    """State of this rank, from that of a whole parameter; the whole is not kept for it."""
    part = rows_as(own, value)
    return value if part is value else part.clone()


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
