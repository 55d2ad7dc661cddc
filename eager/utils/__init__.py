"""`eager.utils`: what surrounds training. `data` feeds it, `tensorboard` records it, `checkpoint`
is PyTorch's call for recomputation, `dlpack` shares memory with other libraries, `model_zoo` has
weights from the net, `benchmark` times statements, `collect_env` describes the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eager.base import lazy_imports as _lazy_imports
from eager.utils import _pytree, checkpoint, dlpack, hooks

if TYPE_CHECKING:
    from eager.utils import benchmark, collect_env, data, model_zoo, tensorboard

__all__ = [
    "_pytree", "benchmark", "checkpoint", "collect_env", "data", "dlpack", "hooks", "model_zoo",
    "tensorboard",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    return _lazy_imports.submodule("eager.utils", name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
