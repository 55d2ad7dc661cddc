"""Beside capture: a user's own operation, opaque to the compiler. function -> Op of the registry.

    @custom_op("mylib::clip")
    def clip(x, bound, mode="hard"): ...          # real tensors in, a tensor (or tuple) out
    @clip.register_fake
    def _(x, bound, mode="hard"): return eager.empty_like(x)   # shape and dtype only (optional)
    clip.register_autograd(backward, setup_context=setup)

Compiled code calls the function back between its kernels. It may write the arguments that
`mutates_args` names: the op itself is pure, and gives their new values as further results.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from types import SimpleNamespace
from typing import Any, ClassVar, get_args, get_origin

import numpy as np

from eager.autograd import is_grad_enabled, no_grad
from eager.base.dataclass import dataclass
from eager.base.dtype import DType
from eager.core.dispatch import apply, current_tracer, untraced
from eager.core.op import REGISTRY, Attrs, Op
from eager.core.sym import SymNumber
from eager.core.tensor import Tensor, wrap
from eager.core.traced import fresh
from eager.device import device
from eager.sizes.aval import Aval
from eager.sizes.symint import SymInt
from jitcap.graph.show import example_array
from jitcap.graph.tracer import Tracer

Function = Callable[..., Any]
OPERAND = "%"  # where an operand stands in an argument's form; ("=", value) is part of the program


@dataclass(frozen=True, eq=False)
class _Custom(Op):
    """An op whose kernel and shape rule are Python functions on tensors. Its attribute `form` says
    for each argument how it is made of the operands."""

    user: CustomOp = field(kw_only=True)
    kind: ClassVar[str] = "extern"
    analytic: ClassVar[bool] = False
    raises: ClassVar[bool] = True

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        return self.user.shapes(avals, attrs["form"])

    def run(self, arrays: tuple[Any, ...], attrs: Attrs) -> tuple[Any, ...]:
        return self.user.results(arrays, attrs["form"])

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        results = self.user.results(arrays, attrs["form"])
        for i, (result, out) in enumerate(zip(results, outs, strict=True)):
            if (result.shape, result.dtype) != (out.shape, out.dtype.np):
                got: Aval = wrap(result).aval
                raise RuntimeError(
                    f"custom op {self.user.name}: result {i} is {got}, and was to be {out}, as its "
                    f"{'fake' if self.user.fake else 'result for other values'} says; "
                    "register_fake(f), where f gives the shape and dtype of each result"
                )
        return tuple(np.asarray(result, order="C") for result in results)


class CustomOp:
    """Operation that `custom_op` makes: call it like the function."""

    def __init__(
        self, name: str, fn: Function, outputs: int | None, mutates: Iterable[str]
    ) -> None:
        clean = name.replace("::", "_").replace(".", "_")
        if "::" not in name:
            raise ValueError(f"custom_op: the name is 'library::name', got {name!r}")
        if clean in REGISTRY:
            raise ValueError(f"custom_op: there is an operation named {name!r} (or {clean!r})")
        functools.update_wrapper(self, fn)
        self.name, self.fn = name, fn
        self.fake: Function | None = None
        self._backward: Function | None = None
        self._setup: Function | None = None
        self._signature = inspect.signature(fn)
        self._mutates = (mutates,) if isinstance(mutates, str) else tuple(mutates)
        for argument in self._mutates:
            if argument not in self._signature.parameters:
                raise ValueError(f"custom_op {name}: mutates_args names no argument: {argument!r}")
        self._outputs = _promised(fn) if outputs is None else outputs
        total = self._outputs + len(self._mutates)
        if not total:
            raise ValueError(f"custom_op {name}: gives nothing, and mutates_args names nothing")
        self._seen = False  # whether a call showed that it writes no other argument
        self.op = _Custom(clean, ("*xs",), vjp=self._vjp, n_outputs=total, user=self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Tensors, numbers, and lists of them; strings, bools, ints (where no fake is registered),
        None, dtypes and devices are part of the program. Raises TypeError for anything else, and
        where the signature does not fit; RuntimeError for a result that shares an argument's
        memory, for an argument that is written and not named in `mutates_args`, or needs a
        gradient and is."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        written = [bound.arguments[name] for name in self._mutates]
        for argument, x in zip(self._mutates, written, strict=True):
            if not isinstance(x, Tensor):
                kind = type(x).__name__
                raise TypeError(f"{self.name}(): {argument} is written; it is a {kind}, no tensor")
            if x.requires_grad and is_grad_enabled():
                raise RuntimeError(f"{self.name}(): {argument} requires a gradient and is written")
            bound.arguments[argument] = x.detach().clone()  # the derivative sees what it was
        operands: list[Any] = []
        form = tuple((k, self._formed(k, v, operands)) for k, v in bound.arguments.items())
        results = _many(apply(self.op, *operands, form=form))
        with no_grad():
            for x, value in zip(written, results[self._outputs :], strict=True):
                x.copy_(value)
        given = results[: self._outputs]
        return None if not given else given[0] if self._outputs == 1 else given

    def register_fake(self, fn: Function) -> Function:
        """`fn` gives tensors of the result's shape and dtype without looking at values. Without it
        the function is called with other values to see, and each size compiles a version."""
        self.fake = fn
        return fn

    def register_autograd(
        self, backward: Function, *, setup_context: Function | None = None
    ) -> None:
        """`backward(ctx, *grads)` gives one gradient (or None) per argument, a list for a list;
        what it needs is kept by `setup_context(ctx, inputs, output)`, both written in eager's
        operations."""
        self._backward, self._setup = backward, setup_context

    def _formed(self, name: str, value: Any, operands: list[Any]) -> Any:
        """An argument without its operands, which are appended to `operands`."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, SymNumber) and self.fake is None and value.pytype in (bool, int):
            value = bool(value) if value.pytype is bool else operator.index(value)
        if isinstance(value, Tensor | SymNumber | float | complex):
            operands.append(value)
            return OPERAND
        if isinstance(value, list | tuple):
            return (type(value).__name__, *(self._formed(name, x, operands) for x in value))
        if value is None or isinstance(value, int | str | DType | device | SymInt):
            return ("=", value)
        raise TypeError(
            f"{self.name}(): {name} is a {type(value).__name__}; an operation takes tensors, "
            "numbers, strings, None, dtypes, devices, and lists of them"
        )

    def shapes(self, avals: tuple[Aval, ...], form: Any) -> tuple[Aval, ...]:
        """The avals of the results: by the fake, else by running the function on zeros and ones."""
        if self.fake is None:
            rng = np.random.default_rng(0)
            arrays = tuple(example_array(a, rng) for a in avals)
            return tuple(wrap(r).aval for r in self.results(arrays, form))
        tracer = Tracer(name="fake")
        stand_ins: list[Tensor] = [wrap(fresh(tracer, tracer.input("x", a), a)) for a in avals]
        arguments = _arguments(form, iter(stand_ins))
        token = current_tracer.set(tracer)
        try:
            given = _many(self._called(self.fake, arguments))
        finally:
            current_tracer.reset(token)
        return tuple(r.aval for r in (*given, *(arguments[name] for name in self._mutates)))

    def results(self, arrays: tuple[Any, ...], form: Any) -> tuple[Any, ...]:
        """Results of the function, and then the arguments that it writes: they are copies, and at
        the first call all are, so that one that writes another is found before it does harm."""
        first, self._seen = not self._seen, True
        given = [wrap(a.copy() if first else a) if _is_array(a) else a for a in arrays]
        arguments = _arguments(form, iter(given))
        with untraced():
            for name in self._mutates:
                arguments[name] = arguments[name].clone()
            found = _many(self._called(self.fn, arguments))
        if len(found) != self._outputs or not all(isinstance(x, Tensor) for x in found):
            kinds = ", ".join(type(x).__name__ for x in found) or "nothing"
            raise TypeError(
                f"custom op {self.name} is to give {self._outputs} tensors, gave {kinds}"
            )
        written = [arguments[name] for name in self._mutates]
        results = tuple(r.detach()._array for r in (*found, *written))
        for x, before in zip(given, arrays, strict=True):
            if isinstance(x, Tensor):
                self._look(x, before, results, first=first)
        return results

    def _look(self, x: Tensor, before: Any, results: tuple[Any, ...], *, first: bool) -> None:
        """Raises where a call wrote an operand, or gave its memory."""
        if x._storage.version or (first and x._array.tobytes() != before.tobytes()):
            self._seen = False
            raise RuntimeError(
                f"custom op {self.name} writes an argument: name it in mutates_args=, or write "
                "a copy of it"
            )
        if any(np.may_share_memory(x._array, r) for r in results):
            raise RuntimeError(
                f"custom op {self.name} gives memory of an argument: give a clone, since who reads "
                "the result may write it"
            )

    def _called(self, fn: Function, arguments: dict[str, Any]) -> Any:
        """A call by the kinds of the function's parameters."""
        bound = inspect.BoundArguments(self._signature, arguments)
        return fn(*bound.args, **bound.kwargs)

    def _vjp(
        self, g: Any, xs: tuple[Any, ...], out: Any, needs: tuple[bool, ...], form: Any
    ) -> tuple[Any, ...]:
        if self._backward is None:
            raise RuntimeError(f"{self.name} has no derivative: call register_autograd")
        wanted = _arguments(form, iter(needs), static=lambda _: False)
        context = SimpleNamespace(needs_input_grad=tuple(map(_any, wanted.values())))
        context.save_for_backward = lambda *kept: setattr(context, "saved_tensors", kept)
        if self._setup is not None:
            results = _many(out)[: self._outputs]
            inputs = tuple(_arguments(form, iter(xs)).values())
            self._setup(context, inputs, results[0] if self._outputs == 1 else results)
        found = self._backward(context, *_many(g)[: self._outputs])
        grads = found if isinstance(found, tuple) else (found,)
        if len(grads) != len(form):
            raise RuntimeError(
                f"{self.name}: backward gave {len(grads)} gradients for {len(form)} arguments"
            )
        return tuple(
            each
            for (_, part), grad in zip(form, grads, strict=True)
            for each in _of_operands(part, grad)
        )


