"""Capture: how values that escape are made again at every call. captured values -> rows.

What came from outside is the outside object itself; new objects are built anew (shared ones once,
cycles included); tensors and run-time numbers become outputs of the graph.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, Final

from eager.autograd import retain_grad
from eager.core.batched import Batched
from eager.core.grad_fn_names import NamedNode
from eager.core.storage import InferenceStorage, Storage
from eager.core.sym import SymNumber
from eager.core.tape import OpNode, edge_of
from eager.core.tensor import Tensor, refresh, wrap
from eager.core.traced import Traced, TracedStorage
from eager.ops.view import SELECT
from eager.sizes.symint import SymInt
from jitcap.autodiff.compiled_function import OutputNode, SpentNode
from jitcap.autodiff.double_backward import view
from jitcap.autodiff.joint import why_spent
from jitcap.base.breaks import Break
from jitcap.base.equality import is_wide
from jitcap.base.terms import Row, Term, attribute, field, method, text
from jitcap.capture import numbers
from jitcap.capture.control.may_alias import may_be_new
from jitcap.capture.kinds.base import MutableKind, kind_of
from jitcap.capture.kinds.caches import refuse_lasting
from jitcap.capture.kinds.tensors import TENSOR_FIELDS, TensorShadow
from jitcap.capture.session import Session
from jitcap.graph.graph import Node
from jitcap.graph.symbols import symbols_in
from jitcap.guards.guard import Unnamed


class _Cycle(Exception):
    """An object contains itself: it must be made empty first and filled later."""


def _array_of_one(tensor: Tensor) -> Any:
    if type(tensor._array) is Batched:
        raise Break("effect", "a tensor that stands for many examples leaves its vmap")
    return tensor._array


class ValueEmitter:
    """Renders values. `outputs` collects the graph outputs that the rows refer to as `o[i]`."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.names = Unnamed()
        self.outputs: list[Node] = []
        self.slots: list[Tensor] = []  # traced tensors whose history goes on outside
        self.tensors: dict[int, str] = {}  # output index -> variable of the tensor made of it
        self.views: list[Tensor] = []  # those that are made again on the tape
        self.inner: set[int] = set()  # histories of views (ids) that others are computed from
        self.writes: list[Any] = []  # (shadow, the value that its memory takes)
        self.rows: list[Row] = []
        self.late: list[Row] = []  # filling of cyclic objects
        self.memo: dict[int, Term] = {}
        self.bases: dict[int, str] = {}  # id of a TracedStorage -> variable of its base tensor
        self.counters: dict[int, str] = {}  # id of a Storage -> variable of a tensor that has it
        self.histories: dict[int, str] = {}  # id of a tape node -> variable of what stands for it
        self.placed: set[tuple[int, int]] = set()  # outputs of tape nodes (ids) that have a slot
        self.reporting = False  # whether it is for a call of the host, which only shows it
        self.early: set[int] = set()  # ids of what contains itself: filled when all is made
        self._busy: set[int] = set()  # objects that are being made
        self._variables = (f"t{i}" for i in itertools.count())
        self._keep: list[Any] = []

    # ---- the entry points

    def expr(self, value: Any) -> Term:
        """The term that gives `value`; objects with identity are made once."""
        cls = type(value)
        if value is None or cls is bool or value is Ellipsis or value is NotImplemented:
            return repr(value)
        given = self.session.outside.constants.get(id(value))
        if given is not None and not _is_interned(value):  # the very object, as in Python
            return self.names.var(given[1][0])
        if (cls is int and not is_wide(value)) or _is_interned(value):
            return value if cls is int else text(value)
        found = self.memo.get(id(value))
        if found is not None:
            return found
        shadow = self.session.outside.shadow(value)
        if shadow is not None:
            term: Term = self.names.var(shadow.origin)
        else:
            term = self._new(value, cls)
        self.memo[id(value)] = term
        self._keep.append(value)
        return term

    def written_at(self, twin: Any, key: Any) -> str:
        return self.session.written_at(twin, key)

    def output(self, node: Any) -> int:
        """The index of a graph output."""
        self.outputs.append(node)
        return len(self.outputs) - 1

    def let(self, term: Term) -> str:
        """A new variable with the value of `term`."""
        name = next(self._variables)
        self.rows.append(("let", name, term))
        return name

    def call(self, fn: Any, *args: Any) -> str:
        """A new variable with the result of `fn`, which has a name, for these values."""
        return self.let(("call", self.names.bind(fn), *self.all(args)))

    def put(self, name: Term, field: str, value: Term) -> None:
        """`name.field = value`."""
        self.rows.append(("set", attribute(name, field), value))

    def all(self, values: Iterable[Any]) -> list[Term]:
        return [self.expr(v) for v in values]

    def is_fixed(self, value: Any) -> bool:
        return self.session.outside.is_fixed(value)

    def is_outside(self, value: Any) -> bool:
        return self.session.outside.shadow(value) is not None

    def is_made(self, value: Any) -> bool:
        """True if the value is a function or class that every call makes."""
        return id(value) in self.session.made

    def _new(self, value: Any, cls: type) -> Term:
        made = value if isinstance(value, type) else cls
        if self.is_made(made):
            raise Break("effect", f"the class {made.__qualname__}, made by every call, escapes")
        if id(value) in self._busy:
            if id(value) in self.early:  # a tuple, which has all that it holds from the start
                raise Break("effect", f"a {cls.__name__} that contains itself")
            self.early.add(id(value))
            raise _Cycle
        self._busy.add(id(value))
        try:
            return _made(self, value)
        finally:
            self._busy.discard(id(value))

    def mutable(self, kind: MutableKind, value: Any) -> str:
        """An object that can contain itself: then it is filled when everything is there."""
        if id(value) in self.early:
            name = self.memo[id(value)] = self.let(kind.empty(self, value))
            self.late += kind.filling(self, name, value)
            return name
        if type(value) is list:
            return self.let(("list", *self.all(value)))
        if type(value) is dict:
            return self.let(("dict", *self.all(x for pair in value.items() for x in pair)))
        name = next(self._variables)
        filling = kind.filling(self, name, value)  # children first, then the object
        self.rows += [("let", name, kind.empty(self, value)), *filling]
        return name

    # ---- run-time values

    def number(self, number: SymNumber) -> Term:
        """A run-time number: Python computes it from what was read outside and what the graph
        gave, so that it is exact."""
        memo = self.memo
        for each in numbers.postorder(number):
            if id(each) not in memo:
                parts = [
                    memo[id(a)] if isinstance(a, SymNumber) else self._literal(a) for a in each.args
                ]
                memo[id(each)] = self._leaf(each) if each.fn is None else self._call(each.fn, parts)
                self._keep.append(each)
        return memo[id(number)]

    def _literal(self, value: Any) -> Term:
        term = numbers.literal(value)
        return self.expr(value) if term is None else term

    def _leaf(self, number: SymNumber) -> str:
        leaf = number.leaf
        if isinstance(leaf, numbers.Outside):
            return self.names.var(leaf.origin)
        if leaf in self.session.drawn:
            return self.names.var(self.session.drawn[leaf])
        return self.let(("call", self.names.bind(number.pytype), self._of_graph(leaf)))

    def _of_graph(self, node: Any) -> Term:
        """An output of the graph."""
        return ("item", "o", self.output(node))

    def _call(self, fn: Any, parts: list[Term]) -> str:
        return self.let(numbers.operation(fn, parts) or ("call", self.names.bind(fn), *parts))

    def tensor(self, tensor: Tensor) -> str:
        if tensor._view is not None:
            refresh(tensor)
        array = _array_of_one(tensor)
        if type(array) is not Traced:
            array = self.session.tracer.lifted(tensor)
        if array is None:
            return self._dress(_constant_tensor(self, tensor), tensor)
        ties = self.session.ties
        if self.has_history(tensor):
            ties.histories.add(id(tensor._node))
        if id(tensor) in ties.objects:
            return self._one_of(tensor, array, ties)
        if array.storage.picked is not None and (name := _picked(self, tensor, array.storage)):
            return self._dress(name, tensor)
        ties.leaves(array.storage)
        where = tensor._view
        if where is not None and self._storage_of(where.base) is array.storage:
            if _is_reshaped(self, where, array):
                raise Break("effect", "a view leaves whose base got another shape of its own")
            replayed = _by_views(self, tensor) and id(tensor._node) not in self.inner
            base, chain = self.expr(where.base), self._chain(where.chain)
            name = self.let(("call", self.names.bind(view), base, chain, repr(replayed)))
        else:
            name, replayed = self._alias(tensor, array), False
        if replayed:
            self.views.append(tensor)
        elif self.has_history(tensor):
            _record(self, name, tensor)
        return self._dress(name, tensor)

    def _one_of(self, tensor: Tensor, array: Traced, ties: Any) -> Term:
        """The result of a branch: after a way that has left an object as it was, that object."""
        objects = ties.leaves_as_one(tensor)
        name = self._alias(tensor, array) if may_be_new(objects) else ""
        if name and self.has_history(tensor):
            _record(self, name, tensor)
        return self._chosen(objects, name and self._dress(name, tensor))

    def _chosen(self, objects: Any, name: str) -> Term:
        if not isinstance(objects, tuple):
            return name if objects is None else self.expr(objects)
        ways = ("tuple", *(self._chosen(x, name) for x in objects[1]))
        return self.let(self.one_of(ways, objects[0]))

    def one_of(self, ways: Term, truth: Any) -> Term:
        """The one of two that a value of the graph chooses."""
        return ("item", ways, ("call", self.names.bind(bool), self._of_graph(truth)))

    def _chain(self, chain: Any) -> Term:
        """The steps of a view, with what sizes are at the call."""
        if not symbols_in(attrs for _, attrs in chain):
            return self.names.bind(chain)
        steps = []
        for op, attrs in chain:
            given = [part for k, v in attrs.items() for part in (text(k), self.sized(v))]
            steps.append(("tuple", self.names.bind(op), ("dict", *given)))
        return ("tuple", *steps)

    def sized(self, value: Any) -> Term:
        """An attribute, which may hold sizes."""
        if isinstance(value, SymInt):
            return self.number(value.number())
        if type(value) is tuple and symbols_in(value):
            return ("tuple", *map(self.sized, value))
        return value if type(value) is int else self.names.bind(value)

    def has_history(self, tensor: Tensor) -> bool:
        return bool(tensor._requires_grad and tensor._node is not None)

    def _storage_of(self, tensor: Tensor) -> TracedStorage | None:
        """The memory of a tensor while the lines run: one from outside has what it came with."""
        shadow = self.session.outside.shadow(tensor)
        if isinstance(shadow, TensorShadow):
            return shadow.memory
        array = tensor._array
        if type(array) is not Traced:
            array = self.session.tracer.lifted(tensor)
        return None if array is None else array.storage

    def _alias(self, tensor: Tensor, array: Traced) -> str:
        """A tensor that is no view: the owner of its memory, or a further one with (a part of) that
        memory, by `detach()` or `.data`."""
        cls = self._class(tensor)
        owner = self.session.owners.get(id(array.storage))
        base = self.names.var(owner.origin) if owner else self.bases.get(id(array.storage), "")
        if owner is not None:
            self.counters.setdefault(id(owner.twin._storage), base)
        if not base:
            whole = not array.chain
            base = self._base(array.storage, _more(self, tensor, cls) if whole else ())
            if whole:
                self._count(base, tensor)
                return base
        part: Term = base
        if array.chain:
            part = ("call", self.names.bind(view), base, self._chain(array.chain), "False")
        return self._wrapped(attribute(part, "_array"), tensor, cls)

    def _class(self, tensor: Tensor) -> tuple[Term, ...]:
        """The last argument of `wrap`, where it needs one."""
        return () if type(tensor) is Tensor else (self.names.bind(type(tensor)),)

    def _wrapped(self, data: Term, tensor: Tensor, cls: tuple[Term, ...]) -> str:
        """A tensor with this data, and a counter of writes: that of another one, or its own."""
        counter = self.counters.get(id(tensor._storage))
        storage = attribute(counter, "_storage") if counter else _fresh(self, tensor)
        name = self.let(("call", self.names.bind(wrap), data, storage, *cls))
        if not counter:
            self._count(name, tensor)
        return name

    def _base(self, storage: TracedStorage, more: tuple[Term, ...]) -> str:
        """The tensor that owns a new piece of memory."""
        index = self.output(storage.handle)
        made = ("call", self.names.bind(wrap), ("item", "o", index), *more)
        name = self.bases[id(storage)] = self.let(made)
        self.tensors[index] = name
        self._keep.append(storage)
        return name

    def _count(self, name: str, tensor: Tensor) -> None:
        """`name` is the first that has the tensor's counter of writes."""
        self.counters[id(tensor._storage)] = name
        self._keep.append(tensor._storage)
        if tensor._storage.version:
            self.put(attribute(name, "_storage"), "version", self.version(tensor._storage))

    def version(self, storage: Any) -> Term:
        """The number of writes to a storage; some are known at run time only."""
        term: Term = storage.version
        for _, most, count in self.session.counts.get(id(storage), ()):
            term = ("-", ("+", term, self.expr(count)), most)
        return term

    def _dress(self, name: str, tensor: Tensor) -> str:
        """Add rows that set the attributes of a new tensor other than its data; give its name."""
        self.memo[id(tensor)] = name
        self._keep.append(tensor)
        if tensor._requires_grad and tensor._node is None:
            self.put(name, "_requires_grad", "True")
            _show_history(self, name, tensor)
        if tensor._retains:
            self.rows.append(("do", ("call", self.names.bind(retain_grad), name)))
        if tensor._hooks is not None:
            raise Break("effect", "a tensor that is made inside has hooks")
        if tensor._grad is not None:
            self.put(name, "_grad", self.expr(tensor._grad))
        for key, value in tensor.__dict__.items():
            if key not in TENSOR_FIELDS:
                self.rows.append(("set", field(name, key), self.expr(value)))
        return name


