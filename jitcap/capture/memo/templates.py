"""Capture: calls of one function of the library on operands that are alike. call -> nodes, copied.

An optimizer updates hundreds of parameters by one function (`eager.core.traced.repeatable`), which
does nothing but operations on its arguments, writes to them included. What two calls that are alike
recorded is compared: if it is the same up to the operands, and if the second changed nothing else
in the capture (no guard, no input, no number from outside was new), that is what such a call
records, and the next ones get copies of it.

    form_of     what decides the program of a call
    Template    what a call recorded, with places for its operands
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, Final

from eager.base.dataclass import dataclass
from eager.base.dtype import get_default_dtype
from eager.core.sym import SymNumber
from eager.core.tape import mode
from eager.core.tensor import Tensor
from eager.core.traced import Traced
from jitcap.base.call_policy import is_native_class
from jitcap.capture.sizes import out
from jitcap.capture.tracing import LARGEST
from jitcap.graph.graph import CHECK, Node, Where

_PLAIN: Final = (type(None), bool, int, float, complex, str)
_WITH_ZEROS: Final = (float, complex)  # of two signs, which are equal
_NATIVE: Final = frozenset({*_PLAIN, Tensor, SymNumber})
_OTHERWISE: Final = frozenset({"random", "index", "dynamic", "extern"})  # more than a node is made
_GROWS: Final = frozenset({"nodes", "checks", "conditions", "_values"})  # of the tracer
Code = tuple[str, Any]  # "own": a node of the template; "given": an operand; "fixed": what it is


class Program:
    """Nodes as what makes copies of them, which it appends."""

    def __init__(self, rows: Iterable[Any], starts: Mapping[str, int], count: int) -> None:
        """`rows`: (op, codes, attrs, avals). Operands are picked from the `count` values that are
        given, of each kind from `starts` on, the fixed ones, and the nodes."""
        rows = [*rows]
        self.fixed = [x for _, codes, *_ in rows for kind, x in codes if kind == "fixed"]
        numbers, starts = itertools.count(count), {**starts, "own": count + len(self.fixed)}
        self.rows = []
        for op, codes, attrs, avals in rows:
            at = [next(numbers) if kind == "fixed" else starts[kind] + x for kind, x in codes]
            self.rows.append((op, _picker(at), attrs, avals))

    def append(self, tracer: Any, given: Sequence[Any], places: Iterable[Where]) -> list[Node]:
        """Append a copy for what is `given`, with the lines of the nodes; the nodes."""
        made: list[Node] = [*map(Node.__new__, itertools.repeat(Node, len(self.rows)))]
        values = (*given, *self.fixed, *made)
        for node, (op, pick, attrs, avals), where in zip(made, self.rows, places, strict=False):
            node.op, node.args, node.attrs = op, pick(values), attrs
            node.avals, node.where = avals, where
        tracer.nodes += made
        return made


def _picker(places: list[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Function that picks these of a tuple, as one."""
    if len(places) > 1:
        return operator.itemgetter(*places)
    return operator.itemgetter(slice(places[0], places[0] + 1) if places else slice(0))


class Templates:
    """Those of one capture, by the function and the form of its operands."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.found: dict[Any, tuple[Template | None, bool]] = {}  # and whether it was seen again
        self._keep: list[Any] = []  # an id is only unique while the object lives

    def call(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """`fn(*args)`. What the program's own tensors do is read from bytecode."""
        kinds = {*map(type, args)} - _NATIVE
        if any(issubclass(kind, Tensor) and not is_native_class(kind) for kind in kinds):
            return self.session.interpret(fn, args, {})
        form = form_of(self.session, args)
        if form is None:
            return out(fn(*args))
        known, sure = self.found.get((fn, form), (None, False))
        tracer = self.session.tracer
        if known is not None and sure and len(tracer.nodes) + len(known.nodes) < LARGEST:
            known.copy(tracer, args)
            return None
        first = (fn, form) not in self.found
        result, made = recorded(self.session, fn, args)
        if first:
            self._keep.append(args)
        # Equal to the first, whose state was not looked at: numbers may have been new to it.
        sure = known is not None and made is not None and made.steady and made.is_like(known)
        self.found[fn, form] = made, sure
        return result


def form_of(s: Any, args: tuple[Any, ...]) -> Any:
    """Key of the nodes that a call records: kinds and identities of the operands, and numbers; None
    where the nodes depend on more."""
    tracer = s.tracer
    inside = tracer.inside is not None or s.ties.open or s.ties.regions or s.rolls
    if inside or s.sizes.symbols or s.unsafe or s.search is not None or mode.enabled or mode.behind:
        return None
    seen: list[Any] = []
    parts: list[Any] = []
    for x in args:
        kind = type(x)
        if kind is SymNumber:
            parts.append(id(x))
        elif kind in _PLAIN:
            parts.append((kind, repr(x) if kind in _WITH_ZEROS else x))
        elif (part := _form(x, kind, seen)) is not None:
            parts.append(part)
        else:
            return None
    known: dict[int, int] = {}
    numbers = [*map(id, seen)]
    apart = len({*numbers}) == len(numbers)  # in most calls no two are the same
    same = () if apart else tuple([known.setdefault(x, len(known)) for x in numbers])
    return get_default_dtype(), mode.autocast, mode.rows, same, *parts


