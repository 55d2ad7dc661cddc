"""Capture: views whose base is an input, too. view from outside -> view of the base's stand-in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from eager.core.storage import owner_of
from eager.core.tensor import Tensor, ViewOf, wrap
from jitcap.base.breaks import Break
from jitcap.base.origin import Attribute, Origin
from jitcap.capture.epilogue_writes import Effect, Emitter
from jitcap.capture.inputs import Shadow
from jitcap.capture.kinds.base import Session
from jitcap.guards.tensor_guard import TensorLike, ViewOfBase


def require_entered(base: Any, origin: Origin) -> None:
    """A view that is loaded now is one of the array that its base had on entry. `base`: its
    shadow."""
    if base is not None and base.has_another_array():
        raise Break("aliasing", f"{origin.show()} is a view of what its base held before")


class ViewShadow(Shadow):
    """A stand-in for a view whose base is (through the view) an input itself."""

    def __init__(self, real: Tensor, origin: Origin, twin: Tensor) -> None:
        super().__init__(real, origin, twin)
        self.array = twin._array
        self.fields = frozenset(twin.__dict__)  # what is added is the program's

    def mark(self) -> tuple[Any, ...]:
        twin = self.twin
        plain = twin._node is None and twin._grad is None and not twin._requires_grad
        plain = plain and twin._hooks is None and self.fields >= twin.__dict__.keys()
        same = plain and twin._array is self.array
        return () if same else (id(twin._array), id(twin._node))

    def replay(self, make: Emitter) -> list[Effect]:
        raise Break("effect", f"{self.origin.show()}, a view of another input, is changed")


def load_view(s: Session, real: Tensor, origin: Origin) -> Any:
    """A view of its base's stand-in, so that writes to either show in both."""
    where = real._view
    assert where is not None
    s.guard(ViewOfBase, origin, type(real), where.chain)
    base = s.outside.load(where.base, Attribute(Attribute(origin, "_view"), "base"))
    require_entered(s.outside.shadow(base), origin)
    array = base._array
    for op, attrs in where.chain:
        array = array.view(op, attrs)
    made = (*array.shape, *array.strides)
    known = all(type(n) is int for n in made)
    alike = made == (*real.shape, *real._layout) if known else len(array.shape) == real.ndim
    if array.storage is not base._array.storage or not alike:  # its base has another shape now
        raise Break("aliasing", f"{origin.show()} is a view that cannot be made again")
    if known:
        s.guards.add(TensorLike.of(real, origin, s.line()))
    twin = wrap(array, base._storage, type(real))
    twin._view = ViewOf(base, where.chain, base._storage.history)
    return s.outside.register(ViewShadow(real, origin, twin))


def shared_memory(shadows: Sequence[Any]) -> Iterable[list[Any]]:
    """Tensors from outside, those together that lie in one piece of memory. It is told by its
    address; where each owns what it lies in, which takes less to ask, by that."""
    owners = [owner_of(s.real._array) if s.is_on_host() else None for s in shadows]
    alone = all(owner.flags.owndata for owner in owners if owner is not None)
    groups: dict[Any, list[Any]] = {}
    for s, owner in zip(shadows, owners, strict=True):
        place = s.place() if owner is None or not alone else ("owner", id(owner))
        groups.setdefault(place, []).append(s)
    return groups.values()
