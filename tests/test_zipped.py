"""The packages in one zip file: nothing of theirs is read by a file's path."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import codegen
import eager
import jitcap

PROGRAM = """
import eager, jitcap
assert ".pyz" in eager.__file__ and ".pyz" in jitcap.__file__
twice = jitcap.jit(lambda x: (x * 2).sum())
print(twice(eager.ones(3)).item(), twice.stats.kernels > 0, twice.stats.fallbacks)
"""


@pytest.mark.once
def test_an_application_in_a_zip_file(tmp_path):
    """As `python -m zipapp` makes it, but with compiled modules, which are quicker to import."""
    app = tmp_path / "app.pyz"
    with zipfile.PyZipFile(app, "w", optimize=-1) as out:
        for package in (eager, codegen, jitcap):
            folder = Path(package.__file__).parent
            out.writepy(folder)
            for header in folder.rglob("*.h"):
                out.write(header, header.relative_to(folder.parent))
        out.writestr("__main__.py", PROGRAM)
    env = os.environ | {"JITCAP_CACHE_DIR": str(tmp_path / "cache"), "JITCAP_STRICT": "1"}
    env.pop("PYTHONPATH", None)
    ran = subprocess.run([sys.executable, app], env=env, capture_output=True, text=True)
    assert ran.stdout.split() == ["6.0", "True", "0"], ran.stderr
