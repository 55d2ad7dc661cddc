"""Under `eager.distributed`: ranks run one program. texts of what each rank has -> nothing, or one
error on all ranks, which says which rank differs and in what.

Compared are the files of these packages and of the program, the versions of Python, NumPy and
whatever else is imported on both sides, and the settings that compiled code depends on.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Final

import numpy as np

from eager.base.config import FLAGS, config
from eager.distributed.engine import DistError, Engine, gathered, wait

PACKAGES: Final = "eager", "codegen", "jitcap"
SETTINGS: Final = "backend", "isa", "device", "recompute"  # the others are a rank's own affair
_ROOT: Final = Path(__file__).resolve().parents[2]
_SHOWN: Final = 3


def require_same_program(engine: Engine, timeout: timedelta) -> None:
    """Raises DistError, on all ranks, where they do not run one program."""
    if engine.size == 1:
        return
    mine = np.frombuffer(json.dumps(facts()).encode(), np.uint8)
    rows = gathered(engine, mine, lambda r: wait(r, timeout, lambda: "init_process_group"))
    every = [json.loads(row.tobytes()) for row in rows]
    differ = [(rank, _difference(every[0], theirs)) for rank, theirs in enumerate(every)]
    found = [f"rank {rank} has {what}" for rank, what in differ if what]
    if found:
        more = f"; and {len(found) - _SHOWN} ranks more" if len(found) > _SHOWN else ""
        raise DistError(
            "the ranks do not run the same program: " + "; ".join(found[:_SHOWN]) + more
        )


def facts() -> dict[str, dict[str, str]]:
    """Texts that are to be equal on all ranks: `all` of them, and of the versions of packages that
    are `imported` those that two ranks have."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    found = {
        "Python": sys.version.split()[0],
        **{f"the package {name}": _digest(_files(_ROOT / name)) for name in PACKAGES},
        "the program": "" if main is None else _digest([Path(main)]),
        "CXX": os.environ.get("CXX", ""),
        **{FLAGS[name].env: repr(getattr(config, name)) for name in SETTINGS},
    }
    # Of what a module has, since some warn or import when they are asked for more.
    tables = [(name, getattr(m, "__dict__", {})) for name, m in [*sys.modules.items()]]
    loaded = [(name, table.get("__version__")) for name, table in tables]
    imported = {n: v for n, v in loaded if "." not in n and type(v) is str}
    return {"all": found, "imported": dict(sorted(imported.items()))}


def _files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.suffix in (".py", ".h"))


def _digest(files: list[Path]) -> str:
    """Changes with the contents of the files, wherever they lie."""
    found = hashlib.sha256()
    for file in files:
        if file.is_file():
            found.update(file.read_bytes())
    return found.hexdigest()[:12]


def _difference(first: dict[str, dict[str, str]], theirs: dict[str, dict[str, str]]) -> str:
    """The first few differences, in words."""
    pairs = {name: (first["all"][name], theirs["all"][name]) for name in first["all"]}
    both = first["imported"].keys() & theirs["imported"].keys()
    pairs |= {n: (first["imported"][n], theirs["imported"][n]) for n in sorted(both)}
    texts = [f"{n} {b or 'unset'}, not {a or 'unset'}" for n, (a, b) in pairs.items() if a != b]
    return ", ".join(texts[:_SHOWN])
