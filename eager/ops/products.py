"""Composites over `dot`: matrix products of every shape. tensors -> permuted and reshaped operands
-> dot -> tensor.

One rule serves them all: the dimensions shared by both and kept are the batch, the shared and
summed ones become K, the rest M and N.
"""

from __future__ import annotations

import functools
import string
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from eager.base import dtype as dt
from eager.core.casts import (
    by_place,
    full_precision,
    given_precision,
    lower_precision,
    product_rounded_once,
)
from eager.core.dispatch import apply
from eager.core.op import Sample, Samples
from eager.core.registry import checked, public
from eager.core.tape import mode
from eager.core.tensor import Tensor
from eager.ops import samples as s
from eager.ops.contract import DOT
from eager.ops.pointwise import CAST
from eager.sizes.symint import is_single

F = TypeVar("F", bound=Callable[..., Any])


def _operands(*shapes: tuple[int, ...], **kwargs: Any) -> Sample:
    return Sample(tuple(s.values(shape, seed=i) for i, shape in enumerate(shapes)), kwargs)


def _calls(*samples: Sample) -> Samples:
    return lambda: samples


def _of_another_kind(a: Any, b: Any) -> Any:
    """The function by which an operand that is no `Tensor` is multiplied: a sparse one; None."""
    others = (x for x in (a, b) if not isinstance(x, Tensor))
    return next((x.product_with for x in others if hasattr(x, "product_with")), None)


def _matrix(name: str, x: Tensor, ndim: int) -> None:
    if x.ndim != ndim:
        kinds = {1: "a vector", 2: "a matrix", 3: "a 3-D tensor"}
        raise RuntimeError(f"{name}: expected {kinds[ndim]}, got a tensor of shape {list(x.shape)}")


@public(samples=lambda: [_operands((2, 3), (3, 4))])
@lower_precision
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """(M, K) x (K, N) -> (M, N). Raises RuntimeError when the shapes or dtypes do not fit."""
    product = _of_another_kind(input, mat2)
    if product is not None:
        return product(input, mat2)
    _matrix("mm", input, 2)
    _matrix("mm", mat2, 2)
    if input.shape[1] != mat2.shape[0]:
        raise RuntimeError(_cannot_multiply(input, mat2))
    return apply(DOT, input, mat2)


def _cannot_multiply(a: Tensor, b: Tensor) -> str:
    left = "x".join(map(str, a.shape))
    right = "x".join(map(str, b.shape))
    why = f"matmul of {tuple(a.shape)} and {tuple(b.shape)}: {a.shape[-1]} against {b.shape[-2]}"
    return f"mat1 and mat2 shapes cannot be multiplied ({left} and {right}): {why}"


@public(samples=lambda: [_operands((2, 2, 3), (2, 3, 4))])
@lower_precision
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """(B, M, K) x (B, K, N) -> (B, M, N)."""
    _matrix("bmm", input, 3)
    _matrix("bmm", mat2, 3)
    return apply(DOT, input, mat2)


@public(samples=lambda: [_operands((2, 3), (3,))], on_gpus="lower")
@given_precision
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """(M, K) x (K) -> (M)."""
    _matrix("mv", input, 2)
    _matrix("mv", vec, 1)
    return mm(input, vec.unsqueeze(1)).squeeze(1)


@public(samples=lambda: [_operands((3,), (3,))], on_gpus="widest")
@given_precision
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """(K) x (K) -> ()."""
    if input.ndim != 1 or tensor.ndim != 1:
        found = f"{input.ndim}D and {tensor.ndim}D tensors"
        raise RuntimeError(f"1D tensors expected, but got {found}: matmul() takes matrices")
    if input.shape != tensor.shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensors of the same size, got {input.shape[0]} "
            f"and {tensor.shape[0]}"
        )
    return mm(input.unsqueeze(0), tensor.unsqueeze(1)).reshape(())


@public(on_gpus="widest")
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """`dot` with the first vector conjugated."""
    return dot(input.conj() if input.dtype.is_complex else input, other)


