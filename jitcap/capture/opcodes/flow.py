"""Capture: jumps, loops, exceptions, `with`, `match`. value on the stack -> where to go on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from jitcap.base.breaks import Break
from jitcap.base.call_policy import shown
from jitcap.capture.bytecode import VERSION, Instruction
from jitcap.capture.interpret import NULL, Done, Frame, Interpreter, Opcode
from jitcap.capture.opcodes.basic import opcode

# ---- jumps


@opcode("JUMP")
def jump(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    _go(vm, frame, ins.target)


def _go(vm: Interpreter, frame: Frame, target: int) -> None:
    """A jump; one back is another turn of a loop."""
    back = target < frame.pc
    frame.pc = target
    if back:
        vm.world.turn(frame)


def _jumping(goes: Callable[[Any, Any], bool]) -> Opcode:
    """A jump that is taken if `goes(world, value)`."""

    def run(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
        if goes(vm.world, frame.pop()):
            _go(vm, frame, ins.target)

    return run


def _deciding(jumps: bool, *, keeps: bool = False) -> Opcode:
    """A jump that is taken if the truth of a value is `jumps`; it keeps the value then, or not. One
    that nobody knows yet is the world's to say."""

    def run(vm: Interpreter, frame: Frame, ins: Instruction) -> Done | None:
        value = frame.pop()
        kept = (value,) if keeps else ()
        if type(value) is not bool and vm.world.undecided(value):
            ways = (frame.pc, ()), (ins.target, kept)
            found: Done | None = vm.world.branch(frame, value, ways if jumps else ways[::-1])
            return found
        if vm.world.truth(value) is jumps:
            frame.stack += kept
            _go(vm, frame, ins.target)
        return None

    return run


opcode("POP_JUMP_IF_TRUE")(_deciding(True))
opcode("POP_JUMP_IF_FALSE")(_deciding(False))
opcode("POP_JUMP_IF_NONE")(_jumping(lambda world, value: value is None))
opcode("POP_JUMP_IF_NOT_NONE")(_jumping(lambda world, value: value is not None))


opcode("JUMP_IF_TRUE_OR_POP", until=(3, 11))(_deciding(True, keeps=True))
opcode("JUMP_IF_FALSE_OR_POP", until=(3, 11))(_deciding(False, keeps=True))


