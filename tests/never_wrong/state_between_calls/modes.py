"""Modes: contexts with state, train and eval, requires_grad, precision."""

import contextlib

import eager
from eager import nn
from tests.never_wrong.harness import case
from tests.never_wrong.scene import nothing, rows, scene


def batch():
    return eager.tensor([[1.0, 2.0], [3.0, -4.0]])


@case("modes")
def no_grad_around_the_call():
    w = eager.ones(3, requires_grad=True)

    def step(x):
        y = w * x
        return y, y.requires_grad

    def call(x, on):
        with eager.no_grad() if on else contextlib.nullcontext():
            return inner(x)

    inner = step
    x = eager.ones(3)
    return rows(call, (x, False), (x, True), (x, False))


@case("modes")
def grad_is_switched_off_between_calls():
    w = eager.ones(3, requires_grad=True)

    def step(x):
        return (w * x).requires_grad, eager.is_grad_enabled()

    program = scene(
        step, lambda: eager.set_grad_enabled(False), lambda: eager.set_grad_enabled(True)
    )
    program.close = lambda: eager.set_grad_enabled(True)
    return program


@case("modes")
def grad_is_switched_off_inside_and_stays_off():
    w = eager.ones(3, requires_grad=True)

    def step(x):
        y = w * x
        eager.set_grad_enabled(False)
        return y.requires_grad, (w * x).requires_grad

    program = scene(
        step, nothing, lambda: eager.set_grad_enabled(True), observe=eager.is_grad_enabled
    )
    program.close = lambda: eager.set_grad_enabled(True)
    return program


@case("modes")
def a_mode_is_left_by_an_exception():
    def step(x):
        with eager.no_grad():
            if len(x) == 3:
                raise ValueError("three")
        return x

    return scene(step, nothing, observe=eager.is_grad_enabled)


@case("modes")
def one_context_object_is_entered_again():
    held = eager.no_grad()
    w = eager.ones(3, requires_grad=True)

    def step(x):
        with held:
            a = (w * x).requires_grad
            with eager.enable_grad(), held:
                b = (w * x).requires_grad
        return a, b, (w * x).requires_grad

    return scene(step, nothing, observe=eager.is_grad_enabled)


@case("modes")
def a_generator_function_is_decorated_inside():
    w = eager.ones(3, requires_grad=True)

    def step(x):
        @eager.no_grad()
        def products():
            for i in range(3):
                yield w * x * i

        return [(y, y.requires_grad, eager.is_grad_enabled()) for y in products()]

    return scene(step, nothing)


@case("modes")
def inference_mode_marks_its_results():
    kept = []

    def step(x):
        with eager.inference_mode():
            y = x * 2
        kept.append(y)
        flags = y.requires_grad, y.is_inference(), x.is_inference()
        return y, eager.is_inference_mode_enabled(), flags

    return scene(step, nothing, observe=lambda: kept)


@case("modes")
def autocast_around_the_call():
    layer = nn.Linear(2, 2)

    def step(x):
        return layer(x).dtype, eager.is_autocast_enabled()

    def call(x, on):
        with eager.autocast("cpu", dtype=eager.bfloat16, enabled=on):
            return inner(x)

    inner = step
    return rows(call, (batch(), False), (batch(), True), (batch(), False))


@case("modes")
def autocast_inside_with_a_changing_dtype():
    layer, state = nn.Linear(2, 2), {"dtype": eager.bfloat16, "enabled": True}

    def step(x):
        with eager.autocast("cpu", dtype=state["dtype"], enabled=state["enabled"]):
            y = layer(x)
        return y.dtype, eager.is_autocast_enabled()

    return scene(step, lambda: state.update(enabled=False), args=(batch(),))


@case("modes")
def a_profiler_of_the_user():
    class Profile:
        depth = 0

        def __init__(self):
            self.events = []

        def __enter__(self):
            Profile.depth += 1
            return self

        def __exit__(self, *error):
            Profile.depth -= 1
            self.events.append(Profile.depth)

    profile = Profile()

    def step(x):
        with profile, Profile() as inner:
            y = x * Profile.depth
        return y, inner.events

    return scene(
        step,
        nothing,
        lambda: setattr(Profile, "depth", 5),
        observe=lambda: (profile.events, Profile.depth),
    )


