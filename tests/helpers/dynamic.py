"""One trace with symbols for every op: a sample of the registry -> what came of it at two sizes.

Every dimension of at least 2 of every tensor of a sample is a symbol; equal sizes share one. Traced
once, forward and gradients, the graph runs op by op at the sample's own sizes and at larger ones,
and is compared with plain eager there. A guard that the larger sizes break says that the trace
serves only its own: the op specialises. `scripts/dynamic` runs the whole, `tests/eager/ops/test_dynamic.py`
a seeded slice.
"""

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
import op_harness as harness

import codegen
import eager
from codegen.ir.schema import Target
from eager.core.op import Sample, aval_of
from eager.core.registry import PUBLIC, Public
from eager.core.traced import UnknownValue
from eager.sizes.aval import Aval
from eager.sizes.symint import SymInt
from jitcap.compile.lower import lower
from jitcap.graph.symbols import Sizes, holds
from jitcap.graph.tracer import DataDependent, trace

BACKEND = ""  # of codegen, which runs the graphs; else they run op by op
Place = tuple[Any, ...]  # the way to a value in nested lists, tuples and dicts


@dataclass(frozen=True)
class Outcome:
    """`what`: right, specialised, wrong, error, values (are needed), or one size (no other is taken
    by the op)."""

    what: str
    why: str = ""


class Told(Sizes):
    """A scope that keeps where each guard was made."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[str] = []

    def guard(self, relation: str, size: SymInt, holds: bool) -> None:
        super().guard(relation, size, holds)
        self.places.append(place())


BENEATH = ("eager.sizes.symint", "eager.sizes.polynomial", "eager.sizes.size_ranges")


def place() -> str:
    """The innermost lines in eager, above its sizes."""
    frame: FrameType | None = sys._getframe(2)
    found: list[str] = []
    while frame is not None and len(found) < 3:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("eager.") and name not in BENEATH:
            found.append(f"{name.removeprefix('eager.')}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(found)


# ---- sizes


GROWTHS: tuple[Callable[[int], int], ...] = (
    lambda n: n + 3,
    lambda n: 2 * n,
    lambda n: 3 * n,
    lambda n: n + 2,
    lambda n: 4 * n,
    lambda n: n + 4,
)


def dimensions(sample: Sample) -> list[int]:
    """The sizes of at least 2 of a sample's tensors."""
    found: set[int] = set()
    harness.convert((sample.args, tuple(sample.kwargs.values())), lambda a: found.update(a.shape))
    return sorted(n for n in found if n > 1)


def ways(sample: Sample) -> Iterator[tuple[dict[int, int], bool]]:
    """(size -> another, whether ints among the arguments follow), all sizes first."""
    sizes = dimensions(sample)
    groups = [sizes, *([n] for n in sizes if len(sizes) > 1)]
    for group in groups:
        for follow in (True, False):
            for grow in GROWTHS:
                yield {n: grow(n) for n in group}, follow


def larger(array: Any, sizes: dict[int, int]) -> Any:
    """The array repeated into its larger sizes; square matrices stay regular."""
    places = [np.arange(sizes.get(n, n)) % max(n, 1) for n in array.shape]
    grown = array[np.ix_(*places)] if places else array
    if grown.dtype.kind == "f" and grown.ndim > 1 and grown.shape[-1] == grown.shape[-2]:
        grown = grown + 0.25 * np.eye(grown.shape[-1]) * (grown.shape != array.shape)
    return grown


def replaced(value: Any, change: Callable[[Any], Any]) -> Any:
    """Nested tuples, lists and dicts with `change` of what they hold."""
    if type(value) in (tuple, list):
        return type(value)(replaced(x, change) for x in value)
    if type(value) is dict:
        return {k: replaced(x, change) for k, x in value.items()}
    return change(value)


