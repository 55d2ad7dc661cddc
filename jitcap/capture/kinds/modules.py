"""Capture: modules and builtins, where functions look names up. name -> value, with its guard."""

from __future__ import annotations

import builtins
import operator
import sys
from contextlib import suppress
from types import BuiltinFunctionType, FunctionType, ModuleType, SimpleNamespace
from typing import Any, Final

from eager.base import lazy_imports
from jitcap.base.breaks import Break
from jitcap.base.origin import GLOBALS, Fixed, FixedPart, Item
from jitcap.base.terms import Term
from jitcap.capture.epilogue_writes import Emitter
from jitcap.capture.kinds.base import MISSING, Kind, Session, of
from jitcap.capture.kinds.classes import ATOMS, class_raw
from jitcap.capture.kinds.constants import StaticKind
from jitcap.capture.kinds.mappings import DictShadow, touch
from jitcap.capture.kinds.objects import default_get, default_put
from jitcap.guards.class_guard import ABSENT, Member
from jitcap.guards.guard import Absent

_PARTS: Final = (FunctionType, type, ModuleType, type(len))
BUILTINS: Final = dict(vars(builtins))
# The rest may be replaced: what capture does not use, and what others have replaced before.
_USED: Final = tuple(
    name for name, value in BUILTINS.items()
    if isinstance(value, type | BuiltinFunctionType)
    and name not in ("input", "open", "print", "breakpoint", "__import__")
)  # fmt: skip
_USED_OF: Final = operator.itemgetter(*_USED)
_USED_VALUES: Final = _USED_OF(BUILTINS)
IMPORT: Final = builtins.__import__


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
    """Value of a name in a module's dictionary, or MISSING. A library's constants are no run-time
    numbers, and what its `own` code names is not looked into."""
    twin = globals_of(s, real)
    shadow = s.outside.shadow(twin)
    assert isinstance(shadow, DictShadow)
    if name not in twin and name not in shadow.known and s.is_library(real):
        key = id(real), name, own
        if key in s.global_reads:
            return s.global_reads[key]
        value = real.get(name, MISSING)
        if value is MISSING or type(value) in ATOMS or (own and isinstance(value, _PARTS)):
            held = ABSENT if value is MISSING else value
            s.guard(Member, shadow.origin, name, held)
            s.global_reads[key] = value
            return value
    shadow.touch(s, name)
    return twin.get(name, MISSING)


def builtin_value(s: Session, space: dict[str, Any], name: str) -> Any:
    """Builtin value of a name that the module does not define. Raises NameError."""
    real = space.get(name, MISSING)
    twin = globals_of(s, space)
    if name not in twin and real is not MISSING and real is BUILTINS.get(name):
        key = id(space), name, None
        if s.global_reads.get(key) is not real:
            shadow = s.outside.shadow(twin)
            assert shadow is not None
            s.guard(Member, shadow.origin, name, real)
            s.global_reads[key] = real
        return real
    touch(s, twin, name)
    if name not in twin:
        raise NameError(f"name {name!r} is not defined", name=name)
    return twin[name]


def builtins_are_replaced() -> bool:
    """True if the program replaced builtins on which capture itself runs. Calls none of them."""
    try:
        return _USED_OF(builtins.__dict__) != _USED_VALUES
    except KeyError:
        return True


def import_module(s: Session, space: dict[str, Any], name: str, fromlist: Any, level: int) -> Any:
    """A module that has been imported before; importing another one is an effect."""
    if level:
        package = space.get("__package__") or ""
        base = package.rsplit(".", level - 1)[0] if level > 1 else package
        name = f"{base}.{name}" if name else base
    module = _imported(s, name)
    if module is MISSING:
        raise _new_import(name)
    if fromlist and hasattr(module, "__path__"):  # a package: its parts are imported with it
        for part in dict.fromkeys(fromlist):
            if part != "*":
                import_from(s, module, part)
    top = name.partition(".")[0]
    return module if fromlist or top == name else _imported(s, top)


def _imported(s: Session, name: str) -> Any:
    """The module that has this name, or MISSING."""
    lazy_imports.ensure(name)
    place = Fixed(sys.modules, "sys.modules")
    if name not in sys.modules:
        s.guard(Absent, place, name)
        return MISSING
    return s.outside.load(sys.modules[name], Item(place, name))


def _new_import(name: str) -> Break:
    return Break("effect", f"import of {name}, which has not been imported before")


def import_from(s: Session, module: Any, name: str) -> Any:
    with suppress(AttributeError):
        return s.getattr(module, name)
    full = f"{module.__name__}.{name}"
    found = _imported(s, full)
    if found is not MISSING:
        return found
    if hasattr(module, "__path__"):
        raise _new_import(full)
    raise no_such_name(module, name)


def no_such_name(module: Any, name: str) -> ImportError:
    """The error that `from module import name` raises."""
    path = getattr(module, "__file__", None)
    where = f"{module.__name__!r} ({path or 'unknown location'})"
    text = f"cannot import name {name!r} from {where}"
    return ImportError(text, name=module.__name__, path=path)


@of(ModuleType)
class ModuleKind(StaticKind):
    """A module; one of a class of its own can have properties and hooks. One made inside is another
    at each call."""

    def rebuild(self, make: Emitter, value: Any) -> Term:
        known = make.session.outside.shadow(value) is not None
        if known or sys.modules.get(vars(value).get("__name__")) is value:
            return super().rebuild(make, value)
        return Kind.rebuild(self, make, value)

    def getattr(self, s: Session, obj: Any, name: str) -> Any:
        lazy_imports.load(obj, name)
        fields, cls = globals_of(s, vars(obj)), type(obj)
        if name == "__dict__":
            return fields
        found = s.asked(obj, "__getattribute__", name)
        if found is not MISSING:
            return found
        raw = class_raw(s, cls, name)
        held = MISSING if isinstance(raw, property) else module_value(s, vars(obj), name, own=False)
        if held is not MISSING:
            return held
        if raw is not MISSING:
            with suppress(AttributeError):  # of a property: then it is asked as if there were none
                return default_get(s, obj, name)
        hook = module_value(s, vars(obj), "__getattr__", own=False)
        if hook is not MISSING:
            return s.call(hook, (name,), {})
        found = s.asked(obj, "__getattr__", name)
        if found is not MISSING:
            return found
        raise AttributeError(
            f"module {obj.__name__!r} has no attribute {name!r}", name=name, obj=obj
        )

    def special(self, s: Session, obj: Any, name: str) -> FunctionType | None:
        raw = MISSING if type(obj) is ModuleType else class_raw(s, type(obj), name)
        return raw if isinstance(raw, FunctionType) else None

    def setattr(self, s: Session, obj: Any, name: str, value: Any) -> None:
        self._refuse_library(s, obj, name)
        globals_of(s, vars(obj))
        if s.asked(obj, "__setattr__", name, value) is MISSING:
            default_put(s, obj, name, value)

    def _refuse_library(self, s: Session, obj: Any, name: str) -> None:
        """Its functions run natively and would see the change too late, or capture would at once:
        `sys.stdout`, `warnings.filters`."""
        if s.is_library(vars(obj)):
            kind = "builtins" if obj is builtins else "effect"
            raise Break(kind, f"{obj.__name__}.{name} is replaced")

    def delattr(self, s: Session, obj: Any, name: str) -> None:
        self._refuse_library(s, obj, name)
        globals_of(s, vars(obj))
        default_put(s, obj, name, MISSING)
