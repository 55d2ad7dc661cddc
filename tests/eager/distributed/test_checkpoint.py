"""Checkpoints of several ranks (the cases are those of `ranks_checkpoint`), and of one process."""

import copy
import json
import os
from pathlib import Path

import numpy as np
import pytest
import ranks_checkpoint
from mpiexec import all_pass, run_ranks

import eager
import eager.distributed.checkpoint as dcp
from eager import nn
from eager.distributed.checkpoint import folder as folders
from eager.distributed.checkpoint import metadata

pytestmark = pytest.mark.once


def test_three_ranks_and_one(tmp_path):
    """What three ranks saved is the state of one process, too."""
    all_pass(run_ranks(3, ranks_checkpoint.__file__, tmp_path))
    alone = ranks_checkpoint.Program(seed=4, wrap=lambda module: module)
    state = alone.state()
    dcp.load(state, checkpoint_id=tmp_path / "run" / "step_3")
    assert state["done"] == 3 and alone.opt.param_groups[0]["lr"] == 0.025
    assert alone.opt.state[alone.model[0].weight]["step"] == 3
    assert (state["tied"][0] == alone.model[0].weight).all()
    alone.done = 3
    assert len(set(alone.train(3, 0, 1))) == 3


def state_of_everything():
    return {
        "x": eager.arange(6.0).reshape(2, 3),
        "wide": eager.ones(2, dtype=eager.complex128),
        "half": eager.ones(3, dtype=eager.bfloat16),
        "scalar": eager.tensor(2.5),
        "numpy": np.random.get_state(),
        "plain": [1, (2.0, {"a": None, 3: b"c"}), float("inf"), {4}],
        "nested": {"deep": [eager.zeros(1), {5: eager.ones(1)}], "nothing": {}},
    }


def test_kinds_of_values(tmp_path):
    given = state_of_everything()
    dcp.save(given, checkpoint_id=tmp_path / "c")
    found = copy.deepcopy(given)
    for t in (found["x"], found["wide"], found["half"], found["nested"]["deep"][1][5]):
        t.zero_()
    found["plain"], found["numpy"] = (
        None,
        np.random.default_rng(0).bit_generator.state and given["numpy"],
    )
    kept = found["x"]
    dcp.load(found, checkpoint_id=str(tmp_path / "c"))
    assert found["x"] is kept and (kept == given["x"]).all()
    assert (found["wide"] == given["wide"]).all() and (found["half"] == given["half"]).all()
    assert found["plain"] == given["plain"] and type(found["plain"][1]) is tuple
    assert (found["numpy"][1] == given["numpy"][1]).all()
    assert found["nested"]["deep"][1][5].item() == 1
    for wrong, said in (
        ({"x": {}}, r"c/metadata.json, x: a plain value"),
        ({"nested": {}}, r"c/metadata.json, nested: it has entries of its own, and \{\} is"),
        ({"y": 1, "z": 2}, "there is no 'y', 'z' in it"),
        ({"scalar": eager.zeros(1)}, r"scalar: it has the shape \[\], and the one .* \[1\]"),
        ({"model": nn.Linear(1, 1)}, "there is no 'model' in it"),
    ):
        if "x" in wrong:
            dcp.load(wrong, checkpoint_id=tmp_path / "c")  # a tensor in the place of a value
            assert wrong["x"].shape == (2, 3)
            continue
        with pytest.raises(dcp.CheckpointException, match=said):
            dcp.load(wrong, checkpoint_id=tmp_path / "c")
    with pytest.raises(dcp.CheckpointException, match="two entries are named 'a.b'"):
        dcp.save({"a.b": 1, "a": {"b": 2}}, checkpoint_id=tmp_path / "d")
    with pytest.raises(ValueError, match="keep=0"):
        dcp.save({}, checkpoint_id=tmp_path / "d", keep=0)
    with pytest.raises(dcp.CheckpointException, match="there is no such folder"):
        dcp.load({}, checkpoint_id=tmp_path / "d")
    assert dcp.latest(tmp_path / "nowhere") is None


def test_the_last_ones_are_kept_and_what_a_killed_save_left_is_removed(tmp_path):
    left, busy = tmp_path / ".step_1.0a0a0a0a.part", tmp_path / ".step_2.0b0b0b0b.part"
    left.mkdir()
    busy.mkdir()
    handle = os.open(busy, os.O_RDONLY)
    folders.fcntl.flock(handle, folders.fcntl.LOCK_EX)
    dcp.save({"x": 1}, checkpoint_id=tmp_path / "best")
    for i in (7, 8, 9, 10):
        dcp.save({"x": i}, checkpoint_id=tmp_path / f"step_{i}", keep=2)
    os.close(handle)
    assert sorted(p.name for p in tmp_path.iterdir()) == [busy.name, "best", "step_10", "step_9"]
    assert dcp.latest(tmp_path).name == "step_10"
    (tmp_path / "unfinished").mkdir()
    assert dcp.latest(tmp_path).name == "step_10"


