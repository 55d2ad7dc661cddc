"""Samples -> a batch of tensors. What loaders do with samples where the program does not say."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from eager.construct.interop import tensor
from eager.core.tensor import Tensor
from eager.ops.move import stack

# The functions that join samples, by type, or by types: of PyTorch's names, which programs extend.
Joins: TypeAlias = dict[Any, Callable[..., Any]]
np_str_obj_array_pattern: Final = re.compile(r"[SaUO]")  # of the types that no tensor has
_NO_NUMBERS: Final = "SUO"  # kinds of arrays: of text, or of objects
_CANNOT: Final = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)


def default_collate(batch: Sequence[Any]) -> Any:
    """Samples joined along a new first dimension, structure by structure: tensors, arrays and
    numbers become tensors; strings stay as they are; tuples, lists, dicts and named tuples hold
    collated parts. TypeError for what cannot be joined."""
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Sequence[Any], *, collate_fn_map: Joins | None = None) -> Any:
    """Samples joined as `default_collate` does, those of the types that `collate_fn_map` has by its
    functions. It may also be given more types for good: `default_collate_fn_map.update(...)`."""
    first, joins = batch[0], collate_fn_map or {}
    for kind in (type(first), *joins):  # the very type goes before its base classes
        if kind in joins and isinstance(first, kind):
            return joins[kind](batch, collate_fn_map=joins)
    if isinstance(first, Mapping):
        columns = {key: [sample[key] for sample in batch] for key in first}
        return _like(first, {k: collate(v, collate_fn_map=joins) for k, v in columns.items()})
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        parts = [collate(part, collate_fn_map=joins) for part in zip(*batch, strict=True)]
        if isinstance(first, tuple):
            return type(first)(*parts) if hasattr(first, "_fields") else parts
        return _like(first, parts)
    raise TypeError(_CANNOT.format(type(first)))


def _like(first: Any, parts: Any) -> Any:
    """The parts, in a dictionary or list, in a container of the type of `first`, where it can be
    made."""
    if type(first) is type(parts):
        return parts
    try:
        if not isinstance(first, MutableMapping | MutableSequence):
            return type(first)(parts)
        made: Any = copy.copy(first)
        if isinstance(first, MutableMapping):
            made.update(parts)
        else:
            for i, part in enumerate(parts):
                made[i] = part
        return made
    except TypeError:
        return parts


def collate_tensor_fn(batch: Any, *, collate_fn_map: Joins | None = None) -> Tensor:
    """Tensors of one size, stacked."""
    return stack(batch)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: Joins | None = None) -> Tensor:
    """Arrays of one shape, stacked."""
    if batch[0].dtype.kind in _NO_NUMBERS:
        raise TypeError(_CANNOT.format(batch[0].dtype))
    return tensor(np.stack(batch))


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: Joins | None = None) -> Tensor:
    """NumPy's numbers as a tensor of their type."""
    return tensor(np.array(batch))


def collate_float_fn(batch: Any, *, collate_fn_map: Joins | None = None) -> Tensor:
    """Floats as a tensor of float64."""
    return tensor(np.array(batch))


def collate_int_fn(batch: Any, *, collate_fn_map: Joins | None = None) -> Tensor:
    """Ints, or bools, as a tensor."""
    return tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: Joins | None = None) -> Any:
    """Strings as they are."""
    return batch


default_collate_fn_map: Joins = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_convert(data: Any) -> Any:
    """Arrays as tensors, in any structure; everything else as it is."""
    if isinstance(data, np.ndarray | np.generic):
        return data if data.dtype.kind in _NO_NUMBERS else tensor(data)
    if isinstance(data, Mapping):
        return _like(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(x) for x in data))
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        parts = [default_convert(x) for x in data]
        return parts if isinstance(data, tuple) else _like(data, parts)
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
