"""Every case of the folders beside this file: plain Python's answer, exception and effects."""

import importlib
from pathlib import Path

import pytest

from tests.never_wrong.harness import CASES, check

for path in sorted(Path(__file__).parent.glob("*/*.py")):
    importlib.import_module(f"tests.never_wrong.{path.parent.name}.{path.stem}")

PARAMETERS = [pytest.param(name, id=f"{each.group}-{name}") for name, each in CASES.items()]


@pytest.mark.parametrize("name", PARAMETERS)
def test_case(name, tmp_path):
    wrong = check(name, tmp_path)
    assert not wrong, wrong
