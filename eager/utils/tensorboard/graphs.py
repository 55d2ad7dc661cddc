"""Under `eager.utils.tensorboard`: the graph of a model. a call of it -> a message `GraphDef`.

The model runs once, on a tape that records all of it: parameters and floating-point inputs require
gradients. What has no derivative (indices, comparisons) is not in the graph. A node stands in the
module that was running when it was made.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eager.autograd.grad_mode import enable_grad
from eager.base.tree import flatten
from eager.core.tape import Node
from eager.core.tensor import Tensor
from eager.nn.modules.hooks import register_module_forward_hook, register_module_forward_pre_hook
from eager.nn.modules.module import Module
from eager.nn.utils.stateless import functional_call
from eager.utils.tensorboard.event_file import field


class _Scopes:
    """Names of the modules in which nodes of the tape were made."""

    def __init__(self, model: Module) -> None:
        self.names: dict[Module, str] = {}
        self._name(model, type(model).__name__)
        self.running = [type(model).__name__]
        self.of: dict[Node, str] = {}

    def _name(self, module: Module, path: str) -> None:
        self.names.setdefault(module, path)
        for name, child in module.named_children():
            self._name(child, f"{path}/{type(child).__name__}[{name}]")

    def claim(self, values: Any) -> None:
        """Record the running module as the origin of nodes that `values` come from, if they have
        none."""
        rest = list(_nodes(values))
        while rest:
            node = rest.pop()
            if node not in self.of:
                self.of[node] = self.running[-1]
                rest.extend(e[0] for e in node.edges if e is not None and isinstance(e[0], Node))

    def enter(self, module: Module, args: Any) -> None:
        self.claim(args)
        self.running.append(self.names.get(module, self.running[-1]))

    def leave(self, _: Module, args: Any, out: Any) -> None:
        self.claim(out)
        self.running.pop()


def _tensors(values: Any) -> Iterable[Tensor]:
    return [x for x in flatten(values)[0] if isinstance(x, Tensor)]


def _nodes(values: Any) -> Iterable[Node]:
    return [x.grad_fn for x in _tensors(values) if x.grad_fn is not None]


def _leaf(tensor: Tensor) -> Tensor:
    """A leaf with the same values, at which a tape begins."""
    out = tensor.detach()
    return out.requires_grad_() if out.dtype.is_floating_point or out.dtype.is_complex else out


def graph_of(model: Module, inputs: Any) -> bytes:
    """The `GraphDef` of `model(*inputs)`; `inputs` may be one tensor."""
    args = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    args = tuple(_leaf(x) if isinstance(x, Tensor) else x for x in args)
    weights = {name: _leaf(p) for name, p in model.named_parameters()}
    scopes = _Scopes(model)
    hooks = (
        register_module_forward_pre_hook(scopes.enter),
        register_module_forward_hook(scopes.leave),
    )
    try:
        with enable_grad():
            out = functional_call(model, weights, args)
    finally:
        for hook in hooks:
            hook.remove()
    scopes.claim(out)
    paths = {path: scopes.names[module] for path, module in model.named_modules()}
    names: dict[int, str] = {id(x): f"input/x{i}" for i, x in enumerate(args)}
    for name, weight in weights.items():
        module, _, last = name.rpartition(".")
        names[id(weight)] = f"{paths[module]}/{last}"
    return b"".join(_defs(out, args, weights, scopes, names))


def _defs(
    out: Any,
    args: Any,
    weights: dict[str, Tensor],
    scopes: _Scopes,
    names: dict[int, str],
) -> Iterable[bytes]:
    """The messages of a graph: inputs, parameters, operations in the order of the run, outputs."""
    for x in _tensors(args):
        if id(x) in names:
            yield _node_def(names[id(x)], "IO Node", [], [tuple(x.shape)])
    for weight in weights.values():
        yield _node_def(names[id(weight)], "Parameter", [], [tuple(weight.shape)])
    for count, node in enumerate(sorted(scopes.of, key=lambda node: node.sequence)):
        kind = node.op.name if hasattr(node, "op") else node.name()
        names[id(node)] = f"{scopes.of[node]}/{kind}_{count}"
        sources = [_source(*e, names) for e in node.edges if e is not None and id(e[0]) in names]
        yield _node_def(names[id(node)], kind, sources, [a.shape for a in node.outs])
    for i, x in enumerate(_tensors(out)):
        source = [] if x.grad_fn is None else [_source(x.grad_fn, x.output_nr, names)]
        yield _node_def(f"output/output.{i}", "IO Node", source, [tuple(x.shape)])
    yield field(4, field(1, 22))  # versions: what TensorBoard may expect


def _source(target: Any, index: int, names: dict[int, str]) -> str:
    """An input of a node: which output of which other."""
    name = names[id(target)]
    return f"{name}:{index}" if index else name


def _node_def(name: str, op: str, inputs: list[str], shapes: list[Any]) -> bytes:
    sizes = b"".join(field(7, b"".join(field(2, field(1, n)) for n in shape)) for shape in shapes)
    attribute = field(1, "_output_shapes") + field(2, field(1, sizes))
    body = field(1, name) + field(2, op) + b"".join(field(3, source) for source in inputs)
    return field(1, body + field(5, attribute))
