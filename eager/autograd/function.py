"""Functions with a derivative of their own: a user's class and a call of it -> results on the tape.

`Function` is what users derive from, `FunctionCtx` what its methods share, `FunctionNode` the call
on the tape.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, NamedTuple, Protocol

from eager.autograd.grad_mode import is_grad_enabled, no_grad
from eager.autograd.transposed import transposed
from eager.core.batched import Batched, Level
from eager.core.dispatch import innermost, lifted
from eager.core.tape import FREED, Node, Saved, differentiable, full, mode, require_savable
from eager.core.tensor import Tensor, bare, wrap
from eager.core.traced import Traced

__all__ = ["Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]


class FunctionCtx:
    """Context that `forward` and `backward` of a Function share: saved tensors and any
    attribute."""

    needs_input_grad: tuple[bool, ...] = ()
    _saved: tuple[Saved | None, ...] | None = ()  # None: they were freed
    _non_differentiable: tuple[Tensor, ...] = ()
    _dirty: tuple[Tensor, ...] = ()
    _materialize = True
    _records = False  # whether the call goes on the tape
    _forward: tuple[Saved | None, ...] = ()  # what is saved for `jvp`
    _in_jvp = False

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `backward`, which is an error there if they were written since."""
        _require_tensors("save_for_backward", tensors)
        for t in tensors if self._records else ():
            if t is not None:
                require_savable(t, type(self).__name__)
        self._saved = tuple(None if t is None else Saved(t, type(self).__name__) for t in tensors)

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `jvp`: they are its `saved_tensors`."""
        _require_tensors("save_for_forward", tensors)
        name = type(self).__name__
        kept = tensors if self._records else ()
        self._forward = tuple(None if t is None else Saved(t, name) for t in kept)

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        if self._saved is None:
            raise RuntimeError(FREED)
        saved = self._forward if self._in_jvp and self._forward else self._saved
        return tuple(None if s is None else s.get() for s in saved)

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """These results have no gradient."""
        self._non_differentiable = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """These arguments were written in place; they are to be among the results."""
        self._dirty = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether `backward` gets zeros, and not None, for results nobody used."""
        self._materialize = value


def _require_tensors(name: str, values: Sequence[Any]) -> None:
    for i, value in enumerate(values):
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(
                f"{name} can only save variables, but argument {i} is of type "
                f"{type(value).__name__}; keep other values as attributes of ctx"
            )


class Derivative(Protocol):
    """The backward of a Function (None: there is `jvp` alone), its `jvp`, if it has one, and its
    name."""

    __name__: str
    original: Any

    @property
    def backward(self) -> Callable[..., Any] | None: ...

    @property
    def jvp(self) -> Callable[..., Any] | None: ...


