"""The Op record: everything about one operation in one place. eager, tape, capture, lowering,
printing and tests read it.

A record's class is its KIND; shape, dtype, eager and lowering rules belong to the kind (see
`eager/ops/kinds.py` for their eager side and `codegen/fuse/lower.py` for their loops). What a
record adds is what differs: the body, the derivative, the samples.

The derivative `vjp` declares what it needs by its parameter names, and exactly that is saved by
the tape:
    `g`              the gradient(s) of the output(s) (a tuple when the op has several)
    `out`            the output(s); `out0`, `out1`, ... one of several
    operand names    the operands (tensors or Python numbers), named as in the body
    `avals`          the operands' abstract values (shapes and dtypes, no data)
    `needs`          for each operand, whether its gradient is wanted (skip costly ones)
    attribute names  static attributes
It is written in eager's own operations and returns one gradient per operand (None where there is
none). Whoever calls it sums a gradient down to its operand's shape and converts it to its
operand's dtype, so broadcasting and promotion are not its concern. Where a kind is `analytic`, so
is the derivative (g * y for x * y), also in complex numbers: whoever calls it conjugates `g` and
the results. A last operand named "*xs" stands for any number of them; `xs` in the derivative is
their tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from eager.base.dataclass import dataclass
from eager.base.dtype import DType
from eager.base.process.locks import cached_property
from eager.sizes.aval import Aval, array_aval, scalar_aval

Attrs = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """One test call of an op or function: `fn(*args, **kwargs)`. Arrays are NumPy; `grad` says
    whether to test derivatives.

    `rtol`/`atol` loosen the comparison where the mathematics asks for it, with a reason in
    `why`."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    grad: bool = True
    rtol: float | None = None
    atol: float | None = None
    why: str = ""


Samples = Callable[[], Iterable[Sample]]
REGISTRY: dict[str, Op] = {}


@dataclass(frozen=True, eq=False)
class Op:
    """Base of all kinds. `operands` names the inputs; `attrs` are static keyword attributes
    (hashable values).

    `saves_for` says for which operands' gradients a saved operand is used: `x * y` keeps x only if
    y needs a gradient, and the derivative gets None otherwise (and looks at `needs` first). An op
    without a derivative raises when one is asked for, unless it `stops` gradients on purpose; one
    whose first operand alone has none says by which name (`underived`).
    `ufunc` is a NumPy function equal to the op on operands of one floating point dtype, where
    there is one. `core` says, of an op that only a library does, how many of each operand's last
    dimensions one call looks at, where those before are a batch; None: at all. `by_parts`: it moves
    or adds elements, and so does the same to the real and to the imaginary parts of complex ones.
    `keeps_order`: the result has the operand's elements in the same row-major order, in another
    shape. `may_copy`, of a view: it is none where the strides do not allow it."""

    name: str
    operands: tuple[str, ...]
    vjp: Callable[..., tuple[Any, ...]] | None = None
    saves: frozenset[str] = frozenset()
    n_outputs: int = 1
    samples: Samples | None = None
    saves_for: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    stops: bool = False
    underived: str = ""
    ufunc: Any = None
    core: tuple[int, ...] | None = field(default=None, kw_only=True)
    by_parts: bool = field(default=False, kw_only=True)
    keeps_order: bool = field(default=False, kw_only=True)
    may_copy: bool = field(default=False, kw_only=True)
    kind: ClassVar[str] = "op"
    analytic: ClassVar[bool] = True
    raises: ClassVar[bool] = False  # for some values of good shape and dtype (a singular matrix)
    recomputed: ClassVar[bool] = False  # cheap to run again, and fused into who reads it
    shares: ClassVar[bool] = False  # the result is over the operand's memory: a view
    ordered: ClassVar[bool] = False  # others see that it runs, and when: no branch has it
    half: ClassVar[str] = ""  # of a collective: "start" or "wait"
    rounds: ClassVar[bool] = True  # what moves, compares or draws gives exact elements

    def __post_init__(self) -> None:
        if self.name in REGISTRY:
            raise ValueError(f"op {self.name!r} is registered twice")
        if self.vjp is not None:
            object.__setattr__(self, "saves", frozenset(parameters(self.vjp)))
        REGISTRY[self.name] = self

    @cached_property
    def saved_operands(self) -> tuple[tuple[int, str], ...]:
        """Operands that the derivative names: (position, name without the star)."""
        names = [(i, name.lstrip("*")) for i, name in enumerate(self.operands)]
        return tuple((i, name) for i, name in names if name in self.saves)

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        """Shapes and dtypes of the outputs. Raises RuntimeError naming the op and all shapes when
        they do not fit."""
        raise NotImplementedError

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        """The eager kernel: NumPy arrays (or Python numbers) in, NumPy arrays out."""
        raise NotImplementedError

    @property
    def halves(self) -> tuple[Op, Op] | None:
        """The start and the wait of a collective, which are two nodes of what is compiled."""
        return None

    def divisor(self, attrs: Attrs, dtype: DType) -> int:
        """Number by which the two halves of a collective leave the result to be divided."""
        return 1

    def run(self, arrays: tuple[Any, ...], attrs: Attrs) -> tuple[Any, ...]:
        """Shape rule and kernel in one step. Kinds override it where NumPy itself finds the shape,
        to be faster."""
        return self.compute(arrays, attrs, self.abstract(tuple(map(aval_of, arrays)), attrs))

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}>"


def parameters(fn: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's parameters, of the innermost one if it wraps others. A hundred
    times faster than `inspect.signature`: `import eager` asks for every op and function."""
    while hasattr(fn, "__wrapped__"):
        fn = fn.__wrapped__
    code = fn.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def aval_of(value: Any) -> Aval:
    """The aval of a NumPy array or of a Python number."""
    if isinstance(value, np.ndarray):
        return array_aval(value.shape, value.dtype)
    return scalar_aval(value)
