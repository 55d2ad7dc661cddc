"""At the edge: what a PyTorch program asked for that is not there. Its run, its text -> a list.

While the program runs, names that modules do not have are noted with the line that asked. At the
end its text is read as well, and that of the modules beside it, so that a program that stops at the
first name that is missing is told all of them.
"""

from __future__ import annotations

import ast
import atexit
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, Final

from eager.base import misspelled, stub_modules
from eager.base.compat_warnings import OURS

_asked: Final[dict[tuple[str, str], None]] = {}  # name and place, in order


def note(name: str, place: str | None = None) -> None:
    """Note a name of PyTorch's that is missing, asked for by a line of the program (the one that
    runs). What other packages look for is not noted: they can do without, or fail."""
    place = _line() if place is None else place
    if place and not name.endswith("__"):
        _asked.setdefault((_of_torch(name), place))


def _of_torch(name: str) -> str:
    """The name by which the program knows one of ours."""
    return f"torch{name.removeprefix('eager')}" if name.startswith("eager.") else name


def note_error(error: BaseException) -> None:
    """An error that ends the program, if it says that a tensor or module lacks an attribute, or a
    function an argument."""
    if isinstance(error, AttributeError) and error.obj is not None:
        kind = error.obj if isinstance(error.obj, type) else type(error.obj)
        if kind.__module__.partition(".")[0] in OURS:
            note(f"{kind.__qualname__}.{error.name}", _line_of(error))
    elif isinstance(error, NotImplementedError | TypeError) and _is_ours(error):
        note(str(error).partition("\n")[0], _line_of(error))


def _is_ours(error: BaseException) -> bool:
    """True if this library raised it, or has no such argument."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if isinstance(error, TypeError):
        called, unexpected, _ = str(error).partition("() got an unexpected keyword argument")
        return bool(unexpected) and any(
            hasattr(import_module(name), called.partition(".")[0]) for name in _CALLED_IN
        )
    return trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS)


def report_at_exit(reason: Callable[[str], str]) -> None:
    """Print the list when the program has ended, whichever way; `reason` of a name, if it has one,
    is said there and in the errors."""

    def why(name: str) -> str:
        return reason(_of_torch(name))

    def asked(module: str, name: str) -> None:
        if module.partition(".")[0] == "eager":  # not a part of the compiler's, on its import
            note(f"{module}.{name}")

    misspelled.observers.append(asked)
    misspelled.reasons.append(lambda module, name: why(f"{module}.{name}"))
    stub_modules.observers.append(note)
    before = set(sys.modules)

    def report() -> None:
        for path in _files(before):
            for name, line in in_text(path):
                note(name, f"{path}:{line}")
        if _asked:
            here = f"{Path.cwd()}{os.sep}"
            rows = [(f"  {at.removeprefix(here)}: {name}", why(name)) for name, at in _asked]
            lines = "".join(f"{row}: {said}\n" if said else f"{row}\n" for row, said in rows)
            sys.stderr.write(f"not in this library, of what the program names:\n{lines}")

    atexit.register(report)


def _files(before: set[str]) -> Iterator[Path]:
    """The program, and the modules that it imported from its own folder."""
    script = Path(sys.modules["__main__"].__file__ or "")
    yield script
    folder = script.resolve().parent
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if name not in before and name != "__main__" and isinstance(path, str):
            place = Path(path)
            if place.suffix == ".py" and folder in place.parents and _is_of_a_program(str(place)):
                yield place


def in_text(path: Path) -> Iterator[tuple[str, int]]:
    """Names of PyTorch's in a program that are missing here, with their lines."""
    with suppress(OSError, SyntaxError, ValueError):
        tree = ast.parse(path.read_bytes())
        known = dict(_imported(tree))
        seen = set()
        for node in ast.walk(tree):
            for name in _named(node, known):
                lacks = first_missing(name)
                if lacks is not None and lacks not in seen:
                    seen.add(lacks)
                    yield lacks, node.lineno  # type: ignore[attr-defined]


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Local names of what is imported from PyTorch: F -> torch.nn.functional."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                if each.name.partition(".")[0] == "torch":
                    yield each.asname or "torch", each.name if each.asname else "torch"
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and _is_torch(node.module):
            for each in node.names:
                yield each.asname or each.name, f"{node.module}.{each.name}"


def _named(node: ast.AST, known: dict[str, str]) -> Iterator[str]:
    """The dotted names that a node means."""
    if isinstance(node, ast.Import):
        yield from (each.name for each in node.names if _is_torch(each.name))
    elif isinstance(node, ast.ImportFrom) and node.level == 0 and _is_torch(node.module):
        yield from (f"{node.module}.{each.name}" for each in node.names if each.name != "*")
    elif isinstance(node, ast.Attribute):
        parts = []
        inner: ast.AST = node
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name) and inner.id in known:
            yield ".".join([known[inner.id], *reversed(parts)])


def _is_torch(name: str | None) -> bool:
    return name is not None and name.partition(".")[0] == "torch"


def first_missing(name: str) -> str | None:
    """The shortest beginning of a dotted name of PyTorch's that is not here, or None."""
    parts = name.split(".")
    found: Any = import_module("eager")
    for i, part in enumerate(parts[1:], 2):
        try:
            found = getattr(found, part)
        except (
            RuntimeError
        ):  # a part that is not imported at the end of a program: it starts threads
            return None
        except AttributeError:
            try:
                found = import_module(".".join(["eager", *parts[1:i]]))
            except ImportError:
                return ".".join(parts[:i])
            except RuntimeError:
                return None
        if isinstance(found, stub_modules.Absent):
            return ".".join(parts[:i])
        if not isinstance(found, (type, type(sys))):  # what it has is known when it is made
            return None
    return None


def _line() -> str:
    """The line of the program that runs; "" where another package does."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_of_a_program(frame.f_code.co_filename):
        frame = None if PACKAGES in frame.f_code.co_filename else frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _line_of(error: BaseException) -> str:
    """The innermost line of the program that an error has passed."""
    place, trace = "", error.__traceback__
    while trace is not None:
        if _is_of_a_program(trace.tb_frame.f_code.co_filename):
            place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


PACKAGES: Final = f"{os.sep}site-packages{os.sep}"
_OURS: Final = tuple(str(Path(__file__).resolve().parents[2] / name) + os.sep for name in OURS)
_NOT_THE_PROGRAM: Final = ("<", sysconfig.get_path("stdlib"), *_OURS)
_CALLED_IN: Final = ("eager", "eager.nn", "eager.nn.functional", "eager.optim", "eager.utils.data")


def _is_of_a_program(file: str) -> bool:
    """True for a file that is no library's."""
    return not file.startswith(_NOT_THE_PROGRAM) and PACKAGES not in file
