"""Random programs of odd classes and odd calls: a seed -> the text of a function of a tensor.

A program either calls what the builtins and the standard library have with arguments that they may
not expect, or defines classes that use what the language has for them (metaclasses, descriptors,
slots, hooks of subclassing, generics, enumerations) and asks their instances. What is raised is a
value like others.
"""

import builtins
import inspect
import random

MODULES = (
    "abc array base64 binascii bisect calendar cmath collections collections.abc contextlib "
    "contextvars copy dataclasses datetime decimal difflib enum fractions functools hashlib heapq "
    "html inspect io itertools json keyword locale math numbers operator pathlib pprint queue re "
    "reprlib secrets shlex statistics string struct textwrap time traceback types typing "
    "unicodedata urllib.parse uuid weakref zlib"
).split()
# What ends the process, asks somebody, differs from call to call, or takes long.
LEFT_OUT = {
    "input", "open", "exit", "quit", "breakpoint", "help", "copyright", "credits", "license", "print",
    "id", "exec", "eval", "compile", "sleep", "time", "time_ns", "perf_counter", "perf_counter_ns",
    "monotonic", "monotonic_ns", "process_time", "process_time_ns", "thread_time", "thread_time_ns",
    "setlocale", "clock_settime", "clock_settime_ns", "tzset", "dataclass", "uuid1", "uuid4", "getnode", "main",
    "runctx", "run", "token_bytes", "token_hex", "token_urlsafe", "randbits", "randbelow", "choice",
    "SystemRandom", "localtime", "gmtime", "ctime", "asctime", "get_clock_info", "clock_gettime",
    "clock_gettime_ns", "KeyboardInterrupt", "SystemExit", "BaseException", "GeneratorExit",
    "BaseExceptionGroup", "stack", "currentframe", "trace", "print_exc", "print_last", "print_stack",
    "format_stack", "extract_stack", "walk_stack", "test", "repeat", "count", "cycle", "factorial",
    "comb", "perm", "pbkdf2_hmac", "scrypt", "file_digest", "setcontext", "getcontext", "register",
    "globals", "open_code", "OpenWrapper", "GenericAlias", "print_exception", "print_tb", "print_list",
    "pprint", "pp", "__import__", "dir", "prcal", "prmonth", "prweek", "pryear", "hash", "FileIO",
    "product", "pow", "ldexp", "lcm", "iglob", "walk_packages", "chdir",
}  # fmt: skip
VALUES = (
    "0", "1", "-1", "3", "2.5", "None", "True", "''", "'ab'", "'a b'", "b'ab'", "()", "(1, 2)", "[]",
    "[3, 1, 2]", "['b', 'a']", "{}", "{'a': 1}", "{1, 2}", "frozenset({1})", "int", "str", "list",
    "object", "type", "len", "max", "ValueError", "ValueError('v')", "(lambda *a: len(a))",
    "(lambda a: a)", "iter([1, 2])", "range(3)", "slice(1, 2)", "1j", "Ellipsis", "NotImplemented",
    "Plain", "Plain()", "Slotted()", "Color", "Color.RED", "Point(1, 2)", "Data(1)", "partial(max, 1)",
    "OrderedDict(a=1)", "Counter('ab')", "deque([1])", "defaultdict(int)", "Fraction(1, 2)", "x",
    "x.shape", "float(x.shape[0])", "[x]", "x.dtype", "(i for i in (1, 2))", "map(str, [1])",
    "bytearray(b'a')", "property()", "staticmethod(len)", "[].append", "str.upper", "super",
)  # fmt: skip
HEAD = """
import abc, collections, contextlib, copy, dataclasses, enum, functools, itertools, operator, types, typing, weakref
from collections import Counter, OrderedDict, defaultdict, deque
from fractions import Fraction
from functools import partial

class Plain:
    pass

class Slotted:
    __slots__ = ("a", "__weakref__")

class Color(enum.Enum):
    RED = 1
    BLUE = "b"

class Point(typing.NamedTuple):
    a: int
    b: int = 2

@dataclasses.dataclass
class Data:
    a: object = None

class Base(abc.ABC):
    pass
"""
# Lines of a program; V is a value. `r` is what is seen of it.
CLASSES = """
class M(type):; def __call__(cls, *a):; r.append(len(a)); return super().__call__();; class A(metaclass=M):; pass;; r.append(type(A(V)).__name__)
class M(type):; def __prepare__(name, bases, **kw):; return {'k': len(kw)}; def __new__(m, n, b, d, **kw):; return super().__new__(m, n, b, d); def __init__(c, *a, **kw):; pass;; class A(metaclass=M, odd=V):; pass;; r.append(A.k)
class M(type):; def __instancecheck__(cls, o):; return o == V; def __subclasscheck__(cls, o):; return True;; class A(metaclass=M):; pass;; r += [isinstance(V, A), issubclass(int, A)]
class M(type):; def __getattr__(cls, n):; return n * 2; def __len__(cls):; return 3; def __iter__(cls):; return iter([V]); def __getitem__(cls, k):; return k;; class A(metaclass=M):; pass;; r += [A.ab, len(A), len(list(A)), A[V]]
class D:; def __get__(s, o, t=None):; return V if o is None else (V, 1); def __set_name__(s, o, n):; s.n = n; def __set__(s, o, v):; o.__dict__[s.n] = v;; class A:; d = D();; a = A(); a.d = V; r += [A.d, a.d, sorted(vars(a))]
class D:; def __delete__(s, o):; r.append('gone'); def __get__(s, *a):; return len(a);; class A:; d = D();; a = A(); r.append(a.d); del a.d
class A:; __slots__ = ('p', 'q'); def __init__(s):; s.p = V;; a = A(); r += [a.p, hasattr(a, 'q'), hasattr(a, '__dict__')]; del a.p; a.z = V
class A:; def __init_subclass__(cls, tag=None, **kw):; cls.tag = tag; super().__init_subclass__(**kw);; class B(A, tag=V):; pass;; r.append(B.tag); class C(A, other=1):; pass
class A:; def __class_getitem__(cls, k):; return (cls.__name__, k);; r += [A[V], A[1, 2]]
T = typing.TypeVar('T');; class A(typing.Generic[T]):; def get(s):; return V;; r += [A[int]().get(), A[int].__args__, A.__parameters__ == (T,)]
class E(enum.Enum):; A = V; B = 'b'; def up(s):; return s.name;; r += [E.A.value, E.B.up(), len(E), E('b') is E.B, E['A'].name]; E(17)
class E(enum.IntFlag):; A = 1; B = 2;; r += [int(E.A | E.B), (E.A | E.B).name, E(3) & E.A, ~E.A]; E(V)
class E(str, enum.Enum):; A = 'a'; @classmethod; def _missing_(cls, v):; return cls.A;; r += [E(V).value, E.A + 'b', E.A == 'a']
@dataclasses.dataclass(frozen=True, order=True); class A:; a: int = 1; b: object = dataclasses.field(default=V, compare=False);; r += [A() < A(2), dataclasses.asdict(A()), dataclasses.replace(A(), a=5).a]; A().a = V
@dataclasses.dataclass(slots=True, kw_only=True); class A:; a: int; def __post_init__(s):; s.a = (s.a, V);; r += [A(a=1).a, dataclasses.fields(A)[0].name]; A(1)
class A(typing.NamedTuple):; a: int; b: object = None;; r += [A(1)._asdict(), A(1)._replace(b=V), A._make([1, 2]), A._fields]; A()
class A(typing.TypedDict, total=False):; a: int;; r += [A(a=V), A.__total__]
class A(typing.Protocol):; def f(s):; ...;; class B:; def f(s):; return V;; r += [B().f(), A in B.__mro__]; A()
class A(abc.ABC):; @abc.abstractmethod; def f(s):; ...;; class B(A):; def f(s):; return V;; r += [B().f(), sorted(A.__abstractmethods__)]; A()
class A:; pass;; Base.register(A); r.append(isinstance(A(), Base))
class A(abc.ABC):; pass;; A.register(int); r += [isinstance(1, A), issubclass(str, A)]; A.register(V)
A = type('A', (Plain,), {'k': V, 'f': lambda s: s.k}); r += [A().f(), A.__name__, A.__mro__[1].__name__]; type('B', V, {})
A = types.new_class('A', (), {}, lambda d: d.update(k=V)); r.append(A.k); types.new_class(V)
class A:; @property; def p(s):; return V; @p.setter; def p(s, v):; s.v = v; @p.deleter; def p(s):; del s.v;; a = A(); a.p = 2; r += [a.p, a.v]; del a.p; a.v
class A:; n = 0; @functools.cached_property; def p(s):; A.n += 1; return V;; a = A(); r += [a.p, a.p, A.n, sorted(vars(a))]
class A:; @functools.singledispatchmethod; def f(s, v):; return 'any'; @f.register; def _(s, v: int):; return 'int';; r += [A().f(1), A().f('a'), A().f(V)]
@functools.singledispatch; def f(v):; return 'any';; f.register(str, lambda v: 'str'); r += [f(V), f('a')]
@functools.lru_cache(maxsize=2); def f(v):; r.append('run'); return v;; r += [f(1), f(1), f.cache_info().hits]; f(V)
class A:; def __getattr__(s, n):; return (n, V); def __getattribute__(s, n):; return super().__getattribute__(n); def __setattr__(s, n, v):; super().__setattr__(n, (v,)); def __delattr__(s, n):; r.append(n);; a = A(); a.k = V; r += [a.k, a.other]; del a.k
class A:; def __new__(cls, *a):; return V;; r.append(A(1, 2))
class A(int):; def __new__(cls, v):; return super().__new__(cls, 3); def __add__(s, o):; return 'sum';; r += [A(V) + 1, 1 + A(V), A(V) * 2]
class A(dict):; def __missing__(s, k):; return (k,);; a = A(); r += [a[V], a.get(1)]; a.update(b=V); r.append(dict(a))
class A(list):; def append(s, v):; super().append((v,));; a = A([1]); a.append(V); r += [list(a), len(a), a + [1]]; a.sort()
class A(str):; def upper(s):; return V;; r += [A('ab').upper(), A('ab') + 'c', A('ab').lower()]
class A(types.ModuleType):; k = V; def __getattr__(s, n):; return n;; a = A('m'); a.z = 1; r += [a.k, a.z, a.__name__, a.other]
class A(OrderedDict):; pass;; a = A.fromkeys('ab', V); r += [list(a.items()), list(OrderedDict.fromkeys('ab', value=V).items())]; a.move_to_end('c')
class A(Exception):; def __init__(s, *a, k=1):; super().__init__(*a); s.k = k; def __str__(s):; return f'A{len(s.args)}';; r.append(str(A(V, 1))); raise A(V, k=2)
class A(BaseException):; pass;; r.append(issubclass(A, Exception)); raise ValueError(V) from KeyError(1)
try:; raise ExceptionGroup('g', [ValueError(V), TypeError(1)]); except* ValueError as e:; r.append(len(e.exceptions)); except* TypeError as e:; r.append('t')
class A:; def __enter__(s):; return V; def __exit__(s, t, e, b):; r.append(t is None); return True;; with A() as v:; r.append(v); raise KeyError(1)
@contextlib.contextmanager; def f():; try:; yield V; finally:; r.append('end');; with f() as v, contextlib.suppress(KeyError):; r.append(v); {}[1]
with contextlib.ExitStack() as s:; s.callback(r.append, V); s.enter_context(contextlib.nullcontext(1)); r.append('in'); s.pop_all().close()
class A:; def __iter__(s):; return s; def __next__(s):; raise StopIteration(V); def __reversed__(s):; return [V]; def __contains__(s, v):; return v == 1; def __len__(s):; return 2;; a = A(); r += [list(a), reversed(a), 1 in a, len(a), bool(a)]
class A:; def __eq__(s, o):; return V; def __hash__(s):; return 7; def __lt__(s, o):; return NotImplemented;; r += [A() == 1, A() != 1, hash(A()), A() in [1]]; A() < A()
@functools.total_ordering; class A:; def __eq__(s, o):; return True; def __lt__(s, o):; return False;; r += [A() <= A(), A() >= A(), A() > 1]
class A:; def __index__(s):; return 2; def __int__(s):; return 3; def __float__(s):; return 2.5; def __complex__(s):; return 1j; def __bool__(s):; return False; def __round__(s, n=None):; return V;; a = A(); r += [[1, 2, 3][a], int(a), float(a), complex(a), not a, round(a), range(a), hex(a)]
class A:; def __repr__(s):; return 'A!'; def __format__(s, f):; return f + '!'; def __bytes__(s):; return b'a'; def __sizeof__(s):; return 1; def __dir__(s):; return ['z'];; a = A(); r += [repr([a]), f'{a:x}', f'{a!r}', bytes(a), '%s' % a, '{0}'.format(a), format(V)]
class A:; def __init__(s, v):; s.v = v;; class B(A):; def __init__(s, v):; t = super(); t.__init__(v); r.append(t.__thisclass__.__name__);; r.append(B(V).v)
class A:; def f(s):; return [V];; class B(A):; def f(s):; return super().f() + ['b'];; class C(A):; def f(s):; return super().f() + ['c'];; class D(B, C):; pass;; r += [D().f(), [c.__name__ for c in D.__mro__], super(B, D()).f()]
class A:; def __mro_entries__(s, bases):; return (Plain,);; class B(A()):; pass;; r += [B.__mro__[1].__name__, len(B.__orig_bases__)]
class A:; k = V; y = [k for k in range(2)]; locals()['z'] = 1; def f(s):; return __class__.__name__;; r += [A.y, A.z, A().f(), A.__qualname__[-1:], A.__module__]
q = functools.partial(lambda *a, **k: (a, k), V); q.name = 'q'; w = functools.partial(q, 2, k=1); r += [w(3), w.args, w.keywords, q.name]; w.nothing
class A:; f = functools.partialmethod(lambda s, *a: a, V); g = staticmethod(lambda *a: a); h = classmethod(lambda c, *a: a); k = len; m = operator.attrgetter('z'); z = 1;; a = A(); r += [a.f(1), a.g(1), a.h(V), a.k('ab'), a.m(a)]
r += [locals() is locals(), sorted(locals())[:2], vars() is locals(), 'x' in locals(), callable(V)]
def f(a, /, b=V, *c, d=2, **e):; return (a, b, c, d, e);; f.k = V; r += [f(1), f(1, 2, 3, d=4, z=5), f.k, f.__defaults__, f.__kwdefaults__, f.__code__.co_argcount, f.__name__]; f()
def f():; t = yield V; r.append(t); yield from [1, 2]; return 'end';; g = f(); r += [next(g), g.send('s'), list(g)]; next(g)
def f():; try:; yield 1; except ValueError as e:; yield (str(e), V); finally:; r.append('f');; g = f(); next(g); r.append(g.throw(ValueError('v'))); g.close(); r.append(g.gi_frame is None)
f = lambda n: 1 if n < 2 else n * f(n - 1); r += [f(5), (lambda *a, **k: (a, k))(*[1], **{'a': V}), (y := V), y]
class A:; def __call__(s, *a, **k):; return (len(a), sorted(k)); def __matmul__(s, o):; return 'm'; def __rmatmul__(s, o):; return 'r'; def __ipow__(s, o):; return 'i'; def __divmod__(s, o):; return V; def __invert__(s):; return ~1;; a = A(); r += [a(V, k=1), a @ 1, 1 @ a, divmod(a, 1), ~a]; a **= 2; r.append(a)
match V:; case int(n) if n > 0:; r.append(('int', n)); case [a, *b]:; r.append(('seq', a, b)); case {'a': v, **rest}:; r.append(('map', v, rest)); case str() | None:; r.append('str'); case Point(a=1, b=b):; r.append(('point', b)); case Color.RED:; r.append('red'); case _:; r.append('other')
a, *b = V; r += [a, b]; (c, d), e = V; r += [c, d, e]
s = slice(V, None, 2); r += [s.start, s.indices(5), [1, 2, 3][s], s == slice(V, None, 2), hash(V)]
w = weakref.ref(Plain); r += [w() is Plain, weakref.ref(V)() is None]
r += [copy.copy(V), copy.deepcopy([V]), copy.replace(V) if hasattr(copy, 'replace') else 0]
del r[:]; r += [V]; r *= 2; r[V]
assert V, 'text'; v = V; r.append(f'{v!s:>4}|{v!r}'); r.append('%r %s' % (V, V)); nonexistent
for i in V:; r.append(i); if i == 2:; break; else:; r.append('else')
class A:; __match_args__ = ('a',); a = V;; match A():; case A(v):; r.append(v)
class A:; def __set_name__(s, o, n):; raise KeyError(n);; class B:; k = A()
class A(Plain, object, metaclass=abc.ABCMeta):; __slots__ = ();; r += [A.__bases__[0].__name__, A().__dict__]; class B(object, A):; pass
class A(Color):; pass
class A(bool):; pass
class A:; __eq__ = None; __hash__ = None; __iter__ = None;; {A()}
class A:; def __del__(s):; r.append('del');; A(); a = A(); del a; r.append('after')
""".strip().splitlines()


