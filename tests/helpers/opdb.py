"""PyTorch's op database as a test of ours: (op, dtype) -> what came of each sample of the op.

The database is `torch.testing._internal.common_methods_invocations.op_db`. A case is one sample of
one op in one dtype, its values (shapes, dtypes) and its gradients. `scripts/opdb` runs the whole,
`tests/eager/ops/test_opdb.py` a seeded slice.
"""

import functools
import importlib
import itertools
import random
import re
import sys
import types
import unittest
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import eager

torch: Any = None
DTYPES = ("float32", "float64")
TOLERANCE = {  # relative, absolute, of the largest element: different orders of summation
    "float32": (3e-5, 1e-5, 3e-6),
    "float64": (1e-8, 1e-10, 1e-10),
    "complex64": (3e-5, 1e-5, 3e-6),
    "complex128": (1e-8, 1e-10, 1e-10),
    "float16": (2e-3, 2e-3, 1e-3),
    "bfloat16": (1.6e-2, 1.6e-2, 8e-3),
}
LOOSER = {
    "nn_functional_layer_norm": 10,  # of one element: rounding, by 1 / sqrt(eps)
    "native_layer_norm": 20,
    "logcumsumexp": 60,  # torch's gradient of float32 is off by 2e-3: ours is nearer to float64's
    "nn_functional_hardsigmoid": 10,  # torch divides float64 by 6 in float32
    "nn_functional_scaled_dot_product_attention": 5,
    "linalg_eigh": 10,  # close eigenvalues divide
    "linalg_householder_product": 20,  # torch's gradient of complex64 is off by 3e-5, ours by 2e-7
    **{f"special_bessel_{name}": 1000 for name in ("j0", "j1", "y0", "y1")},  # torch: 1e-6 off
    "nn_functional_ctc_loss": 5,  # torch sums float32 logarithms of many steps: ours is nearer
    # Both round products to 16 bits before they sum them, or take the exponential.
    "ldexp float16": 5,
    "ldexp bfloat16": 5,
    "nn_functional_linear_cross_entropy bfloat16": 2,
    "nn_functional_linear_cross_entropy_chunked_none bfloat16": 2,
    "nn_functional_scaled_dot_product_attention float16": 10,  # torch's scores are in float32
    "nn_functional_scaled_dot_product_attention bfloat16": 10,
}
# Gradients that torch has wrong, and why; of an op, or of an op in a dtype.
NO_GRADIENT = {
    "as_strided_scatter": "torch gives what was overwritten the gradient of what was written",
    **dict.fromkeys(
        ("istft complex64", "istft complex128"),
        "torch loses a window that the database made; a copy of it has our gradient",
    ),
    "logsumexp complex64": "torch's is off by 2 %: in complex128 it gives what we do",
    "renorm complex64": "torch gives NaN to the infinite norm; in complex128 it gives what we do",
}
# Torch rounds 16-bit floats between the steps of an op, in its own order: ours may also be what
# torch makes of the same numbers in float32.
WIDER = {"float16": "float32", "bfloat16": "float32"}
# What we do not have, and why: the names of `Absent`.
WHY_ABSENT = {
    "internal: torch.ops, jiterator": "functions of torch's own inside, and CUDA text of users",
    **dict.fromkeys(
        "ops.aten _chunk_cat _native_batch_norm_legit _unsafe_masked_index "
        "_unsafe_masked_index_put_accumulate torch._scaled_mm torch._scaled_mm_v2".split(),
        "functions of torch's own inside",
    ),
    **dict.fromkeys(
        ("sparse.sampled_addmm", "sparse and other layouts"),
        "gradients of sparse leaves, blocks",
    ),
    **dict.fromkeys(
        ("linalg.ldl_factor", "linalg.ldl_factor_ex", "linalg.ldl_solve"),
        "LAPACK's sytrf, which NumPy does not hand on",
    ),
    "Tensor.chalf": "there are no complex numbers of 16-bit floats",
    "dtype complex32": "there are no complex numbers of 16-bit floats",
    "Tensor.__rdiv__": "an operator of Python 2",
    "hash_tensor": "a checksum of torch's, to compare with torch's",
    "special.airy_ai": "Bessel functions of order 1/3",
    "more than 64 dimensions: NumPy's limit": "NumPy's limit",
}
# Draws are compared by shape and dtype: our stream of random numbers is another.
RANDOM = re.compile(
    r"bernoulli|cauchy|dropout|exponential|geometric|log_normal|multinomial|normal(?!ize)(?!_)|rand"
    r"|uniform|rrelu|fractional_max_pool|lowrank|^normal|poisson$|binomial"
)
NEVER_FILLED = re.compile(r"(^|_)empty|^resize_")
# Of equal elements, another may be the one that is named, and that has the gradient.
TIES = re.compile(r"^(arg|m)?sort$|^topk$|^kthvalue$|^mode$")
# Decompositions are unique up to signs, phases or order: compared as the database asks.
GAUGE = re.compile(r"svd|eig|qr|lstsq|householder|lu_factor|lobpcg|pinv|lowrank|linalg_lu$")


