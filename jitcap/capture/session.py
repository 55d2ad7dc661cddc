"""Capture: the state of one capture, and the interpreter's questions handed to the kinds.

A `Session` belongs to one capture and owns all its state: the tracer, the outside (twins), the
guards, the host calls in program order. Nothing here is global, so captures can run side by side.
What an operation means is its values' kind's to say (`jitcap.capture.kinds`).
"""

from __future__ import annotations

import collections
import functools
import re
from collections.abc import Callable
from operator import is_not
from types import BuiltinFunctionType, CellType, FunctionType, MethodType
from typing import Any, Final

from eager.core.sym import SymNumber
from eager.core.traced import UnknownValue
from jitcap.base.assumed import NOTHING, Assumed
from jitcap.base.breaks import Break, Place, note_callee
from jitcap.base.call_policy import (
    MAPPING,
    PURE_MODULES,
    SEQUENCE,
    is_library_class,
    is_python_class,
)
from jitcap.base.modes import Modes
from jitcap.base.origin import Attribute, Drawn, Fixed, Origin
from jitcap.capture import host, numbers, operators
from jitcap.capture.builtins import polyfills
from jitcap.capture.builtins import table as _table  # noqa: F401 - fills HANDLERS
from jitcap.capture.control import branch as branches
from jitcap.capture.control.concrete_loops import turn
from jitcap.capture.control.log import Log
from jitcap.capture.control.may_alias import MayAlias
from jitcap.capture.control.minmax import extreme
from jitcap.capture.frames import frame_for
from jitcap.capture.inputs import Outside
from jitcap.capture.interpret import NULL, Frame, Generator, Interpreter
from jitcap.capture.kinds import base, modules, native_proxies
from jitcap.capture.kinds import rules as _rules  # noqa: F401 - fills RULES
from jitcap.capture.kinds.base import HANDLERS, MISSING, Args, Kwargs, kind_of
from jitcap.capture.kinds.classes import (
    HOLDS,
    STORES,
    Super,
    bind,
    class_raw,
    guarded_mro,
    super_get,
)
from jitcap.capture.kinds.constants import Opaque
from jitcap.capture.kinds.deferred import VIEWS, Deferred, by_numpy, joined, snapshot
from jitcap.capture.kinds.iterators import (
    Iteration,
    asked_for_length,
    driven,
)
from jitcap.capture.kinds.tensors import replaced_member
from jitcap.capture.memo.calls import Calls
from jitcap.capture.memo.rounds import Rounds, roll
from jitcap.capture.memo.templates import Templates
from jitcap.capture.module_paths import Paths
from jitcap.capture.opcodes.table import OPCODES
from jitcap.capture.search import Search
from jitcap.capture.sizes import CaptureSizes, out
from jitcap.capture.tracebacks import caught
from jitcap.capture.tracing import CaptureTracer
from jitcap.graph.graph import NOWHERE, Node, Where
from jitcap.graph.tracer import DataDependent
from jitcap.guards.guard import CodeIs, Guards, Is

_CELLS: Final[Any] = base.KINDS[CellType]
DEEPEST: Final = 150  # frames
_KEEPS: Final = (list, tuple, collections.deque)  # what an iterator gives, and ask it nothing
# Methods of containers that look at the elements; those whose first argument is a place.
_LOOKING: Final = frozenset(
    "index count remove sort indices __contains__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ "
    "__repr__ __str__ __format__".split()
)
_PLACING: Final = frozenset(
    "pop insert rotate __getitem__ __setitem__ __delitem__ __mul__ __imul__ __rmul__".split()
)
_CALLING: Final = frozenset({"cmp_to_key", "sub", "subn"})  # a class among their arguments, too
# What an exception shows that is about what stands for a value, or about a call that a builtin
# does not take.
_CLASSES: Final = (
    SymNumber, native_proxies.Callback, Super, Opaque, Deferred, Generator,
    native_proxies.NativeProxy,
)  # fmt: skip
_FUNCTIONS: Final[tuple[Any, ...]] = (
    *HANDLERS.values(),
    *(f for f in vars(polyfills).values() if type(f) is FunctionType),
)


@functools.cache
def _stand_ins() -> re.Pattern[str]:
    return re.compile(
        rf"\b({'|'.join(c.__name__ for c in _CLASSES)})\b"
        rf"|^({'|'.join(re.escape(f.__qualname__) for f in _FUNCTIONS)})\(\) "
    )


