"""Capture: tensors, run-time numbers, and NumPy's arrays from outside, of which tensors are made.

A tensor from outside is a stand-in whose array is a graph input; what `eager` does with it appends
nodes. An array that is converted or picks elements is an input of the graph too, read anew at every
call: `from_numpy(batch)`, `x[places]`. What NumPy itself does with it splits the program, but for
parts and shapes of it.
"""

from __future__ import annotations

import operator
from types import FunctionType
from typing import Any, Final

import numpy as np

from eager.base import dtype as dt
from eager.base.compat_warnings import warn_if_read_only
from eager.base.dataclass import dataclass
from eager.construct.interop import shared
from eager.core.grad_fn_names import label_of
from eager.core.stand_in import StandInStorage
from eager.core.storage import InferenceStorage, Storage
from eager.core.tape import mode
from eager.core.tensor import UNREAD, Tensor, wrap
from eager.core.traced import Traced, TracedStorage
from eager.device.array import DeviceArray
from jitcap.base.breaks import Break
from jitcap.base.call_policy import is_native_class
from jitcap.base.origin import Attribute, Computed, DictOf, Item, ItemBy, Origin, result_of
from jitcap.base.terms import Row, Term, attribute, field, method, text
from jitcap.capture.epilogue_writes import ATTRIBUTE, OWN, USER_NAMES, Effect, Emitter
from jitcap.capture.inputs import Shadow
from jitcap.capture.kinds.base import KINDS, MISSING, Args, Kwargs, Session, defines, of
from jitcap.capture.kinds.classes import bind, class_raw, is_data
from jitcap.capture.kinds.constants import NativeKind, Opaque, OpaqueKind
from jitcap.capture.kinds.deferred import Deferred, defer, for_numpy
from jitcap.capture.kinds.symbolic.keys import may_stand
from jitcap.capture.kinds.symbolic.sequences import rows_of_data, sized_iterator
from jitcap.capture.kinds.views import load_view
from jitcap.capture.sizes import out
from jitcap.graph.graph import INPUT
from jitcap.guards.guard import Absent, Equals, TypeIs
from jitcap.guards.tensor_guard import TensorLike, is_writable

TENSOR_FIELDS: Final = frozenset(
    {"_array", "_counts", "_storage", "_requires_grad", "_node", "_index", "_grad", "_view",
     "_hooks", "_accumulate_hooks", "_retains", "_shown_for"}
)  # fmt: skip
# What a stand-in does not know of the tensor: its memory, and what it was before.
_UNKNOWN: Final = frozenset({"data_ptr", "__array__", "__dict__", "_version", "_base", "_view"})
_WATCHES: Final = ("__setattr__", "__getattribute__", "__del__")
_HOOKS: Final = ("_hooks", "_accumulate_hooks")
_HISTORY: Final = frozenset({"is_leaf", "grad_fn", "output_nr"})


