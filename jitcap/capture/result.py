"""Capture's product: graph, guards and epilogue of one version. -> source of its entry.

`Captured.entry` turns it into the function that a call runs: check the guards, gather the inputs,
run the compiled graph, replay the effects, return the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any, Protocol

from eager.autograd import mode
from eager.dtype import _default as default_dtype
from jitcap.capture.effects import Epilogue
from jitcap.capture.origin import Origin
from jitcap.graph import Graph
from jitcap.guards import READ_ERRORS, Guards, Names, explain, render
from jitcap.joint import FreedNode, Joint, Region
from jitcap.lower import Strides
from jitcap.tensor_guard import TensorLike

Run = Callable[[list[Any]], list[Any]]


@dataclass(slots=True)
class Input:
    """One graph input: a tensor or number read at `origin`, or the constant array `value`."""

    origin: Origin | None
    tensor: bool
    value: Any = None


@dataclass(slots=True)
class Captured:
    """One captured version. `writes` pairs (input index, output index); `joint` is there when the
    gradient of an output can be asked for later."""

    name: str
    graph: Graph
    inputs: tuple[Input, ...]
    writes: tuple[tuple[int, int], ...]
    guards: Guards
    epilogue: Epilogue
    names: Names
    shape: tuple[int, tuple[str, ...]]  # number of positional arguments, names of the keywords
    grad_mode: bool
    inference: bool
    autocast: Any
    joint: Joint | None = None
    draws: tuple[str, ...] = ()  # statements before the graph runs
    bound_to: str = ""  # what of this process the version depends on, without a guard
    assumed: tuple[tuple[str, str, Any], ...] = ()  # (module, name, value) of a library's constants
    read: tuple[CodeType, ...] = ()  # of the program's functions, as far as they were interpreted
    body: tuple[str, ...] = ()  # the statements after the guards, when the entry was made

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
            if guard is None or guard.strides is None:
                strides.append(None)
            else:
                strides.append(tuple(s // guard.dtype.itemsize for s in guard.strides))
        return strides

    def source(self, region: bool = False) -> str:
        """The entry as Python source; `K` runs the graph, `R` is the region, `MISS` the refusal."""
        self.body = tuple(self._body(region))  # first: it may read further places, above
        return entry_source([self.header(), *self.names.lines], self.body)

    def header(self) -> str:
        """The test of what is not read at any place: the call's shape, the modes."""
        count, keywords = self.shape
        test = [f"len(args) != {count}"]
        test.append(f"len(kwargs) != {len(keywords)}" if keywords else "kwargs")
        grad, dtype = self.names.bind(mode), self.names.bind(default_dtype)
        test.append(f"{grad}.enabled is not {self.grad_mode}")
        test.append(f"{grad}.inference is not {self.inference}")
        test.append(f"{grad}.autocast is not {self.names.bind(self.autocast)}")
        test.append(f"{dtype}[0] is not {self.names.bind(default_dtype[0])}")
        return f"if {' or '.join(test)}: return MISS"

    def _body(self, region: bool) -> list[str]:
        gathered = ", ".join(map(self._array, self.inputs))
        lines = [*self.draws, f"o = K([{gathered}])"]
        written = {o for _, o in self.writes}
        if written and self.epilogue.outputs:
            lines[-1] = lines[-1].replace("o = K", "r = K")
            lines.append(f"o = {self._renumbered(written)}")
        lines += self.epilogue.lines
        if region:
            lines += self._attach(len(written))
        elif self.epilogue.histories:
            lines += self._freed()
        lines += self.epilogue.calls
        return [*lines, f"return {self.epilogue.value}"]

    def _renumbered(self, written: set[int]) -> str:
        """Outputs that are written back do not come back: put the others at their places."""
        places, k = [], 0
        for i in range(len(self.epilogue.outputs)):
            places.append("None" if i in written else f"r[{k}]")
            k += i not in written
        return f"[{', '.join(places)}, *r[{k}:]]"

    def _array(self, given: Input) -> str:
        if given.origin is None:
            return self.names.bind(given.value)
        v = self.names.var(given.origin)
        return f"{v}._array" if given.tensor else v

    def _attach(self, written: int) -> list[str]:
        given = ", ".join(
            self.names.bind(i.value) if i.origin is None else self.names.var(i.origin)
            for i in self.inputs
        )
        made = {**self.epilogue.owners, **self.epilogue.result_of}
        count = len(self.epilogue.outputs)
        outs = ", ".join(
            made.get(i, "None" if i in self.epilogue.histories else f"o[{i}]") for i in range(count)
        )
        return [f"R.attach([{given}], [{outs}], o[{count}:])", *self._freed()]

    def _freed(self) -> list[str]:
        """Outputs whose history a backward inside used up."""
        live = set(self.joint.tracked) if self.joint else set()
        node, lines = self.names.bind(_freed), []
        for index, name in self.epilogue.result_of.items():
            if index not in live:
                label = self.epilogue.histories[index]
                lines.append(f"{node}({name}, {label!r})")
        return lines

    def entry(self, run: Run, miss: Any, region: Region | None = None) -> Callable[..., Any]:
        """The function that a call runs: `entry(args, kwargs)` gives the result, or `miss`."""
        text = self.source(region is not None)
        code = compile(text, f"<entry of {self.name}>", "exec")
        return link(code, self.names.namespace, run, miss, region)

    def finder(self) -> list[str]:
        """The guards once more, for another process: each object of the program is taken where it
        is (`C2 := C0.__code__`) before a guard, or the body, names it."""
        lines, start = [self.header()], 0
        for index, name, where in self.names.found:
            lines += [*self.names.lines[start:index], f"{name} := {where}"]
            start = index
        return lines + self.names.lines[start:]


