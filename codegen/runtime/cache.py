"""Beside every slow stage: results kept on disk. A key of canonical text -> the files made from it.

Content-addressed, shared by any number of processes without a lock. An entry is a directory
`<root>/<first two digits>/<key>/` of files plus `manifest.json` (JSON, never pickle: reading it
runs nothing); it is written under `<root>/tmp/`, flushed, and renamed into place, so a reader sees
all of it or nothing. Every file is checked against its SHA-256 when read, and every file and
directory must belong to this user and be writable by nobody else, for native code is trusted by
these alone: a bad entry counts as a miss and is removed. When the root is not private to this user,
or cannot be written (full, read-only), entries go to a private temporary directory instead, and a
warning says so once.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from codegen.runtime import scratch
from codegen.runtime.scratch import STALE_SECONDS
from eager.base.compat_warnings import tell
from eager.base.dataclass import dataclass
from eager.base.process.locks import lock

FORMAT: Final = 1  # of an entry: a reader of another one takes it for none
LIMIT_BYTES: Final = 2 << 30  # 100,000 shared objects of 20 KiB, which is the median of the tests'
MEMORY_DISK: Final = "/dev/shm"  # noqa: S108 - used only through mkdtemp
MANIFEST: Final = "manifest.json"
MANIFEST_BYTES: Final = 64 << 20  # a larger file in its place is not read into memory
DAMAGED: Final = (
    OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, MemoryError,
)  # fmt: skip


class CacheWarning(UserWarning):
    """The compile cache works in a lesser way than asked for; the text says how and why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One verified cache entry: `data` is what `put` was given, `file(name)` a path to read."""

    path: Path
    data: dict[str, Any]
    names: tuple[str, ...]

    def file(self, name: str) -> Path:
        """Path of one file of the entry. Raises KeyError for a name that was not stored."""
        if name not in self.names:
            raise KeyError(
                f"cache entry {self.path.name} has no file {name!r}; it has {self.names}"
            )
        return self.path / name


@dataclass(frozen=True, slots=True)
class Row:
    """An entry as a person sees it: its bytes, the time of its last use, and what it holds."""

    key: str
    size: int
    used: float
    kind: str


def digest(*parts: str | bytes) -> str:
    """The key of an entry made from `parts`: SHA-256 over length-prefixed parts, in hex."""
    raw = [part.encode() if isinstance(part, str) else part for part in parts]
    joined = b"".join([piece for r in raw for piece in (len(r).to_bytes(8, "little"), r)])
    return hashlib.sha256(joined).hexdigest()


class Cache:
    """A directory of entries, at most about `limit_bytes` large (least recently used go first)."""

    def __init__(self, root: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self.asked = root
        self.limit_bytes = limit_bytes
        self.roots: list[Path] = []  # where entries are looked up; the last one is written to
        self._puts = 0
        self._lock = lock()
        problem = _prepare(root)
        if problem:
            self._fall_back(f"{root}: {problem}")
        else:
            self.roots.append(root)

    def get(self, key: str) -> Entry | None:
        """The entry stored under `key`, verified, or None. Never raises for a damaged entry."""
        for root in self.roots:
            path = _path(root, key)
            try:
                entry = _read(path, key)
            except FileNotFoundError:
                if (path / MANIFEST).exists():  # a listed file is gone: damaged
                    _discard(path, root)
            except DAMAGED:
                _discard(path, root)
            else:
                _touch(path)
                return entry
        return None

    def put(self, key: str, data: dict[str, Any], files: Mapping[str, bytes | Path]) -> Entry:
        """Store `files` (contents, or paths to copy) and JSON-able `data`; returns the entry.

        If another process stored the key meanwhile, its entry is returned. Raises OSError only if
        no directory at all can be written.
        """
        try:
            entry = self._store(self.roots[-1], key, data, files)
        except OSError as error:
            self._fall_back(f"{self.roots[-1]} cannot be written ({error.strerror or error})")
            entry = self._store(self.roots[-1], key, data, files)
        self._puts += 1
        if self._puts % 16 == 1:
            self.evict()
        return entry

    def delete(self, key: str) -> None:
        """Remove the entry of `key`, if there is one."""
        for root in self.roots:
            _discard(_path(root, key), root)

    def clear(self) -> None:
        """Remove every entry."""
        for root in self.roots:
            for path in list(_entries(root)):
                _discard(path, root)

    def is_writable(self) -> bool:
        """True if entries can be added where they were asked for."""
        return os.access(self.roots[-1], os.W_OK)

    def size(self) -> int:
        """Bytes taken by the entries, all roots together."""
        return sum(_size(path) for root in self.roots for path in _entries(root))

    def rows(self) -> list[Row]:
        """All entries, in no order."""
        return [
            Row(path.name, _size(path), _last_use(path), _kind(path))
            for root in self.roots
            for path in _entries(root)
        ]

    def evict(self, limit_bytes: int | None = None, used_before: float = 0.0) -> None:
        """Remove entries that were last used before a time, then the least recently used until the
        size is within the limit; and leftovers."""
        limit = self.limit_bytes if limit_bytes is None else limit_bytes
        for root in self.roots:
            _sweep(root)
            sized = [(_last_use(path), _size(path), path) for path in _entries(root)]
            total = sum(size for _, size, _ in sized)
            for used, size, path in sorted(sized, key=lambda item: item[0]):
                if total <= limit and used >= used_before:
                    break
                _discard(path, root)
                total -= size

    def _store(
        self, root: Path, key: str, data: dict[str, Any], files: Mapping[str, bytes | Path]
    ) -> Entry:
        work = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=_tmp(root)))
        try:
            listed = {name: _write(work / name, source) for name, source in files.items()}
            body = {"format": FORMAT, "key": key, "files": listed, "data": data}
            text = json.dumps(body, sort_keys=True)
            _write(work / MANIFEST, f"{digest(text)}\n{text}".encode())
            return self._publish(root, key, work)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _publish(self, root: Path, key: str, work: Path) -> Entry:
        """Rename a finished entry into place. Where another process was first its entry is taken if
        it is sound, else replaced."""
        final = _path(root, key)
        final.parent.mkdir(mode=0o700, exist_ok=True)
        for _ in range(16):
            try:
                work.rename(final)
            except OSError:
                if not final.is_dir():
                    raise
            try:
                return _read(final, key)
            except DAMAGED:
                _discard(final, root)
        raise OSError(f"{final} is replaced again and again by other processes")

    def _fall_back(self, why: str) -> None:
        """Add a private temporary directory as the root to write to; warns once per cache."""
        with self._lock:
            if self.roots and self.roots[-1] != self.asked:  # the temporary one failed, too
                raise OSError(f"no place for compiled code: {why}")
            self.roots.append(_private_directory())
        tell(
            f"compile cache: {why}; compiled code is kept in {self.roots[-1]} for this process "
            "only. Set JITCAP_CACHE_DIR to a private, writable directory.",
            CacheWarning,
        )


_default: dict[str, Cache] = {}
_default_lock = lock()


def default() -> Cache:
    """The process's cache: in $JITCAP_CACHE_DIR, else ~/.cache/jitcap (or $XDG_CACHE_HOME)."""
    asked = os.environ.get("JITCAP_CACHE_DIR", "")
    if not asked:
        base = os.environ.get("XDG_CACHE_HOME", "") or os.path.expanduser("~/.cache")  # noqa: PTH111 - never raises
        asked = str(Path(base) / "jitcap")
    with _default_lock:
        if asked not in _default:
            _default[asked] = Cache(Path(asked).absolute())  # compilers run in folders of their own
        return _default[asked]