def _show_history(make: ValueEmitter, name: str, tensor: Tensor) -> None:
    """Give what a call of the host shows of a tensor the history that this one has outside."""
    shadow = make.session.outside.shadow(tensor.__dict__.get("_shown_for"))
    if isinstance(shadow, TensorShadow) and shadow.has_history():
        for part in ("_node", "_index"):
            make.put(name, part, attribute(make.names.var(shadow.origin), part))


def _record(make: ValueEmitter, name: str, tensor: Tensor) -> None:
    """Give an output its history, which goes on outside, or is used up."""
    node, why = tensor._node, why_spent(tensor)
    history = make.histories.get(id(node))
    if history is None:
        given = (_history_name(make, node), len(node.outs), *([text(why)] if why else []))
        kind = make.names.bind(SpentNode if why else OutputNode)
        history = make.histories[id(node)] = make.let(("call", kind, *given))
        make._keep.append(node)
    first = not why and (id(node), tensor._index) not in make.placed  # else two gradients arrive
    slot = ("h", len(make.slots)) if first else ()
    make.rows.append(("do", method(history, "put", name, tensor._index, *slot)))
    if first:
        make.slots.append(tensor)
        make.placed.add((id(node), tensor._index))


def _constant_tensor(make: ValueEmitter, tensor: Tensor) -> str:
    base = make.bases.get(id(tensor._array), "")
    if base:
        data = attribute(base, "_array")
    else:
        data = method(make.names.bind(tensor._array.copy()), "copy")
    make.session.tracer.constant_memory.leaves(tensor._array, tensor=True)
    name = make._wrapped(data, tensor, make._class(tensor))
    make.bases.setdefault(id(tensor._array), name)
    make._keep.append(tensor._array)
    return name


