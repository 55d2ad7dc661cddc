"""Library steps are records: each names an op, and says which targets write it."""

from codegen.fuse.chunk_rows import DOT_ADD
from codegen.fuse.pack_once import DOT_PACKED, PACK
from codegen.fuse.row_blocks import BLOCKS
from codegen.ir.routine import ROUTINES
from codegen.targets import cpp, triton  # the spellings come with the targets
from eager.core.op import REGISTRY


def test_each_is_an_op_that_some_target_writes() -> None:
    assert cpp and triton
    control = {"scan", "cond", "while_loop", "call"}
    made = {op.name for op in (DOT_ADD, BLOCKS, PACK, DOT_PACKED)}  # by passes only
    assert ROUTINES.keys() <= REGISTRY.keys() | control | made
    assert all(r.spelled.keys() & {"cpp", "triton"} for r in ROUTINES.values())


def test_what_a_gpu_writes_a_processor_writes_too() -> None:
    assert [r.name for r in ROUTINES.values() if set(r.spelled) == {"triton"}] == []
