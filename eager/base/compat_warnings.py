"""At the edge: options of PyTorch's that have no meaning here. an option -> a warning, or an error.

An option that changes no result is ignored and says so once; one whose ignoring would change a
result raises, and says what to use. What PyTorch warns of is said at the user's line, by `warn`.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

OURS: Final = frozenset({"eager", "codegen", "jitcap"})
_said: set[str] = set()
# Under capture: what takes a warning, for the compiled program to give.
teller: ContextVar[Callable[[str, type[Warning]], None] | None] = ContextVar("teller", default=None)


class IgnoredOptionWarning(UserWarning):
    """An option that means nothing here was given. Said once per option."""


def warn_once(option: str, text: str) -> None:
    """Warn at the first use of `option` in this process, at the user's own line."""
    if option in _said:
        return
    _said.add(option)
    tell(text, IgnoredOptionWarning)


def tell(text: str, category: type[Warning]) -> None:
    """A notice about how the program is run: a warning at the user's own line, which never changes
    what the program does. Where filters make an error of it, it is printed to stderr."""
    frame, _ = _user_frame()
    place, module = (frame.f_code.co_filename, frame.f_lineno), frame.f_globals.get("__name__")
    message = category(text)
    module = module if type(module) is str else "<string>"  # nothing is shown of None
    try:  # without a registry, which would be a name in the user's module
        warnings.warn_explicit(message, category, *place, module)
    except Exception:  # noqa: BLE001 - of a filter, or of what the program shows them by
        not_raised(message, place)


def not_raised(message: Warning, place: tuple[str, int]) -> None:
    """Write a notice that is not shown as a warning to stderr. Tests have it raised."""
    if sys.stderr is not None:
        with contextlib.suppress(Exception):
            sys.stderr.write(warnings.formatwarning(message, type(message), *place))


def _user_frame() -> tuple[Any, int]:
    """The innermost frame outside our packages, and how far above the caller's it is."""
    frame, level = sys._getframe(2), 2
    while frame.f_back is not None:
        if not is_ours(frame.f_globals) and not is_passed_over(frame):
            break
        frame, level = frame.f_back, level + (not is_passed_over(frame))
    return frame, level


def is_ours(space: dict[str, Any]) -> bool:
    """True if code with these globals is the library's."""
    name = space.get("__name__")
    return type(name) is str and name.partition(".")[0] in OURS


def is_passed_over(frame: Any) -> bool:
    """True if a `stacklevel` does not count a frame: Python knows those of its imports by the name
    of their file."""
    name = frame.f_code.co_filename
    return "importlib" in name and "_bootstrap" in name


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the user's own line; of a compiled program, at each of its calls."""
    put_off = teller.get()
    if put_off is not None:
        put_off(text, category)
        return
    _, level = _user_frame()
    warnings.warn(text, category, stacklevel=level)


def warn_if_read_only(array: Any) -> None:
    if not array.flags.writeable:
        warn(
            "from_numpy: the array is not writable, and the tensor shares its memory: writing to "
            "it raises. Copy the array (array.copy()) to write"
        )


def user_place() -> str:
    """The user's own line that is running: file:line."""
    frame, _ = _user_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def user_places() -> tuple[str, ...]:
    """The user's lines that lead to this call, the innermost first: file:line."""
    frame, found = sys._getframe(1), []
    while frame is not None:
        if not is_ours(frame.f_globals) and not is_passed_over(frame):
            found.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(found)


def user_line() -> str:
    """The user's line as messages show it: (at file:line)."""
    return f"(at {user_place()})"


def ignore(function: str, **options: Any) -> None:
    """Warn once for each option that has a value other than None and False."""
    for name, value in options.items():
        if value is not None and value is not False:
            warn_once(f"{function} {name}", f"{function}: {name}={value!r} has no effect here")


def refuse(function: str, instead: str, **options: Any) -> None:
    """NotImplementedError for an option that has a value other than None and False."""
    for name, value in options.items():
        if value is not None and value is not False:
            raise NotImplementedError(f"{function}: {name}={value!r} is not there; {instead}")


STRIDED: Final = "eager.strided"


def options(
    function: str, layout: Any = None, pin_memory: bool = False, memory_format: Any = None
) -> None:
    """Check the options for tensors that a function makes: they are strided, in one memory, in one
    order of elements."""
    if layout not in (None, STRIDED):
        raise NotImplementedError(
            f"{function}() makes strided tensors, got layout={layout}: use to_sparse() then"
        )
    ignore(function, pin_memory=pin_memory, memory_format=memory_format)
