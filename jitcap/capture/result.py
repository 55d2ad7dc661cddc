"""Capture's product: graph, guards and epilogue of one version. -> its entry, rows and source.

`Captured.code` and `link` turn it into the function that a call runs: check the guards, gather the
inputs, run the compiled graph, replay the effects, return the value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from itertools import islice
from types import CodeType, ModuleType
from typing import Any, Final, Protocol

from eager.base.dataclass import dataclass
from eager.base.dtype import _default as default_dtype
from eager.base.fold_text import fold_text
from jitcap.autodiff.compiled_function import Region
from jitcap.autodiff.joint import Joint
from jitcap.base.breaks import Break
from jitcap.base.modes import Modes
from jitcap.base.origin import APART, Computed, Drawn, Origin
from jitcap.base.terms import Row, Term, attribute, source, text
from jitcap.base.walks import reach
from jitcap.capture.builtins.host_rng import run_once, states
from jitcap.capture.epilogue.effects import Epilogue
from jitcap.capture.kinds.modules import BUILTINS
from jitcap.compile.lower import Strides
from jitcap.graph.graph import CHECK, Graph, data_sizes
from jitcap.guards.columns import in_columns
from jitcap.guards.guard import READ_ERRORS, Guards, Names, TypeIs, explain, failing, short
from jitcap.guards.size_guard import BLOCK, block_of
from jitcap.guards.statements import render
from jitcap.guards.tensor_guard import TensorLike

Run = Callable[[list[Any]], list[Any]]
MISMATCHES: Final = 8  # guards that a recompile is told of


@dataclass(slots=True)
class Input:
    """One graph input: a tensor or number read at `origin`, or the constant array `value`."""

    origin: Origin | None
    tensor: bool
    value: Any = None


@dataclass(slots=True)
class Captured:
    """One captured version. `writes` pairs (input index, output index); `symbols` are the places of
    the numbers that symbols are; `joint` is there when the gradient of an output can be asked for
    later."""

    name: str
    graph: Graph
    inputs: tuple[Input, ...]
    writes: tuple[tuple[int, int], ...]
    guards: Guards
    epilogue: Epilogue
    symbols: tuple[Origin, ...]
    shape: tuple[int, tuple[str, ...]]  # number of positional arguments, names of the keywords
    modes: Modes
    joint: Joint | None = None
    drawn: tuple[Drawn, ...] = ()  # numbers of the host's generators
    bound_to: str = ""  # what of this process the version depends on, without a guard
    read: tuple[CodeType, ...] = ()  # of the program's functions, as far as they were interpreted
    text: str = ""  # of the entry, when it was made
    rows: tuple[list[Row], list[Row]] = ([], [])  # guards, what follows, when the entry was made
    names: Names = field(default_factory=Names)  # with the rows of the guards: see `render`
    rolled: tuple[str, ...] = ()  # what became of loops, for people
    limit: int | None = None  # of a segment: how many instructions it has (None: to the return)

    @property
    def strides(self) -> list[Strides | None]:
        """The inputs' strides in elements, as the guards have them (None: contiguous)."""
        seen = {id(g.origin): g for g in self.guards.items if isinstance(g, TensorLike)}
        strides: list[Strides | None] = []
        for given in self.inputs:
            if given.origin is None:
                array = given.value
                strides.append(tuple(s // array.itemsize for s in array.strides))
                continue
            guard = seen.get(id(given.origin))
            strides.append(None if guard is None else guard.layout)
        return strides

    def render(self) -> None:
        """The guards as rows, those that compiling asked for among them, and then names for all
        that the epilogue has. Only the first time."""
        if self.names.rows:
            return
        prepare(self.guards, self.names, self.symbols)
        for each in self.drawn:
            self.names.later(each)
        self.epilogue.name(self.names)

    def source(self) -> str:
        """The entry as Python source; `K` runs the graph, `R` is the region, `MISS` the refusal."""
        self.render()
        body = self._body()
        self.rows = checks, body = in_columns(self.checks(body), body, self.names)
        return entry_source(source(checks), source(body))

    def checks(self, body: Iterable[Row]) -> list[Row]:
        """The guards, with the block of sizes in its place. `body`, the statements behind them, was
        made first, since it may read further places."""
        rows, block = [self.header(), *self.names.rows], self.names.block
        if block is not None and BLOCK in rows:
            at = rows.index(BLOCK)
            rows[at] = block.row([*rows[at + 1 :], *body])
        return rows

    def fits(self) -> Callable[[tuple[Any, ...], dict[str, Any]], bool]:
        """The guards alone, those that there are now: a function that says if a call fits."""
        alone = replace(self, names=Names())
        prepare(alone.guards, alone.names, alone.symbols)
        text = entry_source(source(alone.checks(())), ["return True"])
        code = compile(text, f"<guards of {self.name}>", "exec")
        return link(code, alone.names.namespace, lambda _: [], False, None)

    def header(self) -> Row:
        """The test of what is not read at any place: the call's shape, the modes."""
        count, keywords = self.shape
        differs: list[Term] = [("!=", ("len", "args"), count)]
        differs.append(("!=", ("len", "kwargs"), len(keywords)) if keywords else "kwargs")
        differs += self.modes.tests(self.names)
        dtype = self.names.bind(default_dtype)
        differs.append(("is not", ("item", dtype, 0), self.names.bind(default_dtype[0])))
        return ("hold", ("not", ("or", *differs)))

    def _body(self) -> list[Row]:
        gathered = ("list", *map(self._array, self.inputs))
        rows, count = self._run(gathered), len(self.epilogue.outputs) - len(self.writes)
        rows += [*self._begin(count), *self.epilogue.rows, *self.epilogue.replay()]
        rows += self._attach(count)
        rows += [("do", call.call) for call in self.epilogue.calls]
        return [*rows, ("return", self.epilogue.value)]

    def places(self) -> dict[str, Origin]:
        """Everything that was read from outside: its name in the source, and where it is found."""
        effects = [e.origin for e in self.epilogue.effects]
        read = [g.origin for g in self.guards.items] + effects
        read += [i.origin for i in self.inputs if i.origin is not None]
        fixed = [origin for origin in read if not isinstance(origin, Drawn)]
        every = reach(fixed, lambda origin: origin.parents(), self.names.var)
        return {self.names.var(origin): origin for origin in every}

    def recorder(self) -> str:
        """The entry that changes nothing: it hands `K` the inputs, what is found at each of the
        `places`, and `finish(o, copies)`, which makes the value and does the effects to copies of
        the contents of what they are about; that gives (value, host calls)."""
        self.render()
        effects = self.epilogue.effects
        targets = {e.target: f"copy_of_{e.target}" for e in effects}
        finish: list[Row] = [
            ("let", name, ("item", "copies", text(target))) for target, name in targets.items()
        ]
        count = len(self.epilogue.outputs)
        finish += [*self._begin(count), *self.epilogue.rows]
        finish += [e.record(targets[e.target]) for e in effects]
        calls = ("tuple", *(call.record for call in self.epilogue.calls))
        finish += [*self._attach(count), ("return", ("tuple", self.epilogue.value, calls))]
        gathered = ("list", *map(self._array, self.inputs))
        places = ("dict", *(part for name in self.places() for part in (text(name), name)))
        begin = [self.names.later(drawn) for drawn in self.drawn]
        end: Row = ("return", ("run", gathered, places, "finish"))
        body = [*source(begin), "def finish(o, copies):"]
        body += [*(f"  {line}" for line in source(finish)), *source([end])]
        return entry_source(source(self.checks([*begin, *finish, end])), body)

    def _run(self, gathered: Term) -> list[Row]:
        """Draws of the host, and the graph."""
        draws = [self.names.later(drawn) for drawn in self.drawn]
        every = [drawn.method for drawn in self.drawn]
        drawn = [m for m in every if type(m.__self__) is not ModuleType]  # a clock has no state
        if not drawn or not any(n.op is CHECK or n.op.raises for n in self.graph.nodes):
            return [*draws, ("let", "o", ("run", gathered, *self._replaced()))]
        by_owner = {id(method.__self__): method for method in drawn}
        methods = ("tuple", *map(self.names.bind, by_owner.values()))
        before = f"n{len(self.drawn)}"
        call = ("call", self.names.bind(run_once), "K", gathered, methods, before)
        state = ("call", self.names.bind(states), methods)
        return [("let", before, state), *draws, ("let", "o", call)]

    def _replaced(self) -> list[Term]:
        """Tensors on a device that get another gradient, so that the memory of the one before is
        free for it."""
        if all(n.aval.device == "cpu" for n in self.graph.inputs):
            return []
        targets = [e.target for e in self.epilogue.effects if e.key == text("_grad")]
        return [("tuple", *targets)] if targets else []

    def _array(self, given: Input) -> Term:
        if given.origin is None:
            return self.names.bind(given.value)
        v = self.names.var(given.origin)
        return attribute(v, "_array") if given.tensor else v

    def _begin(self, count: int) -> list[Row]:
        """The tape's node of this call, which is for its sizes. `count`: the outputs in `o` before
        what the joint graph has more."""
        if self.joint is None:
            return []
        inputs = zip(self.graph.inputs, self.inputs, strict=True)
        sizes = [self._array(given) for n, given in inputs if "symbol" in n.attrs]
        found = len(data_sizes(self.joint.graph.nodes))  # which stand first among those
        sizes += [("item", "o", count + i) for i in range(found)]
        return [("let", "h", ("begin", *([("tuple", *sizes)] if sizes else [])))]

    def _attach(self, count: int) -> list[Row]:
        """Rows that attach the autograd history of the outputs."""
        if self.joint is None:
            return []
        given = [
            self.names.bind(i.value) if i.origin is None else self.names.var(i.origin)
            for i in self.inputs
        ]
        outs = [self.epilogue.tensors.get(i, "None") for i in range(len(self.epilogue.outputs))]
        lists = [("list", *terms) for terms in (given, self.epilogue.leaves, outs)]
        return [("do", ("attach", "h", *lists, ("after", "o", count)))]

    def code(self) -> CodeType:
        """Code of the entry, to be linked with what it calls."""
        self.text = self.source()
        return compile(self.text, f"<entry of {self.name}>", "exec")

    def show(self) -> str:
        """The entry's source, with what its constants are; what repeats is a loop."""
        constants = {n: short(v) for n, v in self.names.namespace.items() if n in self.text}
        legend = [f"# {name}: {' '.join(shown.split())}" for name, shown in constants.items()]
        return listing(["# K: the compiled graph", *legend], self.text)


def listing(legend: Iterable[str], entry: str) -> str:
    """An entry to read: a test or an element of a long list in each line, and loops for what
    repeats."""
    tests = (test for line in entry.splitlines() for test in _tests(line))
    parts = [part for test in tests for part in _elements(test)]
    return fold_text([*legend, "# need(x): MISS unless x holds", *parts]).text + "\n"


LONG: Final = 300  # letters of a line whose elements stand below each other
_QUOTED: Final = r"'[^']*'|\"[^\"]*\""
_TEST: Final = r"( +)if not \((.*)\): return MISS"


def _elements(line: str) -> list[str]:
    if len(line) < LONG:
        return [line]
    start = line[: len(line) - len(line.lstrip())]
    first, *rest = line.replace(", ", ",\n").split("\n")
    return [first, *(f"{start}    {each}" for each in rest)]


def _tests(line: str) -> list[str]:
    """A statement that tests several things, as one for each."""
    found = re.fullmatch(_TEST, line)
    if found is None:
        return [line]
    tests: list[str] = []
    depth = start = 0
    whole = found[2]
    bare = re.sub(_QUOTED, lambda text: "_" * len(text[0]), whole)
    for at, sign in enumerate(bare):
        depth += (sign in "([{") - (sign in ")]}")
        if not depth and bare.startswith(" or ", at):
            tests, start = [], 0
            break
        if not depth and bare.startswith(" and ", at):
            tests.append(whole[start:at])
            start = at + 5
    return [f"{found[1]}need({test})" for test in (*tests, whole[start:])]


def entry_source(checks: Iterable[str], body: Iterable[str]) -> str:
    """The function of a version: reading may raise before it is known to fit."""
    lines = ["def entry(args, kwargs):", "  try:"]
    lines += [f"    {line}" for line in checks]
    lines += ["  except READ_ERRORS: return MISS"]
    lines += [f"  {line}" for line in body]
    return "\n".join(lines) + "\n"


class Version(Protocol):
    """The part of a version that decides which calls it fits."""

    @property
    def shape(self) -> tuple[int, tuple[str, ...]]: ...
    @property
    def modes(self) -> Modes: ...
    @property
    def guards(self) -> Guards: ...


def why_not(version: Version, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """Reason why a call does not fit a version; None when it fits."""
    return _why_no_call(version, args, kwargs) or explain(version.guards.items, args, kwargs)


def mismatches(version: Version, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """Lines that say what of a call does not fit a version: the argument, expected and got."""
    other = _why_no_call(version, args, kwargs)
    if other is not None:
        return [other]
    found = islice(failing(version.guards.items, args, kwargs), MISMATCHES)
    return [
        f"{guard.origin.show()}: expected {guard.expected()}, got {got}  (at {guard.where})"
        for guard, got, _ in found
    ]


def misfit(version: Version, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
    """Number of guards of a version that fail (a tensor's own twice: it hides those of its sizes);
    infinite if it is for another kind of call."""
    if _why_no_call(version, args, kwargs) is not None:
        return math.inf
    failed = failing(version.guards.items, args, kwargs)
    return sum(2 if isinstance(guard, TensorLike) else 1 for guard, _, _ in failed)


def require_fit(
    version: Version, varying: frozenset[str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Raises Break where a tensor was taken for two, and the program tells them apart."""
    if any(name.startswith(APART) for name in varying) and misfit(version, args, kwargs):
        raise Break("aliasing", "one tensor is found at two places, and it matters")


def _why_no_call(version: Version, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """Reason why the call's shape or the modes do not fit a version, or None."""
    count, keywords = version.shape
    if len(args) != count or {*kwargs} != {*keywords}:
        return f"expected {count} positional arguments and keywords {list(keywords)}"
    return version.modes.why_not()


def link(
    code: CodeType, names: Mapping[str, Any], run: Run, miss: Any, region: Region | None
) -> Callable[..., Any]:
    """An entry's code with what it calls: the function `entry(args, kwargs)`."""
    scope = {"__name__": __name__, "__builtins__": BUILTINS, **names, **linked(run, miss, region)}
    exec(code, scope)
    entry: Callable[..., Any] = scope["entry"]
    return entry


def linked(run: Run, miss: Any, region: Region | None) -> dict[str, Any]:
    """Globals of an entry other than its constants."""
    return {"K": run, "R": region, "MISS": miss, "READ_ERRORS": READ_ERRORS}


def prepare(guards: Guards, names: Names, symbols: Iterable[Origin]) -> None:
    """Render the guards into `names` before anything else reads from outside."""
    tensors = [g.origin for g in guards.items if isinstance(g, TensorLike) and g.has_symbols]
    of_int = {id(g.origin) for g in guards.items if isinstance(g, TypeIs) and g.cls is int}
    ints = [o for o in symbols if id(o) in of_int and not isinstance(o, Computed)]
    names.block = block_of(tensors, ints)
    render(guards.items, names)
