"""Submodules have the names and the classes that they have in PyTorch."""

import importlib

import pytest

from eager.base.submodules import _HOMES

torch = pytest.importorskip("torch")
NAMES = [
    f"{package}.{name}"
    for package, homes in _HOMES.items()
    for names in homes.values()
    for name in names.split()
]
NOT_HERE = {  # helpers of PyTorch's own, and what is older than its names of today
    "ConstraintRegistry", "D", "ExpRelaxedCategorical", "LogitRelaxedBernoulli",
    "adadelta", "adagrad", "adamax", "adamw", "nadam", "radam", "rmsprop",
    "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d",
    "clip_grad_norm", "Flatten", "Unflatten",
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_has_what_pytorch_has_there(name):
    theirs, ours = (
        importlib.import_module(f"torch.{name}"),
        importlib.import_module(f"eager.{name}"),
    )
    public = {
        n for n, v in vars(theirs).items()
        if not n.startswith("_") and getattr(v, "__module__", "") == theirs.__name__
    }  # fmt: skip
    lacks = {n for n in public - NOT_HERE if not hasattr(ours, n)}
    assert not lacks


TOP_OF_SCRIPTS = """
import eager as torch
import eager.backends.cudnn as cudnn
import eager.distributed as dist
import eager.nn as nn
import eager.onnx
import eager.utils.model_zoo as model_zoo
from eager.autograd.profiler import record_function
from eager.autograd.variable import Variable
from eager.backends.cuda import matmul
from eager.hub import load_state_dict_from_url
from eager.nn.modules.transformer import _get_clones
from eager.nn.parallel import DistributedDataParallel as DDP
from eager.profiler import ProfilerActivity, profile
from eager.utils.data.distributed import DistributedSampler

cudnn.benchmark = True
torch.backends.cudnn.deterministic = True
assert torch.backends.cudnn is cudnn and cudnn.deterministic and cudnn.version() is None
with cudnn.flags(benchmark=False):
    assert not cudnn.benchmark
with torch.backends.cuda.sdp_kernel(enable_math=False, enable_flash=True):
    assert not torch.backends.cuda.math_sdp_enabled() and torch.backends.cuda.flash_sdp_enabled()
torch.backends.cuda.enable_mem_efficient_sdp(False)
assert torch.backends.cuda.math_sdp_enabled()
assert not torch.backends.cuda.mem_efficient_sdp_enabled()
torch.backends.cudnn.conv.fp32_precision = "tf32"
assert torch.backends.opt_einsum.is_available() is False
assert cudnn.benchmark and not matmul.allow_tf32 and not torch.backends.mkldnn.is_available()
torch.set_default_tensor_type("torch.DoubleTensor")
assert torch.ones(1).dtype == torch.float64
torch.set_default_tensor_type(torch.FloatTensor)
assert torch.ones(1).dtype == torch.float32
assert not (torch.xpu.is_available() or torch.mps.is_available() or dist.is_initialized())
model = torch.jit.trace(torch.jit.script(nn.Linear(2, 1)), torch.ones(1, 2), check_trace=False)
assert not isinstance(model, DDP) and isinstance(model, nn.Module)
model.compile(backend="eager")
assert nn.parallel.data_parallel(model, torch.ones(3, 2)).shape == (3, 1)
torch._assert(torch.ones(1) == 1, "one")
layers = _get_clones(nn.Linear(2, 2), 3)
scaler = torch.GradScaler("cpu")
with profile(activities=[ProfilerActivity.CPU]) as found, record_function("forward"):
    scaler.scale(model(torch.ones(3, 2)).sum()).backward()
"""


def test_what_stands_at_the_top_of_scripts_runs(tmp_path):
    program = {}
    with pytest.warns(UserWarning, match="set_default_tensor_type is deprecated"):
        exec(TOP_OF_SCRIPTS, program)
    (part,) = (row for row in program["found"].key_averages() if row.key == "forward")
    assert (part.key, part.count) == ("forward", 1) and "forward" in program[
        "found"
    ].key_averages().table()
    assert program["model"].forward.stats.compiles == 1
    for refused in (
        program["torch"].onnx.export,
        program["torch"].xpu.synchronize,
        program["torch"].cuda.CUDAGraph,
        program["torch"].library.triton_op,
        program["torch"].optim.SparseAdam,
        program["torch"].cuda.nvtx.range_push,
    ):
        with pytest.raises(
            RuntimeError, match="not there|no devices|this format|jitcap|dense here|profiler"
        ):
            refused(program["model"])
    with pytest.warns(UserWarning, match="deprecated"), pytest.raises(TypeError, match="no constr"):
        program["torch"].set_default_tensor_type("torch.NoTensor")
    weights = {"w": program["torch"].ones(2)}
    program["torch"].save(weights, tmp_path / "w-00000000.pth")
    address = (tmp_path / "w-00000000.pth").as_uri()
    for load in (program["load_state_dict_from_url"], program["model_zoo"].load_url):
        assert load(address, tmp_path / "kept")["w"].tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="invalid hash"):
        load(address, tmp_path / "checked", check_hash=True)
    assert not list((tmp_path / "checked").iterdir())


def test_parts_are_sorted_as_asked():
    from eager.profiler import Timing, Timings, profile

    parts = Timings([Timing("once", 1, 9.0, 1.0), Timing("often", 5, 10.0, 2.0)])
    first = {
        key: parts.table(key).splitlines()[1].split()[0] for key in ("cpu_time", "count", None)
    }
    assert first == {"cpu_time": "once", "count": "often", None: "often"}
    assert "often" in parts.table("self_cpu_time_total").splitlines()[1]
    with profile() as found:
        pass
    assert "record_function(name)" in found.key_averages().table()
