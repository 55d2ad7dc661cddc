"""Between group and fuse: stored values that their other kernels compute again. Groups -> bodies by
value.

A value that its own kernel keeps in registers or in a row buffer, and that other kernels read,
would have to be written to memory and read back. Where it is a short function of one large operand
that lies in memory anyway (and of small ones: a row's mean, a bias), those kernels read that
operand instead: one write and the memory are saved. The exponentials of a softmax and the centred
rows of a norm, which their derivatives want, are such values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from codegen.fuse.group_nests import Group, Groups, Member
from codegen.fuse.inline import Inliner, Stored, cost_of, is_large, stored_nest
from codegen.ir import expr
from codegen.ir.expr import Checked, Expr, Read
from codegen.ir.schema import Nest, Step, Value

LIMIT: Final = 24  # additions per element: one exponential and a few more are cheaper than memory
MAX_NODES: Final = 40  # expressions, which stand in the body of each reader


def rematerialise(groups: Groups) -> Groups:
    """Members whose reads of other kernels' values are replaced by what those are made of, where
    that is cheaper."""
    found = _recomputed(groups, outside_reads(groups))
    if not found:
        return groups
    items = tuple(_with_bodies(g, found) if isinstance(g, Group) else g for g in groups.items)
    return replace(groups, items=items)


def _with_bodies(group: Group, found: Mapping[int, tuple[Nest, Expr]]) -> Group:
    own = {m.stored.value.id for m in group.members}
    members = []
    for m in group.members:
        reads = (x.value for x in m.stored.reads)
        foreign = {v: found[v] for v in reads if v in found and v not in own}
        stored = m.stored
        if foreign:
            body = Inliner(foreign).resolve(stored.body)
            stored = stored_nest(stored.nest, body, stored.ops, forced=stored.forced)
        members.append(Member(stored, m.row))
    return replace(group, members=members)


def _recomputed(groups: Groups, outside: set[int]) -> dict[int, tuple[Nest, Expr]]:
    """Values to recompute: (nest, body over values in memory). `outside`: values that another
    kernel reads."""
    values = {v.id: v for v in _in_memory(groups)}
    memory = set(values)
    inliner = Inliner({})
    for item in groups.items:
        for m in item.members if isinstance(item, Group) else ():
            stored = m.stored
            vid = stored.value.id
            values[vid] = stored.value
            if stored.forced or stored.nest.monoid:
                memory.add(vid)
            elif vid in outside:
                body = inliner.resolve(stored.body)
                if _worth_it(stored, body, memory, values):
                    inliner.inlined[vid] = (stored.nest, body)
                else:
                    memory.add(vid)
    return inliner.inlined


def _in_memory(groups: Groups) -> list[Value]:
    """Inputs and results of library steps."""
    values = list(groups.inlined.loops.program.inputs)
    for item in groups.items:
        if isinstance(item, Step):
            values += item.call.outs
    return values


def _worth_it(stored: Stored, body: Expr, memory: set[int], values: Mapping[int, Value]) -> bool:
    nodes = tuple(expr.walk(body))
    if len(nodes) > MAX_NODES or cost_of(body) > LIMIT:
        return False
    if any(isinstance(x, Checked) for x in nodes):
        return False  # a gather, with its checks
    own = stored.value.aval.numel
    reads = {x.value for x in nodes if isinstance(x, Read)}
    large = [v for v in reads if is_large(values[v].aval.numel, own)]
    return len(large) <= 1 and all(v in memory for v in reads)


def outside_reads(groups: Groups) -> set[int]:
    """Values read by another group than their own, or by a step."""
    home = {m.stored.value.id: g for g in groups.items if isinstance(g, Group) for m in g.members}
    outside = {view.base.id for view in groups.inlined.operands.values()}
    for item in groups.items:
        for m in item.members if isinstance(item, Group) else ():
            outside |= {x.value for x in m.stored.reads if home.get(x.value) is not item}
    return outside
