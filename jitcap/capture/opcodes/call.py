"""Capture: operations that call, return and yield: callable, arguments -> value, or `Done`."""

from __future__ import annotations

import builtins
from types import CellType
from typing import Any, Final

from jitcap.capture.bytecode import VERSION, Instruction
from jitcap.capture.interpret import NULL, Done, Frame, Generator, Interpreter
from jitcap.capture.opcodes.basic import opcode
from jitcap.capture.opcodes.build import function_text, require_iterable


@opcode("CALL")
def call(vm: Interpreter, frame: Frame, ins: Instruction) -> Done | None:
    values = frame.popn(ins.arg)
    return _call(vm, frame, values, ins.kwnames)


# What is told which frame calls it; by identity, since a metaclass may compare its classes.
OF_FRAMES: Final = frozenset(map(id, (super, locals, vars, eval, exec, globals, max, min)))


@opcode("CALL_KW", since=(3, 13))
def call_kw(vm: Interpreter, frame: Frame, ins: Instruction) -> Done | None:
    kwnames = frame.pop()
    values = frame.popn(ins.arg)
    return _call(vm, frame, values, kwnames)


def _callable(frame: Frame) -> tuple[Any, tuple[Any, ...]]:
    """The callable below the arguments, and `self` if there is one (either slot may be NULL)."""
    second, first = frame.stack.pop(), frame.stack.pop()
    if first is NULL:
        return second, ()
    return (first, ()) if second is NULL else (first, (second,))


def _call(
    vm: Interpreter, frame: Frame, values: list[Any], kwnames: tuple[str, ...]
) -> Done | None:
    split = len(values) - len(kwnames)
    fn, bound = _callable(frame)
    kwargs = dict(zip(kwnames, values[split:], strict=True)) if kwnames else {}
    args = (*bound, *values[:split])
    if id(fn) in OF_FRAMES:
        if fn is super and not (args or kwargs):
            args = _super_arguments(vm, frame)
        elif (fn is builtins.locals or fn is builtins.vars) and not (args or kwargs):
            frame.push(frame.snapshot(vm.world.load_cell))
            return None
        elif (fn is builtins.eval or fn is builtins.exec) and len(args) == 1:
            args = (*args, vm.world.load_global(frame, None), frame.names(vm.world.load_cell))
        elif fn is builtins.globals and not (args or kwargs):
            frame.push(vm.world.load_global(frame, None))
            return None
        elif (fn is max or fn is min) and args and not kwargs:
            found: Done | None = vm.world.extreme(frame, fn, args)
            return found
    frame.stack.append(vm.world.call(fn, args, kwargs))
    return None


def _super_arguments(vm: Interpreter, frame: Frame) -> tuple[Any, ...]:
    """Arguments of a zero-argument `super()`, read from the frame."""
    code = frame.code
    if not code.co_argcount:
        raise RuntimeError("super(): no arguments")
    if "__class__" not in frame.fast:
        raise RuntimeError("super(): __class__ cell not found")
    first = frame.fast.get(code.co_varnames[0], NULL)
    if isinstance(first, CellType) and code.co_varnames[0] in code.co_cellvars:
        first = _in_cell(vm, first)
    if first is NULL:
        raise RuntimeError("super(): arg[0] deleted")
    cls = _in_cell(vm, frame.fast["__class__"])
    if cls is NULL:
        raise RuntimeError("super(): empty __class__ cell")
    return cls, first


def _in_cell(vm: Interpreter, cell: CellType) -> Any:
    try:
        return vm.world.load_cell(cell)
    except ValueError:
        return NULL


@opcode("CALL_FUNCTION_EX")
def call_function_ex(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    kwargs = frame.pop() if (ins.arg or 0) & 1 else {}
    vm.world.settle(kwargs)
    given = frame.pop()
    fn, bound = _callable(frame)
    what = "argument after * must be an iterable, not"
    require_iterable(vm.world, given, lambda name: f"{function_text(vm, fn)} {what} {name}")
    args = vm.world.list_of(given)
    frame.push(vm.world.call(fn, (*bound, *args), dict(kwargs)))


@opcode("RETURN_VALUE")
def return_value(vm: Interpreter, frame: Frame, ins: Instruction) -> Done:
    return Done(frame.pop())


@opcode("YIELD_VALUE")
def yield_value(vm: Interpreter, frame: Frame, ins: Instruction) -> Done:
    return Done(frame.pop(), suspended=True)


@opcode("GET_YIELD_FROM_ITER")
def get_yield_from_iter(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    if not isinstance(frame.stack[-1], Generator):  # itself: its `send` and `throw` are asked for
        frame.push(vm.world.call(iter, (frame.pop(),), {}))


@opcode("SEND")
def send(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    value, receiver = frame.pop(), frame.stack[-1]
    try:
        if isinstance(receiver, Generator):
            frame.push(receiver.send(value))
        elif value is None:
            frame.push(vm.world.next(receiver))
        else:
            frame.push(vm.world.call(vm.world.getattr(receiver, "send"), (value,), {}))
    except StopIteration as stop:
        if VERSION < (3, 12):
            frame.pop()  # later versions leave it to END_SEND
        frame.push(stop.value)
        frame.pc = ins.target


@opcode("CLEANUP_THROW", since=(3, 12))
def cleanup_throw(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    error = frame.stack[-1]
    if not isinstance(error, StopIteration):
        raise error
    del frame.stack[-3:]
    frame.stack += [None, error.value]


@opcode("STOPITERATION_ERROR")
def stopiteration_error(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    error = frame.stack[-1]
    if isinstance(error, StopIteration):
        wrapped = RuntimeError("generator raised StopIteration")
        wrapped.__cause__ = wrapped.__context__ = error
        frame.stack[-1] = wrapped
