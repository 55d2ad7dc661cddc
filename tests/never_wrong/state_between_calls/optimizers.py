"""Optimizers and schedulers whose groups, states and rates change."""

import copy

import eager
from eager import nn
from tests.never_wrong.harness import case
from tests.never_wrong.scene import nothing, rows, scene


def batch():
    return eager.tensor([[1.0, 2.0], [3.0, -4.0]])


def trained(optimizer, model):
    def step(x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@case("optimizers")
def the_rate_of_a_group_changes():
    model = nn.Linear(2, 1)
    optimizer = eager.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
    group = optimizer.param_groups[0]
    return scene(
        trained(optimizer, model),
        lambda: group.update(lr=0.25),
        lambda: group.update(lr=1),
        lambda: group.update(momentum=0.0),
        lambda: group.update(weight_decay=0.5, nesterov=False),
        lambda: group.update(maximize=True),
        args=(batch(),),
        observe=lambda: list(model.parameters()),
    )


@case("optimizers")
def a_group_is_added():
    model, head = nn.Linear(2, 2), nn.Linear(2, 1)
    optimizer = eager.optim.SGD(model.parameters(), lr=0.5)
    both = nn.Sequential(model, head)

    def add():
        optimizer.add_param_group({"params": head.parameters(), "lr": 0.25})

    return scene(
        trained(optimizer, both),
        nothing,
        add,
        nothing,
        args=(batch(),),
        observe=lambda: list(both.parameters()),
    )


@case("optimizers")
def the_groups_are_shared_or_replaced():
    model = nn.Linear(2, 1)
    optimizer = eager.optim.SGD(model.parameters(), lr=0.5)

    def drop():
        optimizer.param_groups[0]["params"].pop()

    def replace():
        optimizer.param_groups = [{**optimizer.param_groups[0], "lr": 0.125}]

    return scene(
        trained(optimizer, model),
        drop,
        replace,
        args=(batch(),),
        observe=lambda: list(model.parameters()),
    )


@case("optimizers")
def the_state_is_dropped_and_loaded():
    model = nn.Linear(2, 1)
    optimizer = eager.optim.Adam(model.parameters(), lr=0.1)
    saved = copy.deepcopy(optimizer.state_dict())
    return scene(
        trained(optimizer, model),
        nothing,
        lambda: optimizer.state.clear(),
        nothing,
        lambda: optimizer.load_state_dict(saved),
        nothing,
        args=(batch(),),
        observe=lambda: (list(model.parameters()), len(optimizer.state)),
    )


@case("optimizers")
def the_count_of_steps_is_set():
    model = nn.Linear(2, 1)
    optimizer = eager.optim.AdamW(model.parameters(), lr=0.1)

    def set_back():
        for state in optimizer.state.values():
            state["step"] = state["step"] * 0 + 1

    return scene(
        trained(optimizer, model),
        nothing,
        set_back,
        nothing,
        args=(batch(),),
        observe=lambda: list(model.parameters()),
    )


@case("optimizers")
def schedulers_step_inside():
    model = nn.Linear(2, 1)
    optimizer = eager.optim.SGD(model.parameters(), lr=0.5)
    scheduler = eager.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    inner = trained(optimizer, model)

    def step(x):
        loss = inner(x)
        scheduler.step()
        return loss, scheduler.get_last_lr(), optimizer.param_groups[0]["lr"], scheduler.last_epoch

    return scene(
        step,
        nothing,
        nothing,
        lambda: setattr(scheduler, "gamma", 0.1),
        nothing,
        args=(batch(),),
        observe=lambda: list(model.parameters()),
    )


@case("optimizers")
def a_lambda_of_a_scheduler():
    model, state = nn.Linear(2, 1), {"scale": 1.0}
    optimizer = eager.optim.SGD(model.parameters(), lr=0.5)
    scheduler = eager.optim.lr_scheduler.LambdaLR(optimizer, lambda n: state["scale"] / (n + 1))
    inner = trained(optimizer, model)

    def step(x):
        inner(x)
        scheduler.step()
        return optimizer.param_groups[0]["lr"]

    return scene(
        step,
        nothing,
        lambda: state.update(scale=2.0),
        nothing,
        args=(batch(),),
        observe=lambda: list(model.parameters()),
    )


@case("optimizers")
def a_plateau():
    model = nn.Linear(2, 1)
    optimizer = eager.optim.SGD(model.parameters(), lr=0.5)
    scheduler = eager.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)

    def step(x, loss):
        scheduler.step(loss)
        return x * optimizer.param_groups[0]["lr"], scheduler.num_bad_epochs

    x = eager.ones(1)
    return rows(step, (x, 3.0), (x, 4.0), (x, 5.0), (x, 1.0), (x, float("inf")))


