"""How the codegen tests compare: one function over eager tensors, run eagerly and through each
backend."""

import numpy as np

import codegen
import eager
from codegen.ir.schema import Target
from tests.codegen.tracing import trace


def run_eager(fn, args):
    given = [eager.from_numpy(a.copy()) if isinstance(a, np.ndarray) else a for a in args]
    outs = fn(*given)
    outs = outs if isinstance(outs, tuple | list) else (outs,)
    return [np.asarray(o.numpy()) for o in outs]


def compiled(fn, args, backend="cpp"):
    """(Artifact, its inputs) of fn(*args)."""
    program, inputs = trace(fn, *args)
    return codegen.compile(program, Target(backend)), inputs


def check(fn, *args, backends=("cpp", "python"), rtol=2e-5, atol=2e-6):
    """Every backend gives what eager gives. Returns the C++ artifact."""
    expected = run_eager(fn, args)
    artifacts = {}
    for backend in backends:
        artifact, inputs = compiled(fn, args, backend)
        got = artifact.run(inputs)
        assert len(got) == len(expected)
        for i, (g, e) in enumerate(zip(got, expected, strict=True)):
            same(g, e, rtol, atol, f"{backend}, result {i}")
        artifacts[backend] = artifact
    return artifacts.get("cpp")


def check_each(calls, **how):
    """`check` of many calls (function, arguments) as one program: a compiler process for each would
    take minutes. A function stands for itself and its results for its place among them."""

    def run(*args):
        given = iter(args)
        outs = [fn(*(next(given) for _ in own)) for fn, own in calls]
        return [o for out in outs for o in (out if isinstance(out, tuple | list) else (out,))]

    return check(run, *(a for _, own in calls for a in own), **how)


def same(got, expected, rtol, atol, label=""):
    assert got.shape == expected.shape, label
    assert got.dtype == expected.dtype, label
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(got, expected, err_msg=label)
    else:
        wide = np.complex128 if expected.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(
            got.astype(wide), expected.astype(wide), rtol=rtol, atol=atol, err_msg=label
        )


def floats(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def ints(low, high, *shape, seed=0, dtype=np.int64):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)
