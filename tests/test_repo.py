"""Budgets and habits of the source tree, so that they are kept by a test and not by memory."""

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from sources import nodes, tree

import eager
import jitcap

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("eager", "codegen", "jitcap")
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 60
MAX_CLASS_LINES = 300

# Each exception with its reason: {"path": "why"} and {"path:function": "why"}.
LONG_FILES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {}

SOURCES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
EVERYTHING = SOURCES + [
    path
    for folder in ("tests", "benchmarks", "examples")
    for path in sorted((ROOT / folder).rglob("*.py"))
]


def name_of(path):
    return str(path.relative_to(ROOT))


def function_lengths(path):
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def test_file_length():
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in EVERYTHING}
    long = {name: n for name, n in lengths.items() if n > MAX_FILE_LINES and name not in LONG_FILES}
    assert not long, long


def test_function_length():
    long = [
        f"{name_of(path)}:{line} {name} is {length} lines"
        for path in SOURCES
        for name, line, length in function_lengths(path)
        if length > MAX_FUNCTION_LINES and f"{name_of(path)}:{name}" not in LONG_FUNCTIONS
    ]
    assert not long, "\n".join(long)


def test_class_length():
    long = [
        f"{name_of(path)}:{node.lineno} {node.name} is {node.end_lineno - node.lineno + 1} lines"
        for path in SOURCES
        for node in nodes(path)
        if isinstance(node, ast.ClassDef) and node.end_lineno - node.lineno >= MAX_CLASS_LINES
    ]
    assert not long, "\n".join(long)


def test_exceptions_are_still_needed():
    files = [
        name for name in LONG_FILES if len((ROOT / name).read_text().splitlines()) <= MAX_FILE_LINES
    ]
    stale = [
        key
        for key in LONG_FUNCTIONS
        if not any(
            name == key.split(":")[1] and length > MAX_FUNCTION_LINES
            for name, _, length in function_lengths(ROOT / key.split(":")[0])
        )
    ]
    assert not files + stale


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_says_its_place(package):
    """The first line of a module's docstring is its place in the pipeline: input -> output."""
    silent = [
        name_of(path)
        for path in sorted((ROOT / package).rglob("*.py"))
        if path.read_text().strip() and not ast.get_docstring(tree(path))
    ]
    assert not silent, silent


@pytest.mark.parametrize("package", PACKAGES)
def test_no_torch_import(package):
    pattern = re.compile(r"^\s*(import torch|from torch)\b", re.MULTILINE)
    assert not [
        name_of(p) for p in sorted((ROOT / package).rglob("*.py")) if pattern.search(p.read_text())
    ]


def test_tests_take_torch_by_importorskip():
    """The newer Pythons run without torch, so no test file may import it outright at the top."""
    named = re.compile(r"^(import|from)\b.*\btorch\b", re.MULTILINE)  # or a text: then it is parsed
    faults = [
        f"{name_of(path)}:{node.lineno}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if named.search(path.read_text())
        for node in tree(path).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        and any(
            name.split(".")[0] == "torch"
            for name in (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [a.name for a in node.names]
            )
        )
    ]
    assert not faults, "use torch = pytest.importorskip('torch'):\n" + "\n".join(faults)


