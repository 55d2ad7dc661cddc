"""Optimizers whose state, groups and parameters are changed between calls, at random: compiled as
in plain Python, bit by bit, whichever rounds of the loop over parameters are repeated."""

import random
from functools import partial

import numpy as np
import pytest

import eager
from eager import nn, optim
from jitcap import jit
from jitcap.capture.memo.rounds import Program
from tests.helpers import share

pytestmark = pytest.mark.filterwarnings("ignore")
OPTIMIZERS = {
    "sgd": partial(optim.SGD, lr=0.1),
    "momentum": partial(optim.SGD, lr=0.1, momentum=0.9, nesterov=True),
    "dampened": partial(optim.SGD, lr=0.1, momentum=0.9, dampening=0.5),
    "adam": partial(optim.Adam, lr=0.1, weight_decay=0.1),
    "adamw": partial(optim.AdamW, lr=0.1),
    "amsgrad": partial(optim.AdamW, lr=0.1, amsgrad=True),
    "adamax": partial(optim.Adamax, lr=0.1),
    "nadam": partial(optim.NAdam, lr=0.1),
    "radam": partial(optim.RAdam, lr=0.1),
    "adagrad": partial(optim.Adagrad, lr=0.1),
    "adadelta": partial(optim.Adadelta, lr=0.1),
    "adafactor": partial(optim.Adafactor, lr=0.1),
    "rmsprop": partial(optim.RMSprop, lr=0.1, centered=True),
    "rprop": partial(optim.Rprop, lr=0.1),
    "asgd": partial(optim.ASGD, lr=0.1),
}


class World:
    """Parameters, an optimizer over them, and what a step needs."""

    def __init__(self, name, seed):
        rng = np.random.default_rng(seed)
        shapes = [(3, 4), (4,)] * 4 if seed % 2 else [(3, 4)] * 8
        made = [rng.standard_normal(s).astype(np.float32) for s in (*shapes, (3, 4), (4,))]
        every = [nn.Parameter(eager.from_numpy(v)) for v in made]
        self.parameters, self.spare = every[:8], every[8:]
        groups = [{"params": self.parameters}]
        if seed % 3 == 0:
            first, rest = self.parameters[:2], self.parameters[2:]
            groups = [{"params": first, "lr": 0.3}, {"params": rest}]
        self.optimizer = OPTIMIZERS[name](groups)
        self.factors = [1.0] * 10
        self.seen = []
        self.sets_to_none = True

    def step(self, x):
        self.optimizer.zero_grad(set_to_none=self.sets_to_none)
        used = [(p, f) for p, f in zip(self.parameters, self.factors, strict=False) if f]
        loss = sum(((p * x).cos() * f).sum() for p, f in used)
        loss.backward()
        self.optimizer.step()
        return loss


def group(w, draw):
    return draw.choice(w.optimizer.param_groups)


def tensors(w, draw):
    """State of a parameter, and the names of its tensors; None if it has none."""
    state = w.optimizer.state.get(draw.choice(w.parameters))
    names = [k for k, v in (state or {}).items() if isinstance(v, eager.Tensor)]
    return (state, names) if names else (None, ())


def setting(w, draw):
    g = group(w, draw)
    names = [k for k, v in g.items() if type(v) is float]
    name = draw.choice(names)
    g[name] = g[name] * 0.5 if g[name] else 0.25


def flag(w, draw):
    g = group(w, draw)
    names = [k for k in ("maximize", "nesterov", "decoupled_weight_decay") if k in g]
    if names:
        name = draw.choice(names)
        g[name] = not g[name] if name != "nesterov" or g["momentum"] else g[name]


def betas(w, draw):
    g = group(w, draw)
    if "betas" in g:
        g["betas"] = draw.choice([(0.8, 0.99), [0.9, 0.999], (0.5, 0.9)])


def add_group(w, draw):
    if w.spare:
        p = w.spare.pop()
        w.parameters = [*w.parameters, p]
        w.optimizer.add_param_group({"params": [p], "lr": 0.2})


def replaced(w, draw):
    state, names = tensors(w, draw)
    for name in names[:1]:
        state[name] = state[name].clone()


def other_state(w, draw):
    state, names = tensors(w, draw)
    if names:
        name = draw.choice(names)
        state[name] = draw.choice([lambda t: t.double(), lambda t: t * 0.5, lambda t: t.t().t()])(
            state[name]
        )


