"""Capture: what can be called. (callable, arguments) -> value.

The policy: a function of `eager` runs natively on traced values; a Python function is interpreted;
a known builtin runs for real (on values of this capture, so it cannot touch the outside); anything
else is a break. Python callables that native code gets are wrapped so that they come back here.
"""

from __future__ import annotations

import builtins
import functools
import operator
import sys
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, Final

import numpy as np

from eager.compiler import NO_CAPTURE
from eager.core.sym import SymNumber
from eager.core.tensor import Tensor
from eager.core.traced import Traced
from jitcap.base.breaks import Break
from jitcap.base.call_policy import (
    HOST_MODULES,
    OF_THE_HOST,
    PURE_MODULES,
    is_interpreted,
    is_native,
    is_python_class,
)
from jitcap.base.origin import (
    GLOBALS,
    Attribute,
    Contents,
    Fixed,
    Item,
    Origin,
    PartialDict,
    partial_dict,
)
from jitcap.base.terms import Term, attribute, method, text
from jitcap.capture.epilogue_writes import Emitter, attributes
from jitcap.capture.inputs import Shadow
from jitcap.capture.kinds.base import (
    HANDLERS,
    MISSING,
    Args,
    Kwargs,
    Session,
    kind_of,
    of,
)
from jitcap.capture.kinds.cells import closure_cell, is_empty
from jitcap.capture.kinds.constants import (
    GENERATORS,
    OPAQUE,
    FixedKind,
    NativeKind,
    Opaque,
    StaticKind,
)
from jitcap.capture.kinds.deferred import defer
from jitcap.capture.kinds.mappings import touch
from jitcap.capture.kinds.modules import globals_of
from jitcap.capture.kinds.native_proxies import Callback, NativeProxy
from jitcap.capture.kinds.objects import ObjectKind, fields_of, own_field
from jitcap.guards.guard import CodeIs, Equals, Is, Length, TypeIs

_PARTS: Final = frozenset(vars(FunctionType)) - {"__class__"}
_OF_FUNCTIONS: Final = frozenset(n for cls in FunctionType.__mro__ for n in vars(cls))
_OF_METHODS: Final = frozenset(n for cls in MethodType.__mro__ for n in vars(cls)) - {"__doc__"}
REPORTS: Final = frozenset(
    "debug info warning warn error critical exception log update set_postfix set_postfix_str "
    "set_description set_description_str refresh write close display".split()
)


