"""Capture: what every kind of value is asked. The kinds by type (`of`); the protocol of a session.

A *kind* is a class with the operations that a program can ask of its values (get, set, call,
iterate, compare, hash ...) and those that the road asks (load from outside, settle for native
code, replay, rebuild). It has no state: like CPython's type slots it is found by the value's type
(`kind_of`), and keeps what it knows of an object from outside in a `Shadow`. What a kind does not
define refuses with a record.
"""

from __future__ import annotations

import collections
import functools
import operator
import types
from collections.abc import Callable, Iterable
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final, NoReturn, TypeVar

from eager.core.sym import SymNumber
from jitcap.base.assumed import Assumed
from jitcap.base.breaks import Break
from jitcap.base.call_policy import Known, answers_for_itself, is_library_space, per_class
from jitcap.base.origin import Origin
from jitcap.base.terms import Row, Term
from jitcap.capture.epilogue_writes import Emitter
from jitcap.capture.kinds.poison import Poison, SymbolicId
from jitcap.capture.state import State

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
Handler = Callable[..., Any]
_ORDER: Final = "the order of a set of objects, which their addresses decide"
HANDLERS: Final[dict[Any, Handler]] = {}  # builtins whose meaning differs on captured values


def handles(*functions: Any) -> Callable[[Handler], Handler]:
    """Register `handler(session, *args, **kwargs)` for builtin functions, for code objects, or for
    methods as (type, name)."""

    def register(handler: Handler) -> Handler:
        for fn in functions:
            assert fn not in HANDLERS, f"{fn} is registered twice"
            HANDLERS[fn] = handler
        return handler

    return register


def handles_each(*functions: Any) -> Callable[[Handler], Handler]:
    """Register `handler(session, function, *args, **kwargs)` for each of several functions."""

    def register(handler: Handler) -> Handler:
        for fn in functions:

            def own(s: Session, /, *args: Any, _fn: Any = fn, **kwargs: Any) -> Any:
                return handler(s, _fn, *args, **kwargs)

            handles(fn)(functools.wraps(handler)(own))
        return handler

    return register


