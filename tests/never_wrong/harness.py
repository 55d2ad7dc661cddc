"""A program's world is built afresh for each run: once plainly, then under @jit, and once more under
@jit over the cache that the first left on disk. After each call everything is written down as lines
of text (`Snapshot`), and the lines must be equal.

    @case("numbers")
    def counter_beyond_64_bits():
        state = {"n": 2**63}

        def step(x):
            state["n"] = state["n"] * 3 + 1
            return x * 2, state["n"] % 11

        return Program(step, [(x,), after(lambda: state.update(n=5), x)], lambda: state)
"""

import collections
import contextlib
import functools
import io
import logging
import os
import queue
import random
import re
import signal
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from logging.handlers import QueueHandler
from pathlib import Path
from typing import Any

import numpy as np

import eager
import jitcap
from eager.core.sym import SymNumber
from jitcap import JitcapWarning, config, jit

HERE = str(Path(__file__).parent)
SECONDS = 30  # a case takes a tenth of one; what takes so long does not end
SHOWN = 20  # lines of each side of a difference
ROUNDS = ("jit", "jit over the cache that the first left")
CASES: dict[str, "Case"] = {}


@dataclass
class Call:
    """One call of the step; `before` changes the world first."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    before: Callable[[], Any] | None = None


def after(change: Callable[[], Any], *args: Any, **kwargs: Any) -> Call:
    """The call `step(*args, **kwargs)` after `change()`."""
    return Call(args, kwargs, change)


@dataclass
class Program:
    """`calls`: Call objects, or plain tuples of arguments. `observe()` is what of the world is
    compared after each call; `close()` undoes what the program did to the process."""

    step: Callable[..., Any]
    calls: list[Call | tuple[Any, ...]]
    observe: Callable[[], Any] = lambda: None
    close: Callable[[], Any] = lambda: None


def vector() -> Any:
    return eager.tensor([1.0, 2.0])


def over(
    step: Callable[..., Any], values: Iterable[Any], observe: Callable[[], Any] = lambda: None
) -> Program:
    """`step(x, value)` for one value after the other, `x` a tensor of two floats."""
    x = vector()
    return Program(step, [(x, value) for value in values], observe)


@dataclass
class Case:
    """`splits`, `compiles`: so many are expected (0: not compared). `one_graph`: one graph per version, no split
    and no fallback. `lines`: the lines of an exception's traceback are compared, too. `cpp`: also
    compiled (its floats must be exact)."""

    group: str
    build: Callable[[], Program]
    splits: int = 0
    compiles: int = 0
    one_graph: bool = False
    lines: bool = False
    cpp: bool = False


def case(
    group: str,
    *,
    splits: int = 0,
    compiles: int = 0,
    one_graph: bool = False,
    lines: bool = False,
    cpp: bool = False,
) -> Callable[[Callable[[], Program]], Callable[[], Program]]:
    """Register a function that builds a fresh Program."""

    def register(build: Callable[[], Program]) -> Callable[[], Program]:
        name = build.__name__
        assert name not in CASES, f"there are two cases called {name}"
        CASES[name] = Case(group, build, splits, compiles, one_graph, lines, cpp)
        return build

    return register


# ---- what a value looks like


def is_a(value: Any, kinds: Any) -> bool:
    """`isinstance` that does not ask the value for its `__class__`: the user would see it."""
    return issubclass(type(value), kinds)


class Snapshot:
    """Values as lines `path: description`, each object once: met again, it is the same as at its
    first path. That is how identity is compared."""

    def __init__(self, *, lines: bool = False) -> None:
        self.text: list[str] = []
        self.seen: dict[int, str] = {}
        self.memories: dict[int, str] = {}
        self.keep: list[Any] = []
        self.lines = lines

    def say(self, path: str, what: str) -> None:
        self.text.append(f"{path}: {what}")

    def add(self, path: str, value: Any) -> None:
        if atom(value) is not None:
            self.say(path, f"{type_name(value)} {atom(value)}")
            return
        if id(value) in self.seen:
            self.say(path, f"the same object as {self.seen[id(value)]}")
            return
        if not (is_a(value, tuple) and all(atom(v) is not None for v in value)):
            self.seen[id(value)] = path  # a tuple of constants may be one object or another
            self.keep.append(value)
        if is_a(value, type):
            self.say(path, f"class {value.__module__}.{value.__qualname__}")
        elif is_a(value, eager.Tensor):
            self.tensor(path, value)
        elif is_a(value, np.ndarray | np.generic):
            self.say(path, f"{type_name(value)} {value.dtype} {value.shape} {value.strides}")
            self.say(path, repr([scalar(v) for v in value.ravel().tolist()]))
        elif is_a(value, BaseException):
            self.exception(path, value)
        elif is_a(value, types.FunctionType):
            self.function(path, value)
        elif is_a(value, types.MethodType):
            self.say(path, f"method {value.__func__.__qualname__}")
            self.add(f"{path}.__self__", value.__self__)
        elif is_a(value, types.CellType):
            self.say(path, "cell")
            with contextlib.suppress(ValueError):
                self.add(f"{path}.cell_contents", value.cell_contents)
        elif is_a(value, functools.partial):
            self.say(path, "partial")
            self.add(f"{path}.parts", [value.func, value.args, value.keywords])
        elif is_a(value, io.StringIO):
            self.say(path, f"StringIO {value.getvalue()!r}")
        else:
            self.object(path, value)

    def tensor(self, path: str, value: eager.Tensor) -> None:
        history = "with history" if value.grad_fn is not None else "leaf"
        self.say(
            path,
            f"{type_name(value)} {value.dtype} {tuple(value.shape)} stride {tuple(value.stride())} "
            f"requires_grad={value.requires_grad} {history}",
        )
        array = value.detach()
        self.say(path, repr([scalar(v) for v in array.reshape(-1).tolist()]))
        memory, size = value._memory()
        if size:
            first = self.memories.setdefault(memory, path)
            self.say(path, f"memory of {first} from {value.storage_offset()}")
        if value.grad_fn is None:
            self.add(f"{path}.grad", value.grad)
        own = {k: v for k, v in vars(value).items() if not k.startswith("_")}
        if own:
            self.add(f"{path}.__dict__", own)

    def exception(self, path: str, value: BaseException) -> None:
        self.say(path, f"{type_name(value)} {str(value)!r}")
        self.add(f"{path}.args", value.args)
        own = {k: v for k, v in value.__dict__.items() if not k.startswith("__jitcap")}
        if own:
            self.add(f"{path}.__dict__", own)
        for name in ("__cause__", "__context__"):
            if getattr(value, name) is not None:
                self.add(f"{path}.{name}", getattr(value, name))
        if value.__suppress_context__:
            self.say(path, "suppresses its context")
        if is_a(value, BaseExceptionGroup):
            self.add(f"{path}.exceptions", value.exceptions)
        if self.lines:
            self.say(path, f"raised at {lines_of(value)}")

    def function(self, path: str, value: types.FunctionType) -> None:
        self.say(path, f"function {value.__module__}.{value.__qualname__}")
        if not value.__code__.co_filename.startswith(HERE):
            return
        parts = {
            "__defaults__": value.__defaults__,
            "__kwdefaults__": value.__kwdefaults__,
            "__closure__": value.__closure__,
            "__dict__": value.__dict__,
        }
        for name, part in parts.items():
            if part:
                self.add(f"{path}.{name}", part)

    def object(self, path: str, value: Any) -> None:
        """A container, or an instance: its items, then its attributes."""
        self.say(path, type_name(value))
        if type(value) is SymNumber or type(value).__module__.partition(".")[0] in (
            "jitcap",
            "codegen",
        ):
            return
        known = False
        if is_a(value, list | tuple | collections.deque):
            known = True
            for i, item in enumerate(list.__iter__(value) if is_a(value, list) else value):
                self.add(f"{path}[{i}]", item)
        elif is_a(value, dict):
            known = True
            kind = collections.OrderedDict if is_a(value, collections.OrderedDict) else dict
            for i, (k, v) in enumerate(kind.items(value)):
                self.add(f"{path} key {i}", k)
                self.add(f"{path}[{atom(k) or i}]", v)
        elif is_a(value, set | frozenset):
            known = True
            for i, item in enumerate(sorted(value, key=lambda v: (type_name(v), str(atom(v))))):
                self.add(f"{path} member {i}", item)
        elif is_a(value, int | float | str | bytes | complex):
            base = next(b for b in type(value).__mro__ if b.__module__ == "builtins")
            self.say(path, f"as {base.__name__} {base.__repr__(value)}")
            known = True
        try:
            fields = object.__getattribute__(value, "__dict__")
        except AttributeError:
            fields = None
        slots = [s for c in type(value).__mro__ for s in vars(c).get("__slots__", ())]
        for name in slots:
            if not name.startswith("__") and (held := held_in(value, name)):
                self.add(f"{path}.{name}", held[0])
        if is_a(value, eager.nn.Module):
            fields = {k: v for k, v in fields.items() if k in ("training",) or k[0] != "_"} | {
                k: fields[k] for k in ("_parameters", "_buffers", "_modules")
            }
        if fields:
            self.add(f"{path}.__dict__", dict(fields))
        if not known and fields is None and not slots:
            self.say(path, re.sub(r" at 0x[0-9a-f]+", "", repr(value)))


def held_in(value: Any, slot: str) -> tuple[Any, ...]:
    try:
        return (object.__getattribute__(value, slot),)
    except AttributeError:
        return ()


def type_name(value: Any) -> str:
    cls = type(value)
    return (
        cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    )


def scalar(value: Any) -> str:
    """A number to the last bit."""
    if type(value) is float:
        return value.hex()
    if type(value) is complex:
        return f"({value.real.hex()}, {value.imag.hex()})"
    if type(value) is int and value.bit_length() > 10_000:
        return hex(value)  # Python has no decimal text for it
    return repr(value)


def atom(value: Any) -> str | None:
    """What is told by its value alone, as text."""
    if value is None or type(value) in (bool, int, float, complex, str, bytes, range, slice):
        return scalar(value)
    if is_a(value, types.ModuleType | types.CodeType | types.BuiltinFunctionType):
        return getattr(value, "__qualname__", getattr(value, "__name__", ""))
    return None


def lines_of(error: BaseException) -> list[str]:
    """The lines of the program that a traceback names, outermost first."""
    found, tb = [], error.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        path = code.co_filename
        if path.startswith(HERE) and path != __file__:
            found.append(f"{code.co_name}:{tb.tb_lineno}")
        tb = tb.tb_next
    return found


# ---- one run


class Endless(BaseException):
    """A case takes so long that it counts as one that does not end."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Endless is raised inside the block, and again each second, when the time is over."""

    def ring(*_: Any) -> None:
        raise Endless(f"does not end in {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def outcome(
    step: Callable[..., Any], call: Call, observe: Callable[[], Any], *, lines: bool
) -> list[str]:
    """One call, written down."""
    found = Snapshot(lines=lines)
    out, err, records = io.StringIO(), io.StringIO(), queue.SimpleQueue[logging.LogRecord]()
    listener = QueueHandler(records)  # a library's: calls are put off only if they run no others
    logging.getLogger().addHandler(listener)
    error, result = None, None
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(record=True) as said,
    ):
        warnings.simplefilter("always")
        try:
            result = step(*call.args, **call.kwargs)
        except Endless:
            raise
        except BaseException as raised:
            error = raised
    logging.getLogger().removeHandler(listener)
    while not records.empty():
        record = records.get()
        where = f"{record.funcName}:{record.lineno}"
        found.say("log", f"{record.name} {record.levelname} {record.getMessage()!r} at {where}")
    if error is None:
        found.add("result", result)
    else:
        found.add("raised", error)
    found.add("args", call.args)
    found.add("kwargs", call.kwargs)
    found.add("world", observe())
    found.add("printed", out.getvalue())
    found.add("printed to stderr", err.getvalue())
    for each in said:
        if not issubclass(each.category, JitcapWarning):
            place = f"{Path(each.filename).name}:{each.lineno}"
            found.say("warned", f"{each.category.__name__} {str(each.message)!r} at {place}")
    if error is not None:
        error.__traceback__ = None  # it holds the world
    return found.text


