"""The documentation is so: its programs run, what it names exists, and each of its paragraphs has a
test (docs_claims.py)."""

import ast
import functools
import importlib.util
import inspect
import re
import tomllib
from pathlib import Path

import docs_claims
import pytest
from sources import tree

import codegen
import eager
import jitcap
from jitcap.base import breaks
from jitcap.commands import settings
from jitcap.verify import tolerance
from tests.test_golden import normalise

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
DOCS = {path.name: path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))}
PAGES = {"README.md": README, **{f"docs/{name}": text for name, text in DOCS.items()}}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def paragraphs(text):
    """The prose of a page: paragraphs and points of lists, without programs, tables and headings."""
    text = BLOCK.sub("\n", text)
    lines = [line for line in text.splitlines() if not re.match(r"\s*(\||#)", line)]
    parts = re.split(r"\n\s*\n|\n(?=\* )", "\n".join(lines))
    return [" ".join(part.split()) for part in parts if part.strip()]


@functools.cache
def functions(path):
    return {*re.findall(r"^ *(?:async )?def (\w+)", path.read_text(), re.MULTILINE)}


@pytest.mark.parametrize("page", PAGES)
def test_every_paragraph_has_a_test(page):
    claims = docs_claims.CLAIMS[page]
    found = paragraphs(PAGES[page])
    held = {text: [start for start in claims if text.startswith(start)] for text in found}
    assert not [text for text, starts in held.items() if len(starts) != 1], "not in docs_claims.py"
    assert not claims.keys() - {start for starts in held.values() for start in starts}
    for tests in claims.values():
        if tests != docs_claims.LIMIT:
            for test in tests.split():
                file, _, name = test.partition("::")
                assert (ROOT / file).exists(), test
                assert not name or name in functions(ROOT / file), test


def test_the_readme_example_runs(capsys, tmp_path):
    """It prints what the block after it shows, but for the loss, which is given to two digits."""
    pytest.importorskip("jitcap").jit  # noqa: B018
    program = re.search(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE).group(1)
    path = tmp_path / "example.py"
    path.write_text(program)
    exec(compile(program, str(path), "exec"), {"__name__": "example"})
    printed = capsys.readouterr().out
    shown = re.search(r"^# loss ([\d.]+), (.*)$", program, re.MULTILINE)
    loss, rest = re.match(r"loss ([\d.]+), (.*)", printed).groups()
    assert rest == shown[2]
    assert float(loss) == pytest.approx(float(shown[1]), rel=0.02)


@pytest.mark.parametrize(
    "page",
    sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]),
    ids=lambda p: p.name,
)
def test_links_lead_somewhere(page):
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)#:]+)\)", prose):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_named_files_exist():
    """What looks like a path of ours, in any page."""
    for page, text in PAGES.items():
        tops = r"(?:scripts|examples|jitcap|eager|codegen|tests|benchmarks)"
        for name in re.findall(rf"\b({tops}/[\w./]*)", BLOCK.sub(_commands, text)):
            assert (ROOT / name.rstrip(".")).exists(), f"{page}: {name}"


def _commands(block):
    return block[2] if not block[1] else ""


def test_named_modules_exist():
    for name in re.findall(r"python -m ([\w.]+)", README):
        assert importlib.util.find_spec(name), name


def test_named_attributes_exist():
    """Names of jitcap and of a jitted function's statistics."""
    step = jitcap.jit(lambda x: x)
    for page, text in PAGES.items():
        for name in re.findall(r"\bjitcap\.([a-z_]+)(?!\.?\w*/)", text):
            if name not in ("py", "show"):
                found = hasattr(jitcap, name) or importlib.util.find_spec(f"jitcap.{name}")
                assert found, f"{page}: jitcap.{name}"
        for name in re.findall(r"\bstep\.([a-z_]+)", text):
            assert hasattr(step, name), f"{page}: step.{name}"
        for name in re.findall(r"\bstep\.stats\.([a-z_]+)", text):
            assert hasattr(step.stats, name), f"{page}: step.stats.{name}"


def test_what_is_counted():
    counted = re.search(r"`step.stats` counts (.*?) into NumPy", DOCS["debugging.md"], re.DOTALL)[1]
    for name in re.findall(r"\w+", counted):
        assert name == "and" or isinstance(getattr(jitcap.Stats(), name), int), name


def test_options_of_jit_are_the_documented_ones():
    rows = re.findall(r"^\| `(\w+)=", DOCS["index.md"], re.MULTILINE)
    options = set(inspect.signature(jitcap.jit).parameters) - {"fn"}
    assert set(rows) == options


def test_the_programs_of_the_pages_run():
    """Those of documentation pages that import what they use; two pages have tests of their own."""
    for name, text in DOCS.items():
        for language, program in BLOCK.findall(text):
            if (
                language == "python"
                and re.search("^import eager", program, re.MULTILINE)
                and name not in ("tour.md", "first_hour.md")
            ):
                exec(compile(program, name, "exec"), {"__name__": "page"})


