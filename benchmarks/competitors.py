"""The competitors: workload -> a call without arguments, or a word on why there is none."""

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.workloads import Program, Workload, training_step


@dataclass(frozen=True)
class Runner:
    """One competitor on one workload: `call()` makes one step; `stats` is ours under @jit."""

    call: Callable[[], Any]
    stats: Any = None


@dataclass(frozen=True)
class Competitor:
    """A name for the table, the package it needs, and how it makes its runner."""

    name: str
    label: str
    needs: tuple[str, ...]
    make: Callable[[Workload], Runner]

    def missing(self) -> str:
        """The first package that is not installed, or ""."""
        absent = (name for name in self.needs if importlib.util.find_spec(name) is None)
        return next(absent, "")


def plain(program: Program) -> Runner:
    return Runner(program.runner(training_step(program) if program.optimizer else program.loss))


def eager(workload: Workload) -> Runner:
    return plain(workload.build(importlib.import_module("eager")))


def jit(workload: Workload, mode: str | None = None) -> Runner:
    program = workload.build(importlib.import_module("eager"))
    compiled = importlib.import_module("jitcap").jit(
        training_step(program) if program.optimizer else program.loss, mode=mode
    )
    return Runner(program.runner(compiled), compiled.stats)


def torch_eager(workload: Workload) -> Runner:
    return plain(workload.build(importlib.import_module("torch")))


def torch_compile(workload: Workload) -> Runner:
    """What users of torch.compile do: loss and optimizer step compiled, backward() in between."""
    torch = importlib.import_module("torch")
    program = workload.build(torch)
    loss = torch.compile(program.loss)
    if program.optimizer is None:
        return Runner(program.runner(loss))
    update = torch.compile(program.optimizer.step)

    def step(*batch: Any) -> Any:
        program.optimizer.zero_grad()
        value = loss(*batch)
        value.backward()
        update()
        return value

    return Runner(program.runner(step))


def jax(workload: Workload) -> Runner:
    """The whole step as one jax.jit; inputs and initial weights come from the eager program."""
    program = workload.build(importlib.import_module("eager"))
    return Runner(importlib.import_module("benchmarks.jax_workloads").build(workload.name, program))


COMPETITORS = (
    Competitor("eager", "eager", ("eager",), eager),
    Competitor("jit", "@jit", ("eager", "jitcap"), jit),
    Competitor("torch", "torch", ("torch",), torch_eager),
    Competitor("compile", "torch.compile", ("torch",), torch_compile),
    Competitor("jax", "JAX jit", ("jax", "optax"), jax),
)
BY_NAME = {competitor.name: competitor for competitor in COMPETITORS}
