"""Kept versions: what an entry does, as data. rows <-> what its guards say of a call, its source.

A term is a number, a truth value, None, a text (`'lr`), a name (`v5`), or a list: an operation of
`OPERATIONS` and its operands, as in `["item", "v4", "'lr"]`. A row is one statement:

    ["let", name, term]                  a variable
    ["take", name, term]                 an object of the program, where it is found
    ["hold", term]                       a guard
    ["each", places, constants, term]    a guard on `v` and `i`, for many places
    ["sizes", name, places, ["rows", row, ...], ["tuple", name, ...]]    what sizes decide: rows of
                                         the first two kinds, and the variables that are needed
    ["set", place, term]  ["add", place, term]  ["count", places, term]
    ["do", term]  ["return", term]

The guards of a version that is looked for are evaluated here, by operations that run nothing of the
program (`safe_eval`). What is run is printed, with each name and each call looked at, and compiled.
"""

from __future__ import annotations

import builtins
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from jitcap.guards.class_guard import Classes
from jitcap.guards.size_guard import LastSizes, block
from jitcap.guards.tensor_guard import Seen
from jitcap.store import safe_eval
from jitcap.store.allowlist import Unreadable, may_ask, may_call
from jitcap.store.safe_eval import METHODS, number

Term = Any
Row = list[Any]
_NAME: Final = re.compile(r"[vtnC]\d{1,9}", re.ASCII)
_LITERALS: Final = (int, type(None), bool, float)
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
    for name in "type len id zip hasattr abs bool int float complex slice frozenset".split()
}


class Operation(NamedTuple):
    """Spelling of a term, and its evaluation in a guard (None: it is for bodies alone)."""

    spell: Callable[..., str]
    ask: Callable[..., Any] | None = None
    lazy: bool = False  # whether `ask` evaluates the operands that it needs


# ---- what is known of a call


def find(
    rows: Iterable[Row], values: dict[str, Any], take: Callable[[str, Any], None]
) -> dict[str, Any] | None:
    """The values of all variables, besides those given, if the guards hold; else None. `take` is
    told each object of the program by name. May raise UNREADABLE."""

    def value(term: Term) -> Any:
        kind = type(term)
        if kind is str:
            return term[1:] if term[0] == "'" else values[term]
        if kind is not list:
            return _literal(term)
        _, ask, lazy = OPERATIONS[term[0]]
        if ask is None:
            raise Unreadable("an operation of bodies in a guard")
        if lazy:
            return ask(value, *term[1:])
        return ask(
            *[
                values[part] if type(part) is str and part[0] != "'" else value(part)
                for part in term[1:]
            ]
        )

    for kind, *parts in rows:
        if kind == "let":
            name, term = parts
            values[_variable(name, "v")] = value(term)
        elif kind == "sizes":
            if find(_lines(parts[2]), values, take) is None:
                return None
        elif kind == "take":
            name, term = parts
            values[_variable(name, "C")] = found = value(term)
            take(name, found)
        elif kind == "each":
            places, constants, test = parts
            ask = _asked_often(test, values)
            columns = map(safe_eval.items, map(value, (places, constants)))
            if not all(ask(v, i) for v, i in zip(*columns, strict=False)):
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


def _asked_often(test: Term, values: dict[str, Any]) -> Callable[[Any, Any], bool]:
    """A test as a function of `v` and `i`: what has many rows is compiled, as calls of the same
    operations."""

    def spell(term: Term) -> str:
        if type(term) is str and term not in ("v", "i"):
            return repr(term[1:]) if term[0] == "'" else f"values[{term!r}]"
        if type(term) is not list:
            return term if type(term) is str else repr(_literal(term))
        tag, *parts = term
        texts = [*map(spell, parts)]
        if OPERATIONS[tag].lazy:
            return f"({f' {tag.lower()} '.join(f'truth({text})' for text in texts)})"
        return f"ask[{tag!r}]({', '.join(texts)})"

    ask = {tag: operation.ask for tag, operation in OPERATIONS.items()}
    code = compile(f"lambda v, i: truth({spell(test)})", "<guard>", "eval")
    fn: Callable[[Any, Any], bool] = eval(
        code, {"ask": ask, "truth": _truth, "values": values, "__builtins__": {}}
    )
    return fn


