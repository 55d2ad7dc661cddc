"""Under `distributed.checkpoint`: containers <-> named leaves. nested dicts and sequences ->
tensors, arrays and plain values, each under its path.

Lists and tuples are walked into where a tensor is in them; others are one plain value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from eager.core.tensor import Tensor

Step = str | int | tuple[str, int]  # a key, or ("list" or "tuple", index)
Path = tuple[Step, ...]
SEQUENCES: dict[str, type] = {"list": list, "tuple": tuple}


def named(path: Path) -> str:
    """The path as PyTorch writes it: "model.layer.weight"."""
    return ".".join(str(step[1] if isinstance(step, tuple) else step) for step in path)


def is_stateful(value: Any) -> bool:
    """True for a module, an optimizer, ...: what has a state of its own, and takes one."""
    return callable(getattr(value, "state_dict", None)) and callable(
        getattr(value, "load_state_dict", None)
    )


def is_numeric(value: Any) -> bool:
    """True for a tensor or a NumPy array."""
    return isinstance(value, Tensor | np.ndarray)


def is_walked(value: Any) -> bool:
    """True for a container whose elements are leaves of their own."""
    if isinstance(value, Mapping):
        return bool(value)
    return type(value) in (list, tuple) and _has_tensors(value)


def _has_tensors(value: Any) -> bool:
    if type(value) in (list, tuple):
        return any(map(_has_tensors, value))
    if isinstance(value, Mapping):
        return any(map(_has_tensors, value.values()))
    return is_numeric(value) or is_stateful(value)


def steps_into(container: Any) -> Iterator[tuple[Step, Any]]:
    """The elements of a container that is walked into. TypeError for other keys than strings and
    numbers."""
    if isinstance(container, Mapping):
        for key, value in container.items():
            if type(key) not in (str, int):
                raise TypeError(f"a key is {key!r:.80}: a checkpoint has strings and ints")
            yield key, value
    else:
        for i, value in enumerate(container):
            yield (type(container).__name__, i), value


def flatten(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Path and value of each leaf."""
    if not is_walked(value):
        yield path, value
        return
    for step, inner in steps_into(value):
        yield from flatten(inner, (*path, step))


def build(leaves: Mapping[Path, Any]) -> Any:
    """The containers whose leaves these are: dicts, lists and tuples. ValueError where they do not
    fit together."""
    if () in leaves:
        if len(leaves) > 1:
            raise ValueError("an entry is a value, and has entries below it")
        return leaves[()]
    below: dict[Step, dict[Path, Any]] = {}
    for (step, *rest), value in leaves.items():
        below.setdefault(step, {})[tuple(rest)] = value
    kinds = {step[0] if isinstance(step, tuple) else "dict" for step in below}
    if kinds == {"dict"}:
        return {step: build(inner) for step, inner in below.items()}
    places = {step[1]: inner for step, inner in below.items() if isinstance(step, tuple)}
    if len(kinds) != 1 or sorted(places) != [*range(len(below))]:
        raise ValueError("the elements of a list or tuple are not all there")
    return SEQUENCES[kinds.pop()](build(places[i]) for i in range(len(places)))
