"""What every test runs under: a private compile cache, checks between stages, a fixed seed."""

import gc
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

# For benchmarks/ and examples/. At the end, so that our packages come from where they are
# installed, not from the checkout.
sys.path.append(str(Path(__file__).resolve().parent.parent))

# Set before any of our packages is imported: CHECK verifies between stages, STRICT makes a fault
# of the compiler fail the test instead of running eagerly, and a cache of the run's own keeps tests
# independent of what an earlier version compiled.
os.environ.setdefault("CHECK", "1")
os.environ.setdefault("JITCAP_STRICT", "1")
os.environ.setdefault("JITCAP_REPRODUCE", "0")  # planted faults are in no other process
CACHE = "" if "JITCAP_CACHE_DIR" in os.environ else tempfile.mkdtemp(prefix="jitcap-test-cache-")
os.environ.setdefault("JITCAP_CACHE_DIR", CACHE)


def pytest_unconfigure() -> None:
    """Workers have the cache of the process that started them, which is the last to end."""
    if CACHE:
        shutil.rmtree(CACHE, ignore_errors=True)


def pytest_collection_finish() -> None:
    """What all tests and torch left behind lives to the end: seven hundred thousand objects, which no
    collection of garbage and no look for all tensors needs to go through."""
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the stage sections of tests/golden/*.md from what the compiler does now",
    )


@pytest.fixture(autouse=True)
def fixed_seed():
    """Tests that draw without seeding still see the same numbers on every run."""
    eager = pytest.importorskip("eager")
    for device in eager.random.default_generators.keys() - {
        "cpu"
    }:  # of GPUs that earlier tests simulated
        del eager.random.default_generators[device]
    seed = getattr(eager, "manual_seed", None)
    if seed is not None:
        seed(0)


@pytest.fixture(autouse=True, scope="session")
def notices_raise():
    """A notice of ours never changes what a program does; one that a test does not expect, does."""
    notice = pytest.importorskip("eager.base.compat_warnings")

    def raised(message: Warning, _: object) -> None:
        raise message

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(notice, "not_raised", raised)
        yield
