"""What `opt.state` shows, against torch: the parameters that were stepped. State that is allocated
ahead, so that a step is compiled once, is not seen."""

import copy
import pickle
from collections import defaultdict
from importlib import import_module

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import eager  # noqa: E402
import jitcap  # noqa: E402

KINDS = {
    "SGD": {}, "Adam": {"amsgrad": True}, "AdamW": {}, "Adagrad": {}, "Adadelta": {},
    "RMSprop": {"momentum": 0.5, "centered": True}, "Adamax": {}, "NAdam": {}, "RAdam": {},
    "Rprop": {}, "ASGD": {}, "Adafactor": {}, "Muon": {},
}  # fmt: skip
CASES = [*KINDS.items(), ("SGD", {"momentum": 0.9}), ("SGD", {"momentum": 0.9, "dampening": 0.5})]


def training(lib, kind, settings, count=3):
    ps = [lib.tensor(np.full((2, 2), i + 1.0, np.float32), requires_grad=True)
          for i in range(count)]  # fmt: skip
    return ps, getattr(lib.optim, kind)(ps[:], lr=0.1, **settings)


def shown(opt, ps):
    """All that a user reads of the state; whether it is read is part of the program."""
    state = opt.state
    return [
        isinstance(state, defaultdict), len(state), bool(state),
        [sorted(state.get(p, "-")) if p in state else None for p in ps],
        len([*state.items()]), len(dict(state)), sorted(opt.state_dict()["state"]),
    ]  # fmt: skip


def stepped(opt, ps, which, scale=0.5):
    opt.zero_grad()
    sum((ps[i] * scale).sum() for i in which).backward()
    opt.step()


def lived(lib, kind, settings, wrap, looks):
    """What is seen in the life of an optimizer: one parameter is idle, one has zero gradients."""
    ps, opt = training(lib, kind, settings)
    saved, found = copy.deepcopy(opt.state_dict()), []

    def look():
        found.append(shown(opt, ps) if looks else None)

    look()
    step = wrap(stepped)
    for _ in range(2):
        step(opt, ps, (0,))
        look()
    step(opt, ps, (2,), 0.0)
    opt.zero_grad(set_to_none=True)
    opt.step()
    look()
    for copied in (copy.deepcopy((opt, ps)), pickle.loads(pickle.dumps((opt, ps)))):
        found.append(shown(*copied))
    opt.load_state_dict(copy.deepcopy(opt.state_dict()))
    look()
    held = opt.state
    if kind != "Adagrad":  # which has no state for what is added later, and raises
        ps.append(lib.ones(2, 2, requires_grad=True))
        opt.add_param_group({"params": [ps[-1]]})
        found.append([len(held), len(opt.state_dict()["state"])])
        step(opt, ps, (3,))
        look()
        opt.state.clear()
        opt.state[ps[1]]
        step(opt, ps, (0,))
        found.append([len(held), shown(opt, ps)])
    else:
        opt.load_state_dict(saved)
        found.append([len(held), shown(opt, ps)])
    return found, [p.detach().numpy() for p in ps]


@pytest.mark.parametrize(("kind", "settings"), CASES)
def test_it_shows_what_was_stepped(kind, settings):
    compared(kind, settings, lambda fn: fn, looks=True)
    compared(kind, settings, lambda fn: fn, looks=False)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "Adagrad"])
def test_it_shows_what_was_stepped_by_compiled_code(kind):
    settings = {"momentum": 0.9} if kind == "SGD" else {}
    compared(kind, settings, jitcap.jit(backend="eager"), looks=kind == "SGD")


def compared(kind, settings, wrap, looks):
    ours, values = lived(eager, kind, settings, wrap, looks)
    theirs, expected = lived(torch, kind, settings, lambda fn: fn, looks)
    assert ours == theirs
    for a, b in zip(values, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("kind", "settings"), CASES)
def test_a_step_is_compiled_once(kind, settings):
    ps, opt = training(eager, kind, settings)
    step = jitcap.jit(lambda: stepped(opt, ps, (0, 2)), backend="eager")
    for _ in range(3):
        step()
        opt.state_dict()
    for _ in range(2):
        assert len(opt.state) == (3 if kind == "Adagrad" else 2 if opt.state else 0)
        step()
    first_differs = "dampening" in settings
    assert (step.stats.compiles, step.stats.splits) == (1 + first_differs, 0)


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_inside_a_compiled_function(kind):
    """What was there on entry is guarded, what the program does itself it knows."""
    results = []
    for lib in (eager, torch):
        ps, opt = training(lib, kind, {"momentum": 0.9} if kind == "SGD" else {})

        def asks(rounds, opt=opt, ps=ps):
            for _ in range(rounds):
                stepped(opt, ps, (0,))
            return sorted(opt.state_dict()["state"])

        def reads(opt=opt, ps=ps):
            before = len(opt.state)
            stepped(opt, ps, (1,))
            return before, [p in opt.state for p in ps]

        if lib is eager:
            asks = jitcap.jit(asks, backend="eager", fullgraph=True)
            reads = jitcap.jit(reads, backend="eager", fullgraph=True)
        results.append([[asks(n) for n in (0, 1, 0, 0, 1)], [reads() for _ in range(3)]])
    assert results[0] == results[1]