@public(samples=lambda: [_operands((2, 3), (4, 3))])
def inner(input: Tensor, other: Tensor) -> Tensor:
    """The sum of products over the last dimension of both; with a 0-d operand, their product."""
    if not input.ndim or not other.ndim:
        return input * other
    return tensordot(input, other, dims=([input.ndim - 1], [other.ndim - 1]))


@public(alias=("ger",), samples=lambda: [_operands((3,), (4,))])
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """(M) x (N) -> (M, N), all products."""
    _matrix("outer", input, 1)
    _matrix("outer", vec2, 1)
    return input.unsqueeze(1) * vec2.unsqueeze(0)


@public(
    samples=lambda: [
        _operands((2, 3), (3, 4)),
        _operands((3,), (3,)),
        _operands((3,), (3, 4)),
        _operands((2, 3), (3,)),
        _operands((2, 2, 3), (3, 4)),
        _operands((2, 1, 2, 3), (3, 3, 4)),
        _operands((2, 2, 3), (3,)),
        _operands((0, 3), (3, 4)),
    ]
)
@lower_precision
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The matrix product with PyTorch's rules: vectors gain and lose a dimension, leading
    dimensions broadcast.

    Raises RuntimeError for 0-d operands and shapes that do not fit."""
    a, b = input, other
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        product = _of_another_kind(a, b)
        if product is not None:
            return product(a, b)
        raise TypeError(
            f"matmul(): both operands must be Tensor, got {type(a).__name__}, {type(b).__name__}"
        )
    if not a.ndim or not b.ndim:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {a.ndim}D and {b.ndim}D"
        )
    if a.ndim == 1:
        return matmul(a.unsqueeze(0), b).squeeze(-2 if b.ndim > 1 else 0)
    if b.ndim == 1:
        return matmul(a, b.unsqueeze(1)).squeeze(-1)
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(_cannot_multiply(a, b))
    if b.ndim == 2:  # the leading dimensions of a are more rows
        return _rows_times(a, b)
    batch = _batch_shape(a, b)
    a, b = _expand_batch(a, batch), _expand_batch(b, batch)
    return apply(DOT, a, b)


def _rows_times(a: Tensor, b: Tensor) -> Tensor:
    """(*B, M, K) x (K, N) as one matrix product."""
    if a.ndim == 2:
        return apply(DOT, a, b)
    k, n = b.shape
    rows = a.numel() // k if k else a.shape[:-1].numel()
    return apply(DOT, a.reshape((rows, k)), b).reshape((*a.shape[:-1], n))


def _batch_shape(a: Tensor, b: Tensor) -> tuple[int, ...]:
    sizes = []
    left, right = a.shape[:-2], b.shape[:-2]
    for i in range(max(len(left), len(right)), 0, -1):
        m = left[-i] if i <= len(left) else 1
        n = right[-i] if i <= len(right) else 1
        if m != n and 1 not in (m, n):
            raise RuntimeError(
                f"matmul: the batch dimensions of {list(a.shape)} and {list(b.shape)} do not "
                f"broadcast: {m} against {n}"
            )
        sizes.append(n if m == 1 else m)
    return tuple(sizes)


def _expand_batch(x: Tensor, batch: tuple[int, ...]) -> Tensor:
    return x if x.shape[:-2] == batch else x.expand((*batch, *x.shape[-2:]))


def _factors_between(fn: F) -> F:
    """`fn(input, a, b)`, also as it was once spelled, with the factors in places of their own:
    `fn([beta,] input, [alpha,] a, b)`, or as a method `input.fn(beta, [alpha,] a, b)`."""
    fn = checked(fn)

    @functools.wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        if 3 < len(args) <= 5 and not kwargs:
            method = isinstance(args[0], Tensor)
            input, beta = args[:2] if method else args[1::-1]
            names = dict(zip(("beta", "alpha"), (beta, *args[2:-2]), strict=False))
            if not any(isinstance(each, Tensor) for each in names.values()):
                return fn(input, *args[-2:], **names)
        return fn(*args, **kwargs)

    called.__annotations__ = {}  # any may come first: `fn` is checked
    return called  # type: ignore[return-value]


def _scaled_sum(base: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    """beta * base + alpha * product; a base with beta 0 is not read, so its NaN does not spread.
    Factors of ints and bools are what their dtype makes of them."""
    if product.dtype.category < dt.FLOAT:
        whole = bool if product.dtype is dt.bool_ else int
        alpha, beta = whole(alpha), whole(beta)
        product = product.to(base.dtype) if base.dtype is dt.bool_ else product
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    return (base if beta == 1 else base * beta) + product


@public(
    inplace=True,
    samples=lambda: [
        _operands((4,), (2, 3), (3, 4)),
        _operands((2, 4), (2, 3), (3, 4), beta=0.5, alpha=2.0),
    ],
)
@_factors_between
@lower_precision
@product_rounded_once
def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2)."""
    return _scaled_sum(input, mm(mat1, mat2), beta, alpha)


