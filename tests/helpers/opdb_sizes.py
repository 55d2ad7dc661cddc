"""PyTorch's op database at several sizes on one compile: a sample of an op -> what came of it.

Two samples are a pair where the calls are the same but for the sizes of their tensors. A sample
that has no other gets one of its own: each of its sizes becomes another, in all tensors, and in the
ints among the arguments where it must (`view(x, [6, 2])`). The first call compiles, with
`dynamic=True`, and the others run; each is compared with eager, gradients too. Sizes 0 and 1 stay.
One compile is right; two are where an int among the arguments is another from call to call, since
that it varies is learnt from the second. `scripts/opdb sizes` runs the whole.
"""

import functools
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import dynamic
import numpy as np
import opdb
from opdb_jit import leaves_of

import eager
from jitcap import jit


@dataclass
class Outcome(opdb.Outcome):
    """`fixed`: more versions than one: (sample, cause, text), see `CAUSES`. `lone`: takes no other
    size."""

    fixed: list[tuple[int, str, str]] = field(default_factory=list)
    lone: list[int] = field(default_factory=list)


CAUSES = {
    "values": "the values of a tensor decide what the op does: it is split there",
    "order": "the op decides by which size is larger: each answer has a version",
    "equal": "the op decides by what a size is",
    "argument": "an int among the arguments decides",
    "size": "the size is part of the program",
}
FIXED = {  # a cause, the ops that may have it, and why
    "values": {
        "allclose|equal": "a bool of Python",
        "cov": "weights are looked at",
        "as_strided.*": "where a tensor's memory begins is not known while it is captured",
        "narrow|tensor_split": "a place that is a tensor is taken as a number",
        "histc": "whether its limits differ",
        "histogram": "its limits are those of the data",
        "resize_|resize_as_": "memory that may have to grow",
    },
    "equal": {
        "(unsafe_)?(chunk|split)|unbind(_copy)?|[hvd]split": "how many results there are",
        "combinations": "the choices are listed in Python",
        "ormqr": "a loop in Python over it",
        "stft": "a window as long as the transform is not padded",
        "nn_functional_conv.*": "kernels of another size: whether they end where the input does",
        "slice_scatter": "what is written has the size of the slice",
        "diff|diag|nn_functional_glu": "whether what is left has one element",
        "tensor_split": "which parts are longer by one, or have one element",
        "nn_functional_unfold": "whether the last window ends where the input does",
    },
    "argument": {"unflatten": "one of the sizes that are asked for is the input's"},
    "order": {
        "(unsafe_)?chunk": "how many results there are",
        "diag.*|trace": "where the diagonal ends",
        "geqrf|qr|lu|svd_lowrank|pca_lowrank|svd": "wide or tall",
        "diff|median|.*trapz|.*trapezoid": "whether anything is left",
        "nn_functional_conv.*": "kernels of another size: as above",
        ".*pad.*": "what is cut, or taken from the other side, is there",
        "nn_functional_(fractional|adaptive|max|avg|lp)_.*pool.*|nn_functional_unfold": "a window"
        " beyond the end",
    },
}
Arguments = tuple[Any, Any]  # a list and a dict


@dataclass(frozen=True)
class Program:
    """What is compiled, and ways to make its arguments, a new copy at each call."""

    step: Any
    calls: list[Callable[[], Arguments]]
    compiles: int