@dataclass
class Outcome:
    """What came of one op in one dtype, by the index of its samples."""

    right: list[int] = field(default_factory=list)
    wrong: list[tuple[int, str, str]] = field(default_factory=list)  # (sample, cause, text)
    absent: list[int] = field(default_factory=list)
    name: str = ""  # what is absent


class Absent(Exception):
    """A name of torch that we do not have."""


class Wrong(Exception):
    """A difference: its cause in a word, and text."""

    def __init__(self, cause: str, text: str) -> None:
        super().__init__(cause, text)


# ----------------------------------------------------------------------- the database's ops
@functools.cache
def database() -> list[Any]:
    """All ops of the database, in its order. Its test framework is not installed and not needed."""
    global torch
    if "expecttest" not in sys.modules and importlib.util.find_spec("expecttest") is None:
        stand_in: Any = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase
        sys.modules["expecttest"] = stand_in
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch = importlib.import_module("torch")
        for devices in (torch.cuda, torch.xpu, torch.mtia):  # a seed is set for each sample, with
            devices.manual_seed_all = lambda seed: None  # the text of the stack, for devices to come
        internal = "torch.testing._internal."
        found = importlib.import_module(f"{internal}common_methods_invocations").op_db
        for name in "common_utils", "opinfo.core":  # they look for a test of unittest on the stack
            importlib.import_module(internal + name).extract_test_fn = lambda: None  # in 0.2 s
        return list(found)


def find(root: Any, path: str) -> Any:
    for part in path.split("."):
        root = getattr(root, part)
    return root


def ours(op: Any) -> Any:
    """Our function for an op: the one of the same name, or the database's lambda over `eager`."""
    fn = op.op
    if type(fn).__module__ == "torch._ops" or op.name.startswith("jiterator"):
        raise Absent("internal: torch.ops, jiterator")
    paths = (op.name.removeprefix("_"), op.name, f"Tensor.{op.name}")
    path = next((p for p in paths if _reference(p) is fn), None)
    if path is None:
        return _over_eager(fn)
    try:
        return find(eager, path)
    except AttributeError:
        raise Absent(path) from None


def _reference(path: str) -> Any:
    try:
        return find(torch, path)
    except AttributeError:
        return None


def _over_eager(value: Any) -> Any:
    """A function of the database with `eager` for its `torch`."""
    if value is torch:
        return eager
    if isinstance(value, types.ModuleType) and value.__name__.startswith("torch."):
        return _ours_or_itself(value, value.__name__)
    if isinstance(value, functools.partial):
        return functools.partial(_over_eager(value.func), *value.args, **value.keywords)
    if not isinstance(value, types.FunctionType):
        return value
    if value.__name__ == "wrapper_set_seed":
        return _called
    if not value.__module__.startswith("torch.testing"):
        return _ours_or_itself(value, f"{value.__module__}.{value.__name__}")
    names = {name for code in _codes(value.__code__) for name in code.co_names}
    world = {n: _over_eager(v) for n, v in value.__globals__.items() if n in names}
    cells = tuple(types.CellType(_over_eager(c.cell_contents)) for c in value.__closure__ or ())
    world["__builtins__"] = value.__globals__["__builtins__"]
    copy = types.FunctionType(value.__code__, world, value.__name__, value.__defaults__, cells)
    copy.__kwdefaults__ = value.__kwdefaults__
    return copy


def _called(fn: Any, *args: Any, **kwargs: Any) -> Any:
    return fn(*args, **kwargs)


def _ours_or_itself(value: Any, path: str) -> Any:
    try:
        return find(eager, path.removeprefix("torch."))
    except AttributeError:
        return value


