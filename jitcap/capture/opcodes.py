"""Capture: one small function per operation. (interpreter, frame, instruction) -> changed frame.

Each is registered with the versions of CPython that have it; registration asserts that the
operation exists there (or is one that `bytecode.decode` makes) and is unique.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from types import CellType
from typing import Final

from jitcap.capture.bytecode import INVENTED, SUPPORTED, VERSION, Instruction
from jitcap.capture.interpret import NULL, Frame, Interpreter, Opcode, OpcodeTable

OPCODES: Final = OpcodeTable()
VERSIONS: Final[dict[str, tuple[tuple[int, int], tuple[int, int]]]] = {}
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
            VERSIONS[name] = (since, until)
        return fn

    return register


# ---- the stack


@opcode("PUSH_NULL")
def push_null(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    frame.push(NULL)


@opcode("POP_TOP")
def pop_top(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    vm.world.dropping(frame.stack[-1])
    frame.pop()


@opcode("SWAP")
def swap(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    stack = frame.stack
    stack[-1], stack[-ins.arg] = stack[-ins.arg], stack[-1]


@opcode("COPY")
def copy(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    frame.push(frame.stack[-ins.arg])


@opcode("LOAD_CONST")
def load_const(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    frame.push(ins.arg)


@opcode("END_SEND", since=(3, 12))
def end_send(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    del frame.stack[-2]


# ---- variables


@opcode("LOAD_FAST")
def load_fast(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    value = frame.fast.get(ins.arg, NULL)
    if value is NULL:
        raise UnboundLocalError(
            f"cannot access local variable {ins.arg!r} where it is not associated with a value"
        )
    frame.push(value)


@opcode("STORE_FAST")
def store_fast(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    vm.world.dropping(frame.fast.get(ins.arg, NULL))
    value = frame.pop()
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


@opcode("LOAD_FAST_AND_CLEAR", since=(3, 12))
def load_fast_and_clear(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    frame.push(frame.fast.pop(ins.arg, NULL))


@opcode("MAKE_CELL")
def make_cell(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    value = frame.fast.get(ins.arg, NULL)
    frame.fast[ins.arg] = CellType() if value is NULL else CellType(value)


@opcode("LOAD_CLOSURE")
def load_closure(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    frame.push(frame.fast[ins.arg])


@opcode("LOAD_DEREF")
def load_deref(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    try:
        frame.push(vm.world.load_cell(frame.fast[ins.arg]))
    except ValueError:
        what = f"variable {ins.arg!r} where it is not associated with a value"
        if ins.arg not in frame.code.co_freevars:
            raise UnboundLocalError(f"cannot access local {what}") from None
        what = f"cannot access free {what} in enclosing scope"
        raise NameError(what, name=ins.arg) from None


@opcode("STORE_DEREF")
def store_deref(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    vm.world.store_cell(frame.fast[ins.arg], frame.pop())


@opcode("DELETE_DEREF")
def delete_deref(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    load_deref(vm, frame, ins)  # raises as Python does when it is unbound
    frame.pop()
    vm.world.store_cell(frame.fast[ins.arg], NULL)


@opcode("LOAD_GLOBAL")
def load_global(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    frame.push(vm.world.load_global(frame, ins.arg))


@opcode("STORE_GLOBAL")
def store_global(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    vm.world.store_global(frame, ins.arg, frame.pop())


@opcode("DELETE_GLOBAL")
def delete_global(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    vm.world.delete_global(frame, ins.arg)


@opcode("LOAD_NAME")
def load_name(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    if frame.namespace is not None and ins.arg in frame.namespace:
        frame.push(frame.namespace[ins.arg])
    else:
        load_global(vm, frame, ins)


@opcode("STORE_NAME")
def store_name(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    if frame.namespace is None:
        store_global(vm, frame, ins)
    else:
        frame.namespace[ins.arg] = frame.pop()


@opcode("DELETE_NAME")
def delete_name(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    if frame.namespace is None or ins.arg not in frame.namespace:
        raise NameError(f"name {ins.arg!r} is not defined", name=ins.arg)
    del frame.namespace[ins.arg]


@opcode("LOAD_LOCALS", since=(3, 12))
def load_locals(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    frame.push(frame.namespace)


@opcode("LOAD_CLASSDEREF", until=(3, 11))
def load_classderef(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    if frame.namespace is not None and ins.arg in frame.namespace:
        frame.push(frame.namespace[ins.arg])
    else:
        load_deref(vm, frame, ins)


@opcode("LOAD_FROM_DICT_OR_DEREF", since=(3, 12))
def load_from_dict_or_deref(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    namespace = frame.pop()
    if ins.arg in namespace:
        frame.push(namespace[ins.arg])
    else:
        load_deref(vm, frame, ins)


@opcode("LOAD_FROM_DICT_OR_GLOBALS", since=(3, 12))
def load_from_dict_or_globals(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    namespace = frame.pop()
    if ins.arg in namespace:
        frame.push(namespace[ins.arg])
    else:
        load_global(vm, frame, ins)


@opcode("SETUP_ANNOTATIONS")
def setup_annotations(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    if frame.namespace is not None:
        frame.namespace.setdefault("__annotations__", {})


# ---- operators


@opcode("BINARY_OP")
def binary_op(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    b, a = frame.pop(), frame.pop()
    frame.push(vm.world.binary(ins.arg, a, b))


@opcode("UNARY_NEGATIVE", "UNARY_INVERT", "UNARY_POSITIVE")
def unary_op(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    frame.push(vm.world.unary(ins.op, frame.pop()))


@opcode("UNARY_NOT")
def unary_not(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    frame.push(not vm.world.truth(frame.pop()))


@opcode("TO_BOOL", since=(3, 13))
def to_bool(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    frame.push(vm.world.truth(frame.pop()))


@opcode("COMPARE_OP")
def compare_op(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    b, a = frame.pop(), frame.pop()
    frame.push(vm.world.compare(ins.arg, a, b))


@opcode("IS_OP")
def is_op(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    b, a = frame.pop(), frame.pop()
    frame.push(vm.world.same(a, b) != bool(ins.arg))


@opcode("CONTAINS_OP")
def contains_op(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    container, item = frame.pop(), frame.pop()
    found = vm.world.contains(item, container)
    frame.push(not found if ins.arg else found)


@opcode("BINARY_SUBSCR")
def binary_subscr(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    key, obj = frame.pop(), frame.pop()
    frame.push(vm.world.getitem(obj, key))


@opcode("STORE_SUBSCR")
def store_subscr(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    value, obj, key = frame.popn(3)
    vm.world.setitem(obj, key, value)


@opcode("DELETE_SUBSCR")
def delete_subscr(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    obj, key = frame.popn(2)
    vm.world.delitem(obj, key)


@opcode("BINARY_SLICE", since=(3, 12))
def binary_slice(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    obj, start, stop = frame.popn(3)
    frame.push(vm.world.getitem(obj, slice(start, stop)))


@opcode("STORE_SLICE", since=(3, 12))
def store_slice(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    value, obj, start, stop = frame.popn(4)
    vm.world.setitem(obj, slice(start, stop), value)


@opcode("BUILD_SLICE")
def build_slice(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    frame.push(slice(*frame.popn(ins.arg)))


# ---- attributes


@opcode("LOAD_ATTR")
def load_attr(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    frame.push(vm.world.getattr(frame.pop(), ins.arg))


@opcode("LOAD_METHOD")
def load_method(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    value = vm.world.getattr(frame.pop(), ins.arg)
    frame.push(NULL)
    frame.push(value)


@opcode("LOAD_SUPER_ATTR", since=(3, 12))
def load_super_attr(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    _, cls, obj = frame.popn(3)
    name, method = ins.arg
    value = vm.world.super_getattr(cls, obj, name)
    if method:
        frame.push(NULL)
    frame.push(value)


@opcode("STORE_ATTR")
def store_attr(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    value, obj = frame.popn(2)
    vm.world.setattr(obj, ins.arg, value)


@opcode("DELETE_ATTR")
def delete_attr(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    vm.world.delattr(frame.pop(), ins.arg)
