"""Named tuples that functions with several results return, shown as in PyTorch. results -> tuple.

`eager.max(x, 0)` is an `eager.return_types.max`, with the fields `values` and `indices`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

K = TypeVar("K")


def shown_as(name: str) -> Any:
    """Decorator of a named tuple's class: how it is shown, as what the function `name` returns."""

    def show(self: Any) -> str:
        fields = zip(self._fields, self, strict=True)
        listed = ",\n".join(f"{field}={value!r}" for field, value in fields)
        return f"eager.return_types.{name}(\n{listed})"

    def decorate(kind: type[K]) -> type[K]:
        kind.__repr__ = show  # type: ignore[method-assign]
        return kind

    return decorate


def _kind(name: str, *fields: str) -> Any:
    kind: Any = shown_as(name)(NamedTuple(name, [(field, Any) for field in fields]))
    kind.__module__ = __name__
    return kind


max = _kind("max", "values", "indices")
min = _kind("min", "values", "indices")
median = _kind("median", "values", "indices")
nanmedian = _kind("nanmedian", "values", "indices")
mode = _kind("mode", "values", "indices")
kthvalue = _kind("kthvalue", "values", "indices")
sort = _kind("sort", "values", "indices")
topk = _kind("topk", "values", "indices")
cummax = _kind("cummax", "values", "indices")
cummin = _kind("cummin", "values", "indices")
aminmax = _kind("aminmax", "min", "max")
linalg_inv_ex = _kind("linalg_inv_ex", "inverse", "info")
linalg_cholesky_ex = _kind("linalg_cholesky_ex", "L", "info")
linalg_solve_ex = _kind("linalg_solve_ex", "result", "info")
