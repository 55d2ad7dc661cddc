"""The compile cache: whole entries or none, whatever happens to the process or the disk."""

import os
import signal
import subprocess
import sys
import time
import warnings

import pytest

from codegen.runtime import cache, scratch

KEY = cache.digest("some", b"parts")


@pytest.fixture
def store(tmp_path):
    return cache.Cache(tmp_path / "cache")


def filled(store, key=KEY, payload=b"x" * 1000):
    return store.put(key, {"n": 1, "names": ["a"]}, {"lib.so": payload, "graph.txt": b"text"})


def test_digest_separates_its_parts():
    assert cache.digest("ab", "c") != cache.digest("a", "bc")
    assert cache.digest("ab") == cache.digest(b"ab")


def test_put_then_get(store, tmp_path):
    source = tmp_path / "file"
    source.write_bytes(b"from a path")
    put = store.put(KEY, {"n": 1}, {"lib.so": source})
    got = store.get(KEY)
    assert got == put
    assert got.data == {"n": 1}
    assert got.file("lib.so").read_bytes() == b"from a path"
    assert store.get(cache.digest("other")) is None
    with pytest.raises(KeyError, match=r"no file 'other'.*lib\.so"):
        got.file("other")


def test_directory_is_private(store):
    filled(store)
    assert store.roots[0].stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["lib.so", "graph.txt", cache.MANIFEST])
@pytest.mark.parametrize("damage", ["truncate", "flip", "remove", "empty"])
def test_damaged_entry_is_a_miss_and_goes(store, name, damage):
    path = filled(store).path / name
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    if damage == "remove":
        path.unlink()
    else:
        path.write_bytes({"truncate": raw[:-1], "flip": bytes(raw), "empty": b""}[damage])
    assert store.get(KEY) is None
    assert not path.parent.exists() or name == cache.MANIFEST
    assert filled(store).file("lib.so").read_bytes() == b"x" * 1000
    assert store.get(KEY) is not None


def test_an_entry_under_another_key_is_refused(store):
    other = cache.digest("other")
    entry = filled(store)
    target = store.roots[0] / other[:2]
    target.mkdir(exist_ok=True)
    entry.path.rename(target / other)
    assert store.get(other) is None


def test_second_writer_gets_the_first_entry(store):
    first = filled(store, payload=b"first")
    second = filled(store, payload=b"second")
    assert second.file("lib.so").read_bytes() == b"first"
    assert first.path == second.path


def test_eviction_keeps_what_was_used_last(tmp_path):
    store = cache.Cache(tmp_path / "cache", limit_bytes=3500)
    keys = [cache.digest(str(i)) for i in range(4)]
    for age, key in enumerate(keys):
        entry = filled(store, key)
        os.utime(entry.path / cache.MANIFEST, (age, age))
    assert store.get(keys[0]) is not None  # marks it as used now
    store.evict()
    assert store.size() <= 3500
    assert store.get(keys[0]) is not None
    assert store.get(keys[1]) is None


def test_sweep_removes_leftovers_of_killed_processes(store):
    left = store.roots[0] / "tmp" / "1-old"
    left.mkdir()
    os.utime(left, (0, 0))
    fresh = store.roots[0] / "tmp" / "2-new"
    fresh.mkdir()
    store.evict()
    assert not left.exists()
    assert fresh.exists()


def test_folders_of_killed_processes_are_removed_by_the_next(tmp_path):
    gone = subprocess.Popen(["true"])
    gone.wait()
    names = {
        f"jitcap-build-{gone.pid}-old": False,
        f"jitcap-object-{gone.pid}-old": False,
        f"jitcap-build-{gone.pid}-new": True,
        f"jitcap-cache-{os.getpid()}-old": True,
        f"jitcap-build-{10**30}-old": False,
        f"jitcapable-build-{gone.pid}-old": True,
    }
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "graph.cpp").write_text("")
        if name.endswith("old"):
            os.utime(tmp_path / name, (0, 0))
    (tmp_path / f"jitcap-build-{gone.pid}-link").symlink_to(tmp_path / "jitcap-elsewhere")
    made = scratch.folder("build", str(tmp_path))
    assert f"-{os.getpid()}-" in made.name
    assert {name: (tmp_path / name).exists() for name in names} == names
    os.utime(made, (0, 0))
    scratch.sweep(str(tmp_path))
    scratch.sweep(str(tmp_path / "missing"))
    assert made.exists()


