"""Capture: what operations mean on captured values. operation -> value, guards, graph nodes.

A `World` belongs to one capture and owns all its state: the tracer, the outside (twins), the
guards, the host calls in program order. Nothing here is global, so captures can run side by side.
"""

from __future__ import annotations

import builtins
import collections
import sys
from collections.abc import Callable, Iterable, Iterator
from types import CellType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, Final

from eager.autograd import mode
from eager.aval import scalar_aval
from eager.sym import SymNumber
from eager.tensor import Tensor
from eager.traced import UnknownValue
from eager.utils.data import DataLoader
from jitcap.capture import attributes, calls, numbers, operators
from jitcap.capture.breaks import Break, Place
from jitcap.capture.builtins import HOST_MODULES
from jitcap.capture.deferred import Deferred
from jitcap.capture.functions import frame_for
from jitcap.capture.interpret import NULL, Frame, Generator, Interpreter
from jitcap.capture.located import caller_at
from jitcap.capture.native import is_library_module
from jitcap.capture.opcodes_table import OPCODES
from jitcap.capture.origin import GLOBALS, Attribute, DictOf, Drawn, Fixed, FixedPart, Item, Origin
from jitcap.capture.outside import Outside, is_python_class, load_opaque, loader_of
from jitcap.capture.search import Search
from jitcap.capture.shadow import (
    MISSING,
    CellShadow,
    DictShadow,
    ListShadow,
    ObjectShadow,
    Shadow,
)
from jitcap.capture.tracing import CaptureTracer
from jitcap.functional import DataDependent
from jitcap.graph import NOWHERE, Node, Where
from jitcap.guards import Guards

_ATOMS: Final = frozenset({int, float, complex, str, bool, type(None)})
_BY_IDENTITY: Final[tuple[Any, ...]] = (object.__hash__, Tensor.__hash__)
_PARTS: Final = (FunctionType, type, ModuleType, type(len))
_CONTAINERS: Final = frozenset({list, tuple, dict, collections.deque, set, frozenset})


class HostCall:
    """A call of the host (print, logging ...) to be made after the graph ran, in program order."""

    def __init__(
        self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], at: Any = None
    ) -> None:
        self.fn = fn
        self.args = args
        self.kwargs = kwargs
        self.at = at  # a function that makes the call in the user's name
        self.where = ""  # the user's line


