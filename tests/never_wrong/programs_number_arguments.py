"""A number that varies as an argument of the library's functions: what is refused, the type of the
answer, and the part that is looked at, at each call."""

import eager

from .harness import Program, case


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
