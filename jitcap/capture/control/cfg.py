"""Capture: where the ways from an instruction lead, by the bytecode alone. code -> indices, names.

For a branch whose value is not known: `meeting(code, index)` is the instruction through which all
ways to a return go (EXIT: the return itself), `returns(code, index)` whether there is such a way at
all (a branch to a `raise` has none), `needed(code, index)` the locals that may be read from there.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import CodeType
from typing import Final

from eager.base.dataclass import dataclass
from jitcap.base.walks import reach
from jitcap.capture.bytecode import Instruction, decode

EXIT: Final = -1
STATEMENTS: Final = 3
_ENDS: Final = frozenset({"RAISE_VARARGS", "RERAISE"})
_STATEMENT: Final = frozenset({
    "STORE_FAST", "STORE_ATTR", "STORE_SUBSCR", "STORE_GLOBAL", "STORE_DEREF", "POP_TOP",
})  # fmt: skip
_MEMBERS: Final = frozenset({"LOAD_ATTR", "LOAD_FAST", "LOAD_CONST"})
_LOOKS: Final = frozenset({"locals", "vars", "dir", "eval", "exec", "_getframe"})


def immediate_postdominator(code: CodeType, index: int, loop: While | None = None) -> int:
    """The first instruction behind `index` that lies on every way from there to a return, or in one
    round of a loop to where that ends (EXIT)."""
    if loop and index not in loop.body:
        return EXIT
    return _meetings(code, loop).get(index, EXIT)  # each way ends in a `raise`


def behind(code: CodeType, index: int) -> Iterator[int]:
    """Indices where the next statements after the meeting of `index` end, in its loop and block."""
    decoded, meetings = decode(code), _meetings(code)
    around = [body for body in _loops(code).values() if index in body]
    inmost = min(around, key=len, default=frozenset(meetings))
    at, found = meetings[index], 0
    while found < STATEMENTS:
        ends = at != EXIT and decoded.instructions[at].op in _STATEMENT
        at = meetings[at]
        if at not in inmost or at == EXIT or decoded.handler_at(at) != decoded.handler_at(index):
            return
        if ends:
            found += 1
            yield at


def returns(code: CodeType, index: int) -> bool:
    """True if a path leads from `index` to a return. Handled exceptions are no path."""
    return index in _returning(code)


def live_in(code: CodeType, index: int) -> frozenset[str]:
    """The names of locals that may be read before they are set anew."""
    return _needed(code)[index]


@lru_cache(maxsize=1024)
def reads_frame(code: CodeType) -> bool:
    """True if a function may read its locals by other means than their names."""
    names, instructions = code.co_names, decode(code).instructions
    loads = any(i.op.startswith("LOAD_") and i.op not in _MEMBERS and i.arg == "stack"
                for i in instructions)  # fmt: skip
    return not _LOOKS.isdisjoint(names) or loads or ("stack" in names and "inspect" in names)


@dataclass(frozen=True, slots=True)
class While:
    """A loop that the bytecode goes round in, cut at the instruction `again`: a round begins there
    and ends there, or at one of `exits`. `head` names it; `body` are its instructions, `stored` the
    locals that they may set; `bounded`: whether there are several tests: some may be known. A `for`
    counts its steps in a local, `place`, that is no name of the program's, and goes on at `ended`
    behind the last one."""

    head: int
    again: int
    body: frozenset[int]
    exits: tuple[int, ...]
    stored: frozenset[str]
    bounded: bool
    place: str = ""
    ended: int = EXIT


@lru_cache(maxsize=1024)
def loop_at(code: CodeType, index: int) -> While | None:
    """The `while` that a test is in front of, or in, or the `for` that it may leave."""
    loops = _loops(code)
    around = [(len(body), head) for head, body in loops.items() if index in body]
    if around:
        head = min(around)[1]
    else:
        ahead = _ahead(code, index) & loops.keys()
        if not ahead:
            return None
        head = min(ahead)
    body, instructions = loops[head], decode(code).instructions
    steps = instructions[head].op == "FOR_ITER"
    stays = steps and index != head and immediate_postdominator(code, index) in body
    if stays or any(instructions[i].op in _LEAVING for i in body):
        return None
    leaving = [i for i in sorted(body) if any(j not in body for j in _next(instructions, i))]
    ends = [j for i in leaving for j in _next(instructions, i) if j not in body and j != EXIT]
    exits: list[int] = []
    for j in (_behind_jumps(instructions, j) for j in ends if returns(code, j)):
        if not any(_alike(instructions, j, other) for other in exits):
            exits.append(j)
    again = head
    # A test in the middle: cut behind it.
    if not steps and index in leaving and head not in _ahead(code, index):
        inner = next(j for j in _next(instructions, index) if j in body)
        again = head if _returns_to(instructions, body, head, inner) else inner
    if not around and not _tests(code, index, loops[head], exits):
        return None
    tested = [i for i in leaving if instructions[i].op in _TESTS]
    stored = {instructions[i].arg for i in body if instructions[i].op in _STORES}
    if steps:
        place, ended = f".{head}", _behind_jumps(instructions, instructions[head].target)
        stored = {*stored, place}
        return While(head, head + 1, body, tuple(exits), frozenset(stored), True, place, ended)
    return While(head, again, body, tuple(exits), frozenset(stored), len(tested) > 1)


def in_loop(code: CodeType, index: int) -> bool:
    return any(index in body for body in _loops(code).values())


def exit_of(code: CodeType, loop: While, index: int) -> int:
    """The number of the exit at an instruction; -1 if there is none."""
    instructions = decode(code).instructions
    if index in loop.body or index < 0:
        return -1
    index = _behind_jumps(instructions, index)
    found = (k for k, j in enumerate(loop.exits) if _alike(instructions, index, j))
    return next(found, -1)


def common_postdominator(code: CodeType, a: int, b: int) -> int:
    """The first instruction through which all ways from both `a` and `b` to a return go."""
    chain, meetings = {a}, _meetings(code)
    while a != EXIT:
        chain.add(a := meetings[a])
    while b not in chain:
        b = meetings[b]
    return b


@lru_cache(maxsize=1024)
def _loops(code: CodeType) -> dict[int, frozenset[int]]:
    """The instructions of each loop, by the one that it begins with."""
    instructions = decode(code).instructions
    before = _before({i: _next(instructions, i) for i in range(len(instructions))})
    found: dict[int, set[int]] = {}
    for i, ins in enumerate(instructions):
        if 0 <= (head := ins.target) <= i:
            above = reach([i], lambda j: () if j == head else before.get(j, ()))
            found.setdefault(head, {head}).update(above)
    # Newer Pythons write handlers at the end and jump back behind their block: that is no loop.
    return {
        head: frozenset(body)
        for head, body in found.items()
        if not body.isdisjoint(_next(instructions, head))
    }


def _returns_to(
    instructions: tuple[Instruction, ...], body: frozenset[int], head: int, without: int
) -> bool:
    """True if a path leads from `head` back to it inside a loop, not through `without`."""

    def inside(i: int) -> list[int]:
        return [j for j in _next(instructions, i) if j in body and j not in (head, without)]

    return without != head and any(head in _next(instructions, i) for i in reach([head], inside))


def _ahead(code: CodeType, index: int) -> set[int]:
    """Instructions that a test reaches through expressions and tests alone."""
    instructions = decode(code).instructions
    heads = _loops(code).keys()

    def ahead(i: int) -> tuple[int, ...]:
        return _next(instructions, i) if i not in heads and _is_pure(instructions, i) else ()

    return {*reach(_next(instructions, index), ahead)} - {EXIT}


def _tests(code: CodeType, index: int, body: frozenset[int], exits: list[int]) -> bool:
    """True if an instruction in front of a loop belongs to its test: others there may form a branch
    with statements of its own, on the path to the loop."""
    instructions = decode(code).instructions

    def is_end(i: int) -> bool:
        if i in body:
            return True
        return i != EXIT and any(
            _alike(instructions, _behind_jumps(instructions, i), j) for j in exits
        )

    def goes_on(i: int) -> bool:
        return _is_pure(instructions, i) and not is_end(i)

    found = reach(
        _next(instructions, index), lambda i: _next(instructions, i) if goes_on(i) else ()
    )
    return all(is_end(i) or _is_pure(instructions, i) for i in found)


def _is_pure(instructions: tuple[Instruction, ...], i: int) -> bool:
    """True if an instruction is one of a test: it changes nothing but the stack."""
    return i != EXIT and (instructions[i].op in _TESTS or instructions[i].op.startswith(_PURE))


def _alike(instructions: tuple[Instruction, ...], a: int, b: int) -> bool:
    """True if two instructions are one, or begin the same straight-line code up to one instruction
    or a return: newer Pythons write what returns where it is reached."""
    while a != b:
        one, two = instructions[a], instructions[b]
        if (one.op, one.arg) != (two.op, two.arg) or one.target >= 0 or two.target >= 0:
            return False
        if one.op.startswith("RETURN"):
            return True
        a, b = (_behind_jumps(instructions, i + 1) for i in (a, b))
    return True


_LOCAL: Final = ("_FAST", "DEREF", "CLOSURE", "MAKE_CELL")
_LEAVING: Final = frozenset({"YIELD_VALUE", "SEND", "MAKE_CELL"})
_STORES: Final = ("STORE_FAST", "DELETE_FAST")
_TESTS: Final = ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE")
_PURE: Final = ("LOAD_", "COMPARE", "CONTAINS", "IS_OP", "BINARY", "UNARY", "TO_BOOL", "CALL",
                "PUSH_NULL", "KW_NAMES", "COPY", "SWAP", "BUILD_TUPLE", "JUMP", "NOP", "PRECALL",
                "CACHE", "RESUME")  # fmt: skip


def _behind_jumps(instructions: tuple[Instruction, ...], index: int) -> int:
    for _ in instructions:
        if instructions[index].op != "JUMP":
            break
        index = instructions[index].target
    return index


def _next(instructions: tuple[Instruction, ...], index: int) -> tuple[int, ...]:
    ins = instructions[index]
    if ins.op == "RETURN_VALUE":
        return (EXIT,)
    if ins.op in _ENDS:
        return ()
    if ins.op == "JUMP":
        return (ins.target,)
    rest = (index + 1,) if index + 1 < len(instructions) else ()
    return (*rest, ins.target) if ins.target >= 0 else rest


def _before(ways: Mapping[int, Iterable[int]]) -> dict[int, list[int]]:
    """Predecessors of each instruction."""
    before: dict[int, list[int]] = {}
    for i, targets in ways.items():
        for j in targets:
            before.setdefault(j, []).append(i)
    return before


@lru_cache(maxsize=1024)
def _returning(code: CodeType) -> frozenset[int]:
    instructions = decode(code).instructions
    before = _before({i: _next(instructions, i) for i in range(len(instructions))})
    return frozenset(reach([EXIT], lambda i: before.get(i, ())))


@lru_cache(maxsize=1024)
def _meetings(code: CodeType, loop: While | None = None) -> dict[int, int]:
    """Immediate post-dominator of each instruction, among those that return; of a loop, as if the
    program ended with a round. Sets of instructions are bits."""
    instructions, live = decode(code).instructions, _returning(code)
    ways = {i: [j for j in _next(instructions, i) if j in live] for i in live if i != EXIT}
    if loop is not None:
        stays = loop.body - {loop.again}
        ways = {i: [j if j in stays else EXIT for j in ways[i]] for i in loop.body & ways.keys()}
    bit = {i: 1 << k for k, i in enumerate((EXIT, *ways))}
    behind = dict.fromkeys(bit, (1 << len(bit)) - 1) | {EXIT: 1}  # what all ways from it go through
    changed = True
    while changed:
        changed = False
        for i in sorted(ways, reverse=True):
            common = bit[i] | functools.reduce(operator.and_, [behind[j] for j in ways[i]])
            changed = changed or common != behind[i]
            behind[i] = common
    first = {common: i for i, common in behind.items()}
    return {EXIT: EXIT} | {i: first[behind[i] - bit[i]] for i in ways}


@lru_cache(maxsize=1024)
def _needed(code: CodeType) -> list[frozenset[str]]:
    decoded = decode(code)
    instructions = decoded.instructions
    names = [*code.co_varnames, *code.co_cellvars, *code.co_freevars]
    bit = {name: 1 << i for i, name in enumerate(dict.fromkeys(names))}
    sets = [0] * (len(instructions) + 1)
    ways = []
    for i in range(len(instructions)):
        handler = decoded.handler_at(i)
        following = [j for j in _next(instructions, i) if j != EXIT]
        ways.append(following if handler is None else [*following, handler.target])
    changed = True
    while changed:
        changed = False
        for i in reversed(range(len(instructions))):
            ins, live = instructions[i], 0
            for j in ways[i]:
                live |= sets[j]
            own = bit[ins.arg] if any(kind in ins.op for kind in _LOCAL) else 0
            live = live & ~own if ins.op == "STORE_FAST" else live | own
            changed = changed or live != sets[i]
            sets[i] = live
    return [frozenset(name for name, b in bit.items() if live & b) for live in sets]
