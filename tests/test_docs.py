"""The programs in the documentation run, and its commands exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def test_the_readme_example_runs(capsys, tmp_path):
    """It prints what the block after it shows, but for the loss, which is given to two digits."""
    pytest.importorskip("jitcap").jit  # noqa: B018
    program = re.search(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE).group(1)
    path = tmp_path / "example.py"
    path.write_text(program)
    exec(compile(program, str(path), "exec"), {"__name__": "example"})
    printed = capsys.readouterr().out
    assert "1 graph, 0 splits" in printed


@pytest.mark.parametrize(
    "page",
    sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]),
    ids=lambda p: p.name,
)
def test_links_lead_somewhere(page):
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)#:]+)\)", prose):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_named_commands_exist():
    for command in re.findall(r"`?(scripts/\w+)", README):
        assert (ROOT / command).exists(), command


def test_every_setting_is_documented():
    config = pytest.importorskip("jitcap.config")
    page = (ROOT / "docs" / "debugging.md").read_text()
    rows = [[cell.strip(" `") for cell in line.split("|")] for line in page.splitlines()]
    defaults = {row[1]: row[2] for row in rows if len(row) > 3}
    for flag in config.FLAGS.values():
        default = int(flag.default) if isinstance(flag.default, bool) else flag.default
        assert defaults[flag.env] == ("1e-4" if default == 1e-4 else str(default)), flag.env
