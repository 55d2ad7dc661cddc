"""Training steps with numbers, checks, exceptions, text and order around them."""

import contextlib
import logging
import math
import warnings

import eager
from eager import nn
from tests.never_wrong.harness import Program, after, case


def model_of(*sizes):
    """A small network whose floats are exact: halves and quarters."""
    layers = []
    for k, (i, o) in enumerate(zip(sizes, sizes[1:], strict=False)):
        layer = nn.Linear(i, o)
        with eager.no_grad():
            layer.weight.copy_(((eager.arange(i * o) % 5) - 2).reshape(o, i) * 0.25)
            layer.bias.copy_((eager.arange(o) % 3) * 0.5)
        layers += [layer, nn.ReLU()] if k < len(sizes) - 2 else [layer]
    return nn.Sequential(*layers)


def batch(scale=1.0):
    return ((eager.arange(6) % 4) - 1).reshape(3, 2) * scale


@case("training", one_graph=True)
def plain_step():
    model = model_of(2, 3, 1)
    optimizer = eager.optim.SGD(model.parameters(), lr=0.25, momentum=0.5)

    def step(x, y):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    x, y = batch(), eager.ones(3, 1)
    state = lambda: (model, [list(s.values()) for s in optimizer.state.values()])
    return Program(step, [(x, y)] * 3, state)


@case("training")
def step_with_a_schedule_and_text():
    model = model_of(2, 2)
    optimizer = eager.optim.SGD(model.parameters(), lr=0.5)
    scheduler = eager.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    history = []

    def step(x, epoch):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        scheduler.step()
        rate = optimizer.param_groups[0]["lr"]
        history.append(f"{epoch:02d} {loss.item():.4f} {rate:g}")
        print(history[-1], end="\r")
        return loss.item(), scheduler.get_last_lr()

    return Program(step, [(batch(), e) for e in range(5)], lambda: (model, history))


@case("training")
def gradients_are_skipped_when_they_are_not_finite():
    model = model_of(2, 1)
    optimizer = eager.optim.SGD(model.parameters(), lr=0.25)
    skipped = {"count": 0}

    def step(x):
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if not math.isfinite(norm.item()):
            skipped["count"] += 1
            return None
        optimizer.step()
        return norm.item() > 0

    return Program(step, [(batch(),), (batch(math.inf),), (batch(2.0),)], lambda: (model, skipped))


@case("training")
def loss_scale_grows_and_shrinks():
    w = eager.tensor([1.0, 2.0], requires_grad=True)
    state = {"scale": 2.0**60, "good": 0}

    def step(x):
        w.grad = None
        loss = (w * x).sum() * state["scale"]
        loss.backward()
        if eager.isfinite(w.grad).all().item():
            state["good"] += 1
            if state["good"] % 2 == 0:
                state["scale"] *= 2
            with eager.no_grad():
                w.sub_(w.grad / state["scale"] * 0.5)
        else:
            state["scale"] /= 2
            state["good"] = 0
        return state["scale"]

    values = [1.0, 1.0, math.inf, 2.0, 2.0]
    return Program(step, [(eager.tensor([v, 1.0]),) for v in values], lambda: (w, state))


@case("training")
def best_loss_is_kept_with_its_weights():
    model = model_of(2, 1)
    best = {"loss": math.inf, "state": None, "epoch": None}

    def step(x, epoch):
        loss = model(x).abs().sum().item()
        if loss < best["loss"]:
            best.update(
                loss=loss, epoch=epoch, state=[p.detach().clone() for p in model.parameters()]
            )
        with eager.no_grad():
            for p in model.parameters():
                p.mul_(0.5 if epoch != 2 else 4.0)
        return loss

    return Program(step, [(batch(), e) for e in range(4)], lambda: (best, model))


@case("training")
def early_stopping_raises():
    w = eager.tensor([4.0], requires_grad=True)
    counters = {"bad": 0, "last": math.inf}

    class Stop(Exception):
        pass

    def step(x):
        loss = (w * x).sum()
        loss.backward()
        with eager.no_grad():
            w.sub_(0.25 * w.grad)
            w.grad.zero_()
        value = loss.item()
        counters["bad"] = counters["bad"] + 1 if value >= counters["last"] else 0
        counters["last"] = value
        if counters["bad"] >= 2:
            raise Stop(f"at {value:.2f} after {counters['bad']}")
        return value

    values = [1.0, 2.0, 3.0, 4.0, 1.0]
    return Program(step, [(eager.tensor([v]),) for v in values], lambda: (w, counters))


