"""Capture, step 1: a code object -> one instruction stream for CPython 3.11, 3.12 and 3.13.

Everything that differs between these versions is settled here. Caches, `EXTENDED_ARG` and no-ops
leave; superinstructions are split; jumps name the index of their target; keyword names sit on the
call they belong to; the exception table is in terms of indices. `opcodes` see only the result.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import CodeType
from typing import Any, Final

from eager.base.dataclass import dataclass

VERSION: Final = sys.version_info[:2]
SUPPORTED: Final = ((3, 11), (3, 12), (3, 13))

# Operations that only the normalised stream has; every other name is CPython's.
INVENTED: Final = frozenset({"JUMP", "CALL_KW", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE"}) | {
    "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE", "LIST_TO_TUPLE", "STOPITERATION_ERROR",
    "UNARY_POSITIVE", "FORMAT_VALUE", "CONVERT_VALUE", "LOAD_SUPER_ATTR", "PREP_RERAISE_STAR",
    "LOAD_LOCALS", "LOAD_FROM_DICT_OR_DEREF", "LOAD_FROM_DICT_OR_GLOBALS",
}  # fmt: skip

_DROPPED: Final = frozenset(
    {"CACHE", "EXTENDED_ARG", "RESUME", "NOP", "PRECALL", "COPY_FREE_VARS", "RETURN_GENERATOR"}
)
_RENAMED: Final = {
    "JUMP_FORWARD": "JUMP",
    "JUMP_BACKWARD": "JUMP",
    "JUMP_BACKWARD_NO_INTERRUPT": "JUMP",
    "LOAD_FAST_CHECK": "LOAD_FAST",
    "INSTRUMENTED_RESUME": "NOP",
}
_BY_NAMESPACE: Final = {  # what 3.12 says in two operations
    "LOAD_NAME": "LOAD_FROM_DICT_OR_GLOBALS",
    "LOAD_CLASSDEREF": "LOAD_FROM_DICT_OR_DEREF",
}
_INTRINSICS: Final = {3: "STOPITERATION_ERROR", 5: "UNARY_POSITIVE", 6: "LIST_TO_TUPLE"}
BINARY_OPS: Final = tuple(name for _, name in dis._nb_ops)  # type: ignore[attr-defined]


@dataclass(slots=True, eq=False)
class Instruction:
    """One normalised operation. `arg` is what it works with (a name, a constant, a count)."""

    op: str
    arg: Any
    target: int  # index of the jump target, or -1
    offset: int  # of the original instruction, in bytes
    line: int
    columns: tuple[int, int, int, int]  # line, end line, column, end column (0 when unknown)
    kwnames: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Handler:
    """One row of the exception table, in instruction indices: [start, end) goes to `target`."""

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


@dataclass(frozen=True, slots=True, eq=False)
class Bytecode:
    """The normalised form of `code`."""

    code: CodeType
    instructions: tuple[Instruction, ...]
    handlers: tuple[Handler, ...]

    def handler_at(self, index: int) -> Handler | None:
        """The innermost handler that covers the instruction at `index`."""
        for h in self.handlers:
            if h.start <= index < h.end:
                return h
        return None


def is_known() -> bool:
    """True if the bytecode of this CPython is read; else calls are traced by dispatch."""
    return VERSION in SUPPORTED


class UnsupportedPython(Exception):
    """This CPython version is not in `SUPPORTED`."""


@lru_cache(maxsize=4096)
def decode(code: CodeType) -> Bytecode:
    """The normalised instructions of `code`. Raises UnsupportedPython on another CPython."""
    if not is_known():
        raise UnsupportedPython(f"bytecode of Python {VERSION[0]}.{VERSION[1]} is not supported")
    out: list[Instruction] = []
    at: dict[int, int] = {}  # offset of an original instruction -> index of the next kept one
    kwnames: tuple[str, ...] = ()
    for raw in dis.get_instructions(code):
        at[raw.offset] = len(out)
        if raw.opname == "KW_NAMES":
            kwnames = code.co_consts[raw.arg or 0]
        elif raw.opname not in _DROPPED:
            for new in _normalise(raw):
                if new.op == "CALL":
                    new.kwnames, kwnames = kwnames, ()
                out.append(new)
    _resolve(out, at)
    _part_hidden(code, out)
    handlers = tuple(_handlers(code, at, len(out)))
    return Bytecode(code, tuple(out), handlers)


def _normalise(raw: dis.Instruction) -> Iterator[Instruction]:
    """One original instruction as its normalised ones; jump targets are still byte offsets."""
    where = _columns(raw)
    op, target = raw.opname, -1
    if raw.opcode in dis.hasjrel or raw.opcode in dis.hasjabs:
        target = int(raw.argval)
    for name, arg in _split(op, raw):
        yield Instruction(name, arg, target, raw.offset, where[0], where)


def _columns(raw: dis.Instruction) -> tuple[int, int, int, int]:
    p = raw.positions
    if p is None:
        return (0, 0, 0, 0)
    return (p.lineno or 0, p.end_lineno or 0, p.col_offset or 0, p.end_col_offset or 0)


def _split(op: str, raw: dis.Instruction) -> Iterator[tuple[str, Any]]:
    """(normalised name, argument) for each operation that one instruction stands for."""
    arg, value = raw.arg or 0, raw.argval
    if op in ("LOAD_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST", "STORE_FAST_LOAD_FAST"):
        yield from zip(op.replace("FAST_", "FAST ").split(), value, strict=True)
    elif op == "RETURN_CONST":
        yield "LOAD_CONST", value
        yield "RETURN_VALUE", None
    elif op == "LOAD_GLOBAL":
        if arg & 1:
            yield "PUSH_NULL", None
        yield op, value
    elif op == "LOAD_ATTR":
        yield op, value
        if VERSION >= (3, 12) and arg & 1:
            yield "PUSH_NULL", None
    elif op == "LOAD_METHOD":  # a bound one, above which a call takes NULL as well as below
        yield "LOAD_ATTR", value
        yield "PUSH_NULL", None
    elif op == "LOAD_SUPER_ATTR":
        yield op, value
        if arg & 1:
            yield "PUSH_NULL", None
    elif op in _BY_NAMESPACE:
        yield "LOAD_LOCALS", None
        yield _BY_NAMESPACE[op], value
    elif op == "CALL_INTRINSIC_1" and arg in _INTRINSICS:
        yield _INTRINSICS[arg], None
    elif op == "CALL_INTRINSIC_2" and arg == 1:
        yield "PREP_RERAISE_STAR", None
    elif op == "COMPARE_OP":
        yield op, value.removeprefix("bool(").removesuffix(")")
    elif op == "BINARY_OP":
        yield op, BINARY_OPS[arg]
    elif op in _FORMATS:
        yield _FORMATS[op](arg)
    else:
        name = op.replace("_FORWARD_", "_").replace("_BACKWARD_", "_")
        yield (name if name.startswith("POP_JUMP") else _RENAMED.get(op, op)), value


_FORMATS: Final[dict[str, Callable[[int], tuple[str, Any]]]] = {
    "FORMAT_VALUE": lambda arg: ("FORMAT_VALUE", (arg & 3, bool(arg & 4))),
    "FORMAT_SIMPLE": lambda arg: ("FORMAT_VALUE", (0, False)),
    "FORMAT_WITH_SPEC": lambda arg: ("FORMAT_VALUE", (0, True)),
    "CONVERT_VALUE": lambda arg: ("CONVERT_VALUE", arg),
}


def _part_hidden(code: CodeType, out: list[Instruction]) -> None:
    """From 3.12 on, a comprehension in a class body saves a local of each name that it uses, also
    of what it reads from the function around the class: that local gets a name of its own."""
    hidden = {*code.co_varnames} & {*code.co_freevars}
    for ins in out if hidden else ():
        if "_FAST" in ins.op and ins.arg in hidden:
            ins.arg = f".{ins.arg}"


def _resolve(out: list[Instruction], at: dict[int, int]) -> None:
    """Turn targets from offsets into indices. An exhausted FOR_ITER has popped its iterator."""
    for ins in out:
        if ins.target >= 0:
            ins.target = at[ins.target]
            if ins.op == "FOR_ITER" and VERSION >= (3, 12):
                ins.target += 1 if VERSION < (3, 13) else 2  # END_FOR, and in 3.13 POP_TOP


def _handlers(code: CodeType, at: dict[int, int], count: int) -> Iterator[Handler]:
    """The rows of `co_exceptiontable`."""

    def index(offset: int) -> int:
        while offset not in at:
            offset += 2
            if offset > len(code.co_code):
                return count
        return at[offset]

    for row in dis._parse_exception_table(code):  # type: ignore[attr-defined]
        yield Handler(index(row.start), index(row.end), index(row.target), row.depth, row.lasti)
