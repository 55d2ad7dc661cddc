"""What PyTorch warns of: the same categories, once, at the user's line, also under @jit, which is not split."""

import linecache
import warnings

import numpy as np
import pytest

import eager
from eager.base import compat_warnings
from eager.base.compat_warnings import IgnoredOptionWarning
from jitcap import jit

SGD = "o = optim.SGD([T.ones(1, requires_grad=True)], lr=0.1); "
PLATEAU = "s = optim.lr_scheduler.ReduceLROnPlateau(o); "
STEP = "s = optim.lr_scheduler.StepLR(o, 1); "
ATTEND = "a = T.ones(1, 3, 4); nn.MultiheadAttention(4, 2, batch_first=True)(a, a, a, T.zeros(1, 3).bool(), attn_mask={})"
READ_ONLY = "a = np.ones(3); a.setflags(write=False); "

WARNED = """
F.mse_loss(T.ones(8, 1), T.ones(8))
nn.MSELoss()(T.ones(8, 1), T.ones(8))
F.l1_loss(T.ones(8, 1), T.ones(8))
F.smooth_l1_loss(T.ones(8, 1), T.ones(8))
nn.HuberLoss()(T.ones(8, 1), T.ones(8))
nn.KLDivLoss()(T.zeros(2, 3), T.ones(2, 3))
F.mse_loss(T.ones(8), T.ones(8), size_average=False)
F.mse_loss(T.ones(8), T.ones(8), reduction="elementwise_mean")
nn.L1Loss(reduce=False)
nn.Softmax()(T.ones(2, 3))
F.log_softmax(T.ones(2, 3))
F.dropout2d(T.ones(2, 3))
nn.Dropout2d()(T.ones(2, 3, 4))
F.upsample(T.ones(1, 1, 2, 2), scale_factor=2)
F.affine_grid(T.ones(1, 2, 3), (1, 1, 2, 2))
F.grid_sample(T.ones(1, 1, 2, 2), T.zeros(1, 2, 2, 2))
nn.InstanceNorm1d(5)(T.ones(2, 3, 4))
nn.LSTM(2, 3, dropout=0.5)
nn.GRU(2, 3, 1, dropout=0.5)
nn.init.kaiming_uniform_(T.empty(0, 3))
nn.init.trunc_normal_(T.empty(3, 3), mean=5.0, std=1.0, a=-2, b=2)
T.tensor(T.ones(2))
T.ones(2).new_tensor(T.ones(2))
T.meshgrid(T.ones(2), T.ones(3))
T.frombuffer(b"12345678", dtype=T.float32)
T.range(1, 4)
T.ones(2, 3, 4).T
T.ones(1, 3).std(0)
T.ones(3)[T.ones(3, dtype=T.uint8)]
T.where(T.ones(3, dtype=T.uint8), 1.0, 2.0)
T.ones(2, dtype=T.complex64).float()
T.cross(T.ones(2, 3), T.ones(2, 3))
T.qr(T.eye(2))
T.stft(T.ones(400), 100, return_complex=True)
T.autocast("cuda")
x = T.ones(2, requires_grad=True); y = x * 2; y.grad
""".strip().splitlines()  # fmt: skip
WARNED += [
    ATTEND.format("T.zeros(3, 3)"),
    READ_ONLY + "T.from_numpy(a)",
    SGD + STEP + "s.step()",
    SGD + STEP + "o.step(); s.step(3)",
    SGD + STEP + "o.step(); s.get_lr()",
    SGD + PLATEAU + "s.step(1.0, 2)",
]
FUTURE = [
    "nn.utils.clip_grad_norm(nn.Linear(2, 2).parameters(), 1.0)",
    "nn.utils.weight_norm(nn.Linear(2, 2))",
    "nn.init.xavier_uniform(T.empty(3, 3))",
    "T.cuda.amp.autocast(enabled=False)",
    "x = T.ones(2, requires_grad=True); T.autograd.backward(x * 2, grad_variables=T.ones(2))",
    "x = T.ones(2, requires_grad=True); T.autograd.grad((x * 2).sum(), x, only_inputs=False)",
]
SILENT = [
    "F.mse_loss(T.ones(8, 1), T.ones(8, 1))",
    "nn.KLDivLoss(reduction='batchmean')(T.zeros(2, 3), T.ones(2, 3))",
    "nn.LSTM(2, 3, 2, dropout=0.5)(T.ones(1, 1, 2))",
    "T.meshgrid(T.ones(2), T.ones(3), indexing='ij')",
    "T.tensor(np.ones(2)); T.as_tensor(T.ones(2)); T.tensor([T.ones(()), 1.0])",
    READ_ONLY + "T.tensor(a)",
    "T.ones(3)[T.ones(3).bool()]; T.ones(2, 3).T; T.ones(2).std(); T.eye(2).mT",
    "x = T.ones(2, requires_grad=True); (x * 2).sum().backward(); x.grad",
    "x = T.ones(2, requires_grad=True); y = x * 2; y.retain_grad(); y.grad; y.sum().backward(); y.grad",
    "x = T.ones(2, requires_grad=True); y = (x * 2).detach(); y.grad",
    "x = T.ones(2, requires_grad=True); y = x * 2; y.sum().backward(inputs=[y])",
    SGD + STEP + "o.step(); s.step(); s.get_last_lr(); s.step()",
    SGD + "s = optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 2); o.step(); s.step(); s.step(1.5)",
    SGD + PLATEAU + "s.step(1.0)",
    SGD + "L = optim.lr_scheduler; "
    "s = L.SequentialLR(o, [L.ConstantLR(o), L.ExponentialLR(o, 0.9)], [1]); o.step(); s.step(); s.step()",
]  # fmt: skip
CASES = [
    *((p, UserWarning) for p in WARNED),
    *((p, FutureWarning) for p in FUTURE),
    *((p, None) for p in SILENT),
]


