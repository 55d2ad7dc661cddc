"""The eager tensor library: what `import eager` gives. PyTorch's names over NumPy, one op
registry, one tape."""
# ruff: noqa: E402, F401 - nothing is collected while the rest is imported, and ops register
# themselves

from __future__ import annotations

from eager.base.process.uncollected import Uncollected as _Uncollected

_uncollected = _Uncollected()

import math
import sys as _sys
from builtins import bool as _bool
from builtins import int as _int
from typing import TYPE_CHECKING, Any

import eager.fft.short_time as _short_time
import eager.linalg.deprecated as _former
from eager import __config__ as __config__
from eager import _tensor_str as _tensor_str
from eager import _utils as _utils
from eager import accelerator as accelerator
from eager import amp as amp
from eager import autograd as autograd
from eager import backends as backends
from eager import compiler as compiler
from eager import cuda as cuda
from eager import fft as fft
from eager import func as func
from eager import jit as jit
from eager import linalg as linalg
from eager import masked as masked
from eager import nn as nn
from eager import optim as optim
from eager import profiler as profiler
from eager import random as random
from eager import serialization as serialization
from eager import signal as signal
from eager import sparse as sparse
from eager import special as special
from eager import testing as testing
from eager import torch_version as torch_version
from eager import utils as utils
from eager import version as version
from eager.amp import GradScaler as GradScaler
from eager.amp import autocast as autocast
from eager.autograd import anomaly as _anomaly
from eager.autograd import enable_grad as enable_grad
from eager.autograd import forward_ad as _forward_ad
from eager.autograd import function as _function
from eager.autograd import functional as _functional
from eager.autograd import graph as _graph
from eager.autograd import inference_mode as inference_mode
from eager.autograd import is_grad_enabled as is_grad_enabled
from eager.autograd import is_inference_mode_enabled as is_inference_mode_enabled
from eager.autograd import no_grad as no_grad
from eager.autograd import set_grad_enabled as set_grad_enabled
from eager.base import lazy_imports as _lazy_imports
from eager.base.compat_warnings import STRIDED as _STRIDED
from eager.base.compat_warnings import warn_once as _warn_once
from eager.base.compilation import compile as compile
from eager.base.dtype import WITHOUT_TENSORS as _WITHOUT_TENSORS
from eager.base.dtype import DType as DType
from eager.base.dtype import bfloat16 as bfloat16
from eager.base.dtype import bool_ as bool_
from eager.base.dtype import complex64 as complex64
from eager.base.dtype import complex128 as complex128
from eager.base.dtype import finfo as finfo
from eager.base.dtype import float16 as float16
from eager.base.dtype import float32 as float32
from eager.base.dtype import float64 as float64
from eager.base.dtype import get_default_dtype as get_default_dtype
from eager.base.dtype import iinfo as iinfo
from eager.base.dtype import int8 as int8
from eager.base.dtype import int16 as int16
from eager.base.dtype import int32 as int32
from eager.base.dtype import int64 as int64
from eager.base.dtype import promote_types as promote_types
from eager.base.dtype import set_default_dtype as set_default_dtype
from eager.base.dtype import uint8 as uint8
from eager.base.process.denormals import set_flush_denormal as set_flush_denormal
from eager.base.process.threads import get_num_threads as get_num_threads
from eager.base.process.threads import set_num_threads as set_num_threads
from eager.base.stub_modules import Absent as _Absent
from eager.base.stub_modules import aten as _aten
from eager.base.stub_modules import export as export
from eager.base.stub_modules import futures as futures
from eager.base.stub_modules import fx as fx
from eager.base.stub_modules import mps as mps
from eager.base.stub_modules import mtia as mtia
from eager.base.stub_modules import onnx as onnx
from eager.base.stub_modules import quantization as quantization
from eager.base.stub_modules import xpu as xpu
from eager.checks import CHECKS as _CHECKS
from eager.construct import buffers as buffers
from eager.construct import interop as interop
from eager.construct import shared_memory as shared_memory
from eager.construct import typed_constructors as legacy
from eager.construct.typed_constructors import set_default_tensor_type as set_default_tensor_type
from eager.control_flow.cond import cond as cond
from eager.control_flow.cond import switch as switch
from eager.control_flow.scan import associative_scan as associative_scan
from eager.control_flow.scan import map as map
from eager.control_flow.scan import scan as scan
from eager.control_flow.while_loop import fori_loop as fori_loop
from eager.control_flow.while_loop import while_loop as while_loop
from eager.core import printing as printing
from eager.core import return_types as return_types
from eager.core import storage as storage
from eager.core import tensor as _tensor
from eager.core.casts import get_autocast_cpu_dtype as get_autocast_cpu_dtype
from eager.core.casts import get_autocast_dtype as get_autocast_dtype
from eager.core.casts import get_autocast_gpu_dtype as get_autocast_gpu_dtype
from eager.core.casts import is_autocast_cpu_enabled as is_autocast_cpu_enabled
from eager.core.casts import is_autocast_enabled as is_autocast_enabled
from eager.core.op import aval_of as _aval_of
from eager.core.printing import set_printoptions as set_printoptions
from eager.core.registry import PUBLIC as _PUBLIC
from eager.core.registry import checked as _checked
from eager.core.registry import with_out as _with_out
from eager.core.storage import TypedStorage as TypedStorage
from eager.core.storage import UntypedStorage as UntypedStorage
from eager.core.tensor import Tensor as Tensor
from eager.cuda import Event as Event
from eager.cuda import Stream as Stream
from eager.custom_ops import library as library
from eager.device import Size as Size
from eager.device import default as _default
from eager.device import device as device
from eager.device import places as _places
from eager.device.protocol import OutOfMemoryError as OutOfMemoryError
from eager.foreach import FOREACH as _FOREACH
from eager.ops import activation as _activation
from eager.ops import bessel as _bessel
from eager.ops import complex as _complex
from eager.ops import composite as _composite
from eager.ops import contract as _contract
from eager.ops import create as _create
from eager.ops import dynamic as _dynamic
from eager.ops import elementary as _elementary
from eager.ops import float_bits as _numbers
from eager.ops import gammas as _gammas
from eager.ops import grids_and_windows as _numerics
from eager.ops import index as _index
from eager.ops import index_and_sort as _index_and_sort
from eager.ops import indexing as indexing
from eager.ops import logic as _logic
from eager.ops import move as _move
from eager.ops import operators as operators
from eager.ops import order_statistics as _order_statistics
from eager.ops import part_views as _part_views
from eager.ops import pointwise as _pointwise
from eager.ops import products as _products
from eager.ops import reduce as _reduce
from eager.ops import scan as _scan
from eager.ops import search_and_count as _search_and_count
from eager.ops import segments as _segments
from eager.ops import sort as _sort
from eager.ops import strided as _strided
from eager.ops import view as _view
from eager.ops import window as _window
from eager.random import Generator as Generator
from eager.random import default_generator as default_generator
from eager.random import in_place as _in_place
from eager.sizes.aval import Aval as Aval
from eager.sizes.aval import result_type as _result_type
from eager.testing import differences as _differences
from eager.version import __version__ as __version__