def _prepare(root: Path) -> str:
    """Create `root` with mode 0700; the reason why it must not be trusted, or an empty string.

    A directory that is safe but read-only is kept for reading: the first write falls back.
    """
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        root.mkdir(mode=0o700, exist_ok=True)
        state = root.stat()
    except OSError as error:
        return f"it cannot be used ({error.strerror or error})"
    if state.st_uid != os.getuid():
        return f"it belongs to user {state.st_uid}, not to {os.getuid()}"
    if state.st_mode & 0o022:
        return "other users can write to it (chmod 700 would make it safe)"
    with contextlib.suppress(OSError):
        _tmp(root).mkdir(mode=0o700, exist_ok=True)
    return ""


def _private_directory() -> Path:
    """A fresh 0700 directory on a disk that has room, removed when the process ends."""
    failures = []
    for parent in (tempfile.gettempdir(), MEMORY_DISK):
        try:
            path = scratch.folder("cache", parent)
            _tmp(path).mkdir(mode=0o700)
            (path / "probe").write_bytes(bytes(1 << 16))
            (path / "probe").unlink()
        except OSError as error:
            failures.append(f"{parent}: {error.strerror or error}")
            continue
        atexit.register(_remove_own, path, os.getpid())
        return path
    raise OSError("no temporary directory can be written: " + "; ".join(failures))


