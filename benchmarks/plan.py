"""Prediction of steps on machines that are not here: python -m benchmarks.plan [--check]

    compiled    training steps of small GPTs; the bytes and FLOPs of every kernel that ran are added
                up, and formulas in layers, width, vocabulary and tokens are fitted to the sums
    scaled      by those formulas to GPT-2 124M and a 7B model
    network     alpha + bytes / beta for a message; rings and trees of them
    printed     time, memory and traffic of each rank: data parallel, ZeRO-1, fully_shard

None of this is a measurement: the assumptions are printed above the table. `--check` compares the
same formulas with what is measured on 1, 2 and 4 processes of this machine (docs/plan.md).
"""

import argparse
import itertools
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eager.device.cost_model import H200

FLOPS, PRODUCTS = 989e12, 0.5  # H200, bfloat16 without sparsity (data sheet); share that is reached
MEMORY = 0.8  # share of the memory's bandwidth that is reached
KEPT = 34  # bytes of activations of a layer, 16 bits each (Korthikanti et al., 2022)
NODE = 8  # GPUs that NVLink joins
# (alpha in seconds, beta in bytes/s) of one GPU: inside a node, and beyond it at 400 Gbit/s
INSIDE, BEYOND = (5e-6, H200.peer), (15e-6, 50e9)
METHODS = ("data parallel", "ZeRO-1", "fully_shard")


@dataclass(frozen=True)
class Shape:
    """A GPT and the batch of one rank."""

    layers: int
    heads: int
    width: int
    context: int
    vocab: int
    batch: int

    @property
    def tokens(self) -> int:
        return self.batch * self.context

    @property
    def layer(self) -> int:
        """Parameters of a layer."""
        return 12 * self.width**2 + 13 * self.width

    @property
    def parameters(self) -> int:
        return self.layers * self.layer + (2 * self.vocab + self.context + 2) * self.width

    def flops(self) -> float:
        """Of the products of a step, backward twice the forward: an exact count."""
        w, each = self.width, self.layers * self.width
        return self.tokens * (72 * each * w + 12 * each * self.context + 6 * self.vocab * w)

    def terms(self) -> list[float]:
        """What bytes grow with: activations, scores, logits, what a token costs, parameters."""
        n, each = self.tokens, self.layers * self.width
        scores = self.layers * self.heads * self.context
        return [n * each, n * scores, n * self.vocab, n * self.width, self.parameters]


MODELS = {
    "GPT-2 124M": Shape(12, 12, 768, 1024, 50257, 8),
    "7B": Shape(32, 32, 4096, 4096, 32000, 1),
}
SMALL = [
    Shape(1, 2, 64, 64, 64, 2), Shape(2, 2, 64, 64, 64, 2), Shape(2, 2, 128, 64, 64, 2),
    Shape(1, 2, 64, 128, 64, 2), Shape(1, 4, 64, 64, 64, 4), Shape(1, 2, 64, 64, 640, 2),
]  # fmt: skip


# ------------------------------------------------------------------------------------ compiled
def program_of(shape: Shape, wrap: Any = None) -> Any:
    """The training step's program, as the other benchmarks have it."""
    import eager
    from benchmarks import workloads
    from benchmarks.models import gpt

    config = gpt.Config(shape.layers, shape.heads, shape.width, shape.context, shape.vocab)
    ids = np.random.default_rng(0).integers(0, shape.vocab, (shape.batch, shape.context + 1))
    model = gpt.build(eager, config)
    batch = ids[:, :-1].copy(), ids[:, 1:].copy()
    return workloads.training(eager, wrap(model) if wrap else model, batch)


def compiled(shape: Shape) -> tuple[float, float]:
    """FLOPs of products, and bytes of buffers that the kernels and steps of a compiled training
    step read and write, each once a kernel."""
    import jitcap
    from benchmarks import roofline, workloads

    clocks = roofline.Clocks("CLOCK_MONOTONIC")
    with roofline.timed(clocks):
        program = program_of(shape)
        assert sum(p.numel() for p in program.model.parameters()) == shape.parameters
        step = program.runner(jitcap.jit(workloads.training_step(program)))
        for _ in range(3):
            clocks.spent[:] = 0
            step()
    runs = clocks.spent[: len(clocks.parts), 1]
    parts = [*zip(runs, clocks.parts, strict=True)]
    return float(sum(n * p.products for n, p in parts)), float(sum(n * p.nbytes for n, p in parts))


