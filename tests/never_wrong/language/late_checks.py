"""A check that fails at run time, after effects and writes: Python's half step, no other."""

import contextlib
import math

import numpy as np

import eager
from eager import nn
from tests.never_wrong.harness import Program, after, case


def late(check, *values):
    """Writes and effects on both sides of `check(p, value, log)`."""

    def build():
        p, log = eager.tensor([1.0, 1.0, 1.0]), []

        def step(value):
            p.add_(1)
            log.append("before")
            found = check(p, value, log)
            log.append("after")
            p.add_(1)
            return found

        return Program(step, [(v,) for v in values], lambda: (p, log))

    return build


def item_at(p, i, log):
    return p[i]


def guarded_by_try(p, i, log):
    try:
        return p[i]
    except IndexError as error:
        log.append(str(error))
        return None


def finally_after(p, i, log):
    try:
        return p[i] * 2
    finally:
        log.append("finally")
        p.mul_(10)


def assert_positive(p, v, log):
    total = (p * v).sum().item()
    assert total > 0, f"total is {total}"
    return total


def assert_on_tensor(p, v, log):
    assert (p * v > 0).all(), "not positive"
    return p * v


def domain_of_sum(p, v, log):
    return math.log((p * v).sum().item())


def table_of_sum(p, v, log):
    return ["a", "b", "c", "d", "e", "f", "g"][int((p * v).sum().item())]


def key_of_sum(p, v, log):
    return {6.0: "six"}[(p * v).sum().item()]


def reshape_by_item(p, v, log):
    return p.reshape(int(v))


def write_at(p, i, log):
    p[i] = 7.0
    return i


def select_tensor(p, i, log):
    return p[eager.tensor(i)]


def gather(p, i, log):
    return p.index_select(0, i)


def embed(p, i, log):
    return nn.functional.embedding(i, p.reshape(3, 1))


def labels(p, i, log):
    return nn.functional.cross_entropy(p.reshape(1, 3), i)


def scatter(p, i, log):
    return eager.zeros(3).scatter_add_(0, i, p)


def one_hot(p, i, log):
    return nn.functional.one_hot(i, 3)


def fill_at(p, i, log):
    p.index_fill_(0, i, 2.0)
    return p * 1


def broadcast(p, v, log):
    return p + v


def matmul(p, v, log):
    return p @ v


def cholesky_fails(p, v, log):
    return eager.linalg.cholesky(v)


def inverse_fails(p, v, log):
    return eager.linalg.inv(v)


def randint_domain(p, v, log):
    return eager.full((2,), v).item()


def int64s(*values):
    return [eager.tensor(list(v)) for v in values]


LATE = {
    "index_of_a_tensor": (item_at, lambda: (0, 2, 3, -1, -4)),
    "index_in_a_try": (guarded_by_try, lambda: (0, 2, 3, -4)),
    "index_with_a_finally": (finally_after, lambda: (0, 1, 3)),
    "assert_on_an_item": (assert_positive, lambda: (1.0, 2.0, -1.0)),
    "assert_on_a_tensor": (assert_on_tensor, lambda: (1.0, 2.0, -1.0)),
    "domain": (domain_of_sum, lambda: (1.0, 2.0, 0.0, -1.0)),
    "table": (table_of_sum, lambda: (1.0, 0.25, 2.0, -9.0)),
    "key": (key_of_sum, lambda: (1.0, 2.0)),
    "reshape": (reshape_by_item, lambda: (3, 2, -1)),
    "write_at": (write_at, lambda: (0, 2, 3)),
    "select_by_a_tensor": (select_tensor, lambda: (0, 2, 3)),
    "index_select": (gather, lambda: int64s([0, 1], [2, 2], [1, 3])),
    "embedding": (embed, lambda: int64s([0, 1], [2, 2], [1, 3])),
    "cross_entropy": (labels, lambda: int64s([0], [2], [3])),
    "scatter_add": (scatter, lambda: int64s([0, 1, 2], [2, 2, 2], [1, 3, 0])),
    "one_hot": (one_hot, lambda: int64s([0, 1], [2, 2], [1, 3])),
    "index_fill": (fill_at, lambda: int64s([0, 1], [2, 2], [1, 3])),
    "broadcast": (broadcast, lambda: (eager.ones(3), eager.ones(1), eager.ones(2))),
    "matmul": (matmul, lambda: (eager.ones(3), eager.ones(3, 2), eager.ones(2))),
    "cholesky": (cholesky_fails, lambda: (eager.eye(2), -eager.eye(2))),
    "inverse": (inverse_fails, lambda: (eager.eye(2), eager.zeros(2, 2))),
    "item_of_many": (randint_domain, lambda: (1.0, 2.0)),
}  # fmt: skip


