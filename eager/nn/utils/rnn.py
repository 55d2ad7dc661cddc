"""Sequences of different lengths as one tensor. list of tensors <-> padded tensor."""

from __future__ import annotations

from collections.abc import Sequence

from eager.ops.move import constant_pad, stack
from eager.tensor import Tensor


def pad_sequence(
    sequences: Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stack sequences (L_i, *) into (max L, N, *) or (N, max L, *), filling up with
    `padding_value`."""
    longest = max(x.shape[0] for x in sequences)
    padded = []
    for x in sequences:
        gap = longest - x.shape[0]
        ends = (gap, 0) if padding_side == "left" else (0, gap)
        padded.append(constant_pad(x, (ends, *((0, 0),) * (x.ndim - 1)), padding_value))
    return stack(padded, 0 if batch_first else 1)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """The sequences that `pad_sequence` was given."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [padded_sequences[i, :n] for i, n in enumerate(lengths.tolist())]