def seed() -> None:
    random.seed(0)
    np.random.seed(0)
    eager.manual_seed(0)


def run(each: Case, wrap: Callable[[Any], Any]) -> tuple[list[list[str]], Any]:
    """All calls of a fresh world, and the step that was called."""
    seed()
    program = each.build()
    step = wrap(program.step)
    found = []
    try:
        for call in program.calls:
            made = call if isinstance(call, Call) else Call(call)
            if made.before is not None:
                made.before()
            found.append(outcome(step, made, program.observe, lines=each.lines))
    finally:
        program.close()
    return found, step


def difference(got: list[list[str]], want: list[list[str]]) -> str:
    """The first call that differs, line by line; empty if none does."""
    for i, (mine, theirs) in enumerate(zip(got, want, strict=True), 1):
        if mine != theirs:
            only = [f"  - {line}" for line in theirs if line not in mine]
            extra = [f"  + {line}" for line in mine if line not in theirs]
            shown = [*extra[:SHOWN], *only[:SHOWN]] or mine
            return "\n".join([f"call {i}: Python has -, jit has +", *shown])
    return ""


def miscounts(each: Case, stats: Any) -> str:
    """What `stats` say against what the case expects of them."""
    counts = f"{stats.graphs} graphs, {stats.splits} splits, {stats.fallbacks} fallbacks"
    if each.splits and stats.splits != each.splits:
        return f"{counts}; {each.splits} splits are expected: {stats.refusals}"
    if each.compiles and stats.compiles != each.compiles:
        return f"{stats.compiles} compiles; {each.compiles} are expected: {stats.recompiles}"
    if each.one_graph and (stats.graphs != stats.compiles or stats.splits or stats.fallbacks):
        return f"{counts}; one graph is expected: {stats.refusals}"
    return ""


