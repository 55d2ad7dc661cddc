"""Numbers of the run in what makes numbers and tensors of them: constructors, operators, both
operands Python's."""

import json
import math

import eager
from tests.never_wrong.harness import Program, case, over


@case("number_forms", cpp=True)
def complex_numbers_of_the_run_as_tensors():
    def step(x, n):
        found = x.sum().item()
        z = found + 1j
        return (
            eager.tensor(z), eager.tensor([z, 1, n]), eager.as_tensor([[z], [2.0]]), eager.asarray(found * 2j),
            eager.tensor(n * 1j), eager.full((2,), z), eager.tensor([n, True]), x * z,
        )  # fmt: skip

    return over(step, [2.0, 3.0, 4.5])


@case("number_forms")
def complex_numbers_that_no_real_tensor_takes():
    def step(x, n):
        found = []
        for make in (x.fill_, lambda z: x.new_full((2,), z), lambda z: eager.full_like(x, z)):
            for z in (n * 1j, x.sum().item() + 0j):
                try:
                    found.append(make(z))
                except RuntimeError as error:
                    found.append(str(error))
        return found

    return over(step, [2.0, 3.0])


@case("number_forms")
def constructors_of_numbers_with_more_arguments():
    def step(x, n):
        t, found = (x * n).sum(), []
        asked = (
            lambda: complex(t, 2), lambda: complex(2, t), lambda: complex(t, t), lambda: complex(real=n, imag=t),
            lambda: int(t, 10), lambda: float(t, 1), lambda: int(t, base=10), lambda: int("11", n), lambda: complex(t > 1, n),
            lambda: int(n, 10), lambda: bool(t, 1), lambda: complex("1", n),
        )  # fmt: skip
        for ask in asked:
            try:
                found.append(ask())
            except TypeError as error:
                found.append(str(error))
        return found

    return over(step, [2, 3, 5])


@case("number_forms", cpp=True)
def functions_of_two_numbers_give_tensors():
    def step(x, n):
        k = x.sum().item()
        return (
            eager.add(n, n), eager.mul(n, 2.5), eager.sub(2.5, n), eager.div(4, n), eager.add(4, 3.25), eager.add(k, 2),
            eager.add(3, n, alpha=n), eager.floor_divide(n, 2), x + eager.add(n, 2.5),
        )  # fmt: skip

    return over(step, [2, 3, 5])


@case("number_forms", cpp=True)
def triangles_at_negative_ints_that_vary():
    def step(x, n):
        return (
            eager.tril_indices(4, 4, n),
            eager.triu_indices(3, 4, n),
            eager.tril_indices(3, 3, -n - 1),
        )

    return over(step, [1, -1, -2, 0, 2])


@case("number_forms")
def what_python_refuses_of_numbers():
    def step(x, n):
        found, k = [], x.sum().item()
        asked = (
            lambda: divmod(k, x), lambda: divmod(n, x), lambda: divmod(x, k), lambda: len(range(2**63)),
            lambda: len(range(n, 2**63 + 9)), lambda: json.dumps(ValueError(int(k))), lambda: math.factorial(-n),
        )  # fmt: skip
        for ask in asked:
            try:
                found.append(ask())
            except (TypeError, OverflowError, ValueError) as error:
                found.append(f"{type(error).__name__}: {error}")
        return found, divmod(k, n), divmod(n, 2)

    return over(step, [2, 3, 5])


@case("number_forms", cpp=True)
def tensors_that_are_too_large():
    def step(x, n, make):
        return make(n * 2**69)

    x = eager.ones(2)
    made = (eager.zeros, lambda n: eager.full((n, 2), 1.0), lambda n: eager.ones(n >> 30, 2**40))
    return Program(step, [(x, 2, make) for make in made])


@case("number_forms")
def bools_of_the_run_as_sizes():
    def step(x, n):
        return x.unfold(0, (x.sum() > n).item(), 1)

    return over(step, [2.0, 0.0])