for _name in ("gradcheck", "gradgradcheck", "GradcheckError"):  # made of autograd: above it
    setattr(autograd, _name, getattr(_differences, _name))
for _name, _home in (("profiler", profiler), ("variable", autograd)):  # more of its submodules
    setattr(autograd, _name, _sys.modules.setdefault(f"eager.autograd.{_name}", _home))
vars(_sys.modules["eager.ops"])["aten"] = _aten
is_anomaly_enabled = _anomaly.is_anomaly_enabled
is_anomaly_check_nan_enabled = _anomaly.is_anomaly_check_nan_enabled
vmap = func.vmap
Future, ScriptModule = jit.Future, jit.ScriptModule
PyTorchFileReader = _Absent("PyTorchFileReader", "eager.load reads PyTorch's files")
SymBool, SymFloat, SymInt = (  # programs ask for them: no value is one, not where sizes vary
    type(name, (), {"__module__": "eager"}) for name in ("SymBool", "SymFloat", "SymInt")
)
bool = bool_
dtype = DType
# Modules of PyTorch's that lie in a room here, and two that pickled tensors name.
for _home in (return_types, storage, interop, _tensor):
    _sys.modules[f"eager.{_home.__name__.rpartition('.')[2]}"] = _home
double, half, float, cfloat, cdouble = float64, float16, float32, complex64, complex128
long, int, short = int64, int32, int16
inf, nan, pi, e = math.inf, math.nan, math.pi, math.e
newaxis = None
strided = _STRIDED
sparse_coo, sparse_csr, sparse_csc = sparse.COO, sparse.CSR, sparse.CSC
preserve_format = contiguous_format = None  # memory formats: there is one, row-major
layout, memory_format = type(strided), type(preserve_format)  # in annotations
TensorType = _Absent("TensorType", "an inner type of TorchScript, for annotations")
channels_last, channels_last_3d = "eager.channels_last", "eager.channels_last_3d"


def result_type(tensor1: Any, tensor2: Any) -> DType:
    """The dtype of the result of arithmetic on two tensors or numbers."""
    return _result_type(
        x.aval if isinstance(x, Tensor) else _aval_of(x) for x in (tensor1, tensor2)
    )


def can_cast(from_: DType, to: DType) -> _bool:
    """True if a result of dtype `from_` may be written into a tensor of dtype `to`."""
    return from_.category <= to.category


