"""What is fused: kernel counts of the telling cases, one pass over memory, in-place updates, recorded refusals, a linear cost."""

import numpy as np
import pytest

import codegen
import eager
import eager.nn.functional as F
from codegen.ir.schema import Kernel, Library
from codegen.targets.cpp import program
from eager.base.config import config
from tests.codegen.checking import check, check_each, compiled, floats, ints, same
from tests.codegen.tracing import trace
from tests.helpers.work import calls_made


def fused(fn, *args):
    program, _ = trace(fn, *args)
    return codegen.run_stages(program)[0]["tiled"].fused


def kernels(fn, *args):
    return [i for i in fused(fn, *args).items if isinstance(i, Kernel)]


def gradient(fn):
    """A function that returns fn's value and the gradient of its sum for every float argument."""

    def run(*args):
        wanted = [a.requires_grad_(True) for a in args if a.dtype.is_floating_point]
        out = fn(*args)
        grads = eager.autograd.grad(out.sum(), wanted)
        return [out, *grads]

    return run


ONE_KERNEL = {
    "softmax": (lambda x: F.softmax(x * 0.5 + 1, -1), (floats(64, 100),)),
    "log_softmax": (lambda x: F.log_softmax(x, -1), (floats(64, 100),)),
    "layer_norm": (
        lambda x, w, b: F.layer_norm(x + 1, (64,), w, b),
        (floats(8, 9, 64), floats(64), floats(64)),
    ),
    "gelu": (
        lambda x, y: F.gelu(x * y + x, approximate="tanh") * y,
        (floats(50, 40), floats(50, 40)),
    ),
    "masked softmax": (
        lambda x: F.softmax(
            eager.where(eager.arange(16).unsqueeze(1) >= eager.arange(16), x, -np.inf), -1
        ),
        (floats(3, 16, 16),),
    ),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), (floats(8, 16, 6, 6),)),
    "rms_norm": (lambda x: x * (x * x).mean(-1, keepdim=True).add(1e-6).rsqrt(), (floats(50, 64),)),
    "softmax backward": (gradient(lambda x: F.softmax(x, -1) * x), (floats(64, 100),)),
}


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_one_kernel(name):
    fn, args = ONE_KERNEL[name]
    found = kernels(fn, *args)
    assert len(found) == 1, codegen.show.show(found)


def test_cross_entropy_reads_the_logits_once_per_direction():
    fn = gradient(lambda x, y: F.cross_entropy(x, y))
    found = kernels(fn, floats(256, 65), ints(0, 65, 256))
    rows = [k for k in found if any(a.size == 65 for s in k.stages for a in s.loops)]
    assert len(rows) <= 2
    assert len(found) <= 3


def test_rows_stay_in_local_memory():
    (kernel,) = kernels(*_flat(ONE_KERNEL["softmax"]))
    assert [b.kind for b in kernel.locals] == ["row"]


def _flat(case):
    fn, args = case
    return (fn, *args)


def test_views_of_products_are_not_copied():
    x, w = floats(4, 6, 32), floats(32, 32)

    def attention(x, w):
        h = x.reshape(24, 32) @ w.t()
        h = h.reshape(4, 6, 2, 16).transpose(1, 2)
        return h @ h.transpose(-1, -2)

    f = fused(attention, x, w)
    assert all(isinstance(i, Library) for i in f.items)


def test_the_gradient_of_a_weight_is_computed_in_its_own_layout():
    f = fused(gradient(lambda x, w: F.linear(x, w)), floats(40, 30), floats(50, 30))
    assert all(isinstance(i, Library) or not _strided(i) for i in f.items)


def _strided(kernel):
    return any("//" in repr(s.offset) for stage in kernel.stages for s in stage.stores)


