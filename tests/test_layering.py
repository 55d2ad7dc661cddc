"""The import stack is one way, eager <- codegen <- jitcap, and nothing hides inside functions.

import-linter proves the same on the installed packages; this test names file and line, needs
nothing installed, and also looks at imports inside functions.
"""

import ast
import re
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest
from sources import nodes

ROOT = Path(__file__).resolve().parent.parent
STACK = ("eager", "codegen", "jitcap")
REFERENCES = ("torch", "jax")

SOURCES = [path for package in STACK for path in sorted((ROOT / package).rglob("*.py"))]


def imported_names(node):
    """Top-level package names that an import statement brings in ("" for a relative one)."""
    if isinstance(node, ast.Import):
        return [alias.name.split(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [(node.module or "").split(".")[0] if node.level == 0 else ""]
    return []


def type_checking_imports(path):
    """Imports under `if TYPE_CHECKING:`, which never run."""
    guarded = [
        n for n in nodes(path) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)
    ]
    return {inner for block in guarded for inner in ast.walk(block)}


@pytest.mark.smoke
@pytest.mark.parametrize("package", STACK)
def test_imports_go_down_the_stack(package):
    above = STACK[STACK.index(package) + 1 :]
    faults = []
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in nodes(path):
            bad = [n for n in imported_names(node) if n in above or n in REFERENCES]
            faults += [f"{path.relative_to(ROOT)}:{node.lineno} imports {name}" for name in bad]
    assert not faults, "\n".join(faults)


@pytest.mark.smoke
def test_no_import_of_our_own_inside_a_function():
    faults = []
    for path in SOURCES:
        skip = type_checking_imports(path)
        for function in nodes(path):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for node in ast.walk(function):
                if not isinstance(node, ast.Import | ast.ImportFrom) or node in skip:
                    continue
                if any(n in STACK or n == "" for n in imported_names(node)):
                    faults.append(f"{path.relative_to(ROOT)}:{node.lineno} in {function.name}()")
    assert not faults, "imports of our own packages inside functions:\n" + "\n".join(faults)


# Where modules are imported by name: {path: why}.
BY_NAME = {
    "eager/base/plugins.py": "the seam: what a higher package provides for eager, by entry point",
    "eager/base/lazy_imports.py": "parts of eager that are imported when they are first named",
    "eager/base/recorder.py": "who has clocks to set, in each package, when a profile begins",
    "eager/programs/missing.py": "names of PyTorch's in a program's text",
    "eager/programs/stand_in.py": "a submodule that a program imports under PyTorch's name",
    "codegen/targets/triton/runtime/kernel.py": "a module of codegen that needs the optional package triton",
}


NAMES = {"importlib", "import_module", "metadata"}


def test_modules_are_imported_by_name_in_one_place():
    """A lower package gets what a higher one provides by entry point only, at its first use."""
    found = set()
    for path in SOURCES:
        for node in nodes(path):
            called = getattr(getattr(node, "func", None), "id", "") == "__import__"
            if called or (isinstance(node, ast.alias) and node.name in NAMES):
                found.add(str(path.relative_to(ROOT)))
    assert found == set(BY_NAME)


def test_only_the_lowering_knows_both_graph_and_loop_ir():
    """codegen sees op records and its own IR, never a Graph: one file of jitcap joins the two."""
    knows_both = []
    for path in sorted((ROOT / "jitcap").rglob("*.py")):
        modules = {
            f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
            for node in nodes(path)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        loop_ir = any(m.startswith(("codegen.ir.schema", "codegen.fuse.lower")) for m in modules)
        graph = any(m.startswith("jitcap.graph") for m in modules)
        if loop_ir and graph:
            knows_both.append(str(path.relative_to(ROOT)))
    assert set(knows_both) <= {"jitcap/compile/lower.py"}, knows_both


def test_no_import_cycles():
    """Modules import each other one way inside each package too, imports for types included."""
    loader = SourceFileLoader("structure", str(ROOT / "scripts" / "structure"))
    structure = module_from_spec(spec_from_loader("structure", loader))
    loader.exec_module(structure)
    structure.nodes = nodes  # which are there already
    structure.layers(structure.graph())  # raises CycleError with the modules on the cycle


def test_dataclasses_are_ours():
    """The standard decorator takes four times as long to make a class, and is no base of ours."""
    theirs = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        if any(alias.name == "dataclass" for alias in node.names)
    ]
    assert theirs == ["eager/base/dataclass.py"]


def test_every_room_is_listed():
    """A reader of CONTRIBUTING.md finds each folder of the packages, and none that is gone."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    listed = set(re.findall(rf"^((?:{'|'.join(STACK)})/\w+) ", text, re.MULTILINE))
    there = {
        str(path.parent.relative_to(ROOT))
        for package in STACK
        for path in (ROOT / package).glob("*/__init__.py")
    }
    assert listed == there
