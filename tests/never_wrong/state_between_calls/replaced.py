"""The library's own methods, functions and layers, replaced between calls."""

import functools

import eager
from eager import nn
from eager.nn import functional as F
from tests.never_wrong.harness import case
from tests.never_wrong.scene import nothing, scene


@case("replaced")
def a_method_of_tensors_is_replaced():
    original = eager.Tensor.relu

    def step(x):
        return (x - 2).relu()

    return scene(
        step,
        lambda: setattr(eager.Tensor, "relu", lambda self: self * 10),
        lambda: setattr(eager.Tensor, "relu", original),
    )


@case("replaced")
def an_operator_of_tensors_is_replaced():
    original = eager.Tensor.__add__

    def step(x):
        return x + 1

    return scene(
        step,
        lambda: setattr(eager.Tensor, "__add__", lambda self, other: self * 10),
        lambda: setattr(eager.Tensor, "__add__", original),
    )


@case("replaced")
def a_method_is_added_to_tensors():
    def step(x):
        return x.never_wrong() if hasattr(x, "never_wrong") else x

    return scene(
        step,
        lambda: (
            setattr(eager.Tensor, "never_wrong", lambda self: self * 2, None)
            if False
            else setattr(eager.Tensor, "never_wrong", lambda self: self * 2)
        ),
        lambda: setattr(eager.Tensor, "never_wrong", lambda self: self * 3),
        lambda: delattr(eager.Tensor, "never_wrong"),
    )


@case("replaced")
def a_class_attribute_of_tensors_is_seen():
    def step(x):
        return getattr(x, "never_wrong", 1) * x

    return scene(
        step,
        lambda: setattr(eager.Tensor, "never_wrong", 5),
        lambda: delattr(eager.Tensor, "never_wrong"),
    )


@case("replaced")
def a_function_of_eager_is_replaced():
    original = eager.exp

    def step(x):
        return eager.exp(x * 0)

    return scene(
        step,
        lambda: setattr(eager, "exp", lambda v: v + 5),
        lambda: setattr(eager, "exp", original),
    )


@case("replaced")
def a_function_of_functional_is_replaced():
    original = F.relu
    layer = nn.Sequential(nn.ReLU())

    def step(x):
        return F.relu(x - 2), layer(x - 2)

    return scene(
        step,
        lambda: setattr(F, "relu", lambda v, inplace=False: v * 10),
        lambda: setattr(F, "relu", original),
    )


@case("replaced")
def the_forward_of_a_library_layer_is_replaced():
    original, layer = nn.ReLU.forward, nn.ReLU()

    def step(x):
        return layer(x - 2)

    return scene(
        step,
        lambda: setattr(nn.ReLU, "forward", lambda self, v: v * 10),
        lambda: setattr(nn.ReLU, "forward", original),
    )


@case("replaced")
def the_forward_of_one_layer_is_replaced():
    layer = nn.ReLU()

    def step(x):
        return layer(x - 2)

    return scene(
        step,
        lambda: setattr(layer, "forward", lambda v: v * 10),
        lambda: delattr(layer, "forward"),
    )


@case("replaced")
def the_step_of_an_optimizer_is_replaced():
    w = eager.ones(3, requires_grad=True)
    optimizer = eager.optim.SGD([w], lr=0.5)
    log = []

    def step(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        return w.detach().clone()

    return scene(
        step,
        lambda: setattr(optimizer, "step", lambda: log.append("step")),
        lambda: delattr(optimizer, "step"),
        observe=lambda: (w, list(log)),
    )


@case("replaced")
def a_bound_name_of_a_function_survives_a_replacement():
    exp, original = eager.exp, eager.exp

    def step(x):
        return exp(x), eager.exp(x) if eager.exp is not exp else None

    return scene(
        step,
        lambda: setattr(eager, "exp", eager.sin),
        lambda: setattr(eager, "exp", original),
    )


@case("replaced")
def the_call_of_modules_is_replaced():
    original, layer = nn.Module.__call__, nn.ReLU()

    def step(x):
        return layer(x - 2)

    def twice(self, *args):
        return original(self, *args) * 2

    return scene(
        step,
        lambda: setattr(nn.Module, "__call__", twice),
        lambda: setattr(nn.Module, "__call__", original),
    )


@case("replaced")
def a_method_of_a_user_class_is_replaced():
    class Layer:
        def __call__(self, x):
            return self.run(x)

        def run(self, x):
            return x * 2

    layer = Layer()
    return scene(
        lambda x: layer(x),
        lambda: setattr(Layer, "run", lambda self, x: x * 3),
        lambda: setattr(layer, "run", lambda x: x * 4),
        lambda: setattr(Layer, "__call__", lambda self, x: x * 5),
    )


@case("replaced")
def an_operator_that_a_function_of_the_library_uses_is_replaced():
    log, own = [], eager.Tensor.__mul__

    def counted(self, other):
        log.append("mul")
        return own(self, other)

    eager.Tensor.__mul__ = counted

    def step(x):
        return F.gelu(x, approximate="tanh") + 1, len(log) > 0

    made = scene(step, nothing, observe=lambda: len(log))
    restore = made.close
    made.close = lambda: (restore(), setattr(eager.Tensor, "__mul__", own))
    return made


@case("replaced")
def a_method_that_a_layer_of_the_library_uses_is_replaced():
    log, own = [], eager.Tensor.sum

    def counted(self, *args, **kwargs):
        log.append("sum")
        return own(self, *args, **kwargs)

    eager.Tensor.sum = counted

    def step(x):
        return x.sum() * 2, F.mse_loss(x, x * 2, reduction="sum"), len(log)

    made = scene(step, nothing, observe=lambda: len(log))
    restore = made.close
    made.close = lambda: (restore(), setattr(eager.Tensor, "sum", own))
    return made


@case("replaced")
def a_property_that_functions_of_the_library_read_is_replaced():
    log, own = [], eager.Tensor.__dict__["shape"]

    def counted(self):
        log.append("shape")
        return own.fget(self)

    def step(x):
        return F.softmax(x, dim=0), x.shape[0], len(log) > 0

    made = scene(
        step,
        lambda: setattr(eager.Tensor, "shape", property(counted)),
        lambda: setattr(eager.Tensor, "shape", own),
        observe=lambda: len(log) > 0,
    )
    restore = made.close
    made.close = lambda: (restore(), setattr(eager.Tensor, "shape", own))
    return made


@case("replaced")
def a_function_is_replaced_by_one_that_wraps_it():
    own = F.relu

    @functools.wraps(own)
    def other(x):
        return own(x) + 5

    def step(x):
        return F.relu(x), x

    return scene(step, lambda: setattr(F, "relu", other), lambda: setattr(F, "relu", own))


@case("replaced")
def a_function_is_decorated_by_the_library():
    own = F.relu

    def step(x):
        y = F.relu(x * eager.ones(3, requires_grad=True))
        return y.requires_grad, y.detach()

    return scene(
        step,
        lambda: setattr(F, "relu", eager.no_grad()(own)),
        lambda: setattr(F, "relu", own),
        observe=lambda: F.relu is own,
    )
