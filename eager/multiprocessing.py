"""At the edge: `eager.multiprocessing`, Python's `multiprocessing` and PyTorch's `spawn`.

A tensor that is sent to a process is a copy, unless it was moved by `Tensor.share_memory_()`: that
is shared with processes that are sent it, and with those that are forked later.
"""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import *  # noqa: F403 - every name of Python's module
from multiprocessing import get_context
from typing import Any, Final

from eager.base.compat_warnings import warn_once
from eager.base.process import launchers

_STRATEGIES: Final = ("file_descriptor", "file_system")
_chosen = [_STRATEGIES[0]]


def get_all_sharing_strategies() -> set[str]:
    return {*_STRATEGIES}


def get_sharing_strategy() -> str:
    return _chosen[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose how PyTorch would share memory. What is shared here is a file without a name, with
    either: it takes one descriptor for a tensor. AssertionError for another strategy."""
    if new_strategy not in _STRATEGIES:
        raise AssertionError(f"there are the strategies {_STRATEGIES}, got {new_strategy!r}")
    _chosen[0] = new_strategy


class SpawnContext:
    """The processes of one `spawn`."""

    def __init__(self, processes: list[Any]) -> None:
        self.processes = processes

    def pids(self) -> list[int | None]:
        return [p.pid for p in self.processes]

    def join(self, timeout: float | None = None) -> bool:
        """Wait for all; whether they have ended. RuntimeError, after the others were ended, for
        one that failed."""
        for rank, process in enumerate(self.processes):
            process.join(timeout)
            if process.exitcode:
                for other in self.processes:
                    other.terminate()
                raise RuntimeError(
                    f"process {rank} ended with exit code {process.exitcode}; what it raised was "
                    "printed by it"
                )
        return all(p.exitcode is not None for p in self.processes)


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> SpawnContext | None:
    """`fn(rank, *args)` in `nprocs` new processes; waits for them, or gives their context if not
    `join`. Where a launcher of MPI has started so many on this machine, `fn` runs in this one, as
    its rank among them."""
    place = launchers.on_node()
    if nprocs > 1 and place is not None and place[1] == nprocs:
        warn_once("spawn", f"spawn: the launcher started {nprocs} ranks: fn runs in each of them")
        fn(place[0], *args)
        return None if join else SpawnContext([])
    context: Any = get_context(start_method)
    processes = [
        context.Process(target=fn, args=(rank, *args), daemon=daemon) for rank in range(nprocs)
    ]
    for process in processes:
        process.start()
    started = SpawnContext(processes)
    if not join:
        return started
    started.join()
    return None
