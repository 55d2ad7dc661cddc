"""Multi-head attention as a module. queries, keys, values -> mixed values, and the weights if
wanted."""

from __future__ import annotations

import math
from typing import Any

from eager import dtype as dt
from eager.nn import functional as F
from eager.nn import init
from eager.nn.functional.linear import causal_mask
from eager.nn.modules.linear import Linear
from eager.nn.modules.module import Module
from eager.nn.parameter import Parameter
from eager.ops.create import empty, zeros
from eager.ops.pointwise import where
from eager.tensor import Tensor


class MultiheadAttention(Module):
    """Attention of several heads with learned projections (Vaswani et al. 2017).

    Inputs are (L, N, E), (N, L, E) with `batch_first`, or (L, E). Bool masks say where NOT to look;
    float masks are added."""

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, got "
                f"embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        if embed_dim % num_heads:
            raise AssertionError("embed_dim must be divisible by num_heads")
        if add_bias_kv or add_zero_attn:
            raise NotImplementedError("MultiheadAttention: add_bias_kv and add_zero_attn")
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        self._add_projections(bias, device, dtype)
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self._reset_parameters()

    def _add_projections(self, bias: bool, device: Any, dtype: Any) -> None:
        e = self.embed_dim
        where_ = {"device": device, "dtype": dtype}
        if self._qkv_same_embed_dim:
            self.in_proj_weight = Parameter(empty(3 * e, e, **where_))
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self.register_parameter(name, None)
        else:
            self.q_proj_weight = Parameter(empty(e, e, **where_))
            self.k_proj_weight = Parameter(empty(e, self.kdim, **where_))
            self.v_proj_weight = Parameter(empty(e, self.vdim, **where_))
            self.register_parameter("in_proj_weight", None)
        if bias:
            self.in_proj_bias = Parameter(zeros(3 * e, **where_))
        else:
            self.register_parameter("in_proj_bias", None)

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            for weight in (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        single = query.ndim == 2
        if single:
            query, key, value = query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0)
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            same = key is value, query is key
            query = query.transpose(0, 1)
            key = query if same[1] else key.transpose(0, 1)
            value = key if same[0] else value.transpose(0, 1)
        q, k, v = (self._heads(x) for x in self._project(query, key, value))
        mask = self._mask(q, k, attn_mask, key_padding_mask, is_causal)
        out, weights = self._attend(q, k, v, mask, need_weights)
        out = self.out_proj(out.transpose(1, 2).reshape((*query.shape[:2], self.embed_dim)))
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        if single:
            return out.squeeze(0), None if weights is None else weights.squeeze(0)
        return out if self.batch_first else out.transpose(0, 1), weights

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Any, ...]:
        bias = self.in_proj_bias
        if self._qkv_same_embed_dim:
            if query is key and key is value:
                return F.linear(query, self.in_proj_weight, bias).chunk(3, -1)
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None, None, None) if bias is None else bias.chunk(3)
        inputs = (query, key, value)
        return tuple(F.linear(x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True))

    def _heads(self, x: Tensor) -> Tensor:
        """(N, L, E) -> (N, heads, L, E / heads)."""
        return x.reshape((*x.shape[:2], self.num_heads, self.head_dim)).transpose(1, 2)

    def _mask(
        self, q: Tensor, k: Tensor, attn_mask: Any, key_padding_mask: Any, is_causal: bool
    ) -> Tensor | None:
        """One float mask that is added to the scores, or None."""
        if is_causal and attn_mask is None:
            attn_mask = ~causal_mask(q.shape[2], k.shape[2])
        total = None
        if attn_mask is not None:
            total = _additive(attn_mask, q)
            if total.ndim == 3:
                total = total.reshape((q.shape[0], self.num_heads, *total.shape[1:]))
        if key_padding_mask is not None:
            padding = _additive(key_padding_mask, q).unsqueeze(1).unsqueeze(1)
            total = padding if total is None else total + padding
        return total

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        p = self.dropout if self.training else 0.0
        if not need_weights:
            return F.scaled_dot_product_attention(q, k, v, mask, p), None
        scores = (q * (1.0 / math.sqrt(self.head_dim))) @ k.transpose(-2, -1)
        weights = (scores if mask is None else scores + mask).softmax(-1)
        weights = F.dropout(weights, p) if p > 0.0 else weights
        return weights @ v, weights


def _additive(mask: Tensor, like: Tensor) -> Tensor:
    """A bool mask as minus infinity where it is True."""
    if mask.dtype is not dt.bool_:
        return mask
    return where(mask, -math.inf, like.new_zeros(()))
