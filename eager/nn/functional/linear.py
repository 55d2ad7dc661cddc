"""nn.functional: affine maps, embeddings and attention. tensors -> compositions of dot, take and
pointwise ops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eager.autograd.function import Function
from eager.base import dtype as dt
from eager.base.compat_warnings import warn_once
from eager.base.dtype import DType
from eager.core.casts import given_precision, lower_precision, on_gpus, product_rounded_once
from eager.core.dispatch import apply, must_hold, tracing
from eager.core.op import Sample
from eager.core.tensor import Tensor
from eager.nn.functional.dropout import dropout
from eager.nn.functional.register import functional
from eager.ops import samples as s
from eager.ops.contract import DOT
from eager.ops.index import INDEX_ADD, TAKE
from eager.ops.index_and_sort import iota, scatter_reduce
from eager.ops.pointwise import CAST, COMPARE, where
from eager.ops.products import einsum, matmul
from eager.ops.view import UNSQUEEZE
from eager.sizes.symint import integer, of_data, sqrt


@functional(
    lambda: [
        Sample((s.values((3, 4)), s.values((5, 4)), s.values((5,)))),
        Sample((s.values((2, 3, 4)), s.values((5, 4)))),
        Sample((s.values((4,)), s.values((5, 4)), s.values((5,)))),
    ]
)
@lower_precision
@product_rounded_once
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input (*, K) @ weight (N, K) transposed + bias (N) -> (*, N). A 1-D weight (K) gives (*)."""
    if weight.ndim == 1:
        out = matmul(input, weight)
        return out if bias is None else out + bias
    n, k = weight.shape
    if not input.ndim or input.shape[-1] != k:
        rows = input.numel() // max(input.shape[-1], 1) if input.ndim else 1
        last = input.shape[-1] if input.ndim else 0
        flat = input.ndim > 2 and math.prod(input.shape[1:]) == k
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({rows}x{last} and {k}x{n}): linear with "
            f"in_features={k} (the weight is {(n, k)}) takes (*, {k}), got {tuple(input.shape)}"
            + (": flatten it before, input.flatten(1) or nn.Flatten()" if flat else "")
        )
    rows = input if input.ndim == 2 else input.reshape((math.prod(input.shape[:-1]), k))
    try:
        out = apply(DOT, rows, weight.transpose(0, 1))
    except RuntimeError:
        if input.dtype is not weight.dtype:
            raise _types_differ(input.dtype, weight.dtype) from None
        raise
    if input.ndim != 2:
        out = out.reshape((*input.shape[:-1], n))
    return out if bias is None else out + bias


def _types_differ(input: DType, weight: DType) -> RuntimeError:
    cure = "input.float()" if weight is dt.float32 else f"input.to({weight})"
    return RuntimeError(
        f"linear: expected both operands to have the same dtype, but got input {input} and weight "
        f"{weight}: use {cure}, or model.to(dtype)"
    )


@functional(
    lambda: [
        Sample((s.values((3, 4)), s.values((3, 2)), s.values((5, 4, 2)), s.values((5,)))),
    ]
)
@on_gpus("widest")
@given_precision
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """out[..., o] = input1[..., i] weight[o, i, j] input2[..., j] + bias[o]."""
    out = einsum("...i,oij,...j->...o", input1, weight, input2)
    return out if bias is None else out + bias


# ------------------------------------------------------------------------------ embeddings
def _tokens(*shape: int) -> Any:
    return s.integers(shape, 0, 5)


