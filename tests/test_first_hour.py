"""docs/first_hour.md: its files are written, its commands are run, and they print what it shows."""

import doctest
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parent.parent / "docs" / "first_hour.md"
BLOCK = re.compile(r"^```(python|diff|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S))
NEEDS = {  # what a section cannot do without, beside the library
    "sklearn": "Train|Compile|The cache",
    "triton": "A GPU",
    "mpi4py": "Several processes",
    "torch": "Files",
}
LONG = re.compile("Change sizes|Files|The cache")  # what they show has tests of its own
CHECKER = doctest.OutputChecker()
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def files(folder):
    """Write the programs of the page, each of which names itself in its first line."""
    for kind, text in BLOCK.findall(PAGE.read_text()):
        name, _, rest = text.partition("\n")
        if kind == "python":
            (folder / name.removeprefix("# ")).write_text(text)
        elif kind == "diff":
            old, new = re.fullmatch(r"--- (\S+) \+\+\+ (\S+)", name).groups()
            (folder / new).write_text(changed((folder / old).read_text(), rest))


def changed(text, diff):
    """The text with the changes of a diff, whose parts are divided by @@."""
    for part in re.split(r"^@@\n", diff, flags=re.M):
        lines = part.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] in " -")
        assert text.count(old) == 1, old
        text = text.replace(old, "".join(line[1:] for line in lines if line[0] in " +"))
    return text


def alike(text):
    """Without what differs from machine to machine and run to run: measured numbers, padding."""
    bits = [*dict.fromkeys(re.findall(r"0x1\.\w+[+-]\d+", text))]
    text = re.sub(r"0x1\.\w+[+-]\d+", lambda m: f"bits {bits.index(m[0])}", text)
    text = re.sub(r"[\d,]*\.\d+|\d+(?=%| ?(?:us|ms|s|MiB|KiB)\b)", "N", text)
    return re.sub(r"/\S*/", "/…/", text)


def sessions(text):
    """(command, what it prints) of the consoles of a section."""
    for kind, block in BLOCK.findall(text):
        if kind == "console":
            for command in re.split(r"^\$ ", block, flags=re.M)[1:]:
                line, _, printed = command.partition("\n")
                yield line, printed


def cases():
    """The sections that run something; CI leaves out the long ones."""
    for name, text in SECTIONS.items():
        if "```console" in text:
            yield pytest.param(name, marks=[pytest.mark.nightly] if LONG.search(name) else [])


@pytest.mark.once
@pytest.mark.parametrize("section", [*cases()])
def test_it_prints_what_the_page_shows(section, tmp_path):
    for package, sections in NEEDS.items():
        if re.search(sections, section) and importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")
    files(tmp_path)
    env = {k: v for k, v in os.environ.items() if k not in ("CHECK", "JITCAP_STRICT")}
    env |= {"JITCAP_REPRODUCE": "30", "PATH": f"{Path(sys.executable).parent}:{env['PATH']}"}
    for command, printed in sessions(SECTIONS[section]):
        ran = subprocess.run(
            command, shell=True, capture_output=True, text=True, cwd=tmp_path, env=env
        )
        got = alike(ran.stdout + ran.stderr)
        shown = alike(printed)
        assert CHECKER.check_output(shown, got, FLAGS), f"$ {command}\n{got}\n--- shown:\n{shown}"
