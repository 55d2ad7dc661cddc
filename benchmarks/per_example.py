"""Gradients of each example of a batch, `vmap(grad(loss))`, ours and torch.func's, in one process.

    python -m benchmarks.per_example [--examples 256] [--seconds 5]

The model is an MLP (64-128-128-10) with cross entropy, its parameters the same for all examples.
Competitors take turns: one gradient call for each example (what `vmap` is measured by), `vmap`
eagerly and in `@jit`, torch's eagerly. Prints milliseconds for all examples (median and minimum).
"""

import argparse
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import eager
from benchmarks import measure
from jitcap import jit

WIDTHS = (64, 128, 128, 10)


def gradients(t: Any) -> Callable[..., Any]:
    """(parameters, x, y) -> the gradient of one example's loss, by parameter."""
    layers: list[Any] = []
    for a, b in itertools.pairwise(WIDTHS):
        layers += [t.nn.Linear(a, b), t.nn.ReLU()]
    model = t.nn.Sequential(*layers[:-1])

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        out = t.func.functional_call(model, parameters, (x.unsqueeze(0),))
        return t.nn.functional.cross_entropy(out, y.unsqueeze(0))

    return t.func.grad(loss)  # type: ignore[no-any-return]


def arrays(examples: int) -> tuple[dict[str, Any], Any, Any]:
    chance = np.random.default_rng(0)
    parameters = {}
    for i, (a, b) in enumerate(itertools.pairwise(WIDTHS)):
        bound = a**-0.5
        parameters[f"{2 * i}.weight"] = chance.uniform(-bound, bound, (b, a)).astype(np.float32)
        parameters[f"{2 * i}.bias"] = chance.uniform(-bound, bound, b).astype(np.float32)
    x = chance.standard_normal((examples, WIDTHS[0])).astype(np.float32)
    return parameters, x, chance.integers(0, WIDTHS[-1], examples)


def calls(examples: int) -> dict[str, Callable[[], Any]]:
    parameters, x, y = arrays(examples)

    def given(t: Any) -> tuple[Any, ...]:
        return {k: t.from_numpy(v) for k, v in parameters.items()}, t.from_numpy(x), t.from_numpy(y)

    ours, theirs = given(eager), given(torch)
    one = gradients(eager)
    mapped = eager.vmap(one, in_dims=(None, 0, 0))
    compiled = jit(mapped)
    torch_mapped = torch.vmap(gradients(torch), in_dims=(None, 0, 0))

    def each() -> Any:
        p, xs, ys = ours
        rows = [one(p, xs[i], ys[i]) for i in range(examples)]
        return {k: eager.stack([r[k] for r in rows]) for k in p}

    return {
        "one by one": each,
        "vmap": lambda: mapped(*ours),
        "vmap in @jit": lambda: compiled(*ours),
        "torch": lambda: torch_mapped(*theirs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=5, help="of each competitor")
    asked = parser.parse_args()
    made = calls(asked.examples)
    expected = made["torch"]()
    for call in made.values():
        for name, gradient in call().items():
            np.testing.assert_allclose(gradient, expected[name], rtol=1e-3, atol=1e-5)
    for name, timing in measure.interleave(made, 10, asked.seconds).items():
        median, best = timing.median * 1e3, timing.minimum * 1e3
        print(f"{name:12} {median:8.2f} ms, at best {best:8.2f} ms", flush=True)


if __name__ == "__main__":
    main()
