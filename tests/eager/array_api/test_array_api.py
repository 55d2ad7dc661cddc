"""The array API standard: each function against NumPy's, which follows it."""

import inspect
import os
import subprocess
import sys

import numpy as np
import pytest

import eager
from jitcap import jit

pytestmark = pytest.mark.once

XP = eager.ones(1).__array_namespace__()
RNG = np.random.default_rng(0)
A = RNG.normal(size=(3, 4)).astype("float32")
B = RNG.normal(size=(3, 4)).astype("float32")
I = RNG.integers(-3, 4, (3, 4))
T = I > 0
C = (A + 1j * B).astype("complex64")
V = RNG.normal(size=5)
S = A @ A.T + 3 * np.eye(3, dtype="float32")
Z = np.zeros((2, 0), "float32")
P = RNG.integers(0, 3, 7).astype("int64")

# name -> calls: arguments, keywords
CALLS = {
    **{n: [((A,), {}), ((A[:, ::2],), {})] for n in (
        "abs ceil cos cosh exp expm1 floor isfinite isinf isnan logical_not negative "
        "positive reciprocal round sign signbit sin sinh square tan tanh trunc atan asinh"
    ).split()},
    **{n: [((np.abs(A) + 1,), {})] for n in "acosh log log10 log1p log2 sqrt".split()},
    **{n: [((A / 9,), {})] for n in "acos asin atanh".split()},
    **{n: [((A, B), {}), ((I, I.T[:, :3].T[:3]), {}), ((A, B[0]), {})] for n in (
        "add equal greater greater_equal less less_equal maximum minimum multiply not_equal "
        "subtract"
    ).split()},
    **{n: [((A, B), {})] for n in (
        "atan2 copysign divide floor_divide hypot logaddexp remainder logical_and logical_or logical_xor"
    ).split()},
    **{n: [((I, I + 1), {}), ((T, ~T), {})] for n in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    **{n: [((np.abs(I), np.abs(I)), {})] for n in ("bitwise_left_shift", "bitwise_right_shift")},
    "bitwise_invert": [((I,), {}), ((T,), {})],
    "pow": [((np.abs(A), B), {})],
    "real": [((C,), {})], "imag": [((C,), {})], "conj": [((C,), {})],
    "where": [((T, A, B), {})],
    "clip": [((A, -0.5, 0.5), {}), ((I, 0, None), {}), ((A, None, B), {})],
    "astype": [((A, "int64"), {}), ((I, "float64"), {"copy": False})],
    "arange": [((5,), {}), ((1, 7, 2), {}), ((3, 1), {}), ((0.0, 1.0, 0.25), {}), ((5, 1, -2), {})],
    "linspace": [((0.0, 1.0, 5), {}), ((0.0, 1.0, 5), {"endpoint": False}), ((0, 1j, 3), {})],
    "eye": [((3,), {}), ((3, 4), {"k": 1}), ((4, 2), {"k": -1, "dtype": "int64"})],
    "zeros": [((3,), {}), (((2, 3),), {"dtype": "int32"})], "ones": [(((2,),), {})],
    "full": [((2, 7), {}), (((2, 1), 1.5), {}), ((2, True), {})],
    "zeros_like": [((A,), {})], "ones_like": [((I,), {"dtype": "float32"})], "full_like": [((A, 2), {})],
    "empty": [], "empty_like": [], "from_dlpack": [], "asarray": [],
    "meshgrid": [((V, V[:2]), {}), ((V, V[:2]), {"indexing": "ij"}), ((V,), {})],
    "tril": [((A,), {}), ((A,), {"k": 1})], "triu": [((A,), {"k": -1})],
    **{n: [((x,), kw) for x in (A, I) for kw in (
        {}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"axis": (0, 1)}, {"keepdims": True}
    )] for n in ("sum", "prod", "max", "min", "any", "all", "count_nonzero")},
    **{n: [((A,), kw) for kw in ({}, {"axis": 1}, {"axis": (0, 1), "keepdims": True})] for n in ("mean",)},
    **{n: [((A,), kw) for kw in (
        {}, {"axis": 1}, {"correction": 1.0}, {"axis": 0, "keepdims": True, "correction": 0.5}
    )] for n in ("var", "std")},
    **{n: [((A,), kw) for kw in ({}, {"axis": 0}, {"axis": 1, "keepdims": True})] for n in ("argmax", "argmin")},
    **{n: [((V,), {}), ((I,), {"axis": 1}), ((A,), {"axis": 0, "include_initial": True})]
       for n in ("cumulative_sum", "cumulative_prod")},
    "diff": [((A,), {}), ((A,), {"axis": 0, "n": 2}), ((V,), {"prepend": V[:1], "append": V[:2]})],
    "vecdot": [((A, B), {}), ((A, B), {"axis": 0}), ((C, C), {})],
    "tensordot": [((A, B.T), {"axes": 1}), ((A, B), {"axes": ((0, 1), (0, 1))})],
    "matmul": [((A, B.T), {}), ((V, V), {})], "matrix_transpose": [((A,), {})],
    "sort": [((A,), {}), ((A,), {"axis": 0})], "argsort": [((A,), {}), ((P,), {"stable": True})],
    "searchsorted": [((np.sort(V), V + 0.1), {}), ((np.sort(V), V), {"side": "right"})],
    "nonzero": [((I,), {}), ((T,), {})],
    **{n: [((P,), {}), ((I,), {})] for n in ("unique_all", "unique_counts", "unique_inverse", "unique_values")},
    "isin": [((P, P[:2]), {}), ((I, P), {"invert": True})],
    "take": [((A, P[:3] - 1), {"axis": 0}), ((V, P), {})],
    "take_along_axis": [((A, np.argsort(A, 1)), {}), ((A, np.argsort(A, 0)[:2]), {"axis": 0})],
    "concat": [(([A, B],), {}), (([I, P[:3, None]],), {"axis": 1}), (([A, V[:3].astype("float32")],), {"axis": None})],
    "stack": [(([A, B],), {}), (([A, B],), {"axis": -1})], "unstack": [((A,), {"axis": 1})],
    "reshape": [((A, (4, 3)), {}), ((A.T, (2, -1)), {"copy": True})],
    "squeeze": [((A[:, None], 1), {}), ((A[None, :, None], (0, 2)), {})],
    "expand_dims": [((A,), {"axis": 1}), ((A,), {"axis": -1})],
    "permute_dims": [((A[None], (2, 0, 1)), {})], "moveaxis": [((A[None], 0, -1), {})],
    "flip": [((A,), {}), ((A,), {"axis": 1})],
    "roll": [((A, 1), {}), ((A, 2), {"axis": 1}), ((A, (1, -1)), {"axis": (0, 1)}), ((A, 1), {"axis": (0, 1)})],
    "repeat": [((V, 2), {}), ((A, 2), {"axis": 0})], "tile": [((A, (2, 1)), {}), ((V, (2, 2)), {})],
    "broadcast_to": [((V, (2, 5)), {})], "broadcast_arrays": [((A, A[0], A[:, :1]), {})],
    "can_cast": [], "isdtype": [], "result_type": [], "finfo": [], "iinfo": [],
    "linalg.cholesky": [((S,), {}), ((S,), {"upper": True})], "linalg.inv": [((S,), {})],
    "linalg.cross": [((A[:, :3], B[:, :3]), {}), ((A[:, :3], B[:, :3]), {"axis": 0})],
    "linalg.det": [((S,), {})], "linalg.diagonal": [((A,), {}), ((A,), {"offset": 1})],
    "linalg.eigvalsh": [((S,), {})], "linalg.matmul": [((A, B.T), {})],
    "linalg.matrix_norm": [((A,), {}), ((A,), {"ord": 1, "keepdims": True})],
    "linalg.matrix_power": [((S, 3), {})], "linalg.matrix_rank": [((S,), {}), ((A[:1].T @ A[:1],), {})],
    "linalg.matrix_transpose": [((A,), {})], "linalg.outer": [((V, V), {})],
    "linalg.pinv": [((A,), {})], "linalg.slogdet": [((S,), {})],
    "linalg.solve": [((S, A), {}), ((S, A[:, 0]), {})], "linalg.svdvals": [((A,), {})],
    "linalg.trace": [((A,), {}), ((I,), {"offset": 1})], "linalg.vecdot": [((A, B), {})],
    "linalg.tensordot": [((A, B.T), {"axes": 1})],
    "linalg.vector_norm": [((A,), {}), ((A,), {"axis": 1, "ord": 1}), ((A,), {"axis": 0, "keepdims": True})],
    "linalg.eigh": [], "linalg.qr": [], "linalg.svd": [],
    **{f"fft.{n}": [((C,), {}), ((C,), {"axis": 0, "n": 5, "norm": "ortho"})] for n in ("fft", "ifft", "hfft", "irfft")},
    **{f"fft.{n}": [((A,), {}), ((A,), {"axis": 0})] for n in ("rfft", "ihfft")},
    **{f"fft.{n}": [((C,), {}), ((C,), {"axes": (0,)})] for n in ("fftn", "ifftn", "irfftn")},
    "fft.rfftn": [((A,), {})], "fft.fftfreq": [((5,), {"d": 0.5})], "fft.rfftfreq": [((6,), {})],
    "fft.fftshift": [((A,), {}), ((A,), {"axes": 1})], "fft.ifftshift": [((A,), {})],
}  # fmt: skip