def _codes(code: types.CodeType) -> list[types.CodeType]:
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return [code, *(each for c in inner for each in _codes(c))]


# -------------------------------------------------------------------- values there and back
def our_tensor(t: Any, memories: dict[int, Any]) -> Any:
    """A tensor of torch as ours: the same strides, in memory that it shares as in torch."""
    if t.layout in (torch.sparse_coo, torch.sparse_csr) and not t.requires_grad:
        whole = t.detach().to_sparse_coo()
        parts = (our_tensor(part, memories) for part in (whole._indices(), whole._values()))
        made = eager.sparse_coo_tensor(*parts, tuple(t.shape))
        return made if t.layout is torch.sparse_coo else made.to_sparse_csr()
    if t.layout is not torch.strided or t.device.type != "cpu":
        raise Absent("sparse and other layouts")
    if not hasattr(eager, _name(t.dtype)):
        raise Absent(f"dtype {_name(t.dtype)}")
    if t.ndim > 64:
        raise Absent("more than 64 dimensions: NumPy's limit")
    plain = t.detach().resolve_conj().resolve_neg()
    storage = plain.untyped_storage()
    if storage.data_ptr() not in memories:
        memories[storage.data_ptr()] = storage.clone()
    memory = torch.empty(0, dtype=t.dtype).set_(memories[storage.data_ptr()])
    if t.dtype is torch.bfloat16:
        whole = memory.view(torch.int16).numpy().view(eager.bfloat16.np)
    else:
        whole = memory.numpy()
    steps = [step * whole.itemsize for step in plain.stride()]
    part = whole[plain.storage_offset() :]
    array = np.lib.stride_tricks.as_strided(part, tuple(plain.shape), steps)
    return eager.from_numpy(array).requires_grad_(t.requires_grad)


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


_MEMORIES = -1  # a key of `known`, of tensors by their id, for the memories of them


def converted(value: Any, known: dict[int, Any]) -> Any:
    """An argument of a sample, with our tensors, dtypes and so on for torch's."""
    if isinstance(value, torch.Tensor):
        if id(value) not in known:
            known[id(value)] = our_tensor(value, known.setdefault(_MEMORIES, {}))
        return known[id(value)]
    if isinstance(value, torch.dtype):
        if not hasattr(eager, _name(value)):
            raise Absent(f"dtype {_name(value)}")
        return getattr(eager, _name(value))
    if isinstance(value, torch.device):
        return eager.device(str(value))
    if isinstance(value, torch.Size):
        return eager.Size(value)
    if isinstance(value, torch.layout | torch.memory_format):
        name = str(value).removeprefix("torch.")
        if not hasattr(eager, name):
            raise Absent("sparse and other layouts")
        return getattr(eager, name)
    if isinstance(value, torch.nn.Module):
        return find(eager, type(value).__module__.split(".")[1]).__dict__[type(value).__name__]()
    if isinstance(value, types.FunctionType | types.BuiltinFunctionType):
        return _over_eager(value)
    if isinstance(value, torch.Generator):
        return eager.Generator().manual_seed(value.initial_seed())
    if isinstance(value, dict):
        return {k: converted(v, known) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(converted(v, known) for v in value))
    if isinstance(value, list | tuple):
        return type(value)(converted(v, known) for v in value)
    return value


def flat(value: Any) -> list[Any]:
    """The leaves of a result, in order."""
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size | eager.Size):
        return [leaf for part in value for leaf in flat(part)]
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in flat(part)]
    if isinstance(value, torch.Tensor | eager.sparse.SparseTensor) and "sparse" in str(
        value.layout
    ):
        return [value.to_dense()]
    return [value]


def numpy_of(value: Any) -> np.ndarray:
    if isinstance(value, torch.Tensor):
        value = value.detach().resolve_conj().resolve_neg()
        if value.layout is not torch.strided:
            raise Absent("sparse and other layouts")
        return (value.float() if value.dtype is torch.bfloat16 else value).numpy(force=True)
    if isinstance(value, eager.Tensor):
        value = value.detach().resolve_conj() if hasattr(value, "resolve_conj") else value.detach()
        return (value.float() if value.dtype is eager.bfloat16 else value).numpy()
    return np.asarray(value)


