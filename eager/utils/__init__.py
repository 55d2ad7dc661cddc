"""`eager.utils`: what surrounds training. `eager.utils.data` feeds it."""

from eager.utils import data

__all__ = ["data"]
