"""The CPU runtime: emitted C++ and a Signature -> a loaded, callable entry.

    path = build_shared({"graph.cpp": source})         # compiled, or found in the cache
    run = load(path).runner("entry", signature)        # run(inputs: list) -> list of arrays

Threads. Parallel loops run in a team of our own (jitcap_team.h) of `threads()` members:
$JITCAP_THREADS, else $OMP_NUM_THREADS, else the processors this process may use. Not OpenMP:
libgomp's members either spin for milliseconds, which ruins every other process of a shared machine
(0.3 ms -> 12 ms measured), or sleep, and waking them for every loop costs 13 to 25 us where ours
costs 1; and a forked child hangs in libgomp.

Matrix products. Small ones run in a kernel of our own (jitcap_gemm.h), compiled once per machine
into an object that all graphs share: in each graph it would cost 0.4 s. The others run in OpenBLAS
of the `scipy-openblas32` wheel, set to one thread: jc::gemm splits them over the same team as
everything else, so that two pools never fight for the processors. Without the wheel a plain loop
is used.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import tempfile
import threading
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from codegen.runtime import build, cache, memory
from codegen.runtime.artifact import Array, Host, Signature, Spec

RELEASE_GIL_BYTES: Final = 64 << 10  # smaller calls are over before another thread could profit
INDEX_ERROR, HOST_ERROR = 1, 2
PYTHON_ERROR, BUSY, NOT_ARRAY = -1, -2, -3
HostFunction = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_long, ctypes.POINTER(ctypes.c_void_p))


class Api(ctypes.Structure):
    """JcApi of jitcap_rt.h: what generated code gets from its surroundings."""

    _fields_ = (
        ("sgemm", ctypes.c_void_p),
        ("dgemm", ctypes.c_void_p),
        ("small_sgemm", ctypes.c_void_p),
        ("small_dgemm", ctypes.c_void_p),
        ("blas_threads", ctypes.c_void_p),
        ("run", ctypes.c_void_p),
        ("member", ctypes.c_void_p),
        ("team", ctypes.c_void_p),
        ("threads", ctypes.c_int),
    )


class PlanStruct(ctypes.Structure):
    """JcPlan of jitcap_call.h."""

    _fields_ = (
        ("entry", ctypes.c_void_p),
        ("arena", ctypes.c_void_p),
        ("kinds", ctypes.c_char_p),
        ("inputs", ctypes.c_long),
        ("outputs", ctypes.c_long),
        ("data_offset", ctypes.c_long),
        ("type_offset", ctypes.c_long),
        ("release_gil", ctypes.c_long),
        ("array_type", ctypes.c_void_p),
        ("buffers", ctypes.c_void_p),
        ("scalars", ctypes.c_void_p),
    )


# ---- surroundings: threads and BLAS ---------------------------------------------------------


def _wanted_threads() -> int:
    for name in ("JITCAP_THREADS", "JITCAP_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "").split(",")[0].strip()
        if text.isdecimal() and int(text) > 0:
            return int(text)
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(usable or 1, _cgroup_limit()))


def _cgroup_limit() -> int:
    """Processors granted by the container's quota, rounded up; a large number without one."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return max(1, -(-int(quota) // int(period)))
    except (OSError, ValueError):
        return 1 << 16


def _openblas() -> ctypes.CDLL | None:
    try:
        import scipy_openblas32
    except ImportError:
        return None
    folder = Path(scipy_openblas32.get_lib_dir())
    for path in sorted(folder.glob("libscipy_openblas*")):
        try:
            return ctypes.CDLL(str(path))
        except OSError as error:
            warnings.warn(
                f"OpenBLAS at {path} cannot be loaded ({error}); matrix products in compiled code "
                "use the slower built-in loop",
                stacklevel=2,
            )
    return None


_api: list[Api] = []
_api_lock = threading.Lock()


def api() -> Api:
    """The one Api structure of this process, shared by all loaded modules."""
    with _api_lock:
        if not _api:
            _api.append(_make_api())
        return _api[0]


