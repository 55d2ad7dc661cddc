"""From a function on tensors to its Triton kernels, run on a simulated GPU. Imported by the tests of triton."""

import itertools

import numpy as np

import codegen
import eager
from codegen.ir.expr import interning
from codegen.targets.triton.program import emit
from codegen.targets.triton.runtime.build import DEFAULT_TARGET, compile_offline, load_kernels
from codegen.targets.triton.runtime.kernel import ALIGNMENT, kernels_of
from codegen.targets.triton.runtime.resident import Resident
from codegen.targets.triton.tile import DEFAULT
from eager.core.tensor import Tensor
from eager.device.pool import Pool
from eager.device.sim import SimDevice
from jitcap.compile.lower import lower
from jitcap.graph.tracer import trace


def tensors_of(values):
    """Arguments with NumPy arrays (also inside lists and tuples) and nested lists of numbers as tensors."""
    if isinstance(values, np.ndarray) or (isinstance(values, list) and isinstance(values[0], list)):
        return eager.tensor(values)
    if isinstance(values, list) and all(isinstance(v, float) for v in values):
        return eager.tensor(values)
    if isinstance(values, dict):
        return {k: tensors_of(v) for k, v in values.items()}
    if isinstance(values, list | tuple):
        return type(values)(tensors_of(v) for v in values)
    return values


def leaves(value):
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [x for v in value for x in leaves(v)]
    if isinstance(value, dict):
        return [x for v in value.values() for x in leaves(v)]
    return []


def rebuilt(value, it):
    if isinstance(value, Tensor):
        return next(it)
    if isinstance(value, list | tuple):
        parts = [rebuilt(v, it) for v in value]
        return type(value)(parts)
    if isinstance(value, dict):
        return {k: rebuilt(v, it) for k, v in value.items()}
    return value


def traced(fn, args, kwargs):
    """(Trace, flat input tensors). Results that are not tensors are left out."""
    inputs = leaves((args, kwargs))

    def flat(*given):
        it = iter(given)
        result = fn(*rebuilt(args, it), **rebuilt(kwargs, it))
        return tuple(leaves(result))

    return trace(flat, *inputs), inputs


def program_of(fn, args=(), kwargs=None, sizes=DEFAULT):
    """(TritonProgram, the arrays to run it on)."""
    done, inputs = traced(fn, tuple(args), dict(kwargs or {}))
    arrays = [t._array for t in (*inputs, *done.constants)]
    strides = [tuple(s // a.itemsize for s in a.strides) for a in arrays]
    program = lower(done.graph, done.writes, strides)
    with interning():
        batched = codegen.run_stages(program, "triton", "batched")[0]["batched"]
        return emit(batched, sizes), arrays


def run(fn, args=(), kwargs=None, sizes=DEFAULT):
    """Results of `fn` from its Triton kernels on a simulated GPU, and the program."""
    program, arrays = program_of(fn, args, kwargs, sizes)
    with np.errstate(all="ignore"):
        return on_device(program, Pool(SimDevice()))(arrays), program


def on_device(program, pool):
    """The program as a function of arrays of the host."""
    return Resident(program, pool, "a test", host=True)


def compile_program(program, target=DEFAULT_TARGET):
    """(record, machine code) of every kernel, by name."""
    return {k.symbol: k.compiled(target) for k in kernels_of(program)}


TOGETHER = 12  # kernels in one


def compile_together(kernels):
    """Compile for sm_90 in half the time that each alone takes: kernels that call a dozen of these.
    Where such a one fails each is compiled alone, and that which is at fault raises."""
    kernels = sorted(kernels, key=lambda k: k.warps)
    for warps, group in itertools.groupby(kernels, lambda k: k.warps):
        group = list(group)
        for first in range(0, len(group), TOGETHER):
            part = group[first : first + TOGETHER]
            try:
                function, types, divisible = caller_of(part)
                compile_offline(function, types, {}, divisible=divisible, warps=warps)
            except Exception:
                for kernel in part:
                    kernel.compiled(DEFAULT_TARGET)


def caller_of(kernels):
    """A kernel that calls these, the types of its parameters, and which are multiples of 16."""
    types, divisible, calls, functions = {}, [], [], {}
    for i, kernel in enumerate(kernels):
        own = {name: f"k{i}_{name}" for name, _ in kernel.parameters}
        types |= {own[name]: kind for name, kind in kernel.parameters}
        divisible += [
            own[name]
            for name, kind in kernel.parameters
            if kind.startswith("*") or name in kernel.strides
        ]
        given = [f"{name}={own[name]}" for name in own]
        given += [f"{ALIGNMENT}=16"] * (kernel.group is not None)
        functions[f"k{i}"] = getattr(load_kernels(kernel.source), kernel.symbol)
        calls.append(f"    k{i}({', '.join(given)})  # {kernel.key(DEFAULT_TARGET)}\n")
    head = f"import triton\n\n\n@triton.jit\ndef every({', '.join(types)}):\n"
    module = load_kernels(head + "".join(calls))
    vars(module).update(functions)
    return module.every, types, divisible
