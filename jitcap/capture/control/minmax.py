"""Capture: `max` and `min` of what only the run can compare. operands -> a value, or two ways.

Of numbers of one type the answer is a number of the graph. Of others, and of tensors, it is one of
the operands, as in Python: a branch of the frame that calls, as if the comparison stood there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any

from eager.core.sym import SymNumber
from eager.core.tensor import Tensor
from jitcap.capture import numbers
from jitcap.capture.interpret import Done, Frame
from jitcap.capture.kinds import native_proxies
from jitcap.capture.kinds.base import Session, kind_of
from jitcap.capture.kinds.iterators import Iteration

Given = tuple[Any, ...]


def extreme(s: Any, frame: Frame, builtin: Callable[..., Any], args: Given) -> Done | None:
    """A call in `frame`, which gets the answer; or what the frame returns."""
    values, iterator = _read(s, args)
    both = iterator is None and all(map(_is_plain, values)) and any(map(s.undecided, values))
    if both and numbers.extreme(s, builtin, values) is None:
        op = ">" if builtin is max else "<"
        found = _fold(s, frame, frame.pc, op, values[0], values[1:])
        if isinstance(found, Done):
            return found
        frame.stack += found
        return None
    frame.push(_answer(s, builtin, args, values, iterator, {}))
    return None


def called(s: Session, builtin: Callable[..., Any], args: Given, kwargs: dict[str, Any]) -> Any:
    """A call from anywhere else."""
    if kwargs:
        iterator = iter(Iteration(s, s.iter(args[0]))) if len(args) == 1 else None
        return _answer(s, builtin, args, args, iterator, kwargs)
    return _answer(s, builtin, args, *_read(s, args), kwargs)


def _read(s: Session, args: Given) -> tuple[Sequence[Any], Any]:
    """Values to compare: the arguments, or the items of an iterable if nobody can tell that all is
    read before the first is compared. If somebody can: nothing, and an iterator of it."""
    if len(args) != 1:
        return args, None
    values, read = Iteration(s, s.iter(args[0])), list[Any]()
    for value in values:
        read.append(value)
        if not _is_plain(value):
            return (), chain(read, values)
    return read, None


def _is_plain(value: Any) -> bool:
    """True if comparing the value runs none of the program's code, and raises nothing."""
    if type(value) is Tensor:
        return value.numel() == 1
    return type(value) in (SymNumber, int, float)


def _answer(
    s: Session, builtin: Callable[..., Any], args: Given, values: Sequence[Any], iterator: Any,
    kwargs: dict[str, Any],
) -> Any:  # fmt: skip
    if iterator is None and not kwargs:
        found = numbers.extreme(s, builtin, values)
        if found is not None:
            return found
    if len(args) != 1:
        return s.native(builtin, args, kwargs)
    named = native_proxies.named(s, {k: kind_of(v).to_native(s, v) for k, v in kwargs.items()})
    return s.call_native(
        lambda: builtin(iter(values) if iterator is None else iterator, **named), ()
    )


def _fold(s: Any, frame: Frame, pc: int, op: str, best: Any, rest: Sequence[Any]) -> Given | Done:
    """Values to push: the best of all, where each may take the place of the last."""
    frame.pc = pc
    if not rest:
        return (best,)
    replaces = s.compare(op, rest[0], best)
    ways = [partial(_fold, s, frame, pc, op, x, rest[1:]) for x in (best, rest[0])]
    if type(replaces) is bool or not s.undecided(replaces):
        return ways[s.truth(replaces)]()
    return s.branch(frame, replaces, tuple((pc, way) for way in ways)) or ()
