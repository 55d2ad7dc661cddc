"""Sparse tensors: two tensors, and what is made of them. places, values <-> dense.

`indices` (D, N) has a column for each kept element, `values` is (N, *E). Products, sums and the
rest are `index_select` and `index_add` of them, so gradients (to values, and to dense operands),
devices and `@jit` come with these ops. The layout only says how it is shown and asked:
"sparse_coo", or compressed by rows ("sparse_csr") or columns ("sparse_csc").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from eager.base import dtype as dt
from eager.core.printing import part_text
from eager.core.registry import public
from eager.core.tensor import Tensor
from eager.device import Size
from eager.ops.create import arange, zeros
from eager.ops.move import cat
from eager.ops.search_and_count import searchsorted, unique
from eager.ops.view import norm_dim, norm_dims

COO, CSR, CSC = "eager.sparse_coo", "eager.sparse_csr", "eager.sparse_csc"
_KEEP_ZERO: Final = (
    "abs asin asinh atan ceil deg2rad erf expm1 floor log1p neg rad2deg relu round sgn sign sin "
    "sinh sqrt square tan tanh trunc"
).split()  # functions that are zero at zero
_CASTS: Final = (
    "float double half bfloat16 int long short bool to cuda cpu detach clone type requires_grad_"
).split()  # methods of the values alone


class SparseTensor:
    """A tensor whose other elements are zero. Places may occur several times until `coalesce()`:
    the values of one place are added."""

    is_sparse_csr = property(lambda self: self.layout == CSR)
    is_sparse = property(lambda self: self.layout == COO)
    is_quantized = False

    def __init__(
        self, places: Tensor, entries: Tensor, shape: Any, coalesced: bool, layout: str = COO
    ) -> None:
        self._places, self._entries = places, entries
        self.shape, self.layout, self._sorted = Size(shape), layout, coalesced

    # ---- what it is

    dtype = property(lambda self: self._entries.dtype)
    device = property(lambda self: self._entries.device)
    is_cuda = property(lambda self: self._entries.is_cuda)
    requires_grad = property(lambda self: self._entries.requires_grad)
    is_leaf = property(lambda self: self._entries.is_leaf)
    grad_fn = property(lambda self: self._entries.grad_fn)
    ndim = property(lambda self: len(self.shape))
    T = property(lambda self: self.t())

    @property
    def grad(self) -> SparseTensor | None:
        """The gradient of the values, at the same places."""
        grad = self._entries.grad
        return None if grad is None else self._with(grad)

    def dim(self) -> int:
        return len(self.shape)

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        return math.prod(self.shape)

    def sparse_dim(self) -> int:
        return self._places.shape[0]

    def dense_dim(self) -> int:
        return len(self.shape) - self.sparse_dim()

    def is_coalesced(self) -> bool:
        return self._sorted

    def _nnz(self) -> int:
        return self._entries.shape[0]

    def __len__(self) -> int:
        return self.shape[0]

    def _indices(self) -> Tensor:
        return self._places

    def _values(self) -> Tensor:
        return self._entries

    def indices(self) -> Tensor:
        """(D, N). Raises RuntimeError before `coalesce()`."""
        return self._coalesced("indices")._places

    def values(self) -> Tensor:
        """(N, *E). Raises RuntimeError before `coalesce()`."""
        return self._coalesced("values")._entries

    def crow_indices(self) -> Tensor:
        """Index of the first element of each row, and the end of the last (CSR): (M + 1)."""
        return self._begins("crow_indices", CSR, 0)

    def col_indices(self) -> Tensor:
        return self._compressed("col_indices", CSR)._places[1]

    def ccol_indices(self) -> Tensor:
        """Index of the first element of each column, and the end of the last (CSC): (N + 1)."""
        return self._begins("ccol_indices", CSC, 1)

    def row_indices(self) -> Tensor:
        return self._compressed("row_indices", CSC)._places[0]

    def _begins(self, name: str, layout: str, dim: int) -> Tensor:
        return _begins(self._compressed(name, layout)._places[dim], self.shape[dim])

    def _compressed(self, name: str, layout: str) -> SparseTensor:
        if self.layout != layout:
            raise RuntimeError(f"{name} expected layout {layout}, got {self.layout}")
        return self

    def _coalesced(self, name: str) -> SparseTensor:
        if not self._sorted:
            raise RuntimeError(
                f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first"
            )
        return self

    # ---- into other forms

    def _with(self, entries: Tensor) -> SparseTensor:
        return SparseTensor(self._places, entries, self.shape, self._sorted, self.layout)

    def _zeros(self, count: int) -> Tensor:
        """Zeros for as many kept elements."""
        made: Tensor = self._entries.new_zeros((count, *self._entries.shape[1:]))
        return made

    def coalesce(self) -> SparseTensor:
        """Each place once, in order."""
        if self._sorted:
            return self
        shape = self.shape[: self.sparse_dim()]
        found, which = unique(_flat(self._places, shape), return_inverse=True)
        kept = self._zeros(found.shape[0]).index_add(0, which, self._entries)
        return SparseTensor(_unflat(found, shape), kept, self.shape, True)

    def to_dense(self, dtype: Any = None) -> Tensor:
        """All elements."""
        shape = self.shape[: self.sparse_dim()]
        flat = _flat(self._places, shape)
        whole = self._zeros(math.prod(shape)).index_add(0, flat, self._entries)
        dense: Tensor = whole.reshape(self.shape)
        return dense if dtype is None else dense.to(dtype)

    def to_sparse(self, *, layout: Any = None) -> SparseTensor:
        return self._as(layout or COO)

    to_sparse_coo = lambda self: self._as(COO)
    to_sparse_csr = lambda self: self._as(CSR)
    to_sparse_csc = lambda self: self._as(CSC)

    def _as(self, layout: str) -> SparseTensor:
        """RuntimeError unless what is to be compressed is a matrix."""
        if layout == self.layout:
            return self
        x = self.coalesce()
        if layout != COO and x.sparse_dim() != 2:
            raise RuntimeError(f"{layout} is for matrices, got a tensor of shape {list(x.shape)}")
        places, entries = x._places, x._entries
        if CSC in (layout, self.layout):
            first = 1 if layout == CSC else 0
            order = (places[first] * x.shape[1 - first] + places[1 - first]).argsort()
            places, entries = places[:, order], entries[order]
        return SparseTensor(places, entries, x.shape, True, layout)

    def t(self) -> SparseTensor:
        return self.transpose(0, 1)

    def transpose(self, dim0: int, dim1: int) -> SparseTensor:
        order = list(range(self.ndim))
        a, b = (norm_dim(d, self.ndim, "transpose") for d in (dim0, dim1))
        order[a], order[b] = b, a
        return self.permute(order)

    def permute(self, *dims: Any) -> SparseTensor:
        """Raises RuntimeError where a dimension of the values takes the place of a sparse one."""
        given = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
        order = [norm_dim(d, self.ndim, "permute") for d in given]
        if sorted(order) != list(range(self.ndim)):
            raise RuntimeError(f"permute: {given} is no order of {self.ndim} dimensions")
        count = self.sparse_dim()
        if any(d >= count for d in order[:count]):
            raise RuntimeError("permute: a dimension of the values cannot be moved; to_dense()")
        rows = stacked([self._places[d] for d in order[:count]])
        entries = self._entries.permute(0, *[d - count + 1 for d in order[count:]])
        turned = SparseTensor(rows, entries, [self.shape[d] for d in order], False)
        return turned._as(self.layout) if self.layout != COO else turned

    def __getitem__(self, index: int) -> Any:
        """One slice of the first dimension. Raises IndexError, and TypeError for another index."""
        if not isinstance(index, int):
            raise TypeError(
                "a sparse tensor takes one int as an index; to_dense() takes all others"
            )
        if not -self.shape[0] <= index < self.shape[0]:
            raise IndexError(f"index {index} is out of bounds for size {self.shape[0]}")
        kept = (self._places[0] == index % self.shape[0]).nonzero()[:, 0]
        places, entries = self._places[1:, kept], self._entries[kept]
        if self.sparse_dim() == 1:
            return entries.sum(0)
        return SparseTensor(places, entries, self.shape[1:], self._sorted)

    # ---- arithmetic

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, SparseTensor):
            raise RuntimeError(  # noqa: TRY004 - as PyTorch
                "add(sparse, dense) is not supported. Use add(dense, sparse) instead."
            )
        _same_shape("add", self, other)
        if self._places is other._places:
            return self._with(self._entries + other._entries)
        a, b = self._as(COO), other._as(COO)
        entries = cat([a._entries, b._entries])
        both = SparseTensor(cat([a._places, b._places], 1), entries, self.shape, False)
        return both.coalesce()._as(self.layout) if a._sorted and b._sorted else both

    def __radd__(self, other: Any) -> Tensor:
        if not isinstance(other, Tensor):
            raise RuntimeError(  # noqa: TRY004 - as PyTorch
                "a number is added to all elements: to_dense() first"
            )
        _same_shape("add", other, self)
        total: Tensor = other + self.to_dense()
        return total

    def __sub__(self, other: Any) -> Any:
        return self + -other if isinstance(other, SparseTensor) else self.__add__(other)

    def __rsub__(self, other: Any) -> Tensor:
        return (-self).__radd__(other)

    def __mul__(self, other: Any) -> SparseTensor:
        if isinstance(other, SparseTensor):
            return _product_of_elements(self, other)
        if not isinstance(other, Tensor) or not other.ndim:
            return self._with(self._entries * other)
        return self._with(self._entries * other.expand(self.shape)[tuple(self._places)])

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> SparseTensor:
        if isinstance(other, SparseTensor):
            raise RuntimeError(  # noqa: TRY004 - as PyTorch
                "Sparse division requires a dense divisor: zeros divide"
            )
        if not isinstance(other, Tensor) or not other.ndim:
            return self._with(self._entries / other)
        return self._with(self._entries / other.expand(self.shape)[tuple(self._places)])

    def __pow__(self, exponent: Any) -> SparseTensor:
        if not isinstance(exponent, int | float) or exponent <= 0:
            raise RuntimeError("a power of a sparse tensor is a positive number: 0 ** 0 is 1")
        x = self.coalesce()
        return x._with(x._entries**exponent)

    def __neg__(self) -> SparseTensor:
        return self._with(-self._entries)

    add, sub, mul, div, pow = __add__, __sub__, __mul__, __truediv__, __pow__

    @staticmethod
    def product_with(a: Any, b: Any) -> Any:
        """Result of `eager.mm` and `matmul` for operands of which one is sparse."""
        return mm(a, b)

    def __matmul__(self, other: Any) -> Any:
        return mm(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return mm(other, self)

    matmul = mm = mv = __matmul__

    def sum(self, dim: Any = None, dtype: Any = None) -> Any:
        """Sum of all elements, or along dimensions: sparse while a sparse dimension is left."""
        total = sum(self, () if dim is None else dim)
        return total if dtype is None else total.to(dtype)

    def index_select(self, dim: int, index: Tensor) -> SparseTensor:
        """Slices of a dimension, in the order of `index`."""
        d = norm_dim(dim, self.ndim, "index_select")
        order = self._places[d].argsort()
        which, found = _matches(self._places[d][order], self.shape[d], index)
        kept = order[found]
        places = stacked([which if i == d else p[kept] for i, p in enumerate(self._places)])
        shape = [index.shape[0] if i == d else n for i, n in enumerate(self.shape)]
        return SparseTensor(places, self._entries[kept], shape, False).coalesce()

    # ---- text

    def __repr__(self) -> str:
        if self.layout == COO:
            parts = [("indices", self._places)]
        else:
            names = "crow_indices col_indices" if self.layout == CSR else "ccol_indices row_indices"
            parts = [(name, getattr(self, name)()) for name in names.split()]
        lines = [part_text(name, x) for name, x in (*parts, ("values", self._entries))]
        plain = (dt.get_default_dtype(), dt.default_complex(), dt.int64, dt.bool_)
        dtype = "" if self.dtype in plain else f"dtype={self.dtype}, "
        device = "" if self.device.type == "cpu" else f"device='{self.device}', "
        size = f"size={tuple(self.shape)}, nnz={self._nnz()}, {device}{dtype}layout={self.layout}"
        if self._entries.grad_fn is not None:
            size += f", grad_fn=<{self._entries.grad_fn.name()}>"
        elif self.requires_grad:
            size += ", requires_grad=True"
        return "tensor(" + ",\n       ".join([*lines, size]) + ")"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(Tensor, name):
            raise AttributeError(f"'SparseTensor' object has no attribute {name!r}")
        raise NotImplementedError(f".{name} of a sparse tensor is not there: to_dense() first")

    def __bool__(self) -> bool:
        raise RuntimeError("Boolean value of a sparse tensor is ambiguous: to_dense() first")


def _of_values(name: str, *, alone: bool) -> Callable[..., SparseTensor]:
    def method(self: SparseTensor, *args: Any, **kwargs: Any) -> SparseTensor:
        x = self if alone else self.coalesce()
        entries = getattr(x._entries, name)(*args, **kwargs)
        if entries is x._entries:
            return x
        places = x._places.to(entries.device) if entries.device != x.device else x._places
        return SparseTensor(places, entries, x.shape, x._sorted, x.layout)

    method.__name__, method.__doc__ = name, f"`{name}` of each kept element."
    return method


def unsqueeze(self: SparseTensor, dim: int) -> SparseTensor:
    """Add a dimension of size 1: a sparse one, up to the first of the values."""
    d, count = norm_dim(dim, self.ndim + 1, "unsqueeze"), self.sparse_dim()
    shape = [*self.shape[:d], 1, *self.shape[d:]]
    if d > count:
        entries = self._entries.unsqueeze(d - count + 1)
        return SparseTensor(self._places, entries, shape, self._sorted)
    rows = [*self._places[:d], self._places[0] * 0, *self._places[d:]]
    return SparseTensor(stacked(rows), self._entries, shape, self._sorted)


def norm(self: SparseTensor, p: Any = 2) -> Tensor:
    """The norm of all elements, most of which are zero."""
    total: Tensor = self.coalesce()._entries.norm(p)
    return total


for _fn in (unsqueeze, norm):
    setattr(SparseTensor, _fn.__name__, _fn)
for _name in _CASTS:
    setattr(SparseTensor, _name, _of_values(_name, alone=True))
for _name in _KEEP_ZERO:
    setattr(SparseTensor, _name, _of_values(_name, alone=_name == "neg"))


# ---- places


def _flat(places: Tensor, shape: Sequence[int]) -> Tensor:
    """(D, N) places -> N numbers of elements in row-major order."""
    flat: Any = zeros(places.shape[1], dtype=dt.int64, device=places.device)
    for row, n in zip(places, shape, strict=True):
        flat = flat * n + row
    return flat


def _unflat(flat: Tensor, shape: Sequence[int]) -> Tensor:
    rows = []
    for n in reversed(shape):
        rows.append(flat % n)
        flat = flat // n
    return stacked(rows[::-1])


def _begins(lines: Tensor, size: int) -> Tensor:
    """Index at which each of so many lines begins, and the last ends, in their numbers, which are
    sorted."""
    found: Tensor = searchsorted(lines.contiguous(), arange(size + 1, device=lines.device))
    return found


def _matches(keys: Tensor, size: int, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """The pairs (i, j) with wanted[i] == keys[j]; `keys` are sorted, of numbers below `size`."""
    begins = _begins(keys, size)
    counts = (begins[1:] - begins[:-1])[wanted]
    which = arange(wanted.shape[0], device=keys.device).repeat_interleave(counts)
    before = (counts.cumsum(0) - counts)[which]
    nth = arange(which.shape[0], device=keys.device) - before
    return which, begins[wanted][which] + nth


def stacked(rows: Sequence[Tensor]) -> Tensor:
    return cat([row.unsqueeze(0) for row in rows])


def _same_shape(name: str, a: Any, b: Any) -> None:
    if tuple(a.shape) != tuple(b.shape):
        raise RuntimeError(
            f"{name}: expected 'self' and 'other' to have same size, but self has size "
            f"{list(a.shape)} while other has size {list(b.shape)}"
        )


# ---- functions


def mm(mat1: Any, mat2: Any) -> Any:
    """A product of which an operand at least is sparse: (M, K) x (K, N) -> (M, N), x (K) -> (M).
    Sparse if both are. Raises RuntimeError for shapes that do not fit."""
    if isinstance(mat2, SparseTensor) and not isinstance(mat1, SparseTensor):
        return mm(mat2.t(), mat1.t()).t()  # (x @ s) = (s^T @ x^T)^T
    if mat1.ndim != 2 or mat1.dense_dim() or mat2.ndim not in (1, 2):
        raise RuntimeError(f"mm: expected matrices, got {mat1.ndim}D and {mat2.ndim}D tensors")
    if mat1.shape[1] != mat2.shape[0]:
        left, right = ("x".join(map(str, x.shape)) for x in (mat1, mat2))
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({left} and {right})")
    if isinstance(mat2, SparseTensor):
        return _sparse_product(mat1, mat2)
    rows, columns = mat1._places
    entries = mat1._entries if mat2.ndim == 1 else mat1._entries.unsqueeze(1)
    terms = entries * mat2.index_select(0, columns)
    return terms.new_zeros((mat1.shape[0], *mat2.shape[1:])).index_add(0, rows, terms)


def _sparse_product(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """Each kept (i, k) of `a` with each kept (k, j) of `b`."""
    b = b.coalesce() if b.layout == COO else b._as(COO)
    which, other = _matches(b._places[0], b.shape[0], a._places[1])
    places = stacked([a._places[0][which], b._places[1][other]])
    entries = a._entries[which] * b._entries[other]
    made = SparseTensor(places, entries, (a.shape[0], b.shape[1]), False)
    return made.coalesce()._as(a.layout)


def _product_of_elements(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """Kept where both are."""
    _same_shape("mul", a, b)
    a, layout, b = a._as(COO).coalesce(), a.layout, b._as(COO).coalesce()
    shape = a.shape[: a.sparse_dim()]
    of_a, of_b = _flat(a._places, shape), _flat(b._places, shape)
    at = searchsorted(of_b, of_a)
    there = (at < searchsorted(of_b, of_a, right=True)).nonzero()[:, 0]
    entries = a._entries[there] * b._entries[at[there]]
    return SparseTensor(a._places[:, there], entries, a.shape, True)._as(layout)


@public(method=False)
def spmm(input: Any, mat2: Any) -> Any:
    """A sparse matrix times a dense one."""
    return mm(input, mat2)


def addmm(mat: Any, mat1: Any, mat2: Any, *, beta: float = 1.0, alpha: float = 1.0) -> Any:
    """beta * mat + alpha * (mat1 @ mat2)."""
    product = mm(mat1, mat2)
    return mat * beta + (product if alpha == 1 else product * alpha)


def sum(input: SparseTensor, dim: Any = None, dtype: Any = None) -> Any:
    """Along sparse and dense dimensions: dense where no sparse one is left."""
    gone = norm_dims(dim, input.ndim, "sum")
    count = input.sparse_dim()
    entries = input._entries if dtype is None else input._entries.to(dtype)
    inner = [d - count + 1 for d in gone if d >= count]
    entries = entries.sum(inner) if inner else entries
    left = [d for d in range(count) if d not in gone]
    if not left:
        return entries.sum(0)
    shape = [n for d, n in enumerate(input.shape) if d not in gone]
    rows = stacked([input._places[d] for d in left])
    return SparseTensor(rows, entries, shape, False).coalesce()


def log_softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """Over the kept elements of each line along a sparse dimension."""
    x = input.coalesce()
    d = norm_dim(dim, x.ndim, "log_softmax")
    if d >= x.sparse_dim():
        return x._with(x._entries.log_softmax(d - x.sparse_dim() + 1))
    entries = x._entries if dtype is None else x._entries.to(dtype)
    others = [n for i, n in enumerate(x.shape[: x.sparse_dim()]) if i != d]
    rows = [p for i, p in enumerate(x._places) if i != d]
    which = _flat(stacked(rows), others) if rows else x._places[0] * 0
    lines = math.prod(others)
    index = which.reshape(-1, *[1] * (entries.ndim - 1)).expand(entries.shape)
    total = entries.new_zeros((lines, *entries.shape[1:]))
    most = (total - math.inf).scatter_reduce(0, index, entries.detach(), "amax")
    shifted = entries - most[which]
    total = total.index_add(0, which, shifted.exp())
    return x._with(shifted - total.log()[which])


def softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """Over the kept elements of each line along a sparse dimension."""
    x = log_softmax(input, dim, dtype=dtype)
    return x._with(x._entries.exp())
