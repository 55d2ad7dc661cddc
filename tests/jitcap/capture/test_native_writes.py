"""What C code, or a library's class, is told to write by one way of a branch was not written if the run
goes the other way; and what is written to an object from outside stays written."""

import numpy as np
import pytest

import eager
from jitcap import jit

pytestmark = pytest.mark.filterwarnings("ignore::jitcap.JitcapWarning")  # they are split

CASES = {  # made before the branch; written in one way of it; what is asked behind
    "what is registered": (
        "import abc\n    class C: pass\n    class A(abc.ABC): pass", "A.register(C)", "isinstance(C(), A)"
    ),
    "flags": ("a = np.ones(3)", "a.flags.writeable = False", "a.flags.writeable"),
    "an item of flags": ("a = np.ones(3)", "a.flags['WRITEABLE'] = False", "a.flags.writeable"),
    "flags held": ("a = np.ones(3); f = a.flags", "f.writeable = False", "a.flags.writeable"),
    "a record": ("a = np.zeros(2, [('n', 'i4')]); v = a[0]", "v['n'] = 5", "a.tolist()"),
    "names of fields": ("d = np.dtype([('n', 'i4')])", "d.names = ('m',)", "d.names"),
    "a polynomial": ("p = np.poly1d([1, 2])", "p[0] = 5", "p.coeffs.tolist()"),
    "a module": ("import types; m = types.ModuleType('m')", "m.n = 4", "getattr(m, 'n', 0)"),
    "a view of memory": ("a = np.ones(3); m = memoryview(a)", "m[0] = 5.0", "a.tolist()"),
    "bytes of a file": ("import io; b = io.BytesIO(b'abc')", "b.getbuffer()[0] = 65", "b.getvalue()"),
}  # fmt: skip


def compared(fn, other, *values):
    step = jit(other, backend="eager")
    for value in values:
        results = [repr(f(eager.tensor([value, value]))) for f in (fn, step)]
        assert results[0] == results[1], step.stats


def defined(text):
    scope = {"np": np}
    exec(text, scope)
    return scope["fn"]


@pytest.mark.parametrize("name", CASES)
def test_one_way_writes(name):
    make, write, look = CASES[name]
    text = f"def fn(x):\n    {make}\n    if x.sum() > 0:\n        {write}\n    return x, {look}"
    compared(defined(text), defined(text), 1.0, -1.0, 1.0, -1.0)


@pytest.mark.parametrize(
    ("make", "write"),
    [
        ("held = np.zeros(2, [('n', 'i4')])[0]", "held['n'] += 5; now = int(held['n'])"),
        ("held = np.rec.array([(1, 2.0)], dtype=[('n', 'i4'), ('m', 'f4')])[0]", "held.n += 1; now = int(held.n)"),
        ("held = np.dtype([('n', 'i4')])", "held.names = (held.names[0] + 'n',); now = held.names"),
        (
            "import functools\nheld = functools.partial(int, '3')",
            "held.__setstate__((int, (str(held() + 1),), {}, None)); now = held()",
        ),
    ],
)  # fmt: skip
def test_what_is_written_outside_stays(make, write):
    """They were taken for constants, which they equalled whatever was written."""
    text = f"{make}\ndef fn(x):\n    {write}\n    return x + 1, now"
    compared(defined(text), defined(text), 1.0, 1.0, 1.0)