def _late_cases():
    for name, (check, values) in LATE.items():
        build = lambda check=check, values=values: late(check, *values())()
        build.__name__ = f"late_{name}"
        case("late checks")(build)


_late_cases()


@case("late checks")
def write_buffer_write_then_an_index_out_of_range():
    p, buf = eager.tensor([0.0, 0.0, 0.0]), []

    def step(i):
        p.add_(1)
        buf.append(1)
        y = p[i]
        p.add_(1)
        return y

    return Program(step, [(0,), (1,), (5,), (2,)], lambda: (p, buf))


@case("late checks")
def an_error_that_comes_after_a_check():
    whole, log = eager.arange(3), []

    def step(v):
        try:
            whole.add_(math.log(v.sum().item()))  # the sum is no int, but first comes its logarithm
        except ValueError as error:
            log.append(str(error))
        return v * 2

    values = [eager.tensor([v]) for v in (-1.0, 2.0, -1.0, -2.0, 3.0)]
    return Program(step, [(v,) for v in values], lambda: (whole, log))


@case("late checks")
def late_index_by_an_item():
    p, order, log = eager.tensor([0.0, 0.0, 0.0]), eager.tensor([0, 2, 9]), []

    def step(k):
        p.add_(1)
        log.append(k)
        p[order[k].item()] = 5.0
        log.append("written")
        return p.sum().item()

    return Program(step, [(0,), (1,), (2,), (0,)], lambda: (p, log))


@case("late checks")
def late_failure_in_a_caller_s_try():
    p, log = eager.tensor([0.0, 0.0]), []

    def inner(x):
        p.add_(1)
        log.append("inner")
        return 1 / x.sum().item()

    def step(x):
        try:
            value = inner(x)
        except ZeroDivisionError as error:
            log.append(repr(error))
            value = 0.0
        p.add_(10)
        return value

    return Program(step, [(eager.tensor([v]),) for v in (2.0, 0.0, 4.0)], lambda: (p, log))


@case("late checks")
def late_failure_swallowed_by_suppress():
    p, log = eager.tensor([0.0, 0.0]), []

    def step(x):
        with contextlib.suppress(ValueError):
            p.add_(1)
            log.append(math.sqrt(x.sum().item()))
            p.add_(100)
        return p * 2

    return Program(step, [(eager.tensor([v]),) for v in (4.0, -1.0, 9.0)], lambda: (p, log))


@case("late checks")
def late_failure_between_two_modules_of_state():
    class Meter:
        def __init__(self):
            self.count, self.total = 0, 0.0

        def update(self, value):
            self.count += 1
            self.total += math.log(value)

    meter, bias = Meter(), eager.zeros(2)

    def step(x):
        bias.add_(x)
        meter.update(x.sum().item())
        return bias / meter.count

    calls = [(eager.tensor([v, 1.0]),) for v in (1.0, -1.0, 2.0)]
    return Program(step, calls, lambda: (vars(meter), bias))


@case("late checks")
def late_failure_after_backward():
    w, log = eager.tensor([1.0, 2.0], requires_grad=True), []

    def step(x):
        loss = (w * x).sum()
        loss.backward()
        log.append(round(math.sqrt(loss.item()), 3))
        with eager.no_grad():
            w.sub_(0.1 * w.grad)
        w.grad = None
        return loss.item()

    calls = [(eager.tensor(v),) for v in ([1.0, 1.0], [-1.0, -1.0], [2.0, 2.0])]
    return Program(step, calls, lambda: (w, log))


@case("late checks")
def late_failure_after_an_optimizer_step():
    w = eager.tensor([1.0, 2.0], requires_grad=True)
    optimizer = eager.optim.SGD([w], lr=0.5, momentum=0.5)
    log = []

    def step(x, i):
        optimizer.zero_grad()
        loss = (w * x).sum()
        loss.backward()
        optimizer.step()
        log.append("stepped")
        return w[i].item(), loss.detach()

    x = eager.tensor([1.0, -1.0])
    observe = lambda: (w, log, [optimizer.state[w].get("momentum_buffer")])
    return Program(step, [(x, 0), (x, 1), (x, 2), (x, 0)], observe)


@case("late checks")
def late_failure_after_a_draw():
    log = []

    def step(x, i):
        noise = eager.rand(3)
        log.append("drawn")
        return (x + noise)[i], noise

    x = eager.zeros(3)
    return Program(step, [(x, 0), (x, 3), (x, 1), (x, 2)], lambda: (log, eager.rand(1)))


