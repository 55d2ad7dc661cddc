"""What errors say of beginners' mistakes, and how many frames of the library they show, eager and under @jit.

`python tests/behaviour/test_mistakes.py` prints it beside what PyTorch says."""

import importlib
import traceback
import warnings

import numpy as np
import pytest
from mistakes import MISTAKES

import eager
from jitcap import JitcapWarning, config, jit


def error_of(mistake, library, compiled=False):
    """What the program raised, or else warned of first, and the number of frames behind its own."""
    file = f"<{mistake.name}>"
    text = "\n    ".join(["def program():", *mistake.program.split("\n")])
    names = ("nn", "nn.functional", "optim")
    nn, functional, optim = (importlib.import_module(f"{library.__name__}.{n}") for n in names)
    scope = {"torch": library, "nn": nn, "F": functional, "optim": optim, "np": np}
    exec(compile(text, file, "exec"), scope)
    program = jit(scope["program"], backend="eager") if compiled else scope["program"]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            program()
        except Exception as error:  # noqa: BLE001 - whatever it is
            lines = [f.filename for f in traceback.extract_tb(error.__traceback__)]
            assert file in lines, "the user's line is not shown"
            return error, len([f for f in lines if f not in (file, __file__)])
    first = next((w for w in said if w.category is not JitcapWarning), None)
    if library is not eager:  # may say nothing, or name its own file
        return (first.message, int(first.filename != file)) if first else (Warning("nothing"), 0)
    assert first.filename == file
    return first.message, 0


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("mistake", MISTAKES, ids=[m.name for m in MISTAKES])
def test_errors_say_what_and_why(mistake, compiled):
    error, frames = error_of(mistake, eager, compiled)
    assert isinstance(error, mistake.error)
    assert [word for word in mistake.words if word not in str(error)] == []
    assert frames <= mistake.frames


def test_all_frames_are_shown_when_asked_for():
    (mistake,) = (m for m in MISTAKES if m.name == "linear")
    assert error_of(mistake, eager)[1] == 0
    with config(traceback="full"):
        assert error_of(mistake, eager)[1] > 3
        assert error_of(mistake, eager, compiled=True)[1] > 3


def test_frames_of_the_program_stay():
    def hook(*_):
        raise ValueError("mine")

    layer = eager.nn.Linear(2, 2)
    layer.register_forward_hook(hook)
    model = eager.nn.Sequential(eager.nn.Sequential(layer))
    with pytest.raises(ValueError, match="mine") as raised:
        model(eager.ones(1, 2))
    assert [f.name for f in traceback.extract_tb(raised.value.__traceback__)][1:] == ["hook"]


if __name__ == "__main__":
    import torch

    for each in MISTAKES:
        for name, library in (("PyTorch", torch), ("eager", eager)):
            message, count = error_of(each, library)
            print(f"{each.name}: {name}, {count} frames: {type(message).__name__}: {message}")
