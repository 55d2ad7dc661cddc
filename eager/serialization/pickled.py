"""Under PyTorch's format: a reader of pickles that runs nothing. bytes -> plain values.

A pickle is a program for a small stack machine, whose dangerous instructions name any Python
function and call it. This machine looks names up in a table that it is handed, calls what stands
there and nothing else, and knows the instructions of plain data alone. Python's own `pickletools`
takes the bytes apart (it runs nothing either).
"""

from __future__ import annotations

import pickletools
from collections import deque
from collections.abc import Callable
from typing import Any

from eager.base.dataclass import dataclass
from eager.serialization.refusal import DAMAGE, LoadError, UsersError, hashable

ADVICE = (
    "nothing was run. Save plain containers of tensors and numbers (a state_dict), or, if you "
    "trust the file, allow what it needs: eager.serialization.add_safe_globals([...])"
)


@dataclass(frozen=True, slots=True, eq=False)
class Callee:
    """Function that is called for a name of the table.

    Only the table has these: a pickle cannot make one, so it calls nothing else. `value` is what
    the name stands for where it is not called, `users` marks what the user has allowed."""

    name: str
    make: Callable[..., Any]
    users: bool = False
    value: Any = None

    def __call__(self, *args: Any) -> Any:
        if not self.users:
            return self.make(*args)
        try:
            return self.make(*args)
        except Exception as error:
            raise UsersError(error) from error


