"""Kept versions: entries from disk. rows -> what its guards say of a call, its source.

The rows of an entry are kept as they are (`jitcap.base.terms`). The guards of a version that is
looked for are evaluated here, by operations that run nothing of the program (`safe_eval`). What is
run is printed and compiled, after a look at each name, operation and call in it (`Source`).
"""

from __future__ import annotations

import builtins
import collections
import itertools
import math
import operator
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from eager.core.dispatch import apply
from eager.core.op import Op
from jitcap.autodiff.double_backward import view
from jitcap.base.terms import Row, Term, defined_by, source
from jitcap.capture.builtins.host_rng import run_once
from jitcap.capture.kinds import constants
from jitcap.guards.class_guard import Classes
from jitcap.guards.size_guard import LastSizes
from jitcap.guards.tensor_guard import Seen
from jitcap.store import safe_eval
from jitcap.store.allowlist import Unreadable, may_ask, may_call
from jitcap.store.safe_eval import METHODS, number

_NAME: Final = re.compile(r"[vtnxmuC]\d{1,9}", re.ASCII)
_MARKS: Final = "'="  # of literals: see `jitcap.base.terms`
ATOMS: Final[dict[str, Any]] = {repr(x): x for x in (None, True, False, ..., NotImplemented)}
_DEEPEST: Final = 40
_DUNDER: Final = frozenset(
    "__code__ __closure__ __globals__ __dict__ __func__ __self__ __name__ __defaults__ "
    "__kwdefaults__ __mro__ __wrapped__ __call__ __class__ __getattr__ __getattribute__ "
    "__setattr__ __delattr__ __get__ __set__ __delete__ __set_name__ __init__ __new__ __del__ "
    "__post_init__ __iter__ __next__ __len__ __bool__ __contains__ __getitem__ __setitem__ "
    "__delitem__ __missing__ __reversed__ __length_hint__ __enter__ __exit__ __eq__ __ne__ __lt__ "
    "__le__ __gt__ __ge__ __hash__ __int__ __float__ __index__ __complex__ __round__ __abs__ "
    "__neg__ __pos__ __invert__ __add__ __sub__ __mul__ __matmul__ __truediv__ __floordiv__ "
    "__mod__ __divmod__ __pow__ __and__ __or__ __xor__ __lshift__ __rshift__ __radd__ __rsub__ "
    "__rmul__ __rmatmul__ __rtruediv__ __rfloordiv__ __rmod__ __rdivmod__ __rpow__ __rand__ "
    "__ror__ __rxor__ __rlshift__ __rrshift__ __iadd__ __isub__ __imul__ __imatmul__ "
    "__itruediv__ __ifloordiv__ __imod__ __ipow__ __iand__ __ior__ __ixor__ __ilshift__ "
    "__irshift__ __str__ __repr__ __format__ __bytes__ __doc__ __module__ __qualname__ __slots__ "
    "__match_args__ __annotations__ __members__ __flags__".split()
)
_STORED: Final = frozenset(
    "_array _grad _requires_grad version seed_value ordinal cell_contents enabled inference "
    "autocast place before args __cause__ __context__ __suppress_context__ __qualname__ __doc__ "
    "__module__ __kwdefaults__".split()
)
BUILTINS: Final = {
    name: getattr(builtins, name)
    for name in "type len id zip hasattr abs bool int float complex slice frozenset Ellipsis "
    "NotImplemented".split()
}


# ---- what is known of a call


