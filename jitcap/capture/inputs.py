"""Capture: the one door for values from outside. (real object, origin) -> value, and its guard.

Nothing that existed before the call is ever touched. What is read from outside enters through
`Outside.load`: its kind makes the guard and answers with the value to work with: a constant, a
run-time number, a stand-in tensor, or a *twin*: a real object of the same type whose contents are
loaded when they are first read. Program code changes twins at will; `effects` compares them with
what was loaded, and replays the difference.
"""

from __future__ import annotations

import gc
import sys
import traceback
import weakref
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any, Final

import numpy as np

from eager.core.sym import NARROW
from eager.core.tensor import Tensor
from jitcap.base.assumed import Assumed
from jitcap.base.breaks import Break
from jitcap.base.origin import ANY, APART, Computed, Fixed, Origin, result_of, siblings
from jitcap.base.terms import Row, Term
from jitcap.capture.bytecode import decode
from jitcap.capture.epilogue_writes import Effect, Emitter
from jitcap.capture.interpret import Frame
from jitcap.guards.guard import Equals, Guard, Guards, Is, Same

_DEPTH: Final = 4
_STAYING: Final = (type, ModuleType, FunctionType, CodeType)
_SINGLETONS: Final = frozenset(map(id, (None, True, False, Ellipsis, NotImplemented)))


class Shadow:
    """A real object, where it came from, and its twin: what the program works with."""

    mutable = False  # whether the program can change it, so that another name for it matters

    def __init__(self, real: Any, origin: Origin, twin: Any) -> None:
        self.real = real
        self.origin = origin
        self.twin = twin

    def kin(self) -> Any:
        """Key that this object shares with all objects that it could be identical to."""
        return type(self.real)

    def parts(self) -> tuple[Shadow, ...]:
        """Itself, and the shadows of what belongs to it."""
        return (self,)

    def reachable(self) -> list[Any] | None:
        """Objects that the program may reach through the twin; None: all that it holds."""
        return None

    def complete(self, s: Any) -> None:
        """Load all that it holds."""

    def size(self, s: Any) -> Any:
        """`len()`, guarded."""
        return len(self.twin)

    def changed(self) -> bool:
        """True if the twin differs from the object that was loaded."""
        return self.mark() != ()

    def mark(self) -> tuple[Any, ...]:
        """Changes of the program to the twin, by identity: () as long as it is what was
        loaded."""
        return ()

    def write(
        self, make: Emitter, form: Row, key: Term = "", value: Term = "", fn: str = "",
        model: Row = (), *, at: Any = None, name: Any = None,
    ) -> Effect:  # fmt: skip
        """One write to the real object; `at`: the key under which its line was noted."""
        target, where = make.names.var(self.origin), make.written_at(self.twin, at)
        return Effect(self.origin, target, form, key, value, fn, model, name, where)

    def replay(self, make: Emitter) -> list[Effect]:
        """The writes that make the real object what the twin is now."""
        raise NotImplementedError

    def lost(self) -> Iterable[Any]:
        """The real objects in it that the replayed writes take out of it."""
        return ()

    def counters(self) -> set[str]:
        """The names of ints in it that the program replaced by other ints: they will vary."""
        return set()


def counts(old: Any, new: Any) -> bool:
    """True if a number that every call reads was replaced by another: it will vary."""
    return type(old) is type(new) and (type(old) is int or type(old) in NARROW)


def ends(real: Any, depth: int = 0) -> bool:
    """True if code runs when an object, or what it holds, goes: a `__del__`, what a weak reference
    calls, what a generator has in its `finally`. Python runs it at once; replayed writes come after
    all that the program does."""
    if type(real) is GeneratorType and real.gi_suspended and _has_blocks(real.gi_code):
        return True
    if not gc.is_tracked(real) or issubclass(type(real), _STAYING):
        return False
    if any("__del__" in vars(base) for base in type(real).__mro__):
        return True
    if any(reference.__callback__ is not None for reference in weakref.getweakrefs(real)):
        return True
    if depth == _DEPTH or issubclass(type(real), Tensor):
        return False
    left = _left_by(real) if issubclass(type(real), BaseException) else []
    return any(ends(part, depth + 1) for part in (*left, *gc.get_referents(real)))


def _has_blocks(code: CodeType) -> bool:
    """True if code has a `try` or `with`; from 3.12 on a handler covers each generator's body."""
    decoded = decode(code)
    targets = [decoded.instructions[h.target].op for h in decoded.handlers]
    return any(op != "STOPITERATION_ERROR" for op in targets)


def _left_by(error: BaseException) -> list[Any]:
    """Objects in frames that an exception has left, and alone keeps: their locals, and those of
    the program's frames that are executed in them."""
    running = {id(frame) for frame, _ in traceback.walk_stack(sys._getframe())}  # no cycle
    found: list[Any] = []
    for left, _ in traceback.walk_tb(error.__traceback__):
        if id(left) not in running:
            for value in gc.get_referents(left):
                found += value.fast.values() if type(value) is Frame else (value,)
    return found


