"""Under `distributed.checkpoint`: steps that all ranks take, or none. a function on each rank ->
what it gave on all, or one error on all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from eager.distributed.engine import DistError
from eager.distributed.groups import ProcessGroup, is_initialized, resolve
from eager.distributed.objects import gathered

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
    one. `what`: "saving ..." or "loading ...", which meets none of the other kind."""
    found: Any = None
    cause: Exception | None = None
    try:
        found = work()
    except Exception as error:  # noqa: BLE001 - it is told to all ranks
        cause = error
    text = None if cause is None else text_of(cause)
    said: list[Any] = [(text, found)]
    if group is not None:
        kind = what.partition(" ")[0]  # folders may have another name on another machine
        said = gathered(group, f"{kind} a checkpoint", (text, found))
    problem = failure(group, what, [text for text, _ in said])
    if problem is not None:
        raise problem from cause
    return [found for _, found in said]


def failure(
    group: ProcessGroup | None, what: str, texts: Sequence[str | None]
) -> CheckpointException | None:
    """The error of all ranks, of what went wrong on each; None where nothing did."""
    failed = [(rank, text) for rank, text in enumerate(texts) if text is not None]
    if not failed:
        return None
    ranks = group.ranks if group is not None else (0,)
    each = "; ".join(f"rank {ranks[rank]}: {text}" for rank, text in failed[:4])
    more = f"; and {len(failed) - 4} ranks more" if len(failed) > 4 else ""
    return CheckpointException(f"{what}: {each}{more}")


def text_of(error: BaseException) -> str:
    """The text of an error for the other ranks."""
    if isinstance(error, CheckpointException):
        return str(error)
    return f"{type(error).__name__}: {error}"