@public(inplace=True, samples=lambda: [_operands((2,), (2, 3), (3,))], on_gpus="lower")
@_factors_between
@product_rounded_once
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * (mat @ vec)."""
    return _scaled_sum(input, mv(mat, vec), beta, alpha)


@public(inplace=True, samples=lambda: [_operands((2, 3), (2,), (3,))], on_gpus="lower")
@_factors_between
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2)."""
    return _scaled_sum(input, outer(vec1, vec2), beta, alpha)


@public(inplace=True, samples=lambda: [_operands((2, 4), (2, 2, 3), (2, 3, 4))])
@_factors_between
@lower_precision
@product_rounded_once
def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta * input + alpha * bmm(batch1, batch2)."""
    return _scaled_sum(input, bmm(batch1, batch2), beta, alpha)


@public(inplace=True, samples=lambda: [_operands((2, 4), (2, 2, 3), (2, 3, 4))])
@_factors_between
@lower_precision
@product_rounded_once
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta * input + alpha * bmm(batch1, batch2).sum(0)."""
    return _scaled_sum(input, bmm(batch1, batch2).sum(0, dtype=batch1.dtype), beta, alpha)


@public(
    method=False,
    samples=lambda: [_operands((3, 4), (5, 4)), _operands((2, 3, 4), (2, 5, 4), p=1.0)],
)
@full_precision
def cdist(
    x1: Tensor,
    x2: Tensor,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
) -> Tensor:
    """The p-norm distances of all rows of x1 (*B, P, M) to all rows of x2 (*B, R, M): (*B, P,
    R)."""
    for name, x in (("X1", x1), ("X2", x2)):
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
        )
    return (x1.unsqueeze(-2) - x2.unsqueeze(-3)).norm(p, -1)


# ------------------------------------------------------------------------------- einsum
def contract_pair(
    a: Tensor, b: Tensor, names_a: Sequence[Any], names_b: Sequence[Any], keep: Sequence[Any]
) -> tuple[Tensor, list[Any]]:
    """Multiply a and b, whose dimensions are named, and sum over shared names that are not in
    `keep`.

    Names are unique within an operand. Returns the product and its names: batch, then a's own, then
    b's own."""
    batch = [n for n in names_a if n in names_b and n in keep]
    summed = [n for n in names_a if n in names_b and n not in keep]
    rows = [n for n in names_a if n not in names_b]
    columns = [n for n in names_b if n not in names_a]
    a = a.permute([names_a.index(n) for n in (*batch, *rows, *summed)])
    b = b.permute([names_b.index(n) for n in (*batch, *summed, *columns)])
    if summed and mode.autocast is not None:
        a, b = by_place(a, mode.autocast), by_place(b, mode.autocast)
    if not summed:  # a product element by element, of any types
        dtype = dt.promote_types(a.dtype, b.dtype)
        a, b = (x if x.dtype is dtype else apply(CAST, x, dtype=dtype) for x in (a, b))
    nb, nr, ns = len(batch), len(rows), len(summed)
    sizes = list(_batch_sizes(a, b, nb))
    m, k, n = a.shape[nb : nb + nr], a.shape[nb + nr :], b.shape[nb + ns :]
    k = tuple(
        max(x, y) if 1 in (x, y) else x for x, y in zip(k, b.shape[nb : nb + ns], strict=True)
    )
    a = a.expand((*sizes, *m, *k)).reshape((*sizes, m.numel(), _prod(k)))
    b = b.expand((*sizes, *k, *n)).reshape((*sizes, _prod(k), n.numel()))
    return apply(DOT, a, b).reshape((*sizes, *m, *n)), [*batch, *rows, *columns]


