"""`eager.autograd.functional`: derivatives of functions at a point. (func, inputs) -> products with
the Jacobian or the Hessian, or these themselves.

`func` takes tensors and returns one or several; where `inputs` is one tensor (not a tuple), so is
the result for it. Results have no history unless `create_graph`. With `strict`, an output that does
not depend on an input is a RuntimeError instead of zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eager.autograd import enable_grad, grad
from eager.autograd.vmapped import directions, vmap
from eager.core.dispatch import variable
from eager.core.tape import full
from eager.core.tensor import Tensor
from eager.ops.move import stack

Tensors = tuple[Tensor, ...]


def _tuple(x: Any) -> Tensors:
    return (x,) if isinstance(x, Tensor) else tuple(x)


def _like(given: Any, results: Sequence[Any], create_graph: bool) -> Any:
    """`results` with or without their history: one alone where `given` is one tensor."""
    kept = tuple(r if create_graph else r.detach() for r in results)
    return kept[0] if isinstance(given, Tensor) else kept


def _prepared(inputs: Any, create_graph: bool) -> Tensors:
    """The inputs as leaves of their own, or as views that the caller's history goes through."""
    return tuple(variable(x if create_graph else x.detach()) for x in _tuple(inputs))


def _gradients(
    outs: Sequence[Tensor], ins: Tensors, v: Any, create_graph: bool, strict: bool
) -> Tensors:
    """v^T J for each input, zeros where nothing depends on it."""
    pairs = [(o, g) for o, g in zip(outs, v, strict=True) if o.requires_grad]
    if not pairs:
        found: Sequence[Any] = (None,) * len(ins)
    else:
        live, given = zip(*pairs, strict=True)
        found = grad(live, ins, given, retain_graph=True, create_graph=create_graph,
                     allow_unused=True)  # fmt: skip
    if strict and None in [None if g is None else 1 for g in found]:
        i = next(i for i, g in enumerate(found) if g is None)
        raise RuntimeError(
            f"The output of the user-provided function is independent of input {i}. This is not "
            "allowed in strict mode."
        )
    return tuple(full(0, x.aval) if g is None else g for g, x in zip(found, ins, strict=True))


def _vector(v: Any, like: Tensors, what: str) -> Tensors:
    """`v` in the shapes of `like`; ones for a single element if there is none."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                f"The vector v can only be None if {what} a single Tensor with a single element."
            )
        return (full(1, like[0].aval),)
    given = _tuple(v)
    if len(given) != len(like):
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got "
                           f"{len(given)}.")  # fmt: skip
    for i, (a, b) in enumerate(zip(given, like, strict=True)):
        if a.shape != b.shape:
            raise RuntimeError(f"v has invalid size: entry {i} should be {b.shape} but got "
                               f"{a.shape}.")  # fmt: skip
    return given


def _zeros(tensors: Sequence[Tensor]) -> Tensors:
    return tuple(variable(full(0, t.aval)) for t in tensors)


def vjp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """(func(*inputs), v^T J). `v` has the shapes of the outputs."""
    with enable_grad():
        ins = _prepared(inputs, create_graph)
        out = func(*ins)
        outs = _tuple(out)
        given = _vector(v, outs, "the user-provided function returns")
        found = _gradients(outs, ins, given, create_graph, strict)
    return _like(out, outs, create_graph), _like(inputs, found, create_graph)


def jvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """(func(*inputs), J v). `v` has the shapes of the inputs. u^T J is linear in u: its derivative
    is J (double backward)."""
    with enable_grad():
        ins = _prepared(inputs, create_graph)
        given = _vector(v, ins, "the input to the user-provided function is")
        out = func(*ins)
        outs = _tuple(out)
        dual = _zeros(outs)
        found = _gradients(outs, ins, dual, True, strict)
        products = _gradients(found, dual, given, create_graph, False)
    return _like(out, outs, create_graph), _like(out, products, create_graph)


def _check_strategy(strategy: str, create_graph: bool, strict: bool, vectorize: bool) -> None:
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            f"Expected strategy to be forward-mode or reverse-mode, got {strategy}"
        )
    if strategy == "reverse-mode":
        return
    if strict and not create_graph:
        raise RuntimeError("jacobian: `strict=True` and a forward strategy do not go together")
    if create_graph or not vectorize:
        raise NotImplementedError(
            "jacobian: a forward strategy needs vectorize=True, and create_graph=False"
        )


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The derivative of each output by each input: shape (*output, *input), by output, then input.

    One backward per element of the outputs; `vectorize`: one for all elements of an output, by
    `vmap`. RuntimeError for that with `strict`. `strategy` changes no result; as in PyTorch,
    "forward-mode" raises NotImplementedError without `vectorize`, and with `create_graph`."""
    _check_strategy(strategy, create_graph, strict, vectorize)
    if vectorize and strict:
        raise RuntimeError(
            "jacobian: `strict=True` and `vectorize=True` are not supported together"
        )
    with enable_grad():
        ins = _prepared(inputs, create_graph)
        out = func(*ins)
        if not all(isinstance(o, Tensor) for o in _tuple(out)):
            raise TypeError("jacobian: the function is to return a Tensor or a tuple of Tensors")
        rows = tuple(_rows(o, ins, create_graph, strict, vectorize) for o in _tuple(out))
    per_output = [_like(inputs, row, create_graph) for row in rows]
    return per_output[0] if isinstance(out, Tensor) else tuple(per_output)


def _rows(out: Tensor, ins: Tensors, create_graph: bool, strict: bool, vectorize: bool) -> Tensors:
    if vectorize:
        found = vmap(lambda g: _gradients((out,), ins, (g,), create_graph, strict))(directions(out))
        return tuple(row.reshape((*out.shape, *x.shape)) for row, x in zip(found, ins, strict=True))
    flat = out.reshape(-1)
    found = [
        _gradients((flat[j],), ins, (full(1, flat[j].aval),), create_graph, strict)
        for j in range(flat.numel())
    ]
    return tuple(
        stack([row[i] for row in found]).reshape((*out.shape, *x.shape))
        if found
        else x.new_zeros((*out.shape, *x.shape))
        for i, x in enumerate(ins)
    )


def _scalar(func: Callable[..., Any], name: str) -> Callable[..., Any]:
    def checked(*inputs: Any) -> Any:
        out = func(*inputs)
        if not isinstance(out, Tensor):
            raise RuntimeError(  # noqa: TRY004 - as PyTorch
                f"The function given to {name} should return a single Tensor"
            )
        if out.numel() != 1:
            raise RuntimeError(
                f"The Tensor returned by the function given to {name} should contain a single "
                "element"
            )
        return out.squeeze()

    return checked


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a function with one element: (*input i, *input j) for each pair."""
    checked = _scalar(func, "hessian")

    def first(*ins: Any) -> Any:
        found = jacobian(checked, ins, create_graph=True, strict=strict, vectorize=vectorize)
        return found[0] if isinstance(inputs, Tensor) else found

    return jacobian(first, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


def vhp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """(func(*inputs), v^T H) for a function with one element."""
    with enable_grad():
        ins = _prepared(inputs, create_graph)
        given = _vector(v, ins, "the input to the user-provided function is")
        out = _scalar(func, "vhp")(*ins)
        first = _gradients((out,), ins, (full(1, out.aval),), True, strict)
        found = _gradients(first, ins, given, create_graph, strict)
    return _like(out, (out,), create_graph), _like(inputs, found, create_graph)


def hvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """(func(*inputs), H v): the same as `vhp`, as H is symmetric."""
    return vhp(func, inputs, v, create_graph, strict)