def _remove_own(path: Path, pid: int) -> None:
    if os.getpid() == pid:  # a forked child must not remove its parent's directory
        shutil.rmtree(path, ignore_errors=True)


def _tmp(root: Path) -> Path:
    return root / "tmp"


def _path(root: Path, key: str) -> Path:
    if not key.isalnum():
        raise ValueError(f"a cache key is hexadecimal, got {key!r}")
    return root / key[:2] / key


def _write(path: Path, source: bytes | Path) -> dict[str, Any]:
    """Write and flush one file; its manifest row."""
    raw = source.read_bytes() if isinstance(source, Path) else source
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as f:  # noqa: PTH123
        f.write(raw)
        f.flush()
        os.fsync(f.fileno())
    return {"sha256": hashlib.sha256(raw).hexdigest(), "size": len(raw)}


def _read(path: Path, key: str) -> Entry:
    """The entry at `path`, every byte verified. Raises what is in DAMAGED."""
    for folder in (path.parent, path):
        _check_owner(os.lstat(folder), stat.S_ISDIR)
    recorded, _, text = _contents(path / MANIFEST, None).decode().partition("\n")
    if recorded != digest(text):
        raise ValueError("the manifest is damaged")
    body = json.loads(text)
    if body["format"] != FORMAT or body["key"] != key or type(body["data"]) is not dict:
        raise ValueError("the manifest is of another entry or format")
    for name, row in body["files"].items():
        if name in ("", ".", "..", MANIFEST) or "/" in name:
            raise ValueError(f"{name!r} is no file of an entry")
        if hashlib.sha256(_contents(path / name, row["size"])).hexdigest() != row["sha256"]:
            raise ValueError(f"file {name} is damaged")
    return Entry(path, body["data"], tuple(body["files"]))


def _contents(path: Path, size: int | None) -> bytes:
    """The bytes of a file (a manifest, if its size is not known) of this user's."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as f:  # noqa: PTH123
        state = os.fstat(f.fileno())
        _check_owner(state, stat.S_ISREG)
        if state.st_size > MANIFEST_BYTES if size is None else state.st_size != size:
            raise ValueError(f"file {path.name} has {state.st_size} bytes")
        return f.read()


def _check_owner(state: os.stat_result, is_kind: Callable[[int], bool]) -> None:
    """Raises PermissionError for what another user could have written, ValueError for a link."""
    if not is_kind(state.st_mode):
        raise ValueError("no plain file or directory")
    if state.st_uid != os.getuid() or state.st_mode & 0o022:
        raise PermissionError(f"user {state.st_uid} or others can write it")


def _discard(path: Path, root: Path) -> None:
    """Take an entry out of sight at once (a rename), then delete it."""
    trash = _tmp(root) / f"{os.getpid()}-{threading.get_ident()}-{time.monotonic_ns()}"
    try:
        path.rename(trash)
    except OSError:
        return  # gone already, or read-only: then it stays a miss
    shutil.rmtree(trash, ignore_errors=True)


def _touch(path: Path) -> None:
    """Mark as used now (for eviction); a read-only cache has no eviction either."""
    with contextlib.suppress(OSError):
        os.utime(path / MANIFEST)


def _entries(root: Path) -> Iterator[Path]:
    for shard in _listed(root):
        if len(shard.name) == 2:
            yield from _listed(shard)


def _listed(path: Path) -> list[Path]:
    try:
        return list(path.iterdir())
    except OSError:
        return []


def _size(path: Path) -> int:
    total = 0
    for file in _listed(path):
        try:
            total += file.stat().st_size
        except OSError:
            continue
    return total


def _kind(path: Path) -> str:
    """Kind of an entry, by its files."""
    names = {file.name for file in _listed(path)}
    kinds = {"graph.so": "code", "library.o": "object", "start": "version", "kernels.py": "kernels"}
    found = next((kind for name, kind in kinds.items() if name in names), "")
    return found or ("code" if names - {MANIFEST} else "notes")


def _last_use(path: Path) -> float:
    try:
        return (path / MANIFEST).stat().st_mtime
    except OSError:
        return 0.0


def _sweep(root: Path) -> None:
    """Delete what killed processes left under tmp/."""
    for path in _listed(_tmp(root)):
        try:
            if time.time() - path.stat().st_mtime > STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
        except OSError:
            continue