def _literal(value: Any) -> Any:
    """A value that stands for itself. Raises Unreadable."""
    if type(value) not in _LITERALS or (type(value) is float and not math.isfinite(value)):
        raise Unreadable("no literal")
    return value


def _variable(name: Any, letters: str) -> str:
    """A name that a statement may give. Raises Unreadable."""
    if name[0] not in letters or not _NAME.fullmatch(name):
        raise Unreadable(f"{name} is stored")
    return str(name)


# ---- as Python


class Source:
    """Prints rows. `known`: what every name stands for that is there before the first row; so are
    `variables`, of which no more is known."""

    def __init__(self, known: Mapping[str, Any], variables: Iterable[str] = ()) -> None:
        self.known = known
        self.attaches = False  # to the region
        self._names = {"args", "kwargs", *known, *variables}
        self._depth = 0
        self._call = may_ask

    def guards(self, rows: Iterable[Row]) -> list[str]:
        """The statements of guards, but for those that only take."""
        lines = []
        for kind, *parts in rows:
            if kind == "let":
                name, term = parts
                lines.append(self._let(name, term, "v"))
            elif kind == "hold":
                lines.append(f"if not {self.term(*parts)}: return MISS")
            elif kind == "sizes":
                lines.append(self._sizes(*parts))
            elif kind == "each":
                places, constants, test = parts
                lines.append(f"for v, i in zip({self.term(places)}, {self.term(constants)}):")
                self._names |= {"v", "i"}
                lines.append(f"  if not {self.term(test)}: return MISS")
            else:
                self._names.add(parts[0])
        return lines

    def _sizes(self, state: Any, key: Term, rows: Any, values: Term) -> str:
        if type(self.known[state]) is not LastSizes or {key[0], values[0]} != {"tuple"}:
            raise Unreadable("no block")
        places = [*map(self.term, key[1:])]
        lines, names = self.guards(_lines(rows)), values[1:]
        if not all(f"{_variable(name, 'v')} = " in "\n".join(lines) for name in names):
            raise Unreadable("a block without its values")
        return block(self._name(state), places, lines, names)

    def body(self, rows: Iterable[Row]) -> list[str]:
        """The statements after the guards."""
        self._call = may_call
        self._names.add("K")
        return [_STATEMENTS[kind](self, *parts) for kind, *parts in rows]

    def term(self, term: Term) -> str:
        """A term. Raises Unreadable for what none is."""
        kind = type(term)
        if kind is str:
            return repr(term[1:]) if term[0] == "'" else self._name(term)
        if kind is list:
            self._depth += 1
            if self._depth > _DEEPEST:
                raise Unreadable("what is nested too deeply")
            text = OPERATIONS[term[0]].spell(self, *term[1:])
            self._depth -= 1
            return text
        return f"({_literal(term)!r})"

    def _name(self, name: str) -> str:
        if name not in self._names:
            raise Unreadable(f"{name}, a name that nothing provides")
        return name

    def _let(self, name: Any, term: Term, letters: str) -> str:
        text = self.term(term)
        self._names.add(name if name in _RESULTS and "t" in letters else _variable(name, letters))
        return f"{name} = {text}"

    def _place(self, place: Term) -> str:
        if place[0] == "attribute":
            if place[2][1:] not in _STORED:
                raise Unreadable(f"{place[2]} is stored")
        elif place[0] not in ("item", "after"):
            raise Unreadable("no place")
        return self.term(place)

    def called(self, fn: Term) -> str:
        """A constant that may be called."""
        if type(fn) is not str or fn[0] != "C" or not self._call(self.known[fn]):
            raise Unreadable("a call of another function")
        return self._name(fn)

    def changed(self, base: Term) -> str:
        """Source of the container whose method is called: not of the program's own class."""
        root = base
        while type(root) is list and root[0] in ("attribute", "item"):
            root = root[1]
        if type(root) is not str:
            raise Unreadable("a call of a value")
        if root in self.known:
            if root is not base:
                raise Unreadable("a call of a part")
            safe_eval.container(self.known[root])
        return self.term(base)


