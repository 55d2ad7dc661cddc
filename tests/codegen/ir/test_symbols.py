"""One compile serves every size: programs traced with symbols, on each backend, at many sizes.

What tracing fixes or guards is eager's affair; code generation adds no guard to it.
"""

from dataclasses import replace

import pytest

import codegen
import eager
import eager.nn.functional as F
from codegen.ir.schema import Target, Unsupported
from jitcap.compile.lower import lower
from tests.codegen.symbolic import Case, f32, i64, run, traced

CASES = {}


def case(name, symbols, arrays, **how):
    def add(fn):
        CASES[name] = Case(fn, symbols, arrays, **how)
        return fn

    return add


def pair(name, arrays, **how):
    """Of sizes n and k."""
    return case(name, ("n", "k"), arrays, **how)


def one(name, arrays, **how):
    """Of a size n."""
    return case(name, ("n",), arrays, **how)


one("pointwise", lambda n: (f32(n, 64), f32(64), f32(n, 1)))(
    lambda n, x, b, c: eager.tanh(x * 2 + b) * c
)
pair("pointwise2", lambda n, m: (f32(n, m), f32(m), f32(n, 1)))(
    lambda n, m, x, b, c: (x * b + c, eager.exp(x) * n)
)
one("sum0", lambda n: (f32(n, 64),))(lambda n, x: (x.sum(0), x.sum(1), x.sum(), x.max(), x.mean()))
pair("sum2", lambda n, m: (f32(n, m),))(lambda n, m, x: (x.sum(0), x.amax(1), x.sum(), x.mean(0)))
pair("softmax", lambda n, m: (f32(n, m),))(lambda n, m, x: F.softmax(x, dim=-1))
one("softmax0", lambda n: (f32(n, 50),))(lambda n, x: F.softmax(x, dim=0))
one("layernorm", lambda n: (f32(n, 48), f32(48), f32(48)))(
    lambda n, x, w, b: F.layer_norm(x, (48,), w, b)
)
pair("layernorm_sym", lambda n, m: (f32(n, m),))(lambda n, m, x: F.layer_norm(x, (m,)))
one("ce", lambda n: (f32(n, 10), i64(n)))(lambda n, x, t: F.cross_entropy(x, t))
one("mm", lambda n: (f32(n, 32), f32(32, 64), f32(64), f32(64, 16)))(
    lambda n, x, w, b, v: F.gelu(x @ w + b) @ v
)
pair("mm2", lambda n, m: (f32(n, m), f32(m, 24), f32(24, m)), atol=1e-4)(
    lambda n, m, x, w, v: F.relu(x @ w) @ v
)
case("attention", ("b", "t"), lambda b, t: (f32(b, 4, t, 16),) * 3)(
    lambda b, t, q, k, v: F.softmax((q @ k.transpose(-1, -2)) * 0.25, dim=-1) @ v
)


def causal(b, t, q, k, v):
    s = (q @ k.transpose(-1, -2)) * 0.25
    i = eager.arange(t)
    s = eager.where(i[:, None] >= i[None, :], s, float("-inf"))
    return F.softmax(s, dim=-1) @ v


