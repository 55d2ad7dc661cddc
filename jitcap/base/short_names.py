"""Beside the pipeline: names for the inputs of a graph. Places as the user writes them -> the
shortest end of each that tells it from the others.

    model.blocks[0].ln1.eps                            ln1.eps, if only one block has it
    opt._slots[opt.param_groups[0]['params'][3]]['step']   params.3.step
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

_PATH: Final = r"[A-Za-z_]\w*(?:\.\w+|\[(?:\d+|'[^']*')\])*"
_WORD: Final = r"[A-Za-z_]\w*|\d+"
_INNER: Final = r"\[([A-Za-z_][^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*)\]"


def short_names(places: Sequence[str]) -> list[str]:
    """One for each of the places, of words with dots between."""
    ends = [_ends(place) for place in places]
    counts = Counter(end for each in ends for end in each)
    return [
        next((end for end in each if counts[end] == 1), place)
        for each, place in zip(ends, places, strict=True)
    ]


def _ends(place: str) -> list[str]:
    """The ends of a path that begin with a name, shortest first; of what is computed of paths, the
    text with the shortest end of each."""
    plain = re.sub(_INNER, lambda found: "." + _shortest(found[1]), place)
    if re.fullmatch(_PATH, plain):
        words = re.findall(_WORD, plain)
        starts = [k for k in reversed(range(len(words))) if not words[k].isdigit()]
        return [".".join(words[k:]) for k in starts]
    return [re.sub(_PATH, lambda found: _shortest(found[0]), plain)]


def _shortest(path: str) -> str:
    words = re.findall(_WORD, path)
    start = max((k for k, word in enumerate(words) if not word.isdigit()), default=0)
    return ".".join(words[start:])
