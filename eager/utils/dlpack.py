"""`eager.utils.dlpack`: tensors to and from DLPack capsules, under PyTorch's names."""

from typing import Any

from eager.construct.interop import from_dlpack
from eager.core.tensor import Tensor

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule that shares the tensor's memory, to be read once."""
    return tensor.__dlpack__()
