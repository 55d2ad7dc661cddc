"""At the edge: `eager.hub`, weights from the net. an address -> the tensors of the file there.

A file is downloaded once, and read as `eager.load` reads every file: nothing in it is run. Programs
of others (`torch.hub.load`) are not fetched.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlparse
from urllib.request import urlopen

from eager.serialization import load as load_file

_dir: list[Path] = []
HASH_REGEX: Final = re.compile(r"-([a-f0-9]*)\.")  # the beginning of its SHA-256 in a file's name


def get_dir() -> str:
    """Folder for downloaded files: what `set_dir` was given, or a folder of the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return str(_dir[0] if _dir else Path(cache, "eager", "hub"))


def set_dir(d: str | os.PathLike[str]) -> None:
    _dir[:] = [Path(d).expanduser()]


def download_url_to_file(
    url: str, dst: str | os.PathLike[str], hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Download `url` into the file `dst`, which is there when it is whole. RuntimeError if its
    SHA-256 does not begin with `hash_prefix`."""
    part = Path(f"{os.fspath(dst)}.{os.getpid()}.part")
    try:
        with urlopen(url) as source, part.open("wb") as out:  # noqa: S310 - the program's
            shutil.copyfileobj(source, out)
        found = hashlib.sha256(part.read_bytes()).hexdigest()
        if hash_prefix and not found.startswith(hash_prefix):
            raise RuntimeError(f"invalid hash value (expected {hash_prefix!r}, got {found!r})")
        part.replace(dst)
    finally:
        part.unlink(missing_ok=True)


def load_state_dict_from_url(
    url: str,
    model_dir: str | os.PathLike[str] | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> Any:
    """Content of the file at `url`; downloaded when `model_dir` does not have it yet. With
    `check_hash` its name ends in the beginning of its SHA-256: `name-0123abcd.pth`."""
    folder = Path(model_dir or Path(get_dir(), "checkpoints"))
    folder.mkdir(parents=True, exist_ok=True)
    name = Path(urlparse(url).path).name
    kept = folder / (file_name or name)
    if not kept.exists():
        known = name.rpartition(".")[0].rpartition("-")[2] if check_hash else None
        download_url_to_file(url, kept, known, progress)
    return load_file(kept, map_location=map_location, weights_only=weights_only)


load_url = load_state_dict_from_url  # its name in `utils.model_zoo`
