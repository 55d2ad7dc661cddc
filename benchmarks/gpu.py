"""`python -m benchmarks.gpu`: all that there is to know of a machine with a GPU, in 8 minutes.

Tests on the device, training, bandwidth, products, the eight workloads and GPT-2 124M: our eager
and `@jit`, and where they are installed with CUDA, torch, torch.compile and JAX. Each part runs in
a process of its own, under a limit: what fails or takes too long is a line of the report, and the
rest goes on. Writes gpu.json, gpu.png and gpu.txt, which says what failed.

`JITCAP_DEVICE=sim python -m benchmarks.gpu --small` runs all of it on the simulated GPU: that shows
that it runs, and its times mean nothing.
"""

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks import data, report, workloads
from benchmarks.models import cnn, gpt, gru, mlp, resnet
from benchmarks.workloads import Program, training, training_step

ROOT = Path(__file__).resolve().parent.parent
MINUTES = 8.0
PACKAGES = ("jitcap", "numpy", "triton", "cuda-bindings", "torch", "jax")
GPT2 = gpt.Config(layers=12, heads=12, width=768, context=1024, vocab=50257)
TINY_GPT = gpt.Config(layers=1, heads=2, width=16, context=16)


# ---------------------------------------------------------------------------- competitors
@dataclass(frozen=True)
class Competitor:
    """A namespace, how its programs are made fast, and how one waits for the GPU."""

    label: str
    namespace: str
    compiled: bool = False

    def torch(self) -> ModuleType:
        """The namespace; RuntimeError where it has no GPU."""
        found = import_module(self.namespace)
        if not found.cuda.is_available():
            raise RuntimeError(f"{self.namespace} finds no GPU")
        return found

    def wait(self) -> None:
        import_module(self.namespace).cuda.synchronize()

    def fast(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if not self.compiled:
            return function
        if self.namespace == "eager":
            return import_module("jitcap").jit(function)
        return import_module("torch").compile(function)


OURS = (Competitor("eager", "eager"), Competitor("@jit", "eager", compiled=True))
THEIRS = (Competitor("torch", "torch"), Competitor("torch.compile", "torch", compiled=True))


def competitors() -> list[Competitor]:
    """Ours, and torch where it is installed with a GPU."""
    try:
        there = not simulated() and import_module("torch").cuda.is_available()
    except ImportError:
        there = False
    return [*OURS, *(THEIRS if there else ())]


def simulated() -> bool:
    return os.environ.get("JITCAP_DEVICE") == "sim"


def moved(program: Program, dtype: Any = None) -> Program:
    """The program with its model and its arguments on the GPU."""
    if program.model is not None:
        program.model.to("cuda")
        if dtype is not None:
            program.model.to(dtype)
    return replace(program, args=tuple(a.to("cuda") for a in program.args))


def step_of(rival: Competitor, program: Program) -> Callable[[], Any]:
    """One call of it; for torch.compile what its users do, loss and update compiled."""
    if program.optimizer is None:
        call = rival.fast(program.loss)
    elif rival.compiled and rival.namespace == "torch":
        update = rival.fast(program.optimizer.step)
        program.optimizer.step = update
        call = training_step(replace(program, loss=rival.fast(program.loss)))
    else:
        call = rival.fast(training_step(program))
    step: Callable[[], Any] = lambda: call(*program.args)
    step.stats = getattr(call, "stats", None)  # type: ignore[attr-defined]
    return step


def timed(call: Callable[[], Any], wait: Callable[[], None], seconds: float) -> dict[str, Any]:
    """Seconds per call, of batches that end with a wait; the first call is told apart."""
    start = time.perf_counter()
    call()
    wait()
    first = time.perf_counter() - start
    start = time.perf_counter()
    call()
    wait()
    once = time.perf_counter() - start
    batch = max(1, min(1000, int(0.02 / once)))
    samples = [once] if batch == 1 else []
    deadline = start + seconds
    while not samples or (time.perf_counter() < deadline and len(samples) < 1000):
        start = time.perf_counter()
        for _ in range(batch):
            call()
        wait()
        samples.append((time.perf_counter() - start) / batch)
    return {
        "seconds": statistics.median(samples),
        "least": min(samples),
        "first_call": first,
        "samples": len(samples),
    }


def how_it_ran(step: Any) -> dict[str, Any]:
    """Of a `@jit` call: graphs, and what did not come into one."""
    stats = getattr(step, "stats", None)
    if stats is None:
        return {}
    kept = ("graphs", "splits", "fallbacks", "kernels", "compile_seconds")
    return {"jit": {name: _plain(getattr(stats, name)) for name in kept}}


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float) else len(value)