class Session(base.Session):
    """See `interpret.World` for what the interpreter asks, `kinds.base.Session` for the kinds."""

    def __init__(
        self, name: str, unsafe: frozenset[str] = frozenset(), assumed: Assumed = NOTHING
    ) -> None:
        super().__init__()
        self.unsafe, self.modes = unsafe, Modes.now()
        self.entry = Place()  # where the function that is captured begins
        self.tracer = CaptureTracer(self, name)
        self.guards = Guards()
        self.outside = Outside(self.guards, self.line, self._read, assumed)
        self.sizes = CaptureSizes(self)
        self.vm = Interpreter(self, OPCODES)
        self.vm.passthrough = (Break, DataDependent, UnknownValue)
        self.asked_at: tuple[Any, int, Where] = None, 0, NOWHERE  # where it was asked last
        self.shown_at: tuple[Any, str] = None, ""  # what was last shown of a line
        self.replaced: str | None = None  # a member of the library's tensors that is, once asked
        self.search: Search | None = None  # for all refusals, not for a graph
        self.log, self.ties = Log(), MayAlias(self)
        self.templates, self.layers, self.paths = Templates(self), Calls(self), Paths()
        self.rounds = Rounds(self)
        self.host_calls: list[host.HostCall] = []
        self.drawn: dict[Node, Drawn] = {}  # graph input -> the number that the host draws for it

    def _read(self, real: Any, origin: Origin) -> Any:
        return kind_of(real).load(self, real, origin)

    # ---- where we are

    def user_frame(self) -> Frame | None:
        """The innermost interpreted frame that is not a library's."""
        for frame in reversed(self.vm.frames):
            if frame.library is None:
                frame.library = self.is_library(frame.globals)
            if not frame.library:
                return frame
        return self.vm.frames[0] if self.vm.frames else None

    def where(self) -> Where:
        frames = self.vm.frames
        frame = frames[-1] if frames and frames[-1].library is False else self.user_frame()
        if frame is None:
            return NOWHERE
        code, pc = frame.bytecode, frame.pc
        if self.asked_at[0] is not code or self.asked_at[1] != pc:  # of each node of a call
            text, line = code.code, frame.instruction.line
            self.asked_at = code, pc, Where(text.co_filename, line, text.co_qualname)
        return self.asked_at[2]

    def place(self, frame: Frame, refusal: BaseException) -> None:
        """Note the user's line on a refusal that passes through `frame`, innermost first."""
        note_callee(refusal, frame, self.is_library(frame.globals))
        if getattr(refusal, "__jitcap_place__", None) is None and (
            len(self.vm.frames) == 1 or not self.is_library(frame.globals)
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
        if self.shown_at[0] is not place:  # of each guard of a call
            at: Any = place if place.line else self.entry
            shown = f"{at.file}:{at.line}" if at.line else self.entry.function
            self.shown_at = place, shown
        return self.shown_at[1]

    # ---- names

    def load_global(self, frame: Frame, name: str | None) -> Any:
        if name is None:
            twin = modules.globals_of(self, frame.globals)
            self.settle(twin)
            return twin
        value = modules.module_value(self, frame.globals, name)
        return self.load_builtin(frame, name) if value is MISSING else value

    def load_builtin(self, frame: Frame, name: str) -> Any:
        return modules.builtin_value(self, frame.builtins, name)

    def store_global(self, frame: Frame, name: str, value: Any) -> None:
        self.setitem(modules.globals_of(self, frame.globals), name, value)

    def delete_global(self, frame: Frame, name: str) -> None:
        if modules.module_value(self, frame.globals, name) is MISSING:
            raise NameError(f"name {name!r} is not defined", name=name)
        self.delitem(modules.globals_of(self, frame.globals), name)

    def load_cell(self, cell: CellType) -> Any:
        return _CELLS.get(self, cell)

    def store_cell(self, cell: CellType, value: Any) -> None:
        self.writing(cell)
        if value is NULL:
            _CELLS.clear(self, cell)
        else:
            _CELLS.put(self, cell, value)

    def import_name(self, frame: Frame, name: str, fromlist: Any, level: int) -> Any:
        importer = self.load_builtin(frame, "__import__")
        if importer is not modules.IMPORT:
            space = modules.globals_of(self, frame.globals)
            return self.call(importer, (name, space, {}, fromlist, level), {})
        return modules.import_module(self, frame.globals, name, fromlist, level)

    # ---- what others answer, given the session

    binary, unary = operators.binary, operators.unary
    compare, same = operators.compare, operators.same
    call_native, refuse_key = native_proxies.call_native, native_proxies.refuse_key
    lends, wrap, unwrap = native_proxies.lends, native_proxies.wrap, native_proxies.unwrap
    import_from, driven, roll, turn = modules.import_from, driven, roll, turn
    undecided, branch, as_bool, negation = branches.ANSWERS
    extreme, by_numpy = extreme, by_numpy
    host, number_input, caught = host.call, numbers.read, staticmethod(caught)

    def super_getattr(self, cls: Any, obj: Any, name: str) -> Any:
        return super_get(self, Super(cls, obj), name)

    def method(self, obj: Any, name: str) -> Any:
        """A special method, which the object's class has, not the object. Raises AttributeError."""
        kind_of(obj).see(self, obj, f".{name}")
        cls = kind_of(obj).type_of(obj)
        raw = class_raw(self, cls, name)
        if raw is MISSING:
            raise AttributeError(name)
        return bind(self, raw, obj, cls)

    def format(self, value: Any, spec: Any) -> Any:
        return HANDLERS[format](self, value, spec)

    def convert(self, value: Any, kind: int) -> Any:
        return self.call((None, str, repr, ascii)[kind], (value,), {})

    def join(self, parts: list[Any]) -> Any:
        return joined(parts)

    # ---- calls

    def call(self, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        """Raises Break when the call cannot be captured, else what it raises."""
        kind = kind_of(fn)
        handler = None if kind.python or type(fn).__hash__ is None else HANDLERS.get(fn)
        if handler is not None or type(fn) is not MethodType:  # of which the function is called
            self.log.calling(fn, args, kwargs)
        if handler is not None:
            return handler(self, *args, **kwargs)
        return kind.call(self, fn, args, kwargs)

    def interpret(self, fn: FunctionType, args: Args, kwargs: Kwargs) -> Any:
        """Inline a Python function."""
        return self.vm.execute(inlined(self, fn, args, kwargs))

    def native(
        self, fn: Callable[..., Any], args: Args, kwargs: Kwargs, *, stores: bool = False
    ) -> Any:
        """Run a function of `eager`, or a builtin, on values of this capture: the door through
        which they reach native code, loaded in full, callables wrapped and instances lent unless it
        only stores them."""
        owner = getattr(fn, "__self__", None)
        stores |= type(owner) is property or (type(fn) is type and fn in HOLDS)
        fills = issubclass(type(owner), dict) and fn.__name__ == "update"
        hand = _stored if stores or fills else _given
        plain = False not in [kind_of(a).plain for a in (*args, *kwargs.values())]
        named = kwargs
        if not plain:
            named = native_proxies.named(self, {k: hand(self, v) for k, v in kwargs.items()})
        if owner is not None and _may_lend(owner):  # it stores, and calls nothing
            for value in args:
                self.settle(value)
            self.tells_apart(args)
            return self._native_method(owner, fn, args, named)
        given = args if plain else tuple([hand(self, a) for a in args])
        if getattr(fn, "__name__", "") in _CALLING:
            given = tuple(self.reentry(a) if isinstance(a, type) else a for a in given)
        stores |= plain
        function = fn.__func__ if type(fn) is MethodType else fn
        if type(function) is FunctionType:  # one of `eager`, which looks at all that it gets
            self.log.running(function, owner, given)
            self.ties.asked(function.__name__, given)
            if not plain:
                self.see_within((*given, *named.values()), "use")
            _require_own_members(self, function)
            _guard_defaults(self, function, len(given) + len(named))
            if "repeatable" in vars(function) and not named:
                return self.templates.call(function, given)
            if self.sizes.symbols:
                return out(self._natively(fn, given, named, stores))
        elif fn not in STORES and fn not in (list, tuple) and owner is not tuple:
            self.tells_apart((*given, *named.values()))
        return self._natively(fn, given, named, stores)

    def _natively(self, fn: Any, given: Args, named: Kwargs, stores: bool) -> Any:
        if not stores and fn not in STORES:
            if type(fn) in (type, BuiltinFunctionType) and fn not in _KEEPS:
                given = tuple(_looked_at(self, a) for a in given)
            if any(map(_may_lend, (*given, *named.values()))):
                text = isinstance(getattr(fn, "__self__", None), str)
                return self.call_native(fn, given, named, text=text)
        return _itself(fn(*given, **named))

    def _native_method(self, owner: Any, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        """A method of a container. Those that look at elements get all of them lent; others are
        lent what is a place, and store the rest."""
        name = fn.__name__
        if name in _LOOKING:
            self.tells_apart((owner, *args), equals=True)
        if name in _LOOKING and any(map(self.lends, (owner, *args))):
            return self.call_native(getattr(type(owner), name), (owner, *args), kwargs)
        if name in _PLACING and args and self.lends(args[0]):
            return self.call_native(lambda place: fn(place, *args[1:]), args[:1])
        return fn(*args, **kwargs)

    def list_of(self, iterable: Any) -> list[Any]:
        """`list(iterable)`, which asks for a length, too."""
        iterable = asked_for_length(iterable)
        hints = ("__len__", "__length_hint__")
        if not any(self.special(iterable, hint) for hint in hints):
            return list(self.iter(iterable))
        made: list[Any] = self.call_native(list, (native_proxies.stand_in(self, iterable),))
        return made

    def pure(self, fn: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
        """A builtin without effects: it runs now, on the values of run-time numbers."""
        return self.native(
            fn, tuple(map(self.known, args)), {k: self.known(v) for k, v in kwargs.items()}
        )

    def foreign(self, owner: Any, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        """A method of a type that is written in C and of no kind of its own."""
        if (home := type(owner).__module__) in PURE_MODULES:
            return (self.by_numpy if home == "numpy" else self.pure)(fn, args, kwargs)
        raise Break("opaque object", f".{fn.__name__}() of a {type(owner).__qualname__}")

    def reentry(self, fn: Any) -> native_proxies.Callback:
        """`fn` for native code: calling it comes back to the interpreter."""
        return native_proxies.Callback(self, fn)

    def host_call(
        self, fn: Any, args: Args, kwargs: Kwargs, at: Any = None, look: Any = snapshot
    ) -> None:
        """Put off a call of the host whose result is not used, made by `at` in the user's name.
        `look`: what it is given later of an argument."""
        self.settle((*args, *kwargs.values()))
        given, named = tuple(map(look, args)), {k: look(v) for k, v in kwargs.items()}
        self.host_calls.append(host.HostCall(fn, given, named, at, self.line()))

    def dropping(self, value: Any) -> None:
        self.outside.dropping(value)

    def changing(self, fn: Any) -> None:
        """A function that is not complete yet gets its defaults or its closure."""
        if id(fn) not in self.made:
            raise Break("effect", f"{fn.__qualname__} was begun before this part of the program")

    def catching(self, error: BaseException) -> None:
        """The program catches an exception. Raises Break if that is from outside, speaks of what
        stands for a value or a builtin, or is capture's own: only Python knows its words."""
        if self.outside.shadow(error) is not None:
            raise Break("effect", f"a {type(error).__name__} from outside is caught")
        ours = isinstance(error, RecursionError)  # capture needs more frames than Python does
        if ours or any(_stand_ins().search(x) or self.sizes.named(x) for x in _texts(error)):
            raise Break("error text", f"a {type(error).__name__} is caught")

    def matches(self, error: BaseException, kinds: Any) -> bool:
        """True if an `except` takes an exception: no hook of a class is asked."""
        order = guarded_mro(self, type(error))
        return any(k in order for k in (kinds if type(kinds) is tuple else (kinds,)))

    def type_flags(self, value: Any) -> int:
        """The flags of a value's class, of which those for `match` change when it is registered."""
        cls = kind_of(value).type_of(value)
        if is_python_class(cls) and not is_library_class(cls):
            place = Attribute(Fixed(cls, cls.__qualname__), "__flags__")
            kinds = SEQUENCE | MAPPING
            self.guard_that(("==", ("&", "$0", kinds), cls.__flags__ & kinds), place)
        return cls.__flags__

    def raising(self, error: BaseException) -> None:
        """Raising an exception changes it (its context, its cause)."""
        if not isinstance(error, self.vm.catches):
            raise Break("effect", f"{type(error).__name__}, no Exception, is raised").leaving()
        if self.outside.shadow(error) is not None:
            raise Break("effect", f"a {type(error).__name__} from outside is raised")

    def known(self, value: Any) -> Any:
        """A run-time number (also inside a tuple) as its value, guarded; anything else as it is."""
        if isinstance(value, SymNumber):
            return _known(self, value)
        if type(value) is tuple and any(isinstance(v, SymNumber | tuple) for v in value):
            parts = tuple(map(self.known, value))
            return parts if any(map(is_not, parts, value)) else value
        return value


def _known(s: Session, number: SymNumber) -> Any:
    found = numbers.concretize(s, number, number.pytype)
    if found != found:
        raise Break("data dependent", "a number that does not equal itself is looked at")
    return found


def inlined(s: Session, fn: FunctionType, args: Args, kwargs: Kwargs) -> Frame:
    """The frame of a Python function that is inlined. Raises Break too deep in others."""
    if len(s.vm.frames) > DEEPEST:
        raise _too_deep(s, fn)
    if id(fn) not in s.reached:
        s.reached[id(fn)] = fn
        _guard_code(s, fn)
    return frame_for(s, fn, args, kwargs)


def _too_deep(s: Session, fn: FunctionType) -> Break:
    """The refusal. `deep` is the outermost function that is called again, the user's first."""
    inside = [f for f in s.vm.frames if not s.is_library(f.globals)] or s.vm.frames
    calls = collections.Counter([f.code for f in inside] + [fn.__code__])
    found = Break("recursion", f"{fn.__qualname__} is called more than {DEEPEST} levels deep")
    found.deep = next((code for code, n in calls.items() if n > 1), fn.__code__)
    return found


def _texts(error: BaseException) -> list[str]:
    return [x for x in error.args if type(x) is str]


def _guard_code(s: Session, fn: FunctionType) -> None:
    """One that hangs on an object that is fixed: the getter of a property."""
    inside = id(fn) in s.made or s.outside.origin_of(fn) is not None
    if not inside and not s.is_library(fn.__globals__):
        s.guard(CodeIs, Fixed(fn, fn.__qualname__), fn.__code__)


def _require_own_members(s: Session, fn: FunctionType) -> None:
    """A function of the library may use any member of its tensors."""
    if s.replaced is None:
        s.replaced = replaced_member()
    if s.replaced:
        raise Break("unknown call", f"{fn.__name__}() may use {s.replaced}, replaced")


def _guard_defaults(s: Session, fn: FunctionType, given: int) -> None:
    """A call that leaves arguments out relies on the defaults of a function, or of the one that it
    wraps."""
    inner = fn
    while "__wrapped__" in vars(inner):
        inner = vars(inner)["__wrapped__"]
    code = inner.__code__
    if given >= code.co_argcount + code.co_kwonlyargcount or id(inner) in s.defaulted:
        return
    s.defaulted.add(id(inner))
    place: Origin = Fixed(fn, fn.__qualname__)
    while fn is not inner:
        fn, place = vars(fn)["__wrapped__"], Attribute(place, "__wrapped__")
    for field in ("__defaults__", "__kwdefaults__"):
        if getattr(fn, field) is not None:
            s.guard(Is, Attribute(place, field), getattr(fn, field))


def _given(s: Session, value: Any) -> Any:
    return kind_of(value).to_native(s, value)


def _stored(s: Session, value: Any) -> Any:
    """The value itself, unwrapped: a function that native code only stores is not called by it."""
    return _itself(_given(s, value))


def _looked_at(s: Session, value: Any) -> Any:
    """An iterator, or a view of a dictionary, for native code that asks what it gives."""
    if type(value) in VIEWS:
        value = iter(value)
    drives = hasattr(type(value), "__next__") and not kind_of(value).python
    return Iteration(s, value) if drives else value


def _itself(value: Any) -> Any:
    return value._fn if type(value) is native_proxies.Callback else value


def _may_lend(value: Any) -> bool:
    """True if the value or a part of it can be an instance."""
    kind = kind_of(value)
    if kind.python or kind.contains_values or type(value) in (slice, Iteration):
        return True
    return type(value) is not type and isinstance(value, type)  # its metaclass is asked
