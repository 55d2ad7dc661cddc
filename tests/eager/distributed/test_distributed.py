"""Several processes, started by mpiexec as a user does; the cases are those of `ranks`."""

import difflib
import re
import subprocess
import sys
from pathlib import Path

import pytest
import ranks
import ranks_long
import ranks_mesh
import ranks_nccl
import ranks_sharded
from mpiexec import all_pass, needs_mpi, run_ranks

import eager
from eager import distributed as dist
from eager.distributed import nccl

pytestmark = pytest.mark.once
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def run(processes, *case, helper=ranks):
    return run_ranks(processes, helper.__file__, *case)


def test_three_ranks():
    all_pass(run(3))


def test_sharding():
    all_pass(run(3, helper=ranks_sharded))


def test_nccl_over_a_stand_in_of_its_interface():
    all_pass(run(2, helper=ranks_nccl))


@pytest.mark.nightly  # what `ranks` and `ranks_sharded` show, at length and compiled by C++
@pytest.mark.parametrize("processes", [2, 4])
def test_twenty_steps(processes):
    all_pass(run_ranks(processes, ranks_long.__file__, limit=600))


def test_groups_and_meshes():
    all_pass(run(4, helper=ranks_mesh))


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("raise", "rank 1 of 2 failed:.*shape '.3.' is invalid"),
        ("hang", r"waited for 1 s: another rank has not come to it.*float32, reduction sum \(at "),
        ("Ctrl-C", "KeyboardInterrupt"),
        ("kill", ""),
    ],
)
def test_a_rank_that_fails_ends_the_job(case, said):
    """In plain Python or in compiled code ("hang": in both)."""
    done = run(2, case)
    assert done.returncode
    assert re.search(said, done.stderr, re.DOTALL), done.stderr


def test_before_the_job_begins():
    assert not dist.is_initialized()
    with pytest.raises(ValueError, match="call init_process_group\\(\\) first"):
        dist.all_reduce(eager.ones(2))
    with pytest.raises(ValueError, match="'ucc' is not there"):
        dist.init_process_group("ucc")
    with (
        pytest.warns(UserWarning, match="'gloo' is PyTorch's engine: here MPI moves"),
        pytest.raises(ValueError, match="'env://' or 'tcp://host:port'; got 'file:///tmp/a'"),
    ):
        dist.init_process_group("gloo", init_method="file:///tmp/a")
    for told in {"world_size": 2}, {"world_size": 2, "rank": 0}:
        with pytest.raises(dist.DistBackendError, match=r"jitcap.launch -n 2 .*MASTER_ADDR"):
            dist.init_process_group("mpi", **told)


def test_every_name_of_pytorch_is_there_or_says_what_to_use():
    theirs = pytest.importorskip("torch").distributed
    imported = {"GroupName", "Logger", "RankType", "log", "logging", "sys", "timedelta", "torch",
                "traceback", "typing", "utils"}  # fmt: skip
    for name in {n for n in dir(theirs) if not n.startswith("_")} - imported - set(dir(dist)):
        with pytest.raises(AttributeError, match=f"has no '{name}': "):
            getattr(dist, name)
    with pytest.raises(AttributeError, match="Did you mean 'all_reduce'"):
        dist.allreduce


def test_without_mpi_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(dist.DistBackendError, match=r"pip install 'jitcap\[distributed\]'"):
        dist.init_process_group("mpi")
    monkeypatch.setitem(sys.modules, "nccl", None)
    with pytest.raises(dist.DistBackendError, match=r"pip install 'jitcap\[distributed-gpu\]'"):
        nccl.over(None)


def test_the_examples_differ_by_three_lines():
    """Added or changed in the program of several processes, and the page shows them."""
    texts = [(EXAMPLES / name).read_text() for name in ("one_process.py", "ranks.py")]
    lines = [*difflib.unified_diff(*map(str.splitlines, texts), n=0, lineterm="")][2:]
    assert sum(line.startswith("+") for line in lines) == 3
    page = (EXAMPLES.parent / "docs" / "distributed.md").read_text()
    shown = re.search(r"^```diff\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)[1]
    assert shown.splitlines() == [line for line in lines if not line.startswith("@@")]


def test_the_example_by_the_launcher(tmp_path):
    """One process goes on where two were, and the model is that of one process alone; status and
    arguments go through."""
    needs_mpi()
    launch = [sys.executable, "-m", "jitcap.launch", "-n", "2"]
    one = [sys.executable, EXAMPLES / "one_process.py"]
    results = []
    for folder, start, epochs in (
        ("a", [*launch, EXAMPLES / "ranks.py"], 3),
        ("a", one, 4),
        ("b", one, 4),
    ):
        command = [*start, tmp_path / folder, "--epochs", str(epochs)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        line = r"epochs (\d) to \d: loss (\S+), accuracy (\S+), 1 graph, 0 splits"
        results.append([tuple(map(float, found)) for found in re.findall(line, done.stdout)])
    both, (resumed,), (alone,) = results
    assert len(both) == 2 and len({*both}) == 1
    assert resumed[0] == 3 and resumed[2] == alone[2] > 0.9
    assert resumed[1] == pytest.approx(alone[1], rel=1e-3)
    leaves = tmp_path / "leaves.py"
    leaves.write_text(
        "import os, sys, eager, eager.distributed as dist\n"
        "dist.init_process_group()\n"
        "assert os.environ['RANK'] == os.environ['LOCAL_RANK'] == str(dist.get_rank())\n"
        "if dist.get_rank(): sys.exit(int(sys.argv[1]))\n"
        "dist.all_reduce(eager.ones(2))\n"
    )
    done = subprocess.run([*launch, leaves, "3"], capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert re.search(r"rank 1 of 2 \(process \d+\) ended with status 3", done.stderr)


OTHER_NUMBERS = """
import eager
import eager.distributed as dist
from eager.distributed import functional
from eager.nn.parallel import DistributedDataParallel
from jitcap import jit

dist.init_process_group()
r, n = dist.get_rank(), dist.get_world_size()
model = DistributedDataParallel(eager.nn.Linear(2, 1, bias=False))
eager.nn.init.ones_(model.module.weight)
opt = eager.optim.SGD(model.parameters(), 1.0)
x = eager.full((1, 2), r + 1.0)

@jit
def step(x):
    model(x).sum().backward()
    opt.step()

@jit
def mean(x):
    dist.all_reduce(x, dist.ReduceOp.AVG)
    return x + 0

@jit
def rows(x):
    return functional.all_gather_tensor(x).sum()

@jit
def sent(x):
    functional.broadcast(x, 1).backward(eager.tensor([1.0, eager.inf]))

step(x)
assert (model.module.weight == 1 - (n + 1) / 2).all(), (n, model.module.weight)
assert (mean(x.clone()) == (n + 1) / 2).all(), n
assert rows(x) == n * (n + 1), n
weight = eager.ones(2, requires_grad=True)
sent(weight)
assert weight.grad.tolist() == ([n, eager.inf] if r == 1 else [0, 0]), (r, n, weight.grad)
"""


def test_compiled_code_on_disk_is_for_its_number_of_ranks(tmp_path, monkeypatch):
    """An average and a derivative have the number of ranks, and a rank, as constants."""
    monkeypatch.setenv("JITCAP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CHECK", "0")  # which captures what is on disk again
    program = tmp_path / "train.py"
    program.write_text(OTHER_NUMBERS)
    for processes in (2, 3):
        done = run_ranks(processes, program)
        assert done.returncode == 0, done.stderr
