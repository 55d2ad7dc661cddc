"""Caches of installed packages are looked through. package, step -> one graph, the plain answer."""

import random
import sys

import pytest

import eager
from jitcap import jit

PACKAGE = """
import functools, random
calls = []

class Recipe:
    def __init__(self, pattern):
        self.axes = pattern.split()

@functools.lru_cache(256)
def recipe(pattern, axes=()):
    return Recipe(pattern)

@functools.lru_cache(1024)
def sizes(recipe, shape, axes):
    found = dict(zip(recipe.axes, shape, strict=True)) | dict(axes)
    return [found["a"] * found["b"], found["c"]], [*found]

@functools.cache
def table(n):
    return [random.random() for _ in range(n)]

@functools.cache
def registry(n):
    return {}

@functools.cache
def noted(n):
    calls.append(n)
    return n + 1

def flat(x, pattern, **axes):
    shape, names = sizes(recipe(pattern), x.shape, tuple(axes.items()))
    return x.reshape(shape), names
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "patterns_of_axes.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "patterns_of_axes", raising=False)
    import patterns_of_axes

    yield patterns_of_axes
    del sys.modules["patterns_of_axes"]


@pytest.mark.parametrize("dynamic", [None, True])
def test_one_graph_for_any_size(package, dynamic):
    def step(x):
        y, names = package.flat(x, "a b c")
        z, _ = package.flat(x + 1, "a b c", d=4)
        return y.sum(0) * z, "-".join(names), package.recipe("a b c") is package.recipe("a b c")

    compiled = jit(step, dynamic=dynamic)
    for n in (2, 3, 2, 5, 4):
        x = eager.arange(n * 12.0).reshape(n, 3, 4)
        assert str(compiled(x)) == str(step(x))
    assert (compiled.stats.splits, compiled.stats.fallbacks) == (0, 0)
    assert compiled.stats.compiles <= 2


@pytest.mark.filterwarnings("ignore:@jit")
def test_a_cache_that_is_more_than_a_memory(package):
    def step(x, n):
        return x * package.table(n)[0], package.noted(n)

    compiled = jit(step, backend="eager")
    for n in (2, 2, 3, 2):
        for run in (compiled, step):
            random.seed(7)
            again = run(eager.ones(2), n)
        package_answer = eager.ones(2) * package.table(n)[0], n + 1
        assert str(again) == str(package_answer)
    assert package.calls == [2, 3]
    assert package.table.cache_info().misses == 2


@pytest.mark.filterwarnings("ignore:@jit")
def test_a_size_is_a_key_of_the_programs_own_cache():
    import functools

    @functools.lru_cache
    def area(shape, scale=1, *, device, dtype):
        return shape[0] * shape[1] * scale

    def step(x):
        return x * area(x.shape, device=x.device, dtype=x.dtype)

    compiled = jit(step, backend="eager")
    for _ in range(3):
        assert compiled(eager.ones(2, 3)).tolist() == [[6.0] * 3] * 2
    assert area.cache_info().misses == 1
    assert area.cache_info().hits == 2
    assert compiled.stats.splits == 0


@pytest.mark.filterwarnings("ignore:@jit")
def test_a_cache_of_an_object_without_a_name():
    import functools

    drawn = functools.lru_cache(functools.partial(lambda n, k: random.random() + n + k, k=1))
    compiled = jit(lambda x: x * drawn(x.shape[0]), backend="eager")
    first, second = compiled(eager.ones(2)).tolist(), compiled(eager.ones(2)).tolist()
    assert first == second
    assert "internal" not in str(compiled.stats)
    assert drawn.cache_info().misses == 1


@pytest.mark.filterwarnings("ignore:@jit")
def test_what_a_cache_gives_is_one_object_for_all_calls(package):
    """It is changed, stored or returned: then the cache is asked."""
    kept = []

    def changes(x, n):
        table = package.registry(n)
        table["calls"] = table.get("calls", 0) + 1
        return x * table["calls"]

    def stores(x, n):
        kept.append(package.registry(n))
        return x * len(kept[-1])

    def returns(x, n):
        return x + n, package.registry(n)

    x = eager.ones(2)
    for program in (changes, stores, returns):
        found = []
        for run in (program, jit(program, backend="eager")):
            package.registry.cache_clear()
            kept.clear()
            found.append([str(run(x, n)) for n in (1, 1, 2, 1)])
            found[-1].append([row is package.registry(1) for row in kept])
            found[-1].append(run(x, 1)[1] is package.registry(1) if program is returns else 0)
            found[-1].append(str(package.registry(1)))
        assert found[0] == found[1]
