"""Hooks of modules and tensors, registered and removed between calls and inside."""

import eager
from eager import nn
from tests.never_wrong.harness import case
from tests.never_wrong.scene import nothing, scene


def batch():
    return eager.tensor([[1.0, 2.0], [3.0, -4.0]])


@case("hooks")
def a_forward_hook_comes_and_goes():
    layer, log, held = nn.Linear(2, 2), [], []

    def hook(module, args, output):
        log.append(len(args))
        return output * 2

    def step(x):
        return layer(x).detach()

    return scene(
        step,
        lambda: held.append(layer.register_forward_hook(hook)),
        lambda: held.append(layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,))),
        lambda: held[0].remove(),
        lambda: held[1].remove(),
        args=(batch(),),
        observe=lambda: list(log),
    )


@case("hooks")
def a_forward_hook_is_registered_inside():
    layer, log = nn.Linear(2, 2), []

    def step(x):
        handle = layer.register_forward_hook(lambda m, a, o: log.append("hook"))
        y = layer(x).detach()
        handle.remove()
        return y, layer(x).detach(), len(layer._forward_hooks)

    return scene(step, nothing, args=(batch(),), observe=lambda: list(log))


@case("hooks")
def a_forward_hook_stays():
    layer, log = nn.Linear(2, 2), []

    def step(x):
        layer.register_forward_hook(lambda m, a, o: log.append("hook"))
        return layer(x).detach()

    return scene(
        step, nothing, args=(batch(),), observe=lambda: (list(log), len(layer._forward_hooks))
    )


@case("hooks")
def a_backward_hook_of_a_module():
    layer, log = nn.Linear(2, 2), []

    def hook(module, grad_input, grad_output):
        log.append(grad_output[0].detach().clone())

    held = []

    def step(x):
        layer.weight.grad = None
        layer(x).sum().backward()

    return scene(
        step,
        lambda: held.append(layer.register_full_backward_hook(hook)),
        lambda: held[0].remove(),
        args=(batch(),),
        observe=lambda: (layer.weight.grad, list(log)),
    )


@case("hooks")
def a_hook_of_a_tensor_comes_and_goes():
    w = eager.ones(3, requires_grad=True)
    held = []

    def step(x):
        w.grad = None
        (w * x).sum().backward()

    return scene(
        step,
        lambda: held.append(w.register_hook(lambda g: g * 10)),
        lambda: held.append(w.register_hook(lambda g: g + 1)),
        lambda: held[0].remove(),
        observe=lambda: w.grad,
    )


@case("hooks")
def a_hook_of_a_tensor_is_registered_inside():
    w = eager.ones(3, requires_grad=True)
    seen = []

    def step(x):
        w.grad = None
        y = w * x
        y.register_hook(lambda g: seen.append(g.clone()))
        handle = w.register_hook(lambda g: g * 3)
        y.sum().backward()
        handle.remove()
        return w.grad.clone()

    return scene(step, nothing, observe=lambda: list(seen))


@case("hooks")
def a_hook_of_a_tensor_stays():
    w = eager.ones(3, requires_grad=True)

    def step(x):
        w.register_hook(lambda g: g * 2)
        w.grad = None
        (w * x).sum().backward()
        return w.grad.clone()

    return scene(step, nothing, nothing)


@case("hooks")
def a_hook_after_the_gradient_is_stored():
    w = eager.ones(3, requires_grad=True)
    log = []

    def step(x):
        (w * x).sum().backward()

    return scene(
        step,
        lambda: w.register_post_accumulate_grad_hook(lambda p: log.append(p.grad.clone())),
        nothing,
        observe=lambda: (w.grad, list(log)),
    )


@case("hooks")
def the_step_of_an_optimizer_is_wrapped():
    w = eager.ones(3, requires_grad=True)
    optimizer = eager.optim.SGD([w], lr=0.5)
    log, original = [], optimizer.step

    def wrapped():
        log.append("before")
        original()
        log.append("after")

    def step(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()

    return scene(
        step,
        lambda: setattr(optimizer, "step", wrapped),
        lambda: delattr(optimizer, "step"),
        observe=lambda: (w, list(log)),
    )


@case("hooks")
def the_state_of_a_hook_changes():
    layer, state = nn.Linear(2, 2), {"scale": 2}
    layer.register_forward_hook(lambda m, a, o: o * state["scale"])
    return scene(lambda x: layer(x).detach(), lambda: state.update(scale=3), args=(batch(),))


@case("hooks")
def a_hook_that_replaces_itself():
    layer, log = nn.Linear(2, 2), []

    def hook(module, args, output):
        log.append(len(module._forward_hooks))
        held[0].remove()

    held = [layer.register_forward_hook(hook)]
    return scene(lambda x: layer(x).detach(), nothing, args=(batch(),), observe=lambda: list(log))
