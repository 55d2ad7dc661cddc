"""What is saved for the backward, and the tape node that runs it."""

import itertools

import numpy as np
import pytest

import eager
from eager.core.dispatch import current_tracer
from eager.core.tensor import wrap
from eager.core.traced import fresh
from jitcap.autodiff.compiled_function import OutputNode, Region
from jitcap.autodiff.joint import build_joint
from jitcap.base.diagnostics import JitcapWarning
from jitcap.graph.partition import Flow, partition
from jitcap.graph.tracer import Tracer
from jitcap.graph.verify import verify

pytestmark = pytest.mark.once


def floats(*shape, seed=0, grad=False):
    data = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return eager.tensor(data, requires_grad=grad)


def joint_of(fn, *args):
    """The joint graph of `fn` at these arguments, as capture builds it."""
    tracer = Tracer(name="f")
    stand_ins = []
    for i, t in enumerate(args):
        s = wrap(fresh(tracer, tracer.input(f"x{i}", t.aval), t.aval))
        s._requires_grad = t.requires_grad
        stand_ins.append(s)
    token = current_tracer.set(tracer)
    try:
        outs = fn(*stand_ins)
        leaves = [s for s in stand_ins if s.requires_grad]
        slots = [o for o in outs if o.requires_grad]
        handles = [o._array.read() for o in outs]
        return build_joint(tracer, handles, range(len(outs)), slots, leaves, ())
    finally:
        current_tracer.reset(token)


def compiled(fn, *args):
    """`fn` through a Region whose graphs run op by op."""
    region = Region(joint_of(fn, *args), (), lambda graph: graph.run)
    verify(region.forward)
    verify(region.partition.backward)

    def call(*args):
        arrays = region.forward.run([a._array for a in args])
        n = region.joint.outputs
        outs = [wrap(np.array(a)) for a in arrays[:n]]
        node = region.begin()
        for slot, out in enumerate(outs):
            OutputNode("Backward", 1).put(out, 0, node, slot)
        region.attach(node, args, [a for a in args if a.requires_grad], outs, arrays[n:])
        return outs

    return call


def model(x, w, v):
    h = (x.unsqueeze(2) * w).sum(1).exp() * 2
    return h * v, (w * w).sum()


def loss(outs):
    return (outs[0] * outs[0]).sum() + outs[1]


def test_gradients_are_those_of_eager():
    x, w, v = floats(4, 3), floats(3, 5, seed=1, grad=True), floats(5, seed=2, grad=True)
    expected = eager.autograd.grad(loss(model(x, w, v)), [w, v])
    got = eager.autograd.grad(loss(compiled(model, x, w, v)(x, w, v)), [w, v])
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)


def test_second_derivatives_run_op_by_op_and_say_so():
    x, w, v = floats(4, 3), floats(3, 5, seed=1, grad=True), floats(5, seed=2, grad=True)

    def penalty(fn):
        (g,) = eager.autograd.grad(loss(fn(x, w, v)), [w], create_graph=True)
        return eager.autograd.grad((g * g).sum(), [w, v])

    expected = penalty(model)
    with pytest.warns(JitcapWarning, match="create_graph"):
        got = penalty(compiled(model, x, w, v))
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4)


def test_a_saved_input_must_not_change():
    x, w, v = floats(4, 3), floats(3, 5, seed=1, grad=True), floats(5, seed=2, grad=True)
    out = loss(compiled(model, x, w, v)(x, w, v))
    with eager.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_the_history_is_used_up():
    x, w, v = floats(4, 3), floats(3, 5, seed=1, grad=True), floats(5, seed=2, grad=True)
    out = loss(compiled(model, x, w, v)(x, w, v))
    out.backward()
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()


def test_cheap_chains_are_recomputed_and_reductions_saved():
    def fn(x):
        y = x.exp()
        s = y.sum(1)
        return ((y.sin() * y.cos()).sum(0) * s.sum(),)

    joint = joint_of(fn, floats(64, 64, grad=True))
    part = partition(joint.graph, joint.primals, joint.outputs)
    large = [n for n in part.saved if n.aval.numel == 64 * 64 and n not in joint.graph.inputs]
    assert not large, "exp, sin and cos of the input are cheaper to compute again than to carry"
    everything = partition(joint.graph, joint.primals, joint.outputs, recompute=False)
    carried = sum(n.aval.nbytes for n in everything.saved)
    assert sum(n.aval.nbytes for n in part.saved) < carried


def test_flow_finds_minimum_cuts():
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(3, 7))
        edges = [
            (a, b, int(rng.integers(1, 9)))
            for a, b in itertools.permutations(range(n), 2)
            if rng.random() < 0.5
        ]
        flow = Flow(n)
        for a, b, c in edges:
            flow.edge(a, b, c)
        side = flow.cut(0, n - 1)
        assert 0 in side
        assert n - 1 not in side

        def cost(side):
            return sum(c for a, b, c in edges if a in side and b not in side)

        middle = range(1, n - 1)
        best = min(
            cost({0, *chosen}) for k in range(n - 1) for chosen in itertools.combinations(middle, k)
        )
        assert cost(side) == best