def step_of_another_type(w, draw):
    state, names = tensors(w, draw)
    if "step" in names:
        state["step"] = state["step"].double()


def shared(w, draw):
    (a, names), (b, others) = tensors(w, draw), tensors(w, draw)
    for name in names if a is not None and b is not None else ():
        if name in others and a[name].shape == b[name].shape and name != "step":
            a[name] = b[name]
            return


def forgotten(w, draw):
    w.optimizer.state.pop(draw.choice(w.parameters), None)


def emptied(w, draw):
    w.optimizer.state[draw.choice(w.parameters)].clear()


def frozen(w, draw):
    p = draw.choice(w.parameters)
    p.requires_grad_(not p.requires_grad)


def unused(w, draw):
    i = draw.randrange(8)
    w.factors[i] = 0.0 if w.factors[i] else 1.0


def data(w, draw):
    p = draw.choice(w.parameters)
    p.data = p.data * 0.5


def strided(w, draw):
    p = draw.choice(w.parameters)
    p.data = p.data.t().contiguous().t()


def graded(w, draw):
    p = draw.choice(w.parameters)
    p.grad = p.detach() * 0.1


def kept(w, draw):
    w.sets_to_none = not w.sets_to_none


def hook(w, draw):
    p = draw.choice(w.parameters)
    if p.requires_grad:
        p.register_hook(lambda g: g * 0.5)


def late_hook(w, draw):
    p = draw.choice(w.parameters)
    if p.requires_grad:
        p.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(2))


def step_hook(w, draw):
    w.optimizer.register_step_post_hook(lambda o, args, kwargs: w.seen.append(len(args)))


def ordered(w, draw):
    draw.shuffle(group(w, draw)["params"])


def removed(w, draw):
    params = group(w, draw)["params"]
    if len(params) > 3:
        del params[draw.randrange(len(params))]


def method(w, draw):
    kind = type(w.optimizer)
    update = kind.update
    w.optimizer.update = lambda p, g, s, group: update(w.optimizer, p, g * 0.5, s, group)


def again(w, draw):
    w.optimizer.load_state_dict(w.optimizer.state_dict())


MUTATIONS = (
    setting, flag, betas, add_group, replaced, other_state, step_of_another_type, shared, forgotten,
    emptied, frozen, unused, data, strided, graded, kept, hook, late_hook, step_hook, ordered,
    removed, method, again,
)  # fmt: skip


def left(w):
    """All that a step leaves."""
    states = [
        {k: v.numpy().tolist() if isinstance(v, eager.Tensor) else v
         for k, v in w.optimizer._slots.get(p, {}).items()}
        for p in w.parameters
    ]  # fmt: skip
    grads = [None if p.grad is None else p.grad.numpy().tolist() for p in w.parameters]
    groups = [{k: v for k, v in g.items() if k != "params"} for g in w.optimizer.param_groups]
    values = [p.detach().numpy().tolist() for p in w.parameters]
    return repr((values, grads, states, groups, w.seen))


def outcomes(name, seed, decorate):
    draw, found = random.Random(f"{name} {seed}"), []
    w = World(name, seed)
    x = eager.ones(4) * 0.7
    step = decorate(w.step)
    for _ in range(5):
        try:
            step(x)
            found.append(left(w))
        except Exception as error:  # noqa: BLE001 - as plain Python
            found.append(type(error).__name__)
        for mutate in draw.choices(MUTATIONS, k=draw.choice((0, 1, 1, 2))):
            try:
                mutate(w, draw)
                found.append(mutate.__name__)
            except Exception as error:  # noqa: BLE001
                found.append((mutate.__name__, type(error).__name__))
    return found


@pytest.fixture
def asked(monkeypatch):
    """Rounds that were repeated: whether an answer was another one."""
    seen, ask = [], Program._ask

    def noted(self, *args):
        answers, differs = ask(self, *args)
        seen.append(differs)
        return answers, differs

    monkeypatch.setattr(Program, "_ask", noted)
    return seen


@pytest.mark.parametrize(
    ("name", "seed"), share.of([(n, s) for n in OPTIMIZERS for s in range(40)], 15)
)
def test_optimizers_that_change_between_calls(name, seed, asked):
    compiled = outcomes(name, seed, partial(jit, backend="eager"))
    assert compiled == outcomes(name, seed, lambda fn: fn)
