"""`_assert_async`, `_check` and their like, beside PyTorch's, plainly and under @jit."""

import pytest

import eager
from jitcap import jit

torch = pytest.importorskip("torch")
CHECKS = (
    "_check", "_check_index", "_check_not_implemented", "_check_type", "_check_value",
)  # fmt: skip


def outcome(fn, *args):
    try:
        return fn(*args)
    except Exception as error:  # noqa: BLE001 - which one is what is compared
        return type(error).__mro__[-3:], str(error).partition(": ")[0].replace(
            "torch.bool", "bool"
        ).replace("torch.int64", "eager.int64").partition(" (")[0]


@pytest.mark.parametrize("name", [*CHECKS, "_check_tensor_all", "_assert", "_assert_async"])
def test_checks_raise_what_pytorchs_do(name):
    for message in ((), (lambda: "why",), ("why",)):
        for made in (True, False, 1, [True], [False], [True, False]):
            of_tensors = name in ("_check_tensor_all", "_assert_async")
            if (name.startswith("_assert")) and (not message or callable(message[0])):
                continue
            if isinstance(made, list) and name != "_check_tensor_all":
                made = made[0]
            values = [lib.tensor(made) if of_tensors else made for lib in (torch, eager)]
            of_torch, ours = (
                outcome(getattr(lib, name), value, *message)
                for lib, value in zip((torch, eager), values, strict=True)
            )
            assert ours == of_torch, (made, message)


def test_checks_of_data_are_in_the_graph():
    layer = eager.nn.Linear(2, 1)

    @jit
    def step(x):
        eager._assert_async(x.isfinite().all(), "not finite")
        eager._assert(x.sum() > 0, "not positive")
        eager._check(x.shape[0] > 1, lambda: f"of {x.shape[0]} rows")
        layer.zero_grad()
        loss = layer(x).sum()
        loss.backward()
        return loss

    for rows in (2, 3, 4):
        step(eager.ones(rows, 2))
        assert layer.weight.grad.tolist() == [[rows, rows]]
    assert step.stats.splits == step.stats.fallbacks == 0 and step.stats.compiles <= 3
    step.reset()
    for x, kind, text in (
        (eager.full((2, 2), eager.nan), RuntimeError, "not finite"),
        (-eager.ones(2, 2), AssertionError, "not positive"),
        (eager.ones(1, 2), RuntimeError, "of 1 rows"),
    ):
        with pytest.raises(kind, match=text):
            step(x)
        step.reset()
