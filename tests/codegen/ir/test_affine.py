"""Index forms against brute force: random forms, every point of their axes."""

import itertools
import random

import pytest

from codegen.ir import affine
from codegen.ir.affine import Axis, FloorDiv, Mod


def value(index, at):
    """The integer value of a form at a point {axis: int}."""
    total = index.const
    for atom, c in index.terms:
        if isinstance(atom, Axis):
            v = at[atom]
        elif isinstance(atom, FloorDiv):
            v = value(atom.index, at) // atom.divisor
        else:
            assert isinstance(atom, Mod)
            v = value(atom.index, at) % atom.divisor
        total += c * v
    return total


def points(axes):
    names = [a.terms[0][0] for a in axes if a.terms]
    for values in itertools.product(*(range(a.size) for a in names)):
        yield dict(zip(names, values, strict=True))


def random_form(rng, axes, depth=3):
    """(form, function of a point) built by the same random operations."""
    if depth == 0 or rng.random() < 0.2:
        a = rng.choice(axes)
        return a, lambda at: value(a, at)
    kind = rng.choice(["add", "scale", "const", "div", "mod", "sub"])
    x, fx = random_form(rng, axes, depth - 1)
    k = rng.choice([1, 2, 3, 4, 6, 8, 12])
    if kind in ("add", "sub"):
        y, fy = random_form(rng, axes, depth - 1)
        if kind == "sub":
            return x - y, lambda at: fx(at) - fy(at)
        return x + y, lambda at: fx(at) + fy(at)
    if kind == "scale":
        return x * k, lambda at: fx(at) * k
    if kind == "const":
        return x + k, lambda at: fx(at) + k
    if kind == "div":
        return x // k, lambda at: fx(at) // k
    return x % k, lambda at: fx(at) % k


@pytest.mark.parametrize("seed", range(150))
def test_simplification_keeps_the_value(seed):
    rng = random.Random(seed)
    axes = [affine.axis(n, rng.choice([1, 2, 3, 4, 6])) for n in "abc"]
    form, expected = random_form(rng, axes, depth=4)
    for at in points(axes):
        assert value(form, at) == expected(at), (seed, form)
        assert form.lo <= value(form, at) <= form.hi


@pytest.mark.parametrize("seed", range(60))
def test_substitution_is_composition(seed):
    rng = random.Random(seed)
    axes = [affine.axis(n, rng.choice([2, 3, 4])) for n in "ab"]
    inner = [affine.axis(n, 3) for n in "xy"]
    form, _ = random_form(rng, axes)
    images = [random_form(rng, inner, depth=1)[0] % a.terms[0][0].size for a in axes]
    by = {a.terms[0][0]: i for a, i in zip(axes, images, strict=True)}
    result = affine.substitute(form, by)
    for at in points(inner):
        moved = {a: value(i, at) for a, i in by.items()}
        assert value(result, at) == value(form, moved)


def test_flatten_after_unflatten_is_the_identity():
    i = affine.axis("i", 2 * 3 * 5 * 7)
    assert affine.ravel(affine.unravel(i, (2, 3, 5, 7)), (2, 3, 5, 7)) is i


def test_reshape_of_reshape_needs_no_division():
    # (2048, 384) -> (8, 256, 384) -> flat
    r, c = affine.axis("r", 2048), affine.axis("c", 384)
    flat = affine.ravel((r, c), (2048, 384))
    b, t, x = affine.unravel(flat, (8, 256, 384))
    assert x is c
    assert b is affine.floordiv(r, 256)
    assert t is affine.mod(r, 256)
    assert affine.ravel((b, t, x), (8, 256, 384)) is flat


def test_equal_forms_are_one_object():
    i, j = affine.axis("i", 4), affine.axis("j", 8)
    assert i * 8 + j is j + i * 8
    assert (i * 8 + j) // 8 is i
    assert (i * 8 + j) % 8 is j
    assert affine.axis("k", 1) is affine.ZERO