class TensorShadow(Shadow):
    """A stand-in for a tensor from outside. `node`: the graph input with its value on entry."""

    def __init__(self, real: Tensor, origin: Origin, twin: Tensor, node: Any) -> None:
        super().__init__(real, origin, twin)
        self.node = node
        self.memory: TracedStorage = twin._array.storage
        self.requires_grad = twin._requires_grad
        self.grad: Any = UNREAD  # what was loaded for `.grad`
        self.extra: dict[str, Any] = {}  # attributes that the user put on it, as loaded
        self.hooks: dict[str, dict[int, Any]] = {}  # its tables of hooks, which handles hold too

    def has_history(self) -> bool:
        """True if the tensor from outside has a node on the tape."""
        return self.real._node is not None

    def is_derived(self) -> bool:
        """True if it is a view of another tensor outside, or was computed there on the tape."""
        return self.real._view is not None or self.has_history()

    def load_grad(self, s: Session) -> Any:
        """Its gradient, which is read for the first time."""
        self.grad = s.outside.load(self.real._grad, Attribute(self.origin, "_grad"))
        return self.grad

    def look(self) -> Any:
        """Properties that its guard checks of any tensor that could be the same one."""
        aval = self.node.aval
        return type(self.real), aval.dtype, aval.ndim, self.requires_grad, aval.device

    def place(self) -> Any:
        """The memory that it lies in."""
        return self.real._memory()[0]

    def is_on_host(self) -> bool:
        return type(self.real._array) is not DeviceArray

    def storage(self) -> int:
        return id(self.real._storage)

    def changed(self) -> bool:
        """Each field is looked at when it is written."""
        return True

    def mark(self) -> tuple[Any, ...]:
        twin, found = self.twin, dict[str, Any]()
        if twin._grad is not UNREAD and twin._grad is not self.grad:
            found["_grad"] = twin._grad
        if twin._requires_grad is not self.requires_grad:
            found["_requires_grad"] = twin._requires_grad
        found |= self._changed_hooks() | self._extra_now()
        if twin._node is not None or self.has_another_array():
            found["_array"] = twin._node, twin._array
        if twin._storage.version or twin._storage.history:
            found["_storage"] = twin._storage.version, twin._storage.history
        return tuple((k, v if type(v) in (bool, set, tuple) else id(v)) for k, v in found.items())

    def has_another_array(self) -> bool:
        array = self.twin._array  # of a constant, if that was set as `.data`
        return type(array) is not Traced or array.storage is not self.memory or bool(array.chain)

    def _extra_now(self) -> dict[str, Any]:
        """The attributes of the user's that the program set."""
        held = self.twin.__dict__
        if held.keys() <= TENSOR_FIELDS:
            return {}
        own = held.keys() - TENSOR_FIELDS
        return {k: v for k, v in held.items() if k in own and self.extra.get(k, MISSING) is not v}

    def _changed_hooks(self) -> dict[str, set[Any]]:
        """The hooks by table, of those tables to which one was added, or from which one is gone."""
        twin, real = self.twin, self.real
        if twin._hooks is real._hooks is twin._accumulate_hooks is real._accumulate_hooks is None:
            return {}  # as most
        pairs = [(name, getattr(twin, name), getattr(real, name)) for name in _HOOKS]
        told = [(name, {*(now or ())}, was) for name, now, was in pairs if now or was]
        return {name: now for name, now, was in told if now != {*(was or ())}}

    def replay(self, make: Emitter) -> list[Effect]:
        twin, effects = self.twin, []

        def put(name: str, value: Term, model: Row = ()) -> None:
            at = USER_NAMES.get(name, name)
            effects.append(self.write(make, ATTRIBUTE, text(name), value, model=model, at=at))

        if twin._node is not None:
            raise Break("effect", f"{self.origin.show()} gets a history by an in-place operation")
        removed = self.hooks and [
            name for name, now in self.hooks.items() if len(now) < len(getattr(self.real, name))
        ]
        if removed or self._changed_hooks():
            raise Break("effect", f"a hook of {self.origin.show()} is registered or removed")
        if self.memory.handle is not self.node:
            make.writes.append((self, self.memory.handle))
        if self.has_another_array():
            if self.real._view is not None:
                raise Break("effect", f"{self.origin.show()}, a view, gets another array or shape")
            if twin._storage.inference or self.real._storage.inference:
                what = f"{self.origin.show()} gets another array, and inference tensors are there"
                raise Break("effect", what)
            again = make.expr(wrap(twin._array))
            own = type(twin._array) is Traced and twin._array.storage is self.memory
            if own:  # its views stay views of it
                put("_array", attribute(again, "_array"))
            else:
                put("data", again, ("set", attribute("t", "_array"), attribute("v", "_array")))
        if twin._requires_grad is not self.requires_grad:
            put("_requires_grad", repr(twin._requires_grad))
        if twin._grad is not UNREAD and twin._grad is not self.grad:
            if self.has_history() and not self.real._retains:
                raise Break("history", f"backward() goes on past {self.origin.show()}")
            put("_grad", make.expr(twin._grad))
        for key, value in self._extra_now().items():
            form = ATTRIBUTE if field("t", key)[0] == "attribute" else OWN
            effects.append(self.write(make, form, text(key), make.expr(value), at=key))
        return effects


def tensors_of(s: Session) -> list[TensorShadow]:
    """The tensors from outside."""
    return [*s.inputs.values()]