class FunctionNode(Node):
    """A call of a user's Function. Its attributes are those of ctx, too.

    `is_tensor` says it of each argument; `layout` has, for each result, which of the tensors among
    them it is, None for one that is no tensor."""

    __slots__ = ("ctx", "function", "is_tensor", "layout")

    def __init__(
        self, function: Derivative, ctx: FunctionCtx, args: Sequence[Any], outs: Sequence[Any]
    ) -> None:
        self.is_tensor = tuple(isinstance(a, Tensor) for a in args)
        tensors = [t for t in outs if isinstance(t, Tensor)]
        super().__init__([a for a in args if isinstance(a, Tensor)], tuple(t.aval for t in tensors))
        count = iter(range(len(tensors)))
        self.layout = tuple(next(count) if isinstance(t, Tensor) else None for t in outs)
        self.function = function
        self.ctx = ctx

    def __getattr__(self, name: str) -> Any:
        if name in FunctionNode.__slots__ or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.ctx, name)

    @property
    def saved(self) -> tuple[()] | None:
        """None when the saved tensors were freed, else an empty tuple: ctx holds them."""
        return None if self.ctx._saved is None else ()

    def name(self) -> str:
        return f"{self.function.__name__}Backward"

    def vjp(self, grads: list[Any]) -> Sequence[Any]:
        if self.ctx._materialize:
            pairs = zip(grads, self.outs, strict=True)
            grads = [full(0, aval) if g is None else g for g, aval in pairs]
        every = [None if i is None else grads[i] for i in self.layout]
        backward, jvp = self.function.backward, self.function.jvp
        if jvp is not None and (backward is None or mode.tangents):
            avals = iter(self.avals)
            each = [next(avals) if tensor else None for tensor in self.is_tensor]
            return self._checked(transposed(jvp, self.ctx, each, every))
        assert backward is not None
        given = backward(self.ctx, *every)
        return self._checked(given if isinstance(given, tuple) else (given,))

    def _checked(self, given: tuple[Any, ...]) -> list[Any]:
        """Gradients of the tensors among the arguments, from the results of `backward`."""
        count = len(self.is_tensor)
        if all(g is None for g in given[count:]):
            given = given[:count]
        if len(given) != count:
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected "
                f"{count}, got {len(given)})"
            )
        for i, (tensor, g) in enumerate(zip(self.is_tensor, given, strict=True)):
            if tensor and g is not None and not isinstance(g, Tensor):
                raise RuntimeError(
                    f"expected Variable or None (got {type(g).__name__}): gradient {i} that "
                    f"{self.name()} returned"
                )
            if not tensor and g is not None:
                raise RuntimeError(
                    f"function {self.name()} returned a gradient different than None at position "
                    f"{i + 1}, but the corresponding forward input was not a Variable"
                )
        found = [g for tensor, g in zip(self.is_tensor, given, strict=True) if tensor]
        for i, (edge, aval, g) in enumerate(zip(self.edges, self.avals, found, strict=True)):
            if edge is not None and g is not None and not _reduces_to(g.shape, aval.shape):
                raise RuntimeError(
                    f"Function {self.name()} returned an invalid gradient at index {i} - got "
                    f"{list(g.shape)} but expected shape compatible with {list(aval.shape)}"
                )
        return found

    def release(self) -> None:
        if self.ctx._saved or self.ctx._forward:
            self.ctx._saved, self.ctx._forward = None, ()


def _reduces_to(shape: Sequence[Any], goal: Sequence[Any]) -> bool:
    """True if a sum over dimensions makes `goal` of `shape`."""
    tail = shape[len(shape) - len(goal) :]
    return len(shape) >= len(goal) and all(
        wanted in (1, n) for n, wanted in zip(tail, goal, strict=True)
    )


class Function:
    """A differentiable function with a derivative of your own.

    Subclasses write `forward(ctx, *args)` and `backward(ctx, *grads)` (or `forward(*args)` with
    `setup_context(ctx, inputs, output)`; `vjp` is another name of `backward`), all static; call it
    as `MyFunction.apply(*args)`. `backward` gets one gradient per result of `forward` and returns
    one per argument, None for what is no tensor; RuntimeError for another number or shape.

    Forward derivatives (`func.jvp`) and `func.vmap` follow from these. A Function may have its own:
    `jvp(ctx, *tangents)`, from which a `backward` that is left out follows, and
    `vmap(info, in_dims, *args)`, which gives (results, out_dims) of all examples and asks for
    `setup_context`."""

    generate_vmap_rule = False  # PyTorch asks for it; a rule follows with either value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use "
            "new-style autograd function with static forward method, and call its apply()"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("You must implement the forward function for custom "
                                  "autograd.Function.")  # fmt: skip

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise NotImplementedError("You must implement the jvp function for custom "
                                  "autograd.Function to use it with forward mode AD.")  # fmt: skip

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        raise NotImplementedError("this Function has no vmap of its own: one follows")

    setup_context: Any = None

    @classmethod
    def apply(cls, /, *args: Any, **kwargs: Any) -> Any:
        """`forward` of these arguments, on the tape if a tensor among them requires grad."""
        return call(Methods(cls), args, kwargs)


