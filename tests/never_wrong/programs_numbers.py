"""Python's numbers: exact beyond 64 bits, with their own exceptions, signs, types and hashes."""

import eager

from .harness import Program, after, case


@case("numbers")
def counter_beyond_64_bits():
    state = {"n": 2**63}

    def step(x):
        state["n"] = state["n"] * 3 + 1
        return x * 2, state["n"] % 11

    x = eager.tensor([1.0, 2.0])
    return Program(step, [(x,), (x,), (x,), after(lambda: state.update(n=5), x)], lambda: state)


@case("numbers", one_graph=True, cpp=True)
def counter_stays_one_graph():
    state = {"n": 0}

    def step(x):
        state["n"] += 1
        return x * state["n"]

    x = eager.tensor([1.0, 2.0])
    return Program(step, [(x,)] * 4, lambda: state)
