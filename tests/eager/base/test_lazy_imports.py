"""Parts that `import eager` leaves for later: they are there all the same, under capture too, and for
a version that another process kept."""

import gc
import importlib
import os
import subprocess
import sys

import pytest

import eager
from eager.base import lazy_imports
from eager.base.process.uncollected import Uncollected

PROGRAM = """
import sys

import eager
from jitcap import jit

later = ["eager.utils.data", "eager.distributed", "eager.array_api", "eager.distributions", "eager.utils.tensorboard", "importlib.metadata"]
later += ["jitcap.verify", "jitcap.exporting", "jitcap.by_dispatch", "codegen.targets.triton", "logging"]
assert not sys.modules.keys() & set(later)


@jit(fullgraph=True, backend="eager")
def step(x):
    import eager.distributions.gamma as gamma
    from eager import distributions

    near = distributions.Normal(x, 1.0).log_prob(x + 1.0)
    return near + gamma.Gamma(x, 1.0).log_prob(x) + x.__array_namespace__().sum(x)


print(step(eager.tensor([1.0, 2.0])).tolist(), step(eager.tensor([3.0, 2.0])).tolist())
assert "distributions" in vars(eager)
"""


def test_a_part_is_imported_when_it_is_named(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    space = {**os.environ, "JITCAP_CACHE_DIR": str(tmp_path), "CHECK": "0", "JITCAP_DEBUG": "1"}
    seen = []
    for _ in range(2):
        command = [sys.executable, "program.py"]
        done = subprocess.run(command, cwd=tmp_path, env=space, capture_output=True, text=True)
        assert not done.returncode, done.stderr
        seen.append((done.stdout, "from disk" in done.stderr))
    (first, fresh), (second, recalled) = seen
    assert first == second
    assert (fresh, recalled) == (False, True)


def test_its_name_is_like_any_other():
    for package, names in lazy_imports.PARTS.items():
        module = importlib.import_module(package)
        assert set(names) <= set(dir(module))
        for name in names:
            assert getattr(module, name) is sys.modules[f"{package}.{name}"]
    with pytest.raises(AttributeError, match="'eager' has no attribute 'distribution'"):
        _ = eager.distribution
    with pytest.raises(ImportError):
        exec("from eager import distribution")
    assert not hasattr(eager.utils, "dat")


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_as_it_was_before_an_import(enabled):
    program = f"import gc; gc.{'enable' if enabled else 'disable'}(); import eager, jitcap; print(gc.isenabled())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == str(enabled), done.stderr
    with pytest.raises(ZeroDivisionError):
        failed_import()
    assert gc.isenabled()


def failed_import():
    _held = Uncollected()
    assert not gc.isenabled()
    1 / 0