def found(space, name):
    for part in name.split("."):
        space = getattr(space, part)
    return space


def to_eager(value):
    if isinstance(value, np.ndarray):
        return eager.from_numpy(value.copy())
    if isinstance(value, str) and hasattr(XP, value):
        return getattr(XP, value)
    return [to_eager(v) for v in value] if isinstance(value, list) else value


def to_numpy(value):
    return getattr(np, value) if isinstance(value, str) and value[-1].isdigit() else value


def same(got, expected):
    if isinstance(expected, tuple | list):
        assert len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            same(a, b)
        return
    expected = np.asarray(expected)
    assert got.shape == expected.shape
    assert str(got.dtype).removeprefix("eager.") == str(expected.dtype)
    np.testing.assert_allclose(got.numpy(), expected, rtol=2e-4, atol=2e-5)


@pytest.fixture(autouse=True)
def double_precision():
    """NumPy's default dtype."""
    eager.set_default_dtype(eager.float64)
    yield
    eager.set_default_dtype(eager.float32)


@pytest.mark.parametrize("name", CALLS)
def test_like_numpy(name):
    for args, kwargs in CALLS[name]:
        numpy_args = [to_numpy(a) for a in args]
        expected = found(np, name)(*numpy_args, **{k: to_numpy(v) for k, v in kwargs.items()})
        if name == "unique_values":  # in any order
            expected = np.sort(expected)
        given = [to_eager(a) for a in args], {k: to_eager(v) for k, v in kwargs.items()}
        same(found(XP, name)(*given[0], **given[1]), expected)


