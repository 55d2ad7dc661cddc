"""Copies, pickles and states of models."""

import copy
import pickle

import eager
from eager import nn

from .harness import case
from .scene import nothing, rows, scene


@case("copies")
def a_pickle_of_a_model_inside():
    model = nn.Linear(2, 2)

    def step(x):
        other = pickle.loads(pickle.dumps(model.state_dict()))
        return sorted(other), other["bias"] + 1

    return scene(step, lambda: model.bias.data.add_(1))


@case("copies")
def a_model_is_copied_inside():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def step(x):
        other = copy.deepcopy(model)
        with eager.no_grad():
            other[0].weight.add_(1)
        return other(x).detach(), model(x).detach(), other[0] is model[0]

    return scene(step, lambda: model[0].weight.data.mul_(2), args=(eager.ones(1, 2),))


@case("copies")
def a_state_is_loaded_between_calls():
    model = nn.Linear(2, 2)
    saved = copy.deepcopy(model.state_dict())

    def step(x):
        with eager.no_grad():
            model.weight.add_(x)
        return model(x).detach()

    return scene(step, nothing, lambda: model.load_state_dict(saved), args=(eager.ones(1, 2),))


@case("copies")
def a_state_is_loaded_inside():
    model, other = nn.Linear(2, 2), nn.Linear(2, 2)

    def step(x):
        model.load_state_dict(other.state_dict())
        return model(x).detach()

    return scene(step, lambda: other.weight.data.add_(1), args=(eager.ones(1, 2),))


@case("copies")
def a_state_is_assigned():
    model, other = nn.Linear(2, 2), nn.Linear(2, 2)

    def step(x):
        return model(x).detach()

    def assign():
        model.load_state_dict(other.state_dict(), assign=True)

    return scene(step, assign, lambda: other.weight.data.add_(1), args=(eager.ones(1, 2),))


@case("copies")
def copies_of_tensors_keep_their_marks():
    x = eager.ones(2, requires_grad=True)
    x.tag = [1]

    def step(x):
        return copy.copy(x), copy.deepcopy(x), copy.deepcopy([x, x]), x.detach().clone()

    return rows(step, (x,), (x,))


@case("copies")
def a_copy_of_a_tensor_with_a_gradient():
    w = eager.ones(2, requires_grad=True)
    w.grad = eager.full((2,), 3.0)

    def step(x):
        other = copy.deepcopy(w)
        other.grad.add_(1)
        return other, w.grad * x, other.grad is w.grad

    return scene(step, lambda: setattr(w, "grad", None), args=(eager.ones(2),))


@case("copies")
def a_deep_copy_with_a_memo():
    t = eager.ones(2)

    def step(x):
        memo = {}
        a = copy.deepcopy(t, memo)
        b = copy.deepcopy([t, t], memo)
        return a is b[0], b[0] is b[1], copy.deepcopy({"a": t, "b": [t]}), x

    return scene(step, lambda: t.add_(1), args=(eager.ones(2),))


@case("copies")
def a_tag_appears_on_a_tensor():
    t = eager.ones(2)

    def step(x):
        return copy.deepcopy(t), hasattr(t, "tag")

    return scene(step, lambda: setattr(t, "tag", [1]), lambda: delattr(t, "tag"))


@case("copies")
def a_parameter_and_a_module_are_copied():
    layer = nn.Linear(2, 2)
    layer.weight.tag = "w"

    def step(x):
        other = copy.deepcopy(layer)
        return other.weight is layer.weight, hasattr(other.weight, "tag"), other(x)

    return scene(step, lambda: setattr(layer, "extra", [1]), args=(eager.ones(1, 2),))


@case("copies")
def what_is_put_on_a_tensor_is_listed():
    t = eager.ones(2)
    t.tag = 1

    def step(x):
        return sorted(k for k in vars(t) if not k.startswith("_")), "tag" in t.__dict__

    return scene(step, lambda: setattr(t, "other", 2), args=(eager.ones(2),))
