"""Under `eager.distributed`: collectives in order. records -> results, requests -> `wait()`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from eager.autograd import no_grad
from eager.base.host_only import host_only
from eager.construct.interop import tensor
from eager.core.dispatch import apply
from eager.core.op import Op
from eager.core.tensor import Tensor
from eager.distributed.engine import Request, wait
from eager.distributed.groups import ProcessGroup

# Number of collectives that this process has taken. Each reads and writes it, so that a graph has
# them in the order of the program, and none is left out or moved.
ORDER: Final = tensor(0)


def taken(op: Op, x: Tensor, group: ProcessGroup, **attrs: Any) -> Tensor:
    """Result of a collective, the next one of this process."""
    # Read here, where a step that is captured makes a guard of it: compiled code is for so many.
    out, order = apply(op, x, ORDER, group=group.number, ranks=group.size(), **attrs)
    with no_grad():
        ORDER.copy_(order)
    return out


class Work:
    """A collective under way: tensors may be read and written once `wait()` has returned."""

    def __init__(
        self, request: Request | None, group: ProcessGroup | None, what: str, end: Any = None
    ) -> None:
        self._request, self._group, self._what, self._end = request, group, what, end

    def is_completed(self) -> bool:
        """True once the result is there; asking makes progress."""
        if self._request is not None and self._request.done():
            self._finish()
        return self._request is None

    def is_success(self) -> bool:
        return self.is_completed()

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Block until the result is there. Raises DistTimeoutError after the timeout (of the group,
        where none is given)."""
        if self._request is not None and self._group is not None:
            host_only("Work.wait")
            wait(self._request, timeout or self._group.timeout, self._describe)
            self._finish()
        return True

    def _finish(self) -> None:
        self._request = None
        if self._end is not None:
            end, self._end = self._end, None
            end()

    def _describe(self) -> str:
        return f"{self._what} of {self._group!r}"
