"""Capture: operations that build values: values on the stack -> container, text, function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from types import CellType, FunctionType, WrapperDescriptorType
from typing import Any

from jitcap.base.call_policy import shown
from jitcap.capture.bytecode import VERSION, Instruction
from jitcap.capture.interpret import NULL, Frame, Interpreter, Opcode
from jitcap.capture.opcodes.basic import opcode


def _built(make: Callable[[Any, list[Any]], Any]) -> Opcode:
    """`make(world, values)` of as many values as the argument says."""

    def run(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
        frame.push(make(vm.world, frame.popn(ins.arg)))

    return run


opcode("BUILD_TUPLE")(_built(lambda world, values: tuple(values)))
opcode("BUILD_LIST")(_built(lambda world, values: values))
opcode("BUILD_SLICE")(_built(lambda world, ends: slice(*ends)))
opcode("BUILD_STRING")(_built(lambda world, parts: world.join(parts)))


@opcode("BUILD_SET")
def build_set(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    values = frame.popn(ins.arg)
    vm.world.entering(values)
    frame.push(set(values))


@opcode("BUILD_MAP")
def build_map(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    items = frame.popn(2 * ins.arg)
    vm.world.hashing(items[::2])
    frame.push(dict(zip(items[::2], items[1::2], strict=True)))


@opcode("BUILD_CONST_KEY_MAP")
def build_const_key_map(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    keys = frame.pop()
    frame.push(dict(zip(keys, frame.popn(ins.arg), strict=True)))


def _container(vm: Interpreter, frame: Frame, ins: Instruction) -> Any:
    """The container being built, below the top of the stack (from outside, after a split)."""
    target = frame.stack[-ins.arg]
    vm.world.complete(target)
    vm.world.writing(target)
    return target


@opcode("LIST_APPEND")
def list_append(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    value = frame.pop()
    _container(vm, frame, ins).append(value)


@opcode("SET_ADD")
def set_add(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    value = frame.pop()
    vm.world.entering((value,))
    _container(vm, frame, ins).add(value)


@opcode("MAP_ADD")
def map_add(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    key, value = frame.popn(2)
    vm.world.hashing((key,))
    _container(vm, frame, ins)[key] = value


@opcode("LIST_EXTEND")
def list_extend(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    value = frame.pop()
    require_iterable(vm.world, value, lambda name: f"Value after * must be an iterable, not {name}")
    _container(vm, frame, ins).extend(vm.world.list_of(value))


@opcode("SET_UPDATE")
def set_update(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    values = list(_left(vm.world.iter(frame.pop())))
    vm.world.entering(values)
    _container(vm, frame, ins).update(values)


@opcode("DICT_UPDATE")
def dict_update(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    mapping = frame.pop()
    target = _container(vm, frame, ins)
    refusal = f"{shown(type(mapping))!r} object is not a mapping"
    if _has_entries(mapping):
        vm.world.settle(mapping)
        target.update(dict.copy(mapping))  # which asks no key for its hash again
    else:
        target.update(entries(vm.world, mapping, lambda: refusal))


@opcode("DICT_MERGE")
def dict_merge(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    mapping = frame.pop()
    target = _container(vm, frame, ins)
    what = f"argument after ** must be a mapping, not {shown(type(mapping))}"
    for key, value in entries(vm.world, mapping, lambda: f"{_shown(vm, frame, ins)} {what}"):
        if key in target:
            again = f"got multiple values for keyword argument '{vm.world.convert(key, 1)}'"
            raise TypeError(f"{_shown(vm, frame, ins)} {again}")
        target[key] = value


def _shown(vm: Interpreter, frame: Frame, ins: Instruction) -> str:
    """The function that is called with the keywords on the stack, as errors name it."""
    places = frame.stack[-ins.arg - 3 : -ins.arg - 1]  # of it and of NULL, in either order
    return function_text(vm, next(place for place in places if place is not NULL))


def function_text(vm: Interpreter, fn: Any) -> str:
    """A function as errors about a call of it name it."""
    name, module = getattr(fn, "__qualname__", None), getattr(fn, "__module__", None)
    if name is None:
        return str(vm.world.convert(fn, 1))
    return f"{name}()" if module in (None, "builtins") else f"{module}.{name}()"


def require_iterable(world: Any, value: Any, refusal: Callable[[str], str]) -> None:
    """Raise TypeError(refusal(name of the type)) for a value without `__iter__` or items by place.
    A program's `__getitem__` may give these; one of C (a match's) may be of keys alone."""
    cls = world.call(type, (value,), {})
    ways = [vars(c) for c in cls.__mro__]
    items = [way["__getitem__"] for way in ways if "__getitem__" in way]
    if any("__iter__" in way for way in ways):
        return
    if items and not isinstance(items[0], WrapperDescriptorType):
        return
    with suppress(TypeError):
        if items:
            world.iter(value)
            return
    raise TypeError(refusal(shown(cls)))


def _has_entries(mapping: Any) -> bool:
    return isinstance(mapping, dict) and type(mapping).__iter__ is dict.__iter__


def entries(world: Any, mapping: Any, refusal: Callable[[], str]) -> Iterator[tuple[Any, Any]]:
    """Items that a dictionary takes from a mapping: from a dictionary, the entries as they are.
    `refusal` is asked only where there is an error: it may run a `__repr__` of the program."""
    if _has_entries(mapping):
        world.settle(mapping)
        yield from dict.items(mapping)
        return
    keys = NULL
    with suppress(AttributeError):
        keys = world.getattr(mapping, "keys")
    if keys is NULL:
        raise TypeError(refusal())
    for key in world.list_of(world.call(keys, (), {})):
        yield key, world.getitem(mapping, key)


def _unpacked(vm: Interpreter, value: Any) -> Any:
    require_iterable(vm.world, value, lambda name: f"cannot unpack non-iterable {name} object")
    return vm.world.iter(value)


def _left(iterator: Any) -> Iterator[Any]:
    """The remaining items of an iterator, whose `__iter__` is not called."""
    with suppress(StopIteration):
        while True:
            yield next(iterator)


@opcode("UNPACK_SEQUENCE")
def unpack_sequence(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    value = frame.pop()
    whole = type(value) is tuple  # of which all is there
    values = [*value] if whole else list(islice(_left(_unpacked(vm, value)), ins.arg + 1))
    if len(values) < ins.arg:
        raise ValueError(f"not enough values to unpack (expected {ins.arg}, got {len(values)})")
    if len(values) > ins.arg:
        raise ValueError(f"too many values to unpack (expected {ins.arg})")
    frame.stack.extend(reversed(values))


@opcode("UNPACK_EX")
def unpack_ex(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    before, after = ins.arg & 0xFF, ins.arg >> 8
    iterator = _unpacked(vm, frame.pop())
    values = list(islice(_left(iterator), before))
    if len(values) == before:
        values += vm.world.list_of(iterator)  # which asks it for a length
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


@opcode("MAKE_FUNCTION")
def make_function(vm: Interpreter, frame: Frame, ins: Instruction) -> None:
    code = frame.pop()
    flags = (ins.arg or 0) if VERSION < (3, 13) else 0
    closure = frame.pop() if flags & 8 else None
    if closure is None and code.co_freevars:  # 3.13 gives it with SET_FUNCTION_ATTRIBUTE
        closure = tuple(CellType() for _ in code.co_freevars)
    annotations = frame.pop() if flags & 4 else None
    kwdefaults = frame.pop() if flags & 2 else None
    vm.world.settle(kwdefaults)
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
    vm.world.changing(fn)
    vm.world.settle(value)
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
