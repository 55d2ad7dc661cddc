"""`eager.utils`: what surrounds training. `data` feeds it, `tensorboard` records it, `checkpoint`
is PyTorch's call for recomputation."""

from eager.utils import checkpoint, data, tensorboard

__all__ = ["checkpoint", "data", "tensorboard"]
