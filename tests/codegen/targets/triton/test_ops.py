"""Every public function with samples: its Triton kernels, interpreted, against eager; one compile per distinct kernel form."""

import copy
import re

import numpy as np
import pytest
import share
import triton_helpers as helpers

pytest.importorskip("triton.language")

from triton.compiler.errors import CompilationError

import eager
from codegen.ir.schema import Unsupported
from codegen.targets.triton.runtime.kernel import kernels_of
from codegen.targets.triton.tile import DEFAULT, Sizes
from eager.core.registry import PUBLIC
from jitcap.graph.tracer import DataDependent

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of samples
FUNCTIONS = {key: p for key, p in PUBLIC.items() if p.samples is not None}
# Blocks so small that every loop, tail and mask is taken even on the samples' few elements.
TINY = Sizes(flat=16, tile=32, longest=4, loop=2, plane=8, column=4, programs=64)
# Not a program of known shapes, or one that Triton does not express; eager and the CPU backend cover them.
OUT_OF_REACH = (DataDependent, Unsupported)


def arguments(sample):
    return helpers.tensors_of(tuple(sample.args)), helpers.tensors_of(dict(sample.kwargs))


def tolerances(dtype, sample):
    rtol, atol = (2e-2, 1e-2) if dtype.itemsize <= 2 else (2e-5, 1e-5)
    return {"rtol": sample.rtol or rtol, "atol": sample.atol or atol}


def assert_same(got, expected, sample):
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(got, expected)
    else:
        wide = np.complex128 if expected.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(
            got.astype(wide),
            expected.astype(wide),
            equal_nan=True,
            **tolerances(expected.dtype, sample),
        )


# What further samples add is how they are read: loops, tails and masks, all in tiny blocks.
MOST = 2 if share.ALL else 1


@pytest.mark.parametrize(
    ("sizes", "most"), [(DEFAULT, MOST), (TINY, None)], ids=["default", "tiny"]
)
@pytest.mark.parametrize("key", FUNCTIONS)
def test_interpreted(key, sizes, most, record_property):
    fn, ran = FUNCTIONS[key].fn, 0
    for sample in list(FUNCTIONS[key].samples())[:most]:
        args, kwargs = arguments(sample)
        with np.errstate(all="ignore"):
            expected = [t._array for t in helpers.leaves(fn(*args, **kwargs))]
        args, kwargs = arguments(sample)
        try:
            got, _ = helpers.run(fn, args, kwargs, sizes)
        except OUT_OF_REACH:
            continue
        except RuntimeError as error:
            if "being captured" not in str(error):  # its kernel looks at values
                raise
            continue
        for g, e in zip(got, expected, strict=True):
            assert_same(g, e, sample)
        ran += 1
    if not ran:
        pytest.skip("no sample is a static program that Triton expresses")
    record_property("ops", int(sizes is DEFAULT))


TOGETHER = 12  # functions whose kernels are compiled together
KEYS = share.of(FUNCTIONS, len(FUNCTIONS) // 2)  # every kind has many; all are interpreted
_compiled = set()


@pytest.mark.slow
@pytest.mark.parametrize(
    "keys",
    [KEYS[i : i + TOGETHER] for i in range(0, len(KEYS), TOGETHER)],
    ids=lambda keys: "-".join(key.rpartition(".")[2] for key in keys),
)
def test_compiles(keys, record_property):
    """Kernels that differ in numbers only are compiled once. Of the first sample; of all of them in
    scripts/nightly."""
    kernels = []
    chosen = {key: [*FUNCTIONS[key].samples()][: None if share.ALL else 1] for key in keys}
    for fn, sample in ((FUNCTIONS[key].fn, s) for key in keys for s in chosen[key]):
        args, kwargs = arguments(sample)
        try:
            program, _ = helpers.program_of(fn, args, kwargs)
        except (*OUT_OF_REACH, RuntimeError):
            continue
        for kernel in kernels_of(program):
            text = re.sub(r"\d+", "#", program.kernels[kernel.name].source)
            form = text, tuple(kind for _, kind in kernel.parameters)
            if form not in _compiled:
                _compiled.add(form)
                kernels.append(kernel)
    helpers.compile_together(kernels)
    record_property("compiled", len(kernels))


def test_one_kernel_among_others_that_does_not_compile_is_seen():
    program, _ = helpers.program_of(lambda x: x + 1, (eager.ones(4),))
    (kernel,) = kernels_of(program)
    assert "tl.load(" in kernel.source
    wrong = copy.copy(kernel)
    object.__setattr__(wrong, "source", kernel.source.replace("tl.load(", "tl.absent("))
    with pytest.raises(CompilationError, match="absent"):
        helpers.compile_together([kernel, wrong])
