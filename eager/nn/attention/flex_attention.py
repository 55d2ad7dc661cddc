"""Attention with any function of the scores and any mask: a composition of ops. (*, L, E), (*, S,
E), (*, S, V) -> (*, L, V).

PyTorch's names. What a user writes for one score is called once, with the numbers of all batches,
heads, queries and keys as tensors that broadcast against each other; under `@jit` it becomes part
of the kernels that attention is computed with (`codegen.fuse.row_blocks`), and columns that a mask
is known to leave out are not computed. Source: Dong, Feng, Guessous, Liang, He, "Flex Attention: a
programming model for generating optimized attention kernels" (2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from eager.base import dtype as dt
from eager.base.dataclass import dataclass
from eager.core.tensor import Tensor
from eager.ops.index_and_sort import iota
from eager.ops.pointwise import where
from eager.sizes.symint import sqrt

ScoreMod: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
MaskMod: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
_DEFAULT_SPARSE_BLOCK_SIZE: Final = 128  # PyTorch's name, which libraries read


class AuxRequest(NamedTuple):
    """Request for more of `flex_attention` than its result: logarithms of sums, highest scores."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """Answer to an `AuxRequest`: (B, H, L) each, and None for what it did not ask for."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def noop_mask(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """Every query sees every key."""
    return (batch + head + query + key) >= 0


def and_masks(*masks: MaskMod) -> MaskMod:
    """Mask function that is true where all of these are."""

    def both(*at: Tensor) -> Tensor:
        seen = noop_mask(*at)
        for mask in masks:
            seen = seen & mask(*at)
        return seen

    return both


def or_masks(*masks: MaskMod) -> MaskMod:
    """Mask function that is true where one of these is."""

    def either(*at: Tensor) -> Tensor:
        seen = ~noop_mask(*at)
        for mask in masks:
            seen = seen | mask(*at)
        return seen

    return either


@dataclass(frozen=True, eq=False)
class BlockMask:
    """A mask by its function. `B`, `H`: batches and heads that it differs in, or None."""

    mask_mod: MaskMod
    B: int | None
    H: int | None
    Q_LEN: int
    KV_LEN: int

    @property
    def seq_lengths(self) -> tuple[int, int]:
        return self.Q_LEN, self.KV_LEN

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.B or 1, self.H or 1, self.Q_LEN, self.KV_LEN

    def to(self, device: Any) -> BlockMask:
        """Itself: it holds no tensor."""
        return self


def create_block_mask(
    mask_mod: MaskMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = "cpu",
    BLOCK_SIZE: Any = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
) -> BlockMask:
    """The mask of `mask_mod(b, h, q, kv)`, which says what a query sees. Blocks are chosen where
    the mask is used, so `BLOCK_SIZE` and `device` are accepted, and change nothing."""
    return BlockMask(mask_mod, B, H, Q_LEN, KV_LEN)


def create_mask(
    mod_fn: MaskMod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = "cpu"
) -> Tensor:
    """bool (B or 1, H or 1, Q_LEN, KV_LEN): the mask itself."""
    at = _numbers((B or 1, H or 1, Q_LEN, KV_LEN))
    return mod_fn(*at).broadcast_to((B or 1, H or 1, Q_LEN, KV_LEN))


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """softmax(mask(score_mod(query key^T * scale, b, h, q, kv))) value, of query (B, H, L, E), key
    (B, H, S, E) and value (B, H, S, V).

    A query that sees no key gets zeros. `scale` is 1/sqrt(E) by default. With `enable_gqa` key and
    value may have fewer heads, each for as many queries. With `return_lse` also the logarithm of
    the sum of exponentials, (B, H, L); with `return_aux` also an `AuxOutput` of what it asks for.
    `kernel_options` is for PyTorch's kernels, and changes
    nothing. ValueError for tensors of other than 4 dimensions, for heads that do not fit, and for a
    mask of other lengths."""
    if not query.ndim == key.ndim == value.ndim == 4:
        raise ValueError("flex_attention: query, key and value have 4 dimensions (B, H, L, E)")
    if query.shape[1] != key.shape[1]:
        if not enable_gqa or query.shape[1] % key.shape[1]:
            raise ValueError(
                f"flex_attention: {query.shape[1]} heads of query for {key.shape[1]} of key: "
                "pass enable_gqa=True where the first is a multiple of the second"
            )
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    factor = 1.0 / sqrt(query.shape[-1]) if scale is None else scale
    scores = (query @ key.transpose(-2, -1)) * factor
    at = _numbers(scores.shape, scores)
    if score_mod is not None:
        scores = score_mod(scores, *at)
    if block_mask is not None:
        if scores.shape[2] > block_mask.Q_LEN or scores.shape[3] > block_mask.KV_LEN:
            raise ValueError(
                f"flex_attention: a mask of {block_mask.seq_lengths} for scores of "
                f"{tuple(scores.shape[2:])}: make one with create_block_mask"
            )
        scores = where(block_mask.mask_mod(*at), scores, -math.inf)
    scores = scores.to(dt.promote_types(scores.dtype, dt.float32))
    highest = scores.detach().amax(-1, keepdim=True)
    highest = where(highest == -math.inf, 0.0, highest)
    weights = (scores - highest).exp()
    total = weights.sum(-1, keepdim=True)
    weights = weights / where(total == 0.0, 1.0, total)
    out = weights.to(value.dtype) @ value
    if not return_lse and return_aux is None:
        return out
    lse = (total.log() + highest).squeeze(-1)
    if return_aux is None:
        return out, lse
    top = scores.detach().amax(-1) if return_aux.max_scores else None
    return out, AuxOutput(lse if return_aux.lse else None, top)


def _numbers(shape: Any, like: Tensor | None = None) -> tuple[Tensor, ...]:
    """The numbers of batches (B, 1, 1, 1), heads (H, 1, 1), queries (L, 1) and keys (S)."""
    batch, head, query, key = (iota(n, like=like) for n in shape)
    return batch.reshape(-1, 1, 1, 1), head.reshape(-1, 1, 1), query.unsqueeze(1), key
