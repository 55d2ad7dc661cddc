"""Outputs of what was compiled that are shown, kept, hooked, overwritten or asked again outside."""

import functools

import pytest
from against_eager import check, floats

pytestmark = pytest.mark.once

PROGRAMS = {}


def program(fn=None, **expected):
    if fn is None:
        return functools.partial(program, **expected)
    PROGRAMS[fn.__name__] = fn, expected
    return fn


@program
def shown_and_returned(jit, note, attempt):
    """What a call of the host shows is the output itself, not a second one."""
    w = floats(3)

    @jit
    def f(x):
        y = x * w
        print(y, [y])
        l = y.sum()
        text = f"{l:.3f} {y}"
        return l, y, text

    for _ in range(2):
        l, y, text = f(floats(3, g=False))
        (l + (y * y).sum()).backward()
        note(w, l, y, text)


@program
def retained_outputs_share_a_history(jit, note, attempt):
    w = floats(3)

    @jit
    def f(x):
        h = x * w
        y = h * h
        z = y + h.exp()
        for t in (y, z):
            t.retain_grad()
        return y, z, z * h

    outs = f(floats(3, g=False))
    sum((t * t).sum() for t in outs).backward()
    note(w, outs)
    for t in outs:
        attempt(t.sum().backward)


@program(splits=None, fallbacks=None)
def hooks_inside_and_kept_outside(jit, note, attempt):
    a = floats(3)

    @jit
    def f(x, keeps):
        y = x * a
        if keeps:
            y.retain_grad()
        z = y.exp()
        (z if keeps else y).register_hook(lambda g: g * 3)
        return y, z * y

    for keeps in (False, True):
        y, z = f(floats(3, g=False), keeps)
        y.retain_grad()
        (y + z).sum().backward()
        note(a, y, z)
        a.grad = None


@program
def shown_that_came_from_outside(jit, note, attempt):
    f = jit(lambda y: (str(y), f"{[y]}", y * 2))
    for y in (floats(3), floats(3) * 2, floats(3).chunk(3)[1]):
        note(f(y))


@program
def overwritten_where_no_gradient_needs_it(jit, note, attempt):
    w = floats(3)
    f = jit(lambda x: ((y := x * w), y.square().mean(), y.std()))
    for left in (0, 1):
        outs = f(floats(3, g=False))
        for t in (outs[0][0:1], outs[2]):
            t.mul_(2)
        attempt(outs[left].sum().backward)
        note(w, outs)


@program
def nothing_kept_is_asked_again(jit, note, attempt):
    w = floats(3)

    @jit
    def f(x):
        h = w * 2
        return h, h.sum() + x, (h * x).sum(), (h + x).exp().sum()

    for order in ((0, 0, 1, 1), (2, 2, 0), (3, 3, 1, 2), (1, 3, 3, 2, 2, 0)):
        outs = f(floats(3, g=False))
        for i in order:
            attempt(outs[i].sum().backward)
            note(w)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_like_eager(name):
    fn, expected = PROGRAMS[name]
    check(fn, **expected)
