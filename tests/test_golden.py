"""Golden tests: tests/golden/*.md, each a program and what the compiler makes of it, stage by stage.

A file has one Python section under `# Program`, which defines `program` (the function) and `args`
(its arguments), and then a section per stage under `## <stage name>`, whose code block is what
`jitcap.explain(program)(*args).stages[<stage name>]` must be. To add a stage, write its heading
with an empty block; to accept a change, run pytest with --update-golden and read the diff.

Addresses, machine-dependent widths and file paths are normalised before comparing.
"""

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "golden"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LANGUAGE = {"cpp": "cpp", "source": "cpp", "triton": "python"}


@dataclass(frozen=True)
class Golden:
    """A parsed file: prose before the stages, the program, and the expected text per stage."""

    head: str
    program: str
    stages: dict[str, str]


def parse(text):
    head, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    program = next(body for language, body in BLOCK.findall(head) if language == "python")
    stages = {}
    for section in sections:
        name, _, body = section.partition("\n")
        block = BLOCK.search(body)
        stages[name.strip()] = block.group(2) if block else ""
    return Golden(head, program, stages)


def render(golden, stages):
    parts = [golden.head.rstrip("\n") + "\n"]
    for name, text in stages.items():
        language = LANGUAGE.get(name, "cpp" if "#include" in text or "void " in text else "python")
        parts.append(f"\n## {name}\n\n```{language}\n{text.rstrip()}\n```\n")
    return "".join(parts)


def normalise(text):
    """What may differ between runs and machines: addresses, our folders, milliseconds."""
    text = re.sub(r"0x[0-9a-f]{6,}", "0x...", text)
    text = re.sub(r"\"?/[\w./-]*/(\w+\.(?:py|cpp|h|md))\b", r"\1", text)
    return re.sub(r"\b\d+(\.\d+)? ?ms\b", "... ms", text).strip() + "\n"


def explain(golden, path):
    """Stages of the program in the file, as `jitcap.explain` gives them."""
    jitcap = pytest.importorskip("jitcap")
    scope = {"__name__": path.stem}
    # Captured line numbers must be those of the Markdown file, so that an origin can be followed.
    before = golden.head.split("```python\n")[0].count("\n") + 1
    exec(compile("\n" * before + golden.program, str(path), "exec"), scope)
    return jitcap.explain(scope["program"])(*scope["args"]).stages


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.md")), ids=lambda path: path.stem)
def test_golden(path, request, monkeypatch):
    # The text must not depend on the machine that runs the tests.
    monkeypatch.setenv("JITCAP_ISA", "avx2")
    golden = parse(path.read_text())
    stages = explain(golden, path)
    missing = set(golden.stages) - set(stages)
    assert not missing, f"no such stage: {sorted(missing)}; there are {list(stages)}"
    if request.config.getoption("--update-golden"):
        got = {name: normalise(stages[name]) for name in golden.stages}
        path.write_text(render(golden, got))
        return
    for name, expected in golden.stages.items():
        actual = normalise(stages[name])
        diff = difflib.unified_diff(
            expected.splitlines(), actual.splitlines(), f"{path.name}", name, lineterm=""
        )
        assert normalise(expected) == actual, "\n".join(diff)


def test_a_file_renders_to_itself():
    text = (
        "# One\n\n```python\nprogram = abs\nargs = (1,)\n```\n\n## graph\n\n```python\nx = 1\n```\n"
    )
    golden = parse(text)
    assert golden.program == "program = abs\nargs = (1,)\n"
    assert render(golden, golden.stages) == text
