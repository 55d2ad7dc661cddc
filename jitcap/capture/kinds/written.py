"""Capture: whether a tensor was written, which optimizers ask. a tensor -> what holds at this line
of the program. The handler is in the table of builtins."""

from __future__ import annotations

from eager.core.tensor import Tensor
from eager.ops.updates import is_written
from jitcap.base.breaks import Break
from jitcap.base.terms import attribute
from jitcap.capture.kinds.base import Session, handles
from jitcap.capture.kinds.tensors import TensorShadow


@handles(is_written)
def _is_written(s: Session, state: Tensor) -> bool:
    """The program knows its own writes, but for those of one way of a branch; what was there on
    entry is guarded."""
    unknown = id(state._storage) in s.counts
    if state._storage.version and not unknown:
        return True
    shadow = s.outside.shadow(state)
    answer = False
    if isinstance(shadow, TensorShadow):
        answer = is_written(shadow.real)
        s.guard_that(attribute("$0", "_storage", "version"), shadow.origin, answer=answer)
    if unknown and not answer:
        raise Break("data dependent", "whether a tensor was written")
    return answer
