"""Ranks that no launcher of MPI started: programs for PyTorch as they are, which say "gloo"."""

import os
import socket
import subprocess
import sys
import threading

import pytest
from mpiexec import needs_mpi

from eager.distributed import pmi

pytestmark = pytest.mark.once

PROGRAM = """
import os, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP


def demo(rank, world_size, *, fails=-1):
    if "MASTER_ADDR" not in os.environ:
        os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", sys.argv[2]
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    torch.manual_seed(0)
    ddp = DDP(torch.nn.Linear(3, 2))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    ddp(torch.full((4, 3), float(rank))).sum().backward()
    optimizer.step()
    if rank == fails:
        raise ValueError("this rank fails")
    total = torch.tensor([float(rank)])
    dist.all_reduce(total)
    where = ddp.module.weight.grad[0, 0].item()
    sys.stdout.write(f"{rank} {total.item()} {where} {dist.get_backend()} {dist.get_world_size()}\\n")
    sys.stdout.flush()


def failing(rank, world_size):
    demo(rank, world_size, fails=1)


if __name__ == "__main__":
    how = sys.argv[1]
    if how == "env":
        demo(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    elif how in ("spawn", "fails"):
        mp.spawn(failing if how == "fails" else demo, args=(2,), nprocs=2, join=True)
    else:
        context = mp.get_context("fork")
        ranks = [context.Process(target=demo, args=(rank, 2)) for rank in range(2)]
        for each in ranks:
            each.start()
        for each in ranks:
            each.join()
        assert [each.exitcode for each in ranks] == [0, 0]
"""
EXPECTED = ["0 1.0 2.0 gloo 2", "1 1.0 2.0 gloo 2"]


@pytest.fixture
def program(tmp_path):
    needs_mpi()
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def free_port():
    with socket.create_server(("localhost", 0)) as server:
        return server.getsockname()[1]


def run(folder, *command, **more):
    return subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=90, **more
    )


@pytest.mark.parametrize("how", ["spawn", "processes"])
def test_ranks_that_a_program_starts(program, how):
    ran = run(program, "-m", "eager", "program.py", how, str(free_port()))
    assert ran.returncode == 0, ran.stderr
    assert sorted(ran.stdout.splitlines()) == EXPECTED
    said = [line for line in ran.stderr.splitlines() if "'gloo' is PyTorch's engine" in line]
    assert len(said) == 2  # once in each


def test_one_that_fails_ends_the_others(program):
    ran = run(program, "-m", "eager", "program.py", "fails", str(free_port()))
    assert ran.returncode == 1 and ran.stdout == ""
    assert "ValueError: this rank fails" in ran.stderr


def test_under_the_launcher_the_ranks_are_its(program):
    command = ("-m", "jitcap.launch", "-n", "2", "-m", "eager", "program.py", "spawn")
    ran = run(program, *command)
    assert ran.returncode == 0, ran.stderr
    assert sorted(ran.stdout.splitlines()) == EXPECTED
    assert "fn runs in each of them" in ran.stderr


def test_ranks_of_another_launcher(program):
    """One that sets PyTorch's variables, on a machine of its own or not."""
    port, ran = free_port(), {}

    def rank(number):
        told = {"RANK": number, "WORLD_SIZE": 2, "MASTER_ADDR": "localhost", "MASTER_PORT": port}
        env = {**os.environ, **{name: str(value) for name, value in told.items()}}
        ran[number] = run(program, "-m", "eager", "program.py", "env", env=env)

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(each.stdout.strip() for each in ran.values()) == EXPECTED, ran


class Line:
    """A line that keeps what is written to it."""

    def __init__(self):
        self.said = []

    def sendall(self, data):
        self.said += data.decode().splitlines()


def test_what_ranks_are_told():
    manager = pmi.Manager(3)
    ranks = [pmi.Rank(Line()) for _ in range(3)]
    for number, (rank, host) in enumerate(zip(ranks, "aab", strict=True)):
        manager.heard(rank, f"{number} 3 {host} 0")
    assert all(rank.line.said == [pmi.GO] for rank in ranks)

    def ask(rank, line):
        before = len(rank.line.said)
        manager.heard(rank, line)
        return rank.line.said[before:]

    (mapping,) = ask(ranks[0], "cmd=get kvsname=k key=PMI_process_mapping")
    assert mapping.endswith("value=(vector,(0,1,2),(1,1,1))")
    assert "success" in ask(ranks[1], "cmd=put kvsname=k key=a value=b=c")[0]
    assert ask(ranks[2], "cmd=get kvsname=k key=a") == [
        "cmd=get_result rc=0 msg=success value=b=c"
    ]
    assert "not_found" in ask(ranks[2], "cmd=get kvsname=k key=z")[0]
    assert ask(ranks[0], "cmd=barrier_in") == ask(ranks[1], "cmd=barrier_in") == []
    assert ask(ranks[2], "cmd=barrier_in") == ["cmd=barrier_out rc=0"] == ranks[0].line.said[-1:]
    assert "size=3" in ask(ranks[0], "cmd=get_universe_size")[0]
    assert "rc=-1" in ask(ranks[0], "cmd=spawn")[0]
    late = pmi.Rank(Line())
    manager.heard(late, "1 3 a 0")
    assert "rank 1 of 3 came" in late.line.said[0] and late.number == -1
