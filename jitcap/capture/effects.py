"""Capture's last step: what the program changed and returned -> the entry's epilogue, as source.

Twins are compared with what was loaded. The differences are written to the real objects after the
graph ran; then the host calls are made, in program order; then the value is returned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from eager.autograd import mode
from eager.tensor import UNREAD, Tensor, wrap
from eager.traced import Traced
from jitcap.capture.breaks import Break
from jitcap.capture.kinds.base import MISSING
from jitcap.capture.kinds.cells import CellShadow
from jitcap.capture.kinds.mappings import DictShadow
from jitcap.capture.kinds.objects import ObjectShadow
from jitcap.capture.kinds.sequences import ListShadow, SetShadow
from jitcap.capture.kinds.tensors import TENSOR_FIELDS, TensorShadow, ViewShadow
from jitcap.capture.origin import Attribute, Contents, Item, Origin
from jitcap.capture.outside import Shadow
from jitcap.capture.rebuild import CYCLE, Rebuilder
from jitcap.capture.session import Session
from jitcap.guards import Distinct, Names
from jitcap.tensor_guard import Memory

_MUTABLE: Final = (DictShadow, ListShadow, ObjectShadow, CellShadow, SetShadow)


@dataclass(slots=True)
class Epilogue:
    """`lines` make the values and replay the effects; `value` is the expression that is returned.

    `outputs` are the graph values that the lines call `o[i]`; `writes` pairs a tensor from outside
    with the index of the output that its memory takes."""

    lines: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)  # of the host, after everything else
    value: str = "None"
    outputs: list[Any] = field(default_factory=list)
    writes: list[tuple[TensorShadow, int]] = field(default_factory=list)
    tracked: dict[int, Tensor] = field(default_factory=dict)  # until the capture is finished
    histories: dict[int, str] = field(default_factory=dict)  # the names of their tape nodes
    result_of: dict[int, str] = field(default_factory=dict)
    owners: dict[int, str] = field(default_factory=dict)

    def release(self) -> None:
        """Let go of the capture's tensors: all that the program met hangs on them."""
        self.histories = {i: t._node.name() for i, t in self.tracked.items()}
        self.tracked = {}
        self.writes = []


def epilogue(session: Session, value: Any, names: Names) -> Epilogue:
    """Render the effects and the return value. Raises Break for what cannot be replayed."""
    early: set[int] = set()
    while True:
        rebuilder = Rebuilder(session, names)
        rebuilder._early = early
        try:
            return _render(session, value, rebuilder)
        except CYCLE:
            continue


def _render(session: Session, value: Any, make: Rebuilder) -> Epilogue:
    out = Epilogue(outputs=make.outputs, tracked=make.tracked, result_of=make.result_of)
    out.owners = make.owners
    returned = make.expr(value)
    stores = _versions(session, make)
    for shadow in list(session.outside.by_real.values()):
        if isinstance(shadow, TensorShadow):
            stores += _tensor_effects(make, shadow, out)
        elif isinstance(shadow, ViewShadow) and shadow.changed():
            raise Break("effect", f"{shadow.origin.show()}, a view of another input, is changed")
        elif isinstance(shadow, _MUTABLE) and shadow.changed():
            stores += _REPLAY[type(shadow)](make, shadow)
    stores += _draws(session, make)
    stores += _grad_mode(session, make)
    calls = [_host_call(make, c) for c in session.host_calls]
    out.lines = [*make.lines, *make.late, *stores]
    out.calls = calls
    out.value = returned
    return out


def guard_aliases(session: Session, written: list[TensorShadow]) -> None:
    """Objects that were changed, or that a set or dictionary told apart, must stay different
    objects; tensors different memory."""
    groups: dict[Any, list[Shadow]] = {}
    for shadow in session.hashed.values():
        groups.setdefault(type(shadow.real), []).append(shadow)
    for group in groups.values():
        if len(group) > 1:
            first, *others = [s.origin for s in group]
            session.guards.add(Distinct(first, session.line(), tuple(others)))
    groups = {}
    for shadow in session.outside.by_real.values():
        if isinstance(shadow, _MUTABLE):
            groups.setdefault(shadow.kin(), []).append(shadow)
    for group in groups.values():
        if len(group) > 1 and any(s.changed() for s in group):
            first, *others = [s.origin for s in group]
            session.guards.add(Distinct(first, session.line(), tuple(others)))
    if written:
        _check_memory(session, written)
        first, *others = [s.origin for s in written]
        chosen = {id(s) for s in written}
        read = [s.origin for s in tensors_of(session) if id(s) not in chosen]
        session.guards.add(Memory(first, session.line(), tuple(others), tuple(read)))


