"""Source -> kernel -> cubin without a device: records, resources, machine code."""

import importlib.util
import json
import re
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest
import triton_helpers as helpers
from triton_machine_code import instruction_counts, usage

pytest.importorskip("triton.language")

import codegen
import eager
from codegen.runtime import cache
from codegen.targets.triton.runtime import build, compile_pool
from codegen.targets.triton.runtime.kernel import kernels_of

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


@pytest.mark.once
def test_members_of_a_grouped_update_may_lie_anywhere():
    """Accesses are as wide as the addresses of all members allow."""

    def update(*tensors):
        for t in tensors:
            t.mul_(0.5)

    program, _ = helpers.program_of(update, [eager.ones(4096), eager.ones(2048)])
    (kernel,) = helpers.kernels_of(program)
    for behind in (16, 8, 4):
        counts = instruction_counts(kernel.compiled(("cuda", 90, 32), None, behind)[1])
        assert (counts["store128"] > 0, counts["store64"] > 0) == (behind == 16, behind == 8)
        assert (counts["load128"] > 0) == (behind == 16)


@pytest.mark.once
def test_kernels_are_compiled_in_several_processes(monkeypatch, tmp_path):
    monkeypatch.setenv("JITCAP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(compile_pool, "LEAST", 1)
    monkeypatch.setattr(compile_pool.os, "sched_getaffinity", lambda _: {0, 1})
    own, compile_offline = [], build.compile_offline

    def counted(kernel, *args, **kwargs):
        own.append(kernel.__name__)
        return compile_offline(kernel, *args, **kwargs)

    monkeypatch.setattr(build, "compile_offline", counted)
    x = eager.ones(64, 64)
    program, _ = helpers.program_of(lambda x, y: (x.exp().sum(0), x @ x, y * 2), (x, x[0]))
    kernels = helpers.kernels_of(program)
    target = ("cuda", 90, 32)
    work = [(k, None) for k in kernels]
    assert compile_pool.compile_all(work, target) == 2
    assert len(own) == len(kernels) - len(kernels) // 2  # the rest by the other
    codes = [k.compiled(target)[1] for k in kernels]
    assert all(code.startswith(b"\x7fELF") for code in codes)
    assert len(own) == len(kernels) - len(kernels) // 2
    assert compile_pool.compile_all(work, target) == 1  # nothing is left
    cache.default().clear()
    monkeypatch.setattr(compile_pool.sys, "executable", "/nowhere/python")
    compile_pool.compile_all(work, target)
    assert [k.compiled(target)[1] for k in kernels] == codes


def test_resources():
    record, cubin = build.compile_offline(K.pointwise, POINTERS, {"BLOCK": 1024}, divisible=ALIGNED)
    used = usage(cubin)
    assert 0 < used.registers < 128
    assert used.stack == used.local == 0
    assert used.occupancy(record.warps, record.shared) > 0.5


@pytest.mark.once
@pytest.mark.parametrize("arch", [80, 86, 89, 90, 100, 120, "gfx942", "gfx950"])
def test_each_gpu_has_its_code(arch):
    """Kernels compile for every GPU that the device names, and for AMD's, which have no device yet."""
    x = eager.ones(64, 64)
    program, _ = helpers.program_of(lambda x: eager.relu(x * 2 + 1), (x,))
    target = ("cuda", arch, 32) if isinstance(arch, int) else ("hip", arch, 64)
    ((record, code),) = helpers.compile_program(program, target).values()
    assert record.target == target
    assert code.startswith(b"\x7fELF")


def ptx(fn, *args):
    """What a GPU is given of the kernels of `fn`, before the assembler."""
    program, _ = helpers.program_of(fn, args)
    target, options = ("cuda", 90, 32), {"num_warps": 4}
    return "".join(
        build._compile(k._function(), dict(k.parameters), {}, (), options, target).asm["ptx"]
        for k in kernels_of(program)
    )


@pytest.mark.once
def test_quotients_are_rounded_correctly_and_subnormal_numbers_kept():
    def step(x, y):
        return x.div(y, rounding_mode="trunc"), x.div(y, rounding_mode="floor"), x / y

    text = ptx(step, eager.ones(64), eager.ones(64))
    assert "div.rn.f32" in text
    assert "div.full" not in text
    assert ".ftz" not in ptx(lambda x: (x.log(), x.rsqrt(), x.log1p()), eager.ones(64))


@pytest.mark.once
def test_what_triton_leaves_undefined_is_defined():
    """A shift by the width or more, and a float that no int is, are poison there: the compiler drops what computes
    them, and stores a register that nothing wrote."""
    step = lambda i: (i << 40, i >> 40, (i * float("nan")).to(eager.int32))
    text = ptx(step, eager.ones(64, dtype=eager.int32))
    stored = re.findall(r"st\.global\S* \[[^]]*\], \{ (%\w+)", text)
    assert stored
    assert all(re.search(rf"\t{register},", text) for register in stored)


def table(monkeypatch, capsys, name):
    """What scripts/machine_code prints of a workload for sm_90, and its exit status."""
    for variable in ("JITCAP_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(variable, "")
    monkeypatch.setattr("sys.argv", ["machine_code", "--only", name, "--targets", "90"])
    monkeypatch.syspath_prepend(".")
    path = Path(__file__).resolve().parents[4] / "scripts" / "machine_code"
    loader = SourceFileLoader("machine_code", str(path))
    script = importlib.util.module_from_spec(
        importlib.util.spec_from_loader("machine_code", loader)
    )
    monkeypatch.setitem(sys.modules, "machine_code", script)
    loader.exec_module(script)
    status = script.main()
    return capsys.readouterr().out.splitlines()[-1], status


@pytest.mark.once
def test_the_table_of_machine_code(monkeypatch, capsys):
    row, status = table(monkeypatch, capsys, "tiny")
    assert status == 0
    assert row.startswith("| tiny | sm_90 | 1 |")
    assert row.endswith("| 0 | 0 | 0 of 0 |")


@pytest.mark.once
def test_what_has_no_kernels_is_a_row(monkeypatch, capsys):
    def refuse(*_):
        raise codegen.Unsupported("the triton backend does not compile sort")

    monkeypatch.setattr(codegen, "run_stages", refuse)
    row, status = table(monkeypatch, capsys, "tiny")
    assert status == 0
    assert "the triton backend does not compile sort" in row