@pytest.mark.parametrize("at", ["rename", "replace", "write_file"])
def test_a_save_that_is_interrupted_changes_nothing(tmp_path, monkeypatch, at):
    """At each step: the reader sees the old one; the next save is whole."""
    dcp.save({"x": eager.zeros(3)}, checkpoint_id=tmp_path / "c")

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    from eager.distributed.checkpoint import saving

    with monkeypatch.context() as patch:
        patch.setattr(*((saving, at) if at == "write_file" else (Path, at)), interrupt)
        with pytest.raises(KeyboardInterrupt):
            dcp.save({"x": eager.ones(3)}, checkpoint_id=tmp_path / "c")
    x = eager.ones(3)
    dcp.load({"x": x}, checkpoint_id=tmp_path / "c")
    assert not x.any()
    dcp.save({"x": eager.ones(3)}, checkpoint_id=tmp_path / "c")
    dcp.load({"x": x}, checkpoint_id=tmp_path / "c")
    assert x.all()
    assert len([*(tmp_path / "c").iterdir()]) == 2 and [*tmp_path.iterdir()] == [tmp_path / "c"]


class Taken:
    """An object that takes what it is given."""

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        self.state = state


def load_all(folder):
    """Everything in it, also in an object of unknown structure."""
    state = {"of": Taken()}
    dcp.load(state, checkpoint_id=folder)
    return state["of"].state


def test_hostile_folders(tmp_path):
    """Nothing runs, nothing outside is read, and the message names file, entry and cause."""
    whole = tmp_path / "c"
    dcp.save({"of": state_of_everything()}, checkpoint_id=whole)
    assert load_all(whole)["scalar"].item() == 2.5
    meta = whole / "metadata.json"
    text = meta.read_text()
    (data,) = whole.glob("*.safetensors")
    raw = data.read_bytes()

    def refused(said, change):
        body = json.loads(text)
        change(body, {".".join(map(str, e["path"])): e for e in body["entries"]})
        if "crc32" in body:
            body["crc32"] = metadata.checksum(body)
        meta.write_text(json.dumps(body))
        with pytest.raises(dcp.CheckpointException, match=said):
            load_all(whole)
        meta.write_text(text)

    def files(name):
        return lambda body, _: body["files"].__setitem__(0, [name, 8])

    def part(**changes):
        return lambda _, entries: entries["of.x"]["parts"][0].update(changes)

    def x(**changes):
        return lambda _, entries: entries["of.x"].update(changes)

    for name in ("../secret", "/etc/passwd", "metadata.json", "", 3, f"{data.name}\n"):
        refused("is no name of a rank's file", files(name))
    refused("metadata.json, the beginning: it has format 9", lambda b, _: b.update(format=9))
    refused(r"metadata.json, \['of', 'x'\]: .*overlap, or do not cover", part(offsets=[1, 0]))
    refused("do not cover", x(shape=[1 << 60, 3]))
    refused("do not cover", x(parts=[]))
    refused("outside of the tensor, or in no file", part(file=1))
    refused("outside of the tensor", part(sizes=[2]))
    refused("not a count", part(sizes=[-2, 3]))
    refused("not a count", part(crc32="0"))
    refused(r"safetensors, of.x: its checksum is another one", part(crc32=5))
    refused("the dtype 'object' is not there", x(dtype="object"))
    refused(r"safetensors, of.x: .*is not the part", x(dtype="int64"))
    refused("is no key and no index", x(path=["of", ["set", 0]]))
    refused("entry is there twice", lambda b, _: b["entries"].append(b["entries"][0]))
    refused("of.plain: no plain value", lambda _, e: e["of.plain"].update(value={"kind": "exec"}))
    refused("of.plain: no plain value: a tensor", lambda _, e: e["of.plain"].update(
        value={"kind": "tensor", "memory": 0, "dtype": "int8"}))  # fmt: skip
    refused("metadata.json", lambda b, _: b.clear())
    data.write_bytes(raw[:-1])
    refused(f"{data.name}, the file: a file of {len(raw) - 1} bytes", lambda *_: None)
    data.unlink()
    refused(f"{data.name}, the file: No such file", lambda *_: None)
    outside = tmp_path / "outside"
    outside.write_bytes(raw)
    data.symlink_to(outside)
    refused(f"{data.name}, the file: Too many levels of symbolic links", lambda *_: None)
    data.unlink()
    os.mkfifo(data)
    refused(f"{data.name}, the file: a file of 0 bytes", lambda *_: None)


def test_damaged_folders(tmp_path):
    """Any byte may be another one: it is refused, or the values are those that were saved."""
    whole = tmp_path / "c"
    dcp.save({"of": {"x": eager.arange(6.0), "y": [1, "a"]}}, checkpoint_id=whole)
    text = (whole / "metadata.json").read_text()
    (whole / "metadata.json").write_text(text.replace('[1, "a"]', '[2, "a"]'))
    with pytest.raises(dcp.CheckpointException, match="the beginning: its checksum is another one"):
        load_all(whole)
    body = json.loads(text)
    del body["crc32"]  # as before there was one
    (whole / "metadata.json").write_text(json.dumps(body))
    assert load_all(whole)["y"] == [1, "a"]
    (whole / "metadata.json").write_text(text)
    refused = 0
    for file in sorted(whole.iterdir()):
        raw = file.read_bytes()
        for seed in range(60):
            rng = np.random.default_rng(seed)
            changed = bytearray(raw)
            for at in rng.integers(0, len(raw), 1 + seed % 3):
                changed[at] = rng.integers(256) if seed % 2 else rng.choice([*b'{}[],:"0159-'])
            file.write_bytes(changed)
            try:
                found = load_all(whole)
            except dcp.CheckpointException:
                refused += 1
                continue
            assert found["y"] == [1, "a"] and found["x"].tolist() == [0, 1, 2, 3, 4, 5]
        file.write_bytes(raw)
    assert refused > 80
