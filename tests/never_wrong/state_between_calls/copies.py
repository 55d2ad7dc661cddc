"""Copies, pickles and states of models."""

import collections
import copy
import datetime as dt
import pickle

import eager
from eager import nn
from tests.never_wrong.harness import case
from tests.never_wrong.scene import nothing, rows, scene


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


class Pair(collections.namedtuple("Pair", "a b")):  # noqa: SLOT002 - it has a dictionary
    pass


class Table(collections.defaultdict):
    pass


class Slotted(ValueError):
    __slots__ = ("code",)


@case("copies")
def what_is_made_has_all_that_it_was_given():
    kept = []

    def step(x, n):
        pair, error, table = Pair(n, 1), Slotted("text"), Table(list, a=n)
        pair.note, error.code = n, n

        def annotated(a: int, b: "str" = "") -> float:
            return a

        annotated.__annotations__["b"] = n
        kept.append((pair, error, table, annotated, dt.datetime(2020, 1, 1, fold=1)))
        return x * n, kept[-1]

    def look():
        found = []
        for pair, error, table, fn, time in kept:
            found.append((pair.note, error.code, table.default_factory, fn.__annotations__))
            found.append(time.fold)
        return found

    return rows(step, *[(eager.ones(2), n) for n in (1, 2, 3)], observe=look)


@case("copies")
def a_plain_record_is_another_one_each_time():
    def step(x):
        return Pair(1, 2)

    made = []

    def mark(x):
        made.append(step(x))
        return [vars(each).copy() for each in made]

    def note():
        made[-1].note = len(made)

    return scene(mark, note, note)


@case("copies")
def a_property_is_made_and_kept():
    kept = []

    def step(x):
        kept.append(property(lambda self: 1, None, None, "text"))
        return x

    return scene(step, nothing, observe=lambda: [type(each.fget).__name__ for each in kept])


@case("copies")
def views_that_are_copied_with_their_base():
    def step(x):
        y = x * 2
        a, b = copy.deepcopy([x, x[0]])
        c = copy.deepcopy({"all": y, "flat": y.view(-1)})
        a[0] = 9
        c["flat"][1] = 7
        return a, b, c, x

    return scene(step, nothing, args=(eager.ones(2, 2),))


@case("copies")
def a_copied_model_whose_buffers_share_memory():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("all", eager.zeros(4))
            self.register_buffer("first", self.all[:2])

    model = Model()

    def step(x):
        other = copy.deepcopy(model)
        other.first[0] = x.sum()
        return other.all, other.first, model.all

    return scene(step, lambda: model.all.add_(1), args=(eager.ones(2),))


@case("copies")
def tensors_that_come_to_share_memory_are_copied():
    held = {"a": eager.zeros(3), "b": eager.zeros(2)}

    def step(x):
        a, b = copy.deepcopy([held["a"], held["b"]])
        a[0] = 7
        return a, b, x

    def change():
        held["b"] = held["a"][:2]

    return scene(step, change, args=(eager.ones(2),))