@case("modes")
def the_default_dtype_changes():
    def step(x):
        return eager.ones(2), eager.tensor(0.5), eager.get_default_dtype()

    program = scene(
        step,
        lambda: eager.set_default_dtype(eager.float64),
        lambda: eager.set_default_dtype(eager.float32),
    )
    program.close = lambda: eager.set_default_dtype(eager.float32)
    return program


@case("modes")
def the_default_dtype_changes_inside():
    def step(x):
        eager.set_default_dtype(eager.float64)
        y = eager.ones(2)
        eager.set_default_dtype(eager.float32)
        return y, eager.ones(2)

    program = scene(step, nothing, observe=eager.get_default_dtype)
    program.close = lambda: eager.set_default_dtype(eager.float32)
    return program


@case("modes")
def train_and_eval():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5), nn.BatchNorm1d(2))

    def step(x):
        return model(x).detach(), model.training

    return scene(
        step,
        model.eval,
        model.train,
        lambda: model[1].eval(),
        lambda: setattr(model[2], "training", False),
        args=(batch(),),
        observe=lambda: model[2].running_mean,
    )


@case("modes")
def eval_is_called_inside():
    model = nn.Sequential(nn.Dropout(0.5))

    def step(x):
        model.eval()
        y = model(x)
        model.train()
        return y, model(x), model[0].training

    return scene(step, nothing, observe=lambda: model.training)


@case("modes")
def requires_grad_is_switched_off_later():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))

    def step(x):
        for p in model.parameters():
            p.grad = None
        loss = model(x).sum()
        if loss.requires_grad:
            loss.backward()
        return loss.requires_grad

    return scene(
        step,
        lambda: model[0].requires_grad_(False),
        lambda: model.requires_grad_(False),
        lambda: model[1].bias.requires_grad_(True),
        args=(batch(),),
        observe=lambda: [p.grad for p in model.parameters()],
    )


@case("modes")
def requires_grad_is_set_inside():
    def step(x):
        y = x.detach().clone()
        y.requires_grad_(True)
        z = (y * y).sum()
        z.backward()
        return y.grad, y.is_leaf, y

    return scene(step, nothing)


@case("modes")
def a_model_becomes_double():
    model = nn.Linear(2, 2)
    optimizer = eager.optim.Adam(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = (model(x.to(model.weight.dtype)) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return scene(
        step,
        nothing,
        lambda: model.double(),
        nothing,
        args=(batch(),),
        observe=lambda: list(model.parameters()),
    )


@case("modes")
def an_optimizer_built_before_double():
    w = nn.Linear(2, 1).double()
    model = nn.Linear(2, 1)
    model.load_state_dict({k: v.float() for k, v in w.state_dict().items()})
    optimizer = eager.optim.SGD(model.parameters(), lr=0.1)
    model.double()

    def step(x):
        optimizer.zero_grad()
        model(x.double()).sum().backward()
        optimizer.step()

    return scene(step, nothing, args=(batch(),), observe=lambda: list(model.parameters()))


@case("modes")
def a_flag_of_a_loss_changes():
    loss = nn.CrossEntropyLoss(label_smoothing=0.1)
    target = eager.tensor([0, 1])

    def step(x):
        return loss(x, target)

    return scene(
        step,
        lambda: setattr(loss, "label_smoothing", 0.0),
        lambda: setattr(loss, "reduction", "sum"),
        args=(batch(),),
    )


@case("modes")
def numbers_of_a_layer_change():
    layers = nn.Sequential(nn.Dropout(0.0), nn.LeakyReLU(0.1), nn.LayerNorm(2), nn.BatchNorm1d(2))

    def step(x):
        return layers(x).detach()

    return scene(
        step,
        lambda: setattr(layers[1], "negative_slope", 0.5),
        lambda: setattr(layers[2], "eps", 0.5),
        lambda: setattr(layers[3], "momentum", None),
        lambda: setattr(layers[0], "p", 1.0),
        args=(batch(),),
        observe=lambda: layers[3].running_var,
    )
