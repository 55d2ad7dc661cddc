"""`eager.distributed.checkpoint`: the state of a program in several processes, in one folder, under
PyTorch's names. Each rank writes its part; any number of ranks reads it.

    dcp.save({"model": model, "optimizer": opt, "epoch": epoch}, checkpoint_id="run/step_100")
    state = {"model": model, "optimizer": opt, "epoch": 0}
    dcp.load(state, checkpoint_id=dcp.latest("run"))

    saving      a state -> a folder
    background  the same beside the program
    under_way   its end, before the next begins
    loading     a folder -> the state
    plan        who writes what
    states      objects -> leaves, with their places
    leaves      containers <-> leaves
    metadata    what is where, as JSON
    folder      folders that are there whole or not at all
    streams     random streams
    together    steps that all ranks take, or none

A folder holds `metadata.json` and at most one safetensors file a rank. Imported when it is named.
"""

from __future__ import annotations

import os
from pathlib import Path

from eager.base.stub_modules import absent as _absent
from eager.distributed.checkpoint.background import async_save as async_save
from eager.distributed.checkpoint.folder import checkpoints
from eager.distributed.checkpoint.loading import load as load
from eager.distributed.checkpoint.saving import save as save
from eager.distributed.checkpoint.streams import RandomStreams as RandomStreams
from eager.distributed.checkpoint.together import CheckpointException as CheckpointException

_WHY = "a checkpoint is a folder with a metadata.json: save and load take its path"
default_planner = _absent("distributed.checkpoint.default_planner", _WHY, "")
format_utils = _absent("distributed.checkpoint.format_utils", _WHY, "")
hf_storage = _absent("distributed.checkpoint.hf_storage", _WHY, "")


def latest(folder: str | os.PathLike[str]) -> Path | None:
    """The checkpoint in `folder` that was saved last; None where there is none."""
    return next(reversed(checkpoints(Path(folder))), None)
