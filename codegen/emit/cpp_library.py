"""Library steps as C++: calls of routines of the headers, or of host callbacks. Library -> lines of the entry.

A step without a routine is a callback: the op's NumPy kernel runs on arrays over the compiled graph's memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from codegen.access import matrix_order
from codegen.emit import cpp_table as table
from codegen.ir import Access, Library
from codegen.runtime.artifact import Host, Spec

Lines = list[str]


def call(item: Library, places: Any, hosts: list[Host], site: Callable[[str], int]) -> Lines:
    """The lines that run `item`."""
    rule = RULES.get(item.name)
    lines = rule(item, places) if rule is not None else None
    return host(item, places, hosts) if lines is None else lines


def pointer(places: Any, x: Access) -> str:
    return f"{places.pointer(x.buffer)} + {x.offset}" if x.offset else places.pointer(x.buffer)


def host(item: Library, places: Any, hosts: list[Host]) -> Lines:
    """A callback into the op's own NumPy kernel. Numbers among the operands are bound here; run-time scalars are passed."""
    reads = [r for r in item.reads if isinstance(r, Access)]
    slots = [r for r in item.reads if isinstance(r, str)]
    number = len(hosts)
    ins = tuple(Spec(r.shape, places.fused.buffers[r.buffer].dtype.np) for r in reads)
    ins += tuple(Spec((), places.fused.buffers[n].dtype.np) for n in slots)
    outs = tuple(Spec(a.shape, a.dtype.np) for a in item.out_avals)
    hosts.append(Host(_host_function(item, len(reads)), ins, outs))
    args = [f"(void *)({pointer(places, r)})" for r in reads]
    lines = []
    for i, name in enumerate(slots):
        kind = table.MEMORY[places.fused.buffers[name].dtype.name]
        lines.append(f"{kind} h{number}_{i} = {places.argument(name)};")
        args.append(f"(void *)&h{number}_{i}")
    args += [f"(void *)({places.pointer(o)})" for o in item.outs]
    lines.append(f"void *a{number}[] = {{{', '.join(args)}}};")
    slot = places.first_host + number
    lines.append(f"if (((JcHost)b[{slot}])({number}, a{number})) return 1;")
    return ["{", *("  " + x for x in lines), "}"]


def _host_function(item: Library, tensors: int) -> Callable[..., Any]:
    def run(*arrays: Any) -> Any:
        given, numbers = iter(arrays[:tensors]), iter(arrays[tensors:])
        operands = [
            next(given) if isinstance(r, Access) else next(numbers).item() if isinstance(r, str) else r
            for r in item.reads
        ]
        return item.op.compute(tuple(operands), item.attrs, item.out_avals)

    return run


# ---------------------------------------------------------------------------------- matrix products


def dot(item: Library, places: Any) -> Lines | None:
    a, b = item.reads
    assert isinstance(a, Access) and isinstance(b, Access)
    out = item.out_avals[0]
    *batch, m, n = out.shape
    k = a.shape[-1]
    c = places.pointer(item.outs[0])
    if k == 0:
        return [f"__builtin_memset({c}, 0, {out.nbytes});"]
    oa, ob = matrix_order(a.shape, a.strides), matrix_order(b.shape, b.strides)
    if oa is None or ob is None:
        return None
    (ta, lda), (tb, ldb) = oa, ob
    kind = table.MEMORY[out.dtype.name]
    flags = f"{str(ta).lower()}, {str(tb).lower()}, {m}, {n}, {k}, {kind}(1)"
    count = math.prod(batch)
    if count == 1:
        return [f"gemm<{kind}>({flags}, {pointer(places, a)}, {lda}, {pointer(places, b)}, {ldb}, {kind}(0), {c}, {n});"]
    sa, sb = _batch_step(batch, a.strides), _batch_step(batch, b.strides)
    if sa is not None and sb is not None:
        return [
            f"batched_gemm<{kind}>({count}, {flags}, {pointer(places, a)}, {lda}, {sa}, "
            f"{pointer(places, b)}, {ldb}, {sb}, {kind}(0), {c}, {n}, {m * n});"
        ]
    ia, ib = _batch_index(batch, a.strides), _batch_index(batch, b.strides)
    return [
        f"strided_gemm<{kind}>({count}, {flags}, {pointer(places, a)}, {lda}, [](i64 i) {{ return {ia}; }}, "
        f"{pointer(places, b)}, {ldb}, [](i64 i) {{ return {ib}; }}, {c}, {n});"
    ]


def _batch_step(batch: list[int], strides: tuple[int, ...]) -> int | None:
    """The distance of neighbouring products when it is the same for all, else None."""
    step: int | None = None
    run = 1
    for n, s in zip(reversed(batch), reversed(strides[: len(batch)]), strict=True):
        if n == 1:
            continue
        if step is None:
            step = s
        elif s != step * run:
            return None
        run *= n
    return step or 0


def _batch_index(batch: list[int], strides: tuple[int, ...]) -> str:
    terms, step = [], 1
    for n, s in zip(reversed(batch), reversed(strides[: len(batch)]), strict=True):
        if n > 1:
            terms.append(f"i / {step} % {n} * {s}")
        step *= n
    return "i64(" + " + ".join(terms or ["0"]) + ")"


RULES: Final[dict[str, Callable[[Library, Any], Lines | None]]] = {"dot": dot}
