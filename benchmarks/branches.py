"""How many graphs small programs with branches and loops on tensors become, beside torch.compile's.

`python -m benchmarks.branches` prints a line for each program, and one of JSON. Every program is
called with three starts, with and without `@jit`, and the answers are compared.
"""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import eager as lib
from jitcap import jit

Program = Callable[[Any, Any], Any]
STARTS = ([1.0, 2.0, 3.0], [40.0, 20.0, 30.0], [0.1, 0.2, 0.3])


def while_plain(x: Any, k: Any) -> Any:
    while x.sum() < 50:
        x = x * k
    return x


def while_and_count(x: Any, k: Any) -> Any:
    n = 0
    while x.sum() < 50 and n < 6:
        x = x * k
        n += 1
    return x, n


def count_and_while(x: Any, k: Any) -> Any:
    n = 0
    while n < 6 and x.sum() < 50:
        x = x * k
        n += 1
    return x, n


def until_done(x: Any, k: Any) -> Any:
    done = False
    while not done:
        x = x * k
        done = x.sum() > 50
    return x + 1


def break_in_the_middle(x: Any, k: Any) -> Any:
    while True:
        x = x * k
        if x.sum() > 50:
            break
        x = x + 1
    return x


def break_at_the_end(x: Any, k: Any) -> Any:
    for i in range(3):
        while x.sum() < 50 * (i + 1):
            x = x * k
            if x[0] > 30:
                break
        x = x / 2
    return x


def branch_in_while(x: Any, k: Any) -> Any:
    y = x * 0
    while x.sum() < 50:
        if x[0] > 2:
            x = x * k
        else:
            x = x + 1
        y = y + x
    return x, y


def while_in_while(x: Any, k: Any) -> Any:
    n = lib.tensor(0)
    while n < 4:
        while x.sum() < 10 * n:
            x = x * k
        n = n + 1
    return x, n


def asks_identity(x: Any, k: Any) -> Any:
    y = x
    while x.sum() < 50:
        x = x * k
    return x is y


def writes_behind(x: Any, k: Any) -> Any:
    y = x
    while x.sum() < 50:
        x = x * k
    x.add_(1)
    return y, x


def two_rounds_back(x: Any, k: Any) -> Any:
    old = x
    while x.sum() < 50:
        old, x = x, x * k
    return old, x


def writes_inside(x: Any, k: Any) -> Any:
    x = x * 1
    while x.sum() < 50:
        x *= k
    return x


def appends_in_while(x: Any, k: Any) -> Any:
    xs = []
    while x.sum() < 50:
        x = x * k
        xs.append(x)
    return xs


def prints_in_while(x: Any, k: Any) -> Any:
    while x.sum() < 50:
        x = x * k
        print(end="")
    return x


def temporary(x: Any, k: Any) -> Any:
    while x.sum() < 50:
        t = x * k
        x = t + 1
    return x


def last_temporary(x: Any, k: Any) -> Any:
    while x.sum() < 50:
        t = x * k
        x = t + 1
    return t


def another_dtype(x: Any, k: Any) -> Any:
    n = lib.tensor(0)
    while n < 3:
        n = n + 1.5
    return n


def another_shape(x: Any, k: Any) -> Any:
    while x.sum() < 50:
        x = lib.cat([x, x * k])
    return x


def index_carried(x: Any, k: Any) -> Any:
    i = lib.tensor(0)
    while x[i] < 3:
        i = i + 1
    return i


def index_counted(x: Any, k: Any) -> Any:
    i = 0
    while i < 3 and x[i] < 3:
        i += 1
    return i


def closure_in_while(x: Any, k: Any) -> Any:
    def f(v: Any) -> Any:
        return v * k

    while not (x > 20).any():
        x = f(x)
    return x


def return_in_while(x: Any, k: Any) -> Any:
    while x.sum() < 50:
        x = x * k
        if x[0] > 20:
            return x * 2
    return x


def and_after_while(x: Any, k: Any) -> Any:
    while x.sum() < 50:
        x = x * k
    x = x + 100
    return x


def continue_in_while(x: Any, k: Any) -> Any:
    while x.sum() < 50:
        x = x * k
        if x[0] > 10:
            continue
        x = x + 1
    return x


def while_or(x: Any, k: Any) -> Any:
    while x.sum() < 50 or x[0] < 3:
        x = x * k
    return x


def while_walrus(x: Any, k: Any) -> Any:
    while (s := x.sum()) < 50:
        x = x * k
    return x, s