def _more(make: ValueEmitter, tensor: Tensor, cls: tuple[Term, ...]) -> tuple[Term, ...]:
    """The further arguments of `wrap`, for a tensor that owns its memory."""
    counts = _fresh(make, tensor)
    return (counts, *cls) if cls or counts != "None" else ()


def _fresh(make: ValueEmitter, tensor: Tensor) -> Term:
    """The storage of a new tensor; "None": the default of the mode."""
    storage = tensor._storage
    if storage.inference:
        return ("call", make.names.bind(InferenceStorage), repr(storage.sealed))
    return ("call", make.names.bind(Storage)) if make.session.modes.inference else "None"


def _made(make: ValueEmitter, value: Any) -> Term:
    """A new object; the dictionary of an instance as such."""
    make.session.ties.left.add(id(value))
    lasting = make.session.answers.get(id(value))
    if lasting is not None:
        refuse_lasting(make.session, lasting[0])
    owner = make.session.dictionaries.get(id(value))
    if owner is not None:
        return make.let(attribute(make.expr(owner), "__dict__"))
    return kind_of(value).rebuild(make, value)


def _history_name(make: ValueEmitter, node: Any) -> Term:
    """The name of a history, which the run may choose."""
    if not isinstance(node, NamedNode) or isinstance(node.label, str):
        return text(node.name())
    if node.label is None:
        raise Break("data dependent", "the name of a history")
    truth, *names = node.label
    return make.one_of(("tuple", *map(text, names)), truth)


