"""`eager.distributed.fsdp`: parameters, gradients and state spread over the ranks. a module -> the
module, whose parameters are this rank's rows of them.

    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    opt = eager.optim.AdamW(model.parameters())

ZeRO stage 3 (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
Models", 2020), as PyTorch's `fully_shard` names it. The parameters of a call that no module below
has are one unit: they are gathered when the module is called, and freed behind it. A derivative
that needs one reads it from a second gathering, as the tape keeps the rows alone; when the last of
them is done the gradients are reduced, and each rank keeps those of its rows. All of that are
operations as any other: under `@jit` they are nodes of the step's graph.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from eager.autograd import is_grad_enabled, no_grad
from eager.autograd.function import Function, once_differentiable
from eager.autograd.graph import remade
from eager.base.dataclass import dataclass
from eager.base.dtype import DType
from eager.base.stub_modules import Absent, absent
from eager.base.tree import mapped
from eager.core.dispatch import tracing
from eager.core.tensor import Tensor
from eager.distributed.groups import ProcessGroup, require_agreement, resolve
from eager.distributed.shards import Spread, marked, shard_of
from eager.distributed.work import Work
from eager.nn.modules import ModuleDict, ModuleList
from eager.nn.modules.module import Module
from eager.nn.parameter import Parameter
from eager.nn.utils.clip import clip_grad_norm_

M = TypeVar("M", bound=Module)
_WHY = "fully_shard(module, mp_policy=) spreads parameters; there is no other way of it"
(
    BackwardPrefetch, CPUOffload, CPUOffloadPolicy, FullStateDictConfig, FullyShardedDataParallel,
    MixedPrecision, OffloadPolicy, ShardedStateDictConfig, ShardingStrategy, StateDictType,
) = (
    Absent(f"distributed.fsdp.{name}", _WHY)
    for name in (
        "BackwardPrefetch", "CPUOffload", "CPUOffloadPolicy", "FullStateDictConfig",
        "FullyShardedDataParallel", "MixedPrecision", "OffloadPolicy", "ShardedStateDictConfig",
        "ShardingStrategy", "StateDictType",
    )
)  # fmt: skip
wrap = absent("distributed.fsdp.wrap", _WHY, "")
__path__: list[str] = []  # PyTorch has modules below


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Types of a sharded module's work; None: those that its parameters have.

    Parameters are gathered as `param_dtype`, and floating arguments of the module become it
    (`cast_forward_inputs`); gradients are reduced as `reduce_dtype` (default: what they are), and
    added in the parameter's own type; floating results become `output_dtype`."""

    param_dtype: DType | None = None
    reduce_dtype: DType | None = None
    output_dtype: DType | None = None
    cast_forward_inputs: bool = True


class _Gather(Function):
    """The whole parameters of a unit, from each rank's rows; backward, the rows' gradients."""

    @staticmethod
    def forward(ctx: Any, unit: Unit, *rows: Tensor) -> Any:
        ctx.unit, ctx.whole = unit, None
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*rows)
        whole = unit.gather(rows)
        if unit.frees:

            def again(i: int) -> Tensor:
                saved = ctx.saved_tensors  # an error if they were written since
                if ctx.whole is None:
                    with no_grad():
                        ctx.whole = unit.gather(saved)
                return ctx.whole[i]

            whole = tuple(remade(w, functools.partial(again, i)) for i, w in enumerate(whole))
        learned = zip(whole, ctx.needs_input_grad[1:], strict=True)
        ctx.mark_non_differentiable(*(w for w, needs in learned if not needs))
        return whole

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        ctx.whole = None
        return None, *ctx.unit.reduce(grads)