def test_what_a_derivative_wants_again_is_recomputed():
    """The exponentials of a softmax are not kept for the derivative: scores and row maxima are."""

    def attention(x, y):
        p = F.softmax(x @ y, -1)
        return p @ y.transpose(1, 2)

    f = fused(gradient(attention), floats(4, 64, 32), floats(4, 32, 64))
    large = [b for b in f.buffers.values() if b.kind == "temp" and b.size == 4 * 64 * 64]
    assert len(large) <= 4


def test_refusals_are_recorded():
    def two_directions(x):
        y = x.exp() + x.sin()
        return y / y.sum(1, keepdim=True), y / y.sum(0, keepdim=True)

    f = fused(two_directions, floats(300, 400))
    assert any("outer dimension" in r.why for r in f.refusals)


def test_equal_kernels_are_emitted_once():
    def layers(x):
        outs = []
        for i in range(6):
            x = F.layer_norm(x @ x, (64,))
            outs.append(x)
        return outs

    artifact, _ = compiled(layers, (floats(64, 64),))
    assert len(artifact.kernels) <= 2


def rows_in_turn(x, y):
    for i in range(1, 12):
        y = (y[:, None] + x).amax(0) + x[i]
    return y


def test_steps_that_look_at_other_rows_are_one_text():
    x, y = floats(12, 12), floats(12)
    artifact, _ = compiled(rows_in_turn, (x, y))
    assert len(artifact.kernels) <= 3  # the first and the last step do something else
    check(rows_in_turn, x, y, backends=("cpp",))


def shortest_paths(d):
    for k in range(24):
        d = eager.minimum(d, d[:, k : k + 1] + d[k : k + 1])
    return d


def test_what_is_read_at_several_places_is_not_computed_for_each():
    d = np.abs(floats(24, 24))
    artifact, _ = compiled(shortest_paths, (d,))
    assert len(artifact.kernels) <= 4
    check(shortest_paths, d, backends=("cpp",))


def followed_back(n):
    def path(places, i):
        found = [i]
        for k in range(n):
            found.append(eager.take(places[k], found[-1]))
        return eager.stack(found)

    return path


@pytest.fixture
def unfolded(monkeypatch):
    """C++ to read without loops for what repeats in a function, which is counted."""
    monkeypatch.setattr(program, "_to_read", lambda function: function)


def test_a_path_is_followed_once(unfolded):
    """A place that is looked up at a place that was looked up: each step once, not once for each
    place behind it."""
    places, i = np.random.default_rng(0).integers(0, 12, (24, 12)), np.array(3)
    sizes = []
    for n in (8, 16, 24):
        artifact, _ = compiled(followed_back(n), (places, i))
        sizes.append(len(artifact.stages["source"]))
    assert sizes[2] - sizes[1] < 1.5 * (sizes[1] - sizes[0])
    check(followed_back(24), places, i, backends=("cpp",))


def alignment(x, y):
    """A table, by rows, of which each element depends on three neighbours."""
    n = len(x)
    rows = [[eager.full((), 1e9)] * (n + 1)]
    for i in range(n):
        row, before = rows[0][:1], rows[-1]
        for j in range(n):
            least = eager.minimum(eager.minimum(before[j + 1], row[j]), before[j])
            row.append((x[i] - y[j]).abs() + (least if i + j else 0.0))
        rows.append(row)
    return eager.stack([eager.stack(row) for row in rows])


def test_single_values_that_many_read_are_computed_about_once(unfolded):
    """Not once more in each kernel that writes a row of them."""
    for n in (6, 9):
        source = compiled(alignment, (floats(n), floats(n)))[0].stages["source"]
        assert n * n <= source.count("= abs(") <= 2 * n * n, n
    check(alignment, floats(6), floats(6), backends=("cpp",))


def sorted_by_exchanges(x):
    """Neighbours are put in order until all columns are: one result of many shared values."""
    columns, n = list(x.unbind(1)), x.shape[1]
    for i in range(n):
        for j in range(i % 2, n - 1, 2):
            a, b = columns[j], columns[j + 1]
            columns[j], columns[j + 1] = eager.minimum(a, b), eager.maximum(a, b)
    return (eager.stack(columns, 1) * eager.arange(float(n))).sum(1)