# ---------------------------------------------------------------------------- one sample
def gradient(module: Any, outs: list[Any], leaves: list[Any], weights: list[np.ndarray]) -> list:
    """The gradients of a random projection of `outs`, 0 for a leaf that none depends on."""
    make = torch.from_numpy if module is torch else eager.from_numpy
    given = [make(w).to(o.dtype) for o, w in zip(outs, weights, strict=True)]
    found = module.autograd.grad(outs, leaves, given, allow_unused=True)
    return [module.zeros_like(x) if g is None else g for x, g in zip(leaves, found, strict=True)]


def differentiable(value: Any) -> bool:
    return isinstance(value, torch.Tensor | eager.Tensor) and value.requires_grad


def projections(outs: list[Any]) -> list[np.ndarray]:
    draw = np.random.default_rng(7)
    return [draw.uniform(0.5, 1.5, tuple(o.shape)) for o in outs]


@dataclass
class Call:
    """A sample of an op: our arguments, and torch's results and gradients to compare with."""

    op: Any
    index: int
    fn: Any
    args: tuple
    kwargs: dict
    leaves: list[Any]
    result: list[Any]
    processed: list[Any]
    gradients: list[Any] | None
    process: Any
    dtype: str
    wider: Any = None  # makes the same call in the wider dtype, if there is one

    def weights(self) -> list[np.ndarray]:
        return projections([o for o in self.processed if differentiable(o)])


def call_of(op: Any, index: int, sample: Any, fn: Any, dtype: str) -> Call:
    """A sample with what torch makes of it. Ours are copied first: torch may write into it."""
    known: dict[int, Any] = {}
    given = (sample.input, sample.args, sample.kwargs)
    mine = converted(given, known)
    wide = _cast(given, dtype, WIDER[dtype], {}) if dtype in WIDER else None
    process = sample.output_process_fn_grad
    theirs = functools.partial(_by_torch, op, dtype, process)
    tensors, result, processed, gradients = theirs(given)
    for leaf in filter(torch.is_tensor, flat(result)):
        if not hasattr(eager, _name(leaf.dtype)):
            raise Absent(f"dtype {_name(leaf.dtype)}")
    leaves = [known[id(t)] for t in tensors]
    name = getattr(process, "__name__", "")
    process = None if "<lambda>" in name and _is_identity(process) else _over_eager(process)
    return Call(
        op, index, fn, (mine[0], *mine[1]), mine[2], leaves, flat(result), processed, gradients,
        process, dtype, wide and functools.cache(lambda: theirs(wide)[1:]),
    )  # fmt: skip


def _by_torch(op: Any, dtype: str, process: Any, given: Any) -> tuple[list, Any, list, list | None]:
    """The tensors that may have a gradient, the result, as it is compared, the gradients."""
    first, args, kwargs = given
    tensors = [t for t in flat(list(given)) if differentiable(t)]
    tensors = list({id(t): t for t in tensors}.values())
    torch.manual_seed(0)
    result = op.op(first, *args, **kwargs)
    processed = flat(process(result))
    outs = [o for o in processed if differentiable(o)]
    names = {op.formatted_name, f"{op.formatted_name} {dtype}"}
    if not outs or not tensors or names & NO_GRADIENT.keys():
        return tensors, result, processed, None
    return tensors, result, processed, gradient(torch, outs, tensors, projections(outs))


def _cast(value: Any, before: str, after: str, known: dict[int, Any]) -> Any:
    """A copy of an argument, with tensors (and the dtype) of one dtype in another."""
    kinds = getattr(torch, before), getattr(torch, after)
    if isinstance(value, torch.Tensor):
        if id(value) not in known:
            kind = kinds[1] if value.dtype is kinds[0] else value.dtype
            copy = value.detach().to(kind, copy=True)
            known[id(value)] = copy.requires_grad_(value.requires_grad)
        return known[id(value)]
    if value is kinds[0]:
        return kinds[1]
    if isinstance(value, dict):
        return {k: _cast(v, before, after, known) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_cast(v, before, after, known) for v in value))
    if type(value) in (list, tuple):
        return type(value)(_cast(v, before, after, known) for v in value)
    return value


def _is_identity(fn: Any) -> bool:
    marker = object()
    try:
        return fn(marker) is marker
    except Exception:
        return False


