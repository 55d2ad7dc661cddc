"""Several processes, started by mpiexec as a user does; the cases are those of `ranks`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import ranks
import ranks_mesh
import ranks_nccl
import ranks_sharded
from mpiexec import all_pass, needs_mpi, run_ranks

import eager
from eager import distributed as dist
from eager.distributed import nccl

pytestmark = pytest.mark.once


def run(processes, *case, helper=ranks):
    return run_ranks(processes, helper.__file__, *case)


def test_three_ranks():
    all_pass(run(3))


def test_sharding():
    all_pass(run(3, helper=ranks_sharded))


def test_nccl_over_a_stand_in_of_its_interface():
    all_pass(run(2, helper=ranks_nccl))


def test_groups_and_meshes():
    all_pass(run(4, helper=ranks_mesh))


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("raise", "rank 1 of 2 failed:"),
        ("hang", "waited for 1 s: another rank has not come to it"),
        ("hang compiled", "float32, reduction sum (at "),
        ("kill", ""),
    ],
)
def test_a_rank_that_fails_ends_the_job(case, said):
    done = run(2, case)
    assert done.returncode
    assert said in done.stderr, done.stderr
    if case == "raise":
        assert "shape '[3]' is invalid" in done.stderr


def test_before_the_job_begins():
    assert not dist.is_initialized()
    with pytest.raises(ValueError, match="call init_process_group\\(\\) first"):
        dist.all_reduce(eager.ones(2))
    with pytest.raises(ValueError, match="'gloo' is not there"):
        dist.init_process_group("gloo")
    with pytest.raises(ValueError, match="leave init_method and store out"):
        dist.init_process_group("mpi", init_method="tcp://localhost:1")


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


def test_the_example_by_the_launcher(tmp_path):
    """As many ranks as there are, the model is the same; status and arguments go through."""
    needs_mpi()
    launch = [sys.executable, "-m", "jitcap.launch", "-n", "2"]
    example = Path(__file__).resolve().parents[3] / "examples" / "ranks.py"
    done = subprocess.run([*launch, example], capture_output=True, text=True, check=True)
    ranks_, accuracies = zip(
        *sorted(re.findall(r"rank (\d) of 2: .*?accuracy (\S+), 1 graph, 0 splits", done.stdout)),
        strict=True,
    )
    assert ranks_ == ("0", "1") and accuracies[0] == accuracies[1] > "0.9"
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
