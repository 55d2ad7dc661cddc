"""After emit, for a program in a device's memory: nothing is written once a check has failed.
TritonProgram -> TritonProgram.

The host hears of a check that failed long after. So one launch behind the last check joins the
slots to one word, and the kernels that write inputs look at it first: the memory that outlives a
run stays what it was, in that run and in all that follow until the host has seen it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from codegen.ir.schema import Check, Unsupported, homes
from codegen.ir.sizes import round_up
from codegen.targets.triton.program import HEADER
from codegen.targets.triton.runtime.program import TABLES, Compiled, Launch, TritonProgram

STATE: Final = "state"  # the argument: whether a check failed, how many runs were whole
SLOTS: Final = "slots"  # the argument: what all checks of the program set
WORDS: Final = 4  # 16 bytes: where kernels want what they are given to begin
JOIN: Final = "join_checks"
_JOIN: Final = f"""@triton.jit
def {JOIN}(state, slots):
    i = tl.arange(0, {{width}})
    failed = tl.max(tl.load(slots + i, mask=i < {{count}}, other=0))
    tl.store(state, failed)
    tl.store(state + 1, tl.load(state + 1) + 1 - failed)
"""


def guard(program: TritonProgram, checks: Iterable[Check]) -> TritonProgram:
    """The program with the launch that joins the checks, and writers that heed it. Raises
    Unsupported where an input is written before the last check. `checks`: those that the program
    was made with."""
    checking = _checking(program, {f"v{check.value.id}" for check in checks})
    if not checking:
        return program
    inputs = {b.name for b in program.buffers.values() if b.kind == "input"}
    kernels = dict(program.kernels)
    launches: list[Launch] = []
    for i, launch in enumerate(program.launches):
        if not homes(launch.writes, program.buffers).isdisjoint(inputs):
            if i <= checking[-1]:
                raise Unsupported(f"kernel {launch.kernel} writes an input before the last check")
            tables = 0 if launch.tables is None else len(TABLES)
            guarded = _guarded(kernels[launch.kernel], tables)
            kernels[guarded.name] = guarded
            arguments = (STATE, *launch.arguments)
            launch = replace(launch, kernel=guarded.name, arguments=arguments)
        launches.append(launch)
        if i == checking[-1]:
            join = _join(slots_of(program)[1])
            kernels[join.name] = join
            launches.append(Launch(join.name, (STATE, SLOTS), 1))
    used = {launch.kernel for launch in launches}
    kernels = {name: kernel for name, kernel in kernels.items() if name in used}
    source = HEADER + "".join(f"\n\n{k.source}" for k in kernels.values())
    return replace(program, source=source, kernels=kernels, launches=tuple(launches))


def _checking(program: TritonProgram, values: set[str]) -> list[int]:
    """The launches of the program's checks, which compute `values`. Kernels that take an index look
    at it, too, which finds nothing more where the program has checked it."""
    places = [i for i, launch in enumerate(program.launches) if launch.checks]
    own = [i for i in places if not values.isdisjoint(program.launches[i].writes)]
    return own or places


def slots_of(program: TritonProgram) -> tuple[list[int], int]:
    """The first slot of each launch, and how many there are: each begins where kernels want it."""
    first, total = [], 0
    for launch in program.launches:
        first.append(total)
        total += round_up(len(launch.checks), WORDS)
    return first, total


def _guarded(kernel: Compiled, tables: int) -> Compiled:
    """`tables`: how many parameters are such, which come first."""
    name = f"{kernel.name}_unless_failed"
    decorator, before, *lines = kernel.source.rstrip("\n").split("\n")
    parameters = (*kernel.parameters[:tables], (STATE, "*i32"), *kernel.parameters[tables:])
    given = before.partition("(")[2].removesuffix("):").split(", ")
    head = f"def {name}({', '.join((*given[:tables], STATE, *given[tables:]))}):"
    body = [f"    {line}" for line in lines]
    source = "\n".join([decorator, head, f"    if tl.load({STATE}) == 0:", *body, ""])
    return replace(kernel, name=name, source=source, parameters=parameters)


def _join(count: int) -> Compiled:
    width = 1 << max(count - 1, 0).bit_length()
    source = _JOIN.format(width=width, count=count)
    return Compiled(JOIN, source, ((STATE, "*i32"), (SLOTS, "*i32")), 1, ("checks", ""))