class _Nothing:
    """Stands where there is no value, which None may be."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.name}>"


class _Unloaded(_Nothing):
    """Element of a list's twin that nobody has read. Native code that writes text of it was
    given what is not settled."""

    def __repr__(self) -> str:
        raise Break("opaque object", "text of a list that is not read")


UNLOADED: Final = _Unloaded("unloaded")
MISSING: Final = _Nothing("missing")
DEPTH: Final = 12  # of containers in containers that are looked into


class Session(State):
    """One capture: its state, and the operations, each handed to its value's kind.

    `jitcap.capture.session` has the rest: calls of native code and of the host, the interpreter."""

    def getattr(self, obj: Any, name: str) -> Any:
        try:
            return kind_of(obj).getattr(self, obj, name)
        except AttributeError as error:
            if error.name is None and error.obj is None:
                error.name, error.obj = name, obj
            raise

    def setattr(self, obj: Any, name: str, value: Any) -> None:
        self.writing(obj, name)
        kind_of(obj).setattr(self, obj, name, value)

    def delattr(self, obj: Any, name: str) -> None:
        self.writing(obj, name)
        kind_of(obj).delattr(self, obj, name)

    def asked(self, obj: Any, name: str, *args: Any) -> Any:
        """Answer of a special method of the object's class, if it is written in Python; else
        MISSING, and the operation is its kind's."""
        kind = kind_of(obj)
        method = kind.special(self, obj, name)
        if method is None:
            kind.refuse_none(self, obj, name)
            return MISSING
        return self.call(method, (obj, *args), {})

    def getitem(self, obj: Any, key: Any) -> Any:
        if type(obj) is dict and type(key) is str:  # most of them
            return KINDS[dict].getitem(self, obj, key)
        found = self.asked(obj, "__getitem__", key)
        return kind_of(obj).getitem(self, obj, key) if found is MISSING else found

    def setitem(self, obj: Any, key: Any, value: Any) -> None:
        self.writing(obj, key)
        if self.asked(obj, "__setitem__", key, value) is MISSING:
            self.log.giving((obj,))  # a library's class may write to what it holds
            kind_of(obj).setitem(self, obj, key, value)

    def delitem(self, obj: Any, key: Any) -> None:
        self.writing(obj, key)
        if self.asked(obj, "__delitem__", key) is MISSING:
            self.log.giving((obj,))
            kind_of(obj).delitem(self, obj, key)

    def contains(self, item: Any, container: Any) -> Any:
        self.log.giving((container,))
        if type(container) is dict and type(item) is str:
            return kind_of(container).contains(self, container, item)
        found = self.asked(container, "__contains__", item)
        if found is MISSING:
            return kind_of(container).contains(self, container, item)
        return self.truth(found)

    def length(self, obj: Any) -> Any:
        found = self.asked(obj, "__len__")
        if found is MISSING:
            return kind_of(obj).length(self, obj)
        return checked(len, obj, "__len__", found)

    def truth(self, a: Any) -> bool:
        if a is True or a is False:
            return a
        if id(type(a)) in _ANSWERING:
            return kind_of(a).truth(self, a)
        found = self.asked(a, name := "__bool__")  # that there is none is guarded as well
        if found is MISSING and not defines(type(a), name):
            found = self.asked(a, name := "__len__")
        if found is MISSING:
            return kind_of(a).truth(self, a)
        return self.truth(checked(bool, a, name, found))

    def iter(self, obj: Any) -> Any:
        """`iter(obj)`: something whose `__next__` native code and `next` can call."""
        self.log.giving((obj,))
        iterator = self.asked(obj, "__iter__")
        if iterator is MISSING:
            return kind_of(obj).iter(self, obj)
        if not hasattr(kind_of(iterator).type_of(iterator), "__next__"):
            checked(iter, obj, "__iter__", iterator)
        return self.driven(iterator)

    def next(self, iterator: Any) -> Any:
        self.log.giving((iterator,))
        found = self.asked(iterator, "__next__")
        return kind_of(iterator).next(self, iterator) if found is MISSING else found

    def settle(self, value: Any) -> None:
        """Load everything that native code may look at in `value`."""
        kind_of(value).settle(self, value, 0)

    def complete(self, value: Any) -> None:
        """Load what a container from outside holds; its parts as they are."""
        shadow = self.outside.shadow(value)
        if shadow is not None:
            shadow.complete(self)

    def special(self, obj: Any, name: str) -> Any:
        """The special method of the object's class, if it is written in Python, or another's."""
        return kind_of(obj).special(self, obj, name)

    def is_library(self, space: dict[str, Any]) -> bool:
        """True if functions with these globals are a library's, and taken as fixed."""
        known = self.libraries.get(id(space))
        if known is None:
            known = self.libraries[id(space)] = space, is_library_space(space)
        return known[1]

    def made_inside(self, value: Any) -> Any:
        """Note a class or function that the program made: it is no part of the outside."""
        self.made[id(value)] = value
        return value

    def see_within(self, value: Any, what: str) -> None:
        """Refuse opaque objects in nested tuples, lists and dictionaries."""
        kind = kind_of(value)
        if not kind.plain:
            kind.see(self, value, what)
            for part in parts_of(value):
                self.see_within(part, what)

    def hashing(self, values: Iterable[Any]) -> None:
        """These become keys of a dictionary, or members of a set, inside."""
        for value in values:
            self.ties.compared(value)
            self.refuse_key(value)
            self.tells_apart(value, equals=True)

    def entering(self, values: Iterable[Any]) -> None:
        """These become members of a set, inside. Raises Break where its order will be seen, which
        their addresses decide."""
        values = [*values]
        self.hashing(values)
        if self.outside.assumed.addresses and any(self.is_elsewhere(x) for x in values):
            raise Break("opaque object", _ORDER)

    def order_seen(self, members: Any) -> None:
        """The order of a set is seen. Raises Break where it is that of what stands for the members:
        capture tries again, and leaves to Python what makes such sets."""
        if len(members) > 1 and any(map(self.is_elsewhere, members)):
            raise Break("opaque object", _ORDER).unless(Assumed(addresses=True))

    def is_elsewhere(self, value: Any) -> bool:
        """True if native code tells an object apart by its address, and what stands for it has
        another."""
        if type(value) is MethodType:
            return self.is_elsewhere(value.__self__)
        if not hashes_identity(value):
            return type(value) in (tuple, frozenset) and any(map(self.is_elsewhere, value))
        shadow = self.outside.shadow(value)
        if shadow is not None:
            return shadow.real is not value
        stays = isinstance(value, type | FunctionType | BuiltinFunctionType | ModuleType)
        return id(value) in self.made or not (stays or self.outside.is_fixed(value))

    def tells_apart(self, value: Any, depth: int = 0, *, equals: bool = False) -> None:
        """Note the objects from outside, also in containers, that something native tells apart by
        their identity. `equals`: numbers, too, of which one is found though it equals nothing."""
        if type(value) is SymbolicId:
            self.identified(value.obj)
        elif isinstance(value, SymNumber):
            odd = equals and value.pytype is not int
            if odd and self.tracer.decide(operator.eq, value, value) is False:
                raise Break("data dependent", "a number that does not equal itself is looked for")
        elif hashes_identity(value):
            self.identified(value)
        elif depth < DEPTH:
            for part in parts_of(value):
                self.tells_apart(part, depth + 1, equals=equals)

    def identified(self, value: Any) -> None:
        """Note an object from outside of which the program knows who it is."""
        shadow = self.outside.shadow(value)
        if shadow is not None and not self.outside.is_fixed(value):
            self.hashed[id(value)] = shadow

    def writing(self, obj: Any, key: Any = None) -> None:
        """An object of the program is about to be written, at this key: note what it was, and the
        user's line if it is from outside. Every write of capture is announced here."""
        self.log.writing(obj)
        shadow = self.outside.shadow(obj)
        if shadow is not None:
            where = self.where()
            for part in shadow.parts():
                self.written[id(part.twin), None] = where
                if type(key) in (str, int):
                    self.written[id(part.twin), key] = where

    def written_at(self, twin: Any, key: Any) -> str:
        """The line that last wrote there, "" if that was not noted."""
        found = self.written.get((id(twin), key if type(key) in (str, int) else None))
        return f"{found.file}:{found.line}" if found else ""

    # what `jitcap.capture.session` adds

    undecided: Callable[[Any], bool]
    as_bool: Callable[[Any], Any]
    call: Callable[[Any, Args, Kwargs], Any]
    interpret: Callable[[FunctionType, Args, Kwargs], Any]
    native: Callable[..., Any]
    call_native: Callable[..., Any]
    list_of: Callable[[Any], list[Any]]
    lends: Callable[..., bool]
    wrap: Callable[[Any], Any]
    unwrap: Callable[[Any], Any]
    refuse_key: Callable[[Any], None]
    pure: Callable[[Callable[..., Any], Args, Kwargs], Any]
    by_numpy: Callable[[Callable[..., Any], Args, Kwargs], Any]
    foreign: Callable[[Any, Any, Args, Kwargs], Any]
    host: Callable[[Any, Args, Kwargs], Any]
    host_call: Callable[..., None]
    reentry: Callable[[Any], Any]
    driven: Callable[[Any], Any]
    binary: Callable[[str, Any, Any], Any]
    compare: Callable[[str, Any, Any], Any]
    same: Callable[[Any, Any], bool]
    number_input: Callable[[Any, Origin], Any]