class InplaceFunction(Function):
    """A Function that may write its argument in place: the older base class of such."""

    def __init__(self, inplace: bool = False) -> None:
        self.inplace = inplace


class Methods:
    """The methods of a Function. Attributes are read by `get`, and called as `wrap` makes them."""

    def __init__(
        self,
        cls: Any,
        get: Callable[[Any, str], Any] = getattr,
        wrap: Callable[[Any], Any] = lambda fn: fn,
    ) -> None:
        self.__name__ = cls.__name__
        self.original = cls
        self.get = get
        forward, setup = get(cls, "forward"), get(cls, "setup_context")
        self.signature = forward
        self.forward = wrap(forward)
        self.setup_context = None if setup is None else wrap(setup)
        jvp, vmap = get(cls, "jvp"), get(cls, "vmap")
        self.jvp = None if jvp in (None, Function.jvp) else wrap(jvp)
        self.vmap = None if vmap in (None, Function.vmap) else wrap(vmap)
        backward = self._derivative(cls)
        alone = backward is Function.backward and self.jvp is not None
        self.backward = None if alone else wrap(backward)

    def _derivative(self, cls: Any) -> Any:
        backward, vjp = self.get(cls, "backward"), self.get(cls, "vjp")
        if vjp is Function.vjp:
            return backward
        if backward is Function.backward:
            return vjp
        raise RuntimeError(
            "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You "
            "should only implement one of them."
        )

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments of `forward` by position; with `setup_context`, those left out, too."""
        forward = self.signature
        if not isinstance(forward, FunctionType):
            if kwargs:
                raise TypeError(f"{self.__name__}.apply() takes no keyword arguments")
            return args
        code = self.get(forward, "__code__")
        first = self.setup_context is None  # that is ctx
        names = code.co_varnames[first : code.co_argcount][len(args) :]
        given = self.get(forward, "__defaults__") or ()
        defaults = dict(zip(names[::-1], given[::-1], strict=False)) if not first else {}
        found, left = list(args), dict(kwargs)
        for name in names:
            if name not in left and name not in defaults:
                break
            found.append(left.pop(name) if name in left else defaults[name])
        if left:
            raise TypeError(
                f"{self.__name__}.apply() got an unexpected keyword argument {next(iter(left))!r}"
            )
        return tuple(found)


def call(methods: Methods, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`forward` of these arguments, and the call on the tape."""
    if kwargs or methods.setup_context is not None:
        args = methods.bound(args, kwargs)
    level = None if methods.vmap is None else innermost(args)
    if level is not None:
        return _call_for_all(methods, level, args)
    ctx = FunctionCtx()
    ctx.needs_input_grad = tuple(isinstance(a, Tensor) and _is_wanted(a) for a in args)
    ctx._records = mode.enabled and any(ctx.needs_input_grad)
    with no_grad():
        if methods.setup_context is None:
            result = methods.forward(ctx, *args)
        else:
            result = methods.forward(*args)
            methods.setup_context(ctx, args, result)
    outs = result if isinstance(result, tuple) else (result,)
    _check_dirty(ctx._dirty, outs)
    if ctx._records:
        outs = _record(methods, ctx, args, outs, ctx._dirty, ctx._non_differentiable)
    return outs if isinstance(result, tuple) else outs[0]


class VmapInfo(NamedTuple):
    """Number of examples, and the `randomness` of the `vmap`, for a Function's own rule."""

    batch_size: int
    randomness: str


