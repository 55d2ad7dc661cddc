"""`eager.utils`: what surrounds training. `data` feeds it, `tensorboard` records it."""

from eager.utils import data, tensorboard

__all__ = ["data", "tensorboard"]
