"""`python -m eager`: programs that import torch, and the list of what is missing."""

import dataclasses
import os
import subprocess
import sys

import pytest

import eager
from eager import nn
from eager.__main__ import main
from eager.programs import missing, names

PROGRAM = """
import sys

import torch
import torch.backends.cudnn as cudnn
import torch.nn.functional as F
import torch.nn.parallel
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.tensorboard import SummaryWriter

import beside

assert F is nn.functional is sys.modules["torch.nn.functional"]
assert cudnn.is_available() is False and "eager" in torch.__file__ and torch.__version__ >= "2.0"
import torch._dynamo
import torch._inductor.config as settings

torch._dynamo.config.suppress_errors = settings.max_autotune = True
torch._dynamo.reset()
try:
    import torch._export
except ImportError as error:
    print(type(error).__name__, error.name)

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
try:
    from einops.layers.torch import Rearrange
    from safetensors.torch import load_file, save_file
except ImportError:
    pass
else:
    model.append(Rearrange("b c -> b c"))
    save_file(model.state_dict(), "model.safetensors")
    model.load_state_dict(load_file("model.safetensors"))
model = torch.compile(model, backend="eager")
optimizer = optim.Adam(model.parameters())
rows = TensorDataset(torch.randn(8, 4), torch.randint(0, 2, (8,)))
writer = SummaryWriter("runs")
for step, (x, y) in enumerate(DataLoader(rows, batch_size=4)):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    writer.add_scalar("loss", loss.item(), step)
writer.close()
print(sys.argv[1:], __name__, torch.is_tensor(loss))
if len(sys.argv) > 1:
    sys.exit(int(sys.argv[1]))
if False:
    torch.lobpcg(torch.fx.symbolic_trace(model))
torch.ones(2).no_such_method()
"""


def run(folder, *arguments):
    command = [sys.executable, "-m", "eager", "program.py", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env={**os.environ, "CHECK": "0"}
    )


def test_a_program_for_pytorch(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "beside.py").write_text("import torch\n\nuse = lambda: torch.export.Dim\n")
    ran = run(tmp_path)
    assert ran.stdout.splitlines() == ["ModuleNotFoundError torch._export", "[] __main__ True"]
    assert ran.returncode == 1
    trace, _, told = ran.stderr.partition("not in this library, of what the program names:\n")
    first, *frames = [row for row in trace.splitlines() if row.startswith("  File")]
    assert (os.path.basename(first.split('"')[1]), frames) == ("program.py", [])
    assert "has no attribute 'no_such_method'" in trace.splitlines()[-1]
    rows = {row.split(": ")[1]: row.split(": ")[0].strip() for row in told.splitlines()}
    asked = {"torch._export", "torch.lobpcg", "torch.fx.symbolic_trace", "torch.export.Dim"}
    assert rows.keys() == asked | {"Tensor.no_such_method"}
    assert "torch.lobpcg: not there yet\n" in told and "symbolic_trace: jitcap.explain" in told
    line = PROGRAM[: PROGRAM.index("torch.lobpcg")].count("\n") + 1
    assert rows["torch.lobpcg"] == f"program.py:{line}"
    ran = run(tmp_path, "3")
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (3, "['3'] __main__ True")


