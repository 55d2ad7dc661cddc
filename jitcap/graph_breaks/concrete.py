"""Capture: the world in which operations simply happen. operation -> what CPython does.

Between two compiled parts of a program the instruction that could not be captured is executed here,
on real values, by the same interpreter.
"""

from __future__ import annotations

import builtins
import operator
import sys
import warnings
from collections.abc import Callable
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any, Final

from eager.core.tensor import Tensor
from jitcap.capture.interpret import GOES_ON, NULL, Frame
from jitcap.capture.kinds.modules import no_such_name
from jitcap.capture.operations import BINARY, COMPARE, INPLACE, UNARY
from jitcap.capture.tracebacks import (
    below,
    call_in,
    locate,
    report_above,
    report_level,
)

Nested = Callable[[FunctionType, tuple[Any, ...], dict[str, Any]], Any]

_BINARY: Final = BINARY | INPLACE | COMPARE
# Classes that do not warn, by identity: a metaclass may hash its own.
_SILENT: Final = frozenset(map(id, (int, float, str, bool, type(None), Tensor)))


def _located(fn: Callable[..., Any]) -> Callable[..., Any]:
    """An operation that may run any code, which may warn or look at its caller."""
    return lambda world, *args: world._here(fn, args, {})


class ConcreteWorld:
    """See `interpret.World`, for one frame. `nested` runs the Python functions that `splits` says
    may be compiled in turn; others are called in the name of the frame. `callers` are the frames
    above it that are executed like this, the outermost first."""

    def __init__(
        self,
        frame: Frame,
        nested: Nested,
        splits: Callable[[Any], bool],
        callers: tuple[Frame, ...] = (),
    ) -> None:
        self._nested = nested
        self._splits = splits
        self._frames = (*callers, frame)
        self._frame = frame

    def binary(self, op: str, a: Any, b: Any) -> Any:
        if id(type(a)) in _SILENT and id(type(b)) in _SILENT:
            return _BINARY[op](a, b)
        return self._here(_BINARY[op], (a, b), {})

    compare = binary

    def unary(self, op: str, a: Any) -> Any:
        return self._here(UNARY[op], (a,), {})

    def _here(
        self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], at: Frame | None = None
    ) -> Any:
        """A call in the name of a frame, which what warns in it tells, or looks at."""
        if not callable(fn):
            return fn(*args, **kwargs)  # raises, in Python's words
        frame = at or self._frame
        names = frame.names(self.load_cell)
        return call_in(frame, names, partial(fn, *args, **kwargs) if args or kwargs else fn)

    contains = _located(lambda item, container: item in container)
    same = staticmethod(operator.is_)
    truth = as_bool = _located(bool)
    negation = _located(operator.not_)
    undecided = staticmethod(lambda value: False)
    branch = staticmethod(lambda frame, value, starts: None)  # never asked
    turn = staticmethod(lambda frame: None)
    getattr = _located(builtins.getattr)
    setattr = _located(builtins.setattr)
    delattr = _located(builtins.delattr)
    getitem = _located(operator.getitem)
    setitem = _located(operator.setitem)
    delitem = _located(operator.delitem)
    iter = _located(builtins.iter)
    next = _located(builtins.next)
    format = _located(builtins.format)
    join = staticmethod("".join)
    # Real values are all there; nothing is noted about them, and nothing stands for anything.
    settle = hashing = entering = dropping = changing = raising = staticmethod(lambda _: None)
    complete = writing = catching = caught = staticmethod(lambda _: None)
    made_inside = staticmethod(lambda value: value)
    roll = staticmethod(lambda frame, end: False)

    list_of = _located(list)

    def method(self, obj: Any, name: str) -> Any:
        for owner in type(obj).__mro__:
            if name in vars(owner):
                raw = vars(owner)[name]
                return raw.__get__(obj, type(obj)) if hasattr(raw, "__get__") else raw
        raise AttributeError(name)

    def call(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        target: Any = fn
        given = args
        while type(target) is MethodType:
            target, given = target.__func__, (target.__self__, *given)
        if type(target) is FunctionType and self._splits(target):
            return self._nested(target, given, kwargs)
        held = (vars(c) for c in type(target).__mro__)  # as it is: no descriptor is asked
        method: Any = next((names["__call__"] for names in held if "__call__" in names), None)
        is_object = type(method) is FunctionType and not issubclass(type(target), type)
        if is_object and self._splits(method):
            return self._nested(method, (target, *given), kwargs)
        if kwargs or fn is warnings.warn:
            level, args, kwargs = report_level(target, args, kwargs)
            if level > len(self._frames):
                return report_above(level - len(self._frames), fn, *args, **kwargs)
            return self._here(fn, args, kwargs, self._frames[-level])
        return self._here(fn, args, kwargs)

    def extreme(self, frame: Frame, fn: Any, args: tuple[Any, ...]) -> None:
        frame.push(self.call(fn, args, {}))

    def load_global(self, frame: Frame, name: str | None) -> Any:
        if name is None:
            return frame.globals
        if name in frame.globals:
            return frame.globals[name]
        return self.load_builtin(frame, name)

    def load_builtin(self, frame: Frame, name: str) -> Any:
        if name not in frame.builtins:
            raise NameError(f"name {name!r} is not defined", name=name)
        return frame.builtins[name]

    def store_global(self, frame: Frame, name: str, value: Any) -> None:
        frame.globals[name] = value

    def delete_global(self, frame: Frame, name: str) -> None:
        if name not in frame.globals:
            raise NameError(f"name {name!r} is not defined", name=name)
        del frame.globals[name]

    def load_cell(self, cell: CellType) -> Any:
        return cell.cell_contents

    def store_cell(self, cell: CellType, value: Any) -> None:
        if value is NULL:
            del cell.cell_contents
        else:
            cell.cell_contents = value

    def convert(self, value: Any, kind: int) -> Any:
        return self._here((None, str, repr, ascii)[kind], (value,), {})

    def super_getattr(self, cls: Any, obj: Any, name: str) -> Any:
        return self._here(builtins.getattr, (super(cls, obj), name), {})

    def import_name(self, frame: Frame, name: str, fromlist: Any, level: int) -> Any:
        importer = self.load_builtin(frame, "__import__")
        return self._here(importer, (name, frame.globals, {}, fromlist, level), {})

    def import_from(self, module: Any, name: str) -> Any:
        try:
            return getattr(module, name)
        except AttributeError:
            found = sys.modules.get(f"{module.__name__}.{name}")
            if found is not None:
                return found
        raise no_such_name(module, name)

    def matches(self, error: BaseException, kinds: Any) -> bool:
        order = type(error).__mro__  # no hook of a class is asked
        return any(k in order for k in (kinds if type(kinds) is tuple else (kinds,)))

    def type_flags(self, value: Any) -> int:
        return type(value).__flags__

    def place(self, frame: Frame, refusal: BaseException) -> None:
        """Real errors show the user's lines; one that is raised again keeps those it has."""
        op, arg = frame.instruction.op, frame.instruction.arg
        link = below(refusal, frame)
        if op in GOES_ON or (op == "RAISE_VARARGS" and arg == 0 and link is not None):
            refusal.__traceback__ = link
        else:
            locate(refusal, frame)
        del refusal, link
