"""Capture: a loop over plain numbers and texts runs at once. frame at the loop -> frame behind it.

What touches nothing but locals that are known numbers and texts, constants, and builtins that only
compute, leaves nothing in the graph, and a hundred thousand rounds of it take seconds to interpret.
When a loop has gone round some times, the instructions from its head to its last jump back are
written as a function of Python over the locals and the places of the stack, which runs up to where
it leaves the loop, or comes to an instruction of another kind. An exception, or another kind of
value in the end, discards the run, and the loop is interpreted from where it was.
"""

from __future__ import annotations

import builtins
import collections
import operator
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple

from jitcap.capture.bytecode import Bytecode, Instruction
from jitcap.capture.interpret import NULL, Frame

TURNS: Final = 64  # of a loop, before it is tried, and between the trials
NEVER: Final = -(10**9)
_PLAIN: Final = frozenset({int, float, complex, bool, str, bytes, type(None)})
_CALLED: Final = {
    name: getattr(builtins, name)
    for name in "abs bool chr divmod float int len max min ord pow range round".split()
}
_COUNTING: Final = type(iter(range(0)))
_PUT: Final[dict[str, tuple[int, int, str]]] = {  # operation -> what it takes, leaves, and does
    "LOAD_CONST": (0, 1, "s{0} = c{at}"),
    "LOAD_FAST": (0, 1, "s{0} = {local}"),
    "STORE_FAST": (1, 0, "{local} = s{0}"),
    "PUSH_NULL": (0, 1, "s{0} = NULL"),
    "LOAD_GLOBAL": (0, 1, "s{0} = {symbol}"),
    "POP_TOP": (1, 0, "pass"),
    "BINARY_OP": (2, 1, "s{0} = s{0} {symbol} s{1}"),
    "COMPARE_OP": (2, 1, "s{0} = s{0} {symbol} s{1}"),
    "UNARY_NEGATIVE": (1, 1, "s{0} = -s{0}"),
    "UNARY_NOT": (1, 1, "s{0} = not s{0}"),
    "TO_BOOL": (1, 1, "s{0} = not not s{0}"),
    "GET_ITER": (1, 1, "s{0} = iter(s{0})"),
}
_TESTS: Final = {
    "POP_JUMP_IF_TRUE": "s{0}", "POP_JUMP_IF_FALSE": "not s{0}",
    "POP_JUMP_IF_NONE": "s{0} is None", "POP_JUMP_IF_NOT_NONE": "s{0} is not None",
}  # fmt: skip


class Loop(NamedTuple):
    """`run(locals by name, iterator)` gives where it ends, how deep the stack is there, and its own
    locals: `u0` ... are `names`; `s0` ... the stack, from the loop's iterator on if it has one."""

    run: Callable[[dict[str, Any], Any], tuple[int, int, dict[str, Any]]]
    names: tuple[str, ...]
    called: tuple[str, ...]
    counts: bool  # through a range


def turn(s: Any, frame: Frame) -> None:
    """A loop goes round again; the frame stands behind it if it could be run from here."""
    at = frame.bytecode, frame.pc
    s.turns[at] = count = s.turns.get(at, 0) + 1
    stops = frame.limit is not None or s.vm.step_over is not None  # at some instruction of it
    stops = stops or s.tracer.inside is not None or s.rolls or s.ties.open or s.ties.regions
    if count % TURNS or stops:
        return
    loop = _loop(*at)
    if loop is None:
        s.turns[at] = NEVER
        return
    bound = {n: v for n in loop.names if (v := frame.fast.get(n, NULL)) is not NULL}
    given: Any = frame.stack[-1] if loop.counts else None
    if not _are_plain(bound.values()) or (loop.counts and type(given) is not _COUNTING):
        return
    if not all(_is_builtin(s, frame, name) for name in loop.called):
        return
    again = copy(given)
    try:
        pc, depth, found = loop.run(bound, again)
    except Exception:  # noqa: BLE001 - raised again where it is interpreted
        s.turns[at] = NEVER
        return
    left = [found[f"s{i}"] for i in range(depth)]
    now = {name: found[f"u{i}"] for i, name in enumerate(loop.names) if f"u{i}" in found}
    if not _are_plain(now.values()) or not _are_plain(x for x in left if x is not again):
        s.turns[at] = NEVER
        return
    if loop.counts:
        taken = operator.length_hint(given) - operator.length_hint(again)
        collections.deque(islice(given, taken), maxlen=0)
        frame.stack.pop()
    frame.stack += [given if x is again and loop.counts else x for x in left]
    frame.fast.update(now)
    frame.pc = pc


def _are_plain(values: Iterable[Any]) -> bool:
    return all(type(v) in _PLAIN for v in values)


