"""Text that another call has another of: handed on it is compiled for once, looked into for each."""

import json
import warnings

import pytest

import eager
import eager.nn.functional as F
from jitcap import jit


def outcome(fn, *args):
    """The answer, with tensors as they print, or the exception."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            found = repr(fn(*args))
        except Exception as error:
            found = repr(error)
    return found, [str(each.message) for each in warned]


def _raises(t):
    raise ValueError(f"no {t}")


def _is_caught(t):
    try:
        return t + 1
    except TypeError as error:
        return str(error)


NAMES = [f"{'x' * i}{i}.png" for i in range(7)]
HANDED_ON = {
    "returned": lambda x, t: (x * 2, t, [t], {"k": t}, (t,) * 2),
    "formatted": lambda x, t: f"{t}: {x.sum().item():.1f} {t!r:>9}" + "%s|%5s" % (t, t) + t,
    "joined": lambda x, t: ("{} {a}".format(t, a=t), ", ".join([t, "b"]), "run/" + t, str(t)),
    "json": lambda x, t: json.dumps({"name": t, "loss": 1}),
    "type": lambda x, t: (x, type(t).__name__, isinstance(t, str), t is None),
    "raised": lambda x, t: _raises(t),
    "warned": lambda x, t: warnings.warn(f"file {t}", stacklevel=2),
}
LOOKED_INTO = {
    "compared": lambda x, t: (x * 2 if t == NAMES[2] else x, t < "c", t in NAMES, t is NAMES[1]),
    "asked": lambda x, t: (x * len(t), t.upper(), t[0], [c for c in t], bool(t), t or "none"),
    "a key": lambda x, t: ({t: x}, {NAMES[1]: 1}.get(t), {t, "z"} == {"z", NAMES[3]}),
    "caught": lambda x, t: (_is_caught(t), x),
    "a specification": lambda x, t: ("%c" % t, x) if len(t) == 1 else f"{3.5:{t[-1:]}}",
    "an argument": lambda x, t: F.mse_loss(x, x * 2, reduction=t),
    "an attribute": lambda x, t: getattr(x, t)(),
}


@pytest.mark.filterwarnings("ignore:@jit")
@pytest.mark.parametrize("name", [*HANDED_ON, *LOOKED_INTO])
def test_text_that_varies(name):
    program = (HANDED_ON | LOOKED_INTO)[name]
    compiled, x = jit(program, backend="eager"), eager.tensor([1.0, 2.0])
    for t in [*NAMES, "mean", "sum", "exp", "f", NAMES[2]]:
        assert outcome(compiled, x, t) == outcome(program, x, t)
    assert not compiled.stats.splits
    if name in HANDED_ON:
        assert compiled.stats.compiles <= 2


@pytest.mark.parametrize("kind", [tuple, list])
def test_texts_of_a_batch(kind):
    """Beside a mode, which is one of two."""

    def step(x, batch):
        names, mode = batch["name"], batch["mode"]
        y = x * 2 if mode == "double" else x
        return [(n, y[i]) for i, n in enumerate(names)]

    compiled, x = jit(step, backend="eager"), eager.tensor([1.0, 2.0, 3.0])
    for k in range(12):
        names = kind(f"{k}-{i}" for i in range(3))
        batch = {"name": names, "mode": ("double", "single")[k % 2]}
        assert outcome(compiled, x, batch) == outcome(step, x, batch)
    assert compiled.stats.compiles <= 4


def test_the_identity_of_texts_that_vary():
    def step(x, a, b):
        return x, a is b

    compiled, x = jit(step, backend="eager"), eager.ones(2)
    for k in range(5):
        text = f"name {k}"
        assert compiled(x, text, text)[1]
        assert not compiled(x, text, f"name {k + 1}")[1]