def _make_api() -> Api:
    table = Api(threads=_wanted_threads())
    blas = _openblas()
    if blas is not None:
        for field, symbol in (("sgemm", "cblas_sgemm"), ("dgemm", "cblas_dgemm")):
            setattr(table, field, _address_of(blas, f"scipy_{symbol}"))
        table.blas_threads = _address_of(blas, "scipy_openblas_set_num_threads")
        blas.scipy_openblas_set_num_threads(1)
    return table


def _address_of(library: ctypes.CDLL, symbol: str) -> int | None:
    return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value


def threads() -> int:
    """Members of a parallel loop's team."""
    return int(api().threads)


def set_threads(n: int) -> None:
    """Use `n` threads from the next call on. Raises ValueError unless n >= 1."""
    if n < 1:
        raise ValueError(f"the number of threads must be at least 1, got {n}")
    api().threads = n


# ---- support objects: the team, the small-product kernels ---

SMALL_GEMM: Final = """#include "jitcap_gemm.h"
JC_ENTRY void small_gemm(bool ta, bool tb, long m, long n, long k, {T} alpha,
                         const {T} *a, long lda, const {T} *b, long ldb, {T} beta, {T} *c,
                         long ldc) {{
  jc::small_gemm<{T}>(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}}
"""
# The symbol by which an object says that it multiplies matrices of a type: the type, its Api field.
USES_PRODUCT: Final = {
    "_ZN2jc4UsesIfE7productE": ("float", "small_sgemm"),
    "_ZN2jc4UsesIdE7productE": ("double", "small_dgemm"),
}
TEAM: Final = """#include "jitcap_team.h"
extern "C" __attribute__((visibility("default"))) void run(
    jc_team::Part part, void *body, long n, long grain, long pieces, int members) {
  jc_team::run(part, body, n, grain, pieces, members);
}
extern "C" __attribute__((visibility("default"))) int member() { return jc_team::member; }
extern "C" __attribute__((visibility("default"))) int team(double worth, int most) {
  return jc_team::team(worth, most);
}
"""
_support_lock = threading.Lock()


def _provide_team() -> None:
    _provide({"run": "run", "member": "member", "team": "team"}, {"team.cpp": TEAM})


def _provide_small_gemm(ctype: str, field: str) -> None:
    _provide({field: "small_gemm"}, {"gemm.cpp": SMALL_GEMM.format(T=ctype)})


def _provide(fields: Mapping[str, str], sources: Mapping[str, str]) -> None:
    """Put functions (Api field -> symbol) of a support object into the Api, once; compiled, or
    found in the cache."""
    with _support_lock:
        if all(getattr(api(), field) for field in fields):
            return
        library = ctypes.PyDLL(str(build_shared(sources)))
        for field, symbol in fields.items():
            setattr(api(), field, _address_of(library, symbol))
        _keep.append(library)


_keep: Final[list[ctypes.CDLL]] = []  # whose code the Api points to


def _prefetch(sources: Mapping[str, str]) -> None:
    """Begin to compile, beside a graph's own compile, the support objects that it will load."""

    def work() -> None:
        with contextlib.suppress(Exception):  # loading the graph tries again, and reports
            _provide_team()
            if any("dot<f32>" in text for text in sources.values()):
                _provide_small_gemm("float", "small_sgemm")

    if "team.cpp" not in sources and not api().run:
        threading.Thread(target=work, name="jitcap-prefetch", daemon=True).start()


# ---- build and load -------------------------------------------------------------------------


def _raise_index_error(site: str, value: int, bound: int) -> None:
    """Eager's message, from the user's line; `site`: "op: index out of bounds ...|file:line"."""
    what, _, place = site.rpartition("|")
    if not what:
        raise IndexError(
            f"index {value} is out of range for a dimension of size {bound} (at {place})"
        )
    text = what.replace("index out of bounds", f"index {value} is out of bounds")
    file, _, line = place.rpartition(":")
    # A statement at that line of that file: the traceback shows the user's source.
    code = compile("\n" * (int(line or 1) - 1) + "raise error", file or "<compiled>", "exec")
    exec(code, {"error": IndexError(text)})


