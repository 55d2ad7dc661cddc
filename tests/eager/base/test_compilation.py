"""`eager.compile`: the compiler found by entry point, and what of PyTorch's options is honoured."""

import os
import subprocess
import sys
import tomllib
import warnings
from importlib.metadata import distribution
from pathlib import Path

import pytest

import eager
import jitcap
from eager import nn
from eager.base import compat_warnings, plugins
from jitcap.api import Jitted
from jitcap.base.breaks import Break

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def afresh(monkeypatch):
    """Every test looks entry points up, and hears every warning."""
    monkeypatch.setattr(compat_warnings, "_said", set())
    plugins.provider.cache_clear()
    yield
    plugins.provider.cache_clear()


def test_the_package_declares_what_it_provides():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert declared == {
        "eager.compiler": {"jitcap": "jitcap:jit"},
        "eager.kernels": {"jitcap": "codegen.op_kernels"},
    }
    installed = distribution("jitcap")
    if Path(installed.locate_file("jitcap/__init__.py")) == Path(jitcap.__file__):
        found = {(p.group, p.name, p.value) for p in installed.entry_points}
        assert found == {(g, n, v) for g, rows in declared.items() for n, v in rows.items()}


def test_it_is_jit():
    assert plugins.provider("eager.compiler") is jitcap.jit
    step = eager.compile(lambda x: x * 2)
    assert isinstance(step, Jitted)
    assert step(eager.ones(2)).tolist() == [2, 2]
    assert step.stats.compiles == 1
    assert eager.compile(backend="eager")(lambda x: x).options.backend == "eager"

    @eager.compile
    def plain(x):
        return x + 1

    @eager.compile(fullgraph=True, dynamic=False, mode="default")
    def branch(x):
        return x * int(repr(x.sum().item()) == "1.0")

    assert plain(eager.ones(1)).item() == 2
    with pytest.raises(Break):
        branch(eager.ones(1))
    model = nn.Linear(2, 2)
    keys = [*model.state_dict()]
    assert eager.compile(model) is model
    assert isinstance(model.forward, Jitted)
    assert [*model.state_dict()] == keys
    assert model(eager.ones(2)).shape == (2,)


def test_what_is_not_honoured_says_so():
    fn = lambda x: x
    assert eager.compile(fn, disable=True) is fn
    assert eager.compile(disable=True)(fn) is fn
    with pytest.warns(compat_warnings.IgnoredOptionWarning, match="mode='max-autotune'"):
        eager.compile(fn, mode="max-autotune")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        eager.compile(fn, mode="max-autotune")  # once
    compat_warnings._said.clear()
    with pytest.warns(compat_warnings.IgnoredOptionWarning, match="triton.cudagraphs") as caught:
        eager.compile(fn, options={"triton.cudagraphs": True})
    assert caught[0].filename == __file__
    with pytest.raises(ValueError, match="unknown mode"):
        eager.compile(fn, mode="fast")
    with pytest.raises(ValueError, match="unknown backend 'onnxrt'"):
        eager.compile(fn, backend="onnxrt")
    with pytest.raises(NotImplementedError, match="FX graphs"):
        eager.compile(fn, backend=lambda graph, inputs: graph)
    with pytest.raises(RuntimeError, match="mode or options"):
        eager.compile(fn, mode="default", options={"a": 1})
    with pytest.raises(TypeError):
        eager.compile(fn, dynamics=True)


def test_no_compiler_is_installed(monkeypatch):
    monkeypatch.setattr(plugins, "entry_points", lambda group: [])
    with pytest.raises(ModuleNotFoundError, match=r"pip install jitcap .*pip install -e") as caught:
        eager.compile(lambda x: x)
    assert caught.value.name == "jitcap"


def test_several_compilers_are_installed(monkeypatch):
    class Point:
        def __init__(self, value):
            self.value = value

    monkeypatch.setattr(plugins, "entry_points", lambda group: [Point("a:f"), Point("b:f")])
    with pytest.raises(RuntimeError, match="several packages"):
        eager.compile(lambda x: x)


@pytest.mark.parametrize("installed", [True, False])
def test_from_a_checkout(installed, tmp_path):
    """With the sources on the path only, it works if the package's metadata is found, else says
    what to do. Importing eager asks nobody, and imports no compiler."""
    info = tmp_path / "jitcap-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: jitcap\nVersion: 0\n")
    if installed:
        (info / "entry_points.txt").write_text("[eager.compiler]\njitcap = jitcap:jit\n")
    program = """
import importlib.metadata, sys
asked = []
real = importlib.metadata.entry_points
importlib.metadata.entry_points = lambda **k: asked.append(k) or real(**k)
import eager
assert not asked and not [m for m in sys.modules if m.startswith(("jitcap", "codegen"))]
try:
    print(eager.compile(lambda x: x * 2, backend="eager")(eager.ones(1)).item())
except ModuleNotFoundError as error:
    print(error)
assert asked == [{"group": "eager.compiler"}]
"""
    packages = Path(eager.__file__).parents[1]
    where = os.pathsep.join([str(tmp_path), str(packages)])
    env = os.environ | {"PYTHONPATH": where}
    run = [sys.executable, "-c", program]
    text = subprocess.run(run, env=env, capture_output=True, text=True, check=True).stdout
    assert text.strip() == "2.0" if installed else "pip install -e" in text