def test_the_scripts_build_their_own_environment():
    for script in ("demo", "test"):
        assert "sync_env" in (ROOT / "scripts" / script).read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.11"


def test_the_extras_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = re.findall(r"\[(\w+)\]`? (?:for|brings)|'\.\[(\w+)\]'", README)
    assert {a or b for a, b in extras} <= project["optional-dependencies"].keys()


def test_the_ratios_are_those_of_the_times():
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in README.splitlines()
        if line.count("|") == 8 and re.search(r"\dx \|", line)
    ]
    assert len(rows) == 8
    for name, *cells in rows:
        _, compiled, *peers, ratio = (float(cell.rstrip("x")) for cell in cells)
        assert ratio == pytest.approx(min(peers) / compiled, rel=0.05), name


def test_what_the_packages_import():
    """The last column of the README's table: no module imports more, but within a function."""
    rows = re.findall(r"^\| `(\w+)/` \|.*\| (`[^|]*`) \|$", README, re.MULTILINE)
    assert [package for package, _ in rows] == ["eager", "codegen", "jitcap"]
    for package, cell in rows:
        allowed = {package, *re.findall(r"`(\w+)`", cell), "triton"}
        for path in (ROOT / package).rglob("*.py"):
            if path.name == "einops_backend.py":  # which is imported after einops
                continue
            for node in tree(path).body:
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
                names += [node.module] if isinstance(node, ast.ImportFrom) else []
                for name in {n.split(".")[0] for n in names} - set(_standard()):
                    assert name in allowed, f"{path}: {name}"


def _standard():
    import sys

    return sys.stdlib_module_names


def test_the_limits_are_those_of_the_code():
    page = " ".join(DOCS["debugging.md"].split())
    config, split = jitcap.config, importlib.import_module("jitcap.graph_breaks.split")
    text = f"{config.entries} versions of a function, {split.VERSIONS} of a part"
    assert text in page
    assert f"op by op up to {tolerance.ALL} times" in page


def test_the_backends_are_the_documented_ones():
    x = eager.arange(3.0)
    for name in ("eager", *codegen.BACKENDS):
        assert f'`backend="{name}"`' in DOCS["debugging.md"]
        if name != "triton":
            assert jitcap.jit(lambda x: x * 2, backend=name)(x).tolist() == [0, 2, 4]


def test_each_debug_level_adds_what_its_row_says(capsys):
    signs = ("kernels", "", "ops.mul", ": fused\n", "#include", "+++ simplify")
    rows = re.findall(r"^\| (\d) \| ", DOCS["debugging.md"], re.MULTILINE)
    assert rows == [str(i + 1) for i in range(len(signs))]
    shown = []
    for level, sign in enumerate(signs, 1):
        with jitcap.config(debug=level):
            jitcap.jit(lambda x: x * 1 * 2)(eager.ones(3))
        shown.append(capsys.readouterr().err)
        assert all(each in shown[-1] for each in signs[:level]), level
        assert level == 1 or not sign or sign not in shown[-2]


def test_another_python_is_said(monkeypatch):
    bytecode = importlib.import_module("jitcap.capture.bytecode")
    monkeypatch.setattr(bytecode, "VERSION", (3, 99))
    jitcap.reset()
    fresh = jitcap.jit(lambda x: x * 3 + 1)
    with pytest.warns(jitcap.JitcapWarning, match=r"Python 3\.99 .* traced by dispatch"):
        assert fresh(eager.ones(2)).tolist() == [4, 4]
    assert (fresh.stats.compiles, fresh.stats.fallbacks) == (1, 0)


@pytest.mark.filterwarnings("ignore::jitcap.JitcapWarning")
def test_sizes_that_data_decide():
    """One graph, but for what Python decides on them."""
    step = jitcap.jit(lambda x: (x * 2)[x > 1].sum() + x.nonzero().sum())
    assert step(eager.arange(4.0)).item() == 10 + 6
    assert not step.stats.splits
    step = jitcap.jit(lambda x: [row * 2 for row in x[x > 1]])
    assert len(step(eager.arange(4.0))) == 2
    assert step.stats.splits


def test_what_is_not_there():
    for name in ("nested", "ao"):
        assert not hasattr(eager, name), f"docs/limits.md says that there is no eager.{name}"


