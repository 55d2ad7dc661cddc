"""Random matrix products with elementwise work behind them, joined, against eager: sizes, strides,
batches, types, who else reads the product, numbers of threads.

`run(4000, seed)` is the long form."""

import numpy as np
import pytest

import codegen
import eager
from codegen.ir.schema import Library, Target
from codegen.targets.cpp import epilogue
from codegen.targets.cpp.runtime import build, support
from eager.nn import functional as F
from tests.codegen.checking import compiled, floats, run_eager
from tests.codegen.tracing import trace

KINDS = (eager.float32, eager.float64, eager.bfloat16, eager.float16)
EDGES = (1, 2, 14, 15, 16, 32, 33, 64, 96, 255, 256, 300, 700)
MOST = 3_000_000  # multiplications of a product
TOGETHER = 8  # products of one program


def size(rng):
    small = rng.random() < 0.3
    return int(rng.integers(1, 40)) if small else int(rng.choice(EDGES) + rng.integers(0, 3))


def values(rng, kind, *shape):
    return eager.tensor(rng.standard_normal(shape)).to(kind)


def operand(rng, kind, batch, rows, cols):
    """A tensor, and how the program sees a matrix in it."""
    stored, seen = [
        ((*batch, rows, cols), lambda x: x),
        ((*batch, cols, rows), lambda x: x.transpose(-1, -2)),
        ((*batch, rows, cols + 3), lambda x: x[..., :cols]),
        ((*batch, 2 * rows, cols), lambda x: x[..., ::2, :]),
    ][int(rng.integers(4))]
    return values(rng, kind, *stored) / stored[-1] ** 0.5, seen


def link(rng, shape):
    """One elementwise op: (what it reads, the function)."""
    *_, m, n = shape
    full = eager.tensor(rng.standard_normal(shape).astype(np.float32))
    row, column = (
        full[..., :1, :].reshape(-1, n)[0].clone(),
        full.reshape(-1, m, n)[0][:, :1].clone(),
    )
    mask = full > 0.3
    return [
        ((row,), lambda y, b: y + b.to(y.dtype)),
        ((column,), lambda y, b: y * b.to(y.dtype)),
        ((full,), lambda y, b: y + b),
        ((full,), lambda y, b: y * b.to(y.dtype)),
        ((mask,), lambda y, b: eager.where(b, y, -y)),
        ((), F.relu),
        ((), eager.tanh),
        ((), lambda y: F.gelu(y)),
        ((), lambda y: y * 0.5 + 1),
        ((), lambda y: y.to(eager.bfloat16)),
        ((), lambda y: y.to(eager.float16)),
        ((), lambda y: y.float()),
        ((), lambda y: y.to(eager.float64)),
    ][int(rng.integers(13))]


def product(rng):
    """(operands, function, whether 16 bits are in it, text): a product, a chain of ops, and who else
    reads it."""
    kind = KINDS[int(rng.choice(4, p=(0.5, 0.1, 0.25, 0.15)))]
    batch = tuple(map(int, rng.integers(1, 4, rng.integers(1, 3)))) if rng.random() < 0.3 else ()
    while True:
        m, n, k = size(rng), size(rng), size(rng) if rng.random() < 0.9 else 1500
        if m * n * k * np.prod(batch, dtype=int) <= MOST:
            break
    (a, see_a), (b, see_b) = operand(rng, kind, batch, m, k), operand(rng, kind, batch, k, n)
    chain = [link(rng, (*batch, m, n)) for _ in range(rng.integers(1, 6))]
    more = int(rng.integers(5))

    narrow = [kind.itemsize == 2]

    def fn(a, b, *others):
        y = z = see_a(a) @ see_b(b)
        given = iter(others)
        for reads, step in chain:
            z = step(z, *(next(given) for _ in reads))
            narrow[0] |= z.dtype.itemsize == 2
        z = z.transpose(-1, -2).contiguous() if more == 4 else z
        return (z,) if more > 1 else (z, y) if more else (z, y.float().sum(-1))

    return (
        (a, b, *(x for reads, _ in chain for x in reads)),
        fn,
        narrow,
        f"{batch} {m, n, k} {more}",
    )


def run(cases, seed, teams=(1, 2, 3, 7)):
    """How many products had their epilogue; an assertion names the first that is wrong."""
    rng, joined, before = np.random.default_rng(seed), 0, support.api().threads
    for _ in range(cases // TOGETHER):
        made = [product(rng) for _ in range(TOGETHER)]
        args = [np.asarray(x.numpy()) for own, *_ in made for x in own]

        def fn(*given, made=made):
            rest = iter(given)
            return [out for own, f, *_ in made for out in f(*(next(rest) for _ in own))]

        labels = [(text, narrow[0]) for own, f, narrow, text in made for _ in f(*own)]
        program, inputs = trace(fn, *args)
        items = codegen.run_stages(program, "cpp", "products")[0]["products"].items
        joined += sum(isinstance(x, Library) and x.epilogue is not None for x in items)
        artifact, want = codegen.compile(program, Target("cpp")), run_eager(fn, args)
        got = []
        for team in teams:
            support.api().threads = team
            got.append([np.array(x) for x in artifact.run(inputs)])
        support.api().threads = before
        for i, ((text, narrow), expected) in enumerate(zip(labels, want, strict=True)):
            assert len({each[i].tobytes() for each in got}) == 1, f"{text}: differs by team"
            x, y = got[0][i].astype(np.float64), expected.astype(np.float64)
            assert got[0][i].dtype == expected.dtype, text
            loose = 2**-6 if narrow else 1e-4  # a sum in another order may round the other way
            close = np.abs(x - y) <= loose * (1 + np.abs(y))
            assert (close | (np.isnan(x) & np.isnan(y))).all(), f"{text}: {np.abs(x - y).max()}"
    return joined


def test_random_epilogues(monkeypatch):
    for name, value in {"LEAST_BYTES": 0, "SHORT": 1, "MOST_MATRICES": 9}.items():
        monkeypatch.setattr(epilogue, name, value)
    try:
        assert run(24, 0) > 8
    except build.NoCompiler as error:
        pytest.skip(str(error))


def test_casts_of_the_program_round_on_tiles_too():
    def fn(x, w, b):
        y = (x @ w).to(eager.bfloat16).float()
        return y, F.relu(y + b).to(eager.float16).float() * 3

    args = floats(300, 40), floats(40, 320, seed=1), floats(320, seed=2)
    artifact, inputs = compiled(fn, args)
    assert "on the tiles" in artifact.stages["products"]
    y, z = artifact.run(inputs)
    assert not (y.view(np.uint32) & 0xFFFF).any()
    np.testing.assert_array_equal(z, np.maximum(y + args[2], 0).astype(np.float16) * np.float32(3))


def test_a_matrix_that_the_epilogue_would_read_keeps_it_behind_the_product():
    args = floats(300, 40), floats(40, 320, seed=1), floats(300, 320, seed=2)
    artifact, _ = compiled(lambda x, w, r: x @ w + r, args)
    assert "slower by blocks" in artifact.stages["products"]