def _prod(sizes: Sequence[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def _batch_sizes(a: Tensor, b: Tensor, count: int) -> list[int]:
    return [y if x == 1 else x for x, y in zip(a.shape[:count], b.shape[:count], strict=True)]


@public(
    method=False,
    samples=lambda: [
        _operands((2, 3, 4), (4, 3, 5), dims=([1, 2], [1, 0])),
        _operands((2, 3), (3, 2), dims=1),
    ],
    on_gpus="widest",
)
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Sum of products over `dims`: the last `dims` of a with the first of b, or a pair of lists of
    dimensions."""
    if isinstance(dims, int):
        left: list[int] = list(range(a.ndim - dims, a.ndim))
        right: list[int] = list(range(dims))
    else:
        left, right = ([d] if isinstance(d, int) else list(d) for d in dims)
    left = [d % a.ndim for d in left]
    right = [d % b.ndim for d in right]
    for i, j in zip(left, right, strict=len(left) == len(right)):  # a size of 1 is broadcast
        if is_single(a.shape[i]) and not is_single(b.shape[j]):
            b = b.sum(j, keepdim=True, dtype=b.dtype)
        elif is_single(b.shape[j]) and not is_single(a.shape[i]):
            a = a.sum(i, keepdim=True, dtype=a.dtype)
    if [a.shape[d] for d in left] != [b.shape[d] for d in right]:
        raise RuntimeError(
            f"tensordot: the contracted dimensions {left} of {list(a.shape)} and {right} of "
            f"{list(b.shape)} differ in size"
        )
    names_a: list[Any] = [("a", d) for d in range(a.ndim)]
    names_b: list[Any] = [("b", d) for d in range(b.ndim)]
    for i, j in zip(left, right, strict=True):
        names_b[j] = names_a[i]
    keep = [n for n in (*names_a, *names_b) if not (n in names_a and n in names_b)]
    return contract_pair(a, b, names_a, names_b, keep)[0]


def _parse(equation: str, operands: Sequence[Tensor]) -> tuple[list[list[str]], list[str]]:
    """Names of each operand's dimensions and of the result's; those of `...` are "...0", "...1"
    from the right."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise RuntimeError(
            f"einsum(): the equation {equation!r} has {len(terms)} operands, {len(operands)} were "
            "given"
        )
    inputs = [_names(t, x.ndim, equation) for t, x in zip(terms, operands, strict=True)]
    dots = max((sorted(n for n in t if n[0] == ".") for t in inputs), key=len)[::-1]
    if arrow:
        head, ellipsis, tail = right.partition("...")
        output = [*head, *(dots if ellipsis else ()), *tail]
    else:
        letters = [n for t in inputs for n in t if n[0] != "."]
        output = [*dots, *sorted(n for n in set(letters) if letters.count(n) == 1)]
    unknown = [n for n in output if not any(n in t for t in inputs)]
    if unknown:
        raise RuntimeError(
            f"einsum(): output subscript {unknown[0]} does not appear in the equation for any "
            "input operand"
        )
    return inputs, output


def _names(term: str, ndim: int, equation: str) -> list[str]:
    head, ellipsis, tail = term.partition("...")
    if any(c not in string.ascii_letters for c in head + tail):
        raise RuntimeError(f"einsum(): invalid subscript in {equation!r}: subscripts are letters")
    extra = ndim - len(head) - len(tail)
    if extra < 0 or (extra and not ellipsis):
        raise RuntimeError(
            f"einsum(): the number of subscripts in {term!r} does not match the {ndim} dimensions "
            "of "
            "the operand"
        )
    return [*head, *(f"...{i}" for i in reversed(range(extra))), *tail]


def _merge_repeats(x: Tensor, names: list[str]) -> tuple[Tensor, list[str]]:
    """Take the diagonal over dimensions of one name."""
    names = list(names)
    for name in [n for n in dict.fromkeys(names) if names.count(n) > 1]:
        while names.count(name) > 1:
            i = names.index(name)
            j = names.index(name, i + 1)
            x = x.diagonal(0, i, j)
            del names[j], names[i]
            names.append(name)
    return x, names


def _einsums() -> list[Sample]:
    a, b, c = s.values((2, 3, 4)), s.values((2, 4, 5), seed=1), s.values((4, 4), seed=2)
    return [
        Sample(("bij,bjk->bik", a, b)),
        Sample(("...j,jk->...k", a, c)),
        Sample(("ii->i", c)),
        Sample(("bij,jj->b", a, c)),
        Sample(("bij,bjk,jl->li", a, b, c)),
        Sample(("bij->jb", a)),
    ]


@public(method=False, samples=_einsums, on_gpus="lower")
def einsum(equation: Any, *operands: Any) -> Tensor:
    """Einstein summation, contracted from left to right. `...` stands for broadcast dimensions.

    Instead of an equation each operand may be followed by a list of the numbers of its dimensions
    (0 to 51, and `...`), with one for the result at the end. Raises RuntimeError for an equation
    that does not fit the operands."""
    if isinstance(equation, Tensor):
        equation, operands = _equation_of_lists((equation, *operands))
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    if not operands:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one "
            "operand and its subscripts list"
        )
    inputs, output = _parse(equation, operands)
    _check_sizes(equation, inputs, operands)
    terms = [_merge_repeats(x, n) for x, n in zip(operands, inputs, strict=True)]
    x, names = terms[0]
    for i, (y, others) in enumerate(terms[1:], 2):
        wanted = {*output, *(n for _, later in terms[i:] for n in later)}
        x, names = _sum_out(x, names, wanted | set(others))
        y, others = _sum_out(y, others, wanted | set(names))
        x, names = contract_pair(x, y, names, others, sorted(wanted))
    x, names = _sum_out(x, names, set(output))
    return x.permute([names.index(n) for n in output])