def test_nothing_else_and_nothing_less():
    """The names of the standard, which NumPy has too."""
    names = (
        {n for n in XP.__all__} if hasattr(XP, "__all__") else {n for n in dir(XP) if n[0] != "_"}
    )
    ours = {n for n in CALLS if "." not in n}
    constants = {
        "e",
        "pi",
        "inf",
        "nan",
        "newaxis",
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
    }
    constants |= {"float32", "float64", "complex64", "complex128", "linalg", "fft"}
    public = {n for n in names if not inspect.ismodule(getattr(XP, n)) or n in constants}
    assert ours | constants <= public
    assert all(hasattr(np, n) for n in ours)


def test_decompositions():
    x = eager.from_numpy(S)
    q, r = XP.linalg.qr(x)
    same(q @ r, S)
    u, s, v = XP.linalg.svd(x, full_matrices=False)
    same(u * s @ v, S)
    values, vectors = XP.linalg.eigh(x)
    same(vectors * values @ vectors.T, S)


def test_dtypes():
    info = XP.__array_namespace_info__()
    assert info.dtypes(kind="integral").keys() == {"int8", "int16", "int32", "int64", "uint8"}
    assert XP.isdtype(XP.float32, ("real floating", "bool"))
    assert not XP.isdtype(XP.int8, "unsigned integer")
    with pytest.raises(ValueError, match="no kind of dtype"):
        XP.isdtype(XP.int8, "whole")
    assert XP.result_type(XP.int8, XP.uint8) is XP.int16
    assert XP.result_type(XP.float32, 1.5) is XP.float32
    assert XP.result_type(eager.ones(2, dtype=eager.float32), 2) is XP.float32
    assert XP.can_cast(XP.int8, XP.int32)
    assert not XP.can_cast(XP.float32, XP.int32)
    with pytest.raises(TypeError, match="take real"):
        XP.astype(eager.from_numpy(C), XP.float32)
    assert (XP.finfo(XP.float32).bits, XP.iinfo(XP.int8).max) == (32, 127)