def fitted(shapes: list[Shape]) -> tuple[np.ndarray, float]:
    """Bytes (float32) for each of `Shape.terms`, and the largest relative error of the fit.
    AssertionError where the products' FLOPs are not those of the formula."""
    rows, sums = [], []
    for shape in shapes:
        flops, nbytes = compiled(shape)
        assert math.isclose(flops, shape.flops(), rel_tol=1e-9), (shape, flops, shape.flops())
        rows.append(shape.terms())
        sums.append(nbytes)
    matrix, target = np.array(rows), np.array(sums)
    scale = 1 / target[:, None]  # relative errors
    found = np.linalg.lstsq(matrix * scale, target * scale[:, 0], rcond=None)[0]
    return found, float(np.abs(matrix @ found / target - 1).max())


# ------------------------------------------------------------------------------------- network
def link(ranks: int) -> tuple[float, float]:
    return INSIDE if ranks <= NODE else BEYOND


def all_reduce(nbytes: float, ranks: int, alpha: float, beta: float) -> float:
    """Seconds: a ring, or a double tree where messages are short."""
    if ranks == 1:
        return 0.0
    ring = 2 * (ranks - 1) * alpha + 2 * (ranks - 1) / ranks * nbytes / beta
    tree = 2 * math.ceil(math.log2(ranks)) * alpha + 2 * nbytes / beta
    return min(ring, tree)


def all_gather(nbytes: float, ranks: int, alpha: float, beta: float) -> float:
    """Seconds, of `nbytes` in all; a reduce-scatter takes as long. A ring, or by halves."""
    steps = min(ranks - 1, 2 * math.ceil(math.log2(ranks)))  # halving loses to far neighbours
    return steps * alpha + (ranks - 1) / ranks * nbytes / beta


@dataclass(frozen=True)
class Sizes:
    """Bytes of a number: kept parameters and gradients, the optimizer's two, what is gathered."""

    kept: int = 4
    state: int = 8
    gathered: int = 2
    activation: int = 2


def traffic(shape: Shape, method: str, ranks: int, sizes: Sizes) -> dict[str, float]:
    """Bytes that each rank sends in a step, by collective."""
    share, p = (ranks - 1) / ranks, shape.parameters
    if method == "data parallel":
        return {"all_reduce": 2 * share * p * sizes.kept}
    gathered = share * p * sizes.kept
    if method == "fully_shard":  # gathered for the forward, and again for the backward
        gathered = 2 * share * p * sizes.gathered
    return {"all_gather": gathered, "reduce_scatter": share * p * sizes.kept}


def messages(
    shape: Shape, method: str, ranks: int, sizes: Sizes, at: tuple[float, float]
) -> tuple[float, float]:
    """Seconds of communication that can be hidden behind computation, and that cannot."""
    p, units = shape.parameters, shape.layers + 1
    nbytes = p * sizes.kept
    if method == "fully_shard":
        gathers = 2 * units * all_gather(p * sizes.gathered / units, ranks, *at)
        return gathers + units * all_gather(nbytes / units, ranks, *at), 0.0
    if method == "ZeRO-1":  # a message for each matrix: four of a layer, and the embeddings
        matrices = 4 * shape.layers + 2
        each = matrices * all_gather(nbytes / matrices, ranks, *at)
        return each, each  # gradients are scattered beside the backward, parameters gathered after
    buckets = max(1, round(nbytes / (25 << 20)))
    return buckets * all_reduce(nbytes / buckets, ranks, *at), 0.0


def memory(shape: Shape, method: str, ranks: int, sizes: Sizes) -> float:
    """Bytes of parameters, gradients and state that stay on a rank, and of what is gathered: two
    layers at a time."""
    p = shape.parameters
    if method == "fully_shard":
        return p * (2 * sizes.kept + sizes.state) / ranks + 2 * shape.layer * sizes.gathered
    return p * (2 * sizes.kept + sizes.state / (ranks if method == "ZeRO-1" else 1))


