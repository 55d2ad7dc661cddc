"""From a graph of one place and of sizes that are known when it begins: Graph -> Executable.

It is lowered (`jitcap/compile/lower.py`), and codegen makes its loops, kernels and machine code,
unless an equal graph was compiled before, here or in another process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import codegen
from codegen import Target, Unsupported
from codegen.runtime import beside
from codegen.runtime.artifact import Artifact
from codegen.runtime.pending import Pending
from codegen.runtime.turns import Turn
from codegen.targets.cpp.runtime.build import NoCompiler
from eager.base import lazy_imports
from eager.base.config import config
from jitcap.base.breaks import REPORT, Break
from jitcap.base.diagnostics import Trail, announce
from jitcap.compile import graph_cache as graphs
from jitcap.compile.backends import HOST
from jitcap.compile.executable import Executable, keep_artifact, of_artifact, op_by_op
from jitcap.compile.lower import Strides, lower
from jitcap.graph.graph import Graph

Writes = Sequence[tuple[int, int]]  # (input, output): the input's memory takes the output's value
Layout = Sequence[Strides | None] | None  # the inputs' strides in elements (None: contiguous)
Begin = Callable[[Graph, Writes, Layout, Target, Trail], Pending[Executable]]


def device_parts() -> Any:
    """Module that compiles for devices, imported by a program that has one."""
    return lazy_imports.submodule("jitcap.compile", "device_parts")


def generator(devices: Sequence[str]) -> Begin:
    """Generator for a graph whose values live on these devices, and the host."""
    return device_parts().in_parts if devices else generate


def generate(
    graph: Graph, writes: Writes, strides: Layout, target: Target, trail: Trail
) -> Pending[Executable]:
    """Lower and compile. The C++ compiler may be at work when this returns."""
    with trail.stage("codegen"):
        begun = _begun(graph, writes, strides, target)

    def finish() -> Executable:
        with trail.stage("codegen"):
            artifact, key = begun.result()
        keep_artifact(artifact, trail)
        return of_artifact(artifact, target.backend, key)

    return Pending(finish, begun.close, waits=begun.waits)


def _begun(
    graph: Graph, writes: Writes, strides: Layout, target: Target
) -> Pending[tuple[Artifact, str | None]]:
    """The artifact, and its name on disk."""
    program = functools.partial(lower, graph, writes, strides, prefix=target.prefix)
    if config.check:  # verify every stage, every time
        return codegen.begin(program(), target).then(lambda artifact: (artifact, None))
    place = graphs.place_of(graph, (strides, writes), target)
    found = None if place is None else place.recall(program)
    if found is not None:
        return Pending.of(found)
    if place is None:
        return codegen.begin(program(), target).then(lambda artifact: (artifact, None))
    turn = Turn(place.key)  # of several ranks, say, that come to one graph
    try:
        if not turn.take():
            turn.wait()
        found = place.recall(program)  # made meanwhile
        if found is not None:
            turn.release()
            return Pending.of(found)
        begun = codegen.begin(program(), target)
        asked = place.answers()  # by compiling: what comes next may ask more
    except BaseException:
        turn.release()
        raise
    made = begun.then(lambda artifact: (artifact, place.remember(artifact, asked)))

    def close() -> None:
        begun.close()
        turn.release()

    return Pending(made.result, close, waits=made.waits)


def or_op_by_op(
    begin: Begin, graph: Graph, writes: Writes, strides: Layout, target: Target, trail: Trail
) -> Pending[Executable]:
    """The result of `begin`; in its place the graph op by op, which is said once, where codegen
    refuses it or fails."""
    try:
        begun = begin(graph, writes, strides, target, trail)
    except Exception as fault:  # noqa: BLE001 - raised again there, if it is no refusal
        return Pending.of(_op_by_op_for(fault, graph, writes, trail))

    def finish() -> Executable:
        try:
            return begun.result()
        except Exception as fault:  # noqa: BLE001 - as above
            return _op_by_op_for(fault, graph, writes, trail)

    return Pending(finish, begun.close, waits=begun.waits)


def _op_by_op_for(fault: Exception, graph: Graph, writes: Writes, trail: Trail) -> Executable:
    """Op-by-op run in the place of code that codegen refused, or failed to make: said once.
    Raises the fault itself where nothing may hide it, or sizes are symbols; and where it is to be
    done again, as the thread beside the program has no room for deep calls."""
    refused = isinstance(fault, Unsupported | NoCompiler)
    again = isinstance(fault, RecursionError) and beside.is_here()
    hides = not (again or isinstance(fault, Break) or config.strict or config.check)
    if graph.has_symbols or not (refused or hides):
        raise fault
    text = str(fault) if refused else f"{type(fault).__name__}: {fault}"
    why = text if refused else f"code generation failed: {text}; {REPORT}"
    announce(
        ("unsupported", text) if refused else ("fault", trail.name, type(fault)),
        f"{trail.name} runs op by op{':' if refused else ','} {why}",
    )
    return Executable(op_by_op(graph, writes), "eager", refused=text)


def recall(key: str, trail: Trail) -> Executable | None:
    """The executable that `generate` stored under `key`, if it is still there."""
    with trail.stage("codegen"):
        artifact = graphs.recall(key, None, Target(HOST, config.isa))
    if artifact is None:
        return None
    keep_artifact(artifact, trail)
    return of_artifact(artifact, HOST, key)