def test_errors():
    x = eager.from_numpy(A)
    with pytest.raises(ValueError, match="array API '2030"):
        x.__array_namespace__(api_version="2030.12")
    with pytest.raises(IndexError, match="axis 5"):
        XP.sum(x, axis=5)
    with pytest.raises(ValueError, match="not squeezed"):
        XP.squeeze(x, 0)
    with pytest.raises(ValueError, match="needs a copy"):
        XP.reshape(x.T, (12,), copy=False)
    with pytest.raises(ValueError, match="an axis is needed"):
        XP.cumulative_sum(x)


def test_under_jit():
    def step(x):
        xp = x.__array_namespace__()
        y = xp.concat([x, xp.flip(x, axis=0)], axis=1)
        z = (y - xp.mean(y, axis=0, keepdims=True)) / xp.std(y, axis=0, keepdims=True)
        return xp.sort(z, axis=1), xp.take(z, xp.asarray([1, 0]), axis=1), xp.linalg.vector_norm(z)

    jitted = jit(step)
    for got, expected in zip(jitted(eager.from_numpy(A)), step(eager.from_numpy(A)), strict=True):
        same(got, expected.numpy())
    assert (jitted.stats.graphs, jitted.stats.splits) == (1, 0)


def test_dlpack_and_devices():
    x = eager.from_numpy(A)
    shared, own = XP.from_dlpack(A), XP.from_dlpack(x, copy=True)
    assert shared.data_ptr() == A.ctypes.data
    assert own.data_ptr() != x.data_ptr()
    assert x.to_device("cpu") is x
    for refused in (lambda: XP.eye(2, device="cuda"), lambda: XP.linspace(0, 1j, 3, device="cuda")):
        with pytest.raises(RuntimeError, match="cuda"):
            refused()


SCIKIT_LEARN = """
import numpy as np, sklearn, eager
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

def weights(x):
    return Ridge(solver="svd").fit(StandardScaler().fit_transform(x), x[:, 0]).coef_

x = np.random.default_rng(0).normal(size=(20, 5))
with sklearn.config_context(array_api_dispatch=True):
    got = weights(eager.from_numpy(x))
assert isinstance(got, eager.Tensor)
np.testing.assert_allclose(got.numpy(), weights(x), atol=1e-12)
"""


def test_scikit_learn_computes_with_it():
    pytest.importorskip("sklearn")
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}  # SciPy reads it when it is imported
    subprocess.run([sys.executable, "-c", SCIKIT_LEARN], env=environment, check=True)
