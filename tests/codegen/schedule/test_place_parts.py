"""Parts of a concatenation are computed where they belong, where nobody else reads them."""

import pytest

import codegen
import eager as torch
from codegen.ir.schema import Kernel
from tests.codegen import symbolic
from tests.codegen.checking import check_each, floats
from tests.codegen.tracing import trace

N = 512


def parts(x):
    return x.cumsum(0), (x * x).cumsum(0)


def in_steps(x):
    """All of it is one kernel."""
    a, b = x, x.exp()
    for _ in range(6):
        a, b = 0.5 * (a * b - a), b + 0.1 * a * (b - a)
    return torch.stack((a, b))


def stacked(x):
    return torch.stack(parts(x))


def joined(x):
    a, b = parts(x)
    return torch.cat((a, b, a[: N // 2].sin()))


def twice(x):
    """A part of two results is copied."""
    a, b = parts(x)
    return torch.stack((a, b)), torch.stack((b, a))


def other_type(x):
    a, b = parts(x)
    return torch.stack((a, b)).double()


def returned(x):
    a, b = parts(x)
    return torch.stack((a, b)), a


def read_again(x):
    a, b = parts(x)
    return torch.stack((a, b)), a.cumsum(0)


def nested(x):
    a, b = parts(x)
    return torch.stack((torch.stack((a, b)), torch.stack((x, x * 2))))


def used(x):
    """The whole is a temporary itself."""
    a, b = parts(x)
    return torch.cat((a, b)).cumsum(0).flip(0)


def inputs(x):
    return torch.stack((x, x))


CASES = [
    (in_steps, 1), (stacked, 1), (joined, 3), (twice, 3), (other_type, 3), (returned, 2),
    (read_again, 2), (nested, 3), (used, 2), (inputs, 1),
]  # fmt: skip


@pytest.mark.parametrize(("fn", "count"), CASES, ids=lambda x: getattr(x, "__name__", ""))
def test_kernels(fn, count):
    program, _ = trace(fn, floats(N))
    items = codegen.run_stages(program)[0]["parts"].items
    assert sum(isinstance(item, Kernel) for item in items) == count


def test_values():
    check_each([(fn, [floats(N)]) for fn, _ in CASES], backends=("cpp",), rtol=1e-4, atol=1e-4)


def test_unknown_sizes():
    case = symbolic.Case(lambda n, x: (stacked(x), used(x)), ("n",), lambda n: (symbolic.f32(n),))
    symbolic.run(case, "cpp", most=20)