def _call_for_all(methods: Methods, level: Level, args: tuple[Any, ...]) -> Any:
    """A call in a mapped function, by the user's rule for all examples: outside of it. Inside, it
    is on the tape as any call is."""
    if methods.setup_context is None:
        raise RuntimeError(
            f"{methods.__name__} has a vmap: such a Function needs the setup_context staticmethod, "
            "and a forward without ctx"
        )
    arrays = [lifted(level, a)._array if isinstance(a, Tensor) else None for a in args]
    dims = tuple(0 if array is not None and array.mapped else None for array in arrays)
    values = [a if at is None else at.value for a, at in zip(args, arrays, strict=True)]
    info, before = VmapInfo(level.size, level.randomness), mode.levels
    mode.levels = tuple(each for each in before if each.number < level.number)
    try:
        assert methods.vmap is not None
        result, out_dims = methods.vmap(info, dims, *values)
    finally:
        mode.levels = before
    outs = result if isinstance(result, tuple) else (result,)
    places = out_dims if isinstance(out_dims, tuple | list) else (out_dims,) * len(outs)
    outs = tuple(_one_of(level, *pair) for pair in zip(outs, places, strict=True))
    ctx = FunctionCtx()
    ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
    ctx._records = mode.enabled and any(ctx.needs_input_grad)
    if ctx._records:
        with no_grad():
            methods.setup_context(ctx, args, outs if isinstance(result, tuple) else outs[0])
        outs = _record_here(methods, ctx, args, outs, ctx._non_differentiable)
    return outs if isinstance(result, tuple) else outs[0]


def _one_of(level: Level, out: Any, dim: int | None) -> Any:
    """The result for one example, where those of all lie along `dim` (None: all have this one)."""
    if not isinstance(out, Tensor):
        return out
    return wrap(Batched(level, out if dim is None else out.movedim(dim, 0), dim is not None))


def _is_wanted(a: Tensor) -> bool:
    """True if it requires a gradient, also outside of the mapped functions that it belongs to."""
    array = a._array
    return a.requires_grad or (type(array) is Batched and _is_wanted(array.value))


def _check_dirty(dirty: Sequence[Tensor], outs: Sequence[Any]) -> None:
    for t in dirty:
        if mode.enabled and t._requires_grad and t._node is None:
            raise RuntimeError(
                "a leaf Variable that requires grad has been used in an in-place operation: a "
                "Function marked it as dirty"
            )
        if not any(t is out for out in outs):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as "
                "output. The inputs that are modified inplace must all be outputs of the Function."
            )


def _record(
    methods: Derivative,
    ctx: FunctionCtx,
    args: Sequence[Any],
    outs: tuple[Any, ...],
    dirty: Sequence[Tensor],
    constant: Sequence[Tensor],
) -> tuple[Any, ...]:
    """Put the call on the tape; an output that is an input gets a tensor of its own."""
    inputs = {id(a) for a in args if isinstance(a, Tensor)} - {id(a) for a in dirty}
    outs = tuple(bare(t) if isinstance(t, Tensor) and id(t) in inputs else t for t in outs)
    outs = _record_outside(methods, ctx, args, outs, dirty, constant)
    return _record_here(methods, ctx, args, outs, constant)


def _record_here(
    methods: Derivative,
    ctx: FunctionCtx,
    args: Sequence[Any],
    outs: tuple[Any, ...],
    constant: Sequence[Tensor],
) -> tuple[Any, ...]:
    """Put the call on the tape of the innermost mapped function, or the one outside of all."""
    tensors = [t for t in outs if isinstance(t, Tensor)]
    if not any(isinstance(a, Tensor) and a._requires_grad for a in args):
        return outs
    node = FunctionNode(methods, ctx, args, outs)
    excluded = {id(t) for t in constant}
    for index, t in enumerate(tensors):
        if id(t) not in excluded and differentiable(t.dtype):
            t._node, t._index, t._requires_grad = node, index, True
    traced = next((t._array for t in tensors if type(t._array) is Traced), None)
    if traced is not None:
        operands = [a for a in args if isinstance(a, Tensor)]
        traced.storage.tracer.record_function(node, operands, tensors)
    return outs