def build_shared(sources: Mapping[str, str], flags: Sequence[str] = ()) -> Path:
    """The shared object of `sources` (file name -> C++ text), compiled unless the cache has it.

    Raises build.NoCompiler or build.CompileError.
    """
    parts = [text for item in sources.items() for text in item]
    key = cache.digest("cpp", build.fingerprint(flags), *parts)
    store = cache.default()
    entry = store.get(key)
    if entry is None:
        _prefetch(sources)
        with tempfile.TemporaryDirectory(prefix="jitcap-") as folder:
            out = Path(folder) / "graph.so"
            build.compile_shared(sources, out, flags=flags)
            entry = store.put(key, {"sources": list(sources)}, {"graph.so": out})
    return entry.file("graph.so")


@functools.cache
def _layout() -> tuple[int, int]:
    """Where an ndarray object keeps its data pointer and its type. Raises RuntimeError if that is
    not found."""
    probes = [np.empty(n, np.uint8) for n in (1, 100, 10000)]
    data = _offset_of(probes, [p.ctypes.data for p in probes])
    kind = _offset_of(probes, [id(np.ndarray)] * len(probes))
    if data is None or kind is None:
        raise RuntimeError(
            f"cannot find the data pointer inside NumPy {np.__version__} arrays; compiled code "
            "cannot be called. Use backend='python' and report this."
        )
    return data, kind


def _offset_of(objects: Sequence[Any], pointers: Sequence[int]) -> int | None:
    """The first offset at which each of the objects holds its pointer."""
    for offset in range(0, 64, 8):
        if [ctypes.c_void_p.from_address(id(x) + offset).value for x in objects] == list(pointers):
            return offset
    return None


class Module:
    """A loaded shared object of compiled kernels."""

    def __init__(self, path: Path) -> None:
        self.api = api()
        self.path = path
        self.library = ctypes.PyDLL(str(path))  # keeps the GIL: jitcap_call releases it if it pays
        self.library.jitcap_init(ctypes.byref(self.api))
        _provide_team()
        for symbol, (ctype, field) in USES_PRODUCT.items():
            if hasattr(self.library, symbol):
                _provide_small_gemm(ctype, field)

    def runner(self, name: str, signature: Signature) -> Runner:
        """The entry called `name`. Raises AttributeError if the object has none."""
        return Runner(self, name, signature)


def load(path: Path) -> Module:
    """Load a shared object made by `build_shared`. Raises OSError if the system cannot."""
    return Module(path)


class _PerThread:
    """The call structure of one runner on one thread, and what must live as long as it."""

    def __init__(self, runner: Runner, arena: memory.Arena) -> None:
        signature = runner.signature
        tensors = signature.kinds.count("t") + len(signature.outputs)
        self.arena = arena
        self.failure: BaseException | None = None
        self.buffers = (ctypes.c_void_p * max(1, tensors + len(signature.hosts)))()
        self.scalars = (ctypes.c_double * max(1, len(signature.kinds)))()
        self.hosts = [self._host(host) for host in signature.hosts]
        for i, function in enumerate(self.hosts):
            self.buffers[tensors + i] = ctypes.cast(function, ctypes.c_void_p).value
        arena.reserve(signature.arena_bytes)
        self.plan = PlanStruct(
            entry=_address_of(runner.module.library, runner.name),
            arena=arena.address,
            kinds=signature.kinds.encode(),
            inputs=len(signature.kinds),
            outputs=len(signature.outputs),
            data_offset=_layout()[0],
            type_offset=_layout()[1],
            array_type=id(np.ndarray),
            release_gil=runner.release_gil,
            buffers=ctypes.addressof(self.buffers),
            scalars=ctypes.addressof(self.scalars),
        )
        self.address = ctypes.addressof(self.plan)

    def _host(self, host: Host) -> Any:
        """A C function around a Python kernel; an exception is kept and re-raised by the runner."""
        count = len(host.inputs)

        def call(_: int, pointers: Any) -> int:
            try:
                arrays = [
                    _wrap(pointers[i], spec) for i, spec in enumerate(host.inputs + host.outputs)
                ]
                results = host.call(*arrays[:count])
                results = results if isinstance(results, (tuple, list)) else (results,)
                for target, value in zip(arrays[count:], results, strict=True):
                    target[...] = value
            except BaseException as error:  # noqa: BLE001 - raised again after the C frame
                self.failure = error
                return 1
            return 0

        return HostFunction(call)