class Unit:
    """Parameters that are gathered together, and what is done with them.

    `holders`: for each of them the modules, and names there, whose it is. `frees`: whether the
    whole ones are freed between forward and backward."""

    def __init__(
        self,
        names: Sequence[str],
        parameters: Sequence[Parameter],
        holders: Sequence[Sequence[tuple[Module, str]]],
        group: ProcessGroup,
        policy: MixedPrecisionPolicy,
        frees: bool,
    ) -> None:
        self.names, self.parameters, self.holders = names, parameters, holders
        self.group, self.policy, self.frees = group, policy, frees
        self.spread = Spread(parameters, group)
        self.syncs = True
        self.running = False
        self.whole: Any = None  # the whole parameters, while the module has them
        self.made_of: list[Any] = []  # `state()` then, if they were made by hand
        self.pending: list[Tensor | None] | None = None  # gradients that wait for a reduction
        for i, p in enumerate(parameters):
            p.data = self.spread.rows_here(i, p.data).clone()
            self.spread.mark(i, p)

    # -------------------------------------------------------------------------- parameters
    def put(self, tensors: Sequence[Tensor]) -> None:
        """Give the modules these as their parameters."""
        for tensor, holders in zip(tensors, self.holders, strict=True):
            for module, name in holders:
                module._parameters[name] = tensor

    def unshard(self) -> None:
        self.whole = _Gather.apply(self, *self.parameters)
        self.put(self.whole)

    def reshard(self) -> None:
        self.whole = None
        self.put(self.parameters)

    def state(self) -> list[Any]:
        """Values by which one sees that whole parameters are those that a call would gather."""
        return [is_grad_enabled(), *(p._version for p in self.parameters)]

    def gather(self, rows: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The whole parameters of all ranks' rows."""
        found = dict(self.spread.gather(rows, self.policy.param_dtype))
        return tuple([found[i] for i in range(len(rows))])

    # --------------------------------------------------------------------------- gradients
    def reduce(self, grads: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Gradients of the rows, from those of the whole parameters here: averaged over the
        ranks. Without `syncs` they wait for the next ones."""
        if self.pending is not None:
            grads = [_sum(a, b) for a, b in zip(self.pending, grads, strict=True)]
            self.pending = None
        if not self.syncs:
            self.pending = [g if g is None else g.detach() for g in grads]
            return [None] * len(grads)
        each = zip(self.names, self.parameters, grads, strict=True)
        unused = [name for name, p, g in each if g is None and p.requires_grad]
        if unused and not tracing():
            require_agreement(self.group, f"a backward without {', '.join(unused)}")
        return self.spread.reduce(grads, self.policy.reduce_dtype)


def _sum(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    if a is None or b is None:
        return b if a is None else a
    return a + b


class FSDPModule:
    """Base class of modules under `fully_shard`, beside the class that they have been."""

    _fsdp: Unit

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        unit, call = self._fsdp, super().__call__  # type: ignore[misc]
        policy = unit.policy
        if policy.param_dtype is not None and policy.cast_forward_inputs:
            args, kwargs = _cast((args, kwargs), policy.param_dtype)
        nested, unit.running = unit.running, True
        try:
            if unit.whole is None or not (nested or unit.made_of == unit.state()):
                unit.unshard()
            result = call(*args, **kwargs)
        finally:
            unit.running = nested
            if not nested:
                unit.reshard()
        return result if policy.output_dtype is None else _cast(result, policy.output_dtype)

    def unshard(self, async_op: bool = False) -> Work | None:
        """Gather the parameters of this module's unit: its attributes are the whole ones until
        `reshard()`, or the end of its next call. What is written to them is lost. The handle of
        `async_op` is done."""
        unit = self._fsdp
        unit.unshard()
        unit.made_of = unit.state()
        return Work(None, unit.group, "") if async_op else None

    def reshard(self) -> None:
        """Free the whole parameters: the module has its rows again."""
        self._fsdp.reshard()

    def set_requires_gradient_sync(
        self, requires_gradient_sync: bool, *, recurse: bool = True
    ) -> None:
        """Set whether backward reduces gradients (True), or adds them up on each rank, whole, for
        the next one that does. `recurse`: also in the sharded modules below."""
        for unit in _units(self) if recurse else (self._fsdp,):
            unit.syncs = requires_gradient_sync

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Set whether the whole parameters are freed between forward and backward."""
        for unit in _units(self) if recurse else (self._fsdp,):
            unit.frees = reshard_after_forward

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scale the gradients so that their norm, over all ranks, is at most `max_norm`. Returns
        the norm before."""
        return clip_grad_norm_(self.parameters(), max_norm, norm_type)  # type: ignore[attr-defined]

    def __deepcopy__(self, memo: Any) -> Any:
        raise RuntimeError(
            f"a {type(self).__name__} is not copied: it shares its parameters with other ranks. "
            "Make another model, and give it this one's state_dict()"
        )

    __reduce_ex__ = __deepcopy__  # pickles neither


def _units(module: Any) -> Iterator[Unit]:
    for each in module.modules():
        if isinstance(each, FSDPModule):
            yield each._fsdp


def _cast(values: Any, dtype: DType) -> Any:
    """Floating tensors of a tree in another type."""

    def cast(x: Any) -> Any:
        return x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x

    return mapped(cast, values)


@functools.cache
def _class(before: type[Module]) -> type[Module]:
    world = {"__module__": before.__module__}
    return type(f"FSDP{before.__name__}", (FSDPModule, before), world)


def fully_shard(
    module: M,
    *,
    mesh: Any = None,
    reshard_after_forward: bool = True,
    mp_policy: MixedPrecisionPolicy | None = None,
    ignored_params: Iterable[Parameter] | None = None,
) -> M:
    """The module itself, of whose parameters this rank keeps rows (of dimension 0), of class
    `FSDP...` and an `FSDPModule`.

    Called for layers first and for the model last: a call shards what the calls for modules below
    have left. Parameters stay the objects that they are; optimizers are made after. `mesh`
    (default: all ranks): a `DeviceMesh` of one dimension or a process group.
    `reshard_after_forward`: whether whole parameters are freed behind the forward and gathered
    again for the backward. `ignored_params` stay whole.

    All ranks give modules of equal shapes, and call them in one order. Raises ValueError for a
    list or dictionary of modules, a module that is sharded already, a parameter without dimensions
    or one that a sharded module has, too, and where this rank is not in the mesh."""
    if isinstance(module, FSDPModule):
        what = type(module).__name__
        raise ValueError(f"fully_shard: this {what} is sharded already")  # noqa: TRY004
    if isinstance(module, ModuleList | ModuleDict) or type(module).forward is Module.forward:
        raise ValueError(
            f"fully_shard: a {type(module).__name__} is not called itself; shard the modules in it"
        )
    group = _group_of(mesh)
    names, holders = _own_parameters(module, ignored_params or ())
    parameters = [owners[0][0]._parameters[owners[0][1]] for owners in holders]
    policy = mp_policy or MixedPrecisionPolicy()
    unit = Unit(names, parameters, holders, group, policy, reshard_after_forward)
    module.__class__ = _class(type(module))  # type: ignore[assignment, arg-type]
    module._fsdp = unit
    module.register_state_dict_post_hook(_give_rows)
    return module


def _group_of(mesh: Any) -> ProcessGroup:
    if hasattr(mesh, "get_group"):
        if mesh.ndim != 1:
            raise ValueError(f"fully_shard: a mesh of one dimension is needed, got {mesh}")
        mesh = mesh.get_group()
    group = resolve(mesh)
    if group is None or group.rank() < 0:
        raise ValueError("fully_shard: this rank is not in its mesh")
    return group


def _own_parameters(
    module: Module, ignored: Iterable[Parameter]
) -> tuple[list[str], list[list[tuple[Module, str]]]]:
    """The parameters that no sharded module below has: their names and holders."""
    skip = {id(p) for p in ignored}
    found: dict[int, tuple[str, list[tuple[Module, str]]]] = {}

    def look(at: Module, prefix: str) -> None:
        for name, p in at._parameters.items():
            if p is None or id(p) in skip:
                continue
            if shard_of(p) is not None:
                raise ValueError(
                    f"fully_shard: {prefix}{name} is a parameter of a sharded module, too: give "
                    "both modules to one call, that of a module around them"
                )
            if not p.ndim:
                raise ValueError(
                    f"fully_shard: {prefix}{name} has no dimensions, and no rows to share: make it "
                    "one of size 1"
                )
            found.setdefault(id(p), (prefix + name, []))[1].append((at, name))
        for name, child in at._modules.items():
            if child is not None and not isinstance(child, FSDPModule):
                look(child, f"{prefix}{name}.")

    look(module, "")
    return [name for name, _ in found.values()], [holders for _, holders in found.values()]


def _give_rows(module: Any, state: dict[str, Any], prefix: str, about: Any) -> None:
    """Put the rows of this rank, which say where they lie, into a state, whatever the module has
    for parameters now."""
    unit = module._fsdp
    named = {id(m): f"{prefix}{n}." if n else prefix for n, m in module.named_modules()}
    for rows, shard, holders in zip(unit.parameters, unit.spread.shards, unit.holders, strict=True):
        for owner, name in holders:
            key = named[id(owner)] + name
            if key in state and state[key] is not rows:
                state[key] = marked(rows.detach(), shard)