def tensors_of(session: Session) -> list[TensorShadow]:
    return [s for s in session.outside.by_real.values() if isinstance(s, TensorShadow)]


def _check_memory(session: Session, written: list[TensorShadow]) -> None:
    """Two inputs in one piece of memory, one of them written: the graph would not see it."""
    owners: dict[int, list[TensorShadow]] = {}
    for shadow in tensors_of(session):
        owners.setdefault(shadow.real._memory()[0], []).append(shadow)
    chosen = {id(s) for s in written}
    for group in owners.values():
        if len(group) > 1 and any(id(s) in chosen for s in group):
            shown = " and ".join(s.origin.show() for s in group[:2])
            raise Break.aliased(
                f"{shown} share memory, and it is written",
                frozenset(id(s.real._storage) for s in group),
            )


def counters(session: Session) -> frozenset[str]:
    """The names of ints from outside that the program replaces by other ints: they will vary."""
    found = set()
    pairs: list[tuple[Origin, Any, Any]]
    for shadow in session.outside.by_real.values():
        if isinstance(shadow, DictShadow):
            stored = ((Item(shadow.origin, k), k) for k in shadow.stored() if k in shadow.base)
            pairs = [(o, shadow.base[k], dict.__getitem__(shadow.twin, k)) for o, k in stored]
        elif isinstance(shadow, CellShadow) and shadow.changed():
            pairs = [(Contents(shadow.origin), shadow.base, shadow.twin.cell_contents)]
        elif isinstance(shadow, ListShadow) and shadow.grows():
            found.add(shadow.length_name)
            continue
        else:
            continue
        found |= {o.show() for o, old, new in pairs if type(old) is int and type(new) is int}
    return frozenset(found)


# ---- tensors


def _versions(session: Session, make: Rebuilder) -> list[str]:
    """The tensors that the graph wrote count it, in one loop per number of writes: an optimizer has
    hundreds."""
    groups: dict[int, list[str]] = {}
    for shadow in tensors_of(session):
        if shadow.memory.handle is not shadow.node:
            count = max(shadow.twin._storage.version, 1)
            groups.setdefault(count, []).append(make.names.var(shadow.origin))
    return [
        f"for t in ({', '.join(names)},): t._storage.version += {count}"
        for count, names in groups.items()
    ]


def _tensor_effects(make: Rebuilder, shadow: TensorShadow, out: Epilogue) -> list[str]:
    twin, lines = shadow.twin, []
    name = ""

    def var() -> str:
        return name or make.names.var(shadow.origin)

    if twin._node is not None:
        raise Break("effect", f"{shadow.origin.show()} gets a history by an in-place operation")
    for table in ("_hooks", "_accumulate_hooks"):
        if {*(getattr(twin, table) or ())} != {*(getattr(shadow.real, table) or ())}:
            raise Break("effect", f"a hook of {shadow.origin.show()} is registered or removed")
    if shadow.memory.handle is not shadow.node:
        out.writes.append((shadow, make.output(shadow.memory.handle)))
    if type(twin._array) is not Traced or twin._array.storage is not shadow.memory:
        again: Tensor = wrap(twin._array)
        lines.append(f"{var()}._array = {make.expr(again)}._array")
    if twin._requires_grad is not shadow.requires_grad:
        lines.append(f"{var()}._requires_grad = {twin._requires_grad}")
    if twin._grad is not UNREAD and twin._grad is not shadow.grad:
        if shadow.passes_on():
            raise Break("effect", f"backward() goes on past {shadow.origin.show()}")
        lines.append(f"{var()}._grad = {make.expr(twin._grad)}")
    for key, value in twin.__dict__.items():
        if key not in TENSOR_FIELDS and shadow.extra.get(key, MISSING) is not value:
            lines.append(f"{var()}.{key} = {make.expr(value)}")
    return lines


# ---- containers and objects


