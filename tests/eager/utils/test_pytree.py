"""`eager.utils._pytree` beside PyTorch's. trees -> leaves, structures, refusals."""

from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import eager
from eager.utils import _pytree
from jitcap import jit

Pair = namedtuple("Pair", "x y")


def made_of(pytree):
    class Own:
        def __init__(self, a, b):
            self.a, self.b = a, b

    def way(name):
        return pytree.GetAttrKey(name)

    pytree.register_pytree_node(
        Own,
        lambda own: ([own.a, own.b], None),
        lambda children, _: Own(*children),
        flatten_with_keys_fn=lambda own: ([(way("a"), own.a), (way("b"), own.b)], None),
    )
    return Own


def facts(pytree):
    """What a program sees, in plain values."""
    Own = made_of(pytree)
    tree = [
        1, (2, None), {"b": 3, "a": [4]}, OrderedDict(z=5), Pair(6, (7,)), deque([8], maxlen=3),
        defaultdict(list, {"k": 9}), Own(10, [11]), {12},
    ]  # fmt: skip
    leaves, spec = pytree.tree_flatten(tree)
    again = pytree.tree_unflatten(range(len(leaves)), spec)
    yield leaves, spec.num_leaves, spec.num_nodes, spec.num_children, spec.is_leaf()
    yield again[:7], type(again[6]), again[6].default_factory, again[7].b, again[8]
    yield pytree.tree_map(lambda *xs: xs, {"a": 1, "b": 2}, {"b": 20, "a": 10})
    yield pytree.tree_map_only(int, lambda x: x + 1, [1, "a", True, 2.0])
    yield pytree.tree_any(lambda x: x == 3, tree), pytree.tree_all_only(int, bool, [0, "a"])
    yield [(pytree.keystr(way), x) for way, x in pytree.tree_flatten_with_path(tree)[0]]
    yield [pytree.key_get(tree, way) for way, _ in pytree.tree_leaves_with_path(tree)]
    yield pytree.tree_map_with_path(lambda way, x: pytree.keystr(way) + str(x), {"a": [1, 2]})
    yield pytree.tree_structure((1, 2)) == pytree.tree_structure((3, 4)) != spec
    yield pytree.tree_leaves(None), pytree.tree_is_leaf([]), pytree.tree_leaves([1, [2]], len_two)
    yield [pytree._get_node_type(x) in pytree.SUPPORTED_NODES for x in [*tree, "a"]]
    children, context = pytree.SUPPORTED_NODES[namedtuple].flatten_fn(Pair(1, 2))
    own = pytree.TreeSpec(namedtuple, context, [pytree.tree_structure(0)] * 2)
    yield list(children), pytree.tree_unflatten([3, 4], own)
    for wrong in (
        lambda: pytree.tree_map(lambda a, b: 1, [1, 2], [1]),
        lambda: pytree.tree_unflatten([1], spec),
        lambda: pytree.tree_map(lambda a, b: 1, [1], (1,)),
        lambda: pytree.tree_map(lambda a, b: 1, {"a": 1}, {"b": 1}),
        lambda: pytree.register_pytree_node(Own, None, None),
        lambda: pytree.tree_map_only(3, len, [1]),
        lambda: pytree.tree_unflatten([1], 2),
    ):
        with pytest.raises(Exception) as raised:  # noqa: PT011
            wrong()
        yield raised.type


def len_two(x):
    return isinstance(x, list) and len(x) == 1


def test_as_pytorch():
    torch = pytest.importorskip("torch")
    assert torch
    from torch.utils import _pytree as theirs

    assert [*facts(_pytree)] == [*facts(theirs)]


def test_a_compiled_step_maps_a_tree():
    def step(state, grads):
        with eager.no_grad():
            state = _pytree.tree_map(lambda p, g: p - 0.5 * g, state, grads)
        leaves, spec = _pytree.tree_flatten(state)
        return _pytree.tree_unflatten([x * 2 for x in leaves], spec), spec.num_leaves

    compiled = jit(step)
    for n in range(3):
        state = {"a": eager.ones(2) * n, "b": [eager.ones(3), (eager.zeros(1),)]}
        grads = {"a": eager.ones(2), "b": [eager.ones(3), (eager.ones(1),)]}
        assert str(compiled(state, grads)) == str(step(state, grads))
    assert (compiled.stats.graphs, compiled.stats.splits) == (1, 0)
