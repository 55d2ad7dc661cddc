"""Every case of the folders beside this file: plain Python's answer, exception and effects."""

import importlib
from pathlib import Path

import pytest
import share

from codegen.runtime import beside
from tests.never_wrong.harness import CASES, check, check_in_background

for path in sorted(Path(__file__).parent.glob("*/*.py")):
    importlib.import_module(f"tests.never_wrong.{path.parent.name}.{path.stem}")

PARAMETERS = [pytest.param(name, id=f"{each.group}-{name}") for name, each in CASES.items()]


@pytest.mark.parametrize("name", PARAMETERS)
def test_case(name, tmp_path):
    wrong = check(name, tmp_path)
    assert not wrong, wrong


@pytest.mark.once
@pytest.mark.parametrize("name", share.of(PARAMETERS, 80))
def test_case_in_the_background(name, monkeypatch):
    """What is compiled is there at the next call. Until then what capture has looked at is as it
    was: the call that it looked at runs plainly."""

    def begin(work):
        task = beside.Task(work)
        task.run()
        return task

    monkeypatch.setattr(beside, "begin", begin)
    wrong = check_in_background(name)
    assert not wrong, wrong
