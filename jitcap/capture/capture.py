"""Capture, start to end: a function and the arguments of one call -> `Captured`. Raises Break.

The call is interpreted once on stand-ins; nothing outside changes, whatever happens. What this
gives is a graph, the guards under which it is the function, and how to replay its effects.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar

from eager.autograd import mode
from eager.dispatch import current_tracer
from eager.tensor import Tensor
from eager.traced import UnknownValue
from jitcap.capture.breaks import Aliased, Break, Place, Record
from jitcap.capture.bytecode import UnsupportedPython
from jitcap.capture.effects import Epilogue, counters, epilogue, guard_aliases, tensors_of
from jitcap.capture.functions import VARKEYWORDS
from jitcap.capture.origin import Attribute, Fixed, Keys, Keyword, Keywords, Positional
from jitcap.capture.outside import TensorShadow
from jitcap.capture.result import Captured, Input, prepare
from jitcap.capture.search import Search
from jitcap.capture.shadow import Shadow
from jitcap.capture.world import World
from jitcap.functional import DataDependent
from jitcap.graph import Node
from jitcap.guards import CodeIs, Equals, Is, Names
from jitcap.joint import build_joint, leaves_of, runs_python

T = TypeVar("T")
_PARTS = (ModuleType, type, FunctionType, BuiltinFunctionType)  # of a program: they stay
FRAMES = 10_000  # an interpreted call is several of ours


def capture(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    dynamic: frozenset[str] = frozenset(),
) -> Captured:
    """Capture one call of `fn`. `dynamic` names origins of ints that become run-time numbers.

    Raises Break (see its `record()`) when the call cannot be captured as a whole."""
    name = getattr(fn, "__qualname__", type(fn).__qualname__)

    def attempt(shared: frozenset[int], dynamic: frozenset[str]) -> tuple[Captured, frozenset[str]]:
        with tracing(World(name), dynamic, shared) as world:
            value = _run(world, fn, args, kwargs)
            varies = counters(world)
            return finish(world, value, (len(args), tuple(kwargs))), varies

    return with_aliases(lambda shared: with_counters(partial(attempt, shared), dynamic))


def with_counters(
    attempt: Callable[[frozenset[str]], tuple[T, frozenset[str]]], dynamic: frozenset[str]
) -> T:
    """Once more with counters (ints that the program itself replaces) as run-time numbers.

    If that cannot be captured (a shape depends on them), the first attempt stands."""
    first, found = attempt(dynamic)
    if found <= dynamic:
        return first
    try:
        return attempt(dynamic | found)[0]
    except Break:
        return first


def with_aliases(attempt: Callable[[frozenset[int]], T]) -> T:
    """Once more with the bases of views as inputs, when views of one memory are written."""
    try:
        return attempt(frozenset())
    except Aliased as found:
        return attempt(found.storages)


@contextmanager
def tracing(
    world: World, dynamic: frozenset[str], shared: frozenset[int] = frozenset()
) -> Iterator[World]:
    """Everything inside runs under the world's tracer; refusals come out as Break, with a place."""
    world.outside.dynamic, world.outside.shared = dynamic, shared
    token = current_tracer.set(world.tracer)
    before = mode.enabled, mode.inference, mode.autocast
    sys.setrecursionlimit(max(sys.getrecursionlimit(), FRAMES))
    try:
        yield world
    except Break as error:
        error.done = getattr(error, "__jitcap_done__", 0)
        error.place = error.place or world.entry
        raise
    except (DataDependent, UnknownValue) as error:
        raise _placed(Break("data dependent", str(error)), error, world) from error
    except UnsupportedPython as error:
        raise Break("version", str(error)) from error
    except RecursionError as error:
        raise _placed(Break("exception", "RecursionError"), error, world) from error
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        raise _placed(Break("exception", text), error, world) from error
    finally:
        world.vm.over = True
        mode.enabled, mode.inference, mode.autocast = before
        current_tracer.reset(token)
        world.outside.forget()


def _placed(found: Break, cause: BaseException, world: World) -> Break:
    found.place = getattr(cause, "__jitcap_place__", world.entry)
    found.done = getattr(cause, "__jitcap_done__", 0)
    return found


def _beginning(fn: Any) -> Place:
    """Where a function, or the method that a callable object runs, begins."""
    while isinstance(fn, MethodType | partial):
        fn = fn.func if isinstance(fn, partial) else fn.__func__
    method = fn if isinstance(fn, FunctionType) else getattr(type(fn), "__call__", None)  # noqa: B004
    if not isinstance(method, FunctionType):
        return Place(function=getattr(fn, "__qualname__", type(fn).__qualname__))
    code = method.__code__
    return Place(code.co_filename, code.co_firstlineno, function=code.co_qualname)