def run_op(op: Any, dtype: str, most: int | None = None, backend: str = "eager") -> Outcome:
    """Samples of an op (`most` of them) at sizes of their own and others."""
    out = Outcome()
    given = opdb.samples(op, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fn = opdb.ours(op)
        except opdb.Absent as error:
            return Outcome(absent=list(range(len(given))), name=str(error))
        for index, program in _programs(given, fn, out, most):
            run(index, program, backend, out)
    return out


def accepted(name: str, cause: str) -> bool:
    """Whether more versions than one have a reason."""
    return any(re.fullmatch(pattern, name) for pattern in FIXED.get(cause, ()))


def _programs(given: list, fn: Any, out: Outcome, most: int | None) -> Iterator[Any]:
    """(index, program) of each sample that is the first of a pair, or is made larger."""
    mine: dict[int, Arguments] = {}
    for index, sample in enumerate(given):
        try:
            first, *rest = opdb.converted((sample.input, sample.args, sample.kwargs), {})
        except opdb.Absent as error:
            out.absent.append(index)
            out.name = str(error)
            continue
        mine[index] = ([first, *rest[0]], rest[1])
    partners = _partners(mine)
    seconds = set(partners.values())
    chosen = [index for index in mine if index not in seconds][:most]
    for index in chosen:
        step = step_of(fn, given[index].output_process_fn_grad)
        if index in partners:
            calls = [functools.partial(copied, mine[i]) for i in (index, partners[index])]
            program = Program(step, calls, 1)
        else:
            program = larger(step, mine[index])
        if program is None or not all(_accepted(step, call) for call in program.calls):
            out.lone.append(index)
        else:
            yield index, program


# ---- other sizes


def _partners(mine: dict[int, Arguments]) -> dict[int, int]:
    """A sample -> another one that is the same but for its sizes, each in one pair."""
    groups: dict[Any, list[int]] = {}
    for index, arguments in mine.items():
        groups.setdefault(_signature(arguments), []).append(index)
    found: dict[int, int] = {}
    for group in groups.values():
        left = list(group)
        while left:
            first = left.pop(0)
            other = next((i for i in left if _others(mine[first], mine[i])), None)
            if other is not None:
                found[first] = other
                left.remove(other)
    return found


def _signature(value: Any) -> Any:
    """What two calls of a pair have in common."""
    if isinstance(value, eager.Tensor):
        few = tuple(n if n < 2 else "many" for n in value.shape)
        return ("tensor", value.dtype.name, few, value.requires_grad, value.is_contiguous())
    if isinstance(value, dict):
        return tuple((k, _signature(v)) for k, v in value.items())
    if isinstance(value, list | tuple):
        return (type(value).__name__, *map(_signature, value))
    return (type(value).__name__, repr(value))


def _others(a: Arguments, b: Arguments) -> bool:
    """Whether sizes differ, and those that are equal in `a` are so in `b`."""
    sizes = [
        pair
        for s, t in zip(_tensors(a), _tensors(b), strict=True)
        for pair in zip(s.shape, t.shape, strict=True)
    ]
    return any(n != m for n, m in sizes) and len(dict(sizes)) == len(set(sizes))


def _tensors(value: Any) -> list[Any]:
    found: list[Any] = []
    dynamic.replaced(_listed(value), lambda x: found.append(x) if _is_tensor(x) else None)
    return found


def _listed(value: Any) -> Any:
    """With tuples for sizes and for tuples that have names."""
    if isinstance(value, tuple) and type(value) is not tuple:
        value = tuple(value)
    if type(value) in (list, tuple):
        return type(value)(map(_listed, value))
    return {k: _listed(v) for k, v in value.items()} if type(value) is dict else value


def _is_tensor(value: Any) -> bool:
    return isinstance(value, eager.Tensor)


def larger(step: Any, arguments: Arguments) -> Program | None:
    """The call, and the same at sizes which it takes: ints stay, if they can, or follow."""
    sizes = sorted({n for t in _tensors(arguments) for n in t.shape if n > 1})
    plain = _listed(arguments)
    groups = [sizes, *([n] for n in sizes if len(sizes) > 1)]
    for group in filter(None, groups):
        for follow in (False, True):
            calls = [functools.partial(grown, plain, {}, follow)]
            for grow in dynamic.GROWTHS:
                call = functools.partial(grown, plain, {n: grow(n) for n in group}, follow)
                if _accepted(step, call):
                    calls.append(call)
                if len(calls) == 3:
                    return Program(step, calls, 2 if follow else 1)
    return None


def grown(arguments: Arguments, sizes: dict[int, int], follow: bool) -> Arguments:
    """A copy at other sizes."""

    def change(x: Any) -> Any:
        if isinstance(x, eager.Tensor):
            array = dynamic.larger(opdb.numpy_of(x), sizes)
            return eager.from_numpy(np.array(array)).requires_grad_(x.requires_grad)
        return sizes.get(x, x) if follow and type(x) is int else x

    return dynamic.replaced(arguments, change)


def copied(arguments: Arguments) -> Arguments:
    """A copy with the strides of the original."""

    def change(x: Any) -> Any:
        return x.detach().clone().requires_grad_(x.requires_grad) if _is_tensor(x) else x

    return dynamic.replaced(_listed(arguments), change)


def _accepted(step: Any, call: Callable[[], Arguments]) -> bool:
    try:
        step(*call())
    except Exception:
        return False
    return True


# ---- one sample


def step_of(fn: Any, process: Any) -> Any:
    """The op and its gradients as a function of its arguments and keywords."""
    process = None if opdb._is_identity(process) else opdb._over_eager(process)  # noqa: SLF001

    def step(args: list, kwargs: dict) -> Any:
        result = fn(*args, **kwargs)
        leaves = [t for t in _leaves((args, kwargs)) if t.requires_grad]
        ends = [t for t in _leaves(process(result) if process else result) if t.requires_grad]
        if not leaves or not ends:
            return result, []
        total = sum([dynamic.weighted(t) for t in ends])
        return result, eager.autograd.grad(total, leaves, allow_unused=True)

    return step


def _leaves(value: Any) -> list[Any]:
    """The tensors of a value, in order."""
    if isinstance(value, dict):
        value = list(value.values())
    return [t for t in leaves_of(value) if isinstance(t, eager.Tensor)]


def run(index: int, program: Program, backend: str, out: Outcome) -> None:
    compiled = jit(program.step, dynamic=True, backend=backend)
    try:
        for call in program.calls:
            eager.manual_seed(0)
            expected = program.step(*call())
            eager.manual_seed(0)
            compare(compiled(*call()), expected)
    except opdb.Wrong as error:
        out.wrong.append((index, *error.args))
        return
    except Exception as error:
        out.wrong.append((index, "refused", opdb.text_of(error)))
        return
    stats = compiled.stats
    if not stats.splits and not stats.fallbacks and stats.compiles <= program.compiles:
        out.right.append(index)
    else:
        out.fixed.append((index, *_cause(stats)))


def _cause(stats: Any) -> tuple[str, str]:
    if stats.splits or stats.fallbacks:
        return "values", "; ".join(stats.refusals)[:300]
    text = "; ".join(r.reason for r in stats.recompiles[-1:])
    shown = text.split(", at ")[0] + text[text.find(", read as") :]
    words = (("size", "Tensor "), ("order", ">= "), ("equal", "== "), ("equal", ".shape["))
    found = next((cause for cause, word in words if word in text), "argument")
    return found, shown[:300]


def compare(found: Any, expected: Any) -> None:
    """Raise `Wrong` for what is not as it is in eager."""
    a, b = opdb.flat(list(found)), opdb.flat(list(expected))
    if len(a) != len(b):
        raise opdb.Wrong("structure", f"{len(a)} results for {len(b)}")
    for mine, theirs in zip(a, b, strict=True):
        if type(mine) is not type(theirs):
            raise opdb.Wrong("structure", f"{type(mine).__name__} for {type(theirs).__name__}")
        if not isinstance(theirs, eager.Tensor):
            continue
        p, q = opdb.numpy_of(mine), opdb.numpy_of(theirs)
        if p.shape != q.shape or mine.dtype is not theirs.dtype:
            raise opdb.Wrong("shape", f"{p.shape} {mine.dtype} for {q.shape} {theirs.dtype}")
        if not opdb.same(p, q, theirs.dtype.name, 10, cancels=True):
            raise opdb.Wrong("value", opdb.difference(p, q))
