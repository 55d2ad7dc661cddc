"""Random programs that draw from two generators in branches and loops which data decide: the values
and the generators' states are plain Python's.

A failure prints the source and the seed (see `fuzz_seeds` for more seeds). Every eighth is compiled,
the rest run the captured graph op by op.
"""

import random

import fuzz_seeds
import numpy as np
import pytest
import share

import eager
from jitcap import jit

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore:@jit")]

DRAWS = (
    "eager.rand(())", "eager.rand(())", "eager.rand((), generator=g)", "eager.rand(2).sum() * 0.5",
    "0.3",
)  # fmt: skip
ROUNDS = ("0.4", "0.3 + eager.rand(()) * 0.5", "0.2 + eager.rand((), generator=g)")
LEAST_WHOLE = 0.8  # of the programs are one graph; what has a scan in it may be none


class Writer:
    """Statements of one program; `w0`, `w1` ... count the rounds of its loops."""

    def __init__(self, seed):
        self.rng, self.lines, self.loops = random.Random(seed), [], 0

    def block(self, depth, indent, count):
        for _ in range(count):
            self.statement(depth, "    " * indent, indent)

    def statement(self, depth, pad, indent):
        rng, name, kind = self.rng, self.rng.choice("tu"), self.rng.random()
        if depth == 0 or kind < 0.4:
            self.lines.append(f"{pad}{name} = {name} + {rng.choice(DRAWS)}")
        elif kind < 0.65:
            limit = rng.choice((0.2, 0.7, 1.5, -0.1))
            self.lines.append(f"{pad}if {name} > {limit}:")
            self.block(depth - 1, indent + 1, rng.randint(1, 2))
            if rng.random() < 0.6:
                self.lines.append(f"{pad}else:")
                self.block(depth - 1, indent + 1, rng.randint(1, 2))
        elif kind < 0.9:
            rounds, self.loops = f"w{self.loops}", self.loops + 1
            limit = rng.choice((1, 1.5, 0.4))
            self.lines += [f"{pad}{rounds} = x.sum() * 0", f"{pad}while {rounds} < {limit}:"]
            self.block(depth - 1, indent + 1, rng.randint(1, 2))
            self.lines.append(f"{pad}    {rounds} = {rounds} + {rng.choice(ROUNDS)}")
        else:
            self.lines.append(f"{pad}for i{indent} in range({rng.randint(1, 4)}):")
            self.block(depth - 1, indent + 1, rng.randint(1, 2))


def source(seed):
    writer = Writer(seed)
    writer.block(3, 1, writer.rng.randint(2, 3))
    body = "\n".join(writer.lines)
    return f"""
def program(x, g):
    t, u = x.sum() * 0, x.sum() * 0.5
{body}
    return t, u, eager.rand(1), eager.rand(1, generator=g)
"""


def check(seed, text):
    """Whether the program was one graph."""
    space = {"eager": eager}
    exec(text, space)
    program = space["program"]
    compiled = jit(program, backend=None if seed % 8 == 0 else "eager")
    own, other = eager.Generator().manual_seed(5), eager.Generator().manual_seed(5)
    eager.manual_seed(seed)
    for i in range(4):
        x = eager.tensor(np.random.default_rng(i).standard_normal(3).astype("f4"))
        before = eager.get_rng_state()
        plain = str(program(x, own)), eager.get_rng_state().tolist(), own.get_state().tolist()
        eager.set_rng_state(before)
        again = str(compiled(x, other)), eager.get_rng_state().tolist(), other.get_state().tolist()
        assert again == plain, f"call {i} of seed {seed}:\n{text}"
    for refusal in compiled.stats.refusals:
        assert "capture met" not in refusal, f"seed {seed}: {refusal}\n{text}"
    return compiled.stats.splits == 0 and compiled.stats.graphs > 0


def test_random_programs_draw_as_plain_python():
    seeds = fuzz_seeds.seeds(40 if share.ALL else 24)
    whole = sum(check(seed, source(seed)) for seed in seeds)
    print(f"{whole} of {len(seeds)} programs are one graph")
    assert whole >= LEAST_WHOLE * len(seeds)
