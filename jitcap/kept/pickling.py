"""Kept versions: the objects that generated code names, as bytes. namespace <-> pickle.

Values are kept as they are; modules, functions, classes and the library's own objects by name. An
object of the program that has no name is found at its place by the version itself (`Names.found`).
Everything else refuses: a copy of it would not be it. What is read back is trusted as the compiled
code beside it is: the cache is private to its user, and checked. Pickle and not JSON, because
guards share objects and point at each other; reading looks names up, and imports nothing.
"""

from __future__ import annotations

import collections
import enum
import io
import pickle
import re
import sys
import types
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final

import numpy as np

from eager import dtype as dt
from eager import random, tape
from eager.aval import Aval
from eager.device import Size, device
from eager.dtype import DType
from eager.op import REGISTRY, Op
from jitcap import graph as ir
from jitcap.capture.native import is_library_module
from jitcap.capture.origin import Origin
from jitcap.graph import Graph, GraphOp, Node
from jitcap.guards import Guard
from jitcap.joint import Joint, Segment
from jitcap.kept.fingerprint import Unkept, library_name, look_up
from jitcap.retrace import Call, Tape, Value
from jitcap.tensor_guard import Seen

Name = Callable[[Any], Any]  # an object -> a token for it, or None
_OWN: Final = {
    id(value): (module, name)
    for module, name, value in (
        ("sys", "modules", sys.modules),
        ("eager.tape", "mode", tape.mode),
        ("eager.dtype", "_default", dt._default),
        ("eager.random", "default_generator", random.default_generator),
    )
}
_RECORDS: Final = (
    Guard, Origin, Seen, Aval, Joint, Segment, Tape, Call, Value, DType, device, Size, np.ndarray,
    np.generic, range, slice, complex, re.Pattern, enum.Enum, ir.Where,
)  # fmt: skip
_DESCRIPTORS: Final = (
    types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType,
    types.GetSetDescriptorType, types.MemberDescriptorType,
)  # fmt: skip


class _Writer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, token: Name) -> None:
        super().__init__(file, protocol=5)
        self._token = token
        self.named: list[Any] = []  # the program's functions and classes that are kept by name

    def persistent_id(self, value: Any) -> Any:
        own = _OWN.get(id(value))
        if own is not None:
            return own
        module = _module_of(value) if type(value) is dict else ""
        return ("vars", module) if module else self._token(value)

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, ModuleType):
            if sys.modules.get(value.__name__) is not value:
                raise Unkept(f"the module {value.__name__}, which is not imported by that name")
            return _module, (value.__name__,)
        if isinstance(value, np.dtype):
            if np.dtype(value.type) is not value:
                raise Unkept(f"the dtype {value!r}")
            return np.dtype, (value.type,)
        if isinstance(value, FunctionType | type):
            if not is_library_module(value.__module__ or ""):
                self.named.append(value)
            elif look_up(value.__module__, value.__qualname__) is not value:
                return look_up, library_name(value)
            return NotImplemented
        if kind is BuiltinFunctionType:
            if isinstance(value.__self__, ModuleType | type | None):
                return NotImplemented
            raise Unkept(f"{value.__qualname__} of an object")
        if isinstance(value, Op):
            return _op, (_name_of(value), isinstance(value, GraphOp))
        if kind is Graph:
            return _graph, _flat(value)
        if isinstance(value, (*_RECORDS, *_DESCRIPTORS, BaseException)) or kind is np.ufunc:
            return NotImplemented
        if is_library_module(kind.__module__):
            return look_up, library_name(value)
        raise Unkept(f"a {kind.__module__}.{kind.__qualname__}")


class _Reader(pickle.Unpickler):
    def __init__(self, data: bytes, objects: Mapping[str, Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._objects = objects

    def find_class(self, module: str, name: str) -> Any:
        """Only of modules that are imported: reading imports nothing."""
        if module not in sys.modules:
            raise KeyError(module)
        return super().find_class(module, name)

    def persistent_load(self, token: Any) -> Any:
        if isinstance(token, str):
            return self._objects[token]
        module, name = token
        if module == "vars":
            return vars(sys.modules[name])
        return getattr(sys.modules[module], name)


def write(value: Any, names: Mapping[int, str]) -> tuple[bytes, list[Any]]:
    """`value` as bytes, and what of the program is in it by name. `names`: id -> token of the
    objects that `read` is given. Raises Unkept."""
    file = io.BytesIO()
    writer = _Writer(file, lambda v: names.get(id(v)))
    try:
        writer.dump(value)
    except (pickle.PicklingError, AttributeError, TypeError, RecursionError) as error:
        raise Unkept(str(error)) from error
    return file.getvalue(), writer.named


def read(data: bytes, objects: Mapping[str, Any]) -> Any:
    """What `write` was given. Raises what looking up raises."""
    return _Reader(data, objects).load()


def _module(name: str) -> ModuleType:
    return sys.modules[name]


def has_copies(value: Any) -> bool:
    """Whether `read` makes another object of `value`, equal to it."""
    if type(value) is dict:
        return id(value) not in _OWN and not _module_of(value)
    return type(value) in (list, tuple, set, bytearray, collections.deque, np.ndarray, slice)


def _module_of(value: dict[Any, Any]) -> str:
    """The name of the module whose dictionary this is, or ""."""
    for name in (value.get("__name__"), getattr(value.get("__spec__"), "name", None)):
        module = sys.modules.get(name) if isinstance(name, str) else None
        if module is not None and vars(module) is value:
            return str(name)
    return ""


def _name_of(op: Op) -> str:
    known = ir.GRAPH_OPS if isinstance(op, GraphOp) else REGISTRY
    if known.get(op.name) is not op:
        raise Unkept(f"the op {op.name}")
    return op.name


def _op(name: str, of_graph: bool) -> Op:
    return (ir.GRAPH_OPS if of_graph else REGISTRY)[name]


def _flat(graph: Graph) -> tuple[Any, ...]:
    """What a graph computes, without nesting: as rows, with arguments by number (a deep one would
    not fit the stack)."""
    needed = ir.reachable(graph.outputs)
    nodes = [*graph.inputs, *(n for n in graph.nodes if n in needed)]
    number = {n: i for i, n in enumerate(nodes)}
    rows = [
        (n.op, tuple([(number[a],) if isinstance(a, Node) else a for a in n.args]),
         dict(n.attrs), n.avals, tuple(n.where))
        for n in nodes
    ]  # fmt: skip
    return graph.name, len(graph.inputs), rows, [number[o] for o in graph.outputs]


def _graph(name: str, inputs: int, rows: list[Any], outputs: list[int]) -> Graph:
    nodes: list[Node] = []
    for op, args, attrs, avals, where in rows:
        given = tuple([nodes[a[0]] if type(a) is tuple else a for a in args])
        nodes.append(Node(op, given, attrs, avals, ir.Where(*where)))
    return Graph(
        tuple(nodes[:inputs]), tuple(nodes[inputs:]), tuple(nodes[i] for i in outputs), name
    )