def find(
    rows: Iterable[Row], values: dict[str, Any], take: Callable[[str, Any], None]
) -> dict[str, Any] | None:
    """The values of all variables, besides those given, if the guards hold; else None. `take` is
    told each object of the program by name. May raise UNREADABLE."""

    def value(term: Term) -> Any:
        if type(term) is not list:
            return values[term] if _is_name(term) else _literal(term)
        ask = OPERATIONS[term[0]]
        if ask is None:
            raise Unreadable("an operation of bodies in a guard")
        if term[0] == "mapped":
            return _mapped(value, values, *term[1:])
        if term[0] in _LAZY:
            return ask(value, *term[1:])
        return ask(
            *[
                values[part] if type(part) is str and part[0] not in _MARKS else value(part)
                for part in term[1:]
            ]
        )

    for kind, *parts in rows:
        if kind == "let":
            name, term = parts
            values[variable(name, "vm")] = value(term)
        elif kind == "sizes":
            if find(_lines(parts[2]), values, take) is None:
                return None
        elif kind == "take":
            name, term = parts
            values[variable(name, "C")] = found = value(term)
            take(name, found)
        elif kind == "each":
            places, constants, test, *lets = parts
            ask, found = _asked_often(test, lets, values, "truth"), safe_eval.items(value(places))
            numbers = itertools.repeat(None)
            if constants != "None":
                numbers = safe_eval.items(value(constants))
            if not all(ask(v, i) for v, i in zip(found, numbers, strict=False)):
                return None
        elif kind != "hold":
            raise Unreadable("no guard")
        elif not _truth(value(*parts)):
            return None
    return values


def _lines(rows: Any) -> list[Row]:
    """The rows of a block. Raises Unreadable."""
    tag, *lines = rows
    if tag != "rows" or any(line[0] not in ("let", "hold") for line in lines):
        raise Unreadable("no block")
    return lines


def _reads(lets: Iterable[Row]) -> Iterator[tuple[str, Term]]:
    """The names and terms of what a loop reads. Raises Unreadable."""
    for tag, name, term in lets:
        if tag != "let":
            raise Unreadable("no reading")
        yield variable(name, "x"), term


def _mapped(
    value: Callable[[Term], Any], values: dict[str, Any], term: Term, places: Term, *inner: Term
) -> list[Any]:
    """The list of what a term is for each place, and each inner value."""
    ask, found = _asked_often(term, (), values), safe_eval.items(value(places))
    if not inner:
        return [ask(v, None) for v in found]
    (constants,) = inner
    keys = [*safe_eval.items(value(constants))]
    return [ask(v, i) for v in found for i in keys]


def _asked_often(
    term: Term, lets: Iterable[Row], values: dict[str, Any], kind: str = ""
) -> Callable[[Any, Any], Any]:
    """A term, or its `truth`, as a function of `v` and `i`: what has many rows is compiled, as
    calls of the same operations."""
    local = {"v", "i"}

    def spell(term: Term) -> str:
        if type(term) is not list:
            if not _is_name(term):
                return repr(_literal(term))
            return str(term) if term in local else f"values[{term!r}]"
        tag, *parts = term
        texts = [*map(spell, parts)]
        if tag in _LAZY:
            return f"({f' {tag} '.join(f'truth({text})' for text in texts)})"
        return f"ask[{tag!r}]({', '.join(texts)})"

    read = []
    for name, found in _reads(lets):
        read.append(f"({name} := {spell(found)})")
        local.add(name)
    steps = ", ".join([*read, f"{kind}({spell(term)})"])
    code = compile(f"lambda v, i: ({steps},)[-1]", "<guard>", "eval")
    fn: Callable[[Any, Any], Any] = eval(
        code, {"ask": OPERATIONS, "truth": _truth, "values": values, "__builtins__": {}}
    )
    return fn


def _is_name(term: Any) -> bool:
    return type(term) is str and term[0] not in _MARKS


def _literal(term: Any) -> Any:
    """The value of a term that stands for itself. Raises Unreadable."""
    if type(term) is int:
        return term
    if type(term) is str and term[0] == "'":
        return term[1:]
    if type(term) is str and term[0] == "=" and math.isfinite(value := float(term[1:])):
        return value
    raise Unreadable("no literal")


def variable(name: Any, letters: str) -> str:
    """A name of these letters, which is pasted into the source. Raises Unreadable."""
    if name[0] not in letters or not _NAME.fullmatch(name):
        raise Unreadable(f"{name} is stored")
    return str(name)


# ---- as Python


