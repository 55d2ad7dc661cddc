"""Results of choices and loops leave with the histories that they have in eager: names, places, and
which of them are one."""

import pytest

import eager
from jitcap import jit

W = eager.ones(3).requires_grad_()
M = eager.eye(3).requires_grad_()


def rolled(x):
    h, hs = x * W, []
    for row in x.expand(40, 3):
        h = (h @ M + row).tanh()
        hs.append(h)
    return h, eager.stack(hs), hs[3], hs[-1]


def several_carried(x):
    h, c, last = x * W, x + W, x - W
    for _ in range(40):
        last = c
        h, c = (h @ M).sin(), (c @ M).exp() * 0.1
    return h, c, last


def of_a_size(x):
    h = x * W
    for _ in range(x.shape[0]):
        h = (h * 0.9).sin()
    return h, h.cos()


def while_(x):
    h, k = x * W, x + W
    while h.abs().sum() > 1:
        h, k = (h * 0.5).tanh(), k.exp()
    return h, k


def with_a_break(x):
    h = x * W
    for _ in range(20):
        h = (h * 0.9).sin()
        if h.sum() < 1:
            break
    return h, h.exp()


def branches_in_rounds(x):
    h = x * W
    while h.abs().sum() > 1:
        h = h.sin() * 0.5 if h.sum() > 2 else h * 0.4
    return h, h + 1


def scans(x):
    last, ys = eager.scan(lambda h, r: ((h * W + r).sin(), (h * r).cos()), x * W, x.expand(20, 3))
    return last, ys, eager.map(lambda r: (r * W).sin(), x.expand(20, 3))


def handed_on(x):
    (same, other), _ = eager.scan(lambda c, r: ((c[0], c[1] + r), None), (W, x * W), x.expand(9, 3))
    return same, other


def chosen(x):
    return eager.cond(x.sum() > 0, lambda: (x * W, x.sin() * W), lambda: (x + W, x - W))


def counted(x):
    return eager.while_loop(lambda h, k: h.sum() > 1, lambda h, k: (h / 2, k * 2), (x * W, x + W))


PROGRAMS = [rolled, several_carried, of_a_size, while_, with_a_break, branches_in_rounds, scans,
            handed_on, chosen, counted]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dynamic", [None, True])
def test_names(program, dynamic):
    step = jit(program, backend="eager", fullgraph=True, dynamic=dynamic)
    for scale in (1.0, 0.1, -1.0, 2.0):
        x = eager.ones(3) * scale
        found, expected = (
            [
                (t.grad_fn.name(), t.output_nr, [t.grad_fn is u.grad_fn for u in results])
                for t in results
            ]
            for results in (step(x), program(x))
        )
        assert found == expected


def test_which_operation_gave_it_may_be_asked():
    @jit(backend="eager")
    def step(x):
        y = x * W if x.sum() > 0 else x + W
        return y.grad_fn.name(), (y * 2).grad_fn.name()

    with pytest.warns(UserWarning, match="is split"):
        assert step(eager.ones(3)) == ("MulBackward0", "MulBackward0")
    assert step(-eager.ones(3)) == ("AddBackward0", "MulBackward0")
