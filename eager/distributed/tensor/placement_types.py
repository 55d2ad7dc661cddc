"""At the edge: how parts of a tensor would lie on the ranks of one dimension of a mesh."""

from __future__ import annotations

from eager.base.dataclass import dataclass


@dataclass(frozen=True)
class Placement:
    """A layout along one dimension of a mesh."""

    def is_shard(self, dim: int | None = None) -> bool:
        """True if each rank has a part, along dimension `dim` if one is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """True if each rank has the whole."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """True if the whole is the sum, or what `reduce_op` says, of what the ranks have."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Each rank has a part along dimension `dim`."""

    dim: int


@dataclass(frozen=True)
class _StridedShard(Shard):
    """Each rank has one piece of each of `split_factor` parts along `dim`."""

    split_factor: int = 1


@dataclass(frozen=True)
class Replicate(Placement):
    """Each rank has the whole."""


@dataclass(frozen=True)
class Partial(Placement):
    """The whole is the sum, or what `reduce_op` says, of what the ranks have."""

    reduce_op: str = "sum"