def set_float32_matmul_precision(precision: str) -> None:
    """Set the precision of float32 products. All settings mean full float32 here."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"{precision!r} is none of 'highest', 'high', 'medium'")
    _matmul_precision[0] = precision


_matmul_precision = ["highest"]


def get_float32_matmul_precision() -> str:
    """The precision that `set_float32_matmul_precision` was given."""
    return _matmul_precision[0]


def set_default_device(device: Any) -> None:
    """Set the device on which constructors of this thread create tensors; None is the CPU."""
    place = _places.resolved("cpu" if device is None else device)
    _default.place = None if place.type == "cpu" else place


def get_default_device() -> device:
    """The device on which constructors of this thread create tensors."""
    return _default.place or device("cpu")


def get_num_interop_threads() -> _int:
    """Number of threads that run operations beside each other: one."""
    return 1


def set_num_interop_threads(num: _int) -> None:
    """Operations run one after the other. RuntimeError for what is no positive int."""
    if type(num) is not _int or num <= 0:
        raise RuntimeError(f"set_num_interop_threads expects a positive integer, got {num!r}")
    if num != 1:
        _warn_once(
            "set_num_interop_threads",
            f"set_num_interop_threads({num}): operations run one after the other",
        )


def typename(obj: Any) -> str:
    """The name of a tensor's type ("eager.FloatTensor"), or of a class or another object's class
    with its module."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    kind = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(kind, "__module__", None)
    return kind.__qualname__ if module in (None, "builtins") else f"{module}.{kind.__qualname__}"


def use_deterministic_algorithms(mode: _bool, *, warn_only: _bool = False) -> None:
    """Eager and compiled code are deterministic either way."""


def are_deterministic_algorithms_enabled() -> _bool:
    """True if an op would be refused for not being deterministic: none is."""
    return False


def is_deterministic_algorithms_warn_only_enabled() -> _bool:
    return False


if TYPE_CHECKING:
    from eager import array_api as array_api
    from eager import distributions as distributions
    from eager import hub as hub


# To a type checker, it gives the public functions of the registry, too.
def __getattr__(name: str) -> Any:
    try:
        return _lazy_imports.submodule("eager", name)
    except AttributeError as error:
        error.__traceback__ = None  # it speaks of the caller's line
        raise


def __dir__() -> list[str]:
    return sorted({*globals(), *_lazy_imports.PARTS["eager"]})


globals().update(
    {
        p.name: _checked(p.fn) if p.out is None else _with_out(p.fn, p.out)
        for p in _PUBLIC.values()
        if p.namespace
    }
)

globals().update({**_FOREACH, **_CHECKS, **_WITHOUT_TENSORS})
# Names of what PyTorch calls, which libraries call, too.
_segment_reduce = _segments.segment_reduce
_convert_indices_from_coo_to_csr = _utils._convert_indices_from_coo_to_csr
_convert_indices_from_csr_to_coo = _utils._convert_indices_from_csr_to_coo
_CASTS = ("Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")
globals().update({f"_cast_{n}": getattr(Tensor, n.lower()) for n in _CASTS})
globals().update({each.__name__: each for each in legacy.LEGACY_CONSTRUCTORS})

# Functions of eager.nn.functional that PyTorch has here too.
_ALSO_HERE = (
    "adaptive_avg_pool1d", "adaptive_max_pool1d", "alpha_dropout", "avg_pool1d", "batch_norm",
    "bilinear", "binary_cross_entropy_with_logits", "celu", "celu_", "channel_shuffle", "conv1d",
    "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "cosine_similarity", "dropout", "feature_alpha_dropout", "group_norm", "hardshrink",
    "instance_norm", "layer_norm", "max_pool1d", "max_pool2d", "max_pool3d", "pairwise_distance",
    "pixel_shuffle", "pixel_unshuffle", "prelu", "relu_", "rms_norm", "rrelu", "selu_",
    "threshold_",
)  # fmt: skip
globals().update({n: getattr(nn.functional, n) for n in _ALSO_HERE})

# Methods that PyTorch has as functions, too.
_METHODS_HERE = (
    "abs_", "acos_", "acosh_", "addmv_", "arccos_", "arccosh_", "arcsin_", "arcsinh_", "arctan_",
    "arctanh_", "asin_", "asinh_", "atan_", "atanh_", "ceil_", "clamp_", "clamp_max_", "clamp_min_",
    "clip_", "cos_", "cosh_", "deg2rad_", "detach", "detach_", "erf_", "erfc_", "exp2_", "exp_",
    "expm1_", "fill_", "fix_", "floor_", "frac_", "gcd_", "i0_", "index_put_", "lcm_", "ldexp_",
    "log10_", "log1p_", "log2_", "log_", "logit_", "nan_to_num_", "neg_", "negative_", "rad2deg_",
    "reciprocal_", "round_", "rsqrt_", "sigmoid_", "sin_", "sinc_", "sinh_", "split_with_sizes",
    "sqrt_", "square_", "tan_", "tanh_", "trunc_", "xlogy_", "zero_",
)  # fmt: skip
globals().update({n: getattr(Tensor, n) for n in _METHODS_HERE})

_lazy_imports.follow()
del _uncollected