class TensorKind(NativeKind):
    """A tensor, and instances of its subclasses. `eager` answers; what the user put on one from
    outside is loaded first."""

    plain = later = True

    def load(self, s: Session, real: Tensor, origin: Origin) -> Any:
        """A stand-in whose array is a graph input."""
        if type(real._array) is Traced:
            what = f"{origin.show()} belongs to another capture that is going on"
            raise Break("opaque object", what)
        if id(type(real)) not in s.unwatched:
            if any(_user_member(s, type(real), name) is not MISSING for name in _WATCHES):
                raise Break("opaque object", f"{origin.show()} runs code when it is looked at")
            s.unwatched.add(id(type(real)))
        if id(real) in s.outside.by_real:  # found at another place: here it stands for another
            real = wrap(real._array, real._storage)
        where, memories = real._view, s.outside.assumed.memories
        shared = where is not None and id(real._storage) in memories and where.holds(real)
        requires_grad = real.requires_grad
        if shared and not requires_grad:
            return load_view(s, real, origin)
        layout = s.sizes.layout(real, origin)
        aval = layout.aval
        node = s.tracer.input(f"x{len(s.tracer.inputs)}", aval)
        storage = TracedStorage(s.tracer, node, aval, read_only=not is_writable(real._array))
        counts = StandInStorage(real._storage)
        twin = wrap(Traced(aval, storage, node, (), layout.strides), counts, type(real))
        if requires_grad:
            twin._requires_grad = True
        twin._grad = UNREAD
        s.guards.append(TensorLike.of(real, origin, s.line(), layout, counts.kind))
        shadow = TensorShadow(real, origin, twin, node)
        s.inputs[node] = s.owners[id(shadow.memory)] = shadow
        s.outside.register(shadow)
        if requires_grad and real._hooks is not None:
            for field in _HOOKS:
                hooks = s.outside.load(getattr(real, field), Attribute(origin, field))
                s.settle(hooks)
                shadow.hooks[field] = hooks
                setattr(twin, field, {key: s.reentry(hook) for key, hook in hooks.items()})
        return twin

    def rebuild(self, make: Emitter, value: Tensor) -> Term:
        return make.tensor(value)

    def getattr(self, s: Session, obj: Any, name: str) -> Any:
        for loop in s.rolls:
            loop.look(name)
        s.ties.asked(name, (obj,))
        shadow = s.outside.shadow(obj)
        if name == "__dict__":
            self.refuse(obj, ".__dict__")
        if isinstance(shadow, TensorShadow) and name not in obj.__dict__:
            if name in shadow.real.__dict__ and name not in TENSOR_FIELDS:
                place = Item(DictOf(shadow.origin), name)
                value = s.outside.load(shadow.real.__dict__[name], place)
                shadow.extra[name] = obj.__dict__[name] = value
            elif name in _UNKNOWN or (name in _HISTORY and shadow.real._node is not None):
                raise Break("data dependent", f".{name} of a tensor")
        if name == "grad_fn" and obj._node is not None and type(label_of(obj)) is not str:
            raise Break("data dependent", f".{name} of a tensor")
        if name == "_base" and obj._view is not None and s.outside.shadow(obj._view.base):
            raise Break("data dependent", f".{name} of a view of a tensor from outside")
        raw = _user_member(s, type(obj), name)
        if raw is not MISSING:
            data = is_data(s, raw)
            if data or name not in obj.__dict__:
                if isinstance(shadow, TensorShadow) and not data:
                    s.guard(Absent, DictOf(shadow.origin), name)
                return bind(s, raw, obj, type(obj))
        if name == "_version" and id(obj._storage) in s.counts:
            rows = s.counts[id(obj._storage)]
            return sum((count - most for _, most, count in rows), obj._version)
        try:
            return out(getattr(obj, name))
        except AttributeError:
            if isinstance(shadow, TensorShadow):
                s.guard(Absent, DictOf(shadow.origin), name)
            raise

    def setattr(self, s: Session, obj: Any, name: str, value: Any) -> None:
        raw = _user_member(s, type(obj), name)
        if isinstance(raw, property) and raw.fset is not None:
            s.call(raw.fset, (obj, value), {})
        elif defines(type(raw), "__set__"):
            self.refuse(obj, f".{name}, which its class sets in a way of its own,")
        else:
            setattr(obj, name, value)

    def delattr(self, s: Session, obj: Any, name: str) -> None:
        if s.special(obj, "__delattr__") is not None or not hasattr(Tensor, name):
            raise Break("effect", f"attribute {name!r} of a tensor is deleted")
        delattr(obj, name)

    def length(self, s: Session, obj: Any) -> Any:
        sizes = s.sizes.symbols and obj.ndim
        return out(obj._array.shape[0]) if sizes else super().length(s, obj)

    def iter(self, s: Session, obj: Any) -> Any:
        found = sized_iterator(s, obj) or rows_of_data(s, obj)
        return super().iter(s, obj) if found is None else found

    def special(self, s: Session, obj: Any, name: str) -> FunctionType | None:
        raw = _user_member(s, type(obj), name)
        return raw if isinstance(raw, FunctionType) else None

    def getitem(self, s: Session, obj: Any, key: Any) -> Any:
        for loop in s.rolls:
            if (found := loop.item(obj, key)) is not MISSING:
                return found
        return s.call_native(lambda place: obj[place], (_index(s, key),))

    def setitem(self, s: Session, obj: Any, key: Any, value: Any) -> None:
        if any(loop.store(obj, key, value) for loop in s.rolls):
            return
        for loop in s.rolls:
            key = loop.place(key)
        s.call_native(lambda *given: operator.setitem(obj, *given), (_index(s, key), value))

    def text(self, s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        return defer(s, fn, args, kwargs)

    def invoke(self, s: Session, owner: Any, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        return s.native(fn, args, kwargs)


def load_fields(s: Session, tensor: Any) -> None:
    """Load all that the user put on a tensor, for who looks at its dictionary."""
    shadow = s.outside.shadow(tensor)
    if isinstance(shadow, TensorShadow):
        names = own_names(shadow.real)
        place = result_of(own_names, shadow.origin)
        s.guard(Equals, place, names)
        for name in names:
            s.getattr(tensor, name)


def own_names(tensor: Any) -> tuple[str, ...]:
    """The names that the user put on a tensor."""
    return tuple(name for name in tensor.__dict__ if name not in TENSOR_FIELDS)


def has_own_names(s: Session, tensor: Tensor) -> bool:
    """True if the user set attributes on a tensor, here or outside."""
    shadow = s.outside.shadow(tensor)
    return bool(own_names(tensor) or (shadow is not None and own_names(shadow.real)))


def _user_member(s: Session, cls: type, name: str) -> Any:
    """The member that the user's code put into the class of a tensor, guarded; MISSING also where
    it is the library's own, which the guard says that it stays."""
    raw = class_raw(s, cls, name)
    if raw is not MISSING:
        for own in _OWN.values():
            if raw is own.get(name, MISSING):
                return MISSING
    return raw


_OWN: Final = {
    cls: dict(vars(cls))
    for cls in (object, Tensor, *filter(is_native_class, Tensor.__subclasses__()))
}


def replaced_member() -> str:
    """Name of a member of the library's own tensor classes that the program replaced, or empty:
    other functions of the library may use it."""
    for cls, own in _OWN.items():
        held = vars(cls)
        for name, value in own.items():
            if held.get(name) is not value and not name.startswith("__abstract"):
                return f"a tensor.{name}"
    return ""


def _index(s: Session, key: Any) -> Any:
    """Key that a tensor is indexed with, all of it loaded, with tensors for the arrays in it."""
    if type(key) is tuple:
        key = tuple(tensor_of(s, k) for k in key)
    else:
        key = tensor_of(s, key)
    s.settle(key)
    s.see_within(key, "an index")
    return key


# ---- arrays


class OutsideArray(Opaque):
    """A NumPy array from outside."""

    __slots__ = ()


_KNOWN: Final = frozenset(d.np for d in dt.ALL)


def _input(array: Any) -> Tensor | None:
    """The input that a guard checks: None where there is no tensor of the array."""
    known = type(array) is np.ndarray and array.dtype in _KNOWN
    if not known or min(array.strides, default=0) < 0:
        return None
    return wrap(shared(array)._array, Storage())  # a normal one in inference mode, too


@dataclass(frozen=True, slots=True, eq=False)
class AsTensor(Computed):
    """The tensor that shares an array's memory: another object at every call."""

    shows, show = "from_numpy({o.sources[0]})", Origin.show


def tensor_of(s: Session, value: Any) -> Any:
    """The tensor that shares the memory of an array from outside, or of one that will be made of a
    tensor; any other value as it is."""
    if type(value) is Deferred and value.cls is np.ndarray:
        return value.args[0].detach()
    if type(value) is not OutsideArray:
        return value
    shadow = s.outside.shadow(value)
    assert shadow is not None
    known = s.arrays.get(id(value))
    if known is None:
        made = _input(shadow.real)
        if made is None:
            return value
        of = (shadow.origin,), ("call", "$1", "$0"), (_input,)
        known = s.arrays[id(value)] = s.outside.load(made, AsTensor(*of))
    return wrap(known._array, InferenceStorage()) if mode.inference else known.detach()


def warn_of_array(s: Session, value: Any) -> None:
    """Warn as `from_numpy` does of an array from outside that is read-only."""
    shadow = s.outside.shadow(value)
    if shadow is not None:
        warn_if_read_only(shadow.real)


@of(OutsideArray)
class ArrayKind(OpaqueKind):
    """A NumPy array from outside: its layout and parts of it can be asked for."""

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        s.guard(TypeIs, origin, type(real))
        if id(real) in s.outside.by_real:  # as for tensors
            real = real.view()
        return s.outside.register(Shadow(real, origin, OutsideArray(type(real))))

    def getattr(self, s: Session, obj: Any, name: str) -> Any:
        if name not in ("shape", "ndim", "size", "dtype", "T"):
            return super().getattr(s, obj, name)
        shadow = s.outside.shadow(obj)
        assert shadow is not None
        return s.outside.load(getattr(shadow.real, name), Attribute(shadow.origin, name))

    def length(self, s: Session, obj: Any) -> Any:
        return self.getattr(s, obj, "shape")[0]

    def getitem(self, s: Session, obj: Any, key: Any) -> Any:
        """Raises Break unless `key` is made of ints. What is at ints that vary is read anew."""
        shadow = s.outside.shadow(obj)
        assert shadow is not None
        real, part = shadow.real, None
        place: Origin
        if may_stand(key) and key.leaf.value in range(-len(real), len(real)):
            part, place = real[key.leaf.value], ItemBy(shadow.origin, key.leaf.origin)
        elif type(key) is slice and (by := _slice_by(key)) is not None:
            part, place = real[by[0]], ItemBy(shadow.origin, by[1])
        else:
            key = _known(s, key)
            if _is_plain(key):
                part, place = real[key], Item(shadow.origin, key)
        if type(part) is np.ndarray or (type(part) is np.float64 and _is_as_it_came(s, obj)):
            return s.outside.load(part, place)
        return self.refuse(obj, "an item")


@of(np.ndarray)
class MadeArrayKind(NativeKind):
    """A NumPy array of constants, made inside; one from outside is an `OutsideArray`."""

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        return ARRAY.load(s, real, origin)

    def settle(self, s: Session, value: Any, depth: int) -> None:
        s.tracer.constant_memory.used(value)

    def getitem(self, s: Session, obj: Any, key: Any) -> Any:
        return super().getitem(s, obj, for_numpy(s, key))

    def setitem(self, s: Session, obj: Any, key: Any, value: Any) -> None:
        super().setitem(s, obj, for_numpy(s, key), for_numpy(s, value))

    def invoke(self, s: Session, owner: Any, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        self.settle(s, owner, 0)
        return s.foreign(owner, fn, args, kwargs)

    def rebuild(self, make: Emitter, value: Any) -> Term:
        """Another array with the same values at each call, a part of one as a part of that."""
        base = value.base
        while type(base) is np.ndarray and base.base is not None:
            base = base.base
        known = value.dtype in _KNOWN and (base is None or type(base) is np.ndarray)
        if not known or not value.flags.writeable or type(value) is not np.ndarray:
            return super().rebuild(make, value)
        if base is not None:
            start = value.__array_interface__["data"][0] - base.__array_interface__["data"][0]
            where = value.shape, value.dtype.str, start, value.strides
            return make.call(_part, base, *where)
        if value.size > _LARGEST or not value.flags.c_contiguous:
            return super().rebuild(make, value)
        make.session.tracer.constant_memory.leaves(value)
        return make.let(method(make.names.bind(value.copy()), "copy"))

    def text(self, s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        raise Break("numpy", "text of an array, which settings decide")


ARRAY: Final = KINDS[OutsideArray]
_LARGEST: Final = 1 << 16  # elements of an array whose values are part of the program


def _part(base: Any, shape: Any, dtype: str, start: int, strides: Any) -> Any:
    return np.ndarray(shape, dtype, base, start, strides)


def _is_as_it_came(s: Session, array: Any) -> bool:
    """True if the array was not written since the call began: a later write finds it guarded."""
    tensor = tensor_of(s, array)
    return tensor is not array and tensor._array.storage.handle.op is INPUT


def _known(s: Session, key: Any) -> Any:
    if type(key) is slice:
        return slice(*map(s.known, (key.start, key.stop, key.step)))
    return tuple(_known(s, k) for k in key) if type(key) is tuple else s.known(key)


def _slice_by(key: slice) -> tuple[slice, Origin] | None:
    """A slice at numbers that vary, and the origin that makes it. None of others."""
    parts = key.start, key.stop, key.step
    sources = tuple(part.leaf.origin for part in parts if may_stand(part))
    if not sources or not all(may_stand(p) or p is None or type(p) is int for p in parts):
        return None
    places = (f"${i}" for i in range(len(sources)))
    terms = (next(places) if may_stand(p) else repr(p) if p is None else p for p in parts)
    found = slice(*(p.leaf.value if may_stand(p) else p for p in parts))
    return found, Computed(sources, ("slice", *terms))


def _is_plain(key: Any) -> bool:
    if type(key) is slice:
        key = (key.start, key.stop, key.step)
    if type(key) is tuple:
        return all(map(_is_plain, key))
    return key is None or key is Ellipsis or type(key) is int