class Outside:
    """Real objects by identity, and their twins. `read` gives the value of one that is met for the
    first time and makes its guard; `line` is the user's."""

    def __init__(
        self,
        guards: Guards,
        line: Callable[[], str],
        read: Callable[[Any, Origin], Any],
        assumed: Assumed,
    ) -> None:
        self.guards = guards
        self.line = line
        self.read = read
        self.by_real: dict[int, Shadow] = {}
        # By id of a memo of copy.deepcopy: it, what is copied of memory, and whose from outside.
        self.memories: dict[int, tuple[Any, dict[Any, Any], dict[int, Any]]] = {}
        self.by_twin: dict[int, Shadow] = {}
        self.fixed: dict[int, Any] = {}  # objects that are guarded by identity
        self.constants: dict[int, tuple[Any, list[Origin]]] = {}  # guarded to be equal
        self.numbers: dict[Any, Origin] = {}  # graph input of a run-time number -> where it is read
        self.assumed = assumed
        self.texts: set[str] = set()  # names of those that are taken to be only handed on

    def _apart(self, real: Any, origin: Origin) -> bool:
        """True if a tensor or array that is found at two places is loaded as two, since other calls
        have two there. Where the program tells them apart, or writes to one, a guard fails at
        once."""
        if type(real) is Tensor:
            plain = real._node is real._view is None and not real.__dict__
            return plain and not real._requires_grad and self.varies(origin, APART)
        return type(real) is np.ndarray and self.varies(origin, APART)

    def varies(self, origin: Origin, what: str = "") -> bool:
        """True if a number, or one of its siblings, is known to vary from call to call."""
        name = what + origin.show()
        varying = self.assumed.varying
        return name in varying or (ANY in varying and not varying.isdisjoint(siblings(name)))

    def forget(self) -> None:
        """Let go of the program's objects: a capture is full of cycles, and a batch is large."""
        self.by_real.clear()
        self.by_twin.clear()
        self.memories.clear()

    def load(self, real: Any, origin: Origin) -> Any:
        """The value to work with for `real`, found at `origin`. Raises Break if it has none."""
        known = self.by_real.get(id(real))
        if known is None or known.origin is origin or id(real) in _SINGLETONS:
            return self.read(real, origin)
        if self._apart(real, origin):
            return self.read(real, origin)
        self.guard(Same(origin, self.line(), known.origin))
        return known.twin

    def guard(self, guard: Guard) -> None:
        self.guards.add(guard)

    def constant(self, real: Any, origin: Origin) -> Any:
        """Guard by value; the very object."""
        self.guard(Equals(origin, self.line(), real))
        self.constants.setdefault(id(real), (real, []))[1].append(origin)
        return real

    def pin(self, value: Any) -> bool:
        """Guard that a constant stays this very object, if one that is equal could be another."""
        _, places = self.constants.get(id(value), (None, ()))
        if not places or (type(value) is int and -5 <= value <= 256):
            return False
        for origin in places:
            self.guard(Is(origin, self.line(), value))
        return True

    def fix(self, real: Any, origin: Origin) -> Any:
        """Guard by identity; the object itself."""
        self.guard(Is(origin, self.line(), real))
        return self.begin(real, origin)

    def begin(self, real: Any, origin: Origin) -> Any:
        """The function that every call begins with: it needs no guard."""
        self.fixed[id(real)] = real
        return self.register(Shadow(real, origin, real))

    def is_fixed(self, value: Any) -> bool:
        """True if `value` is guarded by identity (what hangs on it can be named directly)."""
        return id(value) in self.fixed

    def register(self, shadow: Shadow) -> Any:
        """Remember a shadow; its twin."""
        self.by_real[id(shadow.real)] = shadow
        self.by_twin[id(shadow.twin)] = shadow
        return shadow.twin

    def shadow(self, twin: Any) -> Shadow | None:
        """The shadow of a twin (None for an object made inside, or a constant)."""
        return self.by_twin.get(id(twin))

    def origin_of(self, value: Any) -> Origin | None:
        shadow = self.by_twin.get(id(value))
        return None if shadow is None else shadow.origin

    def dropping(self, value: Any) -> None:
        """A frame lets go of a value, which may be the last name of an object."""
        shadow = self.by_twin.get(id(value))
        if shadow is not None and shadow.origin.in_frame and ends(shadow.real):
            raise Break("effect", f"{shadow.origin.show()} goes, which runs code")

    def key_of(self, key: Any) -> tuple[Any, Origin | None]:
        """The real dictionary key that `key` stands for, and its origin if it is not a constant.

        A tuple or a bound method is equal to another of equal parts, so one that the program makes
        stands for the one of what its parts stand for."""
        shadow = self.by_twin.get(id(key))
        if shadow is not None:
            return (key, None) if self.is_fixed(key) else (shadow.real, shadow.origin)
        if issubclass(type(key), frozenset):
            if any(self.key_of(part)[1] for part in frozenset.__iter__(key)):
                raise Break("opaque object", "a key is a set of objects, which has no order")
            return key, None
        if issubclass(type(key), tuple):
            parts = (*tuple.__iter__(key),)
        elif type(key) is MethodType:
            parts = key.__func__, key.__self__
        else:
            return key, None
        found = [self.key_of(part) for part in parts]
        if all(origin is None for _, origin in found):
            return key, None
        places = [o or Fixed(real, _label(real)) for real, o in found]
        reals = tuple(real for real, _ in found)
        if type(key) is MethodType:
            return MethodType(*reals), result_of(MethodType, *places)
        form = ("tuple", *(f"${i}" for i in range(len(places))))
        return reals, Computed(tuple(places), form)


def _label(part: Any) -> str:
    """The name of a constant, which runs no code of the program's."""
    return repr(part) if type(part) in (str, int) else f"a {type(part).__name__}"
