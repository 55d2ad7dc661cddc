"""`eager.distributed.device_mesh`: ranks as an array with named dimensions. shapes and names -> the
process groups along each dimension.

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    model = DistributedDataParallel(model, device_mesh=mesh["dp"])

A mesh, its slices and what is flattened share one array of ranks and its groups: each is a list of
dimensions, every one of which is one or several dimensions of that array.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from eager.base import dtype as dt
from eager.base.dataclass import dataclass
from eager.construct.interop import tensor
from eager.core.tensor import Tensor
from eager.distributed.groups import (
    ProcessGroup,
    get_rank,
    init_process_group,
    is_initialized,
    new_group,
    require_world,
)

Dims = tuple[int, ...]  # of the array, that are one dimension of a mesh


@dataclass
class _Root:
    """The array of ranks; this rank's coordinate in it, None outside; its groups."""

    ranks: Any
    coordinate: tuple[int, ...] | None
    groups: dict[Dims, ProcessGroup]
    flattened: dict[str, Dims]

    def group(self, dims: Dims) -> ProcessGroup:
        """This rank's group along dimensions, which its ranks make when it is first asked for."""
        if dims not in self.groups:
            chosen = self.row(dims)
            world = require_world()
            everyone = self.coordinate is None or chosen == list(world.ranks)
            self.groups[dims] = world if everyone else new_group(chosen)
        return self.groups[dims]

    def row(self, dims: Dims) -> list[int]:
        """The ranks that differ from this one in these dimensions alone."""
        coordinate = self.coordinate or (0,) * self.ranks.ndim
        at = tuple(slice(None) if d in dims else i for d, i in enumerate(coordinate))
        return [int(r) for r in self.ranks[at].reshape(-1)]


