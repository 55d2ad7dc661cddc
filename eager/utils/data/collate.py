"""Samples -> a batch of tensors. What loaders do with samples where the program does not say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eager.construct.interop import tensor
from eager.core.tensor import Tensor
from eager.ops.move import stack


def default_collate(batch: Sequence[Any]) -> Any:
    """Samples joined along a new first dimension, structure by structure: tensors, arrays and
    numbers become tensors; strings stay as they are; tuples, lists, dicts and named tuples hold
    collated parts. TypeError for what cannot be joined."""
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(batch)
    if isinstance(first, np.ndarray):
        return tensor(np.stack(batch))
    if isinstance(first, bool | int | float | np.generic):
        return tensor(np.array(batch)) if isinstance(first, np.generic | float) else tensor(batch)
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, Mapping):
        return {key: default_collate([sample[key] for sample in batch]) for key in first}
    if isinstance(first, tuple | list):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        parts = [default_collate(part) for part in zip(*batch, strict=True)]
        if hasattr(first, "_fields"):
            return type(first)(*parts)
        return parts
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
        f"{type(first)}"
    )


def default_convert(data: Any) -> Any:
    """Arrays as tensors, in any structure; everything else as it is."""
    if isinstance(data, np.ndarray | np.generic):
        return tensor(data)
    if isinstance(data, Mapping):
        return {key: default_convert(value) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(x) for x in data))
    if isinstance(data, tuple | list):
        return [default_convert(x) for x in data]
    return data


def pinned(batch: Any) -> Any:
    """A batch with its tensors in memory from which a GPU copies meanwhile."""
    if isinstance(batch, Mapping):
        return type(batch)({key: pinned(each) for key, each in batch.items()})  # type: ignore[call-arg]
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*map(pinned, batch))
    if isinstance(batch, list | tuple):
        return type(batch)(map(pinned, batch))
    return batch.pin_memory() if hasattr(batch, "pin_memory") else batch