def newton(x: Any, k: Any) -> Any:
    y, err = x, lib.tensor(1.0)
    it = 0
    while err > 1e-4 and it < 50:
        new = y - (y * y - x) / (2 * y)
        err = (new - y).abs().max()
        y = new
        it += 1
    return y, it


def tuple_carried(x: Any, k: Any) -> Any:
    st = (x, x + 1)
    while st[0].sum() < 50:
        st = (st[0] * k, st[1] + st[0])
    return st


def attribute_in_while(x: Any, k: Any) -> Any:
    bx = SimpleNamespace(x=x)
    while bx.x.sum() < 50:
        bx.x = bx.x * k
    return bx.x


def if_else(x: Any, k: Any) -> Any:
    if x.sum() > 5:
        y = x * k
    else:
        y = x - k
    return y


def early_return(x: Any, k: Any) -> Any:
    if x.sum() > 5:
        return x * k
    return x


def conditional_value(x: Any, k: Any) -> Any:
    return (x * 2 if x.max() > 2 else x) + 1


def and_or(x: Any, k: Any) -> Any:
    if (x.sum() > 5 and x[0] < 3) or x[1] > 9:
        x = x * k
    return x


def asserts(x: Any, k: Any) -> Any:
    assert x.sum() > -100
    return x * k


def clips(x: Any, k: Any) -> Any:
    norm = x.norm()
    if norm > 1:
        x = x / norm
    return x, norm


def break_in_for(x: Any, k: Any) -> Any:
    for _i in range(6):
        x = x * k
        if x.sum() > 50:
            break
    return x


def continue_in_for(x: Any, k: Any) -> Any:
    for i in range(6):
        if x[i % 3] > 3:
            continue
        x = x * k
    return x


def attribute_in_if(x: Any, k: Any) -> Any:
    state = {"n": lib.tensor(0)}
    if x.sum() > 5:
        state["n"] = state["n"] + 1
    return state["n"], x


def rows(x: Any, k: Any) -> Any:
    h = x
    for row in lib.outer(x, x).repeat(7, 1):
        h = (h * row).sin() + k
    return h


def appends_in_for(x: Any, k: Any) -> Any:
    found = []
    for _i in range(20):
        x = (x @ lib.outer(x, x)).sin()
        found.append(x)
    return lib.stack(found)


def programs(module: Any) -> dict[str, Program]:
    """The programs above, of tensors of `module`."""
    scope: dict[str, Any] = {"__name__": "programs", "__file__": __file__}
    exec(compile(Path(__file__).read_text(), __file__, "exec"), scope)
    scope["lib"] = module
    return {
        name: value
        for name, value in scope.items()
        if isinstance(value, FunctionType) and value.__code__.co_varnames[:2] == ("x", "k")
    }


def answer(fn: Program, start: list[float]) -> Any:
    """What a call gives and leaves, as plain values."""
    x = lib.tensor(start)
    try:
        found = fn(x, 1.5)
    except (UnboundLocalError, IndexError) as error:
        return type(error).__name__
    parts = found if isinstance(found, tuple | list) else [found]
    return [p.tolist() if isinstance(p, lib.Tensor) else p for p in (*parts, x)]


def in_torch(fn: Program) -> str:
    """The graphs and breaks that torch.compile reports."""
    import torch

    torch._dynamo.reset()
    try:
        found = torch._dynamo.explain(fn)(torch.tensor(STARTS[0]), 1.5)
    except Exception as error:  # noqa: BLE001 - a row says so
        return type(error).__name__
    return f"{found.graph_count} graphs, {found.graph_break_count} breaks"


def main() -> None:
    try:
        import torch

        theirs = programs(torch)
    except ImportError:
        theirs = {}
    warnings.simplefilter("ignore")
    whole = wrong = whole_in_torch = 0
    for name, fn in programs(lib).items():
        compiled = jit(fn, backend="eager")
        wrong += sum(answer(compiled, start) != answer(fn, start) for start in STARTS)
        stats = compiled.stats
        whole += stats.splits == stats.fallbacks == 0
        other = in_torch(theirs[name]) if theirs else ""
        whole_in_torch += other == "1 graphs, 0 breaks"
        print(f"{name:22} {stats.graphs} graphs, {stats.splits} splits; torch: {other}")
    print(json.dumps({"one_graph": whole, "wrong": wrong, "one_graph_in_torch": whole_in_torch}))


if __name__ == "__main__":
    main()