LIBRARY = """
import torch
import torch.types
import torch.utils._pytree as pytree
from torch import TensorType, nn
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch._higher_order_ops.associative_scan import associative_scan
from torch.amp.autocast_mode import autocast
from torch.distributed._composable.fsdp import fully_shard
from torch.distributed._functional_collectives import all_to_all_single_autograd, wait_tensor
from torch.distributed.algorithms.join import Join
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.fsdp import CPUOffloadPolicy, FullyShardedDataParallel
from torch.distributed.fsdp.fully_sharded_data_parallel import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from torch.distributed.tensor.parallel import ColwiseParallel
from torch.distributed.tensor.placement_types import _StridedShard
from torch.hub import HASH_REGEX
from torch.nn.attention.flex_attention import _DEFAULT_SPARSE_BLOCK_SIZE, AuxRequest, flex_attention
from torch.nn.init import _calculate_correct_fan
from torch.nn.modules.module import _EXTRA_STATE_KEY_SUFFIX, _IncompatibleKeys
from torch.optim.optimizer import ParamsT
from torch.overrides import TorchFunctionMode


class Output(dict):
    pass


class Mode(TorchFunctionMode):
    pass


def apart(
    x: "torch.types.Number", on: torch.cuda.Stream | torch.Stream | None = None
) -> torch.cuda.StreamContext:
    return torch.cuda.stream(on)


pytree.register_pytree_node(
    Output,
    pytree._dict_flatten,
    lambda values, context: Output(pytree._dict_unflatten(values, context)),
    flatten_with_keys_fn=pytree._dict_flatten_with_keys,
)
found = Output(a=torch.ones(2), b=[torch.zeros(1)])
print(pytree.tree_map(torch.sum, found), pytree.tree_flatten_with_path(found)[0][1][0])
x = nn.Parameter(torch.ones(2, 3))
print(isinstance(x, DTensor), isinstance(x, (FullyShardedDataParallel, DTensor)), Shard(0), Partial())
print(Shard(1) == Shard(1), Shard(1).is_shard(0), Replicate().is_replicate(), Partial().is_partial())
torch._dynamo.mark_static_address(x)
with TransformGetItemToIndex(), apart(1):
    print(associative_scan(torch.add, torch.arange(4), dim=0).tolist())
print(HASH_REGEX.search("net-0123abcd.pth").group(1), _calculate_correct_fan(x, "FAN_OUT"))
print({torch.uint16: "U16", torch.float8_e4m3fn: "F8"}[torch.uint16], torch.finfo(torch.float8_e5m2).max)
print(torch.complex32.itemsize, torch.complex32.is_complex, x.dtype in (torch.complex32, torch.half))
print(torch.float8_e4m3fn.itemsize, torch.uint32.is_signed, torch.uint8.is_signed, torch.bool.is_signed)
q = torch.randn(1, 1, 3, 2)
out, aux = flex_attention(q, q, q, return_aux=AuxRequest(lse=True, max_scores=True))
scores = q @ q.mT / 2**0.5
print(torch.allclose(aux.lse, scores.logsumexp(-1)), torch.allclose(aux.max_scores, scores.amax(-1)))
for refused in (
    lambda: torch.zeros(2, dtype=torch.uint16),
    lambda: x.to(torch.float8_e5m2),
    lambda: torch.tensor([1], dtype=torch.uint64),
    lambda: distribute_tensor(x),
    lambda: Mode().__enter__(),
):
    try:
        refused()
    except (RuntimeError, TypeError) as error:
        print(type(error).__name__, error)
"""


def test_what_libraries_name_at_their_top(tmp_path):
    (tmp_path / "program.py").write_text(LIBRARY)
    ran = run(tmp_path)
    assert "Traceback" not in ran.stderr and "fsdp.CPUOffloadPolicy" in ran.stderr
    assert ran.stdout.splitlines() == [
        "{'a': tensor(2.), 'b': [tensor(0.)]} (MappingKey(key='b'), SequenceKey(idx=0))",
        "False False Shard(dim=0) Partial(reduce_op='sum')",
        "True False True True",
        "[0, 1, 3, 6]",
        "0123abcd 2",
        "U16 57344.0",
        "4 True False",
        "1 False False False",
        "True True",
        "TypeError there are no tensors of eager.uint16, only the name of the type",
        "TypeError there are no tensors of eager.float8_e5m2, only the name of the type",
        "TypeError there are no tensors of eager.uint64, only the name of the type",
        "RuntimeError distributed.tensor.distribute_tensor: parameters are spread by "
        "dist.fsdp.fully_shard; other layouts are not there",
        "RuntimeError Mode: calls of functions cannot be changed from outside here; hooks of "
        "modules see their calls, and the profiler the operations",
    ]


