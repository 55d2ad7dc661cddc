"""Capture, start to end: a function and the arguments of one call -> `Captured`. Raises Break.

The call is interpreted once on stand-ins; nothing outside changes, whatever happens. What this
gives is a graph, the guards under which it is the function, and how to replay its effects.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, TypeVar

import numpy as np

from eager.base.compat_warnings import teller
from eager.base.process.recursion import room
from eager.core.dispatch import current_tracer
from eager.core.traced import UnknownValue
from jitcap.autodiff.joint import Joint, derive, runs_python
from jitcap.base.assumed import NOTHING, Assumed
from jitcap.base.breaks import Again, Break, Place, Record
from jitcap.base.call_policy import name_of
from jitcap.base.modes import ANY, Modes
from jitcap.base.origin import (
    Attribute,
    Computed,
    Fixed,
    Keyword,
    Keywords,
    Origin,
    Positional,
    Told,
)
from jitcap.base.walks import reach
from jitcap.capture import native_warnings
from jitcap.capture.attempts import Attempts
from jitcap.capture.bytecode import UnsupportedPython, decode
from jitcap.capture.control.cfg import live_in, reads_frame
from jitcap.capture.epilogue.effects import Epilogue, epilogue, guard_aliases
from jitcap.capture.frames import VARKEYWORDS
from jitcap.capture.host import require_unseen, tell
from jitcap.capture.kinds.base import words
from jitcap.capture.kinds.caches import require_unchanged
from jitcap.capture.kinds.functions import is_inlined
from jitcap.capture.kinds.tensors import TensorShadow
from jitcap.capture.memo.call_copies import require_no_copies
from jitcap.capture.result import Captured, Input
from jitcap.capture.search import Search
from jitcap.capture.session import Session, inlined
from jitcap.graph.graph import Node, size_inputs
from jitcap.graph.tracer import DataDependent
from jitcap.guards.class_guard import Member
from jitcap.guards.guard import CodeIs, Equals, Guard, Holds, Is, TypeIs
from jitcap.guards.tensor_guard import TensorLike

S = TypeVar("S", bound=Session)
_PARTS = (ModuleType, type, FunctionType, BuiltinFunctionType)  # of a program: they stay


def capture(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    dynamic: frozenset[str] = frozenset(),
    unsafe: frozenset[str] = frozenset(),
) -> Captured:
    """Capture one call of `fn`. `dynamic` names origins of ints that become run-time numbers;
    `unsafe` lines where a check failed at run time, which are not captured.

    Raises Break (see its `record()`) when the call cannot be captured as a whole."""
    name, attempts = name_of(fn), Attempts[Captured](Assumed(varying=dynamic))
    for assumed in attempts:
        with attempts.one(), tracing(Session(name, unsafe, assumed)) as session:
            value = _begun(session, fn, args, kwargs)()
            captured = finish(session, value, (len(args), tuple(kwargs)))
            _require_unasked(captured, assumed.unasked)
            unasked = _passed_on_ints(fn, captured)
            replaced = captured.epilogue.counters
            attempts.made(captured, Assumed(replaced), Assumed(unasked, unasked))
    return attempts.result


def _passed_on_ints(fn: Any, captured: Captured) -> frozenset[str]:
    """The arguments, ints, that were guarded though the function itself only passes them on."""
    plain = fn.__func__ if type(fn) is MethodType else fn
    names = passed_on(plain.__code__) if type(plain) is FunctionType else frozenset()
    return frozenset(
        guard.origin.show()
        for guard in captured.guards.items
        if type(guard) is Equals and type(guard.value) is int and _is_argument(guard.origin, names)
    )


def _require_unasked(captured: Captured, names: frozenset[str]) -> None:
    """Raises Break if the graph or a guard depends on the value of one of these arguments."""
    if names:
        read = [g.origin for g in captured.guards.items if type(g) is not TypeIs]
        read += [i.origin for i in captured.inputs if i.origin is not None]
        if any(_is_argument(o, names) for o in reach(read, lambda o: o.parents())):
            raise Break("data dependent", "a number that is passed on matters")


def _is_argument(origin: Origin, names: frozenset[str]) -> bool:
    return type(origin) in (Positional, Keyword) and origin.show() in names


@contextmanager
def tracing(session: S) -> Iterator[S]:
    """Everything inside runs under its tracer; refusals come out as Break, with a place. One with
    texts that stand for others need not stand: it may be about these."""
    try:
        with _tracing(session):
            yield session
    except Break as refusal:
        if refusal.lesson is None and session.outside.texts:
            refusal.lesson = Assumed(asked=frozenset(session.outside.texts))
        raise


@contextmanager
def _tracing(session: Session) -> Iterator[None]:
    token, tells = current_tracer.set(session.tracer), teller.set(partial(tell, session))
    before = session.modes
    try:
        errors = np.errstate(all="call", call=_floating_point_error)
        with room(), errors, native_warnings.refused():
            yield
    except Break as error:
        error.done = getattr(error, "__jitcap_done__", 0)
        error.place = error.place or session.entry
        raise
    except (DataDependent, UnknownValue) as error:
        raise _placed(Break("data dependent", str(error)), error, session) from error
    except UnsupportedPython as error:
        raise Break("version", str(error)) from error
    except RecursionError as error:
        raise _placed(Break("exception", "RecursionError"), error, session) from error
    except (Exception, GeneratorExit) as error:  # the latter, too, a program may raise by itself
        raise _raised(error, session) from error
    finally:
        session.vm.over, session.vm.passing, session.vm.dropped = True, None, None
        before.put()
        current_tracer.reset(token)
        teller.reset(tells)
        session.outside.forget()
        session.vm.world = session
        kept = session.hashed, session.inputs, session.owners, session.cells, session.layers.found
        for table in kept:
            table.clear()


def _floating_point_error(error: str, _: int) -> None:
    """NumPy computes now, and would warn or raise at each call, as its settings are by then."""
    raise Break("numpy", f"{error} in a number of NumPy")


def _raised(error: BaseException, session: Session) -> Break:
    """The refusal of a program that raises."""
    refusal = _placed(Break("exception", words(error)), error, session)
    refusal.unsure = bool(session.tracer.checks)
    return refusal


def _placed(found: Break, cause: BaseException, session: Session) -> Break:
    found.place = getattr(cause, "__jitcap_place__", session.entry)
    found.done = getattr(cause, "__jitcap_done__", 0)
    found.__jitcap_callee__ = getattr(cause, "__jitcap_callee__", ("", False))
    return found


def beginning(fn: Any) -> Place:
    """Source position where a function, or the method that a callable object runs, begins."""
    while issubclass(type(fn), MethodType | partial):
        fn = fn.__func__ if type(fn) is MethodType else fn.func
    method = fn if type(fn) is FunctionType else getattr(type(fn), "__call__", None)  # noqa: B004
    if type(method) is not FunctionType:
        return Place(function=name_of(fn))
    code = method.__code__
    return Place(code.co_filename, code.co_firstlineno, function=code.co_qualname)


def _begun(
    session: Session, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[[], Any]:
    """The call, with its arguments loaded."""
    bound = type(fn) is MethodType
    plain = fn.__func__ if bound else fn
    session.entry = beginning(plain)
    code = plain.__code__ if type(plain) is FunctionType else None
    names: tuple[str, ...] = ()
    given: list[Any] = []
    if code is None:
        root = session.outside.load(fn, Fixed(fn, "the function"))
        unread = frozenset[str]()
    else:
        origin = Fixed(plain, plain.__qualname__)
        root = session.outside.begin(plain, origin)
        session.guards.add(CodeIs(origin, plain.__qualname__, code))
        if bound:
            place = Attribute(Fixed(fn, plain.__qualname__), "__self__")
            given.append(session.outside.load(fn.__self__, place))
        names, unread = code.co_varnames[bound : code.co_argcount], unread_parameters(code)

    def load(value: Any, label: str, origin: Origin) -> Any:
        if type(value) is int and label in unread:  # a counter: any other will do
            return value
        return session.outside.load(value, origin)

    for i, value in enumerate(args):
        label = names[i] if i < len(names) else f"args[{i}]"
        given.append(load(value, label, Positional(i, label)))
    keywords = {k: load(v, k, Keyword(k)) for k, v in kwargs.items()}
    collects = code is None or code.co_flags & VARKEYWORDS
    if len(keywords) > 1 and collects:  # their order is that of a dictionary
        order = Computed((Keywords(),), ("listed", "$0"))
        session.guards.add(Equals(order, session.entry.function, [*kwargs]))
    if code is not None and is_inlined(plain):
        return partial(session.vm.execute, inlined(session, plain, tuple(given), keywords))
    return partial(session.call, root, tuple(given), keywords)


@lru_cache(maxsize=4096)
def unread_parameters(code: CodeType) -> frozenset[str]:
    """The parameters that no instruction of the function reads, and nothing it could call."""
    return frozenset() if reads_frame(code) else _parameters(code) - live_in(code, 0)


def _parameters(code: CodeType) -> frozenset[str]:
    return frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


@lru_cache(maxsize=4096)
def passed_on(code: CodeType) -> frozenset[str]:
    """The parameters that the function uses as arguments of calls only, as far as one sees."""
    found: set[str] = set()
    other: set[str] = set()
    user = ""  # the next instruction that does something with what is loaded
    for each in reversed(decode(code).instructions):
        is_given = each.op == "LOAD_FAST" and user.startswith("CALL")
        (found if is_given else other).add(str(each.arg))
        if not each.op.startswith(("LOAD_", "PUSH_NULL")):
            user = each.op
    return (_parameters(code) & found) - other


def search(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Record, ...]:
    """All places where this call would be split that capture can get to. Changes nothing."""
    found, assumed = Search(), NOTHING
    while found.begin(session := Session(name_of(fn), assumed=assumed)):
        ended: Break | None = None
        try:
            with tracing(session):
                _begun(session, fn, args, kwargs)()
        except (Break, Again) as refusal:
            if refusal.lesson is not None:
                found.more = not assumed.includes(refusal.lesson)
                assumed |= refusal.lesson
            elif isinstance(refusal, Break):
                ended = refusal
        except (Exception, GeneratorExit):  # noqa: BLE001, S110 - a branch that this call does not take may raise; the
            pass  # refusal that led here is raised in any case, with what is known so far
        found.end(ended)
    return tuple(found.records.values())


def _modes(session: Session) -> Modes:
    """The modes to guard. Which rows are drawn matters to a program that draws, or goes into a
    block that says so, or leaves one."""
    modes = session.modes
    matters = session.tracer.has_drawn or Modes.now().rows != modes.rows
    return modes if matters else replace(modes, rows=ANY)


def finish(session: Session, value: Any, shape: tuple[int, tuple[str, ...]]) -> Captured:
    """The stages behind the last instruction: what the call leaves, with its guards; autodiff, on
    the tape that was recorded; then all of it as a record."""
    end = _left(session, value)
    joint = _derived(session, end)
    _drop_unused_inputs(session, end)
    tracer = session.tracer
    graph = tracer.graph([*end.outputs, *tracer.checks]) if joint is None else joint.forward
    index = {node: i for i, node in enumerate(graph.inputs)}
    writes = tuple((index[s.node], o) for s, o in end.writes)
    end.release()
    session.sizes.complete = True
    return Captured(
        name=tracer.name,
        graph=graph,
        inputs=tuple(_input(session, node) for node in graph.inputs),
        writes=writes,
        guards=session.guards,
        epilogue=end,
        symbols=tuple(session.sizes.origins.values()),
        shape=shape,
        modes=_modes(session),
        joint=joint,
        drawn=tuple(each for each in session.drawn.values() if type(each) is not Told),
        bound_to=session.bound_to,
        rolled=tuple(session.rolled),
        read=tuple(
            f.__code__ for f in session.reached.values() if not session.is_library(f.__globals__)
        ),
    )


def _left(session: Session, value: Any) -> Epilogue:
    """Outputs and effects. Raises Break for what cannot be replayed."""
    if session.vm.dropped is not None:
        raise session.vm.dropped
    if any(generator.in_block() for generator in tuple(session.vm.generators)):
        raise Break("generator", "a generator is left inside a try or with block")
    end = epilogue(session, value)
    _rehearse(session, value, end)
    session.ties.check()
    require_unchanged(session)
    require_unseen(session)
    session.tracer.constant_memory.check(end.outputs)
    guard_aliases(session, end)
    return end


def is_of_the_text(guard: Guard) -> bool:
    """True if the guard is about functions, classes and modules, which are seldom replaced."""
    if not isinstance(guard, Is):
        return isinstance(guard, CodeIs | Member)
    base = guard.origin.base if isinstance(guard.origin, Attribute) else None
    while isinstance(base, Attribute) and base.name == "__wrapped__":
        base = base.base
    part = base.value if isinstance(base, Fixed) else None  # whose defaults, order of resolution
    return isinstance(guard.value, _PARTS) or isinstance(part, _PARTS)


def _derived(session: Session, end: Epilogue) -> Joint | None:
    """The gradients that can be asked for later, in the same graph. An exception of a user's
    derivative is a Break: only `backward()` would raise it."""
    if not end.slots:
        return None
    require_no_copies(end.slots)
    tracer = session.tracer
    written = [s.node for s, _ in end.writes]
    tracer.deriving = True
    try:
        return derive(tracer, end.outputs, end.tensors, end.slots, end.goals, written)
    except (Break, DataDependent, UnknownValue, UnsupportedPython, RecursionError):
        raise
    except Exception as error:
        raise Break("later effect", f"backward() would raise {words(error)}") from error
    finally:
        tracer.deriving = False


# Of an epilogue: what it leaves.
_LEFT: Final = ("rows", "effects", "calls", "value", "outputs", "changed")


def _rehearse(session: Session, value: Any, end: Epilogue) -> None:
    """Run the user's part of a backward (hooks, a Function's own) once, before the guards are done.

    Only its tensors get into the joint graph, so it must change nothing that lives on, and read
    nothing from outside that may be another one by then."""
    if not runs_python(end.slots):
        return
    known, checks = len(session.guards.items), len(session.tracer.checks)
    sizes = {id(origin) for origin in session.sizes.origins.values()}
    _derived(session, end)
    if len(session.tracer.checks) > checks:
        raise Break("later effect", "a hook or a Function's backward() may raise")
    after = epilogue(session, value)
    if any(getattr(end, f) != getattr(after, f) for f in _LEFT):
        raise Break("later effect", "a hook or a Function's backward() changes what is outside")
    for guard in session.guards.items[known:]:
        if not is_of_the_text(guard) and not _is_of_sizes(guard, sizes):
            what = f"a hook or a Function's backward() reads {guard.origin.show()}"
            raise Break("later effect", what)


def _is_of_sizes(guard: Guard, known: set[int]) -> bool:
    """True if the guard tests only origins in `known`: sizes that were read before."""

    def above(origin: Origin) -> tuple[Origin, ...]:
        return () if id(origin) in known else origin.parents()

    leaves = [o for o in reach([guard.origin], above) if not above(o)]
    return isinstance(guard, Holds | Equals) and all(id(origin) in known for origin in leaves)


def _drop_unused_inputs(session: Session, end: Epilogue) -> None:
    """Drop the graph's inputs that were read for guards only, or not used."""
    tracer = session.tracer
    operands = itertools.chain.from_iterable([n.args for n in tracer.nodes])
    unused = {*tracer.inputs}.difference(end.outputs, tracer.checks, operands)
    if session.sizes.symbols:
        layouts = [g.layout for g in session.guards.items if isinstance(g, TensorLike)]
        nodes = *tracer.inputs, *tracer.nodes
        unused.difference_update(size_inputs(tracer.inputs, nodes, layouts))
    unused.difference_update(s.node for s, _ in end.writes)
    tracer.inputs[:] = [n for n in tracer.inputs if n not in unused]


def _input(session: Session, node: Node) -> Input:
    owner: TensorShadow | None = session.inputs.get(node)
    if owner is not None:
        return Input(owner.origin, tensor=True)
    if node in session.tracer.constant_arrays:
        return Input(None, tensor=True, value=session.tracer.constant_arrays[node])
    number = session.outside.numbers.get(node) or session.drawn[node]
    return Input(number, tensor=False)