class DeviceMesh:
    """Ranks of the world in an array, with a process group along each dimension.

    `mesh`: the numbers of the ranks, of any shape, each once; every rank gives the same. Its groups
    are made by all its ranks together. `mesh_dim_names` name the dimensions. Ranks that are not in
    it get no groups.

    Raises ValueError for ranks that the world lacks or that are there twice, or another number of
    names than of dimensions; RuntimeError for names that are there twice, and for a device with an
    index."""

    def __init__(
        self,
        device_type: str,
        mesh: Any,
        *,
        mesh_dim_names: Sequence[str] | None = None,
        _init_backend: bool = True,
    ) -> None:
        ranks = np.array(mesh.tolist() if isinstance(mesh, Tensor) else mesh, np.int32)
        if device_type not in ("cpu", "cuda"):
            raise RuntimeError(
                f"DeviceMesh: the device is 'cpu' or 'cuda', without an index; got {device_type!r}"
            )
        if not is_initialized():
            init_process_group()
        known = require_world().ranks
        if len(set(ranks.flat)) != ranks.size or not set(ranks.flat) <= set(known):
            raise ValueError(f"DeviceMesh: ranks 0 to {len(known) - 1}, each once; got {mesh}")
        found = np.argwhere(ranks == get_rank())
        coordinate = tuple(int(i) for i in found[0]) if len(found) else None
        self.device_type = device_type
        self._root = _Root(ranks, coordinate, {}, {})
        self._dims: tuple[Dims, ...] = tuple((d,) for d in range(ranks.ndim))
        self.mesh_dim_names = _names(mesh_dim_names, ranks.ndim)
        if _init_backend and coordinate is not None:
            for dims in self._dims:
                self._root.group(dims)

    def _slice(self, dims: tuple[Dims, ...], names: tuple[str, ...]) -> DeviceMesh:
        made = object.__new__(DeviceMesh)
        made.device_type, made._root = self.device_type, self._root
        made._dims, made.mesh_dim_names = dims, names
        return made

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(math.prod(self._root.ranks.shape[d] for d in dims) for dims in self._dims)

    @property
    def ndim(self) -> int:
        return len(self._dims)

    @property
    def mesh(self) -> Tensor:
        """The ranks of this mesh, or of the slice that this rank lies in."""
        mine = [d for dims in self._dims for d in dims]
        rest = [d for d in range(self._root.ranks.ndim) if d not in mine]
        coordinate = self._root.coordinate or (0,) * self._root.ranks.ndim
        rows = self._root.ranks.transpose(*rest, *mine)[tuple(coordinate[d] for d in rest)]
        return tensor(rows.reshape(self.shape).tolist(), dtype=dt.int32)

    def size(self, mesh_dim: int | None = None) -> int:
        """Number of ranks, along one dimension or in all."""
        return math.prod(self.shape) if mesh_dim is None else self.shape[mesh_dim]

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        """The slice along named dimensions in which this rank lies. Names of what `_flatten` made
        are known, too. KeyError for others, and for another order than the mesh's."""
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if self.mesh_dim_names is None:
            raise RuntimeError("a DeviceMesh without mesh_dim_names has no slices by name")
        if names == self.mesh_dim_names:
            return self
        known = {**self._root.flattened, **dict(zip(self.mesh_dim_names, self._dims, strict=True))}
        for name in names:
            if name not in known:
                raise KeyError(f"{name!r} is no dimension of {self!r}: it has {[*known]}")
        dims = tuple(known[name] for name in names)
        order = [d for each in dims for d in each]
        if len(set(order)) != len(order):
            raise RuntimeError(f"dimensions {names} of {self!r} have ranks in common")
        if order != sorted(order):
            raise KeyError(f"{names} are not in the order of {self!r}")
        return self._slice(dims, names)

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """All dimensions as one, by a name (default: theirs, with "_" between) that the whole mesh
        knows from then on. Every rank calls it."""
        if self.mesh_dim_names is None:
            raise RuntimeError("a DeviceMesh without mesh_dim_names is not flattened")
        name = mesh_dim_name or "_".join(self.mesh_dim_names)
        if self.ndim == 1 and self.mesh_dim_names == (name,):
            return self
        dims = tuple(d for each in self._dims for d in each)
        if self._root.flattened.setdefault(name, dims) != dims or name in self.mesh_dim_names:
            raise ValueError(f"{name!r} is a dimension of {self!r} already: give another name")
        if self._root.coordinate is not None:
            self._root.group(dims)
        return self._slice((dims,), (name,))

    def _at(self, mesh_dim: int | str | None) -> Dims:
        """A dimension, by its number or name; the only one, where none is given."""
        if mesh_dim is None:
            if self.ndim != 1:
                raise RuntimeError(
                    f"{self!r} has {self.ndim} dimensions: give mesh_dim, or ask get_all_groups()"
                )
            return self._dims[0]
        if not isinstance(mesh_dim, str):
            return self._dims[mesh_dim]
        if self.mesh_dim_names is not None and mesh_dim in self.mesh_dim_names:
            return self._dims[self.mesh_dim_names.index(mesh_dim)]
        if mesh_dim in self._root.flattened:
            return self._root.flattened[mesh_dim]
        raise KeyError(f"{mesh_dim!r} is no dimension of {self!r}")

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """The process group along a dimension, by its number or name (of one: the only one).
        RuntimeError on a rank outside of the mesh."""
        if self._root.coordinate is None:
            raise RuntimeError(f"rank {get_rank()} is not in {self!r}: it has no groups there")
        return self._root.group(self._at(mesh_dim))

    def get_all_groups(self) -> list[ProcessGroup]:
        """The groups along all dimensions."""
        return [self.get_group(i) for i in range(self.ndim)]

    def get_rank(self) -> int:
        """This process's number in the world."""
        return get_rank()

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """This process's number in the group along a dimension."""
        return self.get_group(mesh_dim).rank()

    def get_coordinate(self) -> tuple[int, ...] | None:
        """This rank's coordinates in the mesh; None outside."""
        coordinate, sizes = self._root.coordinate, self._root.ranks.shape
        if coordinate is None:
            return None
        found = []
        for dims in self._dims:
            at = 0
            for d in dims:
                at = at * sizes[d] + coordinate[d]
            found.append(at)
        return tuple(found)

    @staticmethod
    def from_group(
        group: Any,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
    ) -> DeviceMesh:
        """A mesh whose groups there are already: of one dimension, or with a group for each
        dimension of `mesh`, the ranks. ValueError where groups and ranks do not fit."""
        groups = [group] if isinstance(group, ProcessGroup) else list(group)
        if mesh is None and len(groups) == 1:
            mesh = groups[0].ranks
        if mesh is None:
            raise ValueError("DeviceMesh.from_group: several groups need mesh, the array of ranks")
        made = DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _init_backend=False)
        root = made._root
        if made.ndim != len(groups) or any(
            sorted(root.row((d,))) != list(g.ranks) for d, g in enumerate(groups)
        ):
            raise ValueError(f"DeviceMesh.from_group: {groups} are not the groups of {made!r}")
        root.groups.update({(d,): g for d, g in enumerate(groups)})
        return made

    def _key(self) -> Any:
        ranks = self._root.ranks
        named = (self.device_type, self.mesh_dim_names)
        return ranks.shape, ranks.tobytes(), self._root.coordinate, self._dims, named

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceMesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        named = self.mesh_dim_names
        sizes = self.shape
        each = sizes if named is None else [f"{n}={k}" for n, k in zip(named, sizes, strict=True)]
        return f"DeviceMesh(({', '.join(map(str, each))}), {self.device_type!r})"


def _names(names: Sequence[str] | None, ndim: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    if len(names) != ndim:
        raise ValueError(f"mesh_dim_names: {ndim} names, one a dimension; got {tuple(names)}")
    if len(set(names)) != ndim:
        raise RuntimeError(f"mesh_dim_names: each name once, got {tuple(names)}")
    return tuple(names)


def init_device_mesh(
    device_type: str, mesh_shape: Sequence[int], *, mesh_dim_names: Sequence[str] | None = None
) -> DeviceMesh:
    """The first ranks of the world, in order, as an array of this shape. Joins the job where
    `init_process_group` was not called. Raises RuntimeError for more ranks than there are, and what
    DeviceMesh raises."""
    if not is_initialized():
        init_process_group()
    count, size = math.prod(mesh_shape), require_world().size()
    if count > size:
        raise RuntimeError(f"init_device_mesh: {tuple(mesh_shape)} is {count} ranks, of {size}")
    ranks = np.arange(count).reshape(tuple(mesh_shape))
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names)
