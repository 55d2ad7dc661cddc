"""A program twice, plainly and under @jit: everything that can be seen of its tensors is compared.

A program takes `jit` (a decorator, or nothing), `note(*values)` (what is to be compared: tensors,
also in containers, modules and objects) and `attempt(fn, *args)` (a call that may raise).
"""

import warnings

import numpy as np

import eager
from eager import Tensor, nn
from jitcap import jit

OWN = frozenset(
    "_array _storage _requires_grad _node _index _grad _view _hooks _accumulate_hooks _retains".split()
)


def floats(*shape, g=True, seed=0):
    data = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return eager.tensor(data, requires_grad=g)


def tensors_in(value, name, found):
    """(path, value) of everything that is held by a value."""
    if isinstance(value, Tensor):
        found.append((name, value))
    elif isinstance(value, list | tuple):
        for i, x in enumerate(value):
            tensors_in(x, f"{name}[{i}]", found)
    elif isinstance(value, dict):
        for k, x in value.items():
            tensors_in(x, f"{name}[{k}]", found)
    elif isinstance(value, nn.Module):
        for k, x in [*value.named_parameters(), *value.named_buffers()]:
            tensors_in(x, f"{name}.{k}", found)
    elif hasattr(value, "__dict__") and not callable(value):
        for k, x in vars(value).items():
            tensors_in(x, f"{name}.{k}", found)
    else:
        found.append((name, value))


def describe(named):
    """Each tensor as it is by itself, and which of the others it is, counts with, shares memory
    with."""
    rows = []
    for name, t in named:
        if not isinstance(t, Tensor):
            rows.append({"name": name, "value": t if isinstance(t, float) else repr(t)[:100]})
            continue
        others = [(n, u) for n, u in named if isinstance(u, Tensor)]
        row = {
            "name": name, "class": type(t), "shape": tuple(t.shape), "stride": t.stride(),
            "offset": t.storage_offset(), "dtype": t.dtype, "requires_grad": t.requires_grad,
            "leaf": t.is_leaf, "grad_fn": t.grad_fn and t.grad_fn.name(), "output": t.output_nr,
            "version": t._storage.version, "inference": t.is_inference(), "view": t._base is not None,
            "base": [n for n, u in others if u is t._base],
            "same": [n for n, u in others if u is t],
            "counter": [n for n, u in others if u._storage is t._storage],
            "memory": [n for n, u in others if np.shares_memory(u._array, t._array)],
            "extra": sorted(vars(t).keys() - OWN), "data": np.array(t._array).tolist(),
        }  # fmt: skip
        if (grad := t._grad) is not None:  # without the warning
            row["grad"] = np.array(grad._array).tolist(), grad.stride(), grad.requires_grad
        rows.append(row)
    return rows


def run(program, backend):
    """What a program noted, and the jitted functions in it (`backend` None: none)."""
    rows, functions = [], []

    def note(*values):
        named = []
        for i, value in enumerate(values):
            tensors_in(value, str(i), named)
        rows.append(describe(named))

    def attempt(fn, *args, **kwargs):
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            rows.append(("raised", type(error)))

    def decorate(fn):
        if backend is None:
            return fn
        functions.append(jit(fn, backend=backend))
        return functions[-1]

    eager.manual_seed(0)
    program(decorate, note, attempt)
    return rows, functions


def close(a, b):
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (a != a and b != b) or abs(a - b) <= 1e-5 * max(1, abs(a), abs(b))
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(close, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k]) for k in a)
    return type(a) is type(b) and a == b


def check(program, backend="eager", *, splits=0, fallbacks=0, ignore=()):
    """Both runs note the same, with this many splits and fallbacks (None: any)."""
    expected, _ = run(program, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got, functions = run(program, backend)
    assert len(got) == len(expected), f"{got}\n{expected}"
    for step, (a, b) in enumerate(zip(got, expected, strict=True)):
        if isinstance(a, tuple) or isinstance(b, tuple):
            assert a == b, f"step {step}"
            continue
        assert [row["name"] for row in a] == [row["name"] for row in b], f"step {step}"
        for x, y in zip(a, b, strict=True):
            for key in y.keys() | x.keys() - {*ignore}:
                if key not in ignore:
                    assert close(x.get(key), y.get(key)), f"step {step}, {x['name']}: {key}"
    for fn in functions:
        assert splits is None or fn.stats.splits == splits, fn.stats
        assert fallbacks is None or fn.stats.fallbacks == fallbacks, fn.stats
