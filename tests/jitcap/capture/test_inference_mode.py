"""Inference tensors in compiled functions are those of plain Python: made inside, given, written,
saved for a derivative."""

import numpy as np
import pytest

import eager
import jitcap
from eager import nn
from jitcap import JitcapWarning, jit
from jitcap.capture import bytecode


def normal():
    return eager.ones(3)


@eager.inference_mode()
def inference():
    return eager.ones(3)


def detached():
    return inference().detach()


def leaf():
    return eager.ones(3, requires_grad=True)


KINDS = (normal, inference, detached)


def makes(x):
    with eager.inference_mode():
        y = x * 2
        z = eager.tensor([1.0, 2.0])
    return y, y.is_inference(), x.is_inference(), y[1:], y.detach(), y.clone(), x[1:], x.data, z


@eager.inference_mode()
def decorated(x):
    with eager.inference_mode(False):
        outside = x + 1
    return x * 2, x, x[1:], x.detach(), eager.zeros(2), outside, eager.is_grad_enabled()


def from_arrays(x):
    array = np.ones(3, np.float32)
    with eager.inference_mode():
        y = eager.from_numpy(array) * x
    return y, eager.from_numpy(array)


def writes(x):
    x.add_(1)
    return x


def writes_in_the_mode(x):
    with eager.inference_mode():
        x.mul_(2)
        return x, x + 1


def saves(x):
    return leaf() * x


def saves_and_derives(x):
    w = leaf()
    (x * w).sum().backward()
    return w.grad


def adds_and_derives(x):
    w = leaf()
    (x + w).sum().backward()
    return w.grad


def saves_what_it_made(x):
    with eager.inference_mode():
        y = x * 2
    try:
        return y * leaf()
    except RuntimeError as error:
        return y.clone() * leaf(), str(error)


def requires(x):
    return x.requires_grad_()


def views(x):
    with eager.inference_mode():
        return x.unbind(), x.split(1), x.reshape(3, 1), x.expand(2, 3).reshape(-1), x.double(), x[0]


def generators(x):
    @eager.inference_mode()
    def steps():
        for i in range(3):
            yield x * i

    return list(steps())


def branches(x):
    if x.sum() > 0:
        with eager.inference_mode():
            y = x * 2
    else:
        with eager.inference_mode():
            y = x * 3
    return y


def a_loop(x):
    out = []
    with eager.inference_mode():
        h = x
        for i in range(40):
            h = (h * i).tanh() @ eager.ones(3, 3)
            out.append(h)
    return eager.stack(out), out[3], h


def a_loop_around_the_mode(x):
    h, out = x, []
    for i in range(40):
        with eager.inference_mode():
            h = (h + i).tanh() @ eager.ones(3, 3)
            out.append(h)
    return h, out[2]


def a_loop_that_saves(x):
    h = leaf()
    for _ in range(40):
        h = (h * x).tanh() @ eager.ones(3, 3)
    return h


def a_loop_over_parts(x):
    h = leaf()
    for part in eager.cat([x] * 10):
        h = (h * part).tanh() @ eager.ones(3, 3)
    return h + sum(leaf() * part for part in x)


def as_long_as(x):
    with eager.inference_mode():
        h = x
        while h.sum() < 50:
            h = h * 2
    return h


def swapped(x):
    with eager.inference_mode():
        a, b = x, x * 2
        for _ in range(41):
            a, b = b, a
    return a, b


def transforms(x):
    with eager.inference_mode():
        inside = eager.func.grad(lambda a: (a * a).sum())(x)
    return inside, eager.func.grad(lambda a: (a * a).sum())(x)


# Each with how many graphs there are for tensors of the three kinds: one, where none behaves in
# another way.
PROGRAMS = {
    makes: 3, decorated: 1, from_arrays: 1, writes: 2, writes_in_the_mode: 1, saves: 1,
    saves_and_derives: 1, adds_and_derives: 1, saves_what_it_made: 1, requires: 1, views: 1,
    generators: 1, branches: 1, a_loop: 1, a_loop_that_saves: 1, a_loop_over_parts: 1,
    as_long_as: 1, swapped: 3, transforms: 3, a_loop_around_the_mode: 1,
}  # fmt: skip


def look(x):
    if isinstance(x, eager.Tensor):
        marks = x.is_inference(), x._storage.sealed, x.requires_grad, x.is_leaf
        return *marks, np.round(x.detach().numpy().astype(float), 5).tolist()
    return [*map(look, x)] if isinstance(x, tuple | list) else x


def outcome(fn, *args):
    try:
        return look(fn(*args))
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: getattr(f, "__name__", None))
def test_as_in_plain_python(program):
    compiled = jit(program, backend="python")
    for make in (*KINDS, *reversed(KINDS)):
        assert outcome(compiled, make()) == outcome(program, make())
    assert (compiled.stats.compiles, compiled.stats.splits) == (PROGRAMS[program], 0)


@pytest.mark.parametrize("enter", [eager.inference_mode, eager.no_grad])
def test_calls_in_a_mode(enter):
    def program(x):
        with eager.enable_grad():
            y = x * 2
        return y, x[1:], x.detach(), x.data, eager.zeros(2), eager.tensor([1.0])

    compiled = jit(program, backend="python")
    for make in (normal, inference, leaf):
        with enter():
            assert outcome(compiled, make()) == outcome(program, make())


class Holder:
    kept: eager.Tensor


def test_tensors_of_objects():
    holder = Holder()

    def step(x):
        holder.kept.add_(x)
        return holder.kept

    compiled = jit(step, backend="python")
    for make in (normal, inference, normal, detached, inference):
        found = []
        for fn in (step, compiled):
            holder.kept = make()
            found.append(outcome(fn, normal()))
        assert found[0] == found[1]


def test_a_generation_is_compiled_once():
    """What a call made in the mode is given to the next one."""
    layer = nn.Linear(3, 3)

    @eager.inference_mode()
    def step(x, cache):
        y = layer(x + cache)
        return y, cache + y

    compiled = jit(step, backend="python")
    x, cache = eager.ones(3), eager.zeros(3)
    for _ in range(3):
        x, cache = compiled(x, cache)
        assert x.is_inference()
        assert cache.is_inference()
    assert compiled.stats.compiles == 1


def test_ways_that_differ_split():
    def program(x):
        if x.sum() > 0:
            with eager.inference_mode():
                y = x * 2
        else:
            y = x * 3
        return y

    compiled = jit(program, backend="python")
    with pytest.warns(JitcapWarning, match="an inference tensor, the other a normal one"):
        compiled(normal())
    for x in (normal(), -normal()):
        assert outcome(compiled, x) == outcome(program, x)


def test_traced_by_dispatch(monkeypatch):
    monkeypatch.setattr(bytecode, "is_known", lambda: False)
    jitcap.reset()
    for program in (writes, decorated):
        compiled = jit(program, backend="python")
        for make in KINDS:
            assert outcome(compiled, make()) == outcome(program, make())
