"""Subclasses of Tensor and Parameter, made as programs for PyTorch make them. class -> tensor."""

import copy

import pytest

import eager
from eager import nn
from eager.utils.hooks import RemovableHandle
from jitcap import jit


class Tagged(eager.Tensor):
    @staticmethod
    def __new__(cls, values, tag, *args):
        return super().__new__(cls, values, *args)

    def __init__(self, values, tag):
        self.tag = tag


class Quiet(eager.Tensor):
    def __init__(self, values):
        super().__init__()
        self.size_then = len(self)


class Given(nn.Parameter):
    def __new__(cls, data, tag):
        made = super().__new__(cls, data, True)
        made.tag = tag
        return made


class OnMemory(nn.Parameter):
    def __new__(cls, data=None, requires_grad=True, *, tag=0):
        made = eager.Tensor._make_subclass(cls, data, requires_grad)
        made.tag = tag
        return made


@pytest.mark.parametrize(
    "make",
    [
        lambda x: Tagged([1, 2], "a"),
        lambda x: Tagged(x, 3),
        lambda x: Quiet([1.0, 2]),
        lambda x: Given(x, "a"),
        lambda x: OnMemory(x, tag=4),
        lambda x: OnMemory(x, False),
    ],
)
def test_new_makes_it_and_init_may_take_anything(make):
    x = eager.tensor([1.0, 2])
    y = make(x)
    assert y.tolist() == [1, 2]
    assert y.is_leaf
    assert (y.requires_grad, len(vars(y))) == (type(y) in (Given, OnMemory) and bool(y.tag), 1)
    z = copy.deepcopy(y) if type(y) is not Given else y
    assert type(z) is type(y)
    assert jit(lambda t: (t * 2).tolist())(y) == [2, 4]


def test_a_tensor_of_a_tensor_shares_its_memory():
    x = eager.ones(2, requires_grad=True)
    y, z = eager.Tensor(x), OnMemory(x)
    y[0] = 5
    assert x.tolist() == z.tolist() == [5, 1]
    assert y.grad_fn is None
    with pytest.raises(TypeError, match="expected"):
        eager.Tensor(eager.tensor([1]))


def test_a_layer_takes_a_parameter_of_another_class():
    layer = nn.Linear(2, 2)
    layer.weight = OnMemory(eager.ones(2, 2), tag=9)
    step = jit(lambda m, x: m(x).sum().backward())
    step(layer, eager.ones(3, 2))
    assert type(dict(layer.named_parameters())["weight"]) is OnMemory
    assert layer.weight.grad.tolist() == [[3, 3], [3, 3]]


def test_what_registering_a_hook_gives():
    layer, x = nn.Linear(2, 2), eager.ones(2, requires_grad=True)
    handles = [
        layer.register_forward_hook(lambda *_: None),
        layer.register_full_backward_hook(lambda *_: None),
        x.register_hook(lambda g: g),
        (x * 2).register_hook(lambda g: g),
    ]
    assert all(isinstance(h, RemovableHandle) for h in handles)