@case("optimizers")
def several_schedulers_in_a_chain():
    w = eager.ones(2, requires_grad=True)
    optimizer = eager.optim.SGD([w], lr=1.0)
    schedulers = eager.optim.lr_scheduler
    chain = schedulers.SequentialLR(
        optimizer,
        [
            schedulers.LinearLR(optimizer, 0.5, total_iters=2),
            schedulers.ExponentialLR(optimizer, 0.5),
        ],
        milestones=[2],
    )

    def step(x):
        optimizer.step()
        chain.step()
        return x * optimizer.param_groups[0]["lr"]

    return scene(step, nothing, nothing, nothing, nothing)


@case("optimizers")
def a_parameter_is_replaced():
    model = nn.Linear(2, 1)
    optimizer = eager.optim.SGD(model.parameters(), lr=0.5)

    def replace():
        model.weight = nn.Parameter(eager.ones(1, 2))

    def data():
        model.bias.data = eager.zeros(1)

    return scene(
        trained(optimizer, model),
        replace,
        data,
        args=(batch(),),
        observe=lambda: (list(model.parameters()), optimizer.param_groups[0]["params"]),
    )


@case("optimizers")
def a_gradient_is_clipped_by_a_changing_norm():
    model, state = nn.Linear(2, 1), {"norm": 1.0}

    def step(x):
        model.zero_grad()
        model(x).sum().backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), state["norm"])
        return norm, [p.grad for p in model.parameters()]

    return scene(
        step,
        lambda: state.update(norm=0.5),
        lambda: state.update(norm=float("inf")),
        args=(batch(),),
    )


@case("optimizers")
def gradients_accumulate_over_calls():
    model, state = nn.Linear(2, 1), {"n": 0}
    optimizer = eager.optim.SGD(model.parameters(), lr=0.5)

    def step(x):
        (model(x).sum() / 2).backward()
        state["n"] += 1
        if state["n"] % 2 == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=state["n"] % 4 == 0)

    return scene(
        step,
        nothing,
        nothing,
        nothing,
        nothing,
        args=(batch(),),
        observe=lambda: list(model.parameters()),
    )


@case("optimizers")
def two_optimizers_over_one_parameter():
    w = eager.ones(2, requires_grad=True)
    a, b = eager.optim.SGD([w], lr=0.5), eager.optim.SGD([w], lr=0.25, momentum=0.5)
    state = {"turn": a}

    def step(x):
        state["turn"].zero_grad()
        (w * x).sum().backward()
        state["turn"].step()
        state["turn"] = b if state["turn"] is a else a

    return scene(step, nothing, nothing, args=(eager.ones(2),), observe=lambda: w)


@case("optimizers")
def a_closure_is_given_to_step():
    w = eager.ones(2, requires_grad=True)
    optimizer, log = eager.optim.SGD([w], lr=0.5), []

    def step(x):
        def closure():
            log.append("closure")
            optimizer.zero_grad()
            loss = (w * x).sum()
            loss.backward()
            return loss

        return optimizer.step(closure).detach()

    return scene(step, nothing, args=(eager.ones(2),), observe=lambda: (w, list(log)))


@case("optimizers")
def an_ema_of_the_weights():
    model = nn.Linear(2, 1)
    ema = copy.deepcopy(model)
    state = {"decay": 0.5}

    def step(x):
        with eager.no_grad():
            for p, q in zip(model.parameters(), ema.parameters(), strict=True):
                p.add_(1)
                q.mul_(state["decay"]).add_(p, alpha=1 - state["decay"])
        return ema(x).detach()

    return scene(
        step,
        lambda: state.update(decay=0.75),
        nothing,
        args=(batch(),),
        observe=lambda: list(ema.parameters()),
    )
