"""Capture: what stands for a value that native code must not have. operation -> refusal."""

from __future__ import annotations

from typing import Any

from jitcap.base.breaks import Break


class Poison:
    """Stand-in for a value that native code must not have: nothing native can be done with it.

    Not equal, hashed, printed, nor asked for its truth by accident: the operations that every
    object has in Python refuse here."""

    __slots__ = ()

    def refusal(self) -> BaseException:
        """The error that says what cannot be done, and why."""
        raise NotImplementedError

    def _refuse(self, *_: Any) -> Any:
        raise self.refusal()

    __len__ = __getitem__ = __iter__ = __next__ = __contains__ = __bool__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refuse
    __repr__ = __str__ = __format__ = __int__ = __float__ = __complex__ = __index__ = _refuse
    __add__ = __radd__ = __mul__ = __rmul__ = __mod__ = __rmod__ = __sub__ = __rsub__ = _refuse
    __truediv__ = __rtruediv__ = __matmul__ = __rmatmul__ = __floordiv__ = __rfloordiv__ = _refuse
    __divmod__ = __rdivmod__ = __pow__ = __rpow__ = __and__ = __rand__ = __or__ = __ror__ = _refuse
    __xor__ = __rxor__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __neg__ = _refuse
    __pos__ = __invert__ = __abs__ = __round__ = __trunc__ = __floor__ = __ceil__ = _refuse
    __array__ = __reduce_ex__ = __copy__ = __deepcopy__ = _refuse


class SymbolicId(Poison):
    """`by(obj)`, the id of an object or a hash made of it: good for comparing, not for keeping (it
    is a stand-in that has it; the program's own object has another)."""

    __slots__ = ("by", "obj", "session")

    def __init__(self, s: Any, obj: Any, by: Any = id) -> None:
        self.session, self.obj, self.by = s, obj, by

    def refusal(self) -> Break:
        return Break("data dependent", f"the number that {self.by.__name__}() gives is looked at")

    def __eq__(self, other: object) -> bool:
        if type(other) is not SymbolicId or other.by is not self.by:
            raise self.refusal()
        return self.session.same(self.obj, other.obj)

    def __hash__(self) -> int:
        return id(self.obj)


def refuse_identity(key: Any) -> None:
    """A table from outside is asked for an id, which is another one there."""
    if type(key) is tuple:
        for part in key:
            refuse_identity(part)
    elif type(key) is SymbolicId:
        raise key.refusal()
