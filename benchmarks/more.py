"""More workloads, which `python -m benchmarks --set more` runs: kinds of model and of program.

Training steps are AdamW's; a simulation, a price and decoding are programs without a gradient. Each
takes sizes, so that a test can make it small.
"""

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.models import (
    decoding,
    densenet,
    dlrm,
    gcn,
    gpt,
    lstm,
    mobilenet,
    unet,
    vae,
    vgg,
    vit,
)
from benchmarks.workloads import (
    WORKLOADS,
    Program,
    Workload,
    rng_floats,
    set_weights,
    trained,
    training,
)


def classes_of(count: int, *shape: int) -> Any:
    return np.random.default_rng(1).integers(0, count, shape)


def vit_tiny(torch: ModuleType, batch: int = 8, image: int = 224, **sizes: int) -> Program:
    images = rng_floats(batch, 3, image, image)
    model = vit.build(torch, image, **sizes)
    return training(torch, model, (images, classes_of(10, batch)))


def denoising(torch: ModuleType, batch: int = 8, image: int = 32, **sizes: int) -> Program:
    model, F = unet.build(torch, **sizes), torch.nn.functional
    images, noise = (rng_floats(batch, 3, image, image, seed=seed) for seed in (0, 1))
    return trained(
        torch, model, lambda x, noise: F.mse_loss(model(x + noise), noise), (images, noise)
    )


def language(
    torch: ModuleType, batch: int = 20, time: int = 35, words: int = 10_000, **sizes: int
) -> Program:
    ids, targets = classes_of(words, 2, batch, time)
    return training(torch, lstm.build(torch, words, **sizes), (ids, targets))


def recommendation(
    torch: ModuleType, batch: int = 2048, tables: int = 26, rows: int = 10_000
) -> Program:
    model, F = dlrm.build(torch, tables, rows), torch.nn.functional
    clicks = classes_of(2, batch).astype(np.float32)
    batch_of = (rng_floats(batch, 13), classes_of(rows, batch, tables), clicks)

    def loss(dense: Any, ids: Any, clicks: Any) -> Any:
        return F.binary_cross_entropy_with_logits(model(dense, ids), clicks)

    return trained(torch, model, loss, batch_of)


def autoencoder(torch: ModuleType, batch: int = 512, **sizes: int) -> Program:
    model = vae.build(torch, **sizes)
    x = np.random.default_rng(0).random((batch, model.head.out_features), dtype=np.float32)
    return trained(torch, model, lambda x: vae.loss(torch, model, x), (x,))


def graph_nodes(
    torch: ModuleType, nodes: int = 10_000, edges: int = 100_000, features: int = 128, **sizes: int
) -> Program:
    model, F = gcn.build(torch, features, **sizes), torch.nn.functional
    batch = rng_floats(nodes, features), classes_of(nodes, 2, edges), classes_of(10, nodes)
    return trained(torch, model, lambda x, edges, y: F.cross_entropy(model(x, edges), y), batch)