@case("late checks")
def late_failure_after_a_print():
    def step(x, i):
        print("at", i, x.sum().item())
        y = x[i]
        print("found", y.item())
        return y

    x = eager.tensor([1.0, 2.0])
    return Program(step, [(x, 0), (x, 1), (x, 2), (x, -3)])


@case("late checks")
def late_failure_of_the_second_of_two_checks():
    log = []

    def step(a, b):
        log.append("a")
        first = 1 / a.sum().item()
        log.append("b")
        second = math.sqrt(b.sum().item())
        log.append("c")
        return first + second

    pairs = [(1.0, 1.0), (2.0, -1.0), (0.0, -1.0), (0.0, 1.0), (4.0, 4.0)]
    return Program(step, [(eager.tensor([a]), eager.tensor([b])) for a, b in pairs], lambda: log)


@case("late checks")
def a_failure_of_what_is_not_used():
    log = []

    def step(x):
        1 / x.sum().item()
        x[0].item() // x[1].item()
        log.append("done")
        return x * 2

    calls = [(eager.tensor(v),) for v in ([1.0, 1.0], [1.0, 0.0], [1.0, -1.0], [0.0, 2.0])]
    return Program(step, calls, lambda: log)


@case("late checks")
def an_index_out_of_range_that_is_not_used():
    log = []

    def step(x, i):
        x[i]
        log.append("done")
        return x * 2

    x = eager.tensor([1.0, 2.0])
    return Program(step, [(x, 0), (x, 1), (x, 2)], lambda: log)


@case("late checks")
def late_failure_in_a_loop():
    p, log = eager.tensor([0.0]), []

    def step(xs):
        for x in xs:
            p.add_(1)
            log.append(10 // x.sum().item())
        return p * 1

    make = lambda *v: [eager.tensor([a]) for a in v]
    return Program(step, [(make(1, 2, 5),), (make(1, 0, 5),), (make(3, 3, 3),)], lambda: (p, log))


@case("late checks")
def late_failure_leaves_a_half_filled_list():
    def step(xs, out):
        for x in xs:
            out.append(math.log(x.sum().item()))
        return len(out)

    made = []
    make = lambda *v: [eager.tensor([a]) for a in v]
    return Program(step, [(make(1.0, 2.0), made), (make(1.0, 0.0, 3.0), made)], lambda: made)


@case("late checks")
def a_condition_that_raises_is_not_a_false_one():
    def step(x):
        return "yes" if x[0].item() > 0 and 1 / x[1].item() > 0 else "no"

    calls = [(eager.tensor(v),) for v in ([1.0, 1.0], [-1.0, 0.0], [1.0, 0.0], [1.0, -1.0])]
    return Program(step, calls)


@case("late checks")
def loss_is_not_finite():
    log = []

    def step(x):
        loss = (x * x).sum()
        if not math.isfinite(loss.item()):
            log.append("skipped")
            raise FloatingPointError(f"loss is {loss.item()}")
        log.append("kept")
        return loss

    calls = [(eager.tensor([v]),) for v in (1.0, math.inf, 2.0, math.nan)]
    return Program(step, calls, lambda: log)


@case("late checks")
def lengths_disagree_late():
    def step(a, b):
        log.append("begun")
        pairs = [x * y for x, y in zip(a, b, strict=True)]
        log.append("done")
        return pairs

    log = []
    x = eager.tensor([1.0])
    return Program(step, [([x, x], [1, 2]), ([x, x], [1]), ([x], [1])], lambda: log)


@case("late checks")
def numpy_array_index_out_of_range():
    log, table = [], np.array([1.0, 2.0])

    def step(x, i):
        log.append(i)
        return x * float(table[i])

    x = eager.tensor([1.0])
    return Program(step, [(x, 0), (x, 1), (x, 2), (x, -1)], lambda: log)


@case("late checks")
def pop_from_what_runs_empty():
    queue = [1, 2]

    def step(x):
        x.add_(1)
        n = queue.pop()
        x.add_(n)
        return n

    x = eager.tensor([0.0])
    return Program(step, [(x,), (x,), (x,), after(lambda: queue.append(5), x)], lambda: queue)


@case("late checks")
def a_tensor_that_is_written_on_both_sides_of_a_failing_view():
    def step(x, shape):
        x.add_(1)
        y = x.view(*shape)
        y.mul_(2)
        return y

    x = eager.zeros(4)
    return Program(step, [(x, (2, 2)), (x, (4, 1)), (x, (3, 1)), (x, (1, 4))])