def _dict_replay(make: Rebuilder, shadow: DictShadow) -> list[str]:
    name = make.names.var(shadow.origin)
    if shadow.reordered():
        pairs = ", ".join(f"{make.expr(k)}: {make.expr(v)}" for k, v in shadow.twin.items())
        clear, update = make.names.bind(shadow.kind.clear), make.names.bind(shadow.kind.update)
        return [f"{clear}({name})", f"{update}({name}, {{{pairs}}})"]
    kind = shadow.kind
    drop, put = make.names.bind(kind.__delitem__), make.names.bind(kind.__setitem__)
    plain = type(shadow.real) in (dict, kind)
    lines = [f"{drop}({name}, {make.expr(k)})" for k in shadow.removed()]
    for key in shadow.stored():
        key_text, text = make.expr(key), make.expr(dict.__getitem__(shadow.twin, key))
        lines.append(
            f"{name}[{key_text}] = {text}" if plain else f"{put}({name}, {key_text}, {text})"
        )
    return lines


def _list_replay(make: Rebuilder, shadow: ListShadow) -> list[str]:
    name, items = make.names.var(shadow.origin), list(shadow.twin)
    base = shadow.base
    if isinstance(shadow.real, list):
        if len(items) > len(base) and all(a is b for a, b in zip(items, base, strict=False)):
            return [f"{name}.extend([{make.all(items[len(base) :])}])"]
        return [f"{name}[:] = [{make.all(items)}]"]
    if not (shadow.whole and shadow.measured):  # nobody looked: it may hold more at another call
        return [f"{name}.extend([{make.all(shadow.appended())}])"]
    return [f"{name}.clear()", f"{name}.extend([{make.all(items)}])"]


def _set_replay(make: Rebuilder, shadow: SetShadow) -> list[str]:
    name = make.names.var(shadow.origin)
    gone = [x for x in shadow.base if x not in shadow.twin]
    new = [x for x in shadow.twin if x not in shadow.base]
    lines = [f"{name}.difference_update([{make.all(gone)}])"] if gone else []
    return lines + ([f"{name}.update([{make.all(new)}])"] if new else [])


def _cell_replay(make: Rebuilder, shadow: CellShadow) -> list[str]:
    return [
        f"{make.names.var(shadow.origin)}.cell_contents = {make.expr(shadow.twin.cell_contents)}"
    ]


def _object_replay(make: Rebuilder, shadow: ObjectShadow) -> list[str]:
    name, lines = make.names.var(shadow.origin), []
    put, drop = make.names.bind(object.__setattr__), make.names.bind(object.__delattr__)
    for slot, value in shadow.written_slots():
        if value is MISSING:
            lines.append(f"{drop}({name}, {slot!r})")
        else:
            lines.append(f"{put}({name}, {slot!r}, {make.expr(value)})")
    return lines


_REPLAY: Final[dict[type[Shadow], Any]] = {
    DictShadow: _dict_replay, ListShadow: _list_replay, SetShadow: _set_replay,
    CellShadow: _cell_replay, ObjectShadow: _object_replay,
}  # fmt: skip


# ---- state of the library, host calls


def _draws(session: Session, make: Rebuilder) -> list[str]:
    """Generators end where plain Python would have left them."""
    lines = []
    for state in session.tracer.draws.values():
        name = make.names.var(state.origin)
        if state.reseeded:
            lines.append(f"{name}.seed_value = {make.expr(state.seed)}")
            lines.append(f"{name}.ordinal = {make.expr(state.start)} + {state.count}")
        else:
            before = make.names.var(Attribute(state.origin, "ordinal"))
            lines.append(f"{name}.ordinal = {before} + {state.count}")
    return lines


def _grad_mode(session: Session, make: Rebuilder) -> list[str]:
    lines, name = [], make.names.bind(mode)
    if mode.enabled is not session.grad_mode:
        lines.append(f"{name}.enabled = {mode.enabled}")
    if mode.inference is not session.inference:
        lines.append(f"{name}.inference = {mode.inference}")
    if mode.autocast is not session.autocast:
        lines.append(f"{name}.autocast = {make.names.bind(mode.autocast)}")
    return lines


def _host_call(make: Rebuilder, call: Any) -> str:
    if call.at is not None:
        given = f"({make.all(call.args)}{',' if call.args else ''}), {make.expr(call.kwargs)}"
        return f"{make.names.bind(call.at)}({make.expr(call.fn)}, {given})"
    keywords = [f"{k}={make.expr(v)}" for k, v in call.kwargs.items()]
    given = ", ".join([*map(make.expr, call.args), *keywords])
    return f"{make.expr(call.fn)}({given})"
