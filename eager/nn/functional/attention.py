"""nn.functional: attention of several heads. queries, keys, values and projections -> mixed values,
and the weights if wanted.

`nn.MultiheadAttention` is made of the same parts, with the batch first.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eager.base import dtype as dt
from eager.base.compat_warnings import warn
from eager.core.op import Sample
from eager.core.tensor import Tensor
from eager.nn.functional.dropout import dropout
from eager.nn.functional.linear import linear, scaled_dot_product_attention
from eager.nn.functional.register import functional
from eager.ops import samples as s
from eager.ops.move import cat, constant_pad_nd
from eager.ops.pointwise import where
from eager.sizes.symint import sqrt


def project(inputs: tuple[Tensor, ...], weights: Any, bias: Tensor | None) -> tuple[Tensor, ...]:
    """Queries, keys and values, each times its weight (one (3 E, E) tensor, or three)."""
    if isinstance(weights, Tensor):
        if inputs[0] is inputs[1] and inputs[1] is inputs[2]:
            return linear(inputs[0], weights, bias).chunk(3, -1)
        weights = weights.chunk(3)
    biases = (None, None, None) if bias is None else bias.chunk(3)
    return tuple(linear(x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True))


def in_heads(x: Tensor, heads: int) -> Tensor:
    """(N, L, E) -> (N, heads, L, E / heads)."""
    n, length, size = x.shape
    return x.reshape((n, length, heads, size // heads)).transpose(1, 2)


def with_bias(x: Tensor, bias: Tensor | None) -> Tensor:
    """One more key (or value) at the end: (N, S, E) and (1, 1, E) -> (N, S + 1, E)."""
    return x if bias is None else cat([x, bias.expand((x.shape[0], 1, x.shape[2]))], 1)


def with_zero(x: Tensor) -> Tensor:
    """One more key (or value) of zeros at the end: (N, heads, S, D) -> (N, heads, S + 1, D)."""
    return constant_pad_nd(x, (0, 0, 0, 1))


def added_mask(q: Tensor, attn_mask: Any, key_padding_mask: Any, keys: int) -> Tensor | None:
    """One float mask that is added to the scores of `keys` keys, or None; keys that the masks do
    not know are seen by all."""
    total = None
    if None not in (attn_mask, key_padding_mask) and attn_mask.dtype is not key_padding_mask.dtype:
        warn(
            f"attn_mask is {attn_mask.dtype} and key_padding_mask {key_padding_mask.dtype}: masks "
            "of different types are deprecated, make both bool or both float"
        )
    if attn_mask is not None:
        total = _additive(attn_mask, q)
        if total.ndim == 3:
            total = total.reshape((q.shape[0], q.shape[1], *total.shape[1:]))
    if key_padding_mask is not None:
        padding = _additive(key_padding_mask, q).unsqueeze(1).unsqueeze(1)
        total = padding if total is None else total + padding
    if total is None or total.shape[-1] == keys:
        return total
    return constant_pad_nd(total, (0, keys - total.shape[-1]))


def _additive(mask: Tensor, like: Tensor) -> Tensor:
    """A bool mask as minus infinity where it is True."""
    if mask.dtype is not dt.bool_:
        return mask
    return where(mask, -math.inf, like.new_zeros(()))


def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float, need_weights: bool
) -> tuple[Tensor, Tensor | None]:
    """softmax(q k^T / sqrt(D) + mask) v of each head, and its softmax."""
    if not need_weights:
        return scaled_dot_product_attention(q, k, v, mask, dropout_p), None
    scores = (q * (1.0 / sqrt(q.shape[-1]))) @ k.transpose(-2, -1)
    weights = (scores if mask is None else scores + mask).softmax(-1)
    weights = dropout(weights, dropout_p) if dropout_p > 0.0 else weights
    return weights @ v, weights


def _weights(*shape: int) -> Any:
    return s.values(shape, -0.7, 0.6)


@functional(
    lambda: [
        Sample(
            (s.values((3, 2, 4)), s.values((5, 2, 4), seed=1), s.values((5, 2, 4), seed=2), 4, 2,
             _weights(12, 4), _weights(12), None, None, False, 0.0, _weights(4, 4), _weights(4)),
        ),
        Sample(
            (s.values((3, 2, 4)), s.values((3, 2, 4), seed=1), s.values((3, 2, 4), seed=2), 4, 2,
             _weights(12, 4), _weights(12), _weights(1, 1, 4), _weights(1, 1, 4), True, 0.0,
             _weights(4, 4), None),
            {
                "attn_mask": ~np.tri(3, dtype=bool),
                "key_padding_mask": np.array([[False, False, True], [False, False, False]]),
                "average_attn_weights": False,
            },
        ),
    ]
)  # fmt: skip
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention of `num_heads` heads (Vaswani et al. 2017): (L, N, E) queries, (S, N, E) keys and
    values (or without N) -> (L, N, E), and the weights (N, L, S), averaged over the heads.

    Bool masks say where NOT to look; float masks are added. `static_k` and `static_v`
    (N * heads, S, E / heads) stand in for projected keys and values. AssertionError and
    RuntimeError for shapes that do not fit."""
    single = query.ndim == 2
    check_ranks(query, key, value, key_padding_mask)
    if single:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    check_sizes(query.shape[2], embed_dim_to_check, num_heads)
    check_mask(attn_mask, is_causal, (query.shape[0], key.shape[0]), query.shape[1] * num_heads)
    check_padding(key_padding_mask, (key.shape[1], key.shape[0]))
    weights: Any = (q_proj_weight, k_proj_weight, v_proj_weight)
    if not use_separate_proj_weight:
        weights = in_proj_weight
        if key.shape != value.shape:
            raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
    projected = project((query, key, value), weights, in_proj_bias)
    q, k, v = (x.transpose(0, 1) for x in projected)
    q = in_heads(q, num_heads)
    k, v = _stored(k, bias_k, static_k, num_heads), _stored(v, bias_v, static_v, num_heads)
    if add_zero_attn:
        k, v = with_zero(k), with_zero(v)
    mask = added_mask(q, attn_mask, key_padding_mask, k.shape[2])
    out, scores = attend(q, k, v, mask, dropout_p if training else 0.0, need_weights)
    mixed = linear(out.permute(2, 0, 1, 3).reshape(query.shape), out_proj_weight, out_proj_bias)
    if scores is not None and average_attn_weights:
        scores = scores.mean(1)
    if single:
        return mixed.squeeze(1), None if scores is None else scores.squeeze(0)
    return mixed, scores


