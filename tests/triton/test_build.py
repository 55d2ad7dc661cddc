"""Source -> kernel -> cubin without a device: records, resources, machine code."""

import importlib.util
import json
from pathlib import Path

import pytest
from triton_machine_code import instruction_counts, usage

pytest.importorskip("triton.language")

from codegen.emit.triton.runtime import build

_spec = importlib.util.spec_from_file_location(
    "hand_written_kernels_for_build", Path(__file__).with_name("kernels.py")
)
K = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(K)

POINTERS = {"x_ptr": "*bf16", "y_ptr": "*bf16", "o_ptr": "*bf16", "n": "i32"}
ALIGNED = ("x_ptr", "y_ptr", "o_ptr")
SOURCE = """
import triton
import triton.language as tl


@triton.jit
def twice(x_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(o_ptr + offs, tl.load(x_ptr + offs) * 2)
"""


def test_a_source_becomes_a_kernel_in_a_readable_file():
    module = build.load_kernels(SOURCE)
    assert Path(module.__file__).read_text() == SOURCE
    assert build.load_kernels(SOURCE) is module
    record, cubin = build.compile_offline(
        module.twice, {"x_ptr": "*fp32", "o_ptr": "*fp32"}, {"BLOCK": 1024}
    )
    assert record.name == "twice"
    assert record.parameters == ("*fp32", "*fp32")
    assert len(cubin) > 1000


def test_a_record_survives_json():
    record, _ = build.compile_offline(K.pointwise, POINTERS, {"BLOCK": 1024}, divisible=ALIGNED)
    assert build.Record.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_full_blocks_are_vectorised_whatever_the_size():
    """A mask of a size not known to be a multiple of 16 makes every load scalar; the unmasked branch is not."""
    _, masked = build.compile_offline(K.pointwise, POINTERS, {"BLOCK": 1024}, divisible=ALIGNED)
    _, full = build.compile_offline(K.add_full_blocks, POINTERS, {"BLOCK": 1024}, divisible=ALIGNED)
    assert instruction_counts(masked)["load128"] == 0
    counts = instruction_counts(full)
    assert counts["load128"] >= 2
    assert counts["store128"] >= 1
    assert counts["local"] == 0


def test_resources():
    record, cubin = build.compile_offline(K.pointwise, POINTERS, {"BLOCK": 1024}, divisible=ALIGNED)
    used = usage(cubin)
    assert 0 < used.registers < 128
    assert used.stack == used.local == 0
    assert used.occupancy(record.warps, record.shared) > 0.5
