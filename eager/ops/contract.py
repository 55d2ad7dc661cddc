"""Ops of kind `contract`: sums of products. dot (batched matrix product), conv and its two
gradients -> tensors.

matmul, linear, einsum and the like are compositions of these with views; a transposed convolution
is `conv_input_grad`. 16-bit floats are multiplied and summed in float32 and rounded once.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from eager.core.dispatch import apply
from eager.core.op import Attrs, Op
from eager.ops import conv_kernels as kernels
from eager.ops.conv_kernels import Geometry
from eager.sizes.aval import Aval


def _same_dtype(name: str, a: Aval, b: Aval) -> None:
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"{name}: expected both operands to have the same dtype, but got {a!r} and {b!r}: "
            "convert one with .to(dtype)"
        )


def _channels_last(x: Aval, channels: int) -> str:
    """A hint where the channels are the last dimension."""
    if x.ndim not in (4, 5) or x.shape[-1] != channels:
        return ""
    order = ", ".join(map(str, (0, x.ndim - 1, *range(1, x.ndim - 1))))
    return f": they seem to be its last dimension, use input.permute({order})"


class Contract(Op):
    """Base: computes in the dtype's computing type and rounds the result once."""

    kind: ClassVar[str] = "contract"

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        wide = outs[0].dtype.compute.np
        a, b = (np.asarray(x).astype(wide, copy=False) for x in arrays)
        result = self.kernel(a, b, attrs)
        return (result.astype(outs[0].dtype.np, copy=False),)

    def kernel(self, a: Any, b: Any, attrs: Attrs) -> Any:
        """The product on two arrays of one type."""
        raise NotImplementedError


class Dot(Contract):
    """dot(a, b): a (*B, M, K), b (*B, K, N) -> (*B, M, N), with equal batch dims."""

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        a, b = avals
        fits = a.ndim == b.ndim >= 2 and a.shape[:-2] == b.shape[:-2]
        if not fits or a.shape[-1] != b.shape[-2]:
            raise RuntimeError(f"dot: shapes {a.shape} and {b.shape} cannot be multiplied")
        _same_dtype("matmul", a, b)
        return (Aval((*a.shape[:-1], b.shape[-1]), a.dtype, a.device),)

    def kernel(self, a: Any, b: Any, attrs: Attrs) -> Any:
        # NumPy makes `@` of bools an OR of ANDs, as wanted; integers wrap around.
        return np.matmul(a, b) if a.ndim == 2 else np.matmul(a, b, order="C")


def _dot_vjp(g: Any, a: Any, b: Any, needs: Any) -> tuple[Any, ...]:
    return (
        apply(DOT, g, b.mT) if needs[0] else None,
        apply(DOT, a.mT, g) if needs[1] else None,
    )


DOT = Dot("dot", ("a", "b"), _dot_vjp, saves_for={"a": (1,), "b": (0,)})


def _geometry(kernel: tuple[int, ...], attrs: Attrs) -> Geometry:
    return Geometry(
        kernel, attrs["stride"], attrs["padding"], attrs["dilation"], attrs.get("groups", 1)
    )


def require_steps(
    stride: tuple[int, ...], padding: tuple[int, ...], dilation: tuple[int, ...]
) -> None:
    """RuntimeError for steps that lead nowhere."""
    for name, values, least in (
        ("stride", stride, 1), ("padding", padding, 0),
        ("dilation", dilation, 1),
    ):  # fmt: skip
        if any(type(n) is int and n < least for n in values):
            raise RuntimeError(f"conv: {name} must be at least {least}, got {list(values)}")


class Conv(Contract):
    """conv(x, w; stride, padding, dilation, groups): x (N, C, *S), w (O, C / groups, *K) -> (N, O,
    *P)."""

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        x, w = avals
        _same_dtype("conv", x, w)
        groups = attrs["groups"]
        if x.ndim != w.ndim or x.ndim < 3:
            raise RuntimeError(
                f"conv: input of shape {x.shape} and weight of shape {w.shape} must have the same "
                "number of dimensions: (N, C, *spatial) and (O, C / groups, *kernel)"
            )
        if x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
            raise RuntimeError(
                f"Given groups={groups}, weight of size {list(w.shape)}, expected "
                f"input{list(x.shape)} to have {w.shape[1] * groups} channels, but got "
                f"{x.shape[1]} channels instead{_channels_last(x, w.shape[1] * groups)}"
            )
        require_steps(attrs["stride"], attrs["padding"], attrs["dilation"])
        out = _geometry(w.shape[2:], attrs).out_size(x.shape[2:])
        if any(s <= 0 for s in out):
            raise RuntimeError(
                f"conv: kernel {w.shape[2:]} with dilation {attrs['dilation']} is larger than the "
                f"input {x.shape[2:]} padded by {attrs['padding']}"
            )
        return (Aval((x.shape[0], w.shape[0], *out), x.dtype, x.device),)

    def kernel(self, a: Any, b: Any, attrs: Attrs) -> Any:
        return kernels.conv(a, b, _geometry(b.shape[2:], attrs))