def _wrap(address: int | None, spec: Spec) -> Array:
    """An array over memory that the compiled graph owns; valid during the host call only."""
    if spec.nbytes == 0 or address is None:
        return np.empty(spec.shape, spec.dtype)
    raw = (ctypes.c_char * spec.nbytes).from_address(address)
    return np.ndarray(spec.shape, spec.dtype, memoryview(raw))


class Runner:
    """Calls one compiled entry. Thread-safe: every thread has its own call structure and arena."""

    def __init__(self, module: Module, name: str, signature: Signature) -> None:
        self.module = module
        self.name = name
        self.signature = signature
        specs = signature.outputs
        self.release_gil = (
            signature.shapes is not None
            or signature.arena_bytes + sum(s.nbytes for s in specs) >= RELEASE_GIL_BYTES
        )
        getattr(module.library, name)  # raises now, not at the first call
        self._call = module.library.jitcap_call
        self._call.argtypes = (ctypes.py_object, ctypes.py_object, ctypes.c_void_p)
        self._make = [
            functools.partial(
                np.empty if s.nbytes < memory.SMALL else memory.empty, s.shape, s.dtype
            )
            for s in specs
        ]
        self._local = threading.local()

    def __call__(self, inputs: list[Any]) -> list[Array]:
        """Run on `inputs`. Raises IndexError for an index out of range (with the user's line), and
        whatever a host kernel raised."""
        if self.signature.shapes is None:
            outputs = [make() for make in self._make]
        else:
            shapes = self.signature.shapes(inputs)
            outputs = [
                memory.empty(shape, spec.dtype)
                for shape, spec in zip(shapes, self.signature.outputs, strict=True)
            ]
        try:
            state = self._local.state
        except AttributeError:
            state = self._local.state = _PerThread(self, memory.arena())
        code = self._call(inputs, outputs, state.address)
        if code:
            self._failed(code, state, inputs, outputs)
        return outputs

    def _failed(
        self, code: int, state: _PerThread, inputs: list[Any], outputs: list[Array]
    ) -> None:
        if code == BUSY:  # called from inside a compiled call on this thread: use a second arena
            state = _PerThread(self, memory.Arena())
            code = self._call(inputs, outputs, state.address)
            if not code:
                return
        if code == NOT_ARRAY:
            plain = self._as_arrays(inputs)
            if not self._call(plain, outputs, state.address):
                return
        if state.failure is not None:
            failure, state.failure = state.failure, None
            raise failure
        record = state.arena.error()
        sites = self.signature.sites
        where = sites[record.site] if record.site < len(sites) else "an unknown place"
        if record.code == INDEX_ERROR:
            _raise_index_error(where, int(record.value), int(record.bound))
        raise RuntimeError(f"compiled entry {self.name} failed with code {code} (at {where})")

    def _as_arrays(self, inputs: list[Any]) -> list[Any]:
        """The inputs with subclasses of ndarray as plain arrays. Raises TypeError for others."""
        plain = list(inputs)
        for i, kind in enumerate(self.signature.kinds):
            if kind == "t":
                if not isinstance(inputs[i], np.ndarray):
                    raise TypeError(
                        f"input {i} of {self.name} must be a NumPy array, got {type(inputs[i])}"
                    )
                plain[i] = inputs[i].view(np.ndarray)
        return plain