def _stored(x: Tensor, bias: Tensor | None, static: Tensor | None, heads: int) -> Tensor:
    """Projected keys or values (N, S, E) in heads, with one more at the end if there is a bias;
    `static` (N * heads, S, D) stands in for them."""
    if static is None:
        return in_heads(with_bias(x, bias), heads)
    if bias is not None:
        raise AssertionError("bias cannot be added to static key or value.")
    stacked = x.shape[0] * heads
    if static.shape[0] != stacked:
        raise AssertionError(f"expecting static_k.size(0) of {stacked}, but got {static.shape[0]}")
    return static.reshape((x.shape[0], heads, *static.shape[1:]))


def check_ranks(query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None) -> None:
    rank = query.ndim
    if rank not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {rank}-D query tensor"
        )
    kind = "batched" if rank == 3 else "unbatched"
    if key.ndim != rank or value.ndim != rank:
        raise AssertionError(
            f"For {kind} ({rank}-D) `query`, expected `key` and `value` to be {rank}-D but found "
            f"{key.ndim}-D and {value.ndim}-D tensors respectively"
        )
    if padding is not None and padding.ndim != rank - 1:
        raise AssertionError(
            f"For {kind} ({rank}-D) `query`, expected `key_padding_mask` to be `None` or "
            f"{rank - 1}-D but found {padding.ndim}-D tensor instead"
        )


def check_lengths(key: Tensor, value: Tensor) -> None:
    if key.shape[:-1] != value.shape[:-1]:
        raise AssertionError(
            f"key shape {tuple(key.shape)} does not match value shape {tuple(value.shape)}: there "
            "is one value for each key; the query may have another length"
        )


def check_sizes(size: int, wanted: int, heads: int) -> None:
    if size != wanted:
        raise AssertionError(f"was expecting embedding dimension of {wanted}, but got {size}")
    if size % heads:
        raise AssertionError(f"embed_dim {size} not divisible by num_heads {heads}")


def check_mask(mask: Tensor | None, is_causal: bool, plane: tuple[int, int], stacked: int) -> None:
    if mask is None:
        if is_causal:
            raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
        return
    wanted = {2: plane, 3: (stacked, *plane)}.get(mask.ndim)
    if wanted is None:
        raise RuntimeError(f"attn_mask's dimension {mask.ndim} is not supported")
    if tuple(mask.shape) != wanted:
        raise RuntimeError(
            f"The shape of the {mask.ndim}D attn_mask is {mask.shape}, but should be {wanted}."
        )


def check_padding(padding: Tensor | None, wanted: tuple[int, int]) -> None:
    if padding is not None and tuple(padding.shape) != wanted:
        raise AssertionError(
            f"Expected key_padding_mask of shape {wanted}, but got {tuple(padding.shape)}"
        )
