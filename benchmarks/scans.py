"""A recurrent training step whose loop is one scan, ours and `jax.lax.scan`'s, in one process.

    python -m benchmarks.scans [--steps 32,400,1500] [--seconds 20]

The model is that of the workload `gru`: in ours a plain Python loop over time, which `@jit` rolls,
in JAX `lax.scan`. Both train the same weights with AdamW on one batch, and take turns. Prints, for
each length, seconds of the first call (with an empty cache), milliseconds of a step (median and
minimum), what was compiled (our kernels, XLA's fusions and calls of its last program), and the
losses of the first steps of both. Both flush denormal numbers, of which a gradient that vanishes is
made: XLA always does.
"""

import argparse
import os
import re
import tempfile
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import eager
from benchmarks import data, jax_workloads, measure
from benchmarks.jax_workloads import linear
from benchmarks.models import gru
from benchmarks.workloads import Program, training, training_step
from jitcap import jit

BATCH, WIDTH = 32, 128
KERNEL = re.compile(r" (?:fusion|dot|custom-call|reduce)\(")


def forward(p: dict[str, Any], x: Any) -> Any:
    """The model of `benchmarks.models.gru`: x [batch, time, width] -> logits [batch, classes]."""

    def step(h: Any, row: Any) -> tuple[Any, None]:
        xr, xz, xn = jnp.split(linear(p, "input", row), 3, -1)
        hr, hz, hn = jnp.split(linear(p, "state", h), 3, -1)
        update = jax.nn.sigmoid(xz + hz)
        new = jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * hn)
        return (1.0 - update) * new + update * h, None

    start = jnp.zeros((x.shape[0], x.shape[2]))
    h, _ = jax.lax.scan(step, start, x.transpose(1, 0, 2))
    return linear(p, "head", h)


def program(steps: int) -> Program:
    return training(eager, gru.build(eager, WIDTH), data.sequence_batch(BATCH, steps, WIDTH))


def ours(steps: int) -> tuple[Callable[[], float], Callable[[], str]]:
    """A call that makes a step and gives its loss; what was compiled, once it was."""
    made = program(steps)
    step = jit(training_step(made))
    return lambda: step(*made.args).item(), lambda: f"{step.stats.kernels} kernels"


def theirs(steps: int) -> tuple[Callable[[], float], Callable[[], str]]:
    """The same of JAX; of its program what it calls and fuses."""
    update, params, state, batch = jax_workloads.update_of(forward, program(steps))
    compiled: Any = None

    def call() -> float:
        nonlocal params, state, compiled
        if compiled is None:
            compiled = update.lower(params, state, *batch).compile()
        params, state, loss = compiled(params, state, *batch)
        return float(loss)

    def shown() -> str:
        return f"{len(KERNEL.findall(compiled.as_text()))} fusions and calls"

    return call, shown


def race(steps: int, seconds: float) -> None:
    eager.set_flush_denormal(True)
    made = {"@jit": ours(steps), "JAX lax.scan": theirs(steps)}
    first: dict[str, float] = {}
    losses: dict[str, list[float]] = {}
    for name, (call, _) in made.items():
        start = time.perf_counter()
        losses[name] = [call()]
        first[name] = time.perf_counter() - start
        losses[name] += [call() for _ in range(3)]
    timings = measure.interleave({n: c for n, (c, _) in made.items()}, 10, seconds / 2)
    for name, (_, compiled) in made.items():
        median, best = timings[name].median * 1e3, timings[name].minimum * 1e3
        shown = " ".join(f"{x:.5f}" for x in losses[name])
        print(f"{steps:5} steps  {name:13} first call {first[name]:6.2f} s, step {median:8.2f} ms,"
              f" at best {best:8.2f} ms  {compiled()}, losses {shown}", flush=True)  # fmt: skip
    a, b = timings["JAX lax.scan"], timings["@jit"]
    median, best = a.median / b.median, a.minimum / b.minimum
    print(f"{steps:5} steps  JAX / @jit: {median:.2f}, at best {best:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", default="32,400,1500", help="lengths of the sequence")
    parser.add_argument("--seconds", type=float, default=20, help="of each length")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["JITCAP_CACHE_DIR"] = folder
        for steps in map(int, asked.steps.split(",")):
            race(steps, asked.seconds)


if __name__ == "__main__":
    main()
