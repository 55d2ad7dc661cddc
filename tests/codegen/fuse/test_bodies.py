"""Programs inside steps: the loop around a body, with views of its operands, on both backends."""

from typing import ClassVar

import numpy as np
import pytest

import codegen
from codegen import Call, Program, Target, Value
from eager.base import dtype as dt
from eager.base.dataclass import dataclass
from eager.core.op import REGISTRY, Op
from eager.sizes.aval import Aval


@dataclass(frozen=True, eq=False)
class Scan(Op):
    kind: ClassVar[str] = "control"

    def __post_init__(self) -> None:
        """Stay out of the registry."""


SCAN = Scan("scan", ("*operands",))
STEPS, ROWS, WIDTH = 5, 3, 40


def floats(*shape):
    return Aval(shape, dt.float32)


class Writer:
    """Calls in order, with fresh values."""

    def __init__(self):
        self.calls, self.count = [], 0

    def value(self, aval):
        self.count += 1
        return Value(self.count - 1, aval)

    def call(self, op, operands, aval, **attrs):
        out = self.value(aval)
        op = REGISTRY[op] if isinstance(op, str) else op
        self.calls.append(Call(op, operands, attrs, (out,)))
        return out


def body():
    """h, x, w, number -> tanh(h w^T + x), the sum of both."""
    p = Writer()
    h, x = p.value(floats(ROWS, WIDTH)), p.value(floats(ROWS, WIDTH))
    w, n = p.value(floats(WIDTH, WIDTH)), p.value(Aval((), dt.int64, weak=True))
    turned = p.call("permute", (w,), floats(WIDTH, WIDTH), dims=(1, 0))
    product = p.call("dot", (h, turned), floats(ROWS, WIDTH))
    new = p.call("tanh", (p.call("add", (product, x), floats(ROWS, WIDTH)),), floats(ROWS, WIDTH))
    both = p.call("add", (p.call("mul", (new, n), floats(ROWS, WIDTH)), h), floats(ROWS, WIDTH))
    return Program((h, x, w, n), tuple(p.calls), (new, both))


def whole(length, reverse, inner=None):
    """xs lie batch first: the scan reads slices of a view."""
    p = Writer()
    h, xs = p.value(floats(ROWS, WIDTH)), p.value(floats(ROWS, length, WIDTH))
    w, n = p.value(floats(WIDTH, WIDTH)), p.value(Aval((), dt.int64, weak=True))
    view = p.call("permute", (xs,), floats(length, ROWS, WIDTH), dims=(1, 0, 2))
    outs = p.value(floats(ROWS, WIDTH)), p.value(floats(length, ROWS, WIDTH))
    attrs = {"programs": (inner or body(),), "carried": 1, "sequences": 1, "length": length,
             "reverse": reverse, "steps": (2,)}  # fmt: skip
    p.calls.append(Call(SCAN, (h, view, w, n), attrs, outs))
    return Program((h, xs, w, n), tuple(p.calls), outs)


def expected(h, xs, w, n, length, reverse):
    ys = np.empty((length, ROWS, WIDTH), np.float32)
    for i in reversed(range(length)) if reverse else range(length):
        new = np.tanh(h @ w.T + xs[:, i])
        ys[i] = new * n + h
        h, n = new, n + 2
    return h, ys


@pytest.mark.parametrize("backend", ["python", "cpp"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 2, STEPS])
def test_a_scan(backend, length, reverse):
    rng = np.random.default_rng(0)
    shapes = (ROWS, WIDTH), (ROWS, length, WIDTH), (WIDTH, WIDTH)
    h, xs, w = (0.3 * rng.standard_normal(s).astype(np.float32) for s in shapes)
    artifact = codegen.compile(whole(length, reverse), Target(backend))
    found = artifact.run([h, xs, w, 3])
    for a, b in zip(found, expected(h, xs, w, 3, length, reverse), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_the_code_does_not_grow_with_the_length():
    texts = [codegen.compile(whole(n, False), Target("cpp")).stages["source"] for n in (10, 999)]
    assert len(texts[0].splitlines()) == len(texts[1].splitlines())


def test_a_scan_inside_a_scan():
    """The body of the outer one: two rounds of the inner over the same slice."""
    p = Writer()
    h, x = p.value(floats(ROWS, WIDTH)), p.value(floats(ROWS, WIDTH))
    w, n = p.value(floats(WIDTH, WIDTH)), p.value(Aval((), dt.int64, weak=True))
    twice = p.call("stack" if "stack" in REGISTRY else "cat", (
        p.call("unsqueeze", (x,), floats(1, ROWS, WIDTH), dim=0),
        p.call("unsqueeze", (x,), floats(1, ROWS, WIDTH), dim=0),
    ), floats(2, ROWS, WIDTH), dim=0)  # fmt: skip
    outs = p.value(floats(ROWS, WIDTH)), p.value(floats(2, ROWS, WIDTH))
    attrs = {"programs": (body(),), "carried": 1, "sequences": 1, "length": 2, "reverse": False,
             "steps": (2,)}  # fmt: skip
    p.calls.append(Call(SCAN, (h, twice, w, n), attrs, outs))
    last = p.call("select", (outs[1],), floats(ROWS, WIDTH), dim=0, index=1)
    inner = Program((h, x, w, n), tuple(p.calls), (outs[0], last))
    rng = np.random.default_rng(1)
    shapes = (ROWS, WIDTH), (ROWS, STEPS, WIDTH), (WIDTH, WIDTH)
    args = [0.3 * rng.standard_normal(s).astype(np.float32) for s in shapes]
    results = [
        codegen.compile(whole(STEPS, True, inner), Target(backend)).run([*args, 3])
        for backend in ("python", "cpp")
    ]
    h, xs, w = args
    number = 3
    for i in reversed(range(STEPS)):
        for k in (0, 2):
            new = np.tanh(h @ w.T + xs[:, i])
            y, h = new * (number + k) + h, new
        number += 2
    for found in results:
        np.testing.assert_allclose(found[0], h, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(found[1][0], y, rtol=1e-4, atol=1e-4)
