"""A check that fails while compiled code runs leaves no half step: the run is given up before it
has written anything, and the function runs plainly."""

import numpy as np
import pytest

import eager
from jitcap import explain, graph_break, jit

BACKENDS = ("eager", "python", "cpp")
EACH = ("eager", "python", pytest.param("cpp", marks=pytest.mark.once))


def outcome(fn, *args):
    """The value, or the exception with its text."""
    try:
        value = fn(*args)
    except Exception as error:
        return type(error).__name__, str(error)
    return value.numpy().tolist() if isinstance(value, eager.Tensor) else value


def alike(make, calls, *, backend="eager"):
    """`make()` gives a step and what it changes; plainly and compiled, call by call. The Jitted."""
    plain, plain_state = make()
    fn, state = make()
    compiled = jit(fn, backend=backend)
    for args in calls:
        expected = outcome(plain, *args)
        assert outcome(compiled, *args) == expected, args
        assert repr(state) == repr(plain_state), args
    return compiled


def positions(kind):
    """A step with an index that fails at one of four places among its effects."""

    def make():
        p, q, log = eager.ones(4), eager.arange(4).float(), []

        def step(i):
            def at(place):
                if place == kind:
                    log.append(p[i].sum())

            at(0)
            p.add_(1)
            at(1)
            log.append(1)
            q.mul_(2)
            at(2)
            p.add_(q)
            at(3)
            q.add_(1)
            return p.sum()

        return step, (p, q, log)

    return make


GOOD, BAD = eager.tensor([0, 3]), eager.tensor([0, 4])


ANYWHERE = [(place, backend) for place in range(4) for backend in ("eager", "python")]
ANYWHERE += [
    pytest.param(place, "cpp", marks=[pytest.mark.once, *[pytest.mark.nightly] * (place in (1, 2))])
    for place in range(4)
]


@pytest.mark.parametrize(("place", "backend"), ANYWHERE)
def test_an_index_out_of_range_anywhere(place, backend):
    compiled = alike(positions(place), [(GOOD,), (BAD,), (GOOD,), (BAD,)], backend=backend)
    assert compiled.stats.discards == 2


@pytest.mark.parametrize("backend", EACH)
def test_what_was_read_is_not_used(backend):
    def make():
        p, log = eager.ones(3), []

        def step(i):
            p.add_(1)
            log.append(1)
            p[i]
            p.add_(1)

        return step, (p, log)

    alike(make, [(eager.tensor([2, 0]),), (eager.tensor([1, 3]),)], backend=backend)


def test_a_part_of_what_was_read_is_used():
    def make():
        p = eager.ones(3)

        def step(i):
            p.add_(1)
            return p[i][:1]

        return step, p

    alike(make, [(GOOD[:1].clone(),), (BAD,), (eager.tensor([0, 1]),), (eager.tensor([0, 9]),)])


@pytest.mark.parametrize("backend", EACH)
def test_the_index_depends_on_what_is_written(backend):
    """The write must come first: it goes through a temporary."""

    def make():
        count, p = eager.tensor(0), eager.ones(3)

        def step():
            p.mul_(2)
            count.add_(1)
            return p[count.reshape(1)]

        return step, (count, p)

    alike(make, [()] * 4, backend=backend)


@pytest.mark.parametrize("backend", EACH)
def test_written_through_the_index(backend):
    def make():
        p, log = eager.zeros(3), []

        def step(i):
            log.append(len(log))
            p.index_add_(0, i, eager.ones(2))
            p.add_(1)

        return step, (p, log)

    alike(make, [(eager.tensor([0, 0]),), (eager.tensor([0, 3]),)], backend=backend)


@pytest.mark.filterwarnings("ignore:@jit")
def test_in_a_segment():
    def make():
        p, log = eager.ones(4), []

        def step(i):
            p.add_(1)
            graph_break()
            p.mul_(2)
            log.append("before")
            y = p[i]
            log.append("after")
            p.add_(y.sum())
            return y

        return step, (p, log)

    compiled = alike(make, [(GOOD,), (BAD,), (GOOD,), (BAD,), (BAD,), (BAD,), (GOOD,)])
    assert 0 < compiled.stats.discards < 4