def _conv_vjp(
    g: Any,
    x: Any,
    w: Any,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    avals: Any,
    needs: Any,
) -> tuple[Any, ...]:
    rest = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return (
        apply(CONV_INPUT_GRAD, g, w, input_shape=avals[0].shape, **rest) if needs[0] else None,
        apply(CONV_WEIGHT_GRAD, g, x, weight_shape=avals[1].shape, **rest) if needs[1] else None,
    )


CONV = Conv("conv", ("x", "w"), _conv_vjp, saves_for={"x": (1,), "w": (0,)})


class ConvInputGrad(Contract):
    """conv_input_grad(g, w; input_shape, stride, padding, dilation, groups) -> input_shape.

    The adjoint of `conv` in x. Read forwards it is the transposed convolution."""

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        g, w = avals
        _same_dtype(self.name, g, w)
        shape = tuple(attrs["input_shape"])
        out = _geometry(w.shape[2:], attrs).out_size(shape[2:])
        want = (shape[0], w.shape[0], *out)
        if g.shape != want or shape[1] != w.shape[1] * attrs["groups"]:
            raise RuntimeError(
                f"{self.name}: gradient {g.shape} and weight {w.shape} do not belong to an input "
                "of "
                f"shape {shape} (its result has shape {want})"
            )
        return (Aval(shape, g.dtype, g.device),)

    def kernel(self, a: Any, b: Any, attrs: Attrs) -> Any:
        return kernels.conv_input_grad(a, b, attrs["input_shape"], _geometry(b.shape[2:], attrs))


def _conv_input_grad_vjp(
    g: Any,
    operand: Any,
    w: Any,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    avals: Any,
    needs: Any,
) -> tuple[Any, ...]:
    rest = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return (
        apply(CONV, g, w, **rest) if needs[0] else None,
        apply(CONV_WEIGHT_GRAD, operand, g, weight_shape=avals[1].shape, **rest)
        if needs[1]
        else None,
    )


CONV_INPUT_GRAD = ConvInputGrad(
    "conv_input_grad",
    ("operand", "w"),
    _conv_input_grad_vjp,
    saves_for={"operand": (1,), "w": (0,)},
)


class ConvWeightGrad(Contract):
    """conv_weight_grad(g, x; weight_shape, stride, padding, dilation, groups) -> weight_shape."""

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        g, x = avals
        _same_dtype(self.name, g, x)
        shape = tuple(attrs["weight_shape"])
        want = (x.shape[0], shape[0], *_geometry(shape[2:], attrs).out_size(x.shape[2:]))
        if g.shape != want:
            raise RuntimeError(
                f"{self.name}: gradient {g.shape} and input {x.shape} do not belong to a weight of "
                f"shape {shape} (its result has shape {want})"
            )
        return (Aval(shape, g.dtype, g.device),)

    def kernel(self, a: Any, b: Any, attrs: Attrs) -> Any:
        shape = tuple(attrs["weight_shape"])
        return kernels.conv_weight_grad(a, b, shape, _geometry(shape[2:], attrs))


def _conv_weight_grad_vjp(
    g: Any,
    operand: Any,
    x: Any,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    avals: Any,
    needs: Any,
) -> tuple[Any, ...]:
    rest = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return (
        apply(CONV, x, g, **rest) if needs[0] else None,
        apply(CONV_INPUT_GRAD, operand, g, input_shape=avals[1].shape, **rest)
        if needs[1]
        else None,
    )


CONV_WEIGHT_GRAD = ConvWeightGrad(
    "conv_weight_grad",
    ("operand", "x"),
    _conv_weight_grad_vjp,
    saves_for={"operand": (1,), "x": (0,)},
)
