"""Under `distributed.checkpoint`: random streams. the default generators of each rank <-> seeds and
ordinals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eager.distributed.groups import get_rank, get_world_size, is_initialized
from eager.random import all_generators, generator_of


class RandomStreams:
    """The default generators of all devices, each rank's own, as an object to save and load.

    `load_state_dict` gives each rank what it had. Among another number of ranks that is known if
    all had the same streams; ValueError if they had not."""

    def state_dict(self) -> dict[str, Any]:
        rank, ranks = _among()
        streams = {str(g.device): [g.seed_value, g.ordinal] for g in all_generators()}
        return {"ranks": ranks, str(rank): streams}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        rank, ranks = _among()
        saved = [state_dict[str(r)] for r in range(state_dict["ranks"])]
        if len(saved) != ranks and any(streams != saved[0] for streams in saved):
            raise ValueError(
                f"RandomStreams: each of {len(saved)} ranks had streams of its own, and there are "
                f"{ranks} now: leave RandomStreams out of what is loaded, and seed anew"
            )
        for device, place in saved[rank if len(saved) == ranks else 0].items():
            generator_of(device).go_to(place)


def _among() -> tuple[int, int]:
    return (get_rank(), get_world_size()) if is_initialized() else (0, 1)