def _is_reshaped(make: ValueEmitter, where: Any, view: Traced) -> bool:
    """True if the base of a view had another shape when it was taken than it has while the lines
    run, by `unsqueeze_()` or its like."""
    base = where.base._array
    own = () if make.is_outside(where.base) or type(base) is not Traced else base.chain
    return own != view.chain[: len(own)] or len(view.chain) != len(own) + len(where.chain)


def _picked(make: ValueEmitter, tensor: Tensor, memory: TracedStorage) -> str:
    """`x[i]`, where the run decides `i`: a view of x where x lies outside; "" for a part of it, and
    for a copy, which it may be while nobody has x."""
    link = memory.picked
    assert link is not None
    if link.owner is not tensor:
        make.expr(link.owner)  # whose memory it is
        return ""
    base = link.base._array.storage
    if id(base) not in make.session.owners:
        make.session.ties.parts.append(base)
        make.session.ties.check_parts()
        return ""
    steps = []
    for earlier, (dim, place) in enumerate(zip(link.dims, link.places, strict=True)):
        array = place._array if type(place._array) is Traced else make.session.tracer.lifted(place)
        at = ("call", make.names.bind(int), ("item", "o", make.output(array.read())))
        index = ("%", at, make.sized(link.base.shape[dim]))
        attrs = ("dict", text("dim"), dim - earlier, text("index"), index)
        steps.append(("tuple", make.names.bind(SELECT), attrs))
    whole = make.expr(link.base), ("tuple", *steps), "False"
    name = make.bases[id(memory)] = make.let(("call", make.names.bind(view), *whole))
    make.counters.setdefault(id(tensor._storage), name)
    if make.has_history(tensor):
        _record(make, name, tensor)
    return name


def _by_views(make: ValueEmitter, tensor: Tensor) -> bool:
    """True if the history of a view is that of its base, through the steps that it is made by."""
    where = tensor._view
    assert where is not None
    base = make.session.outside.shadow(where.base)
    if isinstance(base, TensorShadow) and not base.requires_grad:
        return False  # it is given that when the views are there
    target: Any = tensor._node
    edge = None
    for op, _ in reversed(where.chain):
        if not isinstance(target, OpNode) or target.op is not op or target.hooks:
            return False
        edge = target.edges[0]
        if edge is None:
            return False
        target = edge[0]
    return edge == edge_of(where.base) and not why_spent(tensor)


def _is_interned(value: Any) -> bool:
    """True if equal values of this kind are usually one object, also those in compiled text."""
    if type(value) is str:
        return value.isascii() and (len(value) <= 1 or value.isidentifier())
    return type(value) is int and -5 <= value <= 256


CYCLE: Final = _Cycle