def test_clear_and_delete(store):
    filled(store)
    store.delete(KEY)
    assert store.get(KEY) is None
    filled(store)
    store.clear()
    assert store.size() == 0


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722])
def test_writable_by_others_is_refused(tmp_path, mode):
    root = tmp_path / "cache"
    root.mkdir()
    root.chmod(mode)
    with pytest.warns(cache.CacheWarning, match="other users can write"):
        store = cache.Cache(root)
    filled(store)
    assert store.get(KEY) is not None
    assert not list(root.iterdir())
    assert store.roots[0] != root


def test_a_relative_place_is_that_of_the_process(tmp_path, monkeypatch):
    """The C++ compiler runs elsewhere, and links objects that lie in the cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JITCAP_CACHE_DIR", "filled")
    monkeypatch.setattr(cache, "_default", {})
    assert cache.default().roots[-1] == tmp_path / "filled"


def test_directory_of_another_user_is_refused(tmp_path, monkeypatch):
    real = os.getuid()
    root = tmp_path / "cache"
    root.mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: real + 1)
    with pytest.warns(cache.CacheWarning, match="belongs to user"):
        cache.Cache(root)


def test_full_disk_falls_back_once(store, monkeypatch):
    def full(path, source):
        if store.asked in path.parents:
            raise OSError(28, "No space left on device")
        return real(path, source)

    real = cache._write
    monkeypatch.setattr(cache, "_write", full)
    with pytest.warns(cache.CacheWarning, match="No space left"):
        filled(store)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        filled(store, cache.digest("next"))
    assert store.get(KEY) is not None
    assert store.asked not in store.get(KEY).path.parents


def test_no_place_at_all_is_an_error(store, monkeypatch):
    def full(path, source):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache, "_write", full)
    with pytest.warns(cache.CacheWarning), pytest.raises(OSError, match="No space left"):
        filled(store)


def test_file_in_the_way_falls_back(tmp_path):
    (tmp_path / "cache").write_text("not a directory")
    with pytest.warns(cache.CacheWarning, match="cannot be used"):
        store = cache.Cache(tmp_path / "cache")
    filled(store)
    assert store.get(KEY) is not None


def test_key_cannot_leave_the_directory(store):
    with pytest.raises(ValueError, match="hexadecimal"):
        store.get("../../etc")


# The module from its file: its package imports NumPy, which takes each child a second.
CHILD = """
import importlib.util, sys
from pathlib import Path
spec = importlib.util.spec_from_file_location("cache", sys.argv[3])
cache = sys.modules["cache"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cache)
store = cache.Cache(Path(sys.argv[1]), limit_bytes=20_000)
print("ready", flush=True)
for n in range(int(sys.argv[2])):
    key = cache.digest(str(n % 7))
    entry = store.get(key)
    if entry is None:
        entry = store.put(key, {"n": n % 7}, {"f": str(n % 7).encode() * 3000})
    try:
        assert entry.file("f").read_bytes() == str(n % 7).encode() * 3000, "wrong bytes"
    except FileNotFoundError:
        pass  # evicted by another process between get and read
"""


def child(root, count):
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(root), str(count), cache.__file__],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_sixteen_processes(tmp_path):
    children = [child(tmp_path / "cache", 60) for _ in range(16)]
    for process in children:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err


def test_kill_during_write(tmp_path):
    root = tmp_path / "cache"
    for delay in (0.0, 0.003, 0.01, 0.02):
        process = child(root, 10**6)
        assert process.stdout.readline().strip() == "ready"
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        store = cache.Cache(root)
        for n in range(7):
            entry = store.get(cache.digest(str(n)))
            assert entry is None or entry.file("f").read_bytes() == str(n).encode() * 3000