class Source:
    """Prints rows from disk, or raises Unreadable for what none are. `known`: what every name
    stands for that is there before the first row; so are `variables`, of which no more is known.
    Without `prints` it only raises: rows of this process are printed elsewhere."""

    def __init__(
        self, known: Mapping[str, Any], variables: Iterable[str] = (), *, prints: bool = True
    ) -> None:
        self.known = known
        self._prints = prints
        self.attaches = False  # to the region
        self._names = {"args", "kwargs", *ATOMS, *known, *variables}
        self._depth = 0
        self._is_body = False

    def guards(self, rows: Iterable[Row]) -> list[str]:
        """The statements of guards, but for those that only take."""
        return self._printed(rows, _OF_GUARDS, "vm")

    def body(self, rows: Iterable[Row]) -> list[str]:
        """The statements after the guards."""
        self._is_body = True
        self._names.add("K")
        return self._printed(rows, _OF_BODIES, "tnu")

    def _printed(self, rows: Iterable[Row], kinds: tuple[str, ...], letters: str) -> list[str]:
        lines: list[str] = []
        for row in rows:
            kind, *parts = row
            if kind not in kinds:
                raise Unreadable(f"the statement {kind}")
            if kind == "let":
                name, term = parts
                self._look(term)
                is_result = self._is_body and name in _RESULTS
                self._names.add(name if is_result else variable(name, letters))
            elif kind == "take":
                self._names.add(parts[0])
            elif kind == "sizes":
                self._sizes(*parts)
            else:
                if kind == "each":
                    self._names |= {"v", "i"}
                    places, constants, test, *lets = parts
                    self._look_at((places, constants))
                    for name, term in _reads(lets):
                        self._look(term)
                        self._names.add(name)
                    parts = [test]
                elif kind in ("set", "sets", "add"):
                    self._names |= {"v", "i"}
                    _require_place(parts[0])
                self._look_at(parts)
            if self._prints:
                lines += source([row])  # which raises where there are other parts
        return lines

    def _sizes(self, state: Any, key: Term, rows: Any, values: Term) -> None:
        if type(self.known[state]) is not LastSizes or {key[0], values[0]} != {"tuple"}:
            raise Unreadable("no block")
        self._look_at(key[1:])
        self.guards(_lines(rows))
        made = {name for row in rows[1:] for name in defined_by(row)}
        if not made.issuperset(values[1:]):
            raise Unreadable("a block without its values")

    def _look(self, term: Term) -> None:
        """Raises Unreadable for what is no term here."""
        kind = type(term)
        if kind is list or kind is tuple:
            operation, *parts = term
            if not self._is_body and OPERATIONS.get(operation) is None:
                raise Unreadable("an operation of bodies in a guard")
            if operation not in OPERATIONS:
                raise Unreadable(f"the operation {operation}")
            self._depth += 1
            if self._depth > _DEEPEST:
                raise Unreadable("what is nested too deeply")
            look = _LOOKS.get(operation)
            self._look_at(parts if look is None else look(self, *parts))
            self._depth -= 1
        elif kind is not str or term[0] in _MARKS:
            _literal(term)
        elif term not in self._names:
            raise Unreadable(f"{term}, a name that nothing provides")

    def _look_at(self, terms: Iterable[Term]) -> None:
        for term in terms:
            self._look(term)

    def called(self, fn: Term, *parts: Term) -> Iterable[Term]:
        """A constant that may be called."""
        may = may_call if self._is_body else may_ask
        if type(fn) is not str or fn[0] != "C" or not may(self.known[fn]):
            raise Unreadable("a call of another function")
        calls_nothing = _CALLERS.get(self.known[fn])
        if calls_nothing is not None and not calls_nothing(self, *parts):
            raise Unreadable("a call of what it is given")
        return (fn, *parts)

    def method(self, name: Term, base: Term, *parts: Term) -> Iterable[Term]:
        """A method of a container, which is not of the program's own class."""
        root = base
        while type(root) in (list, tuple) and root[0] in ("attribute", "item"):
            root = root[1]
        if type(root) is not str:
            raise Unreadable("a call of a value")
        if root in self.known:
            if root is not base:
                raise Unreadable("a call of a part")
            safe_eval.container(self.known[root])
        _require_name(name, METHODS.__contains__)
        return (base, *parts)

    def mapped(self, term: Term, *places: Term) -> Iterable[Term]:
        """A list of what is read of each of some places."""
        self._names |= {"v", "i"}
        return (term, *places)

    def attach(self, *parts: Term) -> Iterable[Term]:
        self.attaches = True
        return parts


