"""Tracing by dispatch, start to end: a function and the arguments of one call -> `Captured`.

The program runs once, under a tracer, and nothing outside has changed afterwards, whatever happens.
From there on it is the road of capture: the same guards, effects, joint graph and entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType, MethodType
from typing import Any, Final

from eager.base.dtype import _default as default_dtype
from eager.core.traced import unknown_values
from jitcap.base.assumed import Assumed
from jitcap.base.breaks import Break
from jitcap.base.call_policy import name_of
from jitcap.base.diagnostics import announce
from jitcap.base.origin import Attribute, Computed, Fixed, Keyword, Keywords, Origin, Positional
from jitcap.by_dispatch.call_hook import Watch
from jitcap.by_dispatch.copies import fields_of, restore_class
from jitcap.by_dispatch.object_swap import see_names
from jitcap.by_dispatch.session import DispatchSession, Refused
from jitcap.capture import bytecode
from jitcap.capture.attempts import Attempts
from jitcap.capture.capture import beginning, finish, tracing
from jitcap.capture.frames import VARKEYWORDS
from jitcap.capture.interpret import CO_ASYNC, CO_GENERATOR
from jitcap.capture.kinds.base import words
from jitcap.capture.kinds.objects import ObjectShadow
from jitcap.capture.kinds.sequences import ListShadow
from jitcap.capture.kinds.tensors import TensorShadow, replaced_member, tensors_of
from jitcap.capture.result import Captured
from jitcap.guards.guard import CodeIs, Distinct, Equals
from jitcap.guards.tensor_guard import Different, is_argument

NOTICE: Final = (
    "the bytecode of Python {}.{} is not known: @jit functions are traced by dispatch. A call is "
    "run once and its operations are noted; guarded is what is reached from the arguments, the "
    "closures and the globals that the code names. Python state outside of these (dynamic lookups, "
    "what C code holds, the state of the standard library and the environment) is not guarded"
)
FEW: Final = 64


def capture(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    dynamic: frozenset[str] = frozenset(),
    unsafe: frozenset[str] = frozenset(),
) -> Captured:
    """Capture one call of `fn` by dispatch; the arguments are those of `jitcap.capture.capture`.

    Raises Break (see its `record()`) when the call cannot be captured as a whole."""
    announce("traced by dispatch", NOTICE.format(*bytecode.VERSION))

    try:
        return _capture(fn, args, kwargs, dynamic, unsafe)
    except Break as refusal:
        if not dynamic or refusal.kind == "aliasing":
            raise
    return _capture(fn, args, kwargs, frozenset(), unsafe)  # some number must be what it is


def _capture(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic: frozenset[str],
    unsafe: frozenset[str],
) -> Captured:
    name, attempts = name_of(fn), Attempts[Captured](Assumed(dynamic))
    for assumed in attempts:
        session = DispatchSession(name, unsafe, assumed)
        with attempts.one(), tracing(session), session.borrower:
            watch = Watch(session)
            value = _run(session, watch, fn, args, kwargs)
            _check(session)
            captured = _finish(session, watch, value, (len(args), tuple(kwargs)))
            attempts.made(captured, Assumed(captured.epilogue.counters))
    return attempts.result


def _run(
    session: DispatchSession, watch: Watch, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Borrow the arguments and run the call."""
    if replaced := replaced_member():
        raise Break("unknown call", f"the library may use {replaced}, replaced")
    plain = fn.__func__ if type(fn) is MethodType else fn
    session.entry = beginning(plain)
    root = _root(session, fn, plain)
    given, named = _arguments(session, fn, plain, args, kwargs)
    with _refusing(session), watch:
        value = root(*given, **named)
    _tell_apart(session)
    for constant, _ in [*session.outside.constants.values()] if watch.compares else ():
        session.outside.pin(constant)
    for shadow in tensors_of(session) if watch.looks else ():
        see_names(session.borrower, shadow)
    if watch.names_type and (session.tracer.reads or session.borrower.varies):
        raise Break("data dependent", "type() may be asked of a number that stands for another")
    return value


@contextmanager
def _refusing(session: DispatchSession) -> Iterator[None]:
    """Code of the program runs inside: a refusal stands, whatever it catches."""
    session.running = True
    token = unknown_values.set([])
    try:
        yield
    except Refused as refused:
        raise (session.noted or refused.refusal) from refused
    except Exception as error:
        if session.noted is None and not unknown_values.get():
            session.locate(error)
            if session.tracer.reads or session.outside.numbers:  # it may be about a stand-in
                refusal = Break("exception", words(error))
                refusal.unsure, refusal.place = True, getattr(error, "__jitcap_place__", None)
                raise refusal from error
            raise
    except BaseException as end:
        if not session.raised(end):  # the user interrupts the trace
            raise
        raise Break("exception", type(end).__name__) from end
    finally:
        met = unknown_values.get()
        unknown_values.reset(token)
        session.running = False
    if session.noted is None and met:
        session.noted = met[0]
        session.locate(met[0])
    if session.noted is not None:
        raise session.noted


