"""The backends, a folder each, over one walk of expressions. Fused or tiled kernels -> Artifact."""

from typing import Any as _Any

from eager.base import lazy_imports as _lazy_imports


def __getattr__(name: str) -> _Any:
    return _lazy_imports.submodule(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_lazy_imports.PARTS[__name__]})
