"""What is emitted depends on the program alone: not on what was compiled before, nor on the
process."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

from tests.codegen.emitted import digest

ROOT = Path(__file__).resolve().parent.parent.parent
NAMES = ["tiny", "softmax", "layernorm", "mlp", *(f"random {seed}" for seed in range(0, 60, 10))]


def in_a_process(names, seed):
    """Digests of programs compiled in this order, in a process of its own."""
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    command = [sys.executable, "-m", "tests.codegen.emitted", *names]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
    return json.loads(done.stdout)


def test_in_any_order_in_any_process():
    forwards = in_a_process(NAMES, 1)
    shuffled = random.Random(0).sample(NAMES, len(NAMES))
    assert in_a_process(shuffled, 2) == forwards
    alone = NAMES[-1]
    assert digest(alone) == forwards[alone]
