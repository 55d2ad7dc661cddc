"""Gradients against finite differences: `gradcheck`, `gradgradcheck`. a function and inputs ->
True, or an error that shows both Jacobians."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eager.autograd import enable_grad, grad, no_grad
from eager.base import dtype as dt
from eager.base.compat_warnings import ignore, refuse, warn_once
from eager.construct.interop import tensor
from eager.core.tensor import Tensor
from eager.random import randn_like

Tensors = tuple[Tensor, ...]


class GradcheckError(RuntimeError):
    """A gradient is not the limit of differences."""


def _only_reverse_mode(function: str, **options: bool) -> None:
    refuse(function, "derivatives of reverse mode are compared, and no more", **options)


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """True if the gradients of `func`'s outputs by the `inputs` that require one are central
    differences with steps of `eps`, to `atol` and `rtol`; GradcheckError, or False without
    `raise_exception`.

    Use float64 inputs. Complex inputs are refused, and so is what asks for more than derivatives of
    reverse mode; `fast_mode` and `masked` change nothing, and say so."""
    ignore("gradcheck", fast_mode=fast_mode, masked=masked)
    _only_reverse_mode(
        "gradcheck", check_grad_dtypes=check_grad_dtypes, check_batched_grad=check_batched_grad,
        check_batched_forward_grad=check_batched_forward_grad, check_forward_ad=check_forward_ad,
        not_backward=not check_backward_ad,
    )  # fmt: skip
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    leaves = tuple(x for x in given if isinstance(x, Tensor) and x.requires_grad)
    if not leaves:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them "
            "have requires_grad=True."
        )
    for i, x in enumerate(leaves):
        if x.dtype.is_complex:
            raise NotImplementedError("gradcheck: complex inputs: pass real and imaginary parts")
        if x.dtype is not dt.float64:
            warn_once(
                "gradcheck precision",
                f"Input #{i} requires gradient and is not a double precision floating point. This "
                "check will likely fail if all the inputs are not of double precision.",
            )
    try:
        _compare(func, given, leaves, (eps, atol, rtol), nondet_tol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _outputs(func: Callable[..., Any], given: Sequence[Any]) -> Tensors:
    """The outputs that can have a gradient."""
    result = func(*given)
    outs = result if isinstance(result, tuple | list) else (result,)
    return tuple(
        o for o in outs if isinstance(o, Tensor) and (o.dtype.is_floating_point or o.requires_grad)
    )


def _compare(
    func: Any, given: Any, leaves: Tensors, within: tuple[float, ...], nondet_tol: float
) -> None:
    eps, atol, rtol = within
    with enable_grad():
        outs = _outputs(func, given)
    if not outs:
        raise ValueError("gradcheck: the function returned no tensor that can have a gradient")
    analytical = [_rows(o, leaves) for o in outs]
    again = [_rows(o, leaves) for o in outs]
    numerical = _differences(func, given, leaves, eps)
    for i, (rows, second, differences) in enumerate(zip(analytical, again, numerical, strict=True)):
        for j, (a, b, n) in enumerate(zip(rows, second, differences, strict=True)):
            if a.size and np.abs(a - b).max() > nondet_tol:
                raise GradcheckError(
                    "Backward is not reentrant, i.e., running backward with same input and "
                    "grad_output multiple times gives different values, although analytical "
                    "gradient matches numerical gradient. The tolerance for nondeterminism was "
                    f"{nondet_tol}."
                )
            if not np.allclose(a, n, rtol=rtol, atol=atol):
                raise GradcheckError(
                    f"Jacobian mismatch for output {i} with respect to input {j},\n"
                    f"numerical:{n}\nanalytical:{a}\n"
                )


def _rows(out: Tensor, leaves: Tensors) -> list[Any]:
    """The Jacobian of one output by each leaf: (elements of the leaf, elements of the output)."""
    columns: list[list[Any]] = [[np.zeros(x.numel())] * out.numel() for x in leaves]
    if not out.requires_grad:
        return [np.stack(c, 1) if c else np.zeros((0, 0)) for c in columns]
    for k in range(out.numel()):
        pick = np.zeros(out.numel())
        pick[k] = 1.0
        v = tensor(pick).to(out).reshape(out.shape)
        found = grad([out], leaves, [v], retain_graph=True, allow_unused=True)
        for c, g in zip(columns, found, strict=True):
            if g is not None:
                c[k] = np.asarray(g.detach().cpu().numpy(), np.float64).reshape(-1)
    return [
        np.stack(c, 1) if c else np.zeros((x.numel(), 0))
        for c, x in zip(columns, leaves, strict=True)
    ]


def _differences(func: Any, given: Any, leaves: Tensors, eps: float) -> list[list[Any]]:
    """Jacobians by central differences, from calls with one element a step up and down."""

    def values() -> list[Any]:
        outs = _outputs(func, given)
        return [np.array(o.detach().cpu().numpy(), np.float64).reshape(-1) for o in outs]

    by_leaf: list[list[Any]] = []
    with no_grad():
        for x in leaves:
            data, steps = x.data, []
            for at in np.ndindex(tuple(x.shape)):
                before = data[at].item()
                data[at] = before + eps
                up = values()
                data[at] = before - eps
                down = values()
                data[at] = before
                steps.append([(a - b) / (2 * eps) for a, b in zip(up, down, strict=True)])
            counts = [v.size for v in values()]
            by_leaf.append(
                [
                    np.stack([s[i] for s in steps]) if steps else np.zeros((0, n))
                    for i, n in enumerate(counts)
                ]
            )
    return [list(column) for column in zip(*by_leaf, strict=True)]


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """`gradcheck` of the gradients of `func`, by its inputs and by `grad_outputs` (random by
    default)."""
    ignore("gradgradcheck", fast_mode=fast_mode, masked=masked)
    _only_reverse_mode(
        "gradgradcheck", check_grad_dtypes=check_grad_dtypes, check_fwd_over_rev=check_fwd_over_rev,
        check_batched_grad=check_batched_grad, not_rev_over_rev=not check_rev_over_rev,
        gen_non_contig_grad_outputs=gen_non_contig_grad_outputs,
    )  # fmt: skip
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    count = len(given)
    if grad_outputs is None:
        outs = [o for o in _outputs(func, given) if o.requires_grad]
        made = [randn_like(o).requires_grad_() for o in outs]
    else:
        made = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)

    def gradients(*args: Any) -> Tensors:
        with enable_grad():
            ins = args[:count]
            wanted = [x for x in ins if isinstance(x, Tensor) and x.requires_grad]
            results = [o for o in _outputs(func, ins) if o.requires_grad]
            found = grad(results, wanted, args[count:], create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients, (*given, *made), eps=eps, atol=atol, rtol=rtol,
        raise_exception=raise_exception, nondet_tol=nondet_tol,
    )  # fmt: skip
