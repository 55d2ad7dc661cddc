"""Capture: modules and their dictionaries, the namespaces of functions. Each read is guarded."""

from __future__ import annotations

import builtins
import sys
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, Final

from jitcap.capture.breaks import Break
from jitcap.capture.kinds.base import MISSING, Session
from jitcap.capture.kinds.constants import StaticKind
from jitcap.capture.kinds.mappings import DictShadow
from jitcap.capture.origin import GLOBALS, Fixed, FixedPart, Item

_ATOMS: Final = frozenset({int, float, complex, str, bool, type(None)})
_PARTS: Final = (FunctionType, type, ModuleType, type(len))


def globals_of(s: Session, real: dict[str, Any]) -> dict[str, Any]:
    """The twin of a module's dictionary."""
    shadow = s.outside.by_real.get(id(real))
    if shadow is None:
        origin = Fixed(real, GLOBALS)
        if real is not vars(sys.modules.get(real.get("__name__", ""), SimpleNamespace())):
            owner = next((f for f in s.reached.values() if f.__globals__ is real), None)
            origin = FixedPart(real, GLOBALS, owner, "__globals__") if owner else origin
        shadow = DictShadow(real, origin, {})
        s.outside.register(shadow)
    twin: dict[str, Any] = shadow.twin
    return twin


def module_value(s: Session, real: dict[str, Any], name: str, *, own: bool = True) -> Any:
    """What a module's dictionary holds, or MISSING. A library's constants need no guard, nor do
    its functions and classes where its `own` code names them."""
    twin = globals_of(s, real)
    if name not in twin and s.is_library(real):
        value = real.get(name, MISSING)
        if type(value) in _ATOMS:
            s.assumed[real["__name__"], name] = value
            return value
        if (own and isinstance(value, _PARTS)) or value is MISSING:
            return value
    shadow = s.outside.shadow(twin)
    assert isinstance(shadow, DictShadow)
    shadow.touch(s, name)
    return twin.get(name, MISSING)


def builtin_value(space: dict[str, Any], name: str) -> Any:
    """What a name means that the module does not define. Raises NameError."""
    held = space.get("__builtins__", builtins)
    names = vars(held) if isinstance(held, ModuleType) else held
    if name not in names:
        raise NameError(f"name {name!r} is not defined")
    return names[name]


def import_module(s: Session, space: dict[str, Any], name: str, fromlist: Any, level: int) -> Any:
    """A module that has been imported before; importing another one is an effect."""
    if level:
        package = space.get("__package__") or ""
        base = package.rsplit(".", level - 1)[0] if level > 1 else package
        name = f"{base}.{name}" if name else base
    if name not in sys.modules:
        raise Break("effect", f"import of {name}, which has not been imported before")
    name = name if fromlist else name.partition(".")[0]
    return s.outside.load(sys.modules[name], Item(Fixed(sys.modules, "sys.modules"), name))


def import_from(s: Session, module: Any, name: str) -> Any:
    try:
        return s.getattr(module, name)
    except AttributeError:
        full = f"{module.__name__}.{name}"
        if full in sys.modules:
            return sys.modules[full]
        raise ImportError(f"cannot import name {name!r} from {module.__name__!r}") from None


class ModuleKind(StaticKind):
    """A module."""

    def getattr(self, s: Session, obj: Any, name: str) -> Any:
        if name == "__dict__":
            return globals_of(s, vars(obj))
        if name in vars(obj):
            return module_value(s, vars(obj), name, own=False)
        return getattr(obj, name)

    def setattr(self, s: Session, obj: Any, name: str, value: Any) -> None:
        s.setitem(globals_of(s, vars(obj)), name, value)

    def delattr(self, s: Session, obj: Any, name: str) -> None:
        raise Break("effect", f"attribute {name!r} of a module is deleted")
