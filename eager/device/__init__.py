"""Beside the element types: where a tensor lives and what its size is. names -> device, ints ->
Size."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from typing import Any


class Size(tuple[int, ...]):
    """A tensor's shape: a tuple of ints that prints as PyTorch's and knows its `numel()`. TypeError
    for what is no int."""

    __slots__ = ()

    def __new__(cls, sizes: Iterable[Any] = ()) -> Size:
        made: Size = tuple.__new__(cls, sizes)
        for i, n in enumerate(made):
            kind = n.__class__  # of a number of the run, too
            if kind is not int and not hasattr(kind, "__index__"):
                raise TypeError(f"Size(): item {i} must be int, not {kind.__name__}")
        return made

    def numel(self) -> int:
        return math.prod(self)

    def __repr__(self) -> str:
        return f"eager.Size([{', '.join(map(str, self))}])"

    def __add__(self, other: Any) -> Size:
        return Size(tuple.__add__(self, tuple(other)))

    def __mul__(self, times: Any) -> Size:
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __getitem__(self, index: Any) -> Any:
        item = tuple.__getitem__(self, index)
        return Size(item) if isinstance(index, slice) else item


class _Default(threading.local):
    """Default device of constructors in this thread: None is the CPU. `before` are those that end
    with a `with` block. "cuda" without a number is `current`."""

    place: device | None = None
    current: int = 0

    def __init__(self) -> None:
        self.before: list[device | None] = []


default = _Default()


class device:
    """`device("cuda:0")`, `device("cuda", 0)` or `device("cpu")`: a place for tensors. Hashable,
    compares by value. `with device("cuda"):` places new tensors there."""

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: Any, index: int | None = None) -> None:
        if isinstance(type, int):
            type, index = "cuda", type
        kind, _, number = str(type).partition(":")
        if kind not in ("cpu", "cuda", "meta"):
            raise RuntimeError(
                f"unknown device {type!r}: expected 'cpu', 'cuda', 'cuda:<index>' or 'meta'"
            )
        if index is not None and index < 0:
            raise RuntimeError(f"Device index must not be negative, got {index}")
        self.type = kind
        self.index = int(number) if number else index

    def __repr__(self) -> str:
        return f"device(type={self.type!r}" + (
            f", index={self.index})" if self.index is not None else ")"
        )

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (str(self),)

    def __enter__(self) -> device:
        default.before.append(default.place)
        default.place = None if self.type == "cpu" else self
        return self

    def __exit__(self, *_: object) -> None:
        default.place = default.before.pop()


CPU = device("cpu")
