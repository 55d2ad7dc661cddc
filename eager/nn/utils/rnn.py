"""Sequences of different lengths as one tensor. list of tensors <-> padded tensor <-> packed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from eager.construct.interop import tensor
from eager.core.tensor import Tensor
from eager.ops.create import arange
from eager.ops.move import constant_pad, stack


class PackedSequence(NamedTuple):
    """Sequences without their padding: `data` (sum of lengths, *) holds the first steps of all,
    then the second steps of those that have one, ...; `batch_sizes` says how many each step has.
    The longest comes first: `sorted_indices` says which it was, `unsorted_indices` where each one
    is."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        return self._replace(data=self.data.to(*args, **kwargs))

    @property
    def is_cuda(self) -> bool:
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        return self.data.is_pinned()


def _of_data(name: str) -> None:
    def method(self: PackedSequence, *args: Any, **kwargs: Any) -> PackedSequence:
        return self._replace(data=getattr(self.data, name)(*args, **kwargs))

    method.__name__, method.__doc__ = name, f"`Tensor.{name}` of the data."
    setattr(PackedSequence, name, method)


for _name in ("cpu", "cuda", "pin_memory", "double", "float", "half", "long", "int", "short",
              "char", "byte"):  # fmt: skip
    _of_data(_name)


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """The steps of padded sequences (T, B, *) that are there, for `nn.LSTM` and its like.

    RuntimeError for a length below 1, and with `enforce_sorted` for lengths that rise."""
    sizes = lengths.tolist() if isinstance(lengths, Tensor) else [int(n) for n in lengths]
    padded = input.transpose(0, 1) if batch_first else input
    if len(sizes) != padded.shape[1]:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(sizes)} "
            f"(batch_size={padded.shape[1]})"
        )
    if min(sizes) <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    order = sorted(range(len(sizes)), key=lambda i: -sizes[i])
    places = None
    if not enforce_sorted:
        places = tensor(order, device=input.device)
        padded = padded.index_select(1, places)
    elif order != list(range(len(sizes))):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You "
            "can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability."
        )
    live = [sum(n > t for n in sizes) for t in range(max(sizes))]
    data = packed(padded, live)
    return PackedSequence(data, tensor(live), places, None if places is None else places.argsort())


def packed(padded: Tensor, live: Sequence[int]) -> Tensor:
    """(T, B, *), of which step t has the first `live[t]`, -> (sum of live, *)."""
    batch = padded.shape[1]
    rows = [t * batch + i for t, n in enumerate(live) for i in range(n)]
    return padded.reshape((-1, *padded.shape[2:])).index_select(
        0, tensor(rows, device=padded.device)
    )


def unpacked(data: Tensor, live: Sequence[int], padding: float = 0.0) -> Tensor:
    """(sum of live, *) -> (T, B, *)."""
    rows, start = [], 0
    for n in live:
        rows.append([start + i if i < n else 0 for i in range(live[0])])
        start += n
    place = data.device
    none = arange(live[0], device=place) >= tensor(list(live), device=place).unsqueeze(1)
    out = data.index_select(0, tensor(rows, device=place).reshape(-1))
    out = out.masked_fill(none.reshape((-1, *(1,) * (data.ndim - 1))), padding)
    return out.reshape((len(live), live[0], *data.shape[1:]))


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The padded sequences (T, B, *) in the order they had, and their lengths.

    ValueError for a `total_length` below the longest."""
    live = sequence.batch_sizes.tolist()
    out = unpacked(sequence.data, live, padding_value)
    if total_length is not None:
        if total_length < len(live):
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in "
                f"input, but got total_length={total_length} and max sequence length being "
                f"{len(live)}"
            )
        ends = ((0, total_length - len(live)), *((0, 0),) * (out.ndim - 1))
        out = constant_pad(out, ends, padding_value)
    lengths = tensor([sum(n > i for n in live) for i in range(live[0])])
    out = out.transpose(0, 1) if batch_first else out
    if sequence.unsorted_indices is not None:  # in rows, so that `view` has them
        out = out.index_select(0 if batch_first else 1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices.cpu()]
    return out, lengths


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """A list of sequences (L_i, *) packed."""
    lengths = [len(x) for x in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The list that `pack_sequence` was given."""
    out, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(out, lengths, batch_first=True)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation (n,) that undoes another; None of None."""
    return None if permutation is None else permutation.argsort()


def pad_sequence(
    sequences: Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stack sequences (L_i, *) into (max L, N, *) or (N, max L, *), filling up with
    `padding_value`."""
    if not len(sequences):
        raise RuntimeError("received an empty list of sequences")
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
    return [padded_sequences[i, :n].clone() for i, n in enumerate(lengths.tolist())]