class Machine:
    """Executes the instructions of one pickle.

    `find(name)` gives what a dotted name stands for, and `persistent(id)` what is stored outside of
    the pickle; each raises LoadError for what it does not know. `give_state(target,
    state)` says whether it could."""

    def __init__(
        self,
        find: Callable[[str], Any],
        persistent: Callable[[Any], Any],
        give_state: Callable[[Any, Any], bool],
        where: str,
    ) -> None:
        self.find = find
        self.persistent = persistent
        self.give_state = give_state
        self.where = where
        self.callees: dict[int, Callee] = {}  # id of what a name stands for -> what is called
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self, data: Any) -> Any:
        """The value that the pickle makes, of bytes or of a file at its beginning. LoadError names
        the byte of a fault."""
        position, name = 0, "PROTO"
        try:
            for code, argument, at in pickletools.genops(data):
                position, name = at or 0, code.name
                if name == "STOP":
                    break
                if name not in _INSTRUCTIONS:
                    raise LoadError(f"{name} is not an instruction of plain data", advice=ADVICE)
                _INSTRUCTIONS[name](self, argument)
            (value,) = self.stack
        except (LoadError, UsersError) as error:
            if isinstance(error, LoadError) and not error.args[1]:
                error.args = (error.args[0], f"{self.where} byte {position}", error.args[2])
            raise
        except (*DAMAGE, Warning) as error:  # `pickletools` warns of escapes, where warnings raise
            what = f"{type(error).__name__} at {name}: {error!s:.200}"
            raise LoadError(what, f"{self.where} byte {position}") from error
        return value

    # ---- the stack
    def push(self, value: Any) -> None:
        self.stack.append(value)

    def since_mark(self) -> list[Any]:
        """The values above the last mark, which are taken off."""
        start = self.marks.pop()
        values = self.stack[start:]
        del self.stack[start:]
        return values

    def taken(self, count: int) -> list[Any]:
        """The last `count` values, which are taken off."""
        values = self.stack[-count:]
        del self.stack[-count:]
        return values

    def mark(self, _: Any) -> None:
        self.marks.append(len(self.stack))

    def last(self, count: int) -> None:
        """The last `count` values become a tuple."""
        start = len(self.stack) - count
        if start < (self.marks[-1] if self.marks else 0):
            raise IndexError("the stack is too short")
        self.stack[start:] = [tuple(self.stack[start:])]

    # ---- what was made before
    def put(self, key: int | None) -> None:
        self.memo[len(self.memo) if key is None else key] = self.stack[-1]

    def get(self, key: int) -> None:
        self.push(self.memo[key])

    # ---- containers
    def extend(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) not in (list, deque):
            raise TypeError(f"appends to a {type(target).__name__}")
        target.extend(values)

    def store(self, pairs: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise TypeError(f"sets items of a {type(target).__name__}")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            target[hashable(key)] = value

    def add(self, _: Any) -> None:
        values = self.since_mark()
        target = self.stack[-1]
        if type(target) is not set:
            raise TypeError(f"adds members to a {type(target).__name__}")
        target.update(map(hashable, values))

    # ---- what could run code
    def global_(self, name: str) -> None:
        self.named(name.replace(" ", ".", 1))

    def stack_global(self, _: Any) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        self.named(f"{module}.{name}")

    def named(self, name: str) -> None:
        """Pushes what a name stands for; what is called for it is remembered beside the stack."""
        found = self.find(name)
        if type(found) is Callee and found.value is not None:
            self.callees[id(found.value)] = found
            found = found.value
        self.push(found)

    def callee(self, value: Any) -> Callee | None:
        return value if type(value) is Callee else self.callees.get(id(value))

    def call(self, _: Any) -> None:
        args, value = self.stack.pop(), self.stack.pop()
        callee = self.callee(value)
        if callee is None or type(args) is not tuple:
            raise LoadError(f"the file calls a {type(value).__name__}", advice=ADVICE)
        self.push(callee(*args))

    def build(self, _: Any) -> None:
        """Gives an object its state: one that `give_state` knows, or one of a class that the user
        has allowed."""
        state, target = self.stack.pop(), self.stack[-1]
        if self.give_state(target, state):
            return
        cls = type(target)
        allowed = self.callee(cls) or self.find(f"{cls.__module__}.{cls.__qualname__}")
        if type(allowed) is not Callee or not allowed.users or allowed.make is not cls:
            raise LoadError(f"the file sets a {type(target).__name__}'s state", advice=ADVICE)
        set_state = getattr(target, "__setstate__", None)
        try:
            if set_state is not None:
                set_state(state)
            else:
                vars(target).update(state)
        except Exception as error:
            raise UsersError(error) from error

    def outside(self, _: Any) -> None:
        self.push(self.persistent(self.stack.pop()))


def _constant(value: Any) -> Callable[[Machine, Any], None]:
    return lambda machine, _: machine.push(value)


def _tuple(count: int) -> Callable[[Machine, Any], None]:
    return lambda machine, _: machine.last(count)


def _new_object(machine: Machine, _: Any) -> None:
    """`cls.__new__(cls, *args)`; a class of the table is called."""
    args, callee = machine.stack[-1], machine.callee(machine.stack[-2])
    if callee is not None and callee.users and isinstance(callee.make, type):
        cls = callee.make
        machine.stack[-2:] = [Callee(callee.name, lambda *a: cls.__new__(cls, *a), True), args]
    machine.call(None)


_INSTRUCTIONS: dict[str, Callable[[Machine, Any], None]] = {
    "PROTO": lambda machine, _: None,
    "FRAME": lambda machine, _: None,
    "MARK": Machine.mark,
    "NONE": _constant(None),
    "NEWTRUE": _constant(True),
    "NEWFALSE": _constant(False),
    "EMPTY_TUPLE": _constant(()),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "EMPTY_SET": lambda machine, _: machine.push(set()),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.since_mark())),
    "TUPLE1": _tuple(1),
    "TUPLE2": _tuple(2),
    "TUPLE3": _tuple(3),
    "FROZENSET": lambda machine, _: machine.push(frozenset(map(hashable, machine.since_mark()))),
    "APPEND": lambda machine, _: machine.extend(machine.taken(1)),
    "APPENDS": lambda machine, _: machine.extend(machine.since_mark()),
    "SETITEM": lambda machine, _: machine.store(machine.taken(2)),
    "SETITEMS": lambda machine, _: machine.store(machine.since_mark()),
    "ADDITEMS": Machine.add,
    "BINPUT": Machine.put,
    "LONG_BINPUT": Machine.put,
    "MEMOIZE": Machine.put,
    "BINGET": Machine.get,
    "LONG_BINGET": Machine.get,
    "GLOBAL": Machine.global_,
    "STACK_GLOBAL": Machine.stack_global,
    "REDUCE": Machine.call,
    "NEWOBJ": _new_object,
    "BUILD": Machine.build,
    "BINPERSID": Machine.outside,
}  # fmt: skip
_INSTRUCTIONS |= dict.fromkeys(
    (
        "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "SHORT_BINUNICODE",
        "BINUNICODE", "BINUNICODE8", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8",
    ),
    Machine.push,
)  # fmt: skip
