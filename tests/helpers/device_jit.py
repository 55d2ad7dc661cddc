"""Samples of the registry on the simulated GPU through `@jit`, several in one program: samples ->
what came of each, beside the CPU.

A program makes the calls and takes the gradients, and is run twice, as is the same function on the
CPU, plainly; results, gradients and what the arguments hold afterwards are compared. Where a program
is not right, or not compiled as one, its calls are run again in smaller ones, so that a fault, or a
reason, is one sample's. `scripts/device --jit` runs the whole, `tests/eager/device/test_registry.py` a
slice.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import device_ops
import op_harness as harness
from device_ops import Outcome

import eager
import jitcap
from eager.core import on_device
from eager.core.op import Sample
from eager.core.registry import Public
from eager.core.tensor import Tensor
from eager.device import places

TOGETHER = 20


@dataclass(eq=False)
class Job:
    """A sample in a dtype. `weights` of the results that have a gradient; `why` the CPU refuses it."""

    p: Public
    sample: Sample
    dtype: Any
    weights: list[Any] = field(default_factory=list)
    why: str = ""

    def at(self, place: str) -> tuple[Any, ...]:
        """The function, its arguments on a device, those with a gradient, and the weights."""
        leaves: list[Tensor] = []
        taken: list[Tensor] = []

        def make(x: Any) -> Tensor:
            made = harness.ours(x, self.dtype).to(place)
            taken.append(made)
            if self.sample.grad and made.dtype.is_floating_point:
                leaves.append(made.requires_grad_())
            return made

        args = harness.convert(tuple(self.sample.args), make)
        kwargs = {k: harness.convert(v, make) for k, v in self.sample.kwargs.items()}
        return self.p.fn, args, kwargs, leaves, [w.to(place) for w in self.weights], taken

    def look(self) -> None:
        """What the CPU says of it alone."""
        eager.manual_seed(0)
        fn, args, kwargs, leaves, _, _ = self.at("cpu")
        try:
            outs = harness.flat(fn(*args, **kwargs))
            self.weights = [_weights(t) for t in outs if _has_gradient(t)] if leaves else []
            eager.manual_seed(0)
            program([self], "cpu")()
        except Exception as error:
            self.why = f"{type(error).__name__}: {error}"


def _has_gradient(t: Any) -> bool:
    return isinstance(t, Tensor) and t.dtype.is_floating_point and t.requires_grad


def _weights(t: Tensor) -> Tensor:
    w = eager.linspace(0.5, 1.5, t.numel(), dtype=eager.float64)
    return w.reshape(t.shape).to(t.dtype)


def program(jobs: list[Job], place: str) -> Callable[[], list[list[Any]]]:
    """A function that makes all the calls: results and gradients of each. `taken` are the arguments."""
    calls = [job.at(place) for job in jobs]

    def step() -> list[list[Any]]:
        found = []
        for fn, args, kwargs, leaves, weights, _ in calls:
            outs = harness.flat(fn(*args, **kwargs))
            gradients = []
            if weights:
                roots = [t for t in outs if _has_gradient(t)]
                gradients = list(eager.autograd.grad(roots, leaves, weights, allow_unused=True))
            found.append([*outs, *gradients])
        return found

    step.taken = [call[-1] for call in calls]  # type: ignore[attr-defined]
    return step


def outcomes(jobs: list[Job]) -> Iterator[tuple[Job, Outcome]]:
    """What comes of samples, in programs of several."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asked = []
        for job in jobs:
            job.look()
            if job.why:
                yield job, _refused(job)
            else:
                asked.append(job)
        for k in range(0, len(asked), TOGETHER):
            yield from _together(asked[k : k + TOGETHER])


def _differing(job: Job, why: str) -> Outcome:
    unsorted = device_ops.is_unsorted(job.p, job.dtype)
    return Outcome("unchecked", device_ops.UNSORTED) if unsorted else Outcome("wrong", why)


def _refused(job: Job) -> Outcome:
    """The CPU raises: so must the device."""
    on_device.host_runs.clear()
    try:
        _run([job])
    except Exception:
        return Outcome("refused")
    return Outcome("wrong", f"the CPU raises {job.why}")


def _together(jobs: list[Job]) -> Iterator[tuple[Job, Outcome]]:
    try:
        found, took = _run(jobs)
        whys = [_difference(job, *pair) for job, pair in zip(jobs, found, strict=True)]
        if (took or any(whys)) and len(jobs) > 1:
            yield from _apart(jobs)
            return
    except Exception as error:
        if len(jobs) > 1:
            yield from _apart(jobs)
        else:
            yield jobs[0], Outcome("error", f"{type(error).__name__}: {error}")
        return
    for job, why in zip(jobs, whys, strict=True):
        yield (
            job,
            _differing(job, why) if why else Outcome("host", took) if took else Outcome("right"),
        )


def _apart(jobs: list[Job]) -> Iterator[tuple[Job, Outcome]]:
    """In smaller programs: those of each op, or halves."""
    names = list(dict.fromkeys(job.p.torch for job in jobs))
    if len(names) > 1:
        for half in (names[: len(names) // 2], names[len(names) // 2 :]):
            yield from _together([job for job in jobs if job.p.torch in half])
        return
    middle = len(jobs) // 2
    yield from _together(jobs[:middle])
    yield from _together(jobs[middle:])


def _run(jobs: list[Job]) -> tuple[list[tuple[Any, Any]], str]:
    """(found, expected) of each, and what was not one compiled program, with the reasons."""
    both = []
    reasons: list[str] = []
    for place in ("cpu", "cuda"):
        if place == "cuda":
            jitcap.reset()
            on_device._calls.clear()
            places.close()
            on_device.host_runs.clear()
        step = program(jobs, place)
        taken = step.taken  # type: ignore[attr-defined]
        run = jitcap.jit(step) if place == "cuda" else step
        results: Any = None
        for _ in range(2):
            eager.manual_seed(0)
            results = run()
        if place == "cuda":
            eager.cuda.synchronize()
            reasons = [*map(_told, run.stats.refusals)]
            reasons += [f"{op}: {why}" for op, why in on_device.host_runs]
            if run.stats.fallbacks and not reasons:
                reasons = ["a fallback without a reason"]
        both.append([[*r, *t] for r, t in zip(results, taken, strict=True)])
    return list(zip(both[1], both[0], strict=True)), "\n".join(dict.fromkeys(reasons))


def _told(refusal: str) -> str:
    """A refusal in one line, without its place."""
    return refusal.split("\n")[0].partition(" at ")[0]


def _difference(job: Job, found: list[Any], expected: list[Any]) -> str:
    return device_ops.difference(found, expected, job.sample, job.dtype)