_RESULTS: Final = ("o", "h")  # of the graph, of the region
_OF_GUARDS: Final = ("let", "take", "hold", "each", "sizes")
_OF_BODIES: Final = ("let", "set", "sets", "add", "count", "do", "return")


def _tag(term: Term) -> str:
    """The operation of a term; "" for an atom."""
    return str(term[0]) if type(term) in (list, tuple) else ""


def _are_values(_: Source, *parts: Term) -> bool:
    """True if no part is a keyword, or unpacked."""
    return not any(_tag(part) in ("star", "keyword") for part in parts)


def _is_printed(source: Source, *parts: Term) -> bool:
    """True if it is not written to an object that the entry makes."""
    files = [part[2] for part in parts if _tag(part) == "keyword" and part[1] == "'file"]
    return _is_found(source, *files)


def _is_found(_: Source, *parts: Term) -> bool:
    """True if the first part, if there is one, is no object that the entry makes."""
    return all(type(part) is str and part[0] in "CvN" for part in parts[:1])


def _names_no_factory(_: Source, obj: Term, name: Term, *parts: Term) -> bool:
    """True if an attribute is set that no container calls."""
    return type(name) is str and name[0] == "'" and name != "'default_factory"


def _is_op(source: Source, op: Term, *parts: Term) -> bool:
    return type(op) is str and issubclass(type(source.known.get(op)), Op)


def _are_steps(source: Source, _: Term, chain: Term, *parts: Term) -> bool:
    """True if the steps of a view are a constant, or each has an op."""
    if type(chain) is str:
        return chain[0] == "C"
    return _tag(chain) == "tuple" and all(
        _tag(step) == "tuple" and _is_op(source, step[1]) for step in chain[1:]
    )


# What would call one of its arguments: whether it is given none that may be called.
_CALLERS: Final[dict[Any, Callable[..., bool]]] = {
    **dict.fromkeys((max, min), _are_values),
    iter: lambda source, *parts: len(parts) == 1 and _are_values(source, *parts),
    print: _is_printed,
    collections.defaultdict: _is_found,
    collections.defaultdict.__init__: lambda source, _, *parts: _is_found(source, *parts),
    object.__setattr__: _names_no_factory,
    constants._again: _is_found,
    run_once: lambda source, run, *parts: run == "K",
    apply: _is_op,
    view: _are_steps,
}  # fmt: skip


def _require_place(place: Term) -> None:
    """Raises Unreadable for what nothing is stored in."""
    if place[0] == "attribute":
        if place[2][1:] not in _STORED:
            raise Unreadable(f"{place[2]} is stored")
    elif place[0] not in ("item", "after"):
        raise Unreadable("no place")


def _require_name(name: Term, allowed: Callable[[str], bool]) -> None:
    if type(name) is not str or name[0] != "'" or not allowed(name[1:]):
        raise Unreadable(f"no name: {name}")


def is_attribute(name: Any) -> bool:
    """True if a version may read an attribute of this name, which is read as it is spelt."""
    plain = type(name) is str and (name[:2] != "__" or name in _DUNDER) and name.isidentifier()
    return plain and (name.isascii() or unicodedata.normalize("NFKC", name) == name)


# ---- the operations


def _look_attribute(_: Source, base: Term, name: Term) -> Iterable[Term]:
    _require_name(name, is_attribute)
    return (base,)


def _look_keyword(_: Source, name: Term, term: Term) -> Iterable[Term]:
    _require_name(name, str.isidentifier)
    return (term,)


def _look_part(_: Source, base: Term, *bounds: Term) -> Iterable[Term]:
    """Parts are of lists that the entry made, or of the results."""
    if type(base) is not str or base[0] not in "muo" or {*map(type, bounds)} != {int}:
        raise Unreadable("a part of a value")
    return (base,)


def _look_joined(_: Source, *parts: Term) -> Iterable[Term]:
    if any(_tag(part) not in ("tuple", "part") and part[0] not in "mu" for part in parts):
        raise Unreadable("a list of what a value has")
    return parts


def _attribute(value: Any, name: str) -> Any:
    if type(name) is not str or (name[:2] == "__" and name not in _DUNDER):
        raise Unreadable("no attribute")
    return safe_eval.attribute(value, name)


