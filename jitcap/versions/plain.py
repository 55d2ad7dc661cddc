"""Beside a version: the function that it is of, which may be run plainly and captured again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from eager.base.dataclass import dataclass
from jitcap.base.breaks import Break
from jitcap.base.call_policy import function_of, name_of
from jitcap.capture.result import Captured


class Plain(Protocol):
    """Source of a version: the plain function, and how it is captured."""

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The function itself."""

    def capture(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Captured | None:
        """A new capture of this call, as the version was captured; None if it is refused."""

    @property
    def place(self) -> str:
        """The function, and where it stands."""

    @property
    def called(self) -> Callable[..., Any] | None:
        """The function; None for a part of one."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A function that is captured as a whole, by `way`, with `varying` sizes and numbers."""

    fn: Callable[..., Any]
    varying: frozenset[str]
    way: Callable[..., Captured]

    @property
    def place(self) -> str:
        plain = function_of(self.fn)
        code = plain[0].__code__ if plain else None
        name = name_of(self.fn)
        return f"{name} at {code.co_filename}:{code.co_firstlineno}" if code else name

    @property
    def called(self) -> Callable[..., Any]:
        return self.fn

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.fn(*args, **kwargs)

    def capture(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Captured | None:
        try:
            return self.way(self.fn, args, kwargs, dynamic=self.varying)
        except Break:
            return None
