"""Random steps of loops: as scans, and in Python loops that become scans, against eager's loops,
with gradients of first and second order.

A failure prints the source and the seed (see `fuzz_seeds` for more seeds). Most seeds run the
captured graph op by op, after all passes; every eighth is compiled.
"""

import random

import fuzz_seeds
import numpy as np
import pytest

import eager
from jitcap import jit
from jitcap.capture.control import for_loops

pytestmark = pytest.mark.once

STEPS = for_loops.LEAST + 1
UNARY = (
    "{}.tanh()", "{}.sigmoid()", "{}.sin()", "(-{})", "({} * 0.7)", "{}.mean(0)", "{}.t()[:, 0]",
    "{}[0]", "{}.softmax(-1)", "{}.amax(-1, keepdim=True)", "{}.flip(0)", "{}.detach()",
)  # fmt: skip
BINARY = ("({} + {})", "({} * {})", "({} - {})", "({} @ {})", "eager.where({0} > 0, {0}, {1})")


def values(rng, names, count):
    """Statements that make further [4, 4] values of `names`."""
    lines = []
    for i in range(count):
        if rng.random() < 0.5:
            text = rng.choice(UNARY).format(rng.choice(names))
            if any(end in text for end in (".mean(0)", "[:, 0]", "[0]", "keepdim")):
                text = f"({text} + {rng.choice(names)})"
        else:
            text = rng.choice(BINARY).format(rng.choice(names), rng.choice(names))
        lines.append(f"v{i} = ({text}).tanh()")
        names = [*names, f"v{i}"]
    return lines, names


def source(seed):
    """Functions `scan` and `loop` of (h, c, xs, w), which do the same."""
    rng = random.Random(seed)
    lines, names = values(rng, ["h", "c", "x", "w"], rng.randrange(2, 8))
    new_h, new_c = (rng.choice(names[4:]) for _ in range(2))
    new_c = rng.choice((new_c, f"c * 0.5 + {new_c}", "h", "c"))
    y = rng.choice((*names[4:], "h", "x @ w", f"({rng.choice(names[4:])} @ w).sum(0)"))
    down = rng.random() < 0.4
    order = f"range({STEPS - 1}, -1, -1)" if down else f"range({STEPS})"
    body = "\n        ".join(lines)
    return f"""
def scan(h, c, xs, w):
    def step(carry, x):
        h, c = carry
        {body}
        return ({new_h}, {new_c}), {y}

    (h, c), ys = eager.scan(step, (h, c), xs, reverse={down})
    return h, c, ys


def loop(h, c, xs, w):
    ys = []
    for t in {order}:
        x = xs[t]
        {body}
        ys.append({y})
        h, c = {new_h}, {new_c}
    {"ys.reverse()" if down else "pass"}
    return h, c, eager.stack(ys)
"""


def derivatives(fn, given):
    total = sum((r * r).sum() for r in fn(*given))
    first = eager.autograd.grad(total, given, create_graph=True, allow_unused=True)
    first = [g for g in first if g is not None]
    again = sum((g * g).sum() for g in first)
    second = eager.autograd.grad(again, given, allow_unused=True) if again.requires_grad else ()
    return [total, *first, *(g for g in second if g is not None)]


@pytest.mark.parametrize("seed", fuzz_seeds.seeds(24))
def test_random_steps(seed):
    text = source(seed)
    space = {"eager": eager}
    exec(text, space)
    rng = np.random.default_rng(seed)
    shapes = ((4, 4), (4, 4), (STEPS, 4, 4), (4, 4))
    given = [eager.tensor(0.5 * rng.standard_normal(s)).requires_grad_() for s in shapes]
    expected = derivatives(space["loop"], given)
    for name in ("scan", "loop"):  # of both comes the same loop
        fn = space[name]
        backend = "cpp" if seed % 8 == 0 and name == "scan" else "eager"
        compiled = jit(
            lambda *given, fn=fn: derivatives(fn, given), fullgraph=True, backend=backend
        )
        found = compiled(*given)
        assert len(found) == len(expected), f"{name} of seed {seed}:\n{text}"
        for a, b in zip(found, expected, strict=True):
            close = np.allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-7, atol=1e-9)
            assert close, f"{name} of seed {seed}:\n{text}"
