"""The explanation of a program as text: it grows with what differs, not with what repeats."""

import re

import pytest

import eager
from eager.nn import functional as F
from jitcap import config, explain, jit
from jitcap.base.diagnostics import SCREEN

pytestmark = pytest.mark.once


class Block(eager.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linear = eager.nn.LayerNorm(4), eager.nn.Linear(4, 4)

    def forward(self, x):
        return x + F.gelu(self.linear(self.norm(x)))


def trained(layers):
    """A training step of a stack of equal blocks, explained."""
    model = eager.nn.Sequential(*(Block() for _ in range(layers)))
    optimizer = eager.optim.AdamW(model.parameters(), lr=1e-2)

    def step(x):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return explain(step)(eager.ones(2, 4))


def test_the_text_of_more_layers_is_no_longer(tmp_path):
    with config(dump=str(tmp_path / "few")):
        few = trained(10)
    with config(dump=str(tmp_path / "many")):
        many = trained(30)
    added = len(str(many)) - len(str(few))
    assert added < 20 * 600, {n: len(t) - len(few.stages[n]) for n, t in many.stages.items()}
    dumped = [
        sum(p.stat().st_size for p in (tmp_path / name).rglob("*.*") if p.suffix != ".html")
        for name in ("few", "many")
    ]
    assert dumped[1] - dumped[0] < 20 * 1200
    assert len(str(many)) < 230_000
    for lines in (repr(few).splitlines(), repr(many).splitlines()):
        assert len(lines) <= 40 and max(map(len, lines)) <= SCREEN[1]


def test_kernels_have_one_number_in_all_stages():
    e = trained(10)
    names = [kernel.name for kernel in e.kernels]
    numbers = [re.match(r"(b\d+_)*[kw]\d+(_\d+)?", name)[0] for name in names]
    assert len({*numbers}) == len(numbers) > 5
    assert any(number.startswith("b0_") for number in numbers)
    tiled, source = e.stages["tiled"], e.stages["source"]
    assert not [n for n in numbers if f"def {n}(" not in tiled]
    assert not [n for n in names if not re.search(rf"void {n}(_blocks)?\(", source)]
    told = e.abridged()
    assert "as in spelled: " in told["source"] and told["blocks"].startswith("# unchanged: as in ")
    run = tiled.rpartition("def run():")[2]
    assert "call(" in run and "body=body0" in run


def test_times_have_a_total():
    e = explain(lambda x: (x * 2).sum(0))(eager.ones(3))
    first, *lines = str(e).splitlines()[1:]
    assert first.split()[0] == "total" and any(line.split()[0] == "compiler" for line in lines)
    top = sum(s for n, s in e.timings.items() if n not in e.inside)
    assert sum(e.timings[n] for n in e.inside) <= e.timings["codegen"] <= top


def test_kernels_of_forward_and_backward_have_names_of_their_own():
    layer = eager.nn.Linear(4, 3)
    step = jit(lambda x: F.gelu(layer(x)).sum())
    step(eager.ones(2, 4)).backward()
    names = [kernel.name for kernel in step.explanation().kernels]
    assert len({*names}) == len(names)
    assert any(name.startswith("backward_k") for name in names), names


def test_kernels_of_pieces_have_names_of_their_own():
    e = explain(lambda x: (x[x > 0] * 2).exp().sum() + x.exp().sum())(eager.arange(9.0) - 4)
    names = [kernel.name for kernel in e.kernels]
    assert len({*names}) == len(names)
    assert {name.partition("_")[0] for name in names} >= {"p0", "p1"}, names
