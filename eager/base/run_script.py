"""At the edge: a program run as `python script.py ...` or `python -m module ...` would. path or
name, arguments -> `__main__`.

What the program raises leaves it as under Python: its traceback begins at its own first line, and
the interpreter ends with the status that it has for it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, TracebackType


def run_script(path: str, arguments: Sequence[str]) -> None:
    """Run the program at `path` with `sys.argv`, `sys.path` and `__main__` as its own. Raises what
    it raises, SystemExit too; OSError where it cannot be read, SyntaxError."""
    place = Path(
        path
    ).absolute()  # as under Python: places in errors, and in compiled code, name it
    if place.is_dir():
        place /= "__main__.py"
    main = _main(str(place))
    sys.argv = [path, *arguments]
    if not sys.flags.safe_path:
        sys.path[0] = str(place.resolve().parent)
    code = compile(place.read_bytes(), str(place), "exec", dont_inherit=True)
    exec(code, vars(main))


def run_module(name: str, arguments: Sequence[str]) -> None:
    """Run the module `name`, or the `__main__` of a package, as `python -m name` would. Raises what
    it raises, SystemExit too; ImportError where there is none."""
    if not sys.flags.safe_path:
        sys.path[0] = str(Path.cwd())
    spec = find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = find_spec(name := f"{name}.__main__")
    code = None if spec is None else spec.loader.get_code(name)  # type: ignore[union-attr]
    if spec is None or code is None:
        raise ImportError(f"No module named {name!r} to run", name=name)
    main = _main(str(spec.origin))
    vars(main).update(__spec__=spec, __loader__=spec.loader, __package__=spec.parent)
    sys.argv = [str(spec.origin), *arguments]
    exec(code, vars(main))


def _main(path: str) -> ModuleType:
    """A new `__main__`, whose errors are shown as under Python."""
    main = ModuleType("__main__")
    vars(main).update(__file__=path, __builtins__=__builtins__, __cached__=None)
    sys.modules["__main__"] = main
    sys.excepthook = _without_our_frames
    return main


def _without_our_frames(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Show an error that ended the program without the frames that started it."""
    main = sys.modules["__main__"]
    inner = trace
    while inner is not None and inner.tb_frame.f_globals is not vars(main):
        inner = inner.tb_next
    sys.__excepthook__(kind, error.with_traceback(inner), inner)
