"""`eager.utils`: what surrounds training. `data` feeds it, `tensorboard` records it, `checkpoint`
is PyTorch's call for recomputation, `dlpack` shares memory with other libraries."""

from eager.utils import checkpoint, data, dlpack, tensorboard

__all__ = ["checkpoint", "data", "dlpack", "tensorboard"]