INNER = """
from typing import Optional

import torch
from torch._subclasses.fake_tensor import FakeTensor, is_fake
from torch.futures import Future
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.fx.experimental.symbolic_shapes import guard_or_false
from torch.jit.annotations import List
from torch.nn.parallel.distributed import DistributedDataParallel as DDP
from torch.nn.parallel.scatter_gather import gather, scatter
from torch.serialization import DEFAULT_PROTOCOL
from torch.utils.data._utils.collate import collate, default_collate_fn_map
from torch.utils.data._utils.pin_memory import default_convert
from torch.utils.data._utils.worker import get_worker_info

from torch import fx
from torch._C import Value
from torch._tensor_str import PRINT_OPTS, _add_suffixes, _tensor_str
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from torch.autograd.profiler import EventList
from torch.distributed import rpc
from torch.distributions.utils import _standard_normal, _sum_rightmost
from torch.functional import einsum
from torch.fx.node import Node
from torch.nn.common_types import _size_2_t
from torch.serialization import MAP_LOCATION
from torch.torch_version import TorchVersion
from torch.utils.tensorboard.writer import SummaryWriter

assert torch.__name__ == "torch" and not rpc.is_available() and not hasattr(rpc, "api")
assert type(torch.__version__) is TorchVersion and (2, 9) < torch.__version__ > "2.9.1"
assert torch.__version__ == "2.13.0" != "" and torch.__version__ < (3,) and torch.__config__.show()


class Interpreter(fx.Interpreter):
    run_node = None  # classes of what is not there can be defined


try:
    Interpreter(None)
except RuntimeError as error:
    print(error)
TABLE = {torch.ops.aten._to_copy.default: 1}
print(torch._cast_Long(torch.ones(1)), torch._segment_reduce(
    torch.ones(3), "amax", offsets=torch.tensor([0, 1, 3])).tolist())
parts = _unflatten_dense_tensors(_flatten_dense_tensors([torch.ones(2), torch.zeros(1, 2)]), [
    torch.empty(2), torch.empty(1, 2)])
print(parts, _tensor_str(torch.ones(2, 2), 1), _add_suffixes("A([1]", ["size=(2,)"], 2, True))
rows, columns = torch.tensor([0, 0, 2]), torch.tensor([1, 2, 0])
starts = torch._convert_indices_from_coo_to_csr(rows, 3)
print(starts.tolist(), torch._convert_indices_from_csr_to_coo(starts, columns).tolist())
assert parts[0]._cdata == parts[0]._cdata != parts[1]._cdata
net = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.ReLU())
print([n for n, _ in net._named_members(lambda m: m._parameters.items(), prefix="net")])
torch.nn.init._no_grad_uniform_(parts[0], 0.0, 1.0)
layer = torch.nn.Linear(2, 1, bias=False)
with torch.nn.utils.stateless._reparametrize_module(layer, {"weight": torch.ones(1, 2)}):
    print(layer(torch.ones(2)).item())


@torch.jit._overload
def twice(x):
    pass


torch._C._log_api_usage_once("package.layer")
torch._C._jit_set_profiling_mode(False)
torch._C._jit_set_profiling_mode(False)
x = torch.torch.ones(2)


def later(x: Future[torch.Tensor]) -> List[Optional[int]]:
    return [3]


assert DDP is torch.nn.parallel.DistributedDataParallel and torch.utils.data._utils.collate
assert isinstance(x, torch._C._TensorBase) and issubclass(torch.nn.Parameter, torch.Tensor)
assert not isinstance(x, (FakeTensor, torch.Future, torch.SymInt, torch.SymFloat)) or is_fake(x)
assert get_proxy_mode() is torch._C._get_tracing_state() is None and guard_or_false(x.dim() == 1)
assert torch._C._nn.gelu is torch.nn.functional.gelu and torch._C._VariableFunctions.relu
assert not torch._C._are_functorch_transforms_active()
print(torch.vmap(lambda x: x + torch._C._are_functorch_transforms_active())(x).tolist())
print(torch.jit.isinstance(later(x), List[Optional[int]]), torch.jit.isinstance([x], List[int]))
try:
    torch._C._no_such
except AttributeError as error:
    print(error)
"""