class World:
    """See `interpret.World` for what the interpreter asks."""

    def __init__(self, name: str) -> None:
        self.grad_mode, self.inference = mode.enabled, mode.inference
        self.autocast = mode.autocast
        self.entry = Place()  # where the function that is captured begins
        self.tracer = CaptureTracer(self, name)
        self.guards = Guards()
        self.outside = Outside(self)
        self.vm = Interpreter(self, OPCODES)
        self.vm.passthrough = (Break, DataDependent, UnknownValue)
        self.search: Search | None = None  # for all refusals, not for a graph
        self.host_calls: list[HostCall] = []
        self.written: dict[tuple[int, Any], Where] = {}  # (id of a twin, key) -> the last write
        self.drawn: dict[Node, Drawn] = {}  # graph input -> the number that the host draws for it
        self.fixed: dict[int, Any] = {}  # objects that are guarded by identity
        self.reached: dict[int, FunctionType] = {}  # functions that were interpreted
        self.made: dict[int, Any] = {}  # classes and functions that the program made
        self.arrays: dict[int, Tensor] = {}  # by id of a NumPy array: the input that shares it
        self.hashed: dict[int, Shadow] = {}  # objects whose identity a set or dictionary used
        self.measured_classes: dict[int, type] = {}  # guarded to get no further members
        self.class_reads: dict[tuple[int, str], tuple[type, Any]] = {}
        self.assumed: dict[tuple[str, str], Any] = {}  # a library's constants that were read
        self.bound_to = ""  # what the program saw that holds in this process only
        self._globals: dict[int, dict[str, Any]] = {}
        self._function_fields: dict[int, dict[str, Any]] = {}

    # ---- where we are

    def user_frame(self) -> Frame | None:
        """The innermost interpreted frame that is not a library's."""
        for frame in reversed(self.vm.frames):
            if frame.library is None:
                frame.library = self.is_library(frame.globals.get("__name__", ""))
            if not frame.library:
                return frame
        return self.vm.frames[0] if self.vm.frames else None

    def where(self) -> Where:
        frame = self.user_frame()
        if frame is None:
            return NOWHERE
        return Where(frame.code.co_filename, frame.instruction.line, frame.code.co_qualname)

    def place(self, frame: Frame, refusal: BaseException) -> None:
        """Note the user's line on a refusal that passes through `frame`, innermost first."""
        if getattr(refusal, "__jitcap_place__", None) is None and (
            len(self.vm.frames) == 1 or not self.is_library(frame.globals.get("__name__", ""))
        ):
            line, end_line, column, end_column = frame.instruction.columns
            code = frame.code
            refusal.__jitcap_place__ = found = Place(  # type: ignore[attr-defined]
                code.co_filename, line, end_line, column, end_column, code.co_qualname
            )
            if isinstance(refusal, Break):
                refusal.place = found

    def line(self) -> str:
        place = self.where()
        if not place.line:
            place = self.entry  # type: ignore[assignment]
        return f"{place.file}:{place.line}" if place.line else self.entry.function

    def wrote(self, obj: Any, key: Any = None) -> None:
        """Note the user's line that writes to an object from outside."""
        shadow = self.outside.shadow(obj)
        if shadow is not None:
            fields = shadow.fields if isinstance(shadow, ObjectShadow) else None
            where = self.where()
            for twin in (obj,) if fields is None else (obj, fields.twin):
                self.written[id(twin), None] = where
                if type(key) in (str, int):
                    self.written[id(twin), key] = where

    def written_at(self, twin: Any, key: Any) -> str:
        """The line that last wrote there, "" if that was not noted."""
        found = self.written.get((id(twin), key if type(key) in (str, int) else None))
        return f"{found.file}:{found.line}" if found else ""

    def is_library(self, module: str) -> bool:
        """Whether a module's functions are taken as fixed."""
        return is_library_module(module)

    # ---- names

    def globals_of(self, real: dict[str, Any]) -> dict[str, Any]:
        """The twin of a module's dictionary."""
        twin = self._globals.get(id(real))
        if twin is None:
            twin = self._globals[id(real)] = {}
            origin = Fixed(real, GLOBALS)
            if real is not vars(sys.modules.get(real.get("__name__", ""), SimpleNamespace())):
                owner = next((f for f in self.reached.values() if f.__globals__ is real), None)
                origin = FixedPart(real, GLOBALS, owner, "__globals__") if owner else origin
            self.outside.register(DictShadow(real, origin, twin))
        return twin

    def is_globals(self, origin: Origin) -> bool:
        return (
            isinstance(origin, Item)
            and isinstance(origin.base, Fixed)
            and (origin.base.label == GLOBALS)
        )

    def module_value(self, real: dict[str, Any], name: str, *, own: bool = True) -> Any:
        """What a module's dictionary holds, or MISSING. A library's constants need no guard, nor do
        its functions and classes where its `own` code names them."""
        twin = self.globals_of(real)
        if name not in twin and self.is_library(real.get("__name__", "")):
            value = real.get(name, MISSING)
            if type(value) in _ATOMS:
                self.assumed[real["__name__"], name] = value
                return value
            if (own and isinstance(value, _PARTS)) or value is MISSING:
                return value
        shadow = self.outside.shadow(twin)
        assert isinstance(shadow, DictShadow)
        shadow.touch(self, name)
        return twin.get(name, MISSING)

    def load_global(self, frame: Frame, name: str | None) -> Any:
        if name is None:
            twin = self.globals_of(frame.globals)
            self.settle(twin)
            return twin
        value = self.module_value(frame.globals, name)
        if value is MISSING:
            space = frame.globals.get("__builtins__", builtins)
            found = vars(space) if isinstance(space, ModuleType) else space
            if name not in found:
                raise NameError(f"name {name!r} is not defined")
            return found[name]
        return value

    def store_global(self, frame: Frame, name: str, value: Any) -> None:
        self.store_name(frame.globals, name, value)

    def store_name(self, real: dict[str, Any], name: str, value: Any) -> None:
        self.setitem(self.globals_of(real), name, value)

    def delete_global(self, frame: Frame, name: str) -> None:
        if self.module_value(frame.globals, name) is MISSING:
            raise NameError(f"name {name!r} is not defined")
        self.delitem(self.globals_of(frame.globals), name)

    def load_cell(self, cell: CellType) -> Any:
        shadow = self.outside.shadow(cell)
        if isinstance(shadow, CellShadow):
            shadow.touch(self)
        return cell.cell_contents

    def store_cell(self, cell: CellType, value: Any) -> None:
        shadow = self.outside.shadow(cell)
        self.wrote(cell)
        if value is NULL:
            if shadow is not None:
                raise Break("effect", "a closure variable from outside is deleted")
            del cell.cell_contents
        elif isinstance(shadow, CellShadow):
            shadow.store(value)
        else:
            cell.cell_contents = value

    def function_fields(self, fn: FunctionType) -> dict[str, Any]:
        """The twin of a function's attribute dictionary."""
        twin = self._function_fields.get(id(fn))
        if twin is None:
            origin = self.outside.origin_of(fn) or Fixed(fn, fn.__qualname__)
            twin = self._function_fields[id(fn)] = {}
            self.outside.register(DictShadow(fn.__dict__, DictOf(origin), twin))
        return twin

    def import_name(self, frame: Frame, name: str, fromlist: Any, level: int) -> Any:
        """A module that has been imported before; importing another one is an effect."""
        if level:
            package = frame.globals.get("__package__") or ""
            base = package.rsplit(".", level - 1)[0] if level > 1 else package
            name = f"{base}.{name}" if name else base
        if name not in sys.modules:
            raise Break("effect", f"import of {name}, which has not been imported before")
        name = name if fromlist else name.partition(".")[0]
        return self.outside.load(sys.modules[name], Item(Fixed(sys.modules, "sys.modules"), name))

    def import_from(self, module: Any, name: str) -> Any:
        try:
            return self.getattr(module, name)
        except AttributeError:
            full = f"{module.__name__}.{name}"
            if full in sys.modules:
                return sys.modules[full]
            raise ImportError(f"cannot import name {name!r} from {module.__name__!r}") from None

    # ---- attributes, calls, operators: see the modules of these names

    def getattr(self, obj: Any, name: str) -> Any:
        return attributes.get(self, obj, name)

    def setattr(self, obj: Any, name: str, value: Any) -> None:
        self.wrote(obj, name)
        attributes.put(self, obj, name, value)

    def delattr(self, obj: Any, name: str) -> None:
        self.wrote(obj, name)
        attributes.remove(self, obj, name)

    def super_getattr(self, cls: Any, obj: Any, name: str) -> Any:
        return attributes.super_get(self, cls, obj, name)

    def call(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return calls.call(self, fn, args, kwargs)

    def reentry(self, fn: Any) -> calls.Reentry:
        """`fn` for native code: calling it comes back to the interpreter."""
        return calls.Reentry(self, fn)

    def native(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return calls.native(self, fn, args, kwargs)

    def binary(self, op: str, a: Any, b: Any) -> Any:
        return operators.binary(self, op, a, b)

    def unary(self, op: str, a: Any) -> Any:
        return operators.unary(self, op, a)

    def compare(self, op: str, a: Any, b: Any) -> Any:
        return operators.compare(self, op, a, b)

    def contains(self, item: Any, container: Any) -> Any:
        return operators.contains(self, item, container)

    def truth(self, a: Any) -> bool:
        return operators.truth(self, a)

    def same(self, a: Any, b: Any) -> bool:
        return operators.same(self, a, b)

    def getitem(self, obj: Any, key: Any) -> Any:
        return operators.getitem(self, obj, key)

    def setitem(self, obj: Any, key: Any, value: Any) -> None:
        self.wrote(obj, key)
        operators.setitem(self, obj, key, value)

    def delitem(self, obj: Any, key: Any) -> None:
        self.wrote(obj, key)
        operators.delitem(self, obj, key)

    # ---- iteration

    def iter(self, obj: Any) -> Any:
        """`iter(obj)`: something whose `__next__` native code and `next` can call."""
        if isinstance(obj, Generator):
            return obj
        if self.is_opaque(obj):
            raise Break("iteration", f"iteration over a {type(obj).__qualname__} from outside")
        cls = type(obj)
        if is_python_class(cls) and not isinstance(obj, Tensor):
            method = attributes.class_raw(self, cls, "__iter__")
            if isinstance(method, FunctionType):
                return self._driven(self.call(method, (obj,), {}))
            if method is MISSING and attributes.class_raw(self, cls, "__getitem__") is not MISSING:
                return self.call(_by_index, (obj,), {})
        if isinstance(obj, Iterator) and self.outside.shadow(obj) is not None:
            raise Break("opaque object", f"iteration over a {cls.__qualname__} from outside")
        self.settle(obj)
        return iter(obj)

    def _driven(self, iterator: Any) -> Any:
        """An iterator that is an instance of a Python class, for native code to drive."""
        if is_python_class(type(iterator)) and not isinstance(iterator, Generator):
            return InterpretedIterator(self, iterator)
        return iterator

    def next(self, iterator: Any) -> Any:
        if isinstance(iterator, Generator | InterpretedIterator):
            return iterator.__next__()
        cls = type(iterator)
        if is_python_class(cls):
            method = attributes.class_raw(self, cls, "__next__")
            if isinstance(method, FunctionType):
                return self.call(method, (iterator,), {})
        if self.outside.shadow(iterator) is not None:
            raise Break("iteration", f"next() of a {cls.__qualname__} from outside")
        return next(iterator)

    def list_of(self, iterable: Any) -> list[Any]:
        return list(self.values_of(iterable))

    def values_of(self, iterable: Any) -> Iterator[Any]:
        return iter(self.iter(iterable))

    def hashes_identity(self, value: Any) -> bool:
        return type(value).__hash__ in _BY_IDENTITY

    def hashing(self, values: Iterable[Any]) -> None:
        """Note the objects from outside that a new set or dictionary tells apart by identity."""
        for value in values:
            if type(value) is tuple:
                self.hashing(value)
            elif self.hashes_identity(value):
                shadow = self.outside.shadow(value)
                if shadow is not None and not self.outside.is_fixed(value):
                    self.hashed[id(value)] = shadow

    # ---- text

    def format(self, value: Any, spec: Any) -> Any:
        if isinstance(value, Tensor | SymNumber | Deferred) or isinstance(spec, Deferred):
            return Deferred(format, (value, spec))
        if is_python_class(type(value)):
            method = attributes.class_raw(self, type(value), "__format__")
            if isinstance(method, FunctionType):
                return self.call(method, (value, spec), {})
            if not spec:
                return self.call(str, (value,), {})
        self.settle(value)
        return self.text(format, (value, spec), {})

    def convert(self, value: Any, kind: int) -> Any:
        return self.call((None, str, repr, ascii)[kind], (value,), {})

    def join(self, parts: list[Any]) -> Any:
        return operators.joined(parts)

    def text(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`fn(...)` that makes text: now, or later when it is about run-time values."""
        self.see(args[0], "text")
        self.settle(args[0])
        if operators.mentions_runtime(args[0]):
            return Deferred(fn, tuple(snapshot(a) for a in args), kwargs)
        return fn(*args, **kwargs)

    # ---- the rest

    def build_class(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The `class` statement: the body is interpreted, the class is real."""
        body, name, *bases = args
        meta = kwargs.pop("metaclass", type)
        if any(hasattr(b, "__mro_entries__") for b in bases) or not isinstance(meta, type):
            raise Break("opcode", f"class {name} has bases or a metaclass that are made")
        meta = max([meta, *map(type, bases)], key=lambda m: len(m.__mro__))
        frame = frame_for(self, body, (), {})
        frame.namespace = dict(meta.__prepare__(name, tuple(bases), **kwargs))
        cell = self.vm.run(frame).value
        cls = self.made_inside(meta(name, tuple(bases), frame.namespace, **kwargs))
        if isinstance(cell, CellType) and not _filled(cell):
            cell.cell_contents = cls
        return cls

    def changing(self, fn: Any) -> None:
        """A function that is not complete yet gets its defaults or its closure."""
        if id(fn) not in self.made:
            raise Break("effect", f"{fn.__qualname__} was begun before this part of the program")

    def raising(self, error: BaseException) -> None:
        """Raising an exception changes it (its context, its cause)."""
        if self.outside.shadow(error) is not None:
            raise Break("effect", f"a {type(error).__name__} from outside is raised")

    def made_inside(self, value: Any) -> Any:
        """Note a class or function that the program made: it is no part of the outside."""
        self.made[id(value)] = value
        return value

    def is_opaque(self, value: Any) -> bool:
        """Whether `value` is an object from outside whose state we cannot see."""
        if isinstance(value, DataLoader):
            return self.outside.shadow(value) is not None
        if isinstance(value, calls.Reentry):  # ours, though native code may have put it into a cell
            return False
        return loader_of(type(value)) is load_opaque and self.outside.shadow(value) is not None

    def see(self, value: Any, what: str) -> None:
        """Refuse to look into an opaque object."""
        if self.is_opaque(value):
            raise Break("opaque object", f"{what} of a {type(value).__qualname__}")

    def see_within(self, value: Any, what: str) -> None:
        """Refuse opaque objects in nested tuples, lists and dictionaries."""
        if type(value) in (tuple, list, dict):
            for item in value.values() if type(value) is dict else value:
                self.see_within(item, what)
        else:
            self.see(value, what)

    def settle(self, value: Any, depth: int = 0) -> None:
        """Load everything that native code may look at in `value`."""
        if type(value) in (set, frozenset) and not all(type(x) in (int, float) for x in value):
            self.bound_to = "the order of a set"
        shadow = self.outside.shadow(value)
        cls: Any = type(value)
        if isinstance(shadow, DictShadow | ListShadow) or (
            isinstance(shadow, ObjectShadow) and compares_in_python(cls)
        ):
            shadow.complete(self)
        if depth < 12 and isinstance(value, list | tuple | dict | collections.deque):
            for item in value.values() if isinstance(value, dict) else value:
                if type(item) in _CONTAINERS:
                    self.settle(item, depth + 1)

    def load_all(self, value: Any) -> None:
        """Load every attribute of an instance."""
        shadow = self.outside.shadow(value)
        if isinstance(shadow, ObjectShadow):
            shadow.complete(self)

    def host_call(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Put off a call of the host whose result is not used."""
        taken = tuple(snapshot(a) for a in args)
        self.host_calls.append(HostCall(fn, taken, {k: snapshot(v) for k, v in kwargs.items()}))
        self.host_calls[-1].where = self.line()

    def report(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Put off a call that tells from where it was made: a warning, a log record."""
        frames, level = self.vm.frames, kwargs.get("stacklevel", 1)
        if not 1 <= level <= len(frames):
            self.host_call(fn, args, kwargs)
            return
        frame = frames[-level]
        self.host_call(fn, args, {k: v for k, v in kwargs.items() if k != "stacklevel"})
        self.host_calls[-1].at = caller_at(frame.code, frame.instruction.line, frame.globals)

    def original_of(self, fn: Any) -> Any:
        """The function that a `Jitted` wraps, or None."""
        if type(fn).__module__ != "jitcap.api":
            return None
        original = fn.original
        if isinstance(original, MethodType) and self.outside.shadow(original) is None:
            origin = self.outside.origin_of(fn) or Fixed(fn, "jit")
            return self.outside.load(original, Attribute(origin, "original"))
        return original

    def load_special(self, real: Any, origin: Origin) -> Any:
        """Objects that are taken as they are: random generators, loggers, progress bars."""
        module = type(real).__module__
        if isinstance(real, DataLoader):
            return load_opaque(self.outside, real, origin)
        if (
            module in ("eager.random", "jitcap.api", "jitcap.custom")
            or module.partition(".")[0] in HOST_MODULES
        ):
            return self.outside.fix(real, origin)
        return None

    def number_input(self, real: complex, origin: Origin) -> SymNumber:
        """A run-time scalar that is read from outside at every call."""
        node = self.tracer.input(f"s{len(self.tracer.inputs)}", scalar_aval(real))
        self.outside.numbers[node] = origin
        plain = float(real) if isinstance(real, float) else real  # of a np.float64
        self.tracer.hints[node] = plain
        return SymNumber(self.tracer, node, type(plain), real)

    def known(self, value: Any) -> Any:
        """A run-time number (also inside a tuple) as its value, guarded; anything else as it is."""
        if isinstance(value, SymNumber):
            return self.value_of(value)
        if type(value) is tuple and any(isinstance(v, SymNumber | tuple) for v in value):
            return tuple(map(self.known, value))
        return value

    def value_of(self, number: SymNumber) -> Any:
        """The value itself, as a guard; DataDependent when only the graph knows it."""
        return numbers.concretize(self, number, number.pytype)

    def cast_number(self, number: Any, cls: type) -> Any:
        return numbers.cast(self, number, cls)


class InterpretedIterator:
    """An iterator of a Python class in the hands of native code."""

    def __init__(self, world: World, iterator: Any) -> None:
        self._world = world
        self._iterator = iterator

    def __iter__(self) -> InterpretedIterator:
        return self

    def __next__(self) -> Any:
        world = self._world
        method = attributes.class_raw(world, type(self._iterator), "__next__")
        return world.call(method, (self._iterator,), {})


def _by_index(obj: Any) -> Iterator[Any]:
    i = 0
    while True:
        try:
            value = obj[i]
        except IndexError:
            return
        yield value
        i += 1


def compares_in_python(cls: Any) -> bool:
    """Whether native code that hashes, compares or sorts instances looks at their attributes."""
    return issubclass(cls, SimpleNamespace) or any(
        isinstance(getattr(cls, name, None), FunctionType)
        for name in ("__eq__", "__hash__", "__lt__")
    )


def _filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def snapshot(value: Any) -> Any:
    """A host call sees later what it would see now: containers and tensors are copied."""
    if isinstance(value, Tensor):
        return operators.frozen(value)
    if type(value) in (list, tuple, set):
        return type(value)(snapshot(v) for v in value)
    if type(value) is dict:
        return {k: snapshot(v) for k, v in value.items()}
    return value
