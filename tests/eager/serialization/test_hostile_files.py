"""Damaged and hostile files: an error each, in words; nothing in them runs, nothing is lost."""

import io
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile

import hostile_files
import hostile_values
import pytest

import eager
from eager.serialization import LoadError

SEED = 20261122
HARMLESS = {"builtins.id"}
_watching = threading.local()
_events = []


def _watch(event, args):
    if getattr(_watching, "on", False) and event not in HARMLESS:
        _events.append((event, str(args)[:200]))


sys.addaudithook(_watch)  # there is no taking it back: it looks only while `_watching.on`


def refused(what, data):
    """The text of the error that `data` is refused with; nothing ran meanwhile."""
    _events.clear()
    _watching.on = True
    try:
        with pytest.raises(LoadError) as caught:
            eager.load(io.BytesIO(data))
    finally:
        _watching.on = False
    assert not _events, (what, _events)
    return str(caught.value)


@pytest.fixture(autouse=True)
def _once_before():
    """What is imported when a file is read for the first time."""
    for make in hostile_files.GOOD.values():
        eager.load(io.BytesIO(make()))


def test_the_watch_sees_what_runs():
    _watching.on = True
    eval("1")
    _watching.on = False
    assert _events


def test_spoiled_files():
    for what, data in hostile_files.spoiled(SEED, 200):
        text = refused(what, data)
        assert text.startswith("eager.load: "), what
        assert ";" in text, what  # what to do


LEAST = {
    "crafted_pickles": 130, "crafted_values": 67, "crafted_old": 20, "crafted_zips": 14,
    "crafted_own": 80, "crafted_safetensors": 30,
}  # fmt: skip
FAMILIES = {
    name.removeprefix("crafted_"): make
    for module in (hostile_files, hostile_values)
    for name, make in vars(module).items()
    if name in LEAST
}


@pytest.mark.parametrize("family", FAMILIES)
def test_crafted_files(family):
    count = 0
    for what, data in FAMILIES[family]():
        data = hostile_files.torch_file(data) if family in ("pickles", "values") else data
        started = time.perf_counter()
        text = refused(what, data)
        assert len(text) < 800, what
        assert ";" in text, what
        assert time.perf_counter() - started < 20, what  # no file is a trap for time
        count += 1
    assert count >= LEAST[f"crafted_{family}"]


def test_mutants_are_read_or_refused():
    """With the checksum right, a pickle may still be one: but it is never more than values."""
    refusals = 0
    for what, data in hostile_files.mutants(SEED, 400):
        _events.clear()
        _watching.on = True
        try:
            eager.load(io.BytesIO(data))
        except LoadError:
            refusals += 1
        finally:
            _watching.on = False
        assert not _events, (what, _events)
    assert refusals > 200


def test_reading_changes_no_file(tmp_path):
    for what, data in hostile_files.spoiled(SEED + 1, 20):
        path = tmp_path / "x"
        path.write_bytes(data)
        with pytest.raises(LoadError, match=str(path)):
            eager.load(path)
        assert path.read_bytes() == data, what
        assert os.listdir(tmp_path) == ["x"]


# ------------------------------------------------------------------------------ saving is whole
@pytest.mark.parametrize("name", ["a.pt", "a.safetensors"])
@pytest.mark.parametrize("fault", [KeyboardInterrupt, OSError, MemoryError])
def test_an_interrupted_save_keeps_the_old_file(tmp_path, monkeypatch, name, fault):
    path = tmp_path / name
    eager.save({"a": eager.zeros(2), "b": eager.ones(3)}, path)
    path.chmod(0o640)
    before = path.read_bytes()

    def stops(*args):
        raise fault("in the middle")

    with monkeypatch.context() as patch:
        patch.setattr("eager.serialization.os.fsync", stops)
        with pytest.raises(fault):
            eager.save({"a": eager.ones(2)}, path)
    with pytest.raises(TypeError):
        eager.save({"a": lambda: 0}, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [name]
    eager.save({"a": eager.ones(2)}, path)
    assert eager.load(path)["a"].tolist() == [1, 1]
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_killed_save_keeps_a_whole_file(tmp_path):
    path = tmp_path / "a.pt"
    program = (
        "import eager, sys\n"
        "for i in range(10**9):\n"
        "    eager.save([i, eager.full((50_000,), float(i % 7))], sys.argv[1])\n"
        "    print(flush=True)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, path], stdout=subprocess.PIPE, env=os.environ
    )
    for _ in range(5):
        child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    count, values = eager.load(path)
    assert count >= 4
    assert values.unique().tolist() == [count % 7]


def test_links_and_devices_stay_what_they_are(tmp_path):
    path, link = tmp_path / "a.pt", tmp_path / "link.pt"
    link.symlink_to(path)
    eager.save([1], link)
    assert link.is_symlink()
    assert eager.load(path) == [1]
    eager.save([1], os.devnull)
    assert not os.path.isfile(os.devnull)


def test_what_follows_other_bytes_in_a_stream(tmp_path):
    with (tmp_path / "x").open("w+b") as file:
        file.write(b"head")
        inner = io.BytesIO()
        eager.save([2], inner)
        file.write(inner.getvalue())
        file.seek(4)
        assert eager.load(file) == [2]


def test_the_format_is_what_the_docstring_says():
    for format, names in (
        ("eager", {"value.json", "memory/0.npy"}),
        (None, {"data.pkl", "data/0", "byteorder", "version", ".data/serialization_id",
                ".format_version", ".storage_alignment"}),
    ):  # fmt: skip
        file = io.BytesIO()
        eager.save({"x": eager.arange(3.0)}, file, format=format)
        with zipfile.ZipFile(file) as archive:
            assert {name.removeprefix("archive/") for name in archive.namelist()} == names
            assert archive.testzip() is None