def _is_builtin(s: Any, frame: Frame, name: str) -> bool:
    """True if a name means Python's builtin function; this is guarded."""
    space = frame.globals if name in frame.globals else frame.builtins
    return space.get(name) is _CALLED[name] and s.load_global(frame, name) is _CALLED[name]


@lru_cache(maxsize=256)
def _loop(bytecode: Bytecode, head: int) -> Loop | None:
    """The loop that begins there, as a function: blocks of statements, by the first instruction.
    None where that one is of another kind, as in a `yield from`."""
    code = bytecode.instructions
    end = 1 + max(i for i, ins in enumerate(code) if ins.target == head)
    counts = code[head].op == "FOR_ITER"
    names: dict[str, int] = {}
    scope: dict[str, Any] = {"NULL": NULL, **_CALLED}
    blocks: dict[int, list[str]] = {}
    depths = {head: int(counts)}
    waiting = [head]
    while waiting:
        at = waiting.pop()
        inside = at not in blocks and head <= at < end and _taken(code[at]) <= depths[at]
        found = _spelled(code, at, depths[at], names, scope) if inside else None
        if found is None:
            continue
        blocks[at], ways = found
        for to, depth in ways:
            assert depths.setdefault(to, depth) == depth
            waiting.append(to)
    if head not in blocks:
        return None
    called = {code[at].arg for at in blocks if code[at].op == "LOAD_GLOBAL"}
    scope["leave"] = {to: depth for to, depth in depths.items() if to not in blocks}
    lines = ["def run(fast, s0):", f" pc = {head}"]
    lines += [f" if {name!r} in fast: u{i} = fast[{name!r}]" for name, i in names.items()]
    lines += [" while pc not in leave:"]
    for at in sorted(blocks):
        lines += [f"  if pc == {at}:", *(f"   {line}" for line in blocks[at])]
    exec("\n".join([*lines, " return pc, leave[pc], locals()"]), scope)
    return Loop(scope["run"], tuple(names), tuple(called), counts)


Ways = list[tuple[int, int]]  # (where it goes on, depth of the stack)


def _taken(ins: Instruction) -> int:
    """Number of stack entries that an instruction reaches."""
    if ins.op in ("SWAP", "COPY", "CALL"):
        return int(ins.arg) + 2 * (ins.op == "CALL")
    return _PUT[ins.op][0] if ins.op in _PUT else int(ins.op in ("FOR_ITER", *_TESTS))


def _spelled(
    code: Sequence[Instruction], at: int, depth: int, names: dict[str, int], scope: dict[str, Any]
) -> tuple[list[str], Ways] | None:
    """An instruction as statements; None for one that is left to the interpreter."""
    ins, top = code[at], depth - 1
    go, jump = f"pc = {at + 1}", f"pc = {ins.target}"
    if ins.op == "JUMP":
        return [jump], [(ins.target, depth)]
    if ins.op == "FOR_ITER":
        step = f"s{depth} = next(s{top}, NULL)"
        ways = [(at + 1, depth + 1), (ins.target, top)]
        return [step, f"if s{depth} is NULL: {jump}", f"else: {go}"], ways
    if ins.op in _TESTS:
        test = _TESTS[ins.op].format(top)
        return [f"if {test}: {jump}", f"else: {go}"], [(at + 1, top), (ins.target, top)]
    if ins.op in ("SWAP", "COPY"):
        other, new = depth - ins.arg, ins.op == "COPY"
        text = f"s{depth} = s{other}" if new else f"s{top}, s{other} = s{other}, s{top}"
        return [text, go], [(at + 1, depth + new)]
    if ins.op == "CALL" and not ins.kwnames:
        first = depth - ins.arg - 2
        given = ", ".join(f"s{i}" for i in range(first + 2, depth))
        fn = f"(s{first + 1} if s{first} is NULL else s{first})"
        return [f"s{first} = {fn}({given})", go], [(at + 1, first + 1)]
    if ins.op not in _PUT or (ins.op == "LOAD_GLOBAL" and ins.arg not in _CALLED):
        return None
    taken, made, text = _PUT[ins.op]
    if ins.op == "LOAD_CONST":
        if type(ins.arg) not in _PLAIN:
            return None
        scope[f"c{at}"] = ins.arg
    local = f"u{names.setdefault(ins.arg, len(names))}" if "FAST" in ins.op else ""
    bottom = depth - taken
    symbol = f"{ins.arg}".removesuffix("=") if ins.op == "BINARY_OP" else ins.arg
    put = text.format(bottom, bottom + 1, at=at, local=local, symbol=symbol)
    return [put, go], [(at + 1, bottom + made)]