# ------------------------------------------------------------------------------------- printed
def predict(coefficients: np.ndarray, error: float) -> None:
    """The assumptions, and the table."""
    per = dict(zip("activation score logit token parameter".split(), coefficients, strict=True))
    sizes = Sizes()
    each = ", ".join(f"{v:.1f} a {k}" for k, v in per.items())
    (near, fast), (far, slow) = INSIDE, BEYOND
    print(
        "PREDICTION, not measured. Assumptions:",
        f"kernels: bytes of compiled float32 steps of {len(SMALL)} small GPTs: {each}",
        f"  (fitted within {100 * error:.0f} %); activations and logits in bfloat16 take half;",
        "  scores of attention stay in a block; FLOPs of products are exact",
        f"H200: products at {PRODUCTS:.0%} of {FLOPS / 1e12:.0f} TFLOP/s, then the rest at",
        f"  {MEMORY:.0%} of {H200.memory / 1e12:.1f} TB/s; a GPU's batch:",
        *(f"  {name} {shape.batch} x {shape.context} tokens" for name, shape in MODELS.items()),
        f"network: alpha {1e6 * near:.0f} us, beta {fast / 1e9:.0f} GB/s up to {NODE} GPUs;",
        f"  {1e6 * far:.0f} us, {slow / 1e9:.0f} GB/s beyond; a ring or a tree, which is faster",
        "memory: parameters, gradients and AdamW in float32, gathered layers in bfloat16; for the",
        f"  backward {KEPT} bytes a token, layer and width, and logits twice in float32",
        sep="\n  ",
    )
    head = ("model", "method", "GPUs", "compute", "sent", "in turn", "hidden", "memory")
    print("{:>11} {:>13} {:>5} {:>9} {:>8} {:>9} {:>9} {:>8}".format(*head))
    for (name, shape), method in itertools.product(MODELS.items(), METHODS):
        seconds = compute(shape, coefficients)
        kept = KEPT * shape.tokens * shape.layers * shape.width + 8 * shape.tokens * shape.vocab
        for ranks in (8, 64, 512, 4096):
            sent = sum(traffic(shape, method, ranks, sizes).values())
            hides, rest = messages(shape, method, ranks, sizes, link(ranks))
            room = seconds if method == "fully_shard" else seconds * 2 / 3  # the backward
            times = (seconds + hides + rest, seconds + rest + max(0.0, hides - room))
            in_turn, hidden = (f"{1e3 * t:6.0f} ms" for t in times)
            held = f"{(memory(shape, method, ranks, sizes) + kept) / 1e9:5.0f} GB"
            row = f"{name:>11} {method:>13} {ranks:>5} {1e3 * seconds:6.0f} ms"
            print(f"{row} {sent / 1e9:5.1f} GB {in_turn} {hidden} {held}")


def compute(shape: Shape, coefficients: np.ndarray) -> float:
    """Seconds of a step without communication."""
    activation, _, logit, token, parameter = coefficients * shape.terms()
    nbytes = (activation + logit + token) * Sizes().activation / 4 + parameter
    return shape.flops() / (PRODUCTS * FLOPS) + nbytes / (MEMORY * H200.memory)


# ------------------------------------------------------------------------------------- checked
CHECKED = Shape(4, 4, 256, 128, 512, 4)


def check() -> None:
    """The same formulas beside 1, 2 and 4 processes here."""
    mpiexec, one = Path(sys.executable).parent / "mpiexec", {}
    environment = os.environ | dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "JITCAP_THREADS"), "1"
    )
    sizes, cores = Sizes(gathered=4, activation=4), os.cpu_count() or 1
    print(f"{'method':>13} {'ranks':>5} {'sent: said':>11} {'measured':>9} {'held: said':>11} "
          f"{'measured':>9} {'time: said':>11} {'measured':>9}")  # fmt: skip
    for ranks in (1, 2, 4):
        command = [mpiexec, "-n", str(ranks), sys.executable, "-m", "benchmarks.plan", "--rank"]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=900
        )
        if done.returncode:
            sys.exit(done.stderr[-2000:])
        row = json.loads(re.findall(r"^\{.*\}$", done.stdout, re.MULTILINE)[-1])
        one = one or row
        for method in METHODS:
            found, at = row[method], row["link"]
            sent = sum(traffic(CHECKED, method, ranks, sizes).values())
            held = memory(CHECKED, method, ranks, sizes)
            if method == "fully_shard":
                held -= 2 * CHECKED.layer * sizes.gathered  # freed behind the step
            said = one[method]["seconds"] * max(1, ranks / cores)
            said += sum(messages(CHECKED, method, ranks, sizes, at)) if ranks > 1 else 0
            print(f"{method:>13} {ranks:>5} {sent / 1e6:8.2f} MB {found['sent'] / 1e6:6.2f} MB "
                  f"{held / 1e6:8.2f} MB {found['held'] / 1e6:6.2f} MB {1e3 * said:8.0f} ms "
                  f"{1e3 * found['seconds']:6.0f} ms")  # fmt: skip


