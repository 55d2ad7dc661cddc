"""Sparse tensors: how they are made. places and values, dense tensors -> sparse ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eager.base import dtype as dt
from eager.base.compat_warnings import ignore
from eager.construct.interop import as_tensor
from eager.core.dispatch import must_hold
from eager.core.registry import public
from eager.core.tensor import Tensor
from eager.ops.create import arange, zeros
from eager.ops.search_and_count import searchsorted
from eager.ops.view import as_ints
from eager.sparse.tensor import CSC, CSR, SparseTensor, stacked


@public(method=False)
def sparse_coo_tensor(
    indices: Any,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Any:
    """`values` (N, *E) at `indices` (D, N), zeros elsewhere. Without values an empty one of the
    size that is given first. Raises RuntimeError for places that are not there."""
    ignore("sparse_coo_tensor", pin_memory=pin_memory)
    del check_invariants  # they are always checked: see below
    if values is None:
        shape = as_ints((indices,))
        places = zeros(len(shape), 0, dtype=dt.int64, device=device)
        return SparseTensor(places, zeros(0, dtype=dtype, device=device), shape, True)
    entries = as_tensor(values, dtype=dtype, device=device)
    places = as_tensor(indices, dtype=dt.int64, device=entries.device)
    if places.ndim != 2 or not entries.ndim or places.shape[1] != entries.shape[0]:
        raise RuntimeError(
            f"indices (D, N) and values (N, ...) do not fit: {list(places.shape)} and "
            f"{list(entries.shape)}"
        )
    if size is None:
        ends = (places.max(1).values + 1).tolist() if places.shape[1] else [0] * places.shape[0]
        size = (*ends, *entries.shape[1:])
    shape = as_ints((size,))
    if len(shape) != places.shape[0] + entries.ndim - 1 or shape[places.shape[0] :] != tuple(
        entries.shape[1:]
    ):
        raise RuntimeError(
            f"size {list(shape)} does not fit {places.shape[0]} rows of indices and values of "
            f"shape {list(entries.shape)}"
        )
    for d, row in enumerate(places if places.shape[1] else ()):
        what = f"size is inconsistent with indices: for dim {d}, size is {shape[d]}"
        must_hold(((row >= 0) & (row < shape[d])).all(), what)
    if requires_grad:
        entries = entries.detach().requires_grad_()
    return SparseTensor(places, entries, shape, bool(is_coalesced))


def _by_lines(layout: str, begins: Any, others: Any, values: Any, size: Any, options: Any) -> Any:
    begins, others = (as_tensor(x, dtype=dt.int64) for x in (begins, others))
    name = "crow_indices" if layout == CSR else "ccol_indices"
    must_hold(begins[0] == 0, f"`{name}[..., 0] == 0` is not satisfied.")
    must_hold(begins[-1] == others.shape[0], f"`{name}[..., -1] == nnz` is not satisfied.")
    must_hold((begins.diff() >= 0).all(), f"`{name}` falls: its lines end before they begin.")
    lines = searchsorted(begins, arange(others.shape[0], device=begins.device), right=True) - 1
    rows = (lines, others) if layout == CSR else (others, lines)
    if size is None:
        end = int(others.max()) + 1 if others.shape[0] else 0
        size = (begins.shape[0] - 1, end) if layout == CSR else (end, begins.shape[0] - 1)
    made = sparse_coo_tensor(stacked(rows), values, size, is_coalesced=True, **options)
    return SparseTensor(made._places, made._entries, made.shape, True, layout)


@public(method=False)
def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, **options: Any
) -> Any:
    """A matrix by rows: those of row i are `crow_indices[i]` to `crow_indices[i + 1]`."""
    return _by_lines(CSR, crow_indices, col_indices, values, size, options)


@public(method=False)
def sparse_csc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, **options: Any
) -> Any:
    """A matrix by columns."""
    return _by_lines(CSC, ccol_indices, row_indices, values, size, options)


@public(namespace=False)
def to_sparse(self: Tensor, sparse_dim: int | None = None, *, layout: Any = None) -> Any:
    """The elements that are not zero, by the first `sparse_dim` dimensions (all)."""
    count = self.ndim if sparse_dim is None else sparse_dim
    if not 0 < count <= max(self.ndim, 1):
        raise RuntimeError(f"to_sparse: sparse_dim is 1 to {self.ndim}, got {sparse_dim}")
    kept = self != 0
    for _ in range(self.ndim - count):
        kept = kept.any(-1)
    places = kept.nonzero().t()
    made = SparseTensor(places, self[tuple(places)], self.shape, True)
    return made if layout is None else made._as(layout)


@public(namespace=False)
def to_sparse_coo(self: Tensor) -> Any:
    return to_sparse(self)


@public(namespace=False)
def to_sparse_csr(self: Tensor) -> Any:
    """A matrix, compressed by rows."""
    return to_sparse(self, layout=CSR)


@public(namespace=False)
def to_sparse_csc(self: Tensor) -> Any:
    return to_sparse(self, layout=CSC)


@public(namespace=False)
def sparse_mask(self: Tensor, mask: Any) -> Any:
    """The elements at the places that a sparse tensor keeps."""
    kept = mask.coalesce()
    return kept._with(self[tuple(kept._places)])


@public(namespace=False)
def to_dense(self: Tensor, dtype: Any = None) -> Tensor:
    """Itself: it has all its elements."""
    return self if dtype is None else self.to(dtype)


def _constructor(kind: Any) -> Callable[..., Any]:
    def construct(*args: Any, device: Any = None) -> Any:
        if len(args) < 2:
            return sparse_coo_tensor(args[0] if args else (0,), dtype=kind, device=device)
        return sparse_coo_tensor(*args, dtype=kind, device=device)

    return construct


FloatTensor, DoubleTensor, HalfTensor, IntTensor, LongTensor = map(
    _constructor, (dt.float32, dt.float64, dt.float16, dt.int32, dt.int64)
)