def _values(rng, text):
    parts = text.split("V")
    inner = [rng.choice(VALUES) for _ in parts[1:]]
    # a name that only begins or ends with the letter is none
    found = parts[0]
    for value, part in zip(inner, parts[1:], strict=True):
        word = (found[-1:].isidentifier() or found[-1:].isdigit()) or part[:1].isidentifier()
        found += ("V" if word else value) + part
    return found


_PARTNERS = {"except": ("try",), "finally": ("try",), "else": ("for ", "if "), "case": ("match ",)}


def _lines(text):
    """A line of `CLASSES` as statements: `;` ends one, `:;` opens a block, `;;` closes all of them.
    What goes on with a block closes those in it; a second `def` in one closes that of the first."""
    out = []
    for chunk in text.split(";;"):
        depth = 0
        for words in filter(None, map(str.strip, chunk.split(";"))):
            first = words.replace("*", " ").replace(":", " ").split()[0]
            partners = _PARTNERS.get(first)
            if partners or (words.startswith(("def ", "@")) and depth > 1):
                opened = [
                    d
                    for d, line in out
                    if line.endswith(":") and line.startswith(partners or "class ")
                ]
                depth = opened[-1] + (partners is None or first == "case") if opened else depth - 1
            out.append((depth, words))
            depth += words.endswith(":")
    return ["    " * depth + words for depth, words in out]