class Counted:
    """An engine that counts the bytes that each rank sends, by the formulas of rings."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.sent = engine, 0.0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.engine, name)
        times = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0}
        if name not in times:
            return method

        def call(first: Any, *rest: Any) -> Any:
            whole = rest[0] if name == "reduce_scatter" else first
            self.sent += times[name] * whole.nbytes * (self.engine.size - 1) / self.engine.size
            return method(first, *rest)

        return call


def rank() -> None:
    """Be one of them; rank 0 prints what it found as JSON."""
    import eager
    import eager.distributed as dist
    import jitcap
    from benchmarks import workloads

    dist.init_process_group("mpi")
    dist.set_debug_level("OFF")
    group: Any = dist.group.WORLD
    found: dict[str, Any] = {"link": measured_link(dist, eager)}
    for method in METHODS:
        program = program_of(CHECKED, lambda model, method=method: wrapped(model, method))
        model, optimizer = program.model, program.optimizer
        if method == "ZeRO-1":
            parameters, rate = model.parameters(), workloads.LEARNING_RATE
            optimizer = dist.optim.ZeroRedundancyOptimizer(
                parameters, eager.optim.AdamW, lr=rate, reduce_gradients=True
            )
            program = workloads.Program(program.loss, program.args, model, optimizer)
        elif method == "fully_shard":
            optimizer = eager.optim.AdamW(model.parameters(), lr=workloads.LEARNING_RATE)
            program = workloads.Program(program.loss, program.args, model, optimizer)
        made = workloads.training_step(program)
        program.runner(made)()
        counted = group._engine = Counted(group._engine)
        program.runner(made)()
        group._engine = counted.engine
        state = getattr(optimizer, "optim", optimizer).state.values()
        held = [*model.parameters()] + [p.grad for p in model.parameters()]
        held += [t for each in state for t in each.values() if getattr(t, "ndim", 0)]
        step = program.runner(jitcap.jit(made))
        times = []
        for turn in range(9):
            dist.barrier()
            start = time.perf_counter()
            step()
            if turn > 1:
                times.append(time.perf_counter() - start)
        found[method] = {
            "sent": counted.sent, "seconds": statistics.median(times),
            "held": sum(t.numel() * t.element_size() for t in held if t is not None),
        }  # fmt: skip
    if dist.get_rank() == 0:
        print(json.dumps(found))
    dist.destroy_process_group()


def wrapped(model: Any, method: str) -> Any:
    from eager.distributed.fsdp import fully_shard
    from eager.nn.parallel import DistributedDataParallel

    if method == "ZeRO-1":  # its optimizer averages gradients
        return model
    if method == "data parallel":
        return DistributedDataParallel(model)
    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def measured_link(dist: Any, eager: Any) -> tuple[float, float]:
    """alpha and beta of an all-reduce here, from a short one and a long one."""
    ranks, seconds = dist.get_world_size(), []
    for numel in (1 << 8, 1 << 22):
        x, times = eager.zeros(numel), []
        for _ in range(9):
            dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(x)
            times.append(time.perf_counter() - start)
        seconds.append(statistics.median(times))
    alpha = seconds[0] / max(1, 2 * math.ceil(math.log2(max(ranks, 2))))
    return alpha, 2 * (ranks - 1) / ranks * (4 << 22) / max(seconds[1] - seconds[0], 1e-9) or 1e12


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plan", description=__doc__)
    parser.add_argument("--check", action="store_true", help="beside processes here")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank:
        rank()
    elif args.check:
        check()
    else:
        predict(*fitted(SMALL))


if __name__ == "__main__":
    main()
