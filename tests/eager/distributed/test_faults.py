"""Jobs in which a rank fails: how they end, and how they go on (`scripts/faults` has the rest)."""

import copy
import json
import os
import re
import signal
import time
from datetime import timedelta

import faults
import numpy as np
import pytest
from mpiexec import needs_mpi

from eager.distributed import DistError, same_program
from jitcap import launch

pytestmark = pytest.mark.once


def test_a_rank_that_is_killed_in_a_save(tmp_path):
    """The launcher says which; the training goes on with the losses that it would have had. So it
    is in a thread of `async_save`."""
    needs_mpi()
    expected = faults.uninterrupted(tmp_path / "whole", 6)
    for kind in ("save", "async"):
        faults.fail(kind, tmp_path / kind, expected)
        run = tmp_path / kind / "run"
        assert sorted(p.name for p in run.iterdir()) == ["3", "5"]
        assert (tmp_path / kind / "shared").read_text()  # that it is gone is looked at by `fail`


def test_a_rank_that_is_killed_while_it_starts(tmp_path):
    """MPI does not know of it yet, and the other waits for it."""
    needs_mpi()
    process = faults.job(tmp_path, 1)
    while not faults.alive(tmp_path, "--as-rank"):
        time.sleep(0.005)
    os.kill(faults.alive(tmp_path, "--as-rank")[0], signal.SIGKILL)
    faults.ended(tmp_path, process)
    assert process.returncode == 137
    assert re.search(r"rank \d of 2 \(process \d+\) was", (tmp_path / "output").read_text())


def test_memory_that_is_in_use_is_not_removed(tmp_path, monkeypatch):
    """Other jobs of the user open, close and remove files meanwhile."""
    monkeypatch.setattr(launch, "_MEMORY", tmp_path)
    (tmp_path / "mpich_shm_gone").symlink_to(tmp_path / "nothing")
    (tmp_path / "mpich_shm_left").touch()
    with (tmp_path / "mpich_shm_open").open("w"):
        assert [path.name for path in launch._unused(0.0)] == ["mpich_shm_left"]


class Ranks:
    """An engine whose other ranks have what a function makes of this one's."""

    size = 3

    def __init__(self, change):
        self.change = change

    def all_gather(self, out, array):
        out[:] = array
        if array.dtype == np.uint8:
            theirs = json.loads(bytes(array).strip())
            del theirs["imported"]["padding"]
            self.change(theirs["all"], theirs["imported"])
            text = json.dumps(theirs).encode()
            out[1] = ord(" ")
            out[1, : len(text)] = np.frombuffer(text, np.uint8)
        return self

    def done(self):
        return True


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (lambda every, _: every.update(Python="3.9"), r"rank 1 has Python 3.9, not 3\.\d+"),
        (lambda _, found: found.update(numpy="1.9"), "rank 1 has numpy 1.9, not "),
        (lambda every, _: every.update(CXX="g++"), r"rank 1 has CXX g\+\+, not unset"),
        (lambda every, _: every.update({"the package eager": "0"}), "the package eager 0, not"),
        (lambda _, found: found.pop("numpy"), None),  # imported later, or not at all
        (lambda *_: None, None),
    ],
)
def test_ranks_that_differ(what, said, monkeypatch):
    facts = copy.deepcopy(same_program.facts())
    facts["imported"]["padding"] = "x" * 80  # room for what the other rank has more
    monkeypatch.setattr(same_program, "facts", lambda: facts)
    if said is None:
        same_program.require_same_program(Ranks(what), timedelta(seconds=1))
        return
    with pytest.raises(DistError, match=said):
        same_program.require_same_program(Ranks(what), timedelta(seconds=1))