@case("training")
def a_label_out_of_range_in_the_middle_of_training():
    model = model_of(2, 3)
    optimizer = eager.optim.SGD(model.parameters(), lr=0.25)
    seen = []

    def step(x, y):
        seen.append(y.tolist())
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        seen.append("stepped")
        return loss.item() > 0

    good, bad = eager.tensor([0, 1, 2]), eager.tensor([0, 3, 1])
    return Program(
        step, [(batch(), good), (batch(), bad), (batch(), good)], lambda: (seen, len(seen))
    )


@case("training")
def a_hook_that_counts_and_logs():
    model = model_of(2, 2, 1)
    log = []
    model[0].register_forward_hook(
        lambda m, args, out: log.append((type(m).__name__, tuple(out.shape)))
    )
    model[2].register_forward_pre_hook(lambda m, args: (args[0] * 2,))

    def step(x):
        loss = model(x).sum()
        loss.backward()
        log.append(loss.item())
        model.zero_grad()
        return loss.detach()

    return Program(step, [(batch(),), (batch(2.0),), (batch(),)], lambda: (log, model))


@case("training")
def gradient_accumulation_by_a_counter():
    model = model_of(2, 1)
    optimizer = eager.optim.SGD(model.parameters(), lr=0.5)
    state = {"micro": 0, "steps": 0}

    def step(x, every):
        loss = model(x).sum() / every
        loss.backward()
        state["micro"] += 1
        if state["micro"] % every == 0:
            optimizer.step()
            optimizer.zero_grad()
            state["steps"] += 1
        return loss.item()

    return Program(step, [(batch(), 2)] * 5 + [(batch(), 1), (batch(), 0)], lambda: (model, state))


@case("training")
def exponential_average_with_a_warm_up():
    model = model_of(2, 1)
    average = [p.detach().clone() for p in model.parameters()]
    state = {"n": 0}

    def step(x):
        state["n"] += 1
        decay = min(0.5, (1 + state["n"]) / (10 + state["n"]))
        with eager.no_grad():
            for p, a in zip(model.parameters(), average, strict=True):
                p.add_(x.sum())
                a.mul_(decay).add_(p, alpha=1 - decay)
        return decay

    return Program(step, [(eager.tensor([0.5]),)] * 4, lambda: (average, state, model))


@case("training")
def training_mode_changes_between_calls():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(0.5))
    with eager.no_grad():
        model[0].weight.copy_(eager.eye(2))
        model[0].bias.zero_()

    def step(x):
        out = model(x)
        return out.shape, model.training, f"{'train' if model.training else 'eval'}"

    x = batch()
    calls = [(x,), after(model.eval, x), after(model.train, x), after(lambda: model[1].eval(), x)]
    count = lambda: (model[1].num_batches_tracked, model[1].running_mean, model[0].weight)
    return Program(step, calls, count)


@case("training")
def weights_are_frozen_between_calls():
    model = model_of(2, 2, 1)
    optimizer = eager.optim.SGD(model.parameters(), lr=0.25)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        return [p.grad is None for p in model.parameters()], loss.requires_grad

    x = batch()
    freeze = lambda: model[0].requires_grad_(False)
    swap = lambda: setattr(model[2], "bias", None)
    return Program(step, [(x,), after(freeze, x), (x,), after(swap, x)], lambda: model)


@case("training")
def a_step_in_try_except_finally():
    model = model_of(2, 1)
    log = []

    def step(x, y):
        try:
            loss = ((model(x) - y) ** 2).sum()
            loss.backward()
            log.append("backward")
        except RuntimeError as error:
            log.append(type(error).__name__)
            return None
        else:
            log.append(loss.item())
        finally:
            log.append(sum(p.grad is not None for p in model.parameters()))
            model.zero_grad()
        return loss.detach()

    good, bad = eager.ones(3, 1), eager.ones(4, 2)
    return Program(step, [(batch(), good), (batch(), bad), (batch(), good)], lambda: (log, model))