def test_what_parts_of_a_large_value_share_is_computed_once(unfolded):
    """A body that would be too large is cut, and no part has the others in it again."""
    x = floats(32, 16)
    made = 2 * 16 * 15 / 2  # of one exchange each
    source = compiled(sorted_by_exchanges, (x,))[0].stages["source"]
    assert source.count("min(") + source.count("max(") < 3 * made
    check(sorted_by_exchanges, x, backends=("cpp",))


def waves(x):
    """A long function of each of a few columns, and one kernel for all of them."""
    return sum((x[:, i] * (i + 2)).sin() * x[:, 0] for i in range(24))


def test_long_functions_of_few_elements_are_calls():
    """Inlined for each column, for whole vectors and for the last one, they take g++ seconds."""
    for rows, calls in ((5, True), (70000, False)):
        x = floats(rows, 24)
        source = compiled(waves, (x,))[0].stages["source"]
        assert ("sin_apart(" in source, "Full{}" not in source) == (calls, calls)
        check(waves, x, backends=("cpp",))
    for fn in (eager.exp, eager.log, eager.tanh, eager.erf, eager.cos, eager.atan, eager.log1p):

        def total(x, fn=fn):
            return sum(fn(x[i] + i) for i in range(20))

        check(total, np.abs(floats(20, 5)), backends=("cpp",))


def test_a_place_that_data_decide_is_looked_up_in_one_part_only():
    """Of the other part there may be no memory at that place."""

    def element(a, b, i):
        return eager.take(eager.cat([a, b]), i)

    artifact, _ = compiled(element, (floats(4), floats(4000), np.array(3000)))
    assert "ld1_if" in artifact.stages["source"]


@pytest.mark.parametrize("shape", [(1 << 20,), (3, 100003), (20, 70000), (70000, 3)])
def test_long_sums_are_accurate(shape):
    x = np.abs(floats(*shape)) + 0.5
    for dims in ((tuple(range(len(shape))),), ((len(shape) - 1,),), ((0,),)):
        artifact, inputs = compiled(lambda x, d=dims[0]: x.sum(d), (x,))
        (got,) = artifact.run(inputs)
        np.testing.assert_allclose(got, x.astype(np.float64).sum(dims[0]), rtol=1e-6)


def test_long_reductions_of_every_kind():
    x = floats(40009)
    check(
        lambda x: (
            x.amax(),
            x.amin(),
            (x > 5).any(),
            (x > -6).all(),
            (x * 0.001 + 1).prod(),
            x.argmax(),
        ),
        x,
        backends=("cpp",),
        rtol=1e-4,
    )


def test_results_do_not_depend_on_the_number_of_threads():
    x = floats(300, 500)
    artifact, inputs = compiled(lambda x: (x.sum(), x.sum(0), F.softmax(x, 1), x @ x.t()), (x,))
    results = []
    for n in (1, 2, 3):
        with config(threads=n):
            results.append([r.tobytes() for r in artifact.run(inputs)])
    assert results[0][:3] == results[1][:3] == results[2][:3]


def test_an_update_runs_right_after_its_gradient():
    """Two layers: the update of the last layer's weight comes before the first layer's gradient."""

    def step(x, w1, w2):
        w1.requires_grad_(True)
        w2.requires_grad_(True)
        loss = ((x @ w1).tanh() @ w2).sum()
        g1, g2 = eager.autograd.grad(loss, [w1, w2])
        with eager.no_grad():
            w1.sub_(g1 * 0.1)
            w2.sub_(g2 * 0.1)
        return loss.detach()

    f = fused(step, floats(40, 64), floats(64, 64), floats(64, 64))
    updates = [i for i, item in enumerate(f.items) if _updates(item, f.buffers)]
    products = [i for i, item in enumerate(f.items) if isinstance(item, Library)]
    assert len(updates) == 2
    assert updates[0] < products[-1]