def _form(x: Any, kind: type, seen: list[Any]) -> Any:
    """Key of a tensor; None where it has none. Its parts are added to `seen`."""
    array = x._array if kind is Tensor or issubclass(kind, Tensor) else None
    if type(array) is not Traced or x._view is not None:
        return None
    memory = array.storage
    if memory.picked or memory.read_only or array.generation != memory.generation:
        return None
    counts = x._storage
    if not mode.inference and counts.sealed:  # a write is an error
        return None
    if not array.chain and array.handle is not memory.handle:
        return None
    seen += x, array, memory, counts, array.handle
    chain: Any = array.chain and tuple([(op, repr(attrs)) for op, attrs in array.chain])
    whole = None if memory.aval is array.aval else memory.aval
    return kind, array.aval, whole, array.strides, array.offset, chain, x._requires_grad


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """Nodes; their checks, by number; what is written: (argument, value, by how many writes of the
    graph's memory, and of eager's). `steady`: whether the call changed nothing else. `given`: the
    arguments that are tensors."""

    nodes: tuple[tuple[Any, tuple[Code, ...], Any, tuple[Any, ...]], ...]
    checks: tuple[int, ...]
    writes: tuple[tuple[int, Code, int, int], ...]
    steady: bool
    given: tuple[int, ...]
    program: Program

    def is_like(self, other: Template) -> bool:
        return self._shown() == other._shown()

    def _shown(self) -> Any:
        def code(x: Code) -> Any:
            return x if x[0] != "fixed" or isinstance(x[1], Node) else (type(x[1]), repr(x[1]))

        nodes = [(op, [*map(code, xs)], repr(at), outs) for op, xs, at, outs in self.nodes]
        return nodes, self.checks, [(i, code(x), *n) for i, x, *n in self.writes]

    def copy(self, tracer: Any, args: tuple[Any, ...]) -> None:
        """Record a copy of the nodes and writes for a call with `args`."""
        given = [args[i]._array.handle for i in self.given]
        made = self.program.append(tracer, given, itertools.repeat(tracer.where()))
        by_kind = {"own": made, "given": given}
        tracer.checks += [made[i] for i in self.checks]
        for i, (kind, x), writes, versions in self.writes:
            array = args[i]._array
            memory = array.storage
            tracer.session.ties.wrote(memory)
            memory.handle = array.handle = x if kind == "fixed" else by_kind[kind][x]
            memory.generation += writes
            array.generation = memory.generation
            args[i]._storage.version += versions


def recorded(s: Any, fn: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, Template | None]:
    """Result of the call, and the template of the nodes it recorded, if they can be copied."""
    tracer = s.tracer
    start, known, state = len(tracer.nodes), len(tracer.checks), state_of(s)
    tensors = [(i, x) for i, x in enumerate(args) if isinstance(x, Tensor)]
    given = {x._array.handle: k for k, (_, x) in reversed([*enumerate(tensors)])}
    before = [_marks(x) for _, x in tensors]
    result = fn(*args)
    nodes = tracer.nodes[start:]
    own = {n: k for k, n in enumerate(nodes)}

    def code(x: Any) -> Code:
        if isinstance(x, Node) and x in own:
            return "own", own[x]
        return ("given", given[x]) if isinstance(x, Node) and x in given else ("fixed", x)

    writes = []
    for (i, x), (array, memory, generation, version, *others) in zip(tensors, before, strict=True):
        now, home, reached, stored, *left = _marks(x)
        if now is not array or home is not memory or any(map(operator.is_not, left, others)):
            return result, None
        if reached != generation or stored != version:
            if array.chain or sum(y._array.storage is memory for _, y in tensors) > 1:
                return result, None
            writes.append((i, code(memory.handle), reached - generation, stored - version))
    plain = all(n.op.kind not in _OTHERWISE and not n.op.raises for n in nodes)
    if result is not None or not plain or any("graphs" in n.attrs for n in nodes):
        return result, None
    checks = tuple(own[n] for n in tracer.checks[known:])
    if len(checks) != sum(n.op is CHECK for n in nodes):
        return result, None
    rows = tuple((n.op, tuple(map(code, n.args)), n.attrs, n.avals) for n in nodes)
    steady, program = state_of(s) == state, Program(rows, {"given": 0}, len(tensors))
    places = tuple([i for i, _ in tensors])
    return result, Template(rows, checks, tuple(writes), steady, places, program)


def _marks(x: Tensor) -> tuple[Any, ...]:
    """State of a tensor that a call can change."""
    memory = x._array.storage
    return (
        x._array, memory, memory.generation, x._storage.version,
        x._storage, x._view, x._node, x._grad, x._requires_grad, x._storage.history,
    )  # fmt: skip


def state_of(s: Any, apart: Container[str] = ()) -> list[int]:
    """Sizes of the tables of a capture, other than those that grow as it records, and some."""
    owners = (s, s.outside, s.sizes, s.ties, s.tracer, s.tracer.outlines)
    tables = [
        len(table)
        for owner in owners
        for name, table in vars(owner).items()
        if isinstance(table, dict | list | set) and not (owner is s.tracer and name in _GROWS)
        if name not in apart
    ]
    drawn = [draws.count for draws in s.tracer.draws.values()]
    return [*tables, len(s.guards.items), *drawn]
