"""Reproducing: what a file of a call runs. A function, its arguments -> is capture wrong there?

`verify=True` compares the call with plain Python, op by op, in a child process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from jitcap.api import jit
from jitcap.base.breaks import Break
from jitcap.pipeline import SUSPECT
from jitcap.reproduce.fault import COMPILING, INVALID, Outcome, Shown, raised
from jitcap.verify import VerifyError

DIFFERS: Final = "differs"


class Call(Shown):
    """A call that was not captured as it should be.

    `shows` is "differs", or which exception is raised where."""

    def __init__(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any] | None = None,
        *,
        shows: str,
        backend: str = "eager",
        settings: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(shows, backend, settings)
        self.fn = fn
        self.args = args
        self.kwargs = kwargs or {}

    def stage(self, outcome: Outcome) -> str:
        """Stage of the compiler that is at fault."""
        return outcome.stage or "capture"

    def _found(self, backend: str, say: Callable[..., None]) -> Outcome:
        say("running", COMPILING)
        try:
            jit(self.fn, verify=True, backend=backend)(*self.args, **self.kwargs)
        except VerifyError as error:
            return Outcome(DIFFERS, str(error))
        except Break as refusal:
            return Outcome(INVALID, str(refusal))
        except Exception as error:
            if not hasattr(error, SUSPECT):
                raise
            return raised(error)
        return Outcome("")