class _Outside:
    """The derivative of a Function that was called in a mapped function, outside of that: of all
    examples. `mapped` says which of the arguments differ by example; all results do."""

    def __init__(self, inside: Derivative, level: Level, mapped: Sequence[bool]) -> None:
        self.__name__: str = inside.__name__
        self.original: Any = inside.original
        self.inside, self.level, self.mapped = inside, level, mapped

    @property
    def backward(self) -> Callable[..., Any] | None:
        return None if self.inside.backward is None else self._backward

    @property
    def jvp(self) -> Callable[..., Any] | None:
        return None if self.inside.jvp is None else self._jvp

    def _jvp(self, ctx: Any, *tangents: Any) -> tuple[Any, ...]:
        pairs = zip(tangents, self.mapped, strict=True)
        given = [None if t is None else wrap(Batched(self.level, t, of)) for t, of in pairs]
        assert self.inside.jvp is not None
        found = self.inside.jvp(ctx, *given)
        found = found if isinstance(found, tuple) else (found,)
        return tuple(self._total(t, True) if isinstance(t, Tensor) else t for t in found)

    def _backward(self, ctx: Any, *grads: Any) -> tuple[Any, ...]:
        given = [None if g is None else wrap(Batched(self.level, g, True)) for g in grads]
        assert self.inside.backward is not None
        found = self.inside.backward(ctx, *given)
        found = found if isinstance(found, tuple) else (found,)
        return tuple(
            self._total(g, mapped) if isinstance(g, Tensor) else g
            for g, mapped in itertools.zip_longest(found, self.mapped[: len(found)])
        )

    def _total(self, g: Tensor, mapped: bool) -> Any:
        array: Any = lifted(self.level, g)._array
        value = array.value if array.mapped else array.value.expand((self.level.size, *g.shape))
        return value if mapped else value.sum(0)


def _record_outside(
    methods: Derivative,
    ctx: FunctionCtx,
    args: Sequence[Any],
    outs: tuple[Any, ...],
    dirty: Sequence[Tensor],
    constant: Sequence[Tensor],
) -> tuple[Any, ...]:
    """Put the call on the tapes outside of the mapped function that it is in, where the values of
    its arguments have histories."""
    level = innermost(args)
    if level is None:
        return outs

    def value(x: Any) -> Any:
        return lifted(level, x)._array.value if isinstance(x, Tensor) else x

    outs = tuple(lifted(level, t) for t in outs)
    for t in outs:
        if isinstance(t, Tensor) and not t._array.mapped:
            each = t._array.value.expand((level.size, *t.shape)).clone()
            t._array = Batched(level, each, True)
    mapped = [isinstance(a, Tensor) and lifted(level, a)._array.mapped for a in args]
    values = tuple(map(value, outs))
    made = _record(
        _Outside(methods, level, mapped), ctx, [*map(value, args)], values,
        [*map(value, dirty)], [*map(value, constant)],
    )  # fmt: skip
    for t, old, new in zip(outs, values, made, strict=True):
        if new is not old:
            t._array = Batched(level, new, True)
    return outs


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a Function's `backward` that is not to be differentiated itself: it is not
    recorded, and a gradient of what it returned is a RuntimeError."""

    @functools.wraps(fn)
    def wrapper(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            outs = fn(ctx, *grads)
        sources = [g for g in grads if isinstance(g, Tensor) and g.requires_grad]
        if not sources or not is_grad_enabled():
            return outs
        given = outs if isinstance(outs, tuple) else (outs,)
        refused = tuple(_refusing(t, sources) if isinstance(t, Tensor) else t for t in given)
        return refused if isinstance(outs, tuple) else refused[0]

    return wrapper


class _Refusal(Node):
    """Behind a result that is not to be differentiated."""

    __slots__ = ()

    def vjp(self, grads: list[Any]) -> Sequence[Any]:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )


def _refusing(t: Tensor, sources: Sequence[Tensor]) -> Tensor:
    out = bare(t)
    if differentiable(out.dtype):
        out._node, out._index, out._requires_grad = _Refusal(sources, (out.aval,)), 0, True
    return out
