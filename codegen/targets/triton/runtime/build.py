"""Triton, after emit: source text -> kernel object -> cubin and the record a launch needs, without
torch and without a GPU.

The source of a kernel is written to a file of the cache directory (readable, editable, what
tracebacks and profilers point to), imported from there, and compiled for an explicit target.
`Record` is JSON plus the cubin's bytes, so that a warm process launches from our cache without
importing triton.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from codegen.runtime import cache
from eager.base.dataclass import dataclass
from eager.base.process.locks import lock, rlock

# triton.language is one global namespace: while the interpreter replaces its functions nothing may
# compile.
LANGUAGE: Final = rlock()
Platform = tuple[str, int | str, int]
# Backend, architecture, threads per warp: NVIDIA H100 and H200.
DEFAULT_TARGET: Final[Platform] = ("cuda", 90, 32)
# What a kernel's metadata may ask of a launch beside what `Record` has.
OTHER_LAUNCHES: Final = ("profile_scratch_size", "launch_cooperative_grid", "launch_pdl")
CODE: Final = {"cuda": "cubin", "hip": "hsaco"}  # what a backend of triton compiles to

_modules: dict[str, types.ModuleType] = {}
_modules_lock: Final = lock()


@dataclass(frozen=True)
class Record:
    """Record of a compiled kernel: the data that a launch needs besides the cubin. `parameters` are
    Triton's type names in order ("*fp32", "i32"), constants left out."""

    name: str
    parameters: tuple[str, ...]
    shared: int
    warps: int
    ctas: int
    scratch: int
    scratch_align: int
    target: Platform

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Record:
        """The inverse of `to_json`, after JSON turned tuples into lists."""
        fields: Any = {n: tuple(x) if isinstance(x, list) else x for n, x in data.items()}
        return Record(**fields)


def load_kernels(source: str) -> types.ModuleType:
    """The module made of `source`: its @triton.jit functions are attributes.

    The text lies in a file of the compile cache; the same source gives the same module."""
    with _modules_lock:
        module = _modules.get(source)
        if module is None:
            key = cache.digest("triton source", source)
            store = cache.default()
            entry = store.get(key) or store.put(key, {}, {"kernels.py": source.encode()})
            path = str(entry.file("kernels.py"))
            module = types.ModuleType(f"jitcap_triton_{key[:16]}")
            module.__file__ = path
            exec(compile(source, path, "exec"), module.__dict__)
            _modules[source] = module
    return module


def compile_offline(
    kernel: Any,
    signature: Mapping[str, str],
    constants: Mapping[str, Any],
    *,
    divisible: Sequence[str] = (),
    warps: int = 4,
    stages: int = 3,
    target: Platform = DEFAULT_TARGET,
) -> tuple[Record, bytes]:
    """Compile one kernel for `target` with no device at hand.

    Args:
        signature: type of every parameter that is not a constant, by name: "*fp32", "i32", "fp64"
        ... constants: value of every `tl.constexpr` parameter.
        divisible: parameters known to be multiples of 16 (pointers: 16-byte aligned). Without it
        nothing is vectorised.

    Returns the record and the cubin. Raises ImportError when triton is missing, triton's
    CompilationError on a bad kernel.
    """
    compiled = _compile(
        kernel, signature, constants, divisible, {"num_warps": warps, "num_stages": stages}, target
    )
    meta = compiled.metadata
    if any(getattr(meta, name, 0) for name in OTHER_LAUNCHES):
        raise NotImplementedError(
            f"kernel {meta.name} asks for a launch mode that the launcher does not offer"
        )
    record = Record(
        name=meta.name,
        parameters=tuple(signature[n] for n in kernel.arg_names if n not in constants),
        shared=meta.shared,
        warps=meta.num_warps,  # from the metadata: warp specialisation raises it
        ctas=meta.num_ctas,
        scratch=meta.global_scratch_size,
        scratch_align=meta.global_scratch_align,
        target=target,
    )
    return record, bytes(compiled.asm[CODE[target[0]]])


def _compile(
    kernel: Any,
    signature: Mapping[str, str],
    constants: Mapping[str, Any],
    divisible: Sequence[str],
    options: Mapping[str, Any],
    target: Platform,
) -> Any:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = kernel.arg_names
    source = ASTSource(
        fn=kernel,
        signature={n: "constexpr" if n in constants else signature[n] for n in names},
        constexprs={(names.index(n),): value for n, value in constants.items()},
        attrs={(names.index(n),): [["tt.divisibility", 16]] for n in divisible},
    )
    # A multiplication and an addition stay two roundings, and functions keep subnormal numbers, as
    # in eager; defaults differ between versions.
    options = {"enable_fp_fusion": False, "enable_reflect_ftz": False, **options}
    with LANGUAGE:
        return triton.compile(source, target=GPUTarget(*target), options=options)