@of(Callback)
class ReentryKind(NativeKind):
    """One that native code put where the program finds it: into a cell of what it gave."""

    def load(self, s: Session, real: Callback, origin: Origin) -> Any:
        return real  # of this capture: no outside

    def call(self, s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        return s.call(fn._fn, args, kwargs)

    def rebuild(self, make: Emitter, value: Callback) -> Term:
        return make.expr(value._fn)


@of(FunctionType)
class FunctionKind(NativeKind):
    """A Python function, of the outside or made inside."""

    def load(self, s: Session, real: FunctionType, origin: Origin) -> Any:
        """A function of the program's text is guarded by identity, another by its code; one that is
        not read (two of `eager`'s can have the same code) by identity."""
        static = isinstance(origin.root, Fixed) and not isinstance(origin, Item | Contents)
        if static or _is_global(origin) or not is_interpreted(real):
            s.outside.fix(real, origin)
        else:
            s.outside.register(Shadow(real, origin, real))
            s.guard(TypeIs, origin, FunctionType)
            s.guard(Is, Attribute(origin, "__globals__"), real.__globals__)
        if not s.is_library(real.__globals__) or not s.outside.is_fixed(real):
            s.guard(CodeIs, origin, real.__code__)
        return real

    def to_native(self, s: Session, value: Any) -> Any:
        return value if is_native(value) else s.reentry(value)

    def rebuild(self, make: Emitter, value: FunctionType) -> Term:
        made = make.is_made(value) or _holds_lent(value)
        if not made or make.is_fixed(value) or _importable(value):
            return make.names.bind(value)  # it was there: what a class holds is that very object
        code, scope = make.names.bind(value.__code__), make.names.bind(value.__globals__)
        cells = ("tuple", *make.all(value.__closure__)) if value.__closure__ else "None"
        new, defaults = make.names.bind(FunctionType), make.expr(value.__defaults__)
        name = make.let(("call", new, code, scope, text(value.__name__), defaults, cells))
        for field in ("__qualname__", "__doc__", "__module__"):
            held = getattr(value, field)
            make.put(name, field, "None" if held is None else text(held))
        for field in ("__kwdefaults__", "__annotations__", "__type_params__"):
            held = getattr(value, field, ())
            if held not in (None, ()):  # an empty dictionary may be that of another function
                make.put(name, field, make.expr(held))
        make.rows += attributes(make, name, value)
        return name

    def getattr(self, s: Session, obj: FunctionType, name: str) -> Any:
        """Attribute of a function, loaded like any other value: it may be another function, and the
        program may write to it."""
        if name == "__globals__":
            return globals_of(s, obj.__globals__)
        if id(obj) in s.made:
            return getattr(obj, name)
        if name == "__closure__":
            return _closure(s, obj)
        fields = _fields(s, obj)
        if name == "__dict__":
            return fields
        if name in _PARTS:
            value = getattr(obj, name)
            return value if callable(value) else s.outside.load(value, _part(s, obj, name))
        if name in _OF_FUNCTIONS:
            return getattr(obj, name)
        touch(s, fields, name)
        if name not in fields:
            raise AttributeError(f"'function' object has no attribute {name!r}")
        return fields[name]

    def setattr(self, s: Session, obj: FunctionType, name: str, value: Any) -> None:
        if id(obj) in s.made:
            setattr(obj, name, value)
        elif name in _OF_FUNCTIONS:
            raise Break("effect", f"{obj.__qualname__}.{name} = ... changes a function")
        else:
            s.setitem(_fields(s, obj), name, value)

    def delattr(self, s: Session, obj: Any, name: str) -> None:
        raise Break("effect", f"attribute {name!r} of a function is deleted")

    def call(self, s: Session, fn: FunctionType, args: Args, kwargs: Kwargs) -> Any:
        if hasattr(fn, NO_CAPTURE):
            raise Break("requested", f"{fn.__qualname__}() is called")
        if is_native(fn):
            return s.native(fn, args, kwargs)
        generic = HANDLERS.get(fn.__code__)
        if generic is not None:
            return generic(s, fn, *args, **kwargs)
        module = _top_module(fn)
        if module in HOST_MODULES:
            return s.host(fn, args, kwargs)
        if module == "numpy":
            if fn.__globals__["__name__"].rpartition(".")[2] in OF_THE_HOST:
                raise Break("unknown call", f"np.{fn.__name__}() is called")
            return s.by_numpy(fn, args, kwargs)
        return s.interpret(fn, args, kwargs)


def is_inlined(fn: FunctionType) -> bool:
    """True if nothing answers a call of the function but its own bytecode."""
    handled = hasattr(fn, NO_CAPTURE) or fn in HANDLERS or fn.__code__ in HANDLERS
    return is_interpreted(fn) and not handled and _top_module(fn) not in HOST_MODULES


def _top_module(fn: FunctionType) -> str:
    name: str = fn.__globals__.get("__name__", "")
    return name.partition(".")[0]


def _fields(s: Session, fn: FunctionType) -> dict[str, Any]:
    """The attributes of a function that the program did not make. One that has no origin hangs on
    an object that is fixed."""
    if s.outside.shadow(fn) is None:
        s.outside.fixed[id(fn)] = fn
    fields = fields_of(s, fn)
    assert fields is not None
    return fields


def _importable(fn: FunctionType) -> bool:
    """True if the function's module holds this very function under its qualified name."""
    found: Any = sys.modules.get(fn.__module__ or "")
    for part in fn.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is fn


def _holds_lent(fn: FunctionType) -> bool:
    """True if native code made the function of what the program gave it (`vmap(fn)`), which is
    this capture's in its cells."""
    for cell in fn.__closure__ or ():
        held = None if is_empty(cell) else cell.cell_contents
        if isinstance(held, Callback | NativeProxy):
            return True
        if isinstance(held, Tensor) and isinstance(held._array, Traced):
            return True
        if type(held) is FunctionType and held is not fn and _holds_lent(held):
            return True
    return False


def _is_global(origin: Origin) -> bool:
    """True if the origin is an item of a module's dictionary."""
    fixed = origin.base if isinstance(origin, Item) else None
    return isinstance(fixed, Fixed) and fixed.label == GLOBALS


def _part(s: Session, fn: FunctionType, name: str) -> Origin:
    return Attribute(s.outside.origin_of(fn) or Fixed(fn, fn.__qualname__), name)


def _closure(s: Session, fn: FunctionType) -> Any:
    """The tuple of the twins of its cells; one tuple for one function."""
    real = fn.__closure__
    if real is None or id(real) not in s.outside.by_real:
        cells = tuple(closure_cell(s, fn, i) for i in range(len(real or ())))
        return real and s.outside.register(Shadow(real, _part(s, fn, "__closure__"), cells))
    return s.outside.by_real[id(real)].twin


@of(MethodType)
class MethodKind(NativeKind):
    """A Python function bound to an object."""

    def load(self, s: Session, real: MethodType, origin: Origin) -> Any:
        s.guard(TypeIs, origin, MethodType)
        fn = s.outside.load(real.__func__, Attribute(origin, "__func__"))
        owner = s.outside.load(real.__self__, Attribute(origin, "__self__"))
        return s.outside.register(Shadow(real, origin, MethodType(fn, owner)))

    def to_native(self, s: Session, value: Any) -> Any:
        fn = value
        while type(fn) is MethodType:
            fn = fn.__func__
        return value if type(fn) is not FunctionType or is_native(fn) else s.reentry(value)

    def getattr(self, s: Session, obj: MethodType, name: str) -> Any:
        return getattr(obj, name) if name in _OF_METHODS else s.getattr(obj.__func__, name)

    def rebuild(self, make: Emitter, value: MethodType) -> Term:
        if isinstance(value.__self__, SymNumber):  # which stands for an int, with other methods
            raise Break("effect", "a method of a run-time number is returned or stored")
        return make.call(MethodType, value.__func__, value.__self__)

    def call(self, s: Session, fn: MethodType, args: Args, kwargs: Kwargs) -> Any:
        return s.call(fn.__func__, (fn.__self__, *args), kwargs)


_PLACES: Final = (id, hash, repr, ascii)


@of(BuiltinFunctionType, MethodWrapperType)
class BuiltinKind(FixedKind):
    """A function written in C, alone or bound to an object."""

    constant = False

    def to_native(self, s: Session, value: Any) -> Any:
        """The builtin, or a reentry for one that uses addresses, as a twin has another."""
        self.settle(s, value, 0)
        return s.reentry(value) if any(value is fn for fn in _PLACES) else value

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        """A builtin function is fixed; a bound method of a builtin type is bound to the twin."""
        owner = getattr(real, "__self__", None)
        if owner is None or isinstance(owner, type | ModuleType):
            return s.outside.fix(real, origin)
        s.guard(TypeIs, origin, type(real))
        s.guard(Equals, Attribute(origin, "__name__"), real.__name__)
        twin = s.outside.load(owner, Attribute(origin, "__self__"))
        if isinstance(twin, Opaque):
            return s.outside.register(Shadow(real, origin, Opaque(type(real))))
        if twin is owner:
            return s.outside.register(Shadow(real, origin, real))
        bound = base_method(owner, real).__get__(twin) if is_python_class(type(owner)) else None
        return s.outside.register(Shadow(real, origin, bound or getattr(twin, real.__name__)))

    def call(self, s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        owner = getattr(fn, "__self__", None)
        of_type = HANDLERS.get((type(owner), fn.__name__))
        if of_type is not None:
            return of_type(s, owner, *args, **kwargs)
        if owner is not None and not isinstance(owner, ModuleType):
            s.writing(owner)
            return kind_of(owner).invoke(s, owner, fn, args, kwargs)
        module = getattr(fn, "__module__", None) or getattr(owner, "__name__", "")
        if owner is None and hasattr(builtins, fn.__qualname__.partition(".")[0]):
            module = "builtins"  # a static method: `str.maketrans`
        copied = owner is not None and sys.modules.get(owner.__name__) is not owner  # see HANDLERS
        if module in PURE_MODULES and not copied:
            call = s.by_numpy if module == "numpy" else s.pure
            return call(fn, args, kwargs)
        raise Break("unknown call", f"{module}.{fn.__qualname__}() is not known")

    def rebuild(self, make: Emitter, value: Any) -> Term:
        owner = getattr(value, "__self__", None)
        if owner is None or isinstance(owner, type | ModuleType):
            return make.names.bind(value)
        if not is_python_class(type(owner)):
            return make.let(attribute(make.let(make.expr(owner)), value.__name__))
        if type(owner) in GENERATORS and not make.is_outside(owner):
            return make.names.bind(value)  # of a module's own: `random.random`
        base = make.names.bind(base_method(owner, value))  # whatever overrides it
        return make.let(method(base, "__get__", make.expr(owner)))


def base_method(owner: Any, bound: Any) -> Any:
    """The method descriptor of `owner`'s builtin base class that `bound` is bound from."""
    held = (vars(base).get(bound.__name__) for base in type(owner).__mro__)
    return next(h for h in held if isinstance(h, MethodDescriptorType | WrapperDescriptorType))


@of(WrapperDescriptorType, MethodDescriptorType, ClassMethodDescriptorType)
class UnboundKind(StaticKind):
    """`list.append`, `object.__setattr__`: a method that is given its object at the call."""

    def call(self, s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        if not args:
            return fn(**kwargs)  # raises, in Python's words
        if fn.__objclass__ is object:
            handler = HANDLERS.get((object, fn.__name__))
            if handler is not None:
                return handler(s, *args, **kwargs)
        owner = args[0]
        kind_of(owner).see(s, owner, f".{fn.__name__}()")
        if isinstance(owner, Tensor):
            return s.native(fn, args, kwargs)
        if isinstance(owner, SymNumber):
            if fn.__name__ in ("__str__", "__repr__", "__format__"):
                return defer(s, fn, args)
            owner = s.known(owner)
        if owner is None:  # no method can be bound to it
            return s.pure(fn, args, kwargs)
        if not isinstance(fn, ClassMethodDescriptorType) and not _fits(owner, fn.__objclass__):
            return fn(*args, **kwargs)  # raises, in Python's words
        bound = fn.__get__(owner, type(owner))
        return kind_of(owner).invoke(s, owner, bound, args[1:], kwargs)


def _fits(owner: Any, cls: type) -> bool:
    """True if a method of `cls` accepts this object, or the object that it stands for."""
    return issubclass(kind_of(owner).type_of(owner), cls)


_FUNCTIONS: Final = ("fget", "fset", "fdel")


@of(property, functools.cached_property)
class PropertyKind(StaticKind):
    """`property` and `cached_property`."""

    def getattr(self, s: Session, obj: Any, name: str) -> Any:
        if isinstance(obj, functools.cached_property) and not hasattr(type(obj), name):
            return self._field(s, obj, name)
        value = getattr(obj, name)
        made = id(obj) in s.made or id(value) in s.made
        if made or name not in _FUNCTIONS or s.outside.shadow(value) is not None:
            return value
        origin = s.outside.origin_of(obj) or Fixed(obj, type(obj).__name__)
        return s.outside.load(value, Attribute(origin, name))

    def _field(self, s: Session, obj: Any, name: str) -> Any:
        """Field of a cached property, which is Python's; the program may write to it."""
        value = own_field(s, obj, name)
        return getattr(obj, name) if value is MISSING else value  # raises, in its words

    def invoke(self, s: Session, owner: Any, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        found = s.native(fn, args, kwargs, stores=True)
        return s.made_inside(found) if type(found) is property else found

    def rebuild(self, make: Emitter, value: Any) -> Term:
        if not make.is_made(value):
            return super().rebuild(make, value)
        return make.call(property, value.fget, value.fset, value.fdel, value.__doc__)


@of(functools.partial)
class PartialKind(NativeKind):
    """`functools.partial`."""

    def load(self, s: Session, real: functools.partial[Any], origin: Origin) -> Any:
        if type(real) is not functools.partial:
            return OPAQUE.load(s, real, origin)
        s.guard(TypeIs, origin, functools.partial)
        fn = s.outside.load(real.func, Attribute(origin, "func"))
        args = s.outside.load(real.args, Attribute(origin, "args"))
        keywords = s.outside.load(real.keywords, Attribute(origin, "keywords"))
        s.settle(keywords)
        held, place = partial_dict(real), PartialDict(origin)
        if held or not callable(fn):  # it, or what it calls, is opaque
            return OPAQUE.load(s, real, origin)
        made = functools.partial(fn, *args, **keywords)
        if held is None:
            s.guard(Is, place, None)
        else:
            s.guard(Length, place, 0)
            vars(made)  # has one from now on, too
        return s.outside.register(Shadow(real, origin, made))

    def to_native(self, s: Session, value: Any) -> Any:
        self.settle(s, value, 0)
        return s.reentry(value)

    def rebuild(self, make: Emitter, value: functools.partial[Any]) -> Term:
        given = make.all((value.func, *value.args))
        named = [("keyword", text(k), make.expr(v)) for k, v in value.keywords.items()]
        name = make.let(("call", make.names.bind(functools.partial), *given, *named))
        make.rows += attributes(make, name, value)
        return name

    def getattr(self, s: Session, obj: Any, name: str) -> Any:
        """The keywords are a dictionary that can be written to."""
        return self._keywords(s, obj) if name == "keywords" else super().getattr(s, obj, name)

    def _refuse_outside(self, s: Session, obj: Any, name: str) -> None:
        if s.outside.shadow(obj) is not None:  # from 3.13 on it has a `__get__`, too
            super()._refuse_outside(s, obj, name)

    def _keywords(self, s: Session, fn: Any) -> Any:
        shadow = s.outside.shadow(fn)
        if shadow is None:
            return fn.keywords
        return s.outside.load(shadow.real.keywords, Attribute(shadow.origin, "keywords"))

    def call(self, s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        keywords = self._keywords(s, fn)
        s.settle(keywords)
        return s.call(fn.func, (*fn.args, *args), {**keywords, **kwargs})

    def invoke(self, s: Session, owner: Any, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        if fn.__name__ == "__setstate__" and s.outside.shadow(owner) is not None:
            raise Break("effect", "the function of a partial changes")
        return super().invoke(s, owner, fn, args, kwargs)


@of(np.ufunc)
class UfuncKind(FixedKind):
    """A function of NumPy on arrays."""

    def call(self, s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        if any(isinstance(a, Tensor) for a in args):
            raise Break("numpy", f"np.{fn.__name__} of a tensor")
        return s.by_numpy(fn, args, kwargs)

    def invoke(self, s: Session, owner: Any, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        return self.call(s, fn, args, kwargs)


@of(type(np.prod))
class DispatchedKind(UfuncKind):
    """Other functions of NumPy (`np.prod`): those of numbers and of arrays made inside run now."""

    def call(self, s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        s.settle([a for a in args if isinstance(a, list | tuple)])
        if not all(map(_are_numbers, (*args, *kwargs.values()))):  # np.save("file", ...)
            raise Break("numpy", f"np.{fn.__name__} of a tensor, or of other objects than numbers")
        return super().call(s, fn, args, kwargs)


_NUMBERS: Final = (
    int, float, complex, SymNumber, np.ndarray, np.generic, np.dtype, type, type(None),
)  # fmt: skip


def _are_numbers(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_are_numbers, value))
    return isinstance(value, _NUMBERS)


@of(operator.itemgetter, operator.attrgetter, operator.methodcaller)
class GetterKind(FixedKind):
    """`operator.itemgetter`, `attrgetter`, `methodcaller`."""

    def call(self, s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        if len(args) != 1 or kwargs:
            return fn(*args, **kwargs)  # raises in Python's words
        obj = args[0]
        make, given = fn.__reduce__()
        if isinstance(fn, operator.methodcaller):
            if isinstance(make, functools.partial):
                return s.call(s.getattr(obj, make.args[0]), given, dict(make.keywords))
            return s.call(s.getattr(obj, given[0]), given[1:], {})
        if isinstance(fn, operator.itemgetter):
            found = tuple(s.getitem(obj, key) for key in given)
        else:
            found = tuple(functools.reduce(s.getattr, name.split("."), obj) for name in given)
        return found[0] if len(given) == 1 else found

    def rebuild(self, make: Emitter, value: Any) -> Term:
        if make.is_fixed(value):
            return super().rebuild(make, value)
        new, given = value.__reduce__()
        return make.let(("call", make.expr(new), *make.all(given)))


class HostKind(ObjectKind):
    """Objects that are taken as they are: random generators, loggers, progress bars. What they
    hold changes by calls that are put off, or natively."""

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        return s.outside.fix(real, origin)

    def getattr(self, s: Session, obj: Any, name: str) -> Any:
        fields = object.__getattribute__(obj, "__dict__")
        if name == "__dict__" or name in fields:
            self.refuse(obj, f".{name}")
        return super().getattr(s, obj, name)

    def setattr(self, s: Session, obj: Any, name: str, value: Any) -> None:
        self.refuse(obj, f".{name} = ...")

    def delattr(self, s: Session, obj: Any, name: str) -> None:
        self.refuse(obj, f"del .{name}")

    def call(self, s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        if type(fn).__module__.partition(".")[0] in HOST_MODULES:
            return s.host(fn, args, kwargs)
        return super().call(s, fn, args, kwargs)

    def invoke(self, s: Session, owner: Any, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        if type(owner).__module__.partition(".")[0] in HOST_MODULES:
            return s.host(fn, args, kwargs)
        return super().invoke(s, owner, fn, args, kwargs)


class JittedKind(HostKind):
    """A function that is compiled on its own: here the function itself is interpreted."""

    def call(self, s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        original = fn.original
        if isinstance(original, MethodType) and s.outside.shadow(original) is None:
            origin = s.outside.origin_of(fn) or Fixed(fn, "jit")
            original = s.outside.load(original, Attribute(origin, "original"))
        return s.call(original, args, kwargs)


class CustomKind(HostKind):
    """An operation of the user's: it runs natively, whole."""

    def call(self, s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        def called(*given: Any, **named: Any) -> Any:
            return fn(*given, **named)

        s.bound_to = f"what {fn.name} does"  # its functions are neither read nor guarded
        return s.native(called, args, kwargs)


class LoaderKind(ObjectKind):
    """A data loader, or a pass of one: what is from outside is iterated between two compiled
    parts."""

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        return OPAQUE.load(s, real, origin)


class EnumKind(ObjectKind):
    """A member of an enumeration."""

    constant = True

    def rebuild(self, make: Emitter, value: Any) -> Term:
        return make.names.bind(value)

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        return s.outside.fix(real, origin)