@pytest.mark.filterwarnings("ignore:@jit")
def test_a_line_that_fails_again_and_again_is_split():
    calls = [(GOOD,), *[(BAD,)] * 6, (GOOD,)]
    compiled = alike(positions(2), calls)
    assert compiled.stats.discards == 3
    assert compiled.stats.splits


def test_draws_of_random_ops_are_not_counted():
    def make():
        eager.manual_seed(3)
        p = eager.ones(4)

        def step(i):
            noise = eager.rand(4)
            p.add_(noise)
            return p[i]

        return step, p

    results = []
    for wrap in (lambda f: f, lambda f: jit(f, backend="eager")):
        step, p = make()
        fn = wrap(step)
        for i in (GOOD, BAD, GOOD, BAD, GOOD):
            outcome(fn, i)
        results.append(p.numpy().tobytes())
    assert results[0] == results[1]


def test_an_operation_that_raises():
    def make():
        log, total = [], eager.zeros(2, 2)

        def step(x):
            total.add_(1)
            log.append("inverse")
            y = eager.linalg.inv(x)
            total.add_(y)
            return y.sum()

        return step, (log, total)

    for backend in BACKENDS:
        alike(make, [(eager.eye(2),), (eager.zeros(2, 2),), (eager.eye(2) * 2,)], backend=backend)


@pytest.mark.filterwarnings("ignore:@jit")
def test_the_exception_is_met_inside():
    def make():
        p, log = eager.ones(3), []

        def step(i):
            p.add_(1)
            try:
                p[i] = 0.0
            except IndexError as error:
                log.append(str(error))
            p.add_(1)
            return p.sum()

        return step, (p, log)

    alike(make, [(eager.tensor([0]),), (eager.tensor([5]),), (eager.tensor([1]),)])


def test_the_traceback_shows_plain_python_only():
    def step(p, i):
        p.add_(1)
        return p[i]

    compiled = jit(step, backend="eager")
    compiled(eager.ones(3), GOOD[:1].clone())
    with pytest.raises(IndexError) as caught:
        compiled(eager.ones(3), eager.tensor([4]))
    assert caught.value.__context__ is None


def test_a_training_step_keeps_its_updates_in_place():
    """An embedding's indices are checked before anything is written, so nothing is copied."""
    eager.manual_seed(0)
    table = eager.nn.Embedding(10, 4)
    head = eager.nn.Linear(4, 3)
    parameters = [*table.parameters(), *head.parameters()]
    optimizer = eager.optim.SGD(parameters, lr=0.1)

    def step(ids, labels):
        optimizer.zero_grad()
        loss = eager.nn.functional.cross_entropy(head(table(ids)), labels)
        loss.backward()
        optimizer.step()
        return loss

    ids, labels = eager.tensor([1, 2, 3]), eager.tensor([0, 1, 2])
    text = explain(step)(ids, labels).stages["tiled"]
    assert "write v" not in text
    compiled = jit(step)
    before = [p.detach().numpy().copy() for p in parameters]
    for bad in ((eager.tensor([1, 2, 10]), labels), (ids, eager.tensor([0, 1, 3]))):
        with pytest.raises(IndexError):
            compiled(*bad)
    for p, old in zip(parameters, before, strict=True):
        assert np.array_equal(p.detach().numpy(), old)


@pytest.mark.parametrize("backend", EACH)
def test_gradients_whose_norm_must_be_finite(backend):
    """`error_if_nonfinite` is a check of the one graph: the step before the error is not made."""

    def make():
        p = eager.nn.Parameter(eager.ones(3))
        optimizer = eager.optim.SGD([p], lr=0.1, momentum=0.9)

        def step(x):
            optimizer.zero_grad()
            (p * x).sum().backward()
            norm = eager.nn.utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)
            optimizer.step()
            return norm

        return step, [p]

    x = eager.tensor([1.0, 2.0, 2.0])
    compiled = alike(make, [(x,), (x * 2,), (x / 0,), (x,)], backend=backend)
    assert compiled.stats.splits == 0