def check(name: str, cache: Path) -> str:
    """What is wrong with a case; empty if nothing. `cache` is an empty directory of its own."""
    each = CASES[name]
    before = os.environ.get("JITCAP_CACHE_DIR")
    os.environ["JITCAP_CACHE_DIR"] = str(cache)
    try:
        # Nothing is kept on disk while stages are verified.
        with config(check=False):
            return _check(each)
    finally:
        os.environ.pop("JITCAP_CACHE_DIR")
        if before is not None:
            os.environ["JITCAP_CACHE_DIR"] = before


def check_in_background(name: str) -> str:
    """What is wrong with a case whose versions are made while the program goes on: captured, and
    then run plainly; empty if nothing."""
    each = CASES[name]
    want, _ = run(each, lambda step: step)
    jitcap.reset()
    with at_most(SECONDS):
        got, _ = run(each, functools.partial(jit, backend="eager", mode="background"))
    return difference(got, want)


def _check(each: Case) -> str:
    want, _ = run(each, lambda step: step)
    again, _ = run(each, lambda step: step)
    if want != again:
        raise RuntimeError(f"the program itself differs from run to run: {difference(again, want)}")
    for backend in ("eager", "cpp") if each.cpp else ("eager",):
        wrap = functools.partial(jit, backend=backend)
        for title in ROUNDS:
            jitcap.reset()
            try:
                with at_most(SECONDS):
                    got, step = run(each, wrap)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                return f"{title}, {backend}: {type(error).__name__}: {error}"
            wrong = difference(got, want)
            wrong = wrong or (miscounts(each, step.stats) if title == "jit" else "")
            if wrong:
                return f"{title}, {backend}: {wrong}"
    return ""
