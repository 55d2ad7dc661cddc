"""Capture: `copy.deepcopy` of tensors. a tensor, the memo of the program -> its copy; views of one
memory are of one memory again. Registered beside the handlers of `objects.py`."""

from __future__ import annotations

from typing import Any, Final

from eager.core.tensor import Tensor
from eager.nn.parameter import Parameter
from jitcap.capture.kinds.base import Session, handles_each
from jitcap.capture.kinds.poison import SymbolicId
from jitcap.capture.kinds.tensors import load_fields

_COPIED: Final = vars(Tensor)["__deepcopy__"]  # parameters share nothing with other copies


@handles_each(_COPIED, vars(Parameter)["__deepcopy__"])
def _deepcopied(s: Session, fn: Any, tensor: Any, memo: Any) -> Any:
    """The memo is the program's, and so are its keys; what is copied of memory is noted beside."""
    key = SymbolicId(s, tensor)
    _, memory, given = s.outside.memories.setdefault(id(memo), (memo, {}, {}))
    if not s.contains(key, memo):
        load_fields(s, tensor)
        base = tensor if tensor._view is None else tensor._view.base
        given.update({id(x): x for x in [s.outside.shadow(base)] if x and fn is _COPIED})
        s.setitem(memo, key, s.native(lambda x: fn(x, memory), (tensor,), {}))
        for each in [k for k in memory if type(k) is int]:
            del memory[each]  # the objects in here come and go
    return s.getitem(memo, key)