case("causal", ("b", "t"), lambda b, t: (f32(b, 4, t, 16),) * 3)(causal)
case("heads", ("b", "t"), lambda b, t: (f32(b, t, 64),))(
    lambda b, t, x: (
        (x.reshape(b, t, 4, 16).transpose(1, 2) * 2).transpose(1, 2).reshape(b, t, 64) + 1
    )
)
pair("merge", lambda n, m: (f32(n, m, 6),))(
    lambda n, m, x: (
        x.reshape(n * m, 6) * 2,
        x.reshape(n, m * 6) + 1,
        x.reshape(-1),
        x.reshape(n * 2, m, 3).sum(-1),
    )
)
pair("cat", lambda n, m: (f32(n, 8), f32(m, 8)))(
    lambda n, m, x, y: (eager.cat([x, y]), eager.cat([x, y, x]).sum(0), eager.cat([x, x], 1) * 2)
)
one("stack", lambda n: (f32(n, 8), f32(n, 8)))(
    lambda n, x, y: (eager.stack([x, y]), eager.stack([x, y], -1))
)
pair("pad", lambda n, m: (f32(n, m),))(lambda n, m, x: F.pad(x, (1, 2, 3, 4)) * 2)
one("slice", lambda n: (f32(n, 8),))(
    lambda n, x: (x[1:] - x[:-1], x[: n // 2], x[::2], x[:, 1:5].sum(0))
)
pair("flip", lambda n, m: (f32(n, m),))(
    lambda n, m, x: (x.flip(0), x.flip(1) + x, eager.roll(x, 1, 0), eager.roll(x, (1, -2), (0, 1)))
)
one("split", lambda n: (f32(n, 48),))(lambda n, x: tuple(a * 2 for a in x.split(16, 1)))
one("chunk", lambda n: (f32(n, 48),))(lambda n, x: tuple(a * b for a, b in [x.chunk(2, 1)]))
one("conv", lambda n: (f32(n, 3, 12, 12), f32(8, 3, 3, 3), f32(8)))(
    lambda n, x, w, b: F.relu(F.conv2d(x, w, b, padding=1))
)
case("conv_hw", ("n", "h"), lambda n, h: (f32(n, 3, h, 12), f32(8, 3, 3, 3)), atol=1e-4)(
    lambda n, h, x, w: F.conv2d(x, w, padding=1).sum((2, 3))
)
one("pool", lambda n: (f32(n, 3, 12, 12),))(lambda n, x: (F.max_pool2d(x, 2), F.avg_pool2d(x, 2)))
one("embedding", lambda n: (i64(n, 5), f32(10, 16)))(lambda n, i, w: F.embedding(i, w) * 2)
pair("cumsum", lambda n, m: (f32(n, m),))(lambda n, m, x: (x.cumsum(0), x.cumsum(1) * 2))
one("sort", lambda n: (f32(n, 9),))(lambda n, x: (*x.sort(0), *x.topk(3, 1)))
pair("argmax", lambda n, m: (f32(n, m),))(lambda n, m, x: (x.argmax(1), x.argmax(0), x.argmax()))
pair("where", lambda n, m: (f32(n, m), f32(m)))(lambda n, m, x, y: eager.where(x > y, x, y * 2))
one("gather", lambda n: (f32(n, 9), i64(n, 4)))(
    lambda n, x, i: (x.gather(1, i), eager.zeros(n, 9).scatter_add(1, i, x[:, :4]))
)
one("arange", lambda n: (f32(n),))(
    lambda n, x: (eager.ones(n, 3) * n, eager.zeros(n, n), eager.eye(n))
)
one("numbers", lambda n: (f32(n, 4),))(lambda n, x: x.sum(0) / n + (n // 2) * 1.0 + n % 3)
one("tril", lambda n: (f32(n, n),))(lambda n, x: (eager.tril(x), eager.triu(x, 1)))
one("repeat", lambda n: (f32(n, 4),))(
    lambda n, x: (x.repeat(2, 3), x.unsqueeze(0).expand(3, n, 4) * 2)
)
one("bn", lambda n: (f32(n, 6, 5), f32(6), f32(6)))(
    lambda n, x, w, b: F.batch_norm(x, None, None, w, b, training=True)
)
one("dotvec", lambda n: (f32(n, 64), f32(64)))(lambda n, x, w: (x @ w, x.T @ x))


@pytest.mark.parametrize("name", CASES)
def test_python(name):
    tried = run(CASES[name], "python", most=17)
    assert tried.added == []


@pytest.mark.parametrize("name", CASES)
def test_cpp(name):
    tried = run(CASES[name], "cpp")
    assert tried.added == []


def test_what_cannot_take_symbols_says_so(monkeypatch):
    static = replace(codegen.BACKENDS["python"], symbolic=False)
    monkeypatch.setitem(codegen.BACKENDS, "static", static)
    with pytest.raises(Unsupported, match="symbolic sizes"):
        run(CASES["pointwise"], "static")


def test_sizes_that_are_no_inputs_are_refused():
    done, _, _ = traced(CASES["pointwise"])
    program = lower(done.graph, done.writes)
    rest = tuple(v for v in program.inputs if not v.symbol)
    with pytest.raises(Unsupported, match="no input"):
        codegen.compile(replace(program, inputs=rest), Target("python"))
