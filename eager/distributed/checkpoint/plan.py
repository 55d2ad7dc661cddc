"""Under `distributed.checkpoint`: who writes what. the leaves of all ranks -> the entries, and for
each rank the tensors that it writes.

Every rank makes the same plan. Of parts that several ranks have, one writes them, the one that has
least to write; where they differ, the first rank's count (as they do in data parallel training).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from eager.base.dataclass import dataclass
from eager.core.tensor import Tensor, wrap
from eager.distributed.checkpoint.leaves import is_numeric, named
from eager.distributed.checkpoint.metadata import DTYPES, Box, Entry, crc_of, require_grid
from eager.distributed.checkpoint.states import leaves_of
from eager.serialization.own import encode_plain
from eager.serialization.refusal import LoadError
from eager.serialization.safetensors import NAMES

_SHOWN: Final = 3  # names in one message


@dataclass
class Plan:
    """`entries` by name, the names that each rank writes, and those to tell of: they differ between
    ranks."""

    entries: dict[str, Entry]
    writes: list[list[str]]
    differing: list[str]


def described(state_dict: Any) -> tuple[dict[str, Entry], dict[str, Any]]:
    """This rank's leaves as entries of one part at most, and the arrays of them.

    TypeError for what a checkpoint cannot hold, ValueError for two entries of one name."""
    entries: dict[str, Entry] = {}
    arrays: dict[str, Any] = {}
    for leaf in leaves_of(state_dict):
        path, value, shard, name = leaf.path, leaf.value, leaf.shard, named(leaf.path)
        if name in entries:
            raise ValueError(f"two entries are named {name!r}: {entries[name].path} and {path}")
        if not is_numeric(value):
            entries[name] = Entry(path, _plain(value, name))
            continue
        array = _host(value, name)
        if shard is None:
            offsets, shape = (0,) * array.ndim, array.shape
        else:
            offsets, shape = shard.offsets, tuple(shard.shape)
        part = Box(0, offsets, array.shape, crc_of(array))
        parts = () if 0 in array.shape else (part,)
        is_array = isinstance(value, np.ndarray)
        dtype, told = array.dtype.name, not leaf.of_object
        entries[name] = Entry(path, None, dtype, shape, parts, is_array, told)
        arrays[name] = array
    return entries, arrays


def _plain(value: Any, name: str) -> Any:
    try:
        return encode_plain(value, name)
    except TypeError:
        raise TypeError(
            f"{name} is a {type(value).__name__} that is no plain value, or has one in it: a "
            "checkpoint has tensors, arrays, numbers, strings, containers of them, and objects "
            "with a state_dict()"
        ) from None


def _host(value: Any, name: str) -> Any:
    """The memory of a tensor or an array: contiguous, on the host, in its byte order."""
    array = value.detach().cpu()._array if isinstance(value, Tensor) else value
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype.name not in DTYPES:
        raise TypeError(f"{name}: an array of {array.dtype} does not fit into a checkpoint")
    return np.ascontiguousarray(array).reshape(array.shape)


def stored(array: Any) -> Tensor:
    """The array as safetensors has it: bytes, one dimension more, where it lacks the dtype."""
    known = {dtype.np for dtype in NAMES}
    return wrap(array if array.dtype in known else array[..., None].view(np.uint8))


def planned(ranks: Sequence[dict[str, Entry]]) -> Plan:
    """The plan for the leaves of all ranks. ValueError for leaves that do not fit together."""
    names = dict.fromkeys(name for entries in ranks for name in entries)
    plan = Plan({}, [[] for _ in ranks], [])
    held = [0] * len(ranks)
    for name in names:
        have = {r: entries[name] for r, entries in enumerate(ranks) if name in entries}
        first_rank, first = next(iter(have.items()))
        for rank, entry in have.items():
            _require_alike(name, first_rank, first, rank, entry)
        boxes: dict[tuple[Any, Any], dict[int, Box]] = {}
        for rank, entry in have.items():
            for part in entry.parts:
                boxes.setdefault((part.offsets, part.sizes), {})[rank] = part
        parts = []
        for having in boxes.values():
            equal = len({part.crc32 for part in having.values()}) == 1
            writer = min(having, key=lambda rank: (held[rank] if equal else 0, rank))
            if not equal and first.is_told:
                plan.differing.append(name)
            part = having[writer]
            held[writer] += math.prod(part.sizes) * DTYPES[first.dtype].itemsize
            plan.writes[writer].append(name)
            parts.append(replace(part, file=writer))
        if first.dtype:
            try:
                require_grid(first.shape, parts)
            except LoadError as error:
                raise ValueError(f"{name}: {error.args[0]}") from None
        plan.entries[name] = replace(first, parts=tuple(parts))
    return plan


def _require_alike(name: str, rank: int, entry: Entry, other_rank: int, other: Entry) -> None:
    """Raises ValueError where two ranks say other things of one entry."""
    for what in ("path", "dtype", "shape", "is_array"):
        ours, theirs = getattr(entry, what), getattr(other, what)
        if ours != theirs:
            raise ValueError(
                f"{name} has {what} {theirs!r} on rank {other_rank}, and {ours!r} on rank {rank}"
            )
    if json.dumps(entry.value) != json.dumps(other.value):
        raise ValueError(
            f"{name} is {other.value!r:.80} on rank {other_rank}, and {entry.value!r:.80} on rank "
            f"{rank}: give what each rank has of its own a name with the rank in it"
        )


def told(names: Sequence[str]) -> str:
    """A few of them, for a message."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, names[:_SHOWN])) + more
