"""Programs run with a fault planted in the compiler, in them and in all processes that they start:
see `planted/sitecustomize.py`."""

import os
import re
import subprocess
import sys
from pathlib import Path

PLANTED = Path(__file__).resolve().parent / "planted"


def run(*arguments, plant="", cwd=None, **variables):
    """A Python process with these arguments."""
    path = os.pathsep.join([str(PLANTED), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "PYTHONPATH": path, "CHECK": "0", **variables}
    if plant:
        env["JITCAP_TEST_PLANT"] = plant
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=env, cwd=cwd)


def written(folder):
    """The file that was written there."""
    (file,) = (folder / "jitcap_repro").iterdir()
    return file


def operations(file):
    """The operations of the graph in a file."""
    return re.findall(r"= ops\.(\w+)\(", file.read_text())


def shows(file, plant, said):
    """The file shows the fault alone, and that it is mended."""
    there, mended = run(file, plant=plant), run(file)
    assert (there.returncode, mended.returncode) == (1, 0), (there, mended)
    assert said in there.stdout
    assert mended.stdout == "The fault is not there.\n"
