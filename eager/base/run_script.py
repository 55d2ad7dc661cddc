"""At the edge: a program run as `python script.py ...` would. path, arguments -> `__main__`.

What the program raises leaves it as under Python: its traceback begins at its own first line, and
the interpreter ends with the status that it has for it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, TracebackType


def run_script(path: str, arguments: Sequence[str]) -> None:
    """Run the program at `path` with `sys.argv`, `sys.path` and `__main__` as its own. Raises what
    it raises, SystemExit too; OSError where it cannot be read, SyntaxError."""
    place = Path(path)
    if place.is_dir():
        place /= "__main__.py"
    main = ModuleType("__main__")
    vars(main).update(__file__=str(place), __builtins__=__builtins__, __cached__=None)
    sys.modules["__main__"] = main
    sys.argv = [path, *arguments]
    if not sys.flags.safe_path:
        sys.path[0] = str(place.resolve().parent)
    sys.excepthook = _without_our_frames
    code = compile(place.read_bytes(), str(place), "exec", dont_inherit=True)
    exec(code, vars(main))


def _without_our_frames(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Show an error that ended the program without the frames that started it."""
    main = sys.modules["__main__"]
    inner = trace
    while inner is not None and inner.tb_frame.f_globals is not vars(main):
        inner = inner.tb_next
    sys.__excepthook__(kind, error.with_traceback(inner), inner)