def test_inner_names_that_packages_read(tmp_path):
    (tmp_path / "program.py").write_text(INNER)
    ran = run(tmp_path)
    assert ran.stdout.splitlines() == [
        "fx.Interpreter: jitcap.explain shows a graph; programs do not change it",
        "tensor([1]) [1.0, 1.0]",
        "(tensor([1., 1.]), tensor([[0., 0.]])) [[1., 1.],", "  [1., 1.]] A([1],", "  size=(2,))",
        "[0, 2, 2, 3] [[0, 0, 2], [1, 2, 0]]",
        "['net.0.weight', 'net.0.bias']",
        "2.0",
        "[2.0, 2.0]", "True False", "module 'torch._C' has no attribute '_no_such'",
    ]  # fmt: skip
    assert ran.returncode == 0 and ran.stderr.count("of TorchScript's compiler") == 1
    listed = ran.stderr.partition("of what the program names:\n")[2]
    assert {row.split(": ")[1] for row in listed.splitlines()} <= {
        "torch._C._no_such", "torch._C.Value", "torch.fx.Interpreter", "torch.fx.node.Node", "torch.ops.aten",
        "torch._subclasses.fake_tensor.FakeTensor", "torch.futures.Future",
        "torch.nn.parallel.scatter_gather.gather", "torch.nn.parallel.scatter_gather.scatter",
    }  # fmt: skip


STARTS = """
import importlib.util, os, sys

import functorch
import torch
import torch.multiprocessing as mp
from torch import nn


def work(rank, layer, part, queue):
    with torch.no_grad():
        layer.weight[rank] = rank + 1.0
        part.fill_(7.0)
    queue.put((rank, torch.nn.__name__, part.is_shared()))


if __name__ == "__main__":
    layer = nn.Linear(1, 2).share_memory()
    for way in "spawn", "forkserver":
        context = mp.get_context(way)
        queue = context.SimpleQueue()
        given = [(rank, layer, layer.bias.data[rank:], queue) for rank in range(2)]
        workers = [context.Process(target=work, args=each) for each in given]
        for each in workers:
            each.start()
        rows = sorted(queue.get() for _ in workers)
        for each in workers:
            each.join()
        print(way, rows, layer.weight.tolist(), layer.bias.tolist())
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
    fn, params = functorch.make_functional(layer)
    print(functorch.vmap(fn, (None, 0))(params, torch.ones(3, 1)).shape)
    loader = importlib.util.find_spec("torch.utils.collect_env").loader
    assert loader.get_code("torch.utils.collect_env") is not None
    print(os.path.basename(sys.argv[0]), sys.argv[1:], __spec__.name)
"""


