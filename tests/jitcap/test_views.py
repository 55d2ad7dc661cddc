"""Views that leave a compiled function: memory, strides, history, with and without gradients."""

import pytest
from against_eager import check, floats

import eager
from jitcap import jit

pytestmark = pytest.mark.once


def no_grad(fn):
    with eager.no_grad():
        return fn()


VIEWS = {
    "t": lambda x: x.t(),
    "view": lambda x: x.view(-1),
    "reshape": lambda x: x.reshape(2, -1),
    "expand": lambda x: x[:1].expand(5, 4),
    "broadcast": lambda x: x[0].broadcast_to((2, 3, 4)),
    "slice": lambda x: x[1:, ::2],
    "select": lambda x: x[1],
    "ellipsis": lambda x: x[..., 0],
    "whole": lambda x: x[:],
    "unsqueeze": lambda x: x.unsqueeze(0),
    "squeeze": lambda x: x[None].squeeze(0),
    "chunk": lambda x: x.chunk(2, 1),
    "split": lambda x: list(x.split(1)),
    "unbind": lambda x: x.unbind(0),
    "diagonal": lambda x: x.diagonal(),
    "movedim": lambda x: x.movedim(0, 1),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "permute": lambda x: x.view(3, 2, 2).permute(2, 0, 1),
    "transposed_twice": lambda x: x.t().t(),
    "reshape_that_copies": lambda x: x.t().reshape(-1),
    "contiguous": lambda x: x.t().contiguous(),
    "contiguous_already": lambda x: x.contiguous(),
    "itself": lambda x: x,
    "clone": lambda x: x.clone(),
    "to": lambda x: x.to(eager.float32),
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "detached_view": lambda x: x.t().detach(),
    "view_of_detached": lambda x: x.detach().t(),
    "without_grad": lambda x: no_grad(lambda: x.t()),
    "of_one_without_grad": lambda x: no_grad(lambda: x.t())[0],
    "leaf": lambda x: x.detach()[0].requires_grad_(),
    "several": lambda x: (x[0], x[1], x),
    "one_twice": lambda x: [x.t()] * 2,
}


def written(y):
    y.mul_(2)
    return y


def written_in_part(y):
    y[0].add_(1)
    return y


BASES = {
    "an_argument": lambda x: x,
    "a_result": lambda x: x * 2 + 1,
    "a_product": lambda x: x @ eager.ones(4, 4),
    "a_transposed_result": lambda x: (x.t() * 3).t(),
    "a_reduction": lambda x: x.view(3, 4, 1).sum(2),
    "without_a_history": lambda x: eager.zeros(3, 4) + x.detach(),
    "a_constant": lambda x: eager.arange(12.0).view(3, 4),
    "written": lambda x: written(x * 1),
    "written_in_part": lambda x: written_in_part(x * 1),
}
NOT_ALLOWED = {("view", "a_transposed_result"), ("permute", "a_transposed_result")}
CASES = [(v, b) for v in VIEWS for b in BASES if (v, b) not in NOT_ALLOWED]


def program(view, base, grad, both):
    def run(jit, note, attempt):
        @jit
        def fn(x):
            y = base(x)
            return (y, view(y)) if both else view(y)

        for seed in range(2):
            x = floats(3, 4, g=grad, seed=seed)
            result = fn(x)
            note(x, result)
            parts = flat(result)
            live = [t for t in parts if t.requires_grad]
            if live:
                sum((t * t * (i + 1)).sum() for i, t in enumerate(live)).backward()
                note(x, result)
            with eager.no_grad():
                attempt(parts[-1].mul_, 3)
            note(x, result)

    return run


def flat(value):
    return [t for v in value for t in flat(v)] if isinstance(value, list | tuple) else [value]


@pytest.mark.parametrize(("view", "base"), CASES)
def test_like_eager(view, base):
    for grad in (True, False):
        for both in (True, False):
            check(program(VIEWS[view], BASES[base], grad, both))


@pytest.mark.parametrize(("view", "base"), [("t", "a_result"), ("slice", "an_argument")])
def test_compiled(view, base):
    check(program(VIEWS[view], BASES[base], True, True), "cpp")


@pytest.mark.filterwarnings("ignore:@jit")
def test_detaching_an_input_in_place():
    """A view is refused, and a result of others leaves the tape, whichever call came first."""
    leaf = eager.ones(4, requires_grad=True)
    makers = (
        lambda: eager.ones(4),
        lambda: eager.ones(4, requires_grad=True),
        lambda: leaf * 2,
        lambda: eager.ones(5)[1:],
        lambda: eager.cat([leaf, leaf])[4:],
    )
    for order in (makers, makers[::-1]):
        step = jit(lambda x: x.detach_() * 2, backend="eager")
        for make in order:
            x = make()
            if x._base is not None:
                with pytest.raises(RuntimeError, match="can't detach views"):
                    step(x)
            else:
                doubled = (x.detach() * 2).tolist()
                assert step(x).tolist() == doubled
                assert x.grad_fn is None
                assert not x.requires_grad


def test_writing_a_tensor_without_elements():
    """No two of its elements lie at one address, whatever its strides are."""
    for shape in ((0,), (0, 3)):
        p = eager.ones(8, *shape[1:])[8:].clone()

        def step(x):
            p.add_(1).mul_(p)
            return x.sum() + p.sum()

        run = jit(step, backend="eager")
        assert [run(eager.ones(n)).item() for n in (3, 2, 4)] == [3, 2, 4]
        assert (run.stats.compiles, run.stats.splits) == (2, 0), run.stats.refusals
