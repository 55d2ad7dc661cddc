"""`eager.nn.parallel`: PyTorch's wrapper for several devices in one process. module -> the module,
called as it is.

Tensors live on one device here, and on one device PyTorch's wrapper calls the module too. That for
several processes, `DistributedDataParallel`, is in `eager.distributed`.
"""

from __future__ import annotations

from typing import Any

from eager.base import lazy_imports
from eager.base.misspelled import unknown
from eager.base.stub_modules import Absent
from eager.nn.modules.module import Module

__path__: list[str] = []  # PyTorch has it in parts: `from torch.nn.parallel.distributed import ...`
gather, parallel_apply, replicate, scatter = (
    Absent(f"nn.parallel.{name}", "tensors live on one device: there is nothing to distribute")
    for name in ("gather", "parallel_apply", "replicate", "scatter")
)


class DataParallel(Module):
    """Holds `module` (so that state keys start with "module.", as programs expect) and calls it."""

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        if device_ids is not None and len(device_ids) > 1:
            raise NotImplementedError(f"DataParallel: one device only, got device_ids={device_ids}")
        self.module = module
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
    module_kwargs: Any = None,
) -> Any:  # fmt: skip
    """Result of `DataParallel(module, ...)` for `inputs`."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*inputs, **(module_kwargs or {}))


def __getattr__(name: str) -> Any:
    """The wrapper for several processes, which few programs name."""
    if name == "DistributedDataParallel":
        return lazy_imports.submodule("eager", "distributed").DistributedDataParallel
    raise unknown(__name__, name)