def defined(program, compiled):
    """The program as a function of a file of its own, and its last line but one: (file, number)."""
    file, lines = f"<{program}>", ["def f():", *program.split("; "), "return T.ones(1)"]
    text = "\n    ".join(lines)
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    scope = {"T": eager, "nn": eager.nn, "F": eager.nn.functional, "optim": eager.optim, "np": np}
    exec(compile(text, file, "exec"), scope)
    return jit(scope["f"], backend="eager") if compiled else scope["f"], (file, len(lines) - 1)


@pytest.mark.parametrize(("program", "category"), CASES)
@pytest.mark.parametrize("compiled", [False, True])
def test_what_is_warned_of(program, category, compiled):
    f, line = defined(program, compiled)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            f()
        assert [w.category for w in said] == [category] * (category is not None)
        assert all((w.filename, w.lineno) == line for w in said)
    assert not compiled or (f.stats.splits, f.stats.fallbacks) == (0, 0)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    "program",
    [
        "F.gumbel_softmax(T.zeros(3), eps=1e-3)",
        "T.autograd.Variable(T.ones(2), volatile=True)",
        "T.gather(T.ones(2), 0, T.tensor([0]), sparse_grad=True)",
        "T.ones(2, pin_memory=True)",
    ],
)
def test_ignored_options_are_told_of_once(program, compiled, monkeypatch):
    monkeypatch.setattr(compat_warnings, "_said", set())
    f, line = defined(program, compiled)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        f(), f()
    assert [w.category for w in said] == [IgnoredOptionWarning]
    assert compiled or (said[0].filename, said[0].lineno) == line  # else the line of the call


def test_a_warning_may_be_an_error():
    step = jit(lambda: eager.nn.functional.mse_loss(eager.ones(8, 1), eager.ones(8)))
    with pytest.raises(UserWarning, match="broadcast"):  # noqa: SIM117 - in this order
        with pytest.warns(match="is an error"):
            step()


def test_schedulers_of_compiled_steps_do_not_compile_twice():
    """The order is looked at without a look at the count of steps, which another is at each call."""
    layer = eager.nn.Linear(2, 2)
    optimizer = eager.optim.SGD(layer.parameters(), lr=0.1)
    scheduler = eager.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    @jit(backend="eager")
    def step(x):
        layer(x).sum().backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()

    for _ in range(3):
        step(eager.ones(1, 2))
    assert step.stats.compiles == 1
    assert scheduler.get_last_lr() == pytest.approx([0.1 * 0.9**3])


def test_own_steps_of_optimizers_do_not_say_that_they_were_called():
    class Own(eager.optim.Optimizer):
        def step(self, closure=None):
            pass

    own = Own([eager.ones(1, requires_grad=True)], {"lr": 0.1})
    eager.optim.lr_scheduler.StepLR(own, 1).step()


def test_a_function_of_the_library_that_is_compiled_itself_warns_where_it_is_called():
    step = jit(eager.nn.functional.mse_loss, backend="eager")
    for _ in range(2):
        with pytest.warns(UserWarning, match="broadcast") as found:
            step(eager.ones(8, 1), eager.ones(8))
        assert [w.filename for w in found] == [__file__]