@case("training")
def warnings_and_logs_of_a_step():
    model = model_of(2, 1)
    logger = logging.getLogger("never_wrong.training")
    logger.setLevel(logging.INFO)

    def step(x, i):
        loss = model(x).sum()
        loss.backward()
        if loss.item() < 4:
            warnings.warn(f"step {i}: loss {loss.item():.2f} is small", stacklevel=1)
        logger.info(
            "step %d loss %.3f grads %s", i, loss, [p.grad.sum().item() for p in model.parameters()]
        )
        model.zero_grad()
        return loss.item()

    return Program(step, [(batch(), 0), (batch(4.0), 1), (batch(), 2)], lambda: model)


@case("training")
def perplexity_overflows():
    log = []
    w = eager.tensor([1.0], requires_grad=True)

    def step(x):
        loss = (w * x).sum()
        loss.backward()
        try:
            log.append(math.exp(loss.item()))
        except OverflowError:
            log.append(math.inf)
        w.grad = None
        return log[-1]

    return Program(step, [(eager.tensor([v]),) for v in (1.0, 2000.0, 2.0)], lambda: (log, w))


@case("training")
def accuracy_of_an_empty_batch():
    totals = {"right": 0, "all": 0}

    def step(scores, labels):
        totals["right"] += (scores.argmax(dim=1) == labels).sum().item()
        totals["all"] += labels.numel()
        return totals["right"] / totals["all"]

    scores = eager.tensor([[1.0, 2.0], [3.0, 0.0]])
    labels = eager.tensor([1, 1])
    empty = (eager.zeros(0, 2), eager.zeros(0, dtype=eager.int64))
    return Program(step, [empty, (scores, labels), empty, (scores, labels)], lambda: totals)


@case("training")
def mean_of_right_answers_divides_by_an_item():
    log = []

    def step(scores, mask):
        kept = mask.sum().item()
        log.append(kept)
        value = (scores * mask).sum().item() / kept
        log.append(value)
        return value

    scores = eager.tensor([1.0, 2.0, 4.0])
    masks = ([1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0])
    return Program(step, [(scores, eager.tensor(m)) for m in masks], lambda: log)


@case("training")
def grad_mode_is_restored_after_an_error():
    w = eager.tensor([1.0, 2.0], requires_grad=True)

    def step(i):
        with contextlib.suppress(IndexError), eager.no_grad():
            w.mul_(2)
            w[i].item()
            w.mul_(2)
        y = (w * 3).sum()
        return y.requires_grad, eager.is_grad_enabled(), y

    return Program(step, [(0,), (5,), (1,)], lambda: (w, eager.is_grad_enabled()))


@case("training")
def grad_mode_stays_off_after_an_error():
    w = eager.tensor([1.0, 2.0], requires_grad=True)

    def step(n):
        eager.set_grad_enabled(False)
        y = w * (1 / n)
        eager.set_grad_enabled(True)
        return y, y.requires_grad

    calls = [(1,), (2,), (0,), after(lambda: eager.set_grad_enabled(True), 2)]
    return Program(step, calls, eager.is_grad_enabled, lambda: eager.set_grad_enabled(True))


@case("training")
def random_state_after_an_error():
    def step(x, i):
        first = eager.rand(2)
        y = (x + first)[i]
        return y, eager.rand(1), first

    x = eager.zeros(2)
    return Program(step, [(x, 0), (x, 9), (x, 1), (x, 0)], eager.initial_seed)


@case("training", cpp=True)
def exact_step_with_a_counter_in_cpp():
    w = eager.tensor([4.0, 8.0], requires_grad=True)
    state = {"t": 0}

    def step(x):
        state["t"] += 1
        (w * x).sum().backward()
        with eager.no_grad():
            w.sub_(w.grad * 0.5 ** state["t"])
        w.grad = None
        return state["t"], f"t={state['t']}"

    return Program(step, [(eager.tensor([1.0, 2.0]),)] * 4, lambda: (w, state))