def _updates(item, buffers):
    return isinstance(item, Kernel) and any(
        buffers[buffers[s.buffer].home].kind == "input" for s in item.stores()
    )


def work(n):
    def fn(x, w):
        outs = []
        for _ in range(n):
            h = eager.relu(x @ w + 0.1)
            outs.append(h.sum(0))
            x = h - h.mean(1, keepdim=True)
        return outs

    program, _ = trace(fn, floats(64, 64), floats(64, 64))
    return calls_made(lambda: codegen.run_stages(program))


def test_the_stages_are_linear_in_the_program():
    work(20)  # what is made once, at the first use
    assert work(200) < 4 * work(50) * 1.25


@pytest.mark.parametrize(
    "fn",
    [
        lambda: eager.ones(4, 4).max(1)[0],
        lambda: eager.ones(4, 4).sum(0).argmax(),
        lambda: (eager.zeros(3, 5).amax(1), eager.full((2, 70_000), 2.0).sum(1)),
    ],
)
def test_a_reduction_of_constants_is_no_kernel_or_one_that_stores(fn):
    check(fn)


def test_the_dimensions_of_a_small_image_are_one_loop():
    """Lanes along 4 places, or from image to image, would be mostly empty or far apart."""

    def normalised(x, g):
        y = eager.relu(x - x.mean((0, 2, 3), keepdim=True))
        return (y * g).sum((0, 2, 3)), y * g.mean((0, 2, 3), keepdim=True)

    x, g = floats(8, 6, 4, 4), floats(8, 6, 4, 4, seed=1)
    program, inputs = trace(normalised, x, g)
    tiled = codegen.run_stages(program)[0]["tiled"].fused
    loops = [stage.loops for kernel in tiled.kernels() for stage in kernel.stages]
    assert {tuple(a.size for a in axes) for axes in loops if len(axes) > 1} == {(8, 16)}
    for got, expected in zip(
        codegen.compile(program).run(inputs),
        normalised(eager.from_numpy(x), eager.from_numpy(g)),
        strict=True,
    ):
        same(got, expected.numpy(), 1e-5, 1e-5)


def test_a_long_chain_is_one_kernel_of_two_vectors_at_a_time():
    def steps(x, y, count=60):
        for _ in range(count):
            x, y = x + 0.1 * (y - x), y + 0.1 * (x * (2.0 - y) - y)
        return x + y

    def few(x, y):
        return steps(x, y, 6)

    def text(fn, *args):
        return codegen.run_stages(trace(fn, *args)[0])[0]["spelled"].text

    long, odd = [[floats(n), floats(n, seed=1)] for n in (5000, 4097)]
    check_each([(steps, long), (few, odd)], rtol=1e-4, atol=1e-4)
    assert len(kernels(steps, *long)) == 1
    assert "pair0(Full{}" in text(steps, *long)
    assert "pair0" not in text(lambda x, y: x * y + x, *long)


def test_two_vectors_at_a_time_each_read_their_own_sums():
    def centred(x):
        return (x - x.mean(0)).exp().erf().exp().erf()

    x = floats(3, 5000)
    check(centred, x, backends=("cpp",), rtol=1e-4, atol=1e-4)
    assert "pair1(Full{}" in codegen.run_stages(trace(centred, x)[0])[0]["spelled"].text


def test_lanes_run_along_narrow_rows_that_are_gathered():
    """Not along the rows, where every element would be a load of its own."""

    def messages(x, at, w):
        return x[at] * w.unsqueeze(1)

    args = floats(50, 10), ints(-50, 50, 300), floats(300, seed=1)
    check_each([(messages, args)])
    program, _ = trace(messages, *args)
    schedules = codegen.run_stages(program)[0]["scheduled"].schedules
    assert [s.row_vector.size for s in schedules.values()] == [10]
