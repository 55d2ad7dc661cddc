"""Capture: one small function per bytecode operation. (interpreter, frame, instruction) -> effect on the frame.

Each is registered with the versions of CPython that have it; registration asserts that the
operation exists there (or is one that `bytecode.decode` makes) and is unique.
"""

from __future__ import annotations

import builtins
import dis
from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any, Final

from jitcap.capture.breaks import Break
from jitcap.capture.bytecode import INVENTED, SUPPORTED, VERSION, Instruction
from jitcap.capture.interpret import NULL, Done, Frame, Generator, Interpreter, Opcode, OpcodeTable

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
    value = frame.pop()
    if value is NULL:  # an inlined comprehension restores an unbound local
        frame.fast.pop(ins.arg, None)
    else:
        frame.fast[ins.arg] = value


@opcode("DELETE_FAST")
def delete_fast(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
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
        free = ins.arg in frame.code.co_freevars
        text = "cannot access free variable {0!r} where it is not associated with a value in enclosing scope"
        if not free:
            text = "cannot access local variable {0!r} where it is not associated with a value"
        raise (NameError if free else UnboundLocalError)(text.format(ins.arg)) from None


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
        raise NameError(f"name {ins.arg!r} is not defined")
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


# ---- building values


@opcode("BUILD_TUPLE")
def build_tuple(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    frame.push(tuple(frame.popn(ins.arg)))


@opcode("BUILD_LIST")
def build_list(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    frame.push(frame.popn(ins.arg))


@opcode("BUILD_SET")
def build_set(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    frame.push(set(frame.popn(ins.arg)))


@opcode("BUILD_MAP")
def build_map(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    items = frame.popn(2 * ins.arg)
    frame.push(dict(zip(items[::2], items[1::2], strict=True)))


@opcode("BUILD_CONST_KEY_MAP")
def build_const_key_map(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    keys = frame.pop()
    frame.push(dict(zip(keys, frame.popn(ins.arg), strict=True)))


@opcode("BUILD_STRING")
def build_string(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    frame.push(vm.world.join(frame.popn(ins.arg)))


def _container(vm: Interpreter, frame: Frame, ins: Instruction) -> Any:
    """The container being built, below the top of the stack (from outside, after a split)."""
    target = frame.stack[-ins.arg]
    vm.world.settle(target)
    return target


@opcode("LIST_APPEND")
def list_append(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    value = frame.pop()
    _container(vm, frame, ins).append(value)


@opcode("SET_ADD")
def set_add(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    value = frame.pop()
    _container(vm, frame, ins).add(value)


@opcode("MAP_ADD")
def map_add(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    key, value = frame.popn(2)
    _container(vm, frame, ins)[key] = value


@opcode("LIST_EXTEND")
def list_extend(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    values = vm.world.list_of(frame.pop())
    _container(vm, frame, ins).extend(values)


@opcode("SET_UPDATE")
def set_update(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    values = vm.world.list_of(frame.pop())
    _container(vm, frame, ins).update(values)


@opcode("DICT_UPDATE")
def dict_update(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    mapping = frame.pop()
    target = _container(vm, frame, ins)
    for key in _keys(vm, mapping):
        target[key] = vm.world.getitem(mapping, key)


@opcode("DICT_MERGE")
def dict_merge(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    mapping = frame.pop()
    target = _container(vm, frame, ins)
    for key in _keys(vm, mapping):
        if key in target:
            raise TypeError(f"got multiple values for keyword argument {key!r}")
        target[key] = vm.world.getitem(mapping, key)


def _keys(vm: Interpreter, mapping: Any) -> list[Any]:
    """The keys of a mapping that is unpacked by `**`."""
    try:
        keys = vm.world.getattr(mapping, "keys")
    except AttributeError:
        raise TypeError(f"{type(mapping).__name__!r} object is not a mapping") from None
    return vm.world.list_of(vm.world.call(keys, (), {}))


@opcode("LIST_TO_TUPLE")
def list_to_tuple(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    frame.push(tuple(frame.pop()))


@opcode("UNPACK_SEQUENCE")
def unpack_sequence(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    values = vm.world.list_of(frame.pop())
    if len(values) < ins.arg:
        raise ValueError(f"not enough values to unpack (expected {ins.arg}, got {len(values)})")
    if len(values) > ins.arg:
        raise ValueError(f"too many values to unpack (expected {ins.arg})")
    frame.stack.extend(reversed(values))


@opcode("UNPACK_EX")
def unpack_ex(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    before, after = ins.arg & 0xFF, ins.arg >> 8
    values = vm.world.list_of(frame.pop())
    if len(values) < before + after:
        raise ValueError(
            f"not enough values to unpack (expected at least {before + after}, got {len(values)})"
        )
    end = len(values) - after
    parts = [*values[:before], values[before:end], *values[end:]]
    frame.stack.extend(reversed(parts))


@opcode("FORMAT_VALUE")
def format_value(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    kind, has_spec = ins.arg
    spec = frame.pop() if has_spec else ""
    value = frame.pop()
    frame.push(vm.world.format(vm.world.convert(value, kind) if kind else value, spec))


@opcode("CONVERT_VALUE")
def convert_value(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    frame.push(vm.world.convert(frame.pop(), ins.arg))


@opcode("MAKE_FUNCTION")
def make_function(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    code = frame.pop()
    flags = (ins.arg or 0) if VERSION < (3, 13) else 0
    closure = frame.pop() if flags & 8 else None
    if closure is None and code.co_freevars:  # 3.13 gives it with SET_FUNCTION_ATTRIBUTE
        closure = tuple(CellType() for _ in code.co_freevars)
    annotations = frame.pop() if flags & 4 else None
    kwdefaults = frame.pop() if flags & 2 else None
    defaults = frame.pop() if flags & 1 else None
    fn = FunctionType(code, frame.globals, code.co_name, defaults, closure)
    fn.__kwdefaults__ = kwdefaults
    fn.__qualname__ = code.co_qualname
    if annotations:
        names = annotations
        fn.__annotations__ = dict(zip(names[::2], names[1::2], strict=True))
    frame.push(vm.world.made_inside(fn))


@opcode("SET_FUNCTION_ATTRIBUTE", since=(3, 13))
def set_function_attribute(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    fn, value = frame.pop(), frame.pop()
    if ins.arg == 8:
        again = FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, value)
        again.__kwdefaults__, again.__qualname__ = fn.__kwdefaults__, fn.__qualname__
        again.__annotations__ = fn.__annotations__
        fn = again
    elif ins.arg == 1:
        fn.__defaults__ = value
    elif ins.arg == 2:
        fn.__kwdefaults__ = value
    else:
        fn.__annotations__ = dict(zip(value[::2], value[1::2], strict=True))
    frame.push(vm.world.made_inside(fn))


@opcode("LOAD_BUILD_CLASS")
def load_build_class(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    frame.push(builtins.__build_class__)


@opcode("LOAD_ASSERTION_ERROR")
def load_assertion_error(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    frame.push(AssertionError)


@opcode("IMPORT_NAME")
def import_name(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    level, fromlist = frame.popn(2)
    frame.push(vm.world.import_name(frame, ins.arg, fromlist, level))


@opcode("IMPORT_FROM")
def import_from(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    frame.push(vm.world.import_from(frame.stack[-1], ins.arg))


# ---- calls


@opcode("CALL")
def call(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    values = frame.popn(ins.arg)
    _call(vm, frame, values, ins.kwnames)


@opcode("CALL_KW", since=(3, 13))
def call_kw(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    kwnames = frame.pop()
    values = frame.popn(ins.arg)
    _call(vm, frame, values, kwnames)


def _callable(frame: Frame) -> tuple[Any, tuple[Any, ...]]:
    """The callable below the arguments, and `self` if there is one (either slot may be NULL)."""
    first, second = frame.popn(2)
    if first is NULL:
        return second, ()
    return (first, ()) if second is NULL else (first, (second,))


def _call(vm: Interpreter, frame: Frame, values: list[Any], kwnames: tuple[str, ...]) -> None:
    split = len(values) - len(kwnames)
    fn, bound = _callable(frame)
    kwargs = dict(zip(kwnames, values[split:], strict=True))
    args = (*bound, *values[:split])
    if fn is super and not args:
        args = _super_arguments(vm, frame)
    elif fn is builtins.locals or fn is builtins.vars and not args:
        frame.push(_locals(vm, frame))
        return
    elif fn is builtins.globals:
        fn, args = vm.world.load_global, (frame, None)
        frame.push(fn(*args))
        return
    frame.push(vm.world.call(fn, args, kwargs))


def _super_arguments(vm: Interpreter, frame: Frame) -> tuple[Any, ...]:
    """What zero-argument `super()` takes from the frame."""
    code = frame.code
    if not code.co_argcount or "__class__" not in frame.fast:
        raise RuntimeError("super(): no arguments")
    first = frame.fast[code.co_varnames[0]]
    if isinstance(first, CellType) and code.co_varnames[0] in code.co_cellvars:
        first = vm.world.load_cell(first)
    return vm.world.load_cell(frame.fast["__class__"]), first


def _locals(vm: Interpreter, frame: Frame) -> dict[str, Any]:
    if frame.namespace is not None:
        return frame.namespace
    cells = {*frame.code.co_cellvars, *frame.code.co_freevars}
    out = {}
    for name, value in frame.fast.items():
        try:
            out[name] = vm.world.load_cell(value) if name in cells else value
        except ValueError:
            continue
    return out


@opcode("CALL_FUNCTION_EX")
def call_function_ex(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    kwargs = frame.pop() if _raw_flag(ins) else {}
    vm.world.settle(kwargs)
    args = tuple(vm.world.list_of(frame.pop()))
    fn, bound = _callable_ex(frame)
    frame.push(vm.world.call(fn, (*bound, *args), dict(kwargs)))


def _callable_ex(frame: Frame) -> tuple[Any, tuple[Any, ...]]:
    first, second = frame.popn(2)
    return (second if first is NULL else first), ()


def _raw_flag(ins: Instruction) -> int:
    return (ins.arg or 0) & 1


@opcode("GET_ITER")
def get_iter(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    frame.push(vm.world.iter(frame.pop()))


@opcode("RETURN_VALUE")
def return_value(vm: Interpreter, frame: Frame, ins: Instruction) -> Done:
    return Done(frame.pop())


@opcode("YIELD_VALUE")
def yield_value(vm: Interpreter, frame: Frame, ins: Instruction) -> Done:
    return Done(frame.pop(), suspended=True)


@opcode("GET_YIELD_FROM_ITER")
def get_yield_from_iter(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    if not isinstance(frame.stack[-1], Generator):
        frame.push(vm.world.iter(frame.pop()))


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


@opcode("CALL_INTRINSIC_1", since=(3, 12))
def call_intrinsic_1(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    raise Break("opcode", f"the intrinsic {ins.arg} (type parameters, import *) is not captured")


@opcode("STOPITERATION_ERROR")
def stopiteration_error(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    error = frame.stack[-1]
    if isinstance(error, StopIteration):
        wrapped = RuntimeError("generator raised StopIteration")
        wrapped.__cause__ = error
        frame.stack[-1] = wrapped