@functional(
    lambda: [
        Sample((_tokens(3, 2), s.values((5, 4)))),
        Sample((_tokens(7), s.values((5, 4)), 2), grad=False),
    ]
)
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of `weight` (V, D) named by `input` (*) -> (*, D). The row `padding_idx` gets no
    gradient.

    `max_norm` shortens the rows that are used, in place. Raises IndexError for an index out of
    range."""
    if sparse:
        warn_once(
            "embedding sparse",
            "embedding: sparse=True: the gradient is dense, with the same values",
        )
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if max_norm is not None:
        _shorten(weight, input, max_norm, norm_type)
    try:
        out = apply(TAKE, weight, input, dim=0)
    except (IndexError, RuntimeError) as error:
        raise _not_a_row(error, input, weight) from None
    if scale_grad_by_freq:
        out = _ScaledGradient.apply(out, _share(input, weight.shape[0]).to(out.dtype))
    if padding_idx is None:
        return out
    row = padding_idx % weight.shape[0]
    return where((input == row).unsqueeze(-1), out.detach(), out)


def _not_a_row(error: Exception, input: Tensor, weight: Tensor) -> Exception:
    """The error of `take` in the words of an embedding."""
    if input.dtype.category != dt.INT:
        return RuntimeError(
            f"embedding: tensors used as indices must be integers, got {input.dtype}: use x.long()"
        )
    if type(error) is not IndexError:
        return error
    rows, what = weight.shape[0], str(error).partition("is out of bounds")[0].replace("take: ", "")
    return IndexError(
        f"embedding: {what}is out of range: there are {rows} rows (num_embeddings), 0 to {rows - 1}"
    )


class _ScaledGradient(Function):
    """A tensor itself, whose gradient is scaled."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor) -> Tensor:
        ctx.save_for_backward(scale)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * ctx.saved_tensors[0], None


def _share(input: Tensor, n: int) -> Tensor:
    """One over how often each index of `input` (*) is in it -> (*, 1)."""
    flat = input.reshape(-1)
    ones = flat.new_ones(flat.shape, dtype=dt.float32)
    counts = apply(INDEX_ADD, ones.new_zeros((n,)), flat, ones, dim=0)
    return (1.0 / apply(TAKE, counts, flat, dim=0)).reshape(*input.shape, 1)


