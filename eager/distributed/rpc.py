"""At the edge: `eager.distributed.rpc`, calls of functions of other processes, for programs that
ask whether it is there. Nothing -> False."""

from __future__ import annotations

from typing import NoReturn

_INSTEAD = "objects go between ranks by send_object_list and its like; there are no remote calls"


def is_available() -> bool:
    """False."""
    return False


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}: {_INSTEAD}", name=name)