def _equation_of_lists(operands: tuple[Any, ...]) -> tuple[str, tuple[Tensor, ...]]:
    """`x, [0, 1], y, [1, ...], [0, ...]` as an equation and its operands."""

    def term(numbers: Sequence[Any]) -> str:
        for n in numbers:
            if n is not Ellipsis and n not in range(len(_SUBSCRIPTS)):
                raise ValueError(
                    f"einsum(): not within the valid range [0, {len(_SUBSCRIPTS)}): {n}"
                )
        return "".join("..." if n is Ellipsis else _SUBSCRIPTS[n] for n in numbers)

    pairs = len(operands) // 2
    equation = ",".join(term(operands[2 * i + 1]) for i in range(pairs))
    if len(operands) % 2:
        equation += "->" + term(operands[-1])
    return equation, operands[: 2 * pairs : 2]


_SUBSCRIPTS = string.ascii_uppercase + string.ascii_lowercase


def _check_sizes(equation: str, inputs: list[list[str]], operands: Sequence[Tensor]) -> None:
    sizes: dict[str, int] = {}
    for names, x in zip(inputs, operands, strict=True):
        for name, size in zip(names, x.shape, strict=True):
            known = sizes.setdefault(name, size)
            if known == 1:
                sizes[name] = size
            elif size not in (known, 1):
                raise RuntimeError(
                    f"einsum(): in {equation!r} subscript {name} has size {size} for one operand, "
                    "which does "
                    f"not broadcast with previously seen size {known}"
                )


def _sum_out(x: Tensor, names: list[str], keep: set[str]) -> tuple[Tensor, list[str]]:
    drop = [i for i, n in enumerate(names) if n not in keep]
    return (x.sum(drop), [n for n in names if n in keep]) if drop else (x, names)
