"""Reproducing: the text of a file. a graph, or a call, with its inputs -> a program that shows a
fault."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from eager.base.config import FLAGS, config
from eager.version import __version__
from jitcap.graph.show import FLOW, function_name, show
from jitcap.reproduce.shrink import Candidate

GRAPH: Final = {
    "jitcap.graph.show": FLOW.replace(", example", "").split(", "),
    "jitcap.reproduce": ("Fault", "random", "read", "stored"),
}
CALL: Final = {"jitcap.reproduce": ("Call", "new", "random", "tensor")}
SETTINGS: Final = ("isa", "threads", "device", "tolerance")
ENVIRONMENT: Final = ("CXX", "OMP_NUM_THREADS", "OPENBLAS_CORETYPE")
MAIN: Final = '\nif __name__ == "__main__":\n    FAULT.main()\n'


def graph_text(candidate: Candidate, shows: str, *, folder: Path | None = None) -> str:
    """The file of a graph. `folder`: of long values, in a trial."""
    graph = candidate.graph
    rows = [given.text(folder, i) for i, given in enumerate(candidate.given)]
    made = "".join(f"        {row},\n" for row in rows)
    options = _options(shows, candidate.backend)
    if candidate.writes:
        options.append(f"writes={candidate.writes!r}")
    if candidate.strides is not None:
        options.append(f"strides={candidate.strides!r}")
    pairs = zip(graph.inputs, candidate.given, strict=True)
    sizes = {n.attrs["symbol"]: g.value for n, g in pairs if "symbol" in n.attrs}
    if sizes:
        options.append(f"sizes={sizes!r}")
    ends = ",\n    ".join([function_name(graph), f"lambda: [\n{made}    ]", *options])
    body = f"{show(graph)}\n\nFAULT = Fault(\n    {ends},\n)\n"
    return f"{_imports(body, GRAPH)}\n\n{body}{MAIN}"


def call_text(
    imports: Iterable[str], lines: Sequence[str], fn: str, given: tuple[str, str], shows: str,
    backend: str,
) -> str:  # fmt: skip
    """The file of a call: `lines` define what it is made of."""
    ends = ",\n    ".join([fn, *given, *_options(shows, backend or "eager")])
    spaced = [f"\n\n{x}\n\n" if x.startswith(("def ", "class ")) else x for x in lines]
    body = "\n".join([*spaced, f"\nFAULT = Call(\n    {ends},\n)\n"])
    body = re.sub(r"\n{3,}", "\n\n\n", body).lstrip("\n")
    own = "".join(f"import {module}\n" for module in imports if f"{module}." in body)
    own = f"from __future__ import annotations\n\n{own}"
    return f"{own}{_imports(body, CALL)}\n\n{body}{MAIN}"


def _options(shows: str, backend: str) -> list[str]:
    settings = {k: v for k in SETTINGS if (v := getattr(config, k)) != FLAGS[k].default}
    options = [f"shows={json.dumps(shows)}", f"backend={json.dumps(backend)}"]
    return [*options, f"settings={settings!r}"] if settings else options


def _imports(body: str, helpers: Mapping[str, Sequence[str]]) -> str:
    """The lines that import what a file names."""
    named = {
        module: [name for name in names if re.search(rf"\b{name}[.(]", body)]
        for module, names in helpers.items()
    }
    lines = [f"from {module} import {', '.join(names)}" for module, names in named.items() if names]
    return "\n".join(["import eager"] * ("eager." in body) + lines) + "\n"


def story(name: str, shown: str, stage: str, where: str, summary: str) -> str:
    """The docstring of a file: what it `shown`, where that comes from, and how it was made."""
    about = [f"jitcap {__version__}", f"Python {platform.python_version()}",
             f"NumPy {np.__version__}", platform.machine()]  # fmt: skip
    about += [f"{key}={os.environ[key]}" for key in ENVIRONMENT if key in os.environ]
    shown = "\n".join(f"    {line}" for line in shown.splitlines())
    text = f"""A fault of jitcap, in {name}.

{shown}

Stage: {stage}.
From {where}; {summary}.
The process exits with 1 while the fault is there, and with 0 when it is mended.
Made with {", ".join(about)}.
"""
    return '"""' + text.replace("\\", "\\\\").replace('"""', "'''") + '"""\n\n'
