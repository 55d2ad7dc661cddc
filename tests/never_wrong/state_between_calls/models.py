"""Models that change: layers, parameters and buffers that come and go; jitted things."""

import copy
import pickle

import eager
from eager import nn
from eager.nn import functional as F
from tests.never_wrong.harness import Call, Program, case
from tests.never_wrong.scene import nothing, rows, scene


def batch():
    return eager.tensor([[1.0, 2.0], [3.0, -4.0]])


@case("models")
def layers_are_added_and_swapped():
    model = nn.ModuleList([nn.Linear(2, 2)])

    def step(x):
        for layer in model:
            x = layer(x)
        return x.detach(), len(model)

    def swap():
        model[0] = nn.Linear(2, 2)

    return scene(step, lambda: model.append(nn.ReLU()), swap, lambda: model.pop(0), args=(batch(),))


@case("models")
def a_dictionary_of_layers():
    heads = nn.ModuleDict({"a": nn.Linear(2, 1), "b": nn.Linear(2, 1)})

    def step(x, name):
        return heads[name](x).detach() if name in heads else None

    x = batch()
    return Program(
        step,
        [
            Call((x, "a")),
            Call((x, "b")),
            Call((x, "c")),
            Call((x, "c"), before=lambda: heads.update({"c": nn.ReLU()})),
            Call((x, "a"), before=lambda: heads.pop("a")),
        ],
    )


@case("models")
def a_buffer_is_registered_later():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", None)

        def forward(self, x):
            return x if self.scale is None else x * self.scale

    model = Model()

    def put():
        model.scale = eager.full((2,), 3.0)

    def plain():
        del model.scale
        model.scale = 5

    return scene(
        lambda x: model(x), put, plain, args=(batch(),), observe=lambda: sorted(model.state_dict())
    )


@case("models")
def a_buffer_is_registered_inside():
    model = nn.Module()

    def step(x):
        model.register_buffer("last", x * 2)
        model.count = getattr(model, "count", 0) + 1
        return model.last, [n for n, _ in model.named_buffers()]

    return scene(step, nothing, args=(batch(),), observe=lambda: (model.last, model.count))


@case("models")
def a_parameter_is_made_inside():
    model = nn.Module()

    def step(x):
        if not hasattr(model, "w"):
            model.w = nn.Parameter(x.clone())
        (model.w * x).sum().backward()
        return model.w.grad

    return scene(
        step, nothing, args=(batch(),), observe=lambda: [n for n, _ in model.named_parameters()]
    )


@case("models")
def apply_and_named_modules():
    model, log = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), []

    def step(x):
        model.apply(lambda m: log.append(type(m).__name__))
        return [n for n, _ in model.named_modules()], sum(p.numel() for p in model.parameters())

    return scene(step, lambda: model.append(nn.Tanh()), observe=lambda: list(log))


@case("models")
def weight_norm_and_parametrization_by_hand():
    layer = nn.Linear(2, 2)

    class Scaled(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner
            self.g = nn.Parameter(eager.ones(1))

        def forward(self, x):
            w = self.inner.weight / self.inner.weight.norm() * self.g
            return F.linear(x, w, self.inner.bias)

    model = Scaled(layer)

    def step(x):
        model.zero_grad()
        model(x).sum().backward()
        return model.g.grad, layer.weight.grad

    return scene(
        step,
        lambda: model.g.data.mul_(2),
        lambda: setattr(model, "inner", nn.Linear(2, 2)),
        args=(batch(),),
    )


@case("models")
def the_layers_own_attributes_are_used():
    class Model(nn.Module):
        calls = 0

        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(2, 2)
            self.history = []

        def forward(self, x):
            self.calls += 1
            y = self.lin(x)
            self.history.append(float(y.detach().sum()))
            return y * self.calls

    model = Model()
    return scene(
        lambda x: model(x).detach(),
        nothing,
        lambda: setattr(model, "calls", 10),
        model.history.clear,
        args=(batch(),),
        observe=lambda: (model.calls, model.history),
    )


@case("models")
def a_jitted_method_per_instance():
    from jitcap import jit

    class Layer:
        def __init__(self, n):
            self.n = n

        @jit(backend="eager")
        def run(self, x):
            self.n += 1
            return x * self.n

    a, b = Layer(1), Layer(5)

    def step(x):
        return a.run(x), b.run(x)

    return scene(step, nothing, lambda: setattr(a, "n", 9), observe=lambda: (a.n, b.n))


@case("models")
def a_jitted_model_is_copied_and_pickled():
    from jitcap import jit

    model = jit(nn.Linear(2, 2), backend="eager")

    def step(x):
        return (
            model(x).detach(),
            sorted(model.state_dict()),
            isinstance(model, nn.Linear),
            model.weight,
        )

    def change():
        other = copy.deepcopy(model)
        assert (other(batch()) == model(batch())).all()
        other.weight.data.add_(100)
        model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()})

    def pickled():
        state = pickle.loads(pickle.dumps(model.state_dict()))
        model.load_state_dict({k: v * 2 for k, v in state.items()})

    return scene(step, change, pickled, args=(batch(),))


@case("models")
def a_jitted_function_calls_a_jitted_function():
    from jitcap import jit

    state = {"n": 1}

    @jit(backend="eager")
    def inner(x):
        state["n"] += 1
        return x * state["n"]

    def step(x):
        return inner(x) + inner(x)

    return scene(step, nothing, lambda: state.update(n=10), observe=lambda: dict(state))


@case("models")
def the_jitted_function_that_is_called_changes():
    from jitcap import jit

    functions = {
        "two": jit(lambda x: x * 2, backend="eager"),
        "three": jit(lambda x: x * 3, backend="eager"),
        "sin": eager.sin,
        "layer": nn.ReLU(),
    }
    state = {"f": functions["two"]}

    def step(x):
        return state["f"](x), state["f"](x + 1)

    def choose(name):
        return lambda: state.update(f=functions[name])

    return scene(step, choose("three"), choose("sin"), choose("layer"), choose("two"))


@case("models")
def library_functions_are_told_apart():
    def step(x, f):
        return f(x)

    x = eager.tensor([-1.0, 0.5])
    functions = [
        F.hardswish,
        F.silu,
        eager.exp,
        eager.sin,
        F.relu,
        eager.Tensor.abs,
        eager.Tensor.neg,
    ]
    return rows(step, *((x, f) for f in functions), (x, F.silu))


@case("models")
def attributes_of_the_step_seen_from_outside():
    def step(x):
        """doc"""
        return step.__doc__, step.__name__, callable(step)

    return scene(step, lambda: setattr(step, "__doc__", "other"))