def _shorten(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale the rows in use that are longer than max_norm down to it."""
    table = weight.detach()
    length = table.norm(norm_type, dim=1, keepdim=True)
    rows = iota(weight.shape[0], like=input).unsqueeze(1)
    used = (rows == input.reshape(1, -1)).any(1, keepdim=True)
    scale = where(used & (length > max_norm), max_norm / (length + 1e-7), 1.0)
    table.copy_(table * scale)


@functional(
    lambda: [
        Sample((_tokens(3, 2), s.values((5, 4)))),
        Sample((_tokens(6), s.values((5, 4)), np.array([0, 2, 2])), {"mode": "sum"}),
        Sample((_tokens(6), s.values((5, 4)), np.array([0, 2, 5])), {"mode": "max"}),
    ]
)
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or max of the embeddings of each bag: the rows of a 2-D `input`, or runs of a
    1-D one from `offsets`."""
    if sparse:
        warn_once(
            "embedding_bag sparse",
            "embedding_bag: sparse=True: the gradient is dense, with the same values",
        )
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError("embedding_bag: per_sample_weights needs mode='sum'")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if padding_idx is not None and padding_idx < 0:
        padding_idx += weight.shape[0]
    bags, bag = _bags(input, offsets, include_last_offset)
    flat = input.reshape(-1)
    rows = embedding(flat, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1, 1)
    counted = (
        iota(0, like=flat).new_ones(flat.shape)
        if padding_idx is None
        else (flat != padding_idx).long()
    )
    zeros = rows.new_zeros((bags, rows.shape[1]))
    if mode == "max":
        place = bag.unsqueeze(1).expand(rows.shape)
        if padding_idx is None:
            return scatter_reduce(zeros, 0, place, rows, "amax", include_self=False)
        rows = where((counted == 0).unsqueeze(1), float("-inf"), rows)
        best = scatter_reduce(zeros, 0, place, rows, "amax", include_self=False)
        return where(best == float("-inf"), 0.0, best)  # of nothing but padding
    if padding_idx is not None:
        rows = rows * counted.unsqueeze(1).to(rows.dtype)
    total = apply(INDEX_ADD, zeros, bag, rows, dim=0)
    if mode == "sum":
        return total
    count = apply(INDEX_ADD, counted.new_zeros((bags,)), bag, counted, dim=0)
    return total / count.clamp(min=1).unsqueeze(1).to(rows.dtype)


def _bags(input: Tensor, offsets: Tensor | None, include_last: bool) -> tuple[int, Tensor]:
    """Number of bags, and the bag that each element of the flattened input belongs to."""
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None")
        bags, size = input.shape
        return bags, iota(bags, like=input).unsqueeze(1).expand((bags, size)).reshape(-1)
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    starts = offsets[:-1] if include_last else offsets
    if starts.shape[0]:
        first = "offsets[0] has to be 0: the first bag starts at position 0"
        must_hold(starts[0] == 0, first)
    places = iota(input.shape[0], like=input)
    return starts.shape[0], (places.unsqueeze(1) >= starts.unsqueeze(0)).long().sum(1) - 1


def _check_classes(tensor: Tensor, classes: int) -> None:
    array, text = tensor._array, f"Class values must be at least 0 and smaller than {classes}."
    if type(array) is not np.ndarray or tracing():
        must_hold(((tensor >= 0) & (tensor < classes)).all(), text)
    elif array.size and np.maximum.reduce(array.view(np.uint64), None) >= classes:
        raise RuntimeError(text)  # (a negative int is a large one without its sign)


@functional(lambda: [Sample((_tokens(3, 2),), {"num_classes": 6}, grad=False)])
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 (*, num_classes): 1 at each class index. By default as many classes as the largest
    index needs."""
    if tensor.dtype is not dt.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    classes = integer(num_classes)
    if classes == -1:
        must_hold(tensor.ge(0).all(), "Class values must be non-negative.")
        classes = integer((tensor.max() + 1).item())
        if of_data(classes):  # as `must_hold` says
            classes.scope.expect(">=", classes - 1)
    else:
        _check_classes(tensor, classes)
    each = apply(UNSQUEEZE, tensor, dim=tensor.ndim)  # (*, 1)
    hot = apply(COMPARE["eq"], each, iota(classes, like=tensor))
    return apply(CAST, hot, dtype=dt.int64)


# ------------------------------------------------------------------------------- attention
def _qkv(*batch: int) -> tuple[Any, ...]:
    shape = (*batch, 5, 4)
    return tuple(s.values(shape, seed=i) for i in range(3))


@functional(
    lambda: [
        Sample(_qkv(2, 3)),
        Sample(_qkv(2, 3), {"is_causal": True}),
        Sample((*_qkv(2), s.values((2, 5, 5)))),
        Sample((*_qkv(2), np.tri(5, dtype=bool)), {"scale": 0.3}),
    ]
)
@lower_precision
@product_rounded_once
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query key^T * scale + mask) value: (*, L, E), (*, S, E), (*, S, V) -> (*, L, V).

    A bool mask says where to look, a float mask is added. `scale` is 1/sqrt(E) by default. With
    `enable_gqa` the heads (dimension -3) of key and value are repeated to those of the query.
    Source: Vaswani et al., "Attention is all you need" (2017)."""
    if is_causal and attn_mask is not None:
        raise RuntimeError(
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when "
            "is_causal=True"
        )
    if enable_gqa:
        groups = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(groups, -3), value.repeat_interleave(groups, -3)
    factor = 1.0 / sqrt(query.shape[-1]) if scale is None else scale
    scores = matmul(query, key.transpose(-2, -1)) * factor
    if is_causal:
        attn_mask = causal_mask(scores.shape[-2], scores.shape[-1], scores)
    if attn_mask is not None:
        if attn_mask.dtype is dt.bool_:
            scores = where(attn_mask, scores, -math.inf)
        else:
            scores = scores + attn_mask
    weights = scores.softmax(-1)
    if attn_mask is not None and not is_causal and attn_mask.dtype is dt.bool_:
        weights = where(attn_mask.any(-1, keepdim=True), weights, 0.0)  # nowhere to look: zeros
    if dropout_p > 0.0:
        weights = dropout(weights, dropout_p)
    return matmul(weights, value)


def causal_mask(rows: int, columns: int, like: Tensor | None = None) -> Tensor:
    """bool (rows, columns): True at and below the diagonal, where a token may look."""
    return iota(rows, like=like).unsqueeze(1) >= iota(columns, like=like)
