"""At the edge: `eager._foreach_add_(tensors, ...)` and its like, which custom optimizers call.
lists of tensors -> the same operation on each.

PyTorch has them to launch one kernel for many tensors; here they are loops, which `@jit` fuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from eager.core.tensor import Tensor
from eager.linalg import vector_norm

_LISTS: Final = (list, tuple)
_OPERATIONS: Final = (
    "abs", "acos", "add", "addcdiv", "addcmul", "asin", "atan", "ceil", "clamp_max", "clamp_min",
    "cos", "cosh", "div", "erf", "erfc", "exp", "expm1", "floor", "frac", "lerp", "lgamma", "log",
    "log10", "log1p", "log2", "mul", "neg", "pow", "reciprocal", "round",
    "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "sub", "tan", "tanh", "trunc",
)  # fmt: skip


def _at(value: Any, i: int) -> Any:
    return value[i] if isinstance(value, _LISTS) else value


def _each(name: str) -> Callable[..., tuple[Any, ...]]:
    def results(self: Any, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        if name.startswith("addc") and len(args) == 3:  # the factor may stand last
            *args, kwargs["value"] = args  # type: ignore[assignment]
        if "scalars" in kwargs:
            kwargs["value"] = kwargs.pop("scalars")
        return tuple(
            [
                getattr(x, name)(
                    *(_at(a, i) for a in args), **{k: _at(v, i) for k, v in kwargs.items()}
                )
                for i, x in enumerate(self)
            ]
        )

    return results


def _in_place(name: str) -> Callable[..., None]:
    every = _each(name)

    def change(self: Any, *args: Any, **kwargs: Any) -> None:
        every(self, *args, **kwargs)

    return change


def norm(self: Any, ord: float = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """The norm of each tensor."""
    return tuple([vector_norm(x if dtype is None else x.to(dtype), ord) for x in self])


FOREACH: Final[dict[str, Callable[..., Any]]] = {
    **{f"_foreach_{name}": _each(name) for name in _OPERATIONS},
    **{f"_foreach_{name}_": _in_place(f"{name}_") for name in (*_OPERATIONS, "copy", "zero")},
    "_foreach_norm": norm,
    "_foreach_maximum": _each("clamp_min"),  # the other may be a number
    "_foreach_maximum_": _in_place("clamp_min_"),
    "_foreach_minimum": _each("clamp_max"),
    "_foreach_minimum_": _in_place("clamp_max_"),
}