def run(call: Call) -> tuple[list[Any], list[Any] | None]:
    """Our results and gradients, eagerly."""
    eager.manual_seed(0)
    result = call.fn(*call.args, **call.kwargs)
    if call.gradients is None:
        return flat(result), None
    check(call, flat(result), None)
    outs = [o for o in flat(call.process(result) if call.process else result) if differentiable(o)]
    wanted = [o for o in call.processed if differentiable(o)]
    if len(outs) != len(wanted):
        raise Wrong("requires_grad", f"{len(outs)} differentiable results for {len(wanted)}")
    return flat(result), gradient(eager, outs, call.leaves, call.weights())


def check(call: Call, result: list[Any], gradients: list[Any] | None) -> None:
    """Raise `Wrong` for what is not as it is in torch."""
    name = call.op.formatted_name
    if len(result) != len(call.result):
        raise Wrong("structure", f"{len(result)} results for {len(call.result)}")
    loose = bool(GAUGE.search(name))
    drawn = RANDOM.search(name) or call.kwargs.get("dropout_p")
    if name == "nn_functional_multi_head_attention_forward":
        drawn = call.kwargs["training"] and call.args[10]  # dropout_p
    values = not drawn and not NEVER_FILLED.search(name)
    _check_all(call, "result", result, values=values and not loose)
    if loose and values:
        again = flat(call.process(_as_given(call, result)) if call.process else result)
        _check_all(call, "processed", again, values=True)
    if gradients is not None:
        _check_all(call, "gradients", gradients, values=values)


def _check_all(call: Call, part: str, found: list[Any], *, values: bool) -> None:
    """Each of our tensors against torch's, then against the one of the wider dtype, rounded."""
    what = "gradient" if part == "gradients" else "value"
    name = call.op.formatted_name
    looser = LOOSER.get(f"{name} {call.dtype}", LOOSER.get(name, 1))
    how = {"values": values, "looser": looser}
    for i, (mine, theirs) in enumerate(zip(found, getattr(call, part), strict=True)):
        try:
            compare(mine, theirs, what, **how)
        except Wrong as error:
            if error.args[0] == what and _tied(call, mine, theirs):
                continue
            if error.args[0] != what or call.wider is None:
                raise
            wide = call.wider()[("result", "processed", "gradients").index(part)]
            compare(mine, flat(wide)[i].to(theirs.dtype), what, **how)


def _tied(call: Call, mine: Any, theirs: Any) -> bool:
    """Whether indices name other elements of the same value, or a gradient goes to such."""
    if not TIES.search(call.op.formatted_name) or call.kwargs.get("stable"):
        return False
    x, a, b = numpy_of(call.args[0]), numpy_of(mine), numpy_of(theirs)
    if a.dtype == np.int64:
        return any(_name_the_same(x, a, b, dim) for dim in range(x.ndim))
    same_shape = a.shape == x.shape
    return same_shape and any(_share_alike(x, a, b, dim, call.dtype) for dim in range(x.ndim))


def _name_the_same(x: np.ndarray, a: np.ndarray, b: np.ndarray, dim: int) -> bool:
    a, b = (i if i.ndim == x.ndim else np.expand_dims(i, dim) for i in (a, b))
    others = [i for i in range(x.ndim) if i != dim]
    if any(a.shape[i] != x.shape[i] for i in others) or a.max(initial=0) >= x.shape[dim]:
        return False
    named = (np.take_along_axis(x, i, dim) for i in (a, b))
    places = np.sort(a, dim)
    return np.array_equal(*named, equal_nan=True) and bool((np.diff(places, axis=dim) > 0).all())


def _share_alike(x: np.ndarray, a: np.ndarray, b: np.ndarray, dim: int, dtype: str) -> bool:
    sorted_by_value = (np.take_along_axis(g, np.lexsort((g, x), dim), dim) for g in (a, b))
    return same(*sorted_by_value, dtype, cancels=True)


def _as_given(call: Call, result: list[Any]) -> Any:
    return result[0] if len(result) == 1 else tuple(result)