def at(value: Any, sizes: dict[int, Any], follow: bool) -> Any:
    """A sample's arguments at other sizes."""

    def change(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return larger(x, sizes)
        return sizes.get(x, x) if follow and type(x) is int else x

    return replaced(value, change)


# ---- the program


def calls(p: Public, sample: Sample) -> Callable[..., list[Any]]:
    """The op and its gradients as a function of (arguments, keywords): a list of tensors."""

    def program(args: Any, kwargs: Any) -> list[Any]:
        eager.manual_seed(0)
        leaves: list[Any] = []

        def leaf(x: Any) -> Any:
            if not isinstance(x, eager.Tensor):
                return x
            if sample.grad and x.dtype.is_floating_point:
                leaves.append(x.requires_grad_())
            return x

        args, kwargs = replaced(args, leaf), replaced(kwargs, leaf)
        results = [t for t in harness.flat(p.fn(*args, **kwargs)) if isinstance(t, eager.Tensor)]
        ends = [weighted(t) for t in results if t.requires_grad]
        if not ends:
            return results
        grads = eager.autograd.grad(sum(ends[1:], start=ends[0]), leaves, allow_unused=True)
        return [t.detach() for t in results] + [g for g in grads if g is not None]

    return program


def weighted(t: Any) -> Any:
    t = t.abs() if t.dtype.is_complex else t
    return (t * t).sum()


def plain(program: Any, args: Any, kwargs: Any) -> list[Any]:
    """Without a trace."""
    as_tensor = lambda x: harness.ours(x, eager.float64) if isinstance(x, np.ndarray) else x
    found = program(replaced(args, as_tensor), replaced(kwargs, as_tensor))
    return [harness.to_numpy(t) for t in found]


class Traced:
    """One trace; `run` at sizes, `broken` says which guard does not hold there."""

    def __init__(self, program: Any, given: Any, sizes: Sequence[int], follow: bool) -> None:
        scope = self.scope = Told()
        symbols = {n: scope.symbol(f"s{n}", n) for n in sizes}
        self.sizes = tuple(sizes)
        examples: list[Any] = list(symbols.values())

        def lift(x: Any) -> Any:
            if isinstance(x, np.ndarray):
                aval = aval_of(harness.ours(x, eager.float64)._array)
                shape = tuple(symbols.get(n, n) for n in aval.shape)
                examples.append(Aval(shape, aval.dtype))
                return Hole(len(examples) - 1)
            if follow and type(x) is int and x in symbols:
                return symbols[x]
            return x

        lifted = replaced(given, lift)

        def fn(*inputs: Any) -> Any:
            fill = lambda x: inputs[x.place] if isinstance(x, Hole) else x
            return program(*replaced(lifted, fill))

        self.trace = trace(fn, *examples)
        self.artifact: codegen.Artifact | None = None

    def values(self, sizes: dict[int, int]) -> dict[str, int]:
        return {f"s{n}": sizes.get(n, n) for n in self.sizes}

    def broken(self, sizes: dict[int, int]) -> str:
        values = self.values(sizes)
        for (relation, size, holding), where in zip(
            self.scope.guards, self.scope.places, strict=True
        ):
            if holds(relation, size, values) != holding:
                return f"{'' if holding else 'not '}{size} {relation} 0 at {where}"
        return ""

    def run(self, given: Any, sizes: dict[int, int]) -> list[Any]:
        arrays: list[Any] = []

        def collect(x: Any) -> Any:
            if isinstance(x, np.ndarray):
                arrays.append(harness.ours(x, eager.float64).numpy())

        replaced(given, collect)
        constants = [t.detach().numpy() for t in self.trace.constants]
        with np.errstate(all="ignore"):
            found = self.program()([*self.values(sizes).values(), *arrays, *constants])
        return found[: self.trace.results]

    def program(self) -> Callable[[list[Any]], list[Any]]:
        """The graph op by op, or compiled once by `BACKEND`, where it writes no argument."""
        if not BACKEND or self.trace.writes:
            return self.trace.graph.run
        if self.artifact is None:
            self.artifact = codegen.compile(lower(self.trace.graph), Target(BACKEND))
        run = self.artifact.run
        return lambda given: run([np.ascontiguousarray(x) if np.ndim(x) else x for x in given])


@dataclass(frozen=True)
class Hole:
    """Where the input of that number goes."""

    place: int


# ---- outcomes


def outcomes(p: Public, sample: Sample) -> list[Outcome]:
    """One for every group of sizes (all, and each alone where all do not go together), once with
    ints among the arguments that follow and once with such that stay."""
    program = calls(p, sample)
    args = harness.convert(tuple(sample.args), np.asarray)
    kwargs = {k: harness.convert(v, np.asarray) for k, v in sample.kwargs.items()}
    given = (list(args), kwargs)
    found: list[Outcome] = []
    done: set[tuple[tuple[int, ...], bool]] = set()
    for sizes, follow in ways(sample):
        key = (tuple(sizes), follow)
        if key in done or (len(sizes) < len(dimensions(sample)) and _whole(done, sample)):
            continue
        if follow and not _follows(given, sizes):
            continue
        expected = _expected(program, at(given, sizes, follow))
        if expected is None:
            continue
        done.add(key)
        found.append(_outcome(program, given, sizes, follow, expected))
    return found or [Outcome("one size")]


def _whole(done: set[Any], sample: Sample) -> bool:
    return any(len(sizes) == len(dimensions(sample)) for sizes, _ in done)


def _follows(given: Any, sizes: dict[int, int]) -> bool:
    """Whether some int among the arguments is one of the sizes."""
    ints: list[int] = []
    replaced(given, lambda x: ints.append(x) if type(x) is int else None)
    return any(n in sizes for n in ints)


def _expected(program: Any, given: Any) -> list[Any] | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return plain(program, *given)
        except Exception:
            return None


def _outcome(program: Any, given: Any, sizes: Any, follow: bool, expected: Any) -> Outcome:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            traced = Traced(program, given, list(sizes), follow)
    except (UnknownValue, DataDependent) as error:
        return Outcome("values", str(error)[:100])
    except Exception as error:
        return Outcome("error", f"{sizes} {type(error).__name__}: {error}"[:300])
    first = plain(program, *given)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            own = traced.run(given, {})
            why = different(own, first)
            if why:
                return Outcome("wrong", f"at its own sizes: {why}")
            if broken := traced.broken(sizes):
                return Outcome("specialised", broken)
            why = different(traced.run(at(given, sizes, follow), sizes), expected)
    except Exception as error:
        return Outcome("error", f"{sizes} {type(error).__name__}: {error}"[:300])
    return Outcome("wrong", f"at {sizes}: {why}") if why else Outcome("right")


def different(found: list[Any], expected: list[Any]) -> str:
    """What differs, or nothing."""
    if len(found) != len(expected):
        return f"{len(found)} results, not {len(expected)}"
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        a = np.asarray(a, dtype=b.dtype) if np.asarray(a).dtype.kind == "V" else np.asarray(a)
        if a.shape != b.shape:
            return f"result {i} has shape {a.shape}, not {b.shape}"
        if not np.allclose(a, b, rtol=1e-6, atol=1e-8, equal_nan=True):
            return f"result {i} differs by {np.abs(a - b).max()}"
    return ""


def cases() -> list[Public]:
    """Every public function with samples."""
    return [p for _, p in sorted(PUBLIC.items()) if p.samples is not None]


# ---- what is not served by one trace, and why


_COUNT = "how many results there are is part of the program"
_TAPS = "each element of a window is a step of the code: kernel, stride and padding are ints"
_STEPS = "a loop in Python over it, a few operations each"
_CHOICE = "an argument that chooses what is computed, and here has the value of a size"
SPECIALISE = {
    "chunk": _COUNT,
    "split": _COUNT,
    "split_copy": _COUNT,
    "tensor_split": _COUNT,
    "hsplit": _COUNT,
    "vsplit": _COUNT,
    "dsplit": _COUNT,
    "unbind": _COUNT,
    "unbind_copy": _COUNT,
    "combinations": "the choices are listed in Python",
    "vander": "one power for each column, listed in Python",
    "nn.functional.avg_pool1d": _TAPS,
    "nn.functional.avg_pool2d": _TAPS,
    "nn.functional.avg_pool3d": _TAPS,
    "nn.functional.max_pool1d": _TAPS,
    "nn.functional.max_pool2d": _TAPS,
    "nn.functional.max_pool3d": _TAPS,
    "nn.functional.lp_pool1d": _TAPS,
    "nn.functional.lp_pool2d": _TAPS,
    "nn.functional.lp_pool3d": _TAPS,
    "nn.functional.local_response_norm": "the gradient adds up the channels of a window one by one",
    "nn.functional.unfold": "the gradient adds up the elements of a window one by one",
    "Tensor.unfold": "the gradient adds up the elements of a window one by one",
    "unfold_copy": "the gradient adds up the elements of a window one by one",
    "nn.functional.ctc_loss": _STEPS,
    "linalg.householder_product": _STEPS,
    "ormqr": _STEPS,
    "rot90": _CHOICE,
    "renorm": _CHOICE,
    "stft": "a window as long as the transform is not padded",
    "istft": "a window as long as the transform is not padded",
}
_DATA = "the values of a tensor decide the size of the result"
VALUES = {
    "argwhere": _DATA,
    "bincount": _DATA,
    "masked_select": _DATA,
    "nonzero": _DATA,
    "nonzero_static": _DATA,
    "repeat_interleave": _DATA,
    "unique": _DATA,
    "unique_consecutive": _DATA,
    "equal": "gives a bool of Python",
    "as_strided": "where a tensor's memory begins is not known while it is traced",
    "linalg.matrix_power": _CHOICE,
    "norm": _CHOICE,
    "pdist": _CHOICE,
    "pow": _CHOICE,
    "special.polygamma": _CHOICE,
    "gradient": "a spacing of one number is looked at",
}


def accepted(name: str, outcome: Outcome) -> bool:
    """Whether it is right, or has its reason."""
    if outcome.what == "specialised":
        return name in SPECIALISE
    if outcome.what == "values":
        return name in VALUES
    return outcome.what in ("right", "one size")
