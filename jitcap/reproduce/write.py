"""Reproducing: where files lie. Suspects -> a file that shows the fault, and a line about it.

Files lie in `jitcap_repro`, in the folder of `JITCAP_DUMP` or the current one, and are never
overwritten. A fault that was looked at once is not looked at again in this process.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from eager.base.config import config
from jitcap.compile.suspect import Suspect, SuspectCall
from jitcap.reproduce.search import Found, search
from jitcap.reproduce.text import story
from jitcap.reproduce.trials import OutOfTime

FOLDER: Final = "jitcap_repro"
_told: Final[dict[tuple[str, str], str]] = {}  # by function, and by place and reason


def write(suspects: Sequence[Suspect | SuspectCall], name: str, why: str) -> str:
    """Find the suspect that shows a fault alone, and write the file: what came of it, for a
    message. `name` is the function; of one place and reason (`why`) there is one file."""
    known = _told.get((name, why))
    if known is not None or not config.reproduce:
        return known or ""
    try:
        found = search(suspects, config.reproduce)
        path = _saved(found, name)
        shown = found.outcome.text.replace("\n", "\n    ")
        text = f"{path} ({found.summary()})\n    {shown}\n    from: {found.where}"
        text = f"{text}\n    stage: {found.outcome.stage}"
    except OutOfTime:
        text = f"none: it did not show within {config.reproduce} s (JITCAP_REPRODUCE)"
    except Exception as error:  # noqa: BLE001 - the fault itself is to be told of
        text = f"none: {error}"
    _told[name, why] = text
    return text


def _saved(found: Found, name: str) -> Path:
    """The new file. Raises OSError."""
    head = story(name, found.outcome.text, found.outcome.stage, found.where, found.summary())
    folder = Path(config.dump or ".") / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    safe = re.sub(r"\W+", "_", name.rpartition(".")[2]).strip("_")
    for number in itertools.count(1):
        path = folder / f"{safe}_{found.label}{f'_{number}' if number > 1 else ''}.py"
        try:
            with path.open("x") as file:
                file.write(head + found.text)
        except FileExistsError:
            continue
        return path
    raise AssertionError("there is always another number")