# ------------------------------------------------------------------------------- one part
class Part:
    """What a part found, written line by line: a part that is stopped keeps what it has."""

    def __init__(self, path: Path, *, small: bool) -> None:
        self.path = path
        self.small = small
        self.seconds = 0.05 if small else 1.0  # of each timing

    def keep(self, item: str, found: Mapping[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps({"item": item, **found}) + "\n")

    def item(self, name: str, work: Callable[[], Mapping[str, Any]]) -> None:
        """Keep what `work` gives, or why it failed; what it warned of stands there, too."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                found = dict(work())
            except Exception as error:  # noqa: BLE001  the rest goes on
                last = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{Path(last.filename).name}:{last.lineno}"
                text = str(error).strip().partition("\n")[0][:300]
                found = {"error": f"{type(error).__name__}: {text} (at {where})"}
        ours = [w for w in caught if w.category.__module__.startswith(("eager", "jitcap"))]
        said = [str(w.message).partition("\n")[0] for w in ours]
        if said:
            found["said"] = list(dict.fromkeys(said))[:10]
        self.keep(name, found)


def device(part: Part) -> None:
    """What GPU it is, and the programs there are."""

    def describe() -> dict[str, Any]:
        cuda = OURS[0].torch().cuda
        found = cuda.get_device_properties()
        known = {name: getattr(found, name) for name in found.__slots__}
        return {"properties": known, "machine": machine()}

    part.item("properties", describe)


def machine() -> dict[str, Any]:
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {"python": platform.python_version(), "cores": os.cpu_count(), **versions}


def tests(part: Part) -> None:
    """The tests of the device."""

    def run() -> dict[str, Any]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/gpu"]
        if part.small:
            command += ["-k", "gelu or aligned or recording"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        lines = done.stdout.strip().splitlines() or done.stderr.strip().splitlines()
        failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
        if done.returncode:
            raise RuntimeError("; ".join([lines[-1], *(line[:200] for line in failed)]))
        return {"result": lines[-1]}

    part.item("tests/gpu", run)


def train(part: Part) -> None:
    """Digits by an MLP and a CNN, characters by a GPT: losses on the GPU beside the CPU's."""
    steps = 2 if part.small else 100
    config = TINY_GPT if part.small else gpt.Config(layers=4, heads=4, width=128, context=128)
    batch = 8 if part.small else 64
    models: dict[str, Callable[[ModuleType], Program]] = {
        "digits mlp": lambda t: training(t, mlp.build(t), data.digits_batch(batch)),
        "digits cnn": lambda t: training(t, cnn.build(t), data.digits_batch(batch)),
        "character gpt": lambda t: training(
            t, gpt.build(t, config), data.text_batch(batch // 4, config.context)
        ),
    }
    for name, build in models.items():
        expected = losses(OURS[0], build, min(steps, 10), "cpu")
        for rival in OURS:

            def run(rival: Competitor = rival, build: Any = build, expected: Any = expected) -> Any:
                start = time.perf_counter()
                found = losses(rival, build, steps, "cuda")
                gaps = [abs(a - b) / abs(b) for a, b in zip(found, expected, strict=False)]
                if not all(map(math.isfinite, found)) or max(gaps) > 1e-2:
                    raise RuntimeError(f"the losses are not the CPU's: {found[:3]}, {expected[:3]}")
                return {
                    "first_loss": found[0],
                    "last_loss": found[-1],
                    "gap": max(gaps),
                    "steps": steps,
                    "seconds": time.perf_counter() - start,
                }

            part.item(f"{name}, {rival.label}", run)


def losses(rival: Competitor, build: Any, steps: int, place: str) -> list[float]:
    program = build(import_module(rival.namespace))
    if place == "cuda":
        rival.torch()
        program = moved(program)
    step = step_of(rival if place == "cuda" else OURS[0], program)
    return [float(value) for value in [step().detach() for _ in range(steps)]]


def bandwidth(part: Part) -> None:
    """Bytes per second of ops that only move: what must be read and written, over the time."""
    rows, columns = (8, 64) if part.small else (16384, 4096)
    for rival in competitors():
        for kind in ("float32", "bfloat16"):

            def run(rival: Competitor = rival, kind: str = kind) -> dict[str, Any]:
                torch = rival.torch()
                dtype = getattr(torch, kind)
                x = torch.randn(rows, columns, device="cuda").to(dtype)
                w = torch.ones(columns, device="cuda").to(dtype)
                labels = torch.zeros(rows, device="cuda", dtype=torch.int64)
                size = rows * columns * (4 if kind == "float32" else 2)
                found = {}
                for name, (times, function) in moving(torch, x, w, labels).items():
                    figures = timed(rival.fast(function), rival.wait, part.seconds / 4)
                    found[name] = times * size / figures["seconds"] / 1e9
                return {"gigabytes_per_second": found}

            part.item(f"{kind}, {rival.label}", run)


def moving(torch: Any, x: Any, w: Any, labels: Any) -> dict[str, tuple[int, Callable[[], Any]]]:
    """Ops with how often they read or write memory as large as `x`."""
    F = torch.nn.functional
    leaf = x.detach().clone().requires_grad_()

    def backward() -> Any:
        leaf.grad = None
        F.cross_entropy(leaf, labels).backward()
        return leaf.grad

    return {
        "copy": (2, x.clone),
        "add": (3, lambda: x + x.t().t()),
        "gelu": (2, lambda: F.gelu(x)),
        "softmax": (2, lambda: F.softmax(x, -1)),
        "layer norm": (2, lambda: F.layer_norm(x, (x.shape[-1],), w)),
        "sum of rows": (1, lambda: x.sum(-1)),
        "cross-entropy": (1, lambda: F.cross_entropy(x, labels)),
        "cross-entropy and gradient": (3, backward),
    }


def products(part: Part) -> None:
    """Operations per second of matrix products."""
    large = [("float32", 4096), ("bfloat16", 4096), ("bfloat16", 8192)]
    for rival in competitors():
        for kind, n in [("float32", 32)] if part.small else large:

            def run(rival: Competitor = rival, kind: str = kind, n: int = n) -> dict[str, Any]:
                torch = rival.torch()
                a, b = (torch.randn(n, n, device="cuda").to(getattr(torch, kind)) for _ in "ab")
                figures = timed(rival.fast(lambda: a @ b), rival.wait, part.seconds / 2)
                return {"teraflops": 2 * n**3 / figures["seconds"] / 1e12, **figures}

            part.item(f"{kind} {n}, {rival.label}", run)


def workload(name: str) -> Callable[[Part], None]:
    """One of the eight, for everybody."""

    def run(part: Part) -> None:
        build = SMALL[name] if part.small else workloads.BY_NAME[name].build
        for rival in competitors():

            def one(rival: Competitor = rival) -> dict[str, Any]:
                step = step_of(rival, moved(build(rival.torch())))
                return {**timed(step, rival.wait, 2 * part.seconds), **how_it_ran(step)}

            part.item(rival.label, one)
        if has_jax():
            part.item("JAX jit", lambda: timed_jax(name, build, part))

    return run


def has_jax() -> bool:
    try:
        return not simulated() and bool(import_module("jax").default_backend() == "gpu")
    except (ImportError, RuntimeError):
        return False


def timed_jax(name: str, build: Any, part: Part) -> dict[str, Any]:
    make = import_module("benchmarks.jax_workloads").build
    call = make(name, build(import_module("eager")))
    ready = import_module("jax").block_until_ready
    return timed(lambda: ready(call()), lambda: None, 2 * part.seconds)


SMALL: dict[str, Callable[[ModuleType], Program]] = {
    "tiny": workloads.tiny,
    "gelu": lambda t: workloads.gelu(t, 1000),
    "softmax": lambda t: workloads.softmax(t, 8, 100),
    "layernorm": lambda t: workloads.layernorm(t, 8, 64),
    "mlp": lambda t: training(t, mlp.build(t), data.digits_batch(8)),
    "gru": lambda t: training(t, gru.build(t, 8), data.sequence_batch(2, 3, 8)),
    "resnet": lambda t: training(t, resnet.build(t, blocks=1), small_images()),
    "gpt": lambda t: training(t, gpt.build(t, TINY_GPT), data.text_batch(2, 16)),
}


def small_images() -> Any:
    x, y = data.image_batch(2)  # (2, 3, 32, 32)
    return np.ascontiguousarray(x[:, :, ::8, ::8]), y


def gpt2(rival: Competitor) -> Callable[[Part], None]:
    """A training step of GPT-2 with 124 million parameters, all in bfloat16, for one of us."""

    def run(part: Part) -> None:
        if rival not in competitors():
            return
        config = TINY_GPT if part.small else GPT2
        batch = 2 if part.small else 16

        def one() -> dict[str, Any]:
            torch = rival.torch()
            tokens = data.text_batch(batch, config.context)
            program = moved(training(torch, gpt.build(torch, config), tokens), torch.bfloat16)
            step = step_of(rival, program)
            figures = timed(step, rival.wait, 8 * part.seconds)
            loss = float(step().detach())
            if not math.isfinite(loss):
                raise RuntimeError(f"the loss is {loss}")
            per_second = batch * config.context / figures["seconds"]
            count = sum(math.prod(p.shape) for p in program.model.parameters())
            return {
                **figures,
                **how_it_ran(step),
                "tokens_per_second": per_second,
                "teraflops": 6 * count * per_second / 1e12,
                "parameters": count,
                "loss": loss,
                "peak_bytes": int(torch.cuda.max_memory_allocated()),
            }

        part.item(rival.label, one)

    return run


# The parts in order, with the most seconds that each may take.
PARTS: dict[str, tuple[Callable[[Part], None], float]] = {
    "device": (device, 30),
    "tests": (tests, 120),
    "train": (train, 75),
    "products": (products, 30),
    "bandwidth": (bandwidth, 40),
    **{f"gpt2 {rival.label}": (gpt2(rival), 60) for rival in (*OURS, *THEIRS)},
    **{name: (workload(name), 45) for name in workloads.BY_NAME},
}


# -------------------------------------------------------------------------------- the whole
def run_part(name: str, limit: float, *, small: bool) -> dict[str, Any]:
    """What a part found, from a process of its own that is ended after `limit` seconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lines"
        command = [sys.executable, "-m", "benchmarks.gpu", "--part", name, "--lines", str(path)]
        start, trouble = time.perf_counter(), ""
        try:
            done = subprocess.run(
                [*command, *(["--small"] if small else [])],
                cwd=ROOT, timeout=limit, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode:
                lines = done.stderr.strip().splitlines() or [""]
                trouble = f"ended with {done.returncode}: {lines[-1][:300]}"
        except subprocess.TimeoutExpired:
            trouble = f"stopped after {limit:.0f} s"
        lines = path.read_text().splitlines() if path.exists() else []
    items = {found.pop("item"): found for found in map(json.loads, lines)}
    return {"seconds": time.perf_counter() - start, "trouble": trouble, "items": items}


def faults(parts: Mapping[str, Any]) -> Iterator[str]:
    for name, part in parts.items():
        if part["trouble"]:
            yield f"{name}: {part['trouble']}"
        for item, found in part["items"].items():
            if "error" in found:
                yield f"{name}, {item}: {found['error']}"
            yield from (f"{name}, {item} says: {text}" for text in found.get("said", ()))


def paragraph(parts: Mapping[str, Any]) -> str:
    """What failed, in words."""
    items = [found for part in parts.values() for found in part["items"].values()]
    failed = sum("error" in found for found in items)
    stopped = sum(bool(part["trouble"]) for part in parts.values())
    first = f"Of {len(items)} items in {len(parts)} parts {failed} failed; {stopped} parts were "
    first += "stopped or broke off."
    if simulated():
        first += " The GPU is simulated: no time here is a measurement."
    return "\n".join([first, *(f"* {fault}" for fault in faults(parts))]) + "\n"


def table(parts: Mapping[str, Any]) -> str:
    """Milliseconds of the workloads, for the terminal."""
    labels = [rival.label for rival in (*OURS, *THEIRS)] + ["JAX jit"]
    rows = [["ms", *labels]]
    for name in (*workloads.BY_NAME, "gpt2"):
        found: dict[str, Any] = {}
        for part, result in parts.items():
            if part == name or part.startswith(f"{name} "):
                found.update(result["items"])
        cells = [found.get(label, {}).get("seconds") for label in labels]
        rows.append([name, *("-" if s is None else report.milliseconds(s) for s in cells)])
    return report.table(rows)


def picture(parts: Mapping[str, Any], path: Path) -> str:
    """Bars: the workloads over @jit's time, and bandwidths."""
    try:
        import matplotlib as mpl
    except ImportError:
        return "no picture: matplotlib is not installed"
    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(14, 5))
    labels = [rival.label for rival in (*OURS, *THEIRS)] + ["JAX jit"]
    names = [n for n in workloads.BY_NAME if "seconds" in _item(parts, n, "@jit")]
    for i, label in enumerate(labels):
        heights = [
            _item(parts, n, label).get("seconds", 0) / _item(parts, n, "@jit")["seconds"]
            for n in names
        ]
        left.bar([x + 0.16 * (i - 2) for x in range(len(names))], heights, 0.16, label=label)
    left.set_xticks(range(len(names)), names)
    left.set(ylabel="time as a multiple of @jit's", title="Workloads")
    left.axhline(1, color="black", linewidth=0.8)
    left.legend()
    bars = parts.get("bandwidth", {"items": {}})["items"]
    for i, (label, found) in enumerate(bars.items()):
        rates = found.get("gigabytes_per_second", {})
        right.barh([y + 0.1 * i for y in range(len(rates))], rates.values(), 0.1, label=label)
        if rates:
            right.set_yticks(range(len(rates)), rates)
    right.set(xlabel="GB/s", title="Bandwidth")
    if bars:
        right.legend(fontsize=7)
    if simulated():
        figure.suptitle("A simulated GPU: no time here is a measurement")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return f"picture: {path}"


def _item(parts: Mapping[str, Any], part: str, item: str) -> dict[str, Any]:
    found: dict[str, Any] = parts.get(part, {"items": {}})["items"].get(item, {})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--only", help=f"comma-separated parts: {', '.join(PARTS)}")
    parser.add_argument("--small", action="store_true", help="small sizes: that it runs")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="for everything")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the results")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--lines", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part:
        PARTS[args.part][0](Part(args.lines, small=args.small))
        return
    deadline = time.perf_counter() + 60 * args.minutes
    args.out.mkdir(parents=True, exist_ok=True)
    parts: dict[str, Any] = {}
    for name in args.only.split(",") if args.only else PARTS:
        left = deadline - time.perf_counter()
        if left < 5:
            parts[name] = {"seconds": 0.0, "trouble": "no time was left", "items": {}}
            continue
        limit = PARTS[name][1] * (3 if simulated() else 1)
        parts[name] = run_part(name, min(limit, left), small=args.small)
        print(f"{name}: {parts[name]['seconds']:.0f} s {parts[name]['trouble']}", file=sys.stderr)
        result = {"simulated": simulated(), "small": args.small, "parts": parts}
        (args.out / "gpu.json").write_text(json.dumps(result, indent=1) + "\n")
    text = paragraph(parts)
    (args.out / "gpu.txt").write_text(text)
    print(table(parts))
    print(text)
    print(picture(parts, args.out / "gpu.png"))


if __name__ == "__main__":
    main()