def entry_source(checks: Iterable[str], body: Iterable[str]) -> str:
    """The function of a version: reading may raise before it is known to fit."""
    lines = ["def entry(args, kwargs):", "  try:"]
    lines += [f"    {line}" for line in checks]
    lines += ["  except READ_ERRORS: return MISS"]
    lines += [f"  {line}" for line in body]
    return "\n".join(lines) + "\n"


class Version(Protocol):
    """What calls a version is for."""

    @property
    def shape(self) -> tuple[int, tuple[str, ...]]: ...
    @property
    def grad_mode(self) -> bool: ...
    @property
    def inference(self) -> bool: ...
    @property
    def autocast(self) -> Any: ...
    @property
    def guards(self) -> Guards: ...


def why_not(version: Version, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """Why a call does not fit a version; None when it fits."""
    count, keywords = version.shape
    if len(args) != count or {*kwargs} != {*keywords}:
        return f"expected {count} positional arguments and keywords {list(keywords)}"
    if mode.enabled is not version.grad_mode:
        return f"expected grad mode {'on' if version.grad_mode else 'off'}"
    if mode.inference is not version.inference:
        return f"expected inference mode {'on' if version.inference else 'off'}"
    if mode.autocast is not version.autocast:
        return f"expected autocast {version.autocast or 'off'}"
    return explain(version.guards.items, args, kwargs)


def link(
    code: CodeType, names: Mapping[str, Any], run: Run, miss: Any, region: Region | None
) -> Callable[..., Any]:
    """An entry's code with what it calls: the function `entry(args, kwargs)`."""
    scope = {"__name__": __name__, **names, **linked(run, miss, region)}
    exec(code, scope)
    entry: Callable[..., Any] = scope["entry"]
    return entry


def linked(run: Run, miss: Any, region: Region | None) -> dict[str, Any]:
    """What entries call beside their constants."""
    return {"K": run, "R": region, "MISS": miss, "READ_ERRORS": READ_ERRORS}


class _Freed(FreedNode):
    """A used-up history under the name that it had."""

    __slots__ = ("label",)

    def __init__(self, tensor: Any, label: str) -> None:
        super().__init__((), (tensor.aval,))
        self.label = label

    def name(self) -> str:
        return self.label


def _freed(tensor: Any, label: str) -> None:
    tensor._node, tensor._index, tensor._requires_grad = _Freed(tensor, label), 0, True


def prepare(guards: Guards, names: Names) -> None:
    """Render the guards into `names` before anything else reads from outside."""
    render(guards.items, names, "MISS")