# Whose truth is C's. By identity: a metaclass may compare its classes.
_ANSWERING: Final = frozenset(map(id, (dict, list, tuple, str, int, float, type(None))))


def hashes_identity(value: Any) -> bool:
    cls: Any = type(value)
    return cls.__hash__ is object.__hash__ or (not cls.__hash__ and cls.__eq__ is object.__eq__)


HOLDING: Final[tuple[Any, ...]] = (
    dict, slice, tuple, list, collections.deque, set, frozenset, types.SimpleNamespace,
)  # fmt: skip


@per_class
def _container(cls: Any) -> Any:
    """The builtin container that instances of a class are, or None."""
    return next((base for base in HOLDING if issubclass(cls, base)), None)


def parts_of(value: Any) -> Iterable[Any]:
    """Values in a builtin container, a slice or a namespace, whatever a subclass overrides."""
    base = _container(type(value))
    if base is None:
        return ()
    if base is dict:
        return dict.values(value)
    if base is slice:
        return value.start, value.stop, value.step
    if base is types.SimpleNamespace:
        return list(object.__getattribute__(value, "__dict__").values())
    parts: Iterable[Any] = base.__iter__(value)
    return parts


def words(error: BaseException) -> str:
    """Type and message of an exception, without running the program's code."""
    own = isinstance(type(error).__str__, FunctionType) or _answers(error.args, 0)
    return type(error).__name__ + ("" if own else f": {error}")