def _call(rng):
    home = rng.choice(["builtins"] * 12 + MODULES)
    module = builtins if home == "builtins" else __import__(home, fromlist=["x"])
    names = getattr(module, "__all__", None) or [n for n in dir(module) if n[:1] != "_"]
    names = sorted(n for n in names if n not in LEFT_OUT and callable(getattr(module, n, None)))
    name = rng.choice(names)
    args = [rng.choice(VALUES) for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3)))]
    try:
        known = [p.name for p in inspect.signature(getattr(module, name)).parameters.values()]
    except (ValueError, TypeError):
        known = ["key", "default", "value"]
    if known and rng.random() < 0.3:
        args.append(f"{rng.choice(known)}={rng.choice(VALUES)}")
    called = name if home == "builtins" else f"{home}.{name}"
    imports = [] if home == "builtins" else [f"import {home}"]
    lines = [f"r.append({called}({', '.join(args)}))"]
    if rng.random() < 0.2:
        lines = [
            f"v = {called}({', '.join(args)})",
            f"r += [v, list(v), v == {rng.choice(VALUES)}]",
        ]
    return imports, lines


def program(seed):
    """The text of `program(x)`, which gives a tensor and a list."""
    rng = random.Random(seed)
    imports, lines = [], []
    for _ in range(rng.choice((1, 1, 2))):
        if rng.random() < 0.5:
            more, found = _call(rng)
            imports += more
        else:
            found = _lines(_values(rng, rng.choice(CLASSES)))
        lines += found
    body = "\n".join(f"        {line}" for line in lines)
    head = "\n".join(imports)
    return (
        f"{HEAD}{head}\n\ndef program(x):\n    r = []\n    try:\n{body}\n"
        "    except Exception as error:\n        r.append(type(error).__name__)\n"
        "    return x * 2 + 1, r\n"
    )