def _finish(
    session: DispatchSession, watch: Watch, value: Any, shape: tuple[int, tuple[str, ...]]
) -> Captured:
    """The rest of capture; the program runs once more where a later backward has code of it."""
    if not (session.tracer.functions or watch.hooked):
        return finish(session, value, shape)
    watch.later = True
    with _refusing(session), watch:
        captured = finish(session, value, shape)
    if watch.hooked and captured.joint is not None:
        raise Break("later effect", "a hook is registered on what has a gradient outside")
    return captured


def _root(session: DispatchSession, fn: Any, plain: Any) -> Any:
    """The function that every call begins with; what it hangs on is borrowed."""
    if type(plain) is not FunctionType:
        return session.outside.load(fn, Fixed(fn, "the function"))
    flags = plain.__code__.co_flags
    if flags & (CO_GENERATOR | CO_ASYNC):
        kind = "generator" if flags & CO_GENERATOR else "async"
        raise Break(kind, f"{plain.__qualname__}() runs after the call")
    origin = Fixed(plain, plain.__qualname__)
    session.outside.begin(plain, origin)
    session.guards.add(CodeIs(origin, plain.__qualname__, plain.__code__))
    session.borrower.learn(plain)
    session.borrower.closed.discard(id(plain.__code__))
    if plain is not fn:
        owner = Attribute(Fixed(fn, plain.__qualname__), "__self__")
        session.outside.load(fn.__self__, owner)
    return fn


def _arguments(
    session: DispatchSession, fn: Any, plain: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of the call, borrowed."""
    outside, count, collects = session.outside, 0, True
    names: tuple[str, ...] = ()
    if type(plain) is FunctionType:
        bound, code = int(plain is not fn), plain.__code__
        names, count = code.co_varnames[bound:], code.co_argcount - bound
        collects = bool(code.co_flags & VARKEYWORDS)
    given = []
    for i, value in enumerate(args):
        label = names[i] if i < count else f"args[{i}]"
        given.append(outside.load(value, Positional(i, label)))
    named = {k: outside.load(v, Keyword(k)) for k, v in kwargs.items()}
    if len(named) > 1 and collects:  # their order is that of a dictionary
        place = Computed((Keywords(),), ("listed", "$0"))
        session.guards.add(Equals(place, session.entry.function, [*kwargs]))
    return given, named


def _tell_apart(session: DispatchSession) -> None:
    """Arguments, and objects of which there are few, are different ones: the program may ask for
    that by `is`, or put them into a set, which nobody sees."""
    groups: dict[tuple[type, bool], dict[int, Origin]] = {}
    for shadow in session.outside.by_real.values():
        if shadow.mutable or shadow.twin is not shadow.real:
            given = is_argument(shadow.origin)
            if given or isinstance(shadow, ObjectShadow):
                groups.setdefault((type(shadow.twin), given), {})[id(shadow.twin)] = shadow.origin
    kept = [s.origin for s in tensors_of(session) if not is_argument(s.origin)]
    if len(kept) > 1 and not session.tracer.differentiated:  # else that is guarded
        session.guards.add(Different(kept[0], session.line(), tuple(kept[1:])))
    for (_, given), origins in groups.items():
        if len(origins) > 1 and (given or len(origins) <= FEW):
            first, *others = origins.values()
            session.guards.add(Distinct(first, session.line(), tuple(others)))


def _check(session: DispatchSession) -> None:
    """Raise Break if the program did what cannot be replayed."""
    if default_dtype[0] is not session.default_dtype:
        default_dtype[0] = session.default_dtype
        raise Break("effect", "the default dtype is changed")
    for owner, before in session.borrower.classes:
        now = dict(vars(owner))
        if now.keys() != before.keys() or any(now[k] is not before[k] for k in now):
            restore_class(owner, before)
            raise Break("effect", f"the class {owner.__qualname__} is changed")
    for shadow in session.outside.by_real.values():
        name = shadow.origin.show()
        if isinstance(shadow, ListShadow) and _is_longer(shadow):
            raise Break("growing list", f"{name} is appended to")
        if (
            isinstance(shadow, TensorShadow)
            and not shadow.extra.keys() <= shadow.twin.__dict__.keys()
        ):
            raise Break("effect", f"an attribute of {name} is deleted")
        if not isinstance(shadow, ObjectShadow):
            continue
        if type(shadow.twin) is not type(shadow.real):
            raise Break("effect", f"the class of {name} is replaced")
        if shadow.fields is not None and fields_of(shadow.twin) is not shadow.fields.twin:
            raise Break("effect", f"{name}.__dict__ is replaced")


def _is_longer(shadow: ListShadow) -> bool:
    """True if the program appended to a list: it is another one at each call."""
    added = shadow.count() > len(shadow.base)
    return added and all(a is b for a, b in zip(shadow.base, shadow.items(), strict=False))
