"""Capture: one small function per operation. (interpreter, frame, instruction) -> changed frame.

Each is registered with the versions of CPython that have it; registration asserts that the
operation exists there (or is one that `bytecode.decode` makes) and is unique.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from contextlib import suppress
from types import CellType
from typing import Any, Final

from jitcap.base.call_policy import MAPPING, SEQUENCE
from jitcap.capture.bytecode import INVENTED, SUPPORTED, VERSION, Instruction
from jitcap.capture.interpret import NULL, Done, Frame, Interpreter, Opcode, OpcodeTable

OPCODES: Final = OpcodeTable()
_FIRST, _LAST = SUPPORTED[0], SUPPORTED[-1]


def opcode(
    *names: str, since: tuple[int, int] = _FIRST, until: tuple[int, int] = _LAST
) -> Callable[[Opcode], Opcode]:
    """Register a function for operations that CPython `since`..`until` has."""

    def register(fn: Opcode) -> Opcode:
        for name in names:
            assert name not in OPCODES, f"{name} is registered twice"
            here = since <= VERSION <= until
            assert not here or name in dis.opmap or name in INVENTED, f"no operation {name}"
            OPCODES[name] = fn
        return fn

    return register


# ---- what takes values off the stack and pushes an answer

Answer = Callable[..., Any]  # (world, argument, *values) -> what is pushed
# name -> how many values, the answer; the versions follow where not all have it
_ANSWERS: Final[dict[str, tuple[int, Answer]]] = {
    "LOAD_ASSERTION_ERROR": (0, lambda world, _: AssertionError),
    "BINARY_OP": (2, lambda world, op, a, b: world.binary(op, a, b)),
    "COMPARE_OP": (2, lambda world, op, a, b: world.compare(op, a, b)),
    "IS_OP": (2, lambda world, no, a, b: world.same(a, b) != bool(no)),
    "CONTAINS_OP": (2, lambda world, no, item, held: world.contains(item, held) != bool(no)),
    "UNARY_NEGATIVE": (1, lambda world, _, a: world.unary("UNARY_NEGATIVE", a)),
    "UNARY_INVERT": (1, lambda world, _, a: world.unary("UNARY_INVERT", a)),
    "UNARY_POSITIVE": (1, lambda world, _, a: world.unary("UNARY_POSITIVE", a)),
    "UNARY_NOT": (1, lambda world, _, a: world.negation(a)),
    "TO_BOOL": (1, lambda world, _, a: world.as_bool(a)),
    "BINARY_SUBSCR": (2, lambda world, _, obj, key: world.getitem(obj, key)),
    "BINARY_SLICE": (3, lambda world, _, obj, *ends: world.getitem(obj, slice(*ends))),
    "LOAD_ATTR": (1, lambda world, name, obj: world.getattr(obj, name)),
    "GET_ITER": (1, lambda world, _, obj: world.iter(obj)),
    "CONVERT_VALUE": (1, lambda world, kind, value: world.convert(value, kind)),
    "LIST_TO_TUPLE": (1, lambda world, _, values: tuple(values)),
}
# the same of what pushes nothing
_ACTIONS: Final[dict[str, tuple[int, Answer]]] = {
    "POP_TOP": (1, lambda world, _, value: world.dropping(value)),
    "STORE_SUBSCR": (3, lambda world, _, value, obj, key: world.setitem(obj, key, value)),
    "STORE_SLICE": (4, lambda world, _, value, obj, *ends: world.setitem(obj, slice(*ends), value)),
    "DELETE_SUBSCR": (2, lambda world, _, obj, key: world.delitem(obj, key)),
    "STORE_ATTR": (2, lambda world, name, value, obj: world.setattr(obj, name, value)),
    "DELETE_ATTR": (1, lambda world, name, obj: world.delattr(obj, name)),
}
# the same of what is about a frame: (world, frame, argument, *values) -> what is pushed
_ANSWERS_IN: Final[dict[str, tuple[int, Answer]]] = {
    "COPY": (0, lambda world, frame, depth: frame.stack[-depth]),
    "LOAD_CLOSURE": (0, lambda world, frame, name: frame.fast[name]),
    "LOAD_FAST_AND_CLEAR": (0, lambda world, frame, name: frame.fast.pop(name, NULL)),
    "LOAD_GLOBAL": (0, lambda world, frame, name: world.load_global(frame, name)),
    "LOAD_LOCALS": (0, lambda world, frame, _: frame.namespace),
    "LOAD_BUILD_CLASS": (0, lambda world, frame, _: world.load_builtin(frame, "__build_class__")),
    "LOAD_SUPER_ATTR": (
        3, lambda world, frame, name, _, cls, obj: world.super_getattr(cls, obj, name)
    ),
    "IMPORT_NAME": (
        2, lambda world, frame, name, level, names: world.import_name(frame, name, names, level)
    ),
    "IMPORT_FROM": (0, lambda world, frame, name: world.import_from(frame.stack[-1], name)),
    "GET_LEN": (0, lambda world, frame, _: world.call(len, (frame.stack[-1],), {})),
    "MATCH_SEQUENCE": (0, lambda world, frame, _: _is_kind(world, frame.stack[-1], SEQUENCE)),
    "MATCH_MAPPING": (0, lambda world, frame, _: _is_kind(world, frame.stack[-1], MAPPING)),
}  # fmt: skip
_ACTIONS_IN: Final[dict[str, tuple[int, Answer]]] = {
    "STORE_DEREF": (1, lambda world, frame, name, v: world.store_cell(frame.fast[name], v)),
    "STORE_GLOBAL": (1, lambda world, frame, name, value: world.store_global(frame, name, value)),
    "DELETE_GLOBAL": (0, lambda world, frame, name: world.delete_global(frame, name)),
    "POP_EXCEPT": (1, lambda world, frame, _, before: frame.handled.pop()),
}
_SINCE: Final = {
    "TO_BOOL": (3, 13), "BINARY_SLICE": (3, 12), "STORE_SLICE": (3, 12),
    "LOAD_FAST_AND_CLEAR": (3, 12),
}  # fmt: skip
# operation -> how many values it takes off the stack, how many it leaves there
EFFECTS: Final = {
    "PUSH_NULL": (0, 1),
    "LOAD_CONST": (0, 1),
    **{name: (taken, 1) for name, (taken, _) in _ANSWERS.items()},
    **{name: (taken, 0) for name, (taken, _) in _ACTIONS.items()},
}


def _is_kind(world: Any, value: Any, flag: int) -> bool:
    return bool(world.type_flags(value) & flag)


def _asking(taken: int, fn: Answer, *, pushes: bool, of_frame: bool) -> Opcode:
    """One row of these tables as an operation."""

    def one(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
        stack = frame.stack
        stack.append(fn(vm.world, ins.arg, stack.pop()))

    def two(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
        stack = frame.stack
        second = stack.pop()
        stack.append(fn(vm.world, ins.arg, stack.pop(), second))

    if pushes and not of_frame and taken in (1, 2):  # most of them
        return one if taken == 1 else two

    def none(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
        frame.stack.append(fn(vm.world, frame, ins.arg))

    if pushes and of_frame and not taken:
        return none

    def run(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
        values = frame.popn(taken)
        if of_frame:
            answer = fn(vm.world, frame, ins.arg, *values)
        else:
            answer = fn(vm.world, ins.arg, *values)
        if pushes:
            frame.push(answer)

    return run


for _table, _pushes, _of_frame in (
    (_ANSWERS, True, False), (_ACTIONS, False, False),
    (_ANSWERS_IN, True, True), (_ACTIONS_IN, False, True),
):  # fmt: skip
    for _name, _row in _table.items():
        _run = _asking(*_row, pushes=_pushes, of_frame=_of_frame)
        opcode(_name, since=_SINCE.get(_name, _FIRST))(_run)


# ---- the stack


@opcode("PUSH_NULL")
def push_null(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    frame.stack.append(NULL)


@opcode("LOAD_CONST")
def load_const(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    frame.stack.append(ins.arg)


@opcode("SWAP")
def swap(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    stack = frame.stack
    stack[-1], stack[-ins.arg] = stack[-ins.arg], stack[-1]


@opcode("END_SEND", since=(3, 12))
def end_send(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    del frame.stack[-2]


# ---- variables


@opcode("LOAD_FAST")
def load_fast(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    try:
        value = frame.fast[ins.arg]
    except KeyError:
        value = NULL
    if value is NULL:
        raise UnboundLocalError(
            f"cannot access local variable {ins.arg!r} where it is not associated with a value"
        )
    frame.stack.append(value)


@opcode("STORE_FAST")
def store_fast(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    if (last := frame.fast.get(ins.arg, NULL)) is not NULL:
        vm.world.dropping(last)
    value = frame.stack.pop()
    if value is NULL:  # an inlined comprehension restores an unbound local
        frame.fast.pop(ins.arg, None)
    else:
        frame.fast[ins.arg] = value


@opcode("DELETE_FAST")
def delete_fast(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    vm.world.dropping(frame.fast.get(ins.arg, NULL))
    if frame.fast.pop(ins.arg, NULL) is NULL:
        raise UnboundLocalError(
            f"cannot access local variable {ins.arg!r} where it is not associated with a value"
        )


@opcode("MAKE_CELL")
def make_cell(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    value = frame.fast.get(ins.arg, NULL)
    frame.fast[ins.arg] = CellType() if value is NULL else CellType(value)


@opcode("LOAD_DEREF")
def load_deref(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    with suppress(ValueError):
        frame.push(vm.world.load_cell(frame.fast[ins.arg]))
        return
    what = f"variable {ins.arg!r} where it is not associated with a value"
    if ins.arg not in frame.code.co_freevars:
        raise UnboundLocalError(f"cannot access local {what}")
    raise NameError(f"cannot access free {what} in enclosing scope", name=ins.arg)


@opcode("DELETE_DEREF")
def delete_deref(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    load_deref(vm, frame, ins)  # raises as Python does when it is unbound
    frame.pop()
    vm.world.store_cell(frame.fast[ins.arg], NULL)


def _of_namespace(otherwise: Opcode) -> Opcode:
    """Opcode that loads from the namespace on the stack (a class body's), or runs `otherwise`."""

    def run(vm: Interpreter, frame: Frame, ins: Instruction) -> Done | None:
        namespace = frame.pop()
        if namespace is None or ins.arg not in namespace:
            return otherwise(vm, frame, ins)
        frame.push(namespace[ins.arg])
        return None

    return run


opcode("LOAD_FROM_DICT_OR_DEREF")(_of_namespace(load_deref))
opcode("LOAD_FROM_DICT_OR_GLOBALS")(_of_namespace(OPCODES["LOAD_GLOBAL"]))


@opcode("STORE_NAME")
def store_name(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    if frame.namespace is None:
        vm.world.store_global(frame, ins.arg, frame.pop())
    else:
        vm.world.writing(frame.namespace)
        frame.namespace[ins.arg] = frame.pop()


@opcode("DELETE_NAME")
def delete_name(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    if frame.namespace is None or ins.arg not in frame.namespace:
        raise NameError(f"name {ins.arg!r} is not defined", name=ins.arg)
    vm.world.writing(frame.namespace)
    del frame.namespace[ins.arg]


@opcode("SETUP_ANNOTATIONS")
def setup_annotations(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    if frame.namespace is not None:
        vm.world.writing(frame.namespace)
        frame.namespace.setdefault("__annotations__", {})
