"""Under `distributed.checkpoint`: steps that all ranks take, or none. a function on each rank ->
what it gave on all, or one error on all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from eager.distributed.engine import DistError
from eager.distributed.groups import ProcessGroup, is_initialized, resolve
from eager.distributed.objects import all_gather_object

T = TypeVar("T")


class CheckpointException(DistError):
    """A checkpoint that was not saved, or not read: which rank, which file and entry, and why."""


def group_for(process_group: Any, no_dist: bool) -> ProcessGroup | None:
    """The ranks that take part; None where this process is alone. ValueError outside of its
    group."""
    if no_dist or (process_group is None and not is_initialized()):
        return None
    group = resolve(process_group)
    if group is None:
        raise ValueError("distributed.checkpoint: this rank is not in the process group")
    return group


def together(group: ProcessGroup | None, what: str, work: Callable[[], T]) -> list[T]:
    """Results of `work` on each rank. CheckpointException, on all of them, where it raises on
    one."""
    found: Any = None
    cause: Exception | None = None
    try:
        found = work()
    except Exception as error:  # noqa: BLE001 - it is told to all ranks
        cause = error
    text = None if cause is None else _text(cause)
    said: list[Any] = [(text, found)]
    if group is not None:
        said = [None] * group.size()
        all_gather_object(said, (text, found), group)
    failed = [(rank, told) for rank, (told, _) in enumerate(said) if told is not None]
    if failed:
        ranks = group.ranks if group is not None else (0,)
        each = "; ".join(f"rank {ranks[rank]}: {told}" for rank, told in failed[:4])
        more = f"; and {len(failed) - 4} ranks more" if len(failed) > 4 else ""
        raise CheckpointException(f"{what}: {each}{more}") from cause
    return [found for _, found in said]


def _text(error: Exception) -> str:
    if isinstance(error, CheckpointException):
        return str(error)
    return f"{type(error).__name__}: {error}"