def test_headers_ship_in_the_wheel():
    """Files beside the Python that are read at run time: package data must name them."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"][
        "package-data"
    ]
    for package in PACKAGES:
        patterns = data.get(package, [])
        for path in (ROOT / package).rglob("*"):
            if path.suffix in {".h", ".hpp", ".c", ".cpp", ".js", ".css"}:
                assert f"**/*{path.suffix}" in patterns, (
                    f"{name_of(path)} is missing from package-data"
                )


def test_packages_say_that_they_are_typed_and_their_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "py.typed" in project["tool"]["setuptools"]["package-data"]["*"]
    assert all((ROOT / package / "py.typed").exists() for package in PACKAGES)
    assert eager.__version__ == jitcap.__version__ == eager.version.__version__
    assert jitcap.__version__ == project["project"]["version"]


def test_the_source_distribution_holds_the_tests_and_what_they_read():
    """Beside the packages, which setuptools takes itself."""
    grafted = re.findall(r"^graft (\S+)", (ROOT / "MANIFEST.in").read_text(), re.MULTILINE)
    assert {".ci", "tests", "scripts", "docs", "examples", "benchmarks"} == set(grafted)
    assert all((ROOT / folder).is_dir() for folder in grafted)


# The module of a package whose name is not it, and the command of a package that is only run.
MODULES = {"scikit-learn": "sklearn", "cuda-bindings": "cuda",
           "nccl4py": "nccl"}  # fmt: skip
# Packages of a library and its commands, which another one loads.
LOADED = {"mpich": "mpi4py"}
COMMANDS = {
    "pytest-xdist": "--dist worksteal",
    "ruff": "/ruff",
    "mypy": "/mypy",
    "import-linter": "/lint-imports",
}
USERS = {
    "core": PACKAGES,
    "gpu": PACKAGES,
    "sim": PACKAGES,
    "distributed": PACKAGES,
    "distributed-gpu": PACKAGES,
    "test": ("tests",),
    "bench": ("benchmarks",),
}


def declared_packages():
    """(extra or "core", name of a package) for each requirement in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extra, packages in {
        "core": project["dependencies"],
        **project["optional-dependencies"],
    }.items():
        for requirement in packages:
            yield extra, re.match(r"[\w-]+", requirement).group()


@pytest.mark.parametrize(("extra", "package"), [*declared_packages()])
def test_a_dependency_is_imported_or_looked_for(extra, package):
    """By the packages themselves for what users install, by tests, benchmarks or examples else."""
    if package in COMMANDS:
        assert COMMANDS[package] in (ROOT / "scripts" / "test").read_text()
        return
    package = LOADED.get(package, package)
    name = MODULES.get(package, package.replace("-", "_"))
    taken = rf"(^\s*(import|from) {name}\b|(find_spec|importorskip|import_module)\(\W{name}\b)"
    pattern = re.compile(taken, re.MULTILINE)
    folders = USERS.get(extra, ("examples",))
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert any(pattern.search(path.read_text()) for path in files), f"nothing takes {package}"


def test_flags_are_few():
    """At most 15 settings, all in one table."""
    config = pytest.importorskip("eager.base.config")
    flags = getattr(config, "FLAGS", None)
    assert flags is None or len(flags) <= 15


def test_scripts_parse():
    for script in (*sorted((ROOT / "scripts").iterdir()), ROOT / ".ci" / "run"):
        if script.is_file() and script.read_text().startswith("#!/usr/bin/env bash"):
            subprocess.run(["bash", "-n", str(script)], check=True)


def test_docstrings_begin_with_their_noun():
    """Summaries are phrases of their own: a noun, a verb, "True if"; no question, no pronoun."""
    vague = re.compile(r"(What|Whether|Who|Where|How|When|That|Which|As|Of|For|It)\b|The same\b")
    faults = []
    for package in ("eager", "codegen", "jitcap"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in nodes(path):
                if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                    if vague.match(ast.get_docstring(node) or ""):
                        faults.append(f"{path.relative_to(ROOT)}: {ast.get_docstring(node)[:60]}")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("package", ["eager", "codegen"])
def test_words_have_one_meaning(package):
    """CONTRIBUTING.md says which: a function or class of that name is something else here."""
    pattern = re.compile(
        r"^ *(?:def|class) (_*(?:place[sd]?|parts?|pieces?|whole|kept))\b", re.M | re.I
    )
    named = {
        f"{name_of(path)}: {name}"
        for path in (ROOT / package).rglob("*.py")
        for name in pattern.findall(path.read_text())
    }
    assert not named - {"eager/core/traced.py: part"}, named