def compare(mine: Any, theirs: Any, what: str, *, values: bool = True, looser: float = 1.0) -> None:
    if isinstance(theirs, torch.Tensor) != isinstance(mine, eager.Tensor):
        raise Wrong("structure", f"{type(mine).__name__} for {type(theirs).__name__}")
    a, b = numpy_of(mine), numpy_of(theirs)
    if a.shape != b.shape:
        raise Wrong("shape" if what == "value" else what, f"shape {a.shape} for {b.shape}")
    if not isinstance(theirs, torch.Tensor):
        if type(theirs) in (bool, int, float, complex) and not same(a, b):
            raise Wrong("value", f"{mine!r} for {theirs!r}")
        return
    dtype = _name(theirs.dtype)
    if mine.dtype.name != dtype:
        raise Wrong("dtype", f"{mine.dtype.name} for {dtype}")
    if values and not same(a, b, dtype, looser, cancels=what == "gradient"):
        raise Wrong(what, difference(a, b))


def same(
    a: np.ndarray,
    b: np.ndarray,
    dtype: str = "float64",
    looser: float = 1.0,
    *,
    cancels: bool = False,
) -> bool:
    """Whether each element is within the dtype's tolerance; NaN is NaN. What `cancels` (a gradient
    that is a difference of larger numbers) is not small because its elements are."""
    if dtype not in TOLERANCE:
        return np.array_equal(a, b)
    if a.dtype.kind == "c":
        parts = (x.view(x.real.dtype) for x in (a.reshape(-1).copy(), b.reshape(-1).copy()))
        return same(*parts, dtype, looser, cancels=cancels)
    rtol, atol, of_largest = TOLERANCE[dtype]
    finite = np.abs(b[np.isfinite(b)]) if b.size else b
    largest = float(finite.max()) if finite.size else 0.0
    if not cancels:
        atol *= min(1.0, max(largest, 0.01))
    with np.errstate(all="ignore"):
        absolute = (atol + of_largest * largest) * looser
        return np.allclose(a, b, rtol * looser, absolute, equal_nan=True)


def difference(a: np.ndarray, b: np.ndarray) -> str:
    with np.errstate(all="ignore"):
        off = ~np.isclose(a, b, 1e-5, 1e-6, equal_nan=True)
        at = tuple(map(int, np.argwhere(off)[0])) if off.any() else ()
        worst = np.max(np.abs(a - b), initial=0.0, where=np.isfinite(a - b))
    if not off.any():
        return f"off by at most {worst:.3g}"
    return f"{int(off.sum())} of {a.size}, at {at}: {a[at]!r} for {b[at]!r}"


# -------------------------------------------------------------------------------- one op
def missing_name(error: AttributeError) -> str | None:
    """The name of torch's that an AttributeError says we lack."""
    text = str(error)
    match = re.search(r"module 'eager([\w.]*)' has no attribute '(\w+)'", text)
    if match:
        path = f"{match[1]}.{match[2]}".lstrip(".")
        return path if _reference(path) is not None else None
    match = re.search(r"'?Tensor'? object has no attribute '(\w+)'", text)
    return f"Tensor.{match[1]}" if match and hasattr(torch.Tensor, match[1]) else None


def samples(op: Any, dtype: str, most: int | None = None) -> list[Any]:
    """The op's first samples, the same in each run; with gradients where it has them in this dtype."""
    kind = getattr(torch, dtype)
    if kind not in op.supported_dtypes("cpu"):
        return []
    grad = op.supports_autograd and kind in op.supported_backward_dtypes("cpu")
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    return list(itertools.islice(op.sample_inputs("cpu", kind, requires_grad=grad), most))


def text_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def run_op(op: Any, dtype: str, most: int | None = None, runner: Any = run) -> Outcome:
    """Each sample of an op (the first `most`) against torch."""
    out = Outcome()
    given = samples(op, dtype, most)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fn = ours(op)
        except Absent as error:
            return Outcome(absent=list(range(len(given))), name=str(error))
        for index, sample in enumerate(given):
            run_sample(op, index, sample, fn, dtype, out, runner)
    return out


def run_sample(
    op: Any, index: int, sample: Any, fn: Any, dtype: str, out: Outcome, runner: Any
) -> None:
    try:
        call = call_of(op, index, sample, fn, dtype)
        check(call, *runner(call))
        out.right.append(index)
    except Absent as error:
        out.absent.append(index)
        out.name = str(error)
    except Wrong as error:
        out.wrong.append((index, *error.args))
    except Exception as error:
        name = missing_name(error) if isinstance(error, AttributeError) else None
        if name is not None:
            out.absent.append(index)
            out.name = name
        else:
            out.wrong.append((index, "refused", text_of(error)))
