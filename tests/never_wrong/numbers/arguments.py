"""A number that varies as an argument of the library's functions: what is refused, the type of the
answer, and the part that is looked at, at each call."""

import itertools

import eager
from eager.nn import functional as F
from tests.never_wrong.harness import Program, case, over


def ints(*values):
    """Calls with a tensor of ints and one number after the other."""
    x = eager.tensor([[0, 1, -2], [3, 5, 7]])
    return lambda step: Program(step, [(x, value) for value in values])


def attempts(fns, x, k):
    """What each function answers, or raises."""
    found = []
    for fn in fns:
        try:
            found.append(fn(x, k))
        except (RuntimeError, TypeError) as error:
            found.append(str(error))
    return found


@case("number_arguments")
def diagonals_of_any_offset():
    x = eager.arange(16.0).reshape(4, 4)

    def step(x, k):
        return eager.diagonal(x, k)

    return Program(step, [(x, k) for k in (2, 3, -1, 0, 1, -2, 5)])


@case("number_arguments")
def diagonals_of_a_number_of_the_run():
    x = eager.arange(16.0).reshape(4, 4)

    def step(x, k):
        return eager.diagonal(x, int(k.item()))

    return Program(step, [(x, eager.tensor(k)) for k in (2, 3, -1, 0, 1)])


@case("number_arguments")
def ints_by_a_divisor():
    return ints(2, 3, 0, -1)(lambda x, k: (x // k, x % k))


@case("number_arguments")
def ints_by_a_divisor_of_the_run():
    def step(x, k):
        n = k.item()
        return x.fmod(n), eager.div(x, n, rounding_mode="floor")

    x = eager.tensor([1, -2, 5])
    return Program(step, [(x, eager.tensor(k)) for k in (2, 3, 0, 4)])


@case("number_arguments")
def a_quotient_cut_to_an_int():
    return ints(2, 3, 4)(lambda x, k: eager.div(x, k, rounding_mode="trunc"))


@case("number_arguments")
def ints_to_a_power():
    return ints(2, 3, -1, 1, True)(lambda x, k: x**k)


@case("number_arguments")
def a_factor_of_ints():
    return ints(2.0, 3.0, 4)(lambda x, k: eager.add(x, x, alpha=k))


@case("number_arguments")
def floats_that_no_int_is():
    fns = (
        lambda x, k: eager.full_like(x, k),
        lambda x, k: x.masked_fill(x > 0, k),
        lambda x, k: x.clone().fill_(k),
        lambda x, k: F.pad(x, (1, 1), value=k),
        lambda x, k: eager.tensor([k, 1], dtype=eager.int32),
    )
    return ints(1.0, 2.5, float("nan"), float("inf"), 1e30, -3.0)(lambda x, k: attempts(fns, x, k))


@case("number_arguments")
def ints_that_a_byte_does_not_hold():
    x = eager.tensor([0, 1, 200], dtype=eager.uint8)
    fns = (
        lambda x, k: eager.where(x > 0, x, k),
        lambda x, k: x.masked_fill(x > 0, k),
        lambda x, k: x.clamp(min=k),
    )
    return Program(lambda x, k: attempts(fns, x, k), [(x, k) for k in (2, 3, 300, -1, 250, -300)])


@case("number_arguments")
def ints_of_the_run_that_a_byte_does_not_hold():
    x = eager.tensor([0, 1, 200], dtype=eager.uint8)
    step = lambda x, k: x.masked_fill(x > 0, k.item())
    return Program(step, [(x, eager.tensor(k)) for k in (2, 3, 300, 4)])


@case("number_arguments")
def floats_too_large_for_the_dtype():
    fns = (lambda x, k: eager.full((2,), k), lambda x, k: x.masked_fill(x > 1, k))
    values = (1.0, 2.0, 1e300, float("inf"), -1e300, float("nan"))
    return over(lambda x, k: attempts(fns, x, k), values)


@case("number_arguments", one_graph=True)
def one_dimension_or_several():
    def step(x, k):
        return x.tensor_split(k), x.movedim(k - 1, 0), eager.tensordot(x, x, k - 1)

    return Program(step, [(eager.arange(36.0).reshape(6, 6), k) for k in (1, 2)])


@case("number_arguments")
def expanded_to_one():
    def step(x, k):
        return x[:, :1].expand(6, k), x.expand(k, 6, 6).contiguous().stride(), x[:1].expand(k, 6)

    x = eager.arange(36.0).reshape(6, 6)
    return Program(step, [(x, k) for k in (6, 3, 1, 2, 1)])


@case("number_arguments")
def sizes_that_are_none():
    def step(x, k):
        return x.new_empty(k).shape, F.interpolate(x, scale_factor=k).shape

    x = eager.ones(1, 1, 4, 4)
    return Program(step, [(x, k) for k in (2, 3, -1, 4)])


@case("number_arguments")
def arrangements_of_so_many():
    """itertools takes an int itself there, and asks nothing else for one."""

    def step(x, k):
        orders = itertools.permutations(range(3), k)
        return sum(x[..., a] for a, *_ in orders), list(itertools.permutations("ab", k - 1))

    return ints(1, 2, 3, 1)(step)
