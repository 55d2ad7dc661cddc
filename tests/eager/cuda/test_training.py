"""Tensors, ops and a compiled program over a driver in Python, whose kernels the interpreter runs: as on the CPU."""

import os
import subprocess
import sys
from pathlib import Path

import device_training
import numpy as np
import pytest
import triton_helpers as helpers
from fake_driver import FakeDriver
from work import calls_made

pytest.importorskip("triton.language")

import eager
from benchmarks import device_calls
from codegen.targets.triton.runtime.build import Record
from codegen.targets.triton.runtime.interpreter import interpret
from codegen.targets.triton.runtime.kernel import NUMPY, TritonKernel, letter
from eager.device import places
from jitcap import jit

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def driver():
    return FakeDriver(count=2)


@pytest.fixture(autouse=True)
def simulated(placed, driver, monkeypatch):
    """In place of machine code: the kernel's name, which the driver knows."""

    def compiled(self, target, aligned=None, behind=16):
        assert target == ("cuda", 90, 32)
        own = self.parameters[len(self.parameters) - self.own :]
        odd = [n for (n, _), a in zip(own, aligned or [True] * self.own, strict=True) if not a]

        def work(driver, grid, values):
            given = []
            for (name, kind), value in zip(self.parameters, values[:-2], strict=True):
                if not kind.startswith("*"):
                    assert value % 16 == 0 or name in odd or name not in self.strides
                    given.append(NUMPY[kind].type(value))
                    continue
                assert (value % 16 == 0) == (name not in odd)
                dtype, rest = NUMPY[kind[1:]], driver.rest_at(value)
                given.append(rest[: rest.size // dtype.itemsize * dtype.itemsize].view(dtype))
            assert values[-2:] == [0, 0]
            reachable = list(driver.blocks.values())
            interpret(self._function(), grid[:1], *given, reachable=reachable)

        code = f"{id(self)} {odd}".encode()
        kinds = tuple(kind for _, kind in self.parameters)
        driver.kernels[code] = "".join(map(letter, kinds)) + "QQ", work
        return Record(self.symbol, kinds, 0, self.warps, 1, 0, 1, target), code

    monkeypatch.setattr(TritonKernel, "compiled", compiled)


def test_a_training_step_is_the_cpus():
    expected = device_training.train("mlp", "cpu", 3)
    np.testing.assert_allclose(device_training.train("mlp", "cuda", 3), expected, rtol=1e-5)


def test_kernels_get_memory_that_is_cached(driver):
    """For their code, their tables, and a recording."""
    step = jit(lambda x: (x @ x).exp())
    x = eager.ones(16, 16, device="cuda")
    for name, work in (
        ("cuModuleLoadData", lambda: x.tan()),
        ("cuModuleLoadData", lambda: step(x)),
        ("cuGraphInstantiate", lambda: step(x)),
    ):
        for _ in range(3):
            eager.empty(1 << 16, device="cuda")
        places.pool(0).collect()
        cached = places.pool(0).reserved
        driver.fail[name] = [2]
        assert work().shape == (16, 16)
        assert not driver.fail[name]
        assert places.pool(0).reserved < cached
    assert np.allclose(step(x).cpu(), np.exp(16.0))
    driver.fail["cuModuleLoadData"] = [2, 2]
    with pytest.raises(eager.cuda.OutOfMemoryError, match="no memory left"):
        x.sin()


def test_a_compiled_training_step_is_one_replay(driver):
    expected = device_training.train("mlp", "cpu", 4)
    found = device_training.train("mlp", "cuda", 4, compiled=jit)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert driver.log.count("cuGraphInstantiate") == 1
    assert driver.log.count("cuGraphLaunch") == 3  # the first step queues its launches


def test_a_model_on_two_gpus(driver):
    losses, values, _ = device_training.train_halves("cuda:0", "cuda:1", steps=2)
    expected_losses, expected, _ = device_training.train_halves("cpu", "cpu", steps=2)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-4)
    for found, other in zip(values, expected, strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-4, atol=1e-5)
    assert driver.log.count("cuMemcpyPeerAsync") == 4


def test_views_that_are_not_aligned():
    x = eager.arange(9.0, device="cuda")
    assert (x[1:] * x[:-1]).cpu().tolist() == [i * (i + 1) for i in range(8)]
    x[3:5] += 1
    assert x.cpu().tolist() == [0, 1, 2, 4, 5, 5, 6, 7, 8]


def test_an_index_out_of_bounds_is_told():
    x = eager.arange(5.0, device="cuda")
    y = x[eager.tensor([1, 7], device="cuda")]
    with pytest.raises(IndexError, match=r"out of bounds.*test_training\.py"):
        y.cpu()


@pytest.mark.parametrize("replays", [1, 3])
def test_a_compiled_program_with_a_grouped_update(replays, driver):
    """Tables, a recording, written inputs."""
    rng = np.random.default_rng(0)
    parameters = [eager.tensor(rng.standard_normal(s)) for s in ((5, 7), (2000,), (64,))]

    def update(*tensors):
        for t in tensors:
            t.mul_(0.5)
        return (tensors[0].sum(),)

    expected = [p.numpy() * 0.5**replays for p in parameters]
    program, arrays = helpers.program_of(update, parameters)
    run = helpers.on_device(program, places.pool(0))
    for _ in range(replays):
        (total,) = run(arrays)
    np.testing.assert_allclose(total, expected[0].sum(), rtol=1e-12)
    for p, e in zip(parameters, expected, strict=True):
        np.testing.assert_array_equal(p.numpy(), e)
    assert driver.log.count("cuGraphLaunch") == replays - 1  # recorded at the second run


def test_sizes_that_vary(driver):
    """Code for rows whose length is a multiple of 16, code for others, and no more."""

    def softmax(x):
        return eager.softmax(x * 2, -1)

    step = jit(softmax, dynamic=True)
    for n in (32, 17, 48, 17, 33, 64):
        x = eager.tensor(np.random.default_rng(n).standard_normal((3, n)).astype(np.float32))
        np.testing.assert_allclose(step(x.cuda()).cpu().numpy(), softmax(x).numpy(), 1e-5)
    assert (step.stats.compiles, step.stats.kernels, step.stats.fallbacks) == (1, 1, 0)
    assert driver.log.count("cuModuleLoadData") == 2


def test_what_the_host_does_for_an_op():
    cases = device_calls.cases(device_calls.opened(device_calls.ReadyDriver()))
    for name, most in (("eager op", 85), ("eager op with a number", 85), ("replay", 12)):
        cases[name]()
        assert calls_made(cases[name]) <= most, name


def test_the_benchmark_of_calls():
    rows = device_calls.measure(rounds=1, batch=2)
    assert {name: rows[name]["driver_calls"] for name in device_calls.BARS} == {
        "eager op": 1,
        "replay": 1,
    }


STEP = """
import sys
import eager
from benchmarks import device_calls
from jitcap import jit

device_calls.opened(device_calls.ReadyDriver())

@jit
def step(x):
    return (x * 2 + 1).exp().sum(0), x @ x

x = eager.empty(64, 64, device="cuda")
for _ in range(3):
    step(x)
print("triton" in sys.modules, step.stats.graphs, step.stats.fallbacks)
"""


def test_a_kept_program_imports_no_triton(tmp_path):
    """The driver does nothing; kernels are compiled for its GPU, by the first process."""
    script = tmp_path / "step.py"
    script.write_text(STEP)
    folders = f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"
    variables = {**os.environ, "PYTHONPATH": folders, "JITCAP_CACHE_DIR": str(tmp_path / "cache")}
    variables.pop("CHECK", None)
    for expected in ("True 1 0", "False 1 0"):
        done = subprocess.run(
            [sys.executable, script], capture_output=True, text=True, env=variables, check=False
        )
        assert done.stdout.strip() == expected, done.stderr