_RESULTS: Final = ("o", "r", "h")  # of the graph, of the region
_STATEMENTS: Final[dict[str, Callable[..., str]]] = {
    "let": lambda s, name, term: s._let(name, term, "tn"),
    "set": lambda s, place, term: f"{s._place(place)} = {s.term(term)}",
    "add": lambda s, place, term: f"{s._place(place)} += {s.term(term)}",
    "count": lambda s, places, term: (
        f"for t in {s.term(places)}: (t._counts or t._storage).version += {s.term(term)}"
    ),
    "do": lambda s, term: s.term(term),
    "return": lambda s, term: f"return {s.term(term)}",
}


def is_attribute(name: Any) -> bool:
    """True if a version may read an attribute of this name."""
    return type(name) is str and (name[:2] != "__" or name in _DUNDER) and name.isidentifier()


# ---- the operations


def _form(text: str, join: Callable[[list[str]], str] | None = None) -> Callable[..., str]:
    """`text` with operands in its places; with `join`, in the last one all that are left."""
    count = text.count("{}")

    def spell(source: Source, *parts: Term) -> str:
        texts = [*map(source.term, parts)]
        if join is not None:
            texts[count - 1 :] = [join(texts[count - 1 :])]
        if len(texts) != count:
            raise Unreadable("no operands")
        return text.format(*texts)

    return spell


def _row(parts: list[str]) -> str:
    return "".join([f"{part}, " for part in parts])


def _pairs(parts: list[str]) -> str:
    return "".join(f"{k}: {v}, " for k, v in zip(parts[::2], parts[1::2], strict=True))


def _member(name: Term, allowed: Callable[[str], bool]) -> str:
    if type(name) is not str or name[0] != "'" or not allowed(name[1:]):
        raise Unreadable(f"no name: {name}")
    return name[1:]


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


def _call(source: Source, fn: Term, *parts: Term) -> str:
    return f"{source.called(fn)}({_row([*map(source.term, parts)])})"


def _new(source: Source, fn: Term, *parts: Term) -> str:
    return f"{source.called(fn)}.__new__({_row([*map(source.term, parts)])})"


def _method(source: Source, name: Term, base: Term, *parts: Term) -> str:
    given = _row([*map(source.term, parts)])
    return f"{source.changed(base)}.{_member(name, METHODS.__contains__)}({given})"


def _attach(source: Source, *parts: Term) -> str:
    source.attaches = True
    return f"R.attach({_row([*map(source.term, parts)])})"


def _begin(source: Source, *parts: Term) -> str:
    source.attaches = True
    return f"R.begin({_row([*map(source.term, parts)])})"