def in_bfloat16(torch: ModuleType, batch: int = 8, config: gpt.Config | None = None) -> Program:
    """The GPT, with its loss under `autocast`."""
    config = config or gpt.Config()
    text = data.text_batch(batch, config.context)
    program = training(torch, gpt.build(torch, config), text)

    def loss(*batch: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return program.loss(*batch)

    return replace(program, loss=loss)


def images(build: Any, batch: int) -> Any:
    """Training of a convolution net on 32x32 images: a workload's `build`."""
    return lambda torch, batch=batch, **sizes: training(
        torch, build(torch, **sizes), data.image_batch(batch)
    )


def many_classes(
    torch: ModuleType, rows: int = 1024, width: int = 256, classes: int = 60_000
) -> Program:
    model = torch.nn.Linear(width, classes)
    return training(torch, model, (rng_floats(rows, width), classes_of(classes, rows)))


def rk4(torch: ModuleType, systems: int = 1 << 20, steps: int = 10) -> Program:
    """The Lorenz system from many starts, by the classical Runge-Kutta method."""

    def slope(x: Any, y: Any, z: Any) -> tuple[Any, Any, Any]:
        return 10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z

    def moved(state: Any, by: Any, h: float) -> list[Any]:
        return [s + h * k for s, k in zip(state, by, strict=True)]

    def solve(state: Any, h: float = 0.01) -> Any:
        state = state.unbind(0)
        for _ in range(steps):
            k1 = slope(*state)
            k2 = slope(*moved(state, k1, h / 2))
            k3 = slope(*moved(state, k2, h / 2))
            k4 = slope(*moved(state, k3, h))
            mean = [a + 2 * b + 2 * c + d for a, b, c, d in zip(k1, k2, k3, k4, strict=True)]
            state = moved(state, mean, h / 6)
        return torch.stack(list(state))

    return Program(solve, (torch.from_numpy(rng_floats(3, systems)),))


def black_scholes(torch: ModuleType, options: int = 1 << 22) -> Program:
    """Prices of European calls and puts."""

    def normal(x: Any) -> Any:
        return 0.5 * (1.0 + torch.erf(x * 0.5**0.5))

    def prices(spot: Any, strike: Any, time: Any, rate: float = 0.02, sigma: float = 0.3) -> Any:
        root = sigma * time.sqrt()
        d1 = (torch.log(spot / strike) + (rate + 0.5 * sigma**2) * time) / root
        d2, paid = d1 - root, strike * torch.exp(-rate * time)
        call = spot * normal(d1) - paid * normal(d2)
        return call, call - spot + paid

    draw = np.random.default_rng(0)
    args = (draw.uniform(low, high, options) for low, high in ((10, 50), (10, 50), (0.2, 2)))
    return Program(prices, tuple(torch.from_numpy(arg.astype(np.float32)) for arg in args))


def generation(
    torch: ModuleType, batch: int = 8, tokens: int = 16, config: gpt.Config | None = None
) -> Program:
    """Some tokens behind a half full cache, greedily: the compiled function makes one."""
    config = config or gpt.Config()
    model, cache = gpt.build(torch, config), decoding.empty_cache(torch, config, batch)
    set_weights(torch, model)
    for seed, part in enumerate(part for layer in cache for part in layer):
        part.copy_(torch.from_numpy(rng_floats(*part.shape, seed=seed)))
    start = torch.from_numpy(classes_of(config.vocab, batch, 1))
    places = torch.arange(config.context // 2, config.context // 2 + tokens).unsqueeze(1)

    def token(ids: Any, place: Any) -> Any:
        with torch.no_grad():
            return decoding.next_token(torch, model, cache, ids, place)

    def generate(token: Any, ids: Any, places: Any) -> Any:
        out = []
        for place in places:
            ids = token(ids, place)
            out.append(ids)
        return torch.cat(out, dim=1)

    return Program(token, (start, places), drive=generate)


ROWS: tuple[tuple[Any, ...], ...] = (
    ("vit", "ViT-Ti/16, 8x3x224x224, AdamW step", vit_tiny),
    ("unet", "U-Net with group norm, 8x3x32x32, AdamW step", denoising),
    ("lstm", "2 layers, d=256, 10,000 words, 20x35, AdamW step", language),
    ("dlrm", "DLRM, 26 tables of 10,000x16, batch 2048, AdamW step", recommendation),
    ("vae", "784-400-20, batch 512, AdamW step", autoencoder, 1e-2),  # the draws differ
    ("gcn", "3 layers, d=128, 10,000 nodes, 100,000 edges, AdamW step", graph_nodes),
    ("mobilenet", "7 blocks of MobileNetV2, 32x3x32x32, AdamW step", images(mobilenet.build, 32)),
    ("vgg", "VGG-11, 32x3x32x32, AdamW step", images(vgg.build, 32)),
    ("densenet", "DenseNet-121, 16x3x32x32, AdamW step", images(densenet.build, 16)),
    ("classes", "a loss over 60,000 classes, 1024x256, AdamW step", many_classes),
    ("rk4", "Lorenz, 1 Mi systems, 10 steps of RK4", rk4),
    ("blackscholes", "4 Mi options", black_scholes),
    ("gpt-bf16", "the GPT under autocast in bfloat16, AdamW step", in_bfloat16, 1e-2),
    ("decoding", "the GPT, 16 tokens of batch 8, cache of 256", generation),
)
MORE = tuple(Workload(*row, in_jax=False) for row in ROWS)
SETS = {"eight": WORKLOADS, "more": MORE, "all": (*WORKLOADS, *MORE)}
BY_NAME = {workload.name: workload for workload in SETS["all"]}