def test_the_tour_shows_what_is_printed(request):
    """Each `### stage` with its block; --update-golden writes them anew."""
    path, text = ROOT / "docs" / "tour.md", DOCS["tour.md"]
    blocks = list(BLOCK.finditer(text))
    program = next(b for b in blocks if b[2].startswith("def program"))
    scope = {}
    before = text[: program.start(2)].count("\n")
    exec(compile("\n" * before + program[2], str(path), "exec"), scope)
    x, y = eager.ones(1000), eager.ones(1000)
    stages = jitcap.explain(scope["program"])(x, y).stages
    shown = list(
        re.finditer(r"^### (\w+)\n\n(.*?)^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    )
    assert len(shown) >= 7
    if request.config.getoption("--update-golden"):
        for match in reversed(shown):
            text = text[: match.start(4)] + normalise(stages[match[1]]) + text[match.end(4) :]
        path.write_text(text)
        return
    for match in shown:
        assert normalise(match[4]) == normalise(stages[match[1]]), match[1]


def test_the_page_of_sizes_shows_what_is_printed(request):
    """Each program with the guards on its sizes and its loops; --update-golden writes them anew."""
    path, text = ROOT / "docs" / "shapes.md", DOCS["shapes.md"]
    fence = r"^```{}\n(.*?)^```$"
    page = re.compile(
        r"^### (\w+)\n\n" + r"\n\n".join(map(fence.format, ("python", "guards", "loops"))),
        re.DOTALL | re.MULTILINE,
    )
    shown = list(page.finditer(text))
    assert len(shown) == 3
    for match in reversed(shown):
        scope = {"eager": eager}
        exec(compile(match[2], str(path), "exec"), scope)
        f = scope[match[1]]
        given = [eager.ones(6, 8) for _ in range(f.__code__.co_argcount)]
        made = jitcap.explain(f, dynamic=True)(*given)
        assert (len(made.graphs), made.splits) == (1, ())
        guards = [g.rpartition("  # ")[0].partition(": ")[2] for g in made.guards]
        guards = [g for g in guards if "shape[" in g or "or more" in g]
        loops = "\n".join(x for x in made.stages["tiled"].splitlines() if "B[" not in x)
        found = {"guards": "\n".join(guards), "loops": re.sub(r" \S*:\d+$", "", loops, flags=re.M)}
        for part, (name, got) in zip((4, 3), reversed(found.items()), strict=True):
            if request.config.getoption("--update-golden"):
                text = text[: match.start(part)] + got + "\n" + text[match.end(part) :]
            else:
                assert match[part].strip() == got.strip(), (match[1], name)
    path.write_text(text)


def test_each_kind_of_split_has_its_paragraph():
    section = DOCS["debugging.md"].partition("## Each kind of split")[2].partition("\n## ")[0]
    points = dict(re.findall(r"^\* \*\*([a-z ]+)\*\*: (.*?)(?=^\* |\Z)", section, re.M | re.S))
    assert [*points] == [*breaks.KINDS]
    assert all(len(text.split()) > 8 for text in points.values())


def test_the_messages_are_those_of_the_code():
    section = DOCS["debugging.md"].partition("## Common messages")[2].partition("\n## ")[0]
    words = re.findall(r'^\* "\*\*(.*?)\*\*"', section, re.M)
    source = "".join(path.read_text() for path in (ROOT / "jitcap").rglob("*.py"))
    source = re.sub(r'"\s*f?"', "", source)  # texts that go on in the next line
    assert len(words) > 5 and not [text for text in words if text not in source]


def test_the_glossary_is_sorted_and_used():
    terms = re.findall(r"^\*\*(.+?)\.\*\*", DOCS["glossary.md"], re.M)
    assert terms == sorted(terms, key=str.lower)
    used = "".join(text for name, text in DOCS.items() if name != "glossary.md")
    for package in (eager, codegen, jitcap):
        used += "".join(p.read_text() for p in Path(package.__file__).parent.rglob("*.py"))
    used = used.lower().replace("_", " ")
    words = [re.sub(r" \(.*", "", term).lower() for term in terms]
    assert not [word for word in words if word.rstrip("e") not in used]


def test_every_setting_is_documented():
    config = pytest.importorskip("eager.base.config")
    page = (ROOT / "docs" / "debugging.md").read_text()
    rows = [[cell.strip(" `") for cell in line.split("|")] for line in page.splitlines()]
    defaults = {row[1]: row[2] for row in rows if len(row) > 3}
    for flag in config.FLAGS.values():
        default = int(flag.default) if isinstance(flag.default, bool) else flag.default
        assert defaults[flag.env] == ("1e-4" if default == 1e-4 else str(default)), flag.env
    read = {flag.env for flag in config.FLAGS.values()}
    for package in (eager, codegen, jitcap):
        for path in Path(package.__file__).parent.rglob("*.py"):
            read |= {*re.findall(r"environ(?:\.get\(|\[)\"(\w+)\"", path.read_text())}
    assert read - {"PATH"} == defaults.keys() & {*read, *re.findall(r"`([A-Z_]{3,})`", page)}
    assert settings.markdown(settings.flags()) in page
    assert settings.markdown(settings.variables()) in page
    limit = codegen.runtime.cache.LIMIT_BYTES >> 30
    assert f"({limit} GiB" in page