_INFIX: Final[dict[str, tuple[str, Callable[..., Any]]]] = {
    "Lt": ("<", operator.lt), "LtE": ("<=", operator.le), "Gt": (">", operator.gt),
    "GtE": (">=", operator.ge), "Add": ("+", operator.add), "Sub": ("-", operator.sub),
    "Mult": ("*", operator.mul), "Div": ("/", operator.truediv), "Mod": ("%", operator.mod),
    "FloorDiv": ("//", operator.floordiv), "Pow": ("**", operator.pow),
    "LShift": ("<<", operator.lshift), "RShift": (">>", operator.rshift),
    "BitAnd": ("&", operator.and_), "BitOr": ("|", operator.or_), "BitXor": ("^", operator.xor),
}  # fmt: skip
_PREFIX: Final[dict[str, tuple[str, Callable[..., Any]]]] = {
    "USub": ("-", operator.neg), "UAdd": ("+", operator.pos), "Invert": ("~", operator.invert),
}  # fmt: skip
_NUMERIC: Final[dict[str, Callable[..., Any]]] = {
    "abs": abs,
    "int": int,
    "float": float,
    "complex": complex,
}
OPERATIONS: Final[dict[str, Operation]] = {
    "item": Operation(_form("{}[{}]"), safe_eval.item),
    "attribute": Operation(
        lambda s, base, name: f"{s.term(base)}.{_member(name, is_attribute)}", _attribute
    ),
    "Is": Operation(_form("({} is {})"), operator.is_),
    "IsNot": Operation(_form("({} is not {})"), operator.is_not),
    "Eq": Operation(_form("({} == {})"), safe_eval.equal),
    "NotEq": Operation(_form("({} != {})"), safe_eval.unequal),
    "In": Operation(_form("({} in {})"), lambda key, value: safe_eval.contains(value, key)),
    "NotIn": Operation(_form("({} not in {})"), lambda key, value: safe_eval.lacks(value, key)),
    "Not": Operation(_form("(not {})"), lambda value: not _truth(value)),
    "And": Operation(_form("({})", " and ".join), _all, lazy=True),
    "Or": Operation(_form("({})", " or ".join), _any, lazy=True),
    **{k: Operation(_form(f"({{}} {s} {{}})"), _of_numbers(f)) for k, (s, f) in _INFIX.items()},
    **{k: Operation(_form(f"({s}{{}})"), _of_numbers(f)) for k, (s, f) in _PREFIX.items()},
    **{k: Operation(_form(f"{k}({{}})"), _of_numbers(f)) for k, f in _NUMERIC.items()},
    "type": Operation(_form("type({})"), _type),
    "len": Operation(_form("len({})"), safe_eval.length),
    "id": Operation(_form("id({})"), id),
    "bool": Operation(_form("bool({})"), _truth),
    "hasattr": Operation(_form("hasattr({}, {})"), safe_eval.has),
    "frozenset": Operation(
        _form("frozenset({})"), lambda value: frozenset(safe_eval.numbers(value))
    ),
    "slice": Operation(_form("slice({})", _row), slice),
    "tuple": Operation(_form("({})", _row), lambda *parts: parts),
    "list": Operation(_form("[{}]", _row), lambda *parts: [*parts]),
    "set": Operation(_form("{{{}}}", _row), _of_numbers(lambda *parts: {*parts})),
    "listed": Operation(_form("[*{}]"), lambda value: [*safe_eval.items(value)]),
    "dict": Operation(_form("{{{}}}", _pairs)),
    "star": Operation(_form("*{}")),
    "after": Operation(_form("{}[{}:]")),
    "bytes": Operation(
        lambda s, text: repr(text[1:].encode("latin-1")), lambda text: text.encode("latin-1")
    ),
    "call": Operation(_call, _called),
    "keyword": Operation(lambda s, name, term: f"{_member(name, str.isidentifier)}={s.term(term)}"),
    "new": Operation(_new),
    "method": Operation(_method),
    "check": Operation(_form("{}.check({}, {})"), _seen(Seen.check)),
    "differ": Operation(_form("{}.differ({})"), _seen(Seen.differ)),
    "apart": Operation(_form("{}.apart({}, {})"), _seen(Seen.apart)),
    "may_write": Operation(_form("{}.may_write({})"), _seen(Seen.may_write)),
    "tags": Operation(_form("{}.tags({})", _row), _of_classes(Classes.tags)),
    "hold": Operation(_form("{}.hold({}, {})"), _of_classes(Classes.hold)),
    "isdisjoint": Operation(_form("{}.isdisjoint({})"), _disjoint),
    "run": Operation(_form("K({})")),
    "run_replacing": Operation(_form("K({}, {})")),  # on a device: the tensors that get gradients
    "begin": Operation(_begin),
    "attach": Operation(_attach),
}