def custom_op(
    name: str,
    fn: Function | None = None,
    *,
    mutates_args: Iterable[str] = (),
    outputs: int | None = None,
) -> Any:
    """Make a Python function of tensors an operation that compiled code calls as it is.

    `name` is "library::name". The function gives a new tensor, or a tuple of `outputs` of them (as
    its annotation says: `-> tuple[Tensor, Tensor]`, `-> None`; else 1), and writes the arguments
    that `mutates_args` names, which carry no gradient then. Raises ValueError if the name is taken
    or not of that form.
    """
    if fn is None:
        return lambda f: CustomOp(name, f, outputs, mutates_args)
    return CustomOp(name, fn, outputs, mutates_args)


def _promised(fn: Function) -> int:
    """Number of tensors that a function gives, by its annotation."""
    try:
        promised: Any = inspect.get_annotations(fn, eval_str=True).get("return", Tensor)
    except (NameError, AttributeError):  # of what is there for type checkers only
        return 1
    if promised is None:
        return 0
    each = get_args(promised) if get_origin(promised) is tuple else (Tensor,)
    return 1 if ... in each else len(each)  # `tuple[Tensor, ...]` does not say how many


def _many(result: Any) -> tuple[Any, ...]:
    if result is None:
        return ()
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _any(tree: Any) -> bool:
    return any(map(_any, tree)) if isinstance(tree, list | tuple) else bool(tree)


def _arguments(
    form: Any, operands: Iterator[Any], static: Function = lambda x: x
) -> dict[str, Any]:
    """The arguments by name, with operands in their places."""

    def made(part: Any) -> Any:
        if part == OPERAND:
            return next(operands)
        kind, *rest = part
        if kind == "=":
            return static(rest[0])
        return list(map(made, rest)) if kind == "list" else tuple(map(made, rest))

    return {name: made(part) for name, part in form}


def _of_operands(part: Any, grad: Any) -> Iterator[Any]:
    """The gradients of the operands in one argument."""
    if part == OPERAND:
        yield grad
    elif part[0] != "=":
        for i, inner in enumerate(part[1:]):
            yield from _of_operands(inner, None if grad is None else grad[i])
