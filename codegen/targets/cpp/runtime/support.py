"""Around the compiled entries: threads, matrix products, cached compiles. Text -> shared object.

Threads. Parallel loops run in a team of our own (jitcap_team.h) of as many members as
`eager.base.process.threads` says. Not OpenMP:
libgomp's members either spin for milliseconds, which ruins every other process of a shared machine
(0.3 ms -> 12 ms measured), or sleep, and waking them for every loop costs 13 to 25 us where ours
costs 1; and a forked child hangs in libgomp.

Matrix products. They run in a kernel of our own (jitcap_brick.h), compiled once per machine into an
object for each type that all graphs share: in each graph it would cost a second. LAPACK, some small
products, and all of machines with short vectors are of the `scipy-openblas32` wheel, set to one
thread: they are split over the same team as everything else, so that two pools never fight for the
processors. Without the wheel products are ours.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib.util
import os
import shutil
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from codegen.runtime import cache, scratch
from codegen.runtime.pending import Pending
from codegen.runtime.turns import Turn
from codegen.targets.cpp.runtime import build
from eager.base.compat_warnings import tell
from eager.base.config import config, on_change
from eager.base.process import threads
from eager.base.process.locks import lock

PRODUCTS: Final = ("f32", "f64", "bf16", "f16")
LAPACK: Final = ("sgesv", "dgesv", "sgetrf", "dgetrf", "spotrf", "dpotrf", "spotrs", "dpotrs")


class Api(ctypes.Structure):
    """JcApi of jitcap_rt.h: what generated code gets from its surroundings."""

    _fields_ = (
        *((f"product_{kind}", ctypes.c_void_p) for kind in PRODUCTS),
        *((f"pack_{kind}", ctypes.c_void_p) for kind in PRODUCTS),
        ("sgemm", ctypes.c_void_p),
        ("dgemm", ctypes.c_void_p),
        *((name, ctypes.c_void_p) for name in LAPACK),
        ("run", ctypes.c_void_p),
        ("member", ctypes.c_void_p),
        ("team", ctypes.c_void_p),
        ("threads", ctypes.c_int),
    )


# ---- threads and BLAS -----------------------------------------------------------------------


def _openblas() -> ctypes.CDLL | None:
    spec = importlib.util.find_spec("scipy_openblas32")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "lib"  # importing it takes longer than all of a warm start
    for path in sorted(folder.glob("libscipy_openblas*")):
        try:
            return ctypes.CDLL(str(path))
        except OSError as error:
            tell(
                f"OpenBLAS at {path} cannot be loaded ({error}); matrix products in compiled code "
                "use the slower built-in loop",
                UserWarning,
            )
    return None


_api: list[Api] = []
_api_lock = lock()


def api() -> Api:
    """The one Api structure of this process, shared by all loaded modules."""
    with _api_lock:
        if not _api:
            _api.append(_make_api())
            on_change.append(_follow)
        return _api[0]


def _make_api() -> Api:
    table = Api(threads=threads.get_num_threads())
    blas = _openblas()
    if blas is not None:
        for field, symbol in (("sgemm", "cblas_sgemm"), ("dgemm", "cblas_dgemm")):
            setattr(table, field, address_of(blas, f"scipy_{symbol}"))
        for name in LAPACK:
            setattr(table, name, address_of(blas, f"scipy_{name}_"))
        blas.scipy_openblas_set_num_threads(1)
    return table


def address_of(library: ctypes.CDLL, symbol: str) -> int | None:
    return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value


def _follow() -> None:
    _api[0].threads = threads.get_num_threads()


# ---- support objects: the team, the products ---

PRODUCT: Final = """#include "jitcap_brick.h"
JC_MODULE
JC_ENTRY bool product(long m, long n, long k, JcView<jc::{S}> a, JcView<jc::{S}> b, jc::{T} *c,
                      long ldc, bool add, const JcAfter<jc::{T}> *after) {{
  return jc::brick_product(m, n, k, a, b, c, ldc, add, after);
}}
JC_ENTRY void pack(long k, long lo, long hi, JcView<jc::{S}> b, void *panels) {{
  jc::pack_panels(k, lo, hi, b, panels);
}}
"""
# The symbol by which an object says that it multiplies matrices of a type -> the type.
USES_PRODUCT: Final = {
    "_ZN2jc4UsesIfE7productE": "f32", "_ZN2jc4UsesIdE7productE": "f64",
    "_ZN2jc4UsesINS_4bf16EE7productE": "bf16", "_ZN2jc4UsesINS_3f16EE7productE": "f16",
}  # fmt: skip
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
SUPPORT: Final = frozenset(
    {"team.cpp", *map("product_{}.cpp".format, PRODUCTS)}
)  # sources of the objects themselves
_support_lock = lock()  # held while one is made
_begin_lock = lock()  # held until compilers that were started are known


def provide_team() -> None:
    _provide({"run": "run", "member": "member", "team": "team"}, {"team.cpp": TEAM})


def provide_product(ctype: str) -> None:
    _provide(
        {f"product_{ctype}": "product", f"pack_{ctype}": "pack"},
        {f"product_{ctype}.cpp": PRODUCT.format(S=ctype, T="f64" if ctype == "f64" else "f32")},
    )


def _provide(fields: Mapping[str, str], sources: Mapping[str, str]) -> None:
    """Put functions (Api field -> symbol) of a support object into the Api, once; compiled, or
    found in the cache. Without it graphs still run: serially, or with BLAS for every product."""
    with _support_lock:
        name = next(iter(sources))
        if name in _unavailable or all(getattr(api(), field) for field in fields):
            return
        try:
            library = ctypes.PyDLL(str(build_shared(sources, isa_flags(config.isa)).result()))
        except (build.NoCompiler, build.CompileError, OSError) as error:
            if not _ended.is_set():  # a graph may come from the cache without it
                _lacks(name, error)
            return
        if hasattr(library, "jitcap_init"):
            library.jitcap_init(ctypes.byref(api()))
        for field, symbol in fields.items():
            setattr(api(), field, address_of(library, symbol))
        _keep.append(library)


def _lacks(name: str, error: Exception) -> None:
    _unavailable.add(name)
    tell(
        f"the support code {name} cannot be used on this system; compiled code runs slower. "
        f"{error}",
        UserWarning,
    )


_unavailable: Final[set[str]] = set()
_keep: Final[list[ctypes.CDLL]] = []  # whose code the Api points to


def prefetch(products: Collection[str]) -> None:
    """Begin to compile the support objects that a graph will load, beside its capture or its own
    compile; `products`: of which types it multiplies matrices (f32, f64, bf16, f16)."""

    def work() -> None:
        with contextlib.suppress(Exception):  # loading the graph tries again, and reports
            build.compiler()  # without one the graph may be on disk, or is not compiled either
            provide_team()
            for ctype in products:
                provide_product(ctype)

    known = _api[0] if _api else None
    if known is None or not all(
        getattr(known, f) for f in ("run", *map("product_{}".format, products))
    ):
        threading.Thread(target=work, name="jitcap-prefetch", daemon=True).start()


def _at_exit() -> None:
    """A program that ends while something is compiled leaves no compiler behind, nor its files."""
    with _begin_lock:
        _ended.set()
    for close in tuple(_at_work):  # a thread takes its own out
        close()


_ended: Final = threading.Event()
_at_work: Final[set[Callable[[], None]]] = set()  # what ends compilers, and removes their files
atexit.register(_at_exit)
os.register_at_fork(after_in_child=_at_work.clear)  # which are the parent's


ISA_FLAGS: Final[Mapping[str, tuple[str, ...]]] = {
    "native": (),
    "avx512": ("-march=x86-64-v4",),
    "avx2": ("-march=x86-64-v3",),
    "baseline": ("-march=x86-64",),
}


def isa_flags(isa: str) -> tuple[str, ...]:
    """Compiler flags for an instruction set by name. Raises ValueError for a name not known."""
    if isa not in ISA_FLAGS:
        raise ValueError(f"unknown instruction set {isa!r}; there are: {', '.join(ISA_FLAGS)}")
    return ISA_FLAGS[isa]


# ---- cached compile ---------------------------------------------------------------------------


def build_shared(
    sources: Mapping[str, str],
    flags: Sequence[str] = (),
    libraries: Mapping[str, str] | None = None,
) -> Pending[Path]:
    """The shared object of `sources` and `libraries` (file name -> C++ text), found in the cache,
    or compiled from now on. Objects of the libraries are kept, for other programs that have them.

    Raises build.NoCompiler where it is to be compiled; waiting raises build.CompileError, and
    OSError if it cannot be kept.
    """
    made_by = build.fingerprint(flags)
    files = {**sources, **(libraries or {})}
    key = cache.digest("cpp", made_by, *(text for item in files.items() for text in item))
    entry = cache.default().get(key)
    if entry is not None:
        return Pending.of(entry.file("graph.so"))
    turn = Turn(key)

    def begin() -> Pending[Path]:
        try:
            return _begun(key, made_by, sources, flags, libraries or {})
        except BaseException:
            turn.release()
            raise

    opened: list[Pending[Path]] = []
    if turn.take():
        opened.append(begin())

    def finish() -> Path:
        if not opened:  # another process has it
            turn.wait()
            made = cache.default().get(key)
            if made is not None:
                return made.file("graph.so")
            opened.append(begin())
        return opened[0].result()

    def close() -> None:
        for each in opened:
            each.close()
        turn.release()

    return Pending(finish, close)


def _begun(
    key: str,
    made_by: str,
    sources: Mapping[str, str],
    flags: Sequence[str],
    libraries: Mapping[str, str],
) -> Pending[Path]:
    """The shared object, which is compiled from now on and kept under `key`."""
    files, store = {**sources, **libraries}, cache.default()
    if not sources.keys() & SUPPORT:
        prefetch(
            [
                t
                for t in PRODUCTS
                if any(
                    f"dot{then}<{t}>" in text for text in sources.values() for then in ("", "_then")
                )
            ]
        )
    keys = {n: cache.digest("object", made_by, text) for n, text in libraries.items()}
    kept = {name: store.get(k) for name, k in keys.items()}
    with _begin_lock, contextlib.ExitStack() as stack:
        if _ended.is_set() and threading.current_thread() is not threading.main_thread():
            raise build.CompileError("the process ends")
        folder = scratch.folder("object")
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        out = folder / "graph.so"
        objects = {
            name: e.file("library.o") if e else folder / f"{name}.o" for name, e in kept.items()
        }
        compiled = build.compile_shared(files, out, flags=flags, objects=objects)
        stack.callback(compiled.close)
        opened, closing = stack.pop_all(), lock()

        def close() -> None:
            with closing:  # at exit one waits for a thread that would not live to remove the files
                opened.close()
            _at_work.discard(close)

        _at_work.add(close)

    def keep() -> Path:
        compiled.result()
        for name, path in objects.items():
            if kept[name] is None:
                store.put(keys[name], {"sources": [name]}, {"library.o": path})
        return store.put(key, {"sources": list(files)}, {"graph.so": out}).file("graph.so")

    return Pending(keep, close)