def _called(fn: Any, *args: Any) -> Any:
    if not may_ask(fn):
        raise Unreadable("a call of another function")
    return safe_eval.called(fn, *args)


def _seen(method: Callable[..., bool]) -> Callable[..., bool]:
    """A question to the one `Seen`."""

    def ask(seen: Any, *args: Any) -> bool:
        if type(seen) is not Seen:
            raise Unreadable("no arrays seen")
        return method(seen, *map(safe_eval.known, args))

    return ask


def _of_classes(method: Callable[..., Any]) -> Callable[..., Any]:
    """A question to the one `Classes`, which looks at what it is given itself."""

    def ask(state: Any, *args: Any) -> Any:
        if type(state) is not Classes:
            raise Unreadable("no classes")
        return method(state, *args)

    return ask


def _truth(value: Any) -> bool:
    return value is True or (value is not False and safe_eval.truth(value))


def _disjoint(numbers: Any, others: Any) -> bool:
    if type(numbers) is not set:
        raise Unreadable("no set")
    return numbers.isdisjoint(safe_eval.numbers(others))


def _all(value: Callable[[Term], Any], *parts: Term) -> Any:
    result: Any = True
    for part in parts:
        if not _truth(result := value(part)):
            break
    return result


def _any(value: Callable[[Term], Any], *parts: Term) -> Any:
    result: Any = False
    for part in parts:
        if _truth(result := value(part)):
            break
    return result


def _of_numbers(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *operands: fn(*map(number, operands))


def _type(value: Any) -> Any:  # not `type`, which makes classes, too
    return type(value)


# What is looked at besides the operands, and those that are terms.
_LOOKS: Final[dict[str, Callable[..., Iterable[Term]]]] = {
    "attribute": _look_attribute, "keyword": _look_keyword, "method": Source.method,
    "call": Source.called, "new": Source.called, "begin": Source.attach, "attach": Source.attach,
    "mapped": Source.mapped, "part": _look_part, "joined": _look_joined,
}  # fmt: skip
_LAZY: Final = ("and", "or")  # whose rule evaluates the operands that it needs
_NUMERIC: Final[dict[str, Callable[..., Any]]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "+": operator.add,
    "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "<<": operator.lshift, ">>": operator.rshift,
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "u-": operator.neg,
    "u+": operator.pos, "~": operator.invert, "abs": abs, "int": int, "float": float,
    "complex": complex, "set": lambda *parts: {*parts},
}  # fmt: skip
# The operations that an entry from disk may have, and what they are in a guard; None: of bodies.
OPERATIONS: Final[dict[str, Callable[..., Any] | None]] = {
    "item": safe_eval.item,
    "attribute": _attribute,
    "is": operator.is_,
    "is not": operator.is_not,
    "==": safe_eval.equal,
    "!=": safe_eval.unequal,
    "in": lambda key, value: safe_eval.contains(value, key),
    "not in": lambda key, value: safe_eval.lacks(value, key),
    "not": lambda value: not _truth(value),
    "and": _all,
    "or": _any,
    **{name: _of_numbers(fn) for name, fn in _NUMERIC.items()},
    "type": _type,
    "len": safe_eval.length,
    "id": id,
    "bool": _truth,
    "hasattr": safe_eval.has,
    "frozenset": lambda value: frozenset(safe_eval.numbers(value)),
    "slice": slice,
    "tuple": lambda *parts: parts,
    "list": lambda *parts: [*parts],
    "listed": lambda value: [*safe_eval.items(value)],
    "mapped": _mapped,
    "part": lambda value, *bounds: safe_eval.part(value, slice(*bounds)),
    "joined": lambda *parts: [x for part in parts for x in safe_eval.items(part)],
    "bytes": lambda latin: latin.encode("latin-1"),
    "call": _called,
    "check": _seen(Seen.check),
    "differ": _seen(Seen.differ),
    "apart": _seen(Seen.apart),
    "may_write": _seen(Seen.may_write),
    "tags": _of_classes(Classes.tags),
    "hold": _of_classes(Classes.hold),
    "isdisjoint": _disjoint,
    **dict.fromkeys(
        ("after", "dict", "star", "keyword", "new", "method", "run", "begin", "attach")
    ),
}
