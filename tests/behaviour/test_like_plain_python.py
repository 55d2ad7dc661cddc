"""@jit changes nothing but the speed: mutation, nesting, threads, and the decorated object."""

import copy
import pickle
import sys
import threading
import types

import numpy as np
import pytest

import eager
from eager import nn
from jitcap import jit

FACTOR = 2.0


def both(function, *args):
    """Result under @jit, checked against the plain call."""
    plain, compiled = function(*args), jit(function)(*args)
    np.testing.assert_allclose(compiled.numpy(), plain.numpy(), rtol=1e-6)
    return compiled


@pytest.mark.smoke
def test_smallest():
    both(lambda x, y: x * y + 1, eager.arange(4).float(), eager.ones(4))


def test_a_changed_global_is_seen():
    global FACTOR

    def scale(x):
        return x * FACTOR

    compiled, x = jit(scale), eager.ones(3)
    for value in (2.0, 3.0, 2.0, -1):
        FACTOR = value
        assert compiled(x).tolist() == [value] * 3


def test_a_changed_closure_cell_is_seen():
    power = 1

    def raised(x):
        return x**power

    compiled, x = jit(raised), eager.full((2,), 3.0)
    results = []
    for power in (1, 2, 3):
        results.append(compiled(x).tolist())
    assert results == [[3.0, 3.0], [9.0, 9.0], [27.0, 27.0]]


class Counter:
    def __init__(self):
        self.count = 0
        self.seen = []

    def step(self, x):
        self.count += 1
        self.seen.append(self.count)
        return x + self.count


def test_attributes_and_lists_are_written():
    counter = Counter()
    step = jit(counter.step)
    results = [step(eager.zeros(1)).item() for _ in range(4)]
    assert results == [1, 2, 3, 4]
    assert counter.count == 4
    assert counter.seen == [1, 2, 3, 4]


def test_training_flag_is_guarded():
    model = nn.Dropout(0.5)
    step = jit(lambda x: model(x))
    x = eager.ones(1000)
    assert (step(x) == 0).any()
    model.eval()
    assert step(x).tolist() == [1.0] * 1000
    model.train()
    assert (step(x) == 0).any()


def test_dropout_draws_the_same_numbers_as_eager():
    def draw(x):
        return nn.functional.dropout(x, 0.3) + eager.rand(5)

    eager.manual_seed(3)
    plain = [draw(eager.ones(5)).tolist() for _ in range(3)]
    eager.manual_seed(3)
    compiled = jit(draw)
    assert [compiled(eager.ones(5)).tolist() for _ in range(3)] == plain


def test_in_place_write_to_an_argument_and_its_view():
    def write(x):
        x[1:].mul_(3)
        x += 1
        return x.sum()

    a, b = eager.ones(4), eager.ones(4)
    view = a[2:]
    assert jit(write)(a).item() == write(b).item()
    assert a.tolist() == b.tolist()
    assert view.tolist() == b[2:].tolist()


def test_aliased_arguments():
    def write(x, y):
        x.add_(1)
        return y * 2

    compiled = jit(write)
    a, b = eager.zeros(3), eager.zeros(3)
    assert compiled(a, b).tolist() == [0.0] * 3
    assert compiled(a, a).tolist() == [4.0] * 3
    assert compiled(a[:2], a[1:]).tolist() == [6.0, 4.0]


def test_nested_jit():
    inner = jit(lambda x: x * 2)
    outer = jit(lambda x: inner(x) + 1)
    assert outer(eager.ones(2)).tolist() == [3.0, 3.0]
    assert (outer.stats.graphs, outer.stats.splits) == (1, 0)


def test_threads():
    step = jit(lambda x, n: (x * n).sum())
    wrong = []

    def work(seed):
        for i in range(20):
            x = eager.full((seed + 1,), float(i))
            if step(x, 2).item() != 2.0 * i * (seed + 1):
                wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_prints_come_in_order(capsys):
    @jit
    def step(x):
        print("before", 1)
        y = x + 1
        print(f"shape {tuple(y.shape)}")
        return y

    for _ in range(2):
        step(eager.ones(2))
    assert capsys.readouterr().out == "before 1\nshape (2,)\n" * 2


def test_the_decorated_object_is_not_changed():
    @jit
    def step(x):
        """Documentation."""
        return x + 1

    assert step.__name__ == "step"
    assert step.__doc__ == "Documentation."
    assert step.original(eager.ones(1)).item() == 2.0


def test_a_model_stepped_under_jit_can_be_copied_and_pickled():
    model = nn.Linear(2, 2)
    optimizer = eager.optim.SGD(model.parameters(), lr=0.1)

    @jit
    def step(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    names = list(model.state_dict())
    step(eager.ones(1, 2))
    assert list(model.state_dict()) == names
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert type(other) is nn.Linear
        assert other.weight.tolist() == model.weight.tolist()


def test_a_new_shape_and_dtype_recompile():
    step = jit(lambda x: x.sum() * 2)
    assert step(eager.ones(3)).item() == 6.0
    assert step(eager.ones(5)).item() == 10.0
    assert step(eager.ones(5, dtype=eager.float64)).dtype == eager.float64
    assert step(eager.arange(4)).item() == 12
    assert step.stats.compiles >= 3
    assert step.stats.recompiles


def test_nan_and_infinity_pass_through():
    def f(x):
        return eager.softmax(x, dim=-1), x.max(), eager.relu(x), x.exp().log()

    x = eager.tensor(
        [[1.0, float("nan"), 2.0], [float("inf"), 1.0, 0.0], [-float("inf"), 0.0, 1.0]]
    )
    for plain, compiled in zip(f(x), jit(f)(x), strict=True):
        np.testing.assert_allclose(compiled.numpy(), plain.numpy(), rtol=1e-6, equal_nan=True)


def test_an_object_that_equals_everything_is_called():
    class Same:
        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

        def __call__(self, x):
            return x - 1

    same = Same()
    step = jit(lambda x: same(x), fullgraph=True)
    assert step(eager.ones(2)).tolist() == [0, 0]


def test_attributes_that_a_metaclass_makes():
    class Meta(type):
        def __getattr__(cls, name):
            return len(name)

    class Sized(metaclass=Meta):
        pass

    step, x = jit(lambda x: x * Sized.four), eager.ones(1)
    assert step(x).item() == 4
    Meta.__getattr__ = lambda cls, name: 7
    assert step(x).item() == 7
    Sized.four = 2
    assert step(x).item() == 2


def test_a_module_that_is_replaced(monkeypatch):
    def step(x):
        import shared_settings

        return x * shared_settings.factor

    compiled = jit(step)
    for factor in (2, 5):
        module = types.ModuleType("shared_settings")
        module.factor = factor
        monkeypatch.setitem(sys.modules, "shared_settings", module)
        assert compiled(eager.ones(1)).item() == factor
