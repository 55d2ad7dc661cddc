"""Dataclasses whose classes are cheap to make. a class with annotated fields -> a record.

The library is made of small records, a quarter of a thousand: the standard decorator compiles five
functions from text for each, which was nearly half of what `import jitcap` took, and the `__init__`
of a frozen one looks each attribute up again. Here the methods are compiled together, those of the
compiler's records when the first is made, and what is the same for all is one function. `fields`,
`replace`, `match` and copies work as ever. Classes of this decorator and frozen ones of the
standard library do not inherit from each other.

The compiler's own frozen records, of which a compile makes a hundred thousand, refuse to be written
only with `CHECK`, as in tests: to get around that takes four fifths of the time to make one. That
nobody writes to them mypy sees at any time. Those of `eager`, which programs meet, always refuse.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

CHECKED = os.environ.get("CHECK", "") not in ("", "0")

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        cls: type | None = None, /, *, frozen: bool = False, eq: bool = True, slots: bool = False
    ) -> Callable[[type], type] | type:
        """Decorator with the parameters of `dataclasses.dataclass` that the library uses."""

        def made(cls: type) -> type:
            cls.__doc__ = cls.__doc__ or cls.__name__  # else a signature is made, which is slow
            cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
            is_compilers = cls.__module__.partition(".")[0] in _COMPILER
            refuses = frozen and (CHECKED or not is_compilers)
            make = _at_first_use if is_compilers else _written
            own = {**make(cls, eq, refuses), "__repr__": _repr}
            if eq and not frozen:
                own["__hash__"] = None
            if refuses:
                own |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
            if frozen and slots:
                own |= {"__getstate__": _state, "__setstate__": _restore}
            for name, method in own.items():
                if vars(cls).get(name) is None:  # a class with __eq__ has None for __hash__
                    setattr(cls, name, method)
            return cls

        return made if cls is None else made(cls)


_COMPILER = ("codegen", "jitcap")


def _written(cls: Any, eq: bool, refuses: bool) -> dict[str, Any]:
    """The methods that the fields make, compiled in one go: `__init__`, which writes each field,
    into its slot where the class refuses that, and `__eq__` and `__hash__` by value."""
    refuses = refuses or cls.__setattr__ is not object.__setattr__
    scope: dict[str, Any] = {"_missing": MISSING, "_write": object.__setattr__}
    ordinary, body = ["self"], []
    keywords: list[str] = []
    for f in fields(cls):
        value = _given(f, scope, keywords if f.kw_only else ordinary)
        slot = next((vars(c)[f.name] for c in cls.__mro__ if f.name in vars(c)), None)
        if not refuses:
            body.append(f"self.{f.name} = {value}")
        elif type(slot) is MemberDescriptorType:
            scope[f"_set_{f.name}"] = slot.__set__
            body.append(f"_set_{f.name}(self, {value})")
        else:
            body.append(f"_write(self, {f.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    methods = {f"__init__({', '.join((*ordinary, *(('*', *keywords) if keywords else ())))})": body}
    if eq:
        names = [f.name for f in fields(cls) if f.compare]
        own, others = ("".join(f"{x}.{name}, " for name in names) for x in ("self", "other"))
        methods["__eq__(self, other)"] = [
            f"if other.__class__ is self.__class__: return ({own}) == ({others})",
            "return NotImplemented",
        ]
        methods["__hash__(self)"] = [f"return hash(({own}))"]
    lines = [f"def _make({', '.join(scope)}):"]
    for head, statements in methods.items():
        lines += [f" def {head}:", *(f"  {line}" for line in statements or ["pass"])]
    found: dict[str, Any] = {}
    exec("\n".join((*lines, " return locals()")), vars(sys.modules[cls.__module__]), found)
    made = found["_make"](**scope)
    methods_made = {n: made[n] for n in ("__init__", "__eq__", "__hash__") if n in made}
    for name, method in methods_made.items():
        method.__qualname__ = f"{cls.__qualname__}.{name}"
    return methods_made


def _at_first_use(cls: Any, eq: bool, refuses: bool) -> dict[str, Any]:
    """Methods in their place, the first call of which makes them: a program uses a part of the
    compiler's records."""
    put_off: dict[str, Any] = {}

    def of(name: str) -> Callable[..., Any]:
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            for each, written in _written(cls, eq, refuses).items():
                if vars(cls).get(each) is put_off[each]:
                    setattr(cls, each, written)
            return getattr(cls, name)(self, *args, **kwargs)

        return method

    names = ("__init__", "__eq__", "__hash__") if eq else ("__init__",)
    put_off.update((name, of(name)) for name in names)
    return put_off


def _given(f: Field[Any], scope: dict[str, Any], parameters: list[str]) -> str:
    """Expression for the value that a field is set to; its parameter is added to `parameters`."""
    name, default = f.name, f"_default_{f.name}"
    assert f.init or f.default_factory is not MISSING, "what is no parameter is made by a factory"
    if f.default_factory is not MISSING:
        scope[default] = f.default_factory
        if not f.init:
            return f"{default}()"
        parameters.append(f"{name}=_missing")
        return f"{default}() if {name} is _missing else {name}"
    if f.default is not MISSING:
        scope[default] = f.default
        parameters.append(f"{name}={default}")
    else:
        parameters.append(name)
    return name


def _repr(self: Any) -> str:
    parts = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(parts)})"


def _refuse_set(self: Any, name: str, value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for f, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, f.name, value)
