"""Under `distributed.checkpoint`: what programs save -> leaves with their places in the whole.

Objects that have a state (modules, optimizers, schedules, scalers) are given as they are. Of the
tensors of a sharded module, and of those that an optimizer keeps for its parameters, each rank has
a part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from eager.base.dataclass import dataclass
from eager.core.tensor import Tensor
from eager.distributed.checkpoint.leaves import Path, flatten, is_stateful
from eager.distributed.data_parallel import unwrapped
from eager.distributed.optim import ZeroRedundancyOptimizer
from eager.distributed.shards import Shard, shard_of
from eager.optim import Optimizer

Where = Callable[[Path, tuple[int, ...]], Shard | None]  # path and shape of the whole: the part


@dataclass(frozen=True)
class Leaf:
    """A tensor, an array or a plain value; of a sharded tensor, the place of this rank's part.
    `of_object`: what the program gave is an object whose state it is in."""

    path: Path
    value: Any
    shard: Shard | None
    of_object: bool


def leaves_of(value: Any) -> Iterator[Leaf]:
    """The leaves of a value, and of the states in it."""
    for path, leaf in flatten(value):
        if not is_stateful(leaf):
            shard = shard_of(leaf) if isinstance(leaf, Tensor) else None
            yield Leaf(path, leaf, shard, of_object=False)
            continue
        target = unwrapped(leaf)
        beside = _beside_parameters(target)
        own = isinstance(target, ZeroRedundancyOptimizer)
        state = target.own_state_dict() if own else target.state_dict()
        for inner, each in flatten(state):
            shard = None
            if isinstance(each, Tensor):
                shard = shard_of(each) or beside(inner, tuple(each.shape), local=True)
            yield Leaf((*path, *inner), each, shard, of_object=True)


def where_in(target: Any) -> Where:
    """Places of the tensors in the state of `target`, which may not have been made yet."""
    beside = _beside_parameters(target)
    own: dict[Path, Any] = {}
    if not isinstance(target, Optimizer):
        own = {path: v for path, v in flatten(target.state_dict()) if isinstance(v, Tensor)}

    def where(path: Path, shape: tuple[int, ...]) -> Shard | None:
        return shard_of(own[path]) if path in own else beside(path, shape)

    return where


def _beside_parameters(target: Any) -> Callable[..., Shard | None]:
    """State of an optimizer lies where its parameter does, if it has the parameter's shape."""
    parameters: list[Tensor] = []
    if isinstance(target, Optimizer):
        numbered = {id(p): p for g in target.param_groups for p in g["params"]}
        parameters = [*numbered.values()]
    if isinstance(target, ZeroRedundancyOptimizer):
        parameters = target.parts

    def beside(path: Path, shape: tuple[int, ...], *, local: bool = False) -> Shard | None:
        if len(path) < 3 or path[0] != "state" or type(path[1]) is not int or not shape:
            return None
        shard = shard_of(parameters[path[1]]) if path[1] < len(parameters) else None
        if shard is None or shape != (shard.sizes if local else shard.shape):
            return None
        return shard

    return beside