def _answers(value: Any, depth: int) -> bool:
    """True if making text of a value may run the program's code, or only the run knows the text."""
    kind = kind_of(value)
    shows = (kind.plain or kind.contains_values) and not kind.python
    if depth > DEPTH or not shows or kind.later:
        return True
    keys = dict.keys(value) if isinstance(value, dict) else ()
    return any(_answers(v, depth + 1) for v in (*keys, *parts_of(value)))


def defines(cls: type, name: str) -> bool:
    """True if a class or a base of it defines `name`. No hook of its metaclass is asked."""
    return any(name in vars(owner) for owner in cls.__mro__)


def is_method(cls: type, name: str, *owners: type) -> bool:
    """True if a class has the method `name` of one of `owners`."""
    return getattr(cls, name) in [getattr(owner, name) for owner in owners]


def checked(fn: Callable[[Any], Any], owner: Any, name: str, answer: Any) -> Any:
    """Result of the builtin `fn` for the answer of the owner's special method: it is called with an
    object that answers so. A number of the graph is taken as it is where its type does."""

    def ask(answer: Any) -> Any:
        return fn(type(type(owner).__name__, (), {name: lambda *_: answer})())

    if isinstance(answer, Poison):
        return answer
    if isinstance(answer, SymNumber):
        made = ask(answer.pytype(1))
        as_it_is = type(made) is answer.pytype and fn is not hash
        if as_it_is and (fn is not len or answer >= 0):
            return answer
        answer = answer.tracer.concretize(answer, answer.pytype)
    return ask(unwarned(type(owner), name, answer))


_EXACT: Final = {"__index__": int, "__int__": int, "__float__": float, "__complex__": complex}


def unwarned(cls: type, name: str, answer: Any) -> Any:
    """Answer of a special method, for native code. Raises Break where that warns of a subclass."""
    exact = _EXACT.get(name)
    if exact is not None and type(answer) is not exact and isinstance(answer, exact):
        what = f"{cls.__qualname__}.{name}() answers a {type(answer).__qualname__}"
        raise Break("unknown call", f"{what}, of which Python warns")
    return answer


def _refusing(what: str) -> Callable[..., Any]:
    def operation(self: Kind, s: Session, obj: Any, *given: Any) -> Any:
        self.refuse(obj, what)

    return operation


