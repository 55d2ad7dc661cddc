"""Multi-head attention as a module. queries, keys, values -> mixed values, and the weights if
wanted."""

from __future__ import annotations

from typing import Any

from eager.core.tensor import Tensor
from eager.nn import init
from eager.nn.functional import attention as heads
from eager.nn.modules.linear import Linear
from eager.nn.modules.module import Module
from eager.nn.parameter import Parameter
from eager.ops.create import empty, zeros


class NonDynamicallyQuantizableLinear(Linear):
    """A linear layer: the name under which PyTorch shows the last one of attention."""


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
            raise AssertionError(
                f"embed_dim must be divisible by num_heads, got {embed_dim} and {num_heads}"
            )
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        self.add_zero_attn = add_zero_attn
        self._add_projections(bias, device, dtype)
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        for name in ("bias_k", "bias_v"):
            one_more = empty(1, 1, embed_dim, device=device, dtype=dtype) if add_bias_kv else None
            self.register_parameter(name, None if one_more is None else Parameter(one_more))
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
        for one_more in (self.bias_k, self.bias_v):
            if one_more is not None:
                init.xavier_normal_(one_more)

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
        heads.check_lengths(key, value)
        single = query.ndim == 2
        heads.check_ranks(query, key, value, key_padding_mask)
        if single:
            query, key, value = query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0)
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            same = key is value, query is key
            query = query.transpose(0, 1)
            key = query if same[1] else key.transpose(0, 1)
            value = key if same[0] else value.transpose(0, 1)
        heads.check_sizes(query.shape[2], self.embed_dim, self.num_heads)
        plane = query.shape[1], key.shape[1]
        heads.check_mask(attn_mask, is_causal, plane, query.shape[0] * self.num_heads)
        heads.check_padding(key_padding_mask, (key.shape[0], key.shape[1]))
        q, k, v = self._project(query, key, value)
        mask = heads.added_mask(q, attn_mask, key_padding_mask, k.shape[2])
        p = self.dropout if self.training else 0.0
        out, weights = heads.attend(q, k, v, mask, p, need_weights)
        out = self.out_proj(out.transpose(1, 2).reshape((*query.shape[:2], self.embed_dim)))
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        if single:
            return out.squeeze(0), None if weights is None else weights.squeeze(0)
        return out if self.batch_first else out.transpose(0, 1), weights

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        """(N, L, E) queries, keys and values -> (N, heads, L, E / heads) each."""
        weights: Any = self.in_proj_weight
        if not self._qkv_same_embed_dim:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        q, k, v = heads.project((query, key, value), weights, self.in_proj_bias)
        k, v = heads.with_bias(k, self.bias_k), heads.with_bias(v, self.bias_v)
        q, k, v = (heads.in_heads(x, self.num_heads) for x in (q, k, v))
        return (q, heads.with_zero(k), heads.with_zero(v)) if self.add_zero_attn else (q, k, v)