def test_an_optimizer_in_pytorchs_style_shows_what_it_puts_there():
    class Mine(eager.optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        @eager.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        state = self.state[p]
                        if not state:
                            state["mean"] = eager.zeros_like(p)
                        p.sub_(state["mean"].lerp_(p.grad, 0.5), alpha=group["lr"])

    ps = [eager.ones(2, requires_grad=True) for _ in range(2)]
    opt = Mine(ps, 0.1)
    assert type(opt.state) is defaultdict
    assert not opt.state
    step = jitcap.jit(lambda: stepped(opt, ps, (0,)), backend="eager")
    for _ in range(3):
        step()
    assert shown(opt, ps)[3] == [["mean"], None]
    assert (step.stats.compiles, step.stats.splits) == (2, 0)
    other = Mine(ps, 0.1)
    other.load_state_dict(opt.state_dict())
    assert shown(other, ps) == shown(opt, ps)
    opt.state = defaultdict(dict)
    step()
    assert shown(opt, ps)[3] == [["mean"], None]


def test_a_wrapper_without_an_init_has_the_state_of_what_it_wraps():
    class Wrapper(eager.optim.Optimizer):
        def __init__(self, inner):
            self.inner = inner

        def __getattr__(self, name):
            return getattr(self.inner, name)

    ps, opt = training(eager, "Adam", {})
    wrapper = Wrapper(opt)
    assert not wrapper.state
    assert wrapper.state is opt.state
    stepped(opt, ps, (1,))
    assert [p in wrapper.state for p in ps] == [False, True, False]
    with pytest.raises(AttributeError, match="no attribute 'state'"):
        eager.optim.Optimizer.__new__(eager.optim.Optimizer).state  # noqa: B018


def test_an_optimizer_that_was_written_after_pytorchs_own():
    """It imports what they import, groups its tensors, and wraps another without `__init__`."""
    results = []
    for lib in (torch, eager):
        of_torch = {
            "torch": lib,
            "fu": import_module(f"{lib.__name__}.optim.optimizer"),
            "Optimizer": lib.optim.Optimizer,
        }
        exec(FORK, of_torch)
        results.append(of_torch["facts"]())
    assert results[0] == results[1]


FORK = """
class Fork(Optimizer):
    def __init__(self, params, lr=0.1, differentiable=False):
        super().__init__(params, {"lr": lr, "differentiable": differentiable})

    @fu._use_grad_for_differentiable
    def step(self, closure=None):
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            grads, steps = [p.grad for p in params], []
            for p in params:
                state = self.state[p]
                state.setdefault("step", torch.tensor(0.0, dtype=fu._get_scalar_dtype()))
                steps.append(state["step"])
            grouped = fu._group_tensors_by_device_and_dtype([params, grads, steps, []], True)
            for (ps, gs, ss, none), indices in sorted(grouped.values(), key=lambda g: g[1]):
                torch._foreach_add_(ss, 1)
                rates = [-group["lr"] / fu._get_value(s) for s in ss]
                self.seen = [*getattr(self, "seen", []), (indices, none, rates)]
                fu._view_as_real(ps, gs)
                for p, g, rate in zip(ps, gs, rates):
                    p.add_(g, alpha=rate)


class Wrapper(Optimizer):
    def __init__(self, inner):
        self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks = {}, {}
        self._patch_step_function()
        self.optimizer, self.defaults = inner, inner.defaults

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    @property
    def state(self):
        return self.optimizer.state

    def step(self, closure=None):
        return self.optimizer.step(closure)


def facts():
    kinds = torch.float32, torch.float64, torch.float32, torch.complex64
    params = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(2, dtype=k)) for k in kinds])
    fork = Fork(params)
    opt = Wrapper(fork)
    for n in range(2):
        sum((p * p.conj()).abs().sum().double() for p in params).backward()
        opt.step()
        opt.zero_grad()
    ps = list(params)
    return (
        [p.tolist() for p in ps[:1]], fork.seen, [s["step"].item() for s in opt.state.values()],
        fu._default_to_fused_or_foreach(ps[:3], False, use_fused=True),
        fu._default_to_fused_or_foreach(ps, False), fu._default_to_fused_or_foreach(ps, True),
        fu._stack_if_compiling([1]), fu._to_scalar(torch.ones(1)).shape == (),
        "xla" in fu._get_capturable_supported_devices(), isinstance(fu._foreach_doc, str),
    )
"""


def test_a_subclass_of_what_looks_at_whole_parameters_does_so():
    def with_step(base):
        return type("Own", (base,), {"step": lambda self, closure=None: None}).by_element

    assert [with_step(c) for c in (eager.optim.Muon, eager.optim.LBFGS)] == [False, False]
    assert with_step(eager.optim.AdamW) is None


@pytest.mark.parametrize("kind", ["NAdam", "ASGD"])
def test_numbers_of_a_state_keep_their_type(kind):
    """Training goes on bit by bit where parameters have 16 bits."""
    p = eager.ones(2, requires_grad=True, dtype=eager.bfloat16)
    opt = getattr(eager.optim, kind)([p], lr=0.3)
    p.grad = eager.ones_like(p)
    for _ in range(3):
        opt.step()
    other = getattr(eager.optim, kind)([p], lr=0.3)
    other.load_state_dict(opt.state_dict())
    for name, value in opt.state[p].items():
        assert other.state[p][name].dtype is value.dtype, name
        assert other.state[p][name].tolist() == value.tolist(), name