@opcode("END_FOR", since=(3, 12))
def end_for(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    """Never reached: an exhausted FOR_ITER goes on behind it."""


@opcode("FOR_ITER")
def for_iter(vm: Interpreter, frame: Frame, ins: Instruction) -> Done | None:
    rolled = vm.world.roll(frame, ins.target)
    if rolled:
        return rolled if isinstance(rolled, Done) else None
    try:
        frame.push(vm.world.next(frame.stack[-1]))
    except StopIteration:
        frame.pop()
        frame.pc = ins.target
    return None


# ---- exceptions


@opcode("PUSH_EXC_INFO")
def push_exc_info(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    error = frame.pop()
    frame.push(frame.handled[-1])
    frame.handled.append(error)
    frame.push(error)


@opcode("CHECK_EXC_MATCH")
def check_exc_match(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    kinds = frame.pop()
    _caught(kinds)
    frame.push(vm.world.matches(frame.stack[-1], kinds))


def _caught(kinds: Any) -> tuple[Any, ...]:
    """The classes that an `except` names. Raises TypeError for what is none."""
    classes = kinds if isinstance(kinds, tuple) else (kinds,)
    for kind in classes:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            text = "catching classes that do not inherit from BaseException is not allowed"
            raise TypeError(text)
    return classes


@opcode("RAISE_VARARGS")
def raise_varargs(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    if ins.arg == 0:
        current = vm.handled()
        if current is None:
            raise RuntimeError("No active exception to reraise")
        _again(vm, current)
    cause = frame.pop() if ins.arg == 2 else NULL
    error = _exception(vm, frame.pop(), "exceptions must derive from BaseException")
    vm.world.raising(error)
    if cause is not NULL:
        vm.world.writing(error)
        text = "exception causes must derive from BaseException"
        error.__cause__ = None if cause is None else _exception(vm, cause, text)
    try:
        _again(vm, error)
    finally:
        del error  # no cycle: see `Interpreter.unwind`


def _exception(vm: Interpreter, value: Any, complaint: str) -> BaseException:
    if isinstance(value, type) and issubclass(value, BaseException):
        value = vm.world.call(value, (), {})
    if not isinstance(value, BaseException):
        raise TypeError(complaint)
    return value


def _again(vm: Interpreter, error: BaseException) -> None:
    if not isinstance(error, vm.catches):
        raise Break("exception", f"a {type(error).__name__} goes on")
    try:
        raise error
    finally:
        del error  # no cycle: see `Interpreter.unwind`


@opcode("RERAISE")
def reraise(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    error = frame.pop()
    context = error.__context__
    try:
        _again(vm, error)
    finally:
        error.__context__ = context  # what is handled here is no context of what goes on
        del error, context


@opcode("CHECK_EG_MATCH")
def check_eg_match(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    """`except* kinds`: what is left of the group, and the part that matches (a lone exception
    becomes a group)."""
    error, kinds = frame.popn(2)
    for kind in _caught(kinds):
        if issubclass(kind, BaseExceptionGroup):
            text = "catching ExceptionGroup with except* is not allowed. Use except instead."
            raise TypeError(text)
    rest, match = error, None
    if isinstance(error, BaseExceptionGroup):
        vm.world.raising(error)
        match, rest = error.split(kinds)
    elif isinstance(error, kinds):
        rest, match = None, BaseExceptionGroup("", (error,))
    frame.stack += [rest, match]
    if match is not None:
        frame.handled[-1] = match


@opcode("PREP_RERAISE_STAR")
def prep_reraise_star(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    """Push the exception raised after the `except*` clauses: the rest of `error`, nested as it was,
    and the exceptions that they raised."""
    error, left = frame.popn(2)
    parts = [e for e in left if e is not None]
    if not isinstance(error, BaseExceptionGroup):  # one clause ran: at most one can be raised
        frame.push(parts[0] if parts else None)
        return
    again = [e for e in parts if e.__context__ is error.__context__ and _is_part(e, error)]
    raised = [e for e in parts if not any(e is a for a in again)]
    leaves = {id(leaf) for e in again for leaf in _leaves(e)}
    rest = error.split(lambda e: id(e) in leaves)[0] if leaves else None
    raised += [rest] if rest is not None else []
    frame.push(BaseExceptionGroup("", raised) if len(raised) > 1 else next(iter(raised), None))


def _leaves(error: BaseException) -> list[BaseException]:
    """The exceptions in a group that are no groups."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for part in error.exceptions for leaf in _leaves(part)]


def _is_part(error: BaseException, whole: BaseException) -> bool:
    """True if all leaves of a group are leaves of another one, which was split."""
    held = {id(leaf) for leaf in _leaves(whole)}
    return isinstance(error, BaseExceptionGroup) and all(id(e) in held for e in _leaves(error))


# ---- with


@opcode("BEFORE_WITH")
def before_with(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    manager = frame.pop()
    enter = leave = NULL
    with suppress(AttributeError):
        enter = vm.world.method(manager, "__enter__")
        leave = vm.world.method(manager, "__exit__")
    if leave is NULL:
        what = "object does not support the context manager protocol"
        missed = "" if enter is NULL else " (missed __exit__ method)"
        raise TypeError(f"{shown(type(manager))!r} {what}{missed}")
    frame.push(leave)
    frame.push(vm.world.call(enter, (), {}))


@opcode("WITH_EXCEPT_START")
def with_except_start(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    error, leave = frame.stack[-1], frame.stack[-4]
    frame.push(vm.world.call(leave, (type(error), error, error.__traceback__), {}))


# ---- match


@opcode("MATCH_KEYS")
def match_keys(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    keys, subject = frame.stack[-1], frame.stack[-2]
    get = vm.world.getattr(subject, "get") if keys else None
    values: list[Any] = []
    seen: set[Any] = set()
    for key in keys:
        vm.world.hashing([key])
        if key in seen:
            again = vm.world.convert(key, 2)
            raise ValueError(f"mapping pattern checks duplicate key ({again})")
        seen.add(key)
        values.append(vm.world.call(get, (key, NULL), {}))
        if values[-1] is NULL:
            frame.push(None)
            return
    frame.push(tuple(values))


_POSITIONAL_SELF = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


@opcode("MATCH_CLASS")
def match_class(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    subject, cls, names = frame.popn(3)
    if not isinstance(cls, type):
        what = "class" if VERSION >= (3, 12) else "type"
        raise TypeError(f"called match pattern must be a {what}")
    if not vm.world.truth(vm.world.call(isinstance, (subject, cls), {})):
        frame.push(None)
        return
    values: list[Any] = []
    positional = _match_args(vm, cls, ins.arg) if ins.arg else ()
    if positional is None:
        values.append(subject)
    seen: set[str] = set()
    for name in (*(positional or ()), *names):
        if type(name) is not str:
            what = f"__match_args__ elements must be strings (got {shown(type(name))})"
            raise TypeError(what)
        if name in seen:
            what = f"got multiple sub-patterns for attribute {name!r}"
            raise TypeError(f"{shown(cls)}() {what}")
        seen.add(name)
        try:
            values.append(vm.world.getattr(subject, name))
        except AttributeError:
            frame.push(None)
            return
    frame.push(tuple(values))


def _match_args(vm: Interpreter, cls: Any, count: int) -> tuple[Any, ...] | None:
    """The names for `count` patterns without one; None: the one stands for the subject itself."""
    given = vm.world.call(getattr, (cls, "__match_args__", NULL), {})
    names: Any = () if given is NULL else given
    if type(names) is not tuple:
        what = f"__match_args__ must be a tuple (got {shown(type(names))})"
        raise TypeError(f"{shown(cls)}.{what}")
    itself = given is NULL and issubclass(cls, _POSITIONAL_SELF)
    allowed = 1 if itself else len(names)
    if allowed < count:
        plural = "" if allowed == 1 else "s"
        what = f"accepts {allowed} positional sub-pattern{plural} ({count} given)"
        raise TypeError(f"{shown(cls)}() {what}")
    return None if itself else names[:count]