def _run(world: World, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Load the arguments and interpret the call."""
    plain = fn.__func__ if isinstance(fn, MethodType) else fn
    bound = int(isinstance(fn, MethodType))
    root: Any = fn
    world.entry = _beginning(plain)
    if isinstance(plain, FunctionType):
        origin = Fixed(plain, plain.__qualname__)
        world.fixed[id(plain)] = plain
        world.outside.register(Shadow(plain, origin, plain))
        world.guards.add(CodeIs(origin, plain.__qualname__, plain.__code__))
        root = plain
        if bound:
            owner = Fixed(fn, plain.__qualname__)
            root = MethodType(plain, world.outside.load(fn.__self__, Attribute(owner, "__self__")))
    else:
        root = world.outside.load(fn, Fixed(fn, "the function"))
    names = plain.__code__.co_varnames[bound:] if isinstance(plain, FunctionType) else ()
    count = plain.__code__.co_argcount - bound if isinstance(plain, FunctionType) else 0
    given = []
    for i, value in enumerate(args):
        label = names[i] if i < count else f"args[{i}]"
        given.append(world.outside.load(value, Positional(i, label)))
    keywords = {k: world.outside.load(v, Keyword(k)) for k, v in kwargs.items()}
    collects = not isinstance(plain, FunctionType) or plain.__code__.co_flags & VARKEYWORDS
    if len(keywords) > 1 and collects:  # their order is that of a dictionary
        world.guards.add(Equals(Keys(Keywords()), world.entry.function, [*kwargs]))
    return world.call(root, tuple(given), keywords)


def search(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Record, ...]:
    """All places where this call would be split that capture can get to. Changes nothing."""
    records: dict[Any, Record] = {}
    for first in (True, False):
        world = World(getattr(fn, "__qualname__", type(fn).__qualname__))
        found = world.search = Search(world, records, first)
        world.vm.step_over = found.step_over
        try:
            with tracing(world, frozenset()):
                _run(world, fn, args, kwargs)
        except Break as refusal:
            found.note(refusal)
        except Exception:  # noqa: BLE001, S112 - a branch that this call does not take may raise; the
            continue  # refusal that led here is raised in any case, with what is known so far
    return tuple(records.values())


def finish(world: World, value: Any, shape: tuple[int, tuple[str, ...]]) -> Captured:
    """Outputs, effects, aliases, the joint graph; then everything as source."""
    if world.vm.dropped is not None:
        raise world.vm.dropped
    if any(generator.in_block() for generator in tuple(world.vm.generators)):
        raise Break("generator", "a generator is left inside a try or with block")
    tracer = world.tracer
    probe = epilogue(world, value, Names())
    wanted = [(0, s.twin) for s in tensors_of(world) if s.requires_grad]
    _rehearse(world, value, probe, wanted)
    guard_aliases(world, [s for s, _ in probe.writes])
    names = Names()
    prepare(world.guards, names)
    draws = tuple(map(names.later, world.drawn.values()))
    end = epilogue(world, value, names)
    _drop_unused_inputs(world, end)
    index = {node: i for i, node in enumerate(tracer.inputs)}
    leaves = [
        (index[s.node], s.twin) for s in tensors_of(world)
        if s.node in index and s.requires_grad
    ]  # fmt: skip
    graph = tracer.graph(end.outputs)  # before the joint graph adds its nodes
    joint = None
    if end.tracked and leaves:
        joint = build_joint(tracer, end.outputs, list(end.tracked.items()), leaves)
        graph = graph.with_(inputs=tuple(tracer.inputs))  # with the constants of the gradients
    writes = tuple((index[s.node], o) for s, o in end.writes)
    end.release()
    return Captured(
        name=tracer.name,
        graph=graph,
        inputs=tuple(_input(world, node) for node in tracer.inputs),
        writes=writes,
        guards=world.guards,
        epilogue=end,
        names=names,
        shape=shape,
        grad_mode=world.grad_mode,
        inference=world.inference,
        autocast=world.autocast,
        joint=joint,
        draws=draws,
        bound_to=world.bound_to,
        assumed=tuple((*key, value) for key, value in world.assumed.items()),
        read=tuple(
            f.__code__
            for f in world.reached.values()
            if not world.is_library(f.__globals__.get("__name__", ""))
        ),
    )


def _rehearse(
    world: World, value: Any, end: Epilogue, leaves: Sequence[tuple[int, Tensor]]
) -> None:
    """Run the user's part of a backward (hooks, a Function's own) once, before the guards are text.

    Only its tensors get into the joint graph, so it must change nothing that lives on, and read
    nothing from outside that may be another one by then."""
    tracked = list(end.tracked.items())
    if not leaves or not runs_python(t for _, t in tracked):
        return
    known = len(world.guards.items)
    build_joint(world.tracer, end.outputs, tracked, leaves)
    after = epilogue(world, value, Names())
    if any(getattr(end, f) != getattr(after, f) for f in ("lines", "calls", "value")):
        raise Break("later effect", "a hook or a Function's backward() changes what is outside")
    for guard in world.guards.items[known:]:
        if not isinstance(guard, CodeIs) and not (
            isinstance(guard, Is) and isinstance(guard.value, _PARTS)
        ):
            what = f"a hook or a Function's backward() reads {guard.origin.show()}"
            raise Break("later effect", what)


def _drop_unused_inputs(world: World, end: Epilogue) -> None:
    """What was read for guards only, or looked at and not used, is no input of the graph.

    A parameter that got other data (`p.data = x`) is one for its gradient's sake."""
    tracer = world.tracer
    used: set[Any] = set(end.outputs)
    reached = leaves_of(end.tracked.values())
    used.update(s.node for s in tensors_of(world) if id(s.twin) in reached)
    for node in tracer.nodes:
        used.update(node.parents)
    written = {s.node for s in tensors_of(world) if s.memory.handle is not s.node}
    tracer.inputs[:] = [n for n in tracer.inputs if n in used or n in written]


def _input(world: World, node: Node) -> Input:
    number = world.outside.numbers.get(node) or world.drawn.get(node)
    if number is not None:
        return Input(number, tensor=False)
    if node in world.tracer.constant_arrays:
        return Input(None, tensor=True, value=world.tracer.constant_arrays[node])
    owner: TensorShadow = world.outside.by_node[node]
    return Input(owner.origin, tensor=True)
