"""Capture: where the ways from an instruction lead, by the bytecode alone. code -> indices, names.

For a branch whose value is not known: `meeting(code, index)` is the instruction through which all
ways to a return go (EXIT: the return itself), `returns(code, index)` whether there is such a way at
all (a branch to a `raise` has none), `needed(code, index)` the locals that may be read from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Final

from jitcap.capture.bytecode import Instruction, decode

EXIT: Final = -1
_ENDS: Final = frozenset({"RAISE_VARARGS", "RERAISE"})
_MEMBERS: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD", "LOAD_FAST", "LOAD_CONST"})
_LOOKS: Final = frozenset({"locals", "vars", "dir", "eval", "exec", "_getframe"})


def meeting(code: CodeType, index: int) -> int:
    """The first instruction behind `index` that lies on every way from there to a return."""
    return _meetings(code)[index]


def returns(code: CodeType, index: int) -> bool:
    """Whether a way leads from `index` to a return. Exceptions that are handled are no way."""
    return index in _returning(code)


def needed(code: CodeType, index: int) -> frozenset[str]:
    """The names of locals that may be read before they are set anew."""
    return _needed(code)[index]


@lru_cache(maxsize=1024)
def looks(code: CodeType) -> bool:
    """Whether a function may look at its locals by other ways than their names."""
    names, instructions = code.co_names, decode(code).instructions
    loads = any(i.op.startswith("LOAD_") and i.op not in _MEMBERS and i.arg == "stack"
                for i in instructions)  # fmt: skip
    return not _LOOKS.isdisjoint(names) or loads or ("stack" in names and "inspect" in names)


Test = tuple[int, bool]  # an instruction that jumps, and the truth with which the loop goes on


@dataclass(frozen=True, slots=True)
class Repeated:
    """A loop: its condition is the conjunction of `tests`, the first of which is `index`; it goes
    on at `again` and ends at `exit`. A round ends at the first of the tests `round`."""

    tests: tuple[Test, ...]
    again: int
    exit: int
    round: tuple[Test, ...]
    stored: frozenset[str]  # the locals that a round may set
    bounded: bool  # whether other tests end it, too


@lru_cache(maxsize=1024)
def repeated(code: CodeType, index: int) -> Repeated | None:
    """The loop whose condition the instruction at `index` begins to decide."""
    instructions = decode(code).instructions
    ends = {}  # where a loop begins -> the last jump back there
    for i, ins in enumerate(instructions):
        if 0 <= ins.target <= i and not ins.op.startswith("FOR"):
            ends[ins.target] = i
    for tests, again, leave in _conditions(instructions, index):
        rounds = [tests]
        low, high = again, ends.get(again, -1)
        if high < 0 or index > high:  # of `while True`, which is left in the middle
            around = [(first, last) for first, last in ends.items()
                      if first <= index <= last and first <= again <= last]  # fmt: skip
            low, high = max(around, default=(0, -1))
            if instructions[low].op == "FOR_ITER":  # it goes through something
                continue
        elif index < again:  # CPython writes the condition of a `while` twice
            rounds = [
                other for j in range(again, high + 1)
                for other, start, end in _conditions(instructions, j)
                if (start, end) == (again, leave)
            ]  # fmt: skip
        if not rounds or low > high:
            continue
        inside = instructions[low : high + 1]
        if low <= leave <= high:  # newer Pythons write what returns where it is reached
            after = _behind_exit(instructions, leave, high)
            if not after:
                continue
            inside = instructions[low:leave] + instructions[after : high + 1]
        stored = {i.arg for i in inside if i.op in ("STORE_FAST", "DELETE_FAST")}
        if not any(i.op in _LEAVING for i in inside):
            tested = [i for i in range(low, high + 1) if instructions[i].op in _TESTS]
            ends_it = sum(leave in _ways(instructions, i)[0] for i in tested)
            bounded = ends_it > len(tests)
            return Repeated(tests, again, leave, rounds[0], frozenset(stored), bounded)
    return None


def _behind_exit(instructions: tuple[Instruction, ...], first: int, last: int) -> int:
    """Behind the straight code from `first` on that returns before `last`; 0 if none does."""
    for i in range(first, last):
        if instructions[i].op.startswith("RETURN"):
            return i + 1
        if instructions[i].target >= 0 or any(ins.target == i + 1 for ins in instructions):
            break
    return 0


_LEAVING: Final = frozenset({
    "YIELD_VALUE", "SEND", "RETURN_VALUE", "STORE_DEREF", "DELETE_DEREF", "MAKE_CELL",
    "LOAD_CLOSURE",
})  # fmt: skip
_TESTS: Final = {"POP_JUMP_IF_TRUE": True, "POP_JUMP_IF_FALSE": False}
_PURE: Final = ("LOAD_", "COMPARE", "CONTAINS", "IS_OP", "BINARY", "UNARY", "TO_BOOL", "CALL",
                "PUSH_NULL", "KW_NAMES", "COPY", "SWAP", "BUILD_TUPLE")  # fmt: skip


def _conditions(
    instructions: tuple[Instruction, ...], index: int
) -> Iterator[tuple[tuple[Test, ...], int, int]]:
    """Conjunctions that begin with the test at `index`: the tests, where to go on if all hold, and
    where else."""
    if instructions[index].op not in _TESTS:
        return
    for way in _ways(instructions, index):
        tests, (holds, again, leave) = [(index, way[0])], way
        while True:
            following = _next_test(instructions, again)
            found = [] if following < 0 else _ways(instructions, following)
            more = [w for w in found if w[2] == leave and w[1] != leave]
            if not more:
                break
            holds, again, _ = more[0]
            tests.append((following, holds))
        yield tuple(tests), again, leave


def _ways(instructions: tuple[Instruction, ...], index: int) -> list[tuple[bool, int, int]]:
    """For each truth of a test: where that leads, and where the other does."""
    ins = instructions[index]
    jump, fall = (_behind_jumps(instructions, i) for i in (ins.target, index + 1))
    jumps = _TESTS[ins.op]
    return [(jumps, jump, fall), (not jumps, fall, jump)]


def _behind_jumps(instructions: tuple[Instruction, ...], index: int) -> int:
    for _ in instructions:
        if instructions[index].op != "JUMP":
            break
        index = instructions[index].target
    return index


def _next_test(instructions: tuple[Instruction, ...], index: int) -> int:
    """The test that an expression from `index` on ends in; -1 where something is done before."""
    for i in range(index, len(instructions)):
        if instructions[i].op in _TESTS:
            return i
        if not instructions[i].op.startswith(_PURE):
            break
    return -1


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


@lru_cache(maxsize=1024)
def _returning(code: CodeType) -> frozenset[int]:
    instructions = decode(code).instructions
    before: dict[int, list[int]] = {}
    for i in range(len(instructions)):
        for j in _next(instructions, i):
            before.setdefault(j, []).append(i)
    found: set[int] = set()
    stack = [EXIT]
    while stack:
        i = stack.pop()
        if i not in found:
            found.add(i)
            stack += before.get(i, ())
    return frozenset(found)


@lru_cache(maxsize=1024)
def _meetings(code: CodeType) -> dict[int, int]:
    """For each instruction its immediate post-dominator, among those that return (the algorithm of
    Cooper, Harvey and Kennedy, on the reversed graph)."""
    instructions, live = decode(code).instructions, _returning(code)
    ways = {i: [j for j in _next(instructions, i) if j in live] for i in live if i != EXIT}
    before: dict[int, list[int]] = {}
    for i, targets in ways.items():
        for j in targets:
            before.setdefault(j, []).append(i)
    order: list[int] = []  # what all ways lead to last
    seen = {EXIT}
    stack = [(EXIT, iter(before.get(EXIT, ())))]
    while stack:
        i, rest = stack[-1]
        following = next((j for j in rest if j not in seen), None)
        if following is None:
            order.append(i)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(before.get(following, ()))))
    rank = {i: k for k, i in enumerate(order)}
    found = {EXIT: EXIT}
    changed = True
    while changed:
        changed = False
        for i in reversed(order[:-1]):
            known = [j for j in ways[i] if j in found]
            new = known[0]
            for other in known[1:]:
                new = _common(found, rank, new, other)
            changed = changed or found.get(i) != new
            found[i] = new
    return found


def _common(found: dict[int, int], rank: dict[int, int], a: int, b: int) -> int:
    while a != b:
        while rank[a] < rank[b]:
            a = found[a]
        while rank[b] < rank[a]:
            b = found[b]
    return a


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
            own = bit.get(ins.arg, 0) if type(ins.arg) is str else 0
            live = live & ~own if ins.op == "STORE_FAST" else live | own
            changed = changed or live != sets[i]
            sets[i] = live
    return [frozenset(name for name, b in bit.items() if live & b) for live in sets]