class Kind:
    """The operations; each refuses until a kind defines it."""

    python = False  # whether its special methods may be written in Python
    constant = False  # whether its values are guarded whole when they are loaded
    contains_values = False  # whether others can be its parts
    plain = False  # whether native code may have its values as they are: no parts, nothing to load
    later = False  # whether only the run knows its values

    def refuse(self, obj: Any, what: str) -> NoReturn:
        raise Break("opaque object", f"{what} of a {self.type_of(obj).__qualname__}")

    # ---- the road

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        """The value to work with for `real`, found at `origin`; makes the guard of the read."""
        raise Break("opaque object", f"{origin.show()} is a {type(real).__qualname__}")

    def settle(self, s: Session, value: Any, depth: int) -> None:
        """Load everything that native code may look at. `depth`: of containers around it."""

    def to_native(self, s: Session, value: Any) -> Any:
        """`value` as native code may have it. Raises Break for what it must not see."""
        self.settle(s, value, 0)
        return value

    def see(self, s: Session, value: Any, what: str) -> None:
        """Refuse if `value` cannot be looked into (its parts are asked in their turn)."""

    def rebuild(self, make: Emitter, value: Any) -> Term:
        """The term that makes `value`, which was made inside, again at every call."""
        cls = type(value)
        what = f"a {cls.__module__}.{cls.__qualname__} made inside is returned or stored"
        raise Break("effect", what)

    # ---- the program

    def type_of(self, value: Any) -> type:
        """`type(value)` as the program sees it."""
        return type(value)

    def special(self, s: Session, obj: Any, name: str) -> FunctionType | None:
        """The special method `name` of the object's class, if it is written in Python."""
        return None

    def refuse_none(self, s: Session, obj: Any, name: str) -> None:
        """Raise TypeError where the class says by None that it does not have this method."""

    def getattr(self, s: Session, obj: Any, name: str, *value: Any) -> Any:
        self.refuse(obj, f".{name}")

    setattr = delattr = getattr
    getitem = setitem = delitem = _refusing("an item")
    contains, length, truth = map(_refusing, ("a membership test", "len()", "the truth"))

    def iter(self, s: Session, obj: Any) -> Any:
        """Something whose `__next__` native code and `next` can call."""
        raise Break("iteration", f"iteration over a {self.type_of(obj).__qualname__} from outside")

    next, call = map(_refusing, ("next()", "a call"))

    def invoke(self, s: Session, owner: Any, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        """`fn`, a method that is written in C and bound to `owner`."""
        self.refuse(owner, f".{fn.__name__}()")

    def text(self, s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        """`fn(*args)`, which makes text of args[0]: str, repr, ascii, format."""
        self.refuse(args[0], "text")


K = TypeVar("K", bound=Kind)


class MutableKind(Kind):
    """Objects that can contain themselves: made empty, then filled."""

    def rebuild(self, make: Emitter, value: Any) -> Term:
        return make.mutable(self, value)

    def empty(self, make: Emitter, value: Any) -> Term:
        """The term that makes the empty object."""
        return ("call", make.names.bind(type(value)))

    def filling(self, make: Emitter, name: str, value: Any) -> list[Row]:
        """The statements that fill the empty object `name`."""
        return []


KINDS: Final[dict[type, Kind]] = {}  # by exact type
RULES: Final[list[Callable[[type], Kind | None]]] = []  # for the others: see `kinds.rules`


def of(*types: Any) -> Callable[[type[K]], type[K]]:
    """Register a kind, for the values of exactly these types."""

    def register(kind: type[K]) -> type[K]:
        for cls in types:
            assert cls not in KINDS, f"{cls} is registered twice"
            KINDS[cls] = kind()
        return kind

    return register


_KIND_OF: Final[Known[Kind]] = {}


@partial(per_class, known=_KIND_OF)
def kind_of_class(cls: type) -> Kind:
    """The kind of the instances of a class: a row of the table, or what the first rule says."""
    kind = None if answers_for_itself(type(cls)) else KINDS.get(cls)
    return kind or next(k for k in (rule(cls) for rule in RULES) if k is not None)


def kind_of(value: Any) -> Kind:
    """The kind of a value of this capture. It is asked more often than anything else."""
    try:
        return _KIND_OF[id(type(value))][1]
    except KeyError:
        return kind_of_class(type(value))