def test_processes_of_a_module_have_the_names(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "starts.py").write_text(STARTS)
    command = [sys.executable, "-m", "eager", "-m", "package.starts", "a"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    rows = "[(0, 'eager.nn', True), (1, 'eager.nn', True)] [[1.0], [2.0]] [7.0, 7.0]"
    assert ran.stdout.splitlines() == [
        f"spawn {rows}", f"forkserver {rows}",
        "eager.Size([3, 2])", "starts.py ['a'] package.starts",
    ]  # fmt: skip
    assert ran.returncode == 0 and ran.stderr == ""
    command = [sys.executable, "-m", "eager", "-m", "no_such"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 1 and "No module named 'no_such'" in ran.stderr


def test_names_in_a_text(tmp_path):
    (tmp_path / "program.py").write_text(
        "import torch as t\nfrom torch import nn as n, ao\nimport torch._inductor.config\n"
        "n.Linear.no_such\nt.nn.functional.relu.x\nt.cuda.no_such\nself.t.no_such\nt.onnx.export\n"
    )
    assert list(missing.in_text(tmp_path / "program.py")) == [
        ("torch.ao", 2), ("torch._inductor", 3), ("torch.nn.Linear.no_such", 4),
        ("torch.cuda.no_such", 6), ("torch.onnx.export", 8),
    ]  # fmt: skip


def abstract(x):
    raise NotImplementedError("of a class of the program")


def test_errors_of_the_program_are_not_listed():
    calls = (
        (abstract, {"x": 1}, False), (abstract, {"y": 1}, False), (nn.Linear, {"no": 1}, True),
        (eager.compile, {"model": len, "backend": len}, True), (eager.ones, {"no": 1}, True),
    )  # fmt: skip
    for fn, given, ours in calls:
        with pytest.raises((NotImplementedError, TypeError)) as caught:
            fn(**given)
        assert missing._is_ours(caught.value) is ours, caught.value


def test_a_name_is_told_as_it_is(monkeypatch):
    monkeypatch.setattr(missing, "_asked", {})
    for name in ("eager.nn.eager_mode", "torch.compiler.eager", "Tensor.eager"):
        missing.note(name, "train.py:1")
    assert [name for name, _ in missing._asked] == [
        "torch.nn.eager_mode", "torch.compiler.eager", "Tensor.eager"
    ]  # fmt: skip


def test_every_missing_name_has_a_reason(capsys):
    spaces = names.namespaces()
    absent = [f"{space.name}.{name}" for space in spaces for name in space.missing]
    assert [name for name in absent if not names.reason(name)] == []
    assert main(["names", "torch"]) == 0
    printed = capsys.readouterr().out
    assert "torch.nn.functional" in printed
    share = int(printed.splitlines()[-1].split("%")[0])
    assert share >= 70
    assert main(["names", "torch", "--missing"]) == 0
    assert "torch_reasons" not in capsys.readouterr().out
    assert main(["names", "numpy"]) == 2
    assert main(["--help"]) == 0
    assert main([]) == main(["-m"]) == 2


def test_names_that_programs_have_in_annotations_and_questions():
    """Code that was copied from PyTorch, and what is asked of a model and of a tensor."""
    fx, x, jit = eager.fx, eager.ones(2), eager.jit

    @fx.wrap
    def scaled(x: eager.Tensor, memory_format: eager.memory_format = eager.contiguous_format):
        return x * 2

    assert scaled(x).tolist() == [2, 2] and isinstance(x.layout, eager.layout)
    assert not isinstance(x, fx.Proxy)
    with pytest.raises(RuntimeError, match=r"fx.Tracer: jitcap.explain shows a graph"):

        class Mine(fx.Tracer):  # can be defined
            pass

        Mine()

    with pytest.raises(RuntimeError, match="futures.Future: operations run one after"):
        eager.futures.Future()
    assert not eager.overrides.has_torch_function((x,))
    assert not eager.overrides.has_torch_function_unary(x)
    assert not eager.overrides.has_torch_function_variadic(x, x)
    assert eager.overrides.is_tensor_like(x) and not eager.overrides.is_tensor_like([1.0])
    with pytest.raises(TypeError, match="no type has one of its own"):
        eager.overrides.handle_torch_function(scaled, (x,), x)
    assert not x.is_mkldnn and not x.is_xla
    assert eager.get_autocast_cpu_dtype() is eager.bfloat16
    assert eager.multiprocessing.spawn is not None
    config = dataclasses.make_dataclass("Config", ["dtype", "device"])(x.dtype, x.device)
    assert dataclasses.asdict(config) == {"dtype": eager.float32, "device": x.device}
    with pytest.raises(AttributeError, match="not writable"):
        x.dtype.name = "mine"
    layer = nn.Linear(2, 2)
    assert jit.script(layer) is layer and not isinstance(layer, jit.ScriptModule)
    assert issubclass(jit.ScriptModule, nn.Module)
    forked = jit.fork(layer, x)
    assert forked.done() and jit.wait(forked).tolist() == forked.value().tolist()
    assert isinstance(forked, eager.Future)


@pytest.mark.parametrize("annotation", [
    int, float, bool, list[int], list[list[int]], tuple[int, str], tuple[int], dict[str, int],
    int | None, list[int | None],
])  # fmt: skip
def test_values_of_annotated_types(annotation):
    jit = eager.jit
    torch = pytest.importorskip("torch")
    values = (1, 1.0, True, None, [1], ["a"], [[1]], [None, 1], (1, "a"), (1,), {"a": 1}, {1: 1})
    for value in values:
        assert jit.isinstance(value, annotation) is torch.jit.isinstance(value, annotation), value
    assert jit.isinstance(eager.ones(1), eager.Tensor) and jit.isinstance([], list[int])


def test_reasons_are_those_of_names_that_pytorch_has():
    assert names.reason_of("torch.lobpcg") == "not there yet"
    assert names.reason_of("torch.utils.no_such") == names.reason_of("torch.nn.Linear") == ""


TRAINERS = """
import dataclasses
import torch
from torch import nn
from torch._C import _TensorMeta
from torch._dynamo import OptimizedModule
from torch._dynamo.eval_frame import is_dynamo_supported
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from torch.amp.grad_scaler import GradScaler, OptState
from torch.autograd.profiler import EventList
from torch.distributed import ReduceOp
from torch.distributed.algorithms.join import Join
from torch.distributed.distributed_c10d import get_rank
from torch.distributed.fsdp.fully_sharded_data_parallel import FullyShardedDataParallel
from torch.distributed.tensor import DTensor
from torch.nn.modules.module import _IncompatibleKeys
from torch.nn.parallel.distributed import DistributedDataParallel
from torch.overrides import TorchFunctionMode
from torch.types import Device, Number, _size
from torch.utils.data._utils.collate import collate, default_collate_fn_map
from torch.utils.data.dataloader import _BaseDataLoaderIter, _DatasetKind

layer = nn.Linear(1, 1)
kinds = Join, FullyShardedDataParallel, DTensor, OptimizedModule, DistributedDataParallel
print([isinstance(layer, kind) for kind in kinds], isinstance(layer.weight, _TensorMeta))
print(torch._C._nn._parse_to("cpu", torch.float64, non_blocking=True))
print(torch._C._log_api_usage_once("here"), torch._C._jit_set_profiling_executor(False))
print(isinstance(2, Number), ReduceOp.RedOpType is type(ReduceOp.SUM), is_dynamo_supported())
try:
    raise KeyError("k")
except (torch._dynamo.exc.Unsupported, KeyError) as error:
    print(repr(error))
print(hasattr(torch._C, "_no_such_name"), torch.nn.parallel.DistributedDataParallel is kinds[-1])
print(isinstance(layer.load_state_dict(layer.state_dict()), _IncompatibleKeys))
flat = _flatten_dense_tensors([torch.ones(2, 1), torch.zeros(1)])
flat[1] = 5
print(flat.tolist(), [t.tolist() for t in _unflatten_dense_tensors(flat, [flat[1:], flat[:1]])])
"""


def test_modules_inside_of_pytorchs_that_trainers_import(tmp_path):
    (tmp_path / "program.py").write_text(TRAINERS)
    ran = run(tmp_path)
    assert ran.stdout.splitlines() == [
        "[False, False, False, False, False] False",
        "(device(type='cpu'), eager.float64, True, None)",
        "None None",
        "True True True",
        "KeyError('k')",
        "False True",
        "True",
        "[1.0, 5.0, 0.0] [[1.0, 5.0], [0.0]]",
    ], ran.stderr
