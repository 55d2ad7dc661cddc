"""Read-only views of mappings are read in the graph; a value is not the object of another type."""

import inspect
import types

import eager
from jitcap import jit

TABLE = {"a": 2.0, "b": 3.0}
VIEW = types.MappingProxyType(TABLE)


def scaled(x, scale=2.0, *, shift=1):
    return x * scale + shift


SIGNATURE = inspect.signature(scaled)


def test_a_signature_binds_in_the_graph():
    def step(x, shift):
        bound = SIGNATURE.bind(x, shift=shift)
        bound.apply_defaults()
        return scaled(*bound.args, **bound.kwargs) * sum(VIEW.values())

    compiled = jit(step, backend="eager", fullgraph=True)
    for shift in (1, 4, 5, 6):
        assert compiled(eager.ones(2), shift).tolist() == step(eager.ones(2), shift).tolist()
    assert compiled.stats.compiles <= 2


def test_a_view_shows_what_was_written_to_its_mapping():
    def step(x):
        TABLE["n"] = TABLE.get("n", 0) + 1
        return x * VIEW["n"], len(VIEW), [*VIEW], types.MappingProxyType({"x": x})["x"]

    compiled = jit(step, backend="eager", fullgraph=True)
    seen = [str(compiled(eager.ones(2))) for _ in range(4)]
    del TABLE["n"]
    assert seen == [str(step(eager.ones(2))) for _ in range(4)]


def test_a_number_is_no_object_of_another_type():
    class Empty:
        pass

    def step(x, n):
        return x * n if n is not Empty and n is not step else x

    compiled = jit(step, backend="eager", fullgraph=True)
    assert [compiled(eager.ones(1), n).item() for n in (2, 3, 4, 5)] == [2, 3, 4, 5]
    assert compiled.stats.compiles <= 2
