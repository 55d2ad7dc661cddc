"""How the tests of symbolic sizes work: a function traced with symbols -> one artifact, run at many
sizes and compared with its graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import codegen
from codegen.ir.schema import Target
from eager.base import dtype as dt
from eager.sizes.aval import Aval
from eager.sizes.substitute import substitute
from eager.sizes.symint import SymInt
from jitcap.compile.lower import lower
from jitcap.graph.symbols import Sizes
from jitcap.graph.tracer import trace

SIZES = (2, 3, 5, 15, 16, 17, 31, 64, 100)


HINT = 8


@dataclass
class Case:
    """A function of sizes and tensors. `symbols`: the names of the sizes; `arrays(n, ...)`: avals
    of the tensors."""

    fn: Any
    symbols: tuple[str, ...]
    arrays: Any
    rtol: float = 2e-5
    atol: float = 3e-6

    def values(self):
        """The vectors of sizes to run at: those of today, then others."""
        turned = [(HINT + i, *SIZES[4 * i :], *SIZES[: 4 * i]) for i in range(len(self.symbols))]
        return [*zip(*turned, strict=True)]


@dataclass
class Tried:
    """What `run` did: the artifact, the guards that compiling added to those of tracing (but for
    those that indices fit into 32 bits), and how many vectors of sizes fitted."""

    artifact: Any
    added: list[str]
    traced: list[str]
    count: int


def f32(*shape):
    return Aval(shape, dt.float32)


def i64(*shape):
    return Aval(shape, dt.int64)


def number(kind):
    return Aval((), kind, weak=True)


def traced(case):
    """(Trace, the scope of its symbols, its examples)."""
    scope = Sizes()
    symbols = [scope.symbol(name, HINT + i) for i, name in enumerate(case.symbols)]
    avals = case.arrays(*symbols)
    return trace(case.fn, *symbols, *avals), scope, [*symbols, *avals]


def drawn(examples, values, seed=0):
    """Inputs for examples where the symbols have these values."""
    rng = np.random.default_rng(seed)
    out = []
    for x in examples:
        if isinstance(x, SymInt):
            out.append(substitute(x, values))
            continue
        shape = substitute(x.shape, values)
        if x.weak:
            out.append(3 if x.dtype.category == dt.INT else 0.25)
        elif x.dtype.category == dt.FLOAT:
            out.append(rng.standard_normal(shape).astype(x.dtype.np))
        elif x.dtype is dt.bool_:
            out.append(rng.integers(0, 2, shape).astype(bool))
        else:
            out.append(rng.integers(0, 2, shape).astype(x.dtype.np))
    return out


def run(case, backend, most=1000):
    """Compile once, run at all sizes up to `most`, compare with the graph."""
    done, scope, examples = traced(case)
    before = len(scope.guards)
    artifact = codegen.compile(lower(done.graph, done.writes), Target(backend))
    constants = [c.numpy() for c in done.constants]
    count = 0
    for at in case.values():
        sizes = dict(zip(case.symbols, at, strict=True))
        if max(at) > most or not fits(scope.guards, sizes):
            continue
        inputs = [*drawn(examples, sizes), *constants]
        own = [x.copy() if isinstance(x, np.ndarray) else x for x in inputs]
        want = [np.asarray(x) for x in done.graph.run(inputs)]
        got = artifact.run(own)
        written = {target: own[source] for source, target in done.writes}
        rest = iter(got)
        for i, w in enumerate(want):
            g = written[i] if i in written else next(rest)
            compare(case, g, w, f"{backend} at {sizes}: result {i}")
        assert next(rest, None) is None
        count += 1
    added = [said(g) for g in scope.guards[before:] if not is_width(g)]
    return Tried(artifact, added, [said(g) for g in scope.guards[:before]], count)


def is_width(guard):
    """Whether a guard says that an index fits into 32 bits."""
    relation, size, holds = guard
    return relation == ">=" and holds and dict(size.terms).get((), 0) > 1 << 24


def compare(case, got, want, label):
    assert got.shape == want.shape, (label, got.shape, want.shape)
    assert got.dtype == want.dtype, label
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want, err_msg=label)
    else:
        np.testing.assert_allclose(got, want, case.rtol, case.atol, err_msg=label)


def fits(guards, sizes):
    """Whether the guards hold for these sizes."""
    for relation, size, holds in guards:
        value = substitute(size, sizes)
        if (value == 0 if relation == "==" else value >= 0) is not holds:
            return False
    return True


def said(guard):
    relation, size, holds = guard
    return f"{size} {relation} 0" if holds else f"not {size} {relation} 0"
