"""Beside the pointwise ops: a record and its public function from one entry. name, body, derivative
-> op, function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eager.base.scalar import VOCABULARY
from eager.core.dispatch import apply_binary, apply_unary, with_tensor
from eager.core.op import Samples
from eager.core.registry import public, require_tensors
from eager.core.tensor import Tensor
from eager.ops import samples as s
from eager.ops.kinds import Pointwise
from eager.sizes.aval import Aval

UnaryFn = Callable[[Tensor], Tensor]
BinaryFn = Callable[[Any, Any], Tensor]
Body = Callable[..., Any]
Vjp = Callable[..., tuple[Any, ...]]


def _ufunc(name: str) -> Any:
    """NumPy's ufunc of an intrinsic, for bodies that are just that intrinsic."""
    found = VOCABULARY[name].numpy if name in VOCABULARY else None
    return found if isinstance(found, np.ufunc) else None


def not_for(name: str, *kinds: int) -> Callable[[Sequence[Aval]], str]:
    """`refuses` of an op whose first operand is of none of these kinds: `dt.BOOL`, ..."""

    def refuses(operands: Sequence[Aval]) -> str:
        kind = operands[0].dtype
        if kind.category in kinds and not operands[0].weak:
            raise NotImplementedError(f'"{name}" not implemented for {kind}: convert it first')
        return ""

    return refuses


def unary(
    name: str,
    body: Body | str,
    vjp: Vjp | None = None,
    *,
    result: str = "float",
    takes: str = "any",
    refuses: Callable[[Sequence[Aval]], str] | None = None,
    of_complex: Callable[..., Any] | None = None,
    samples: Samples | None = None,
    doc: str = "",
    **how: Any,
) -> UnaryFn:
    """Register an op of one operand and its public function `name(input)`.

    `body` may be the name of an intrinsic. `how` goes to `public` (alias, torch, method,
    inplace)."""
    spelled: Body = (lambda m, x: getattr(m, body)(x)) if isinstance(body, str) else body
    ufunc = _ufunc(body) if isinstance(body, str) and refuses is None else None
    op = Pointwise(
        name, ("x",), vjp, body=spelled, result=result, ufunc=ufunc, of_complex=of_complex,
        takes=takes, refuses=refuses,
    )  # fmt: skip

    def fn(input: Tensor) -> Tensor:
        return apply_unary(op, input)

    fn.__name__ = fn.__qualname__ = name
    fn.unary_op = op  # type: ignore[attr-defined]
    fn.__doc__ = doc or f"Elementwise {name}."
    return public(name, samples=samples or s.on(), **{"inplace": True, **how})(fn)


def binary_op(name: str, body: Body | str, vjp: Vjp | None = None, **kwargs: Any) -> Pointwise:
    """Register an op of two operands."""
    spelled: Body = (lambda m, x, y: getattr(m, body)(x, y)) if isinstance(body, str) else body
    ufunc = _ufunc(body) if isinstance(body, str) else None
    return Pointwise(name, ("x", "y"), vjp, body=spelled, ufunc=ufunc, **kwargs)


def binary(
    op: Pointwise,
    *,
    doc: str = "",
    samples: Samples | None = None,
    tensors: str = "",
    **how: Any,
) -> BinaryFn:
    """The public function `name(input, other)` of an op of two operands, of which `tensors` must
    be tensors (see `needs_tensors`)."""
    both = tensors == "both"

    def fn(input: Any, other: Any) -> Tensor:
        if tensors and (type(input) is not Tensor or (both and type(other) is not Tensor)):
            require_tensors(op.name, tensors, (input, other))
        return apply_binary(op, input if tensors else with_tensor(input, other), other)

    fn.__name__ = fn.__qualname__ = op.name
    fn.__doc__ = doc or f"Elementwise {op.name} of two tensors, or a tensor and a number."
    inplace = op if op.ufunc is not None and op.result == "promote" else True
    return public(op.name, samples=samples or s.on_two(), **{"inplace": inplace, **how})(fn)
