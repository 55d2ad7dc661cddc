"""Programs that show values of the run: a seed -> the text of a function of a tensor, an int, a
float and a bool, which differ from call to call.

Values (tensors, numbers of the run, sizes, ints that vary) are put into containers, of which text is
made, or given to functions of NumPy, of the standard library, and to what makes numbers and tensors.
"""

import random

VALUES = (
    "x * 2", "x.sum()", "x.sum().item()", "x.sum().int().item()", "(x.sum() > 3).item()", "n", "n * 2", "-n", "h",
    "b", "x.shape[0]", "x.shape", "len(x) * n", "[n, 1]", "(n, h)", "[n, [b]]", "n > 3", "complex(h, n)", "x.tolist()",
    "x.numpy()", "f'{x.sum().item():.3f}'", "np.float64(h)", "np.array([n, 1])", "eager.nn.Parameter(x * 2)",
    "o.items", "o.table", "o.held", "o", "Shown([n, h])",
)  # fmt: skip
CONTAINERS = (
    "v", "[v, 1]", "(v,)", "{'a': v}", "{'a': v}.values()", "{'a': v}.items()", "functools.partial(max, v)",
    "types.MappingProxyType({'a': v})", "collections.ChainMap({'a': v})", "collections.deque([v], maxlen=3)",
    "collections.defaultdict(list, a=v)", "collections.Counter({'a': v})", "collections.OrderedDict(a=v)", "Pair(v, 1)",
    "collections.OrderedDict(a=v).items()", "Held(v)", "Held(v).__eq__", "ValueError(v)", "KeyError(v, 1)",
    "types.SimpleNamespace(a=v)", "slice(v, None)", "[({'a': [[v]]},)]", "[[[[[[v]]]]]]", "collections.UserDict(a=v)",
    "list(enumerate([v]))", "list(map(lambda q: q, [v]))", "ExceptionGroup('g', [ValueError(v)])", "Shown(v)",
)  # fmt: skip
TEXTS = (
    "str(c)", "repr(c)", "ascii(c)", "format(c, '')", "f'{c}'", "f'{c!r:>90}'", "'{}'.format(c)", "'{!r}'.format(c)",
    "'{a}'.format(a=c)", "'{a!r}'.format_map({'a': c})", "'%s' % (c,)", "'%r' % (c,)", "'%(a)s' % {'a': c}", "print(c)",
    "print('a', c, sep='|')", "c.__str__()", "c.__repr__()", "'-'.join(map(str, [c]))", "json.dumps(c)", "len(str(c))",
    "str(c).encode()", "repr([repr(c)])", "'being captured' in str(c)", "ValueError(str(c))", "functools.partial(str, c)()",
)  # fmt: skip
CALLS = (
    "np.array(v)", "np.array([v])", "np.asarray([v, 1]) / 2", "np.array(v, dtype='f4')", "np.prod(v)", "np.sum(v)",
    "np.zeros(v)", "np.arange(v)", "np.float32(v)", "np.int64(v)", "np.maximum(v, 2)", "np.mean(v)", "np.clip(v, 0, 3)",
    "np.stack([v, v])", "np.concatenate([[v], [1]])", "np.arange(3) * v", "np.arange(3)[v]", "np.where(v, 1, 2)",
    "np.unique(v)", "np.full(3, v)", "np.zeros((3,)).reshape(v)", "np.isnan(v)", "np.dot(v, v)", "np.shape(v)",
    "np.result_type(v)", "np.linalg.norm([v, 1])", "x.numpy().astype(bool)", "x.numpy().mean()", "x.tolist()[v]",
    "math.sqrt(v)", "math.gcd(v, 6)", "math.prod([v, 2])", "math.fsum([v, 0.5])", "math.frexp(v)", "math.comb(9, v)",
    "operator.index(v)", "operator.countOf([1, 2, 4], v)", "struct.pack('i', v)", "struct.pack('>d', v)", "bytes(v)",
    "bytes([v])", "v.to_bytes(4, 'little', signed=True)", "v.bit_length()", "v.as_integer_ratio()", "hex(v)", "chr(v + 70)",
    "divmod(v, 3)", "divmod(7, v)", "divmod(v, x)", "pow(2, v, 7)", "round(v, 1)", "round(2.345, v)", "sum([v, 1])",
    "max(v, 3)", "sorted([v, 3, 1])", "int(v)", "int(v, 10)", "float(v)", "float(v, 1)", "complex(v)", "complex(v, 2)",
    "complex(2, v)", "bool(v)", "len(range(v))", "list(range(v))", "[1, 2, 3, 4][v:]", "'ab' * v", "'x'.zfill(v)",
    "'{:>{w}}'.format('a', w=v)", "'%*d' % (v, 3)", "f'{3.14159:.{v}f}'", "f'{v:04d}'", "'%x' % v", "json.dumps([v, 1])",
    "json.dumps({'a': v})", "json.dumps({v: 1})", "json.dumps(ValueError(v))", "datetime.timedelta(seconds=v)",
    "datetime.date.fromordinal(v + 5)", "fractions.Fraction(v, 3)", "decimal.Decimal(v)", "heapq.nsmallest(v, [3, 1, 2])",
    "bisect.bisect([1, 3, 5], v)", "list(itertools.repeat(1, v))", "list(itertools.islice(range(9), v))",
    "list(itertools.accumulate([v, 1]))", "list(itertools.combinations(range(4), v))", "collections.deque([1, 2, 3], v)",
    "collections.Counter([v, v])", "random.Random(v).random()", "random.Random(0).randint(0, v + 20)", "{v: 1}", "{v}",
    "Pair(v, 1)._asdict()", "dataclasses.asdict(Held(v))", "copy.deepcopy(v)", "eager.tensor(v)", "eager.tensor([v, 1j])",
    "eager.as_tensor([v])", "eager.tensor(v + 1j)", "eager.full((2,), v)", "eager.add(v, v)", "eager.mul(v, 2.5)",
    "eager.div(4, v)", "eager.zeros(v)", "eager.zeros(v * 2**70)", "eager.tril_indices(3, 3, v)", "eager.arange(v)",
    "x * v", "x + 1j * v", "x.unfold(0, v, 1)", "x.roll(v)", "x.reshape(v, -1)", "len(range(v, 2**63 + 9))",
)  # fmt: skip
HEAD = """
import bisect, collections, copy, dataclasses, datetime, decimal, fractions, functools, heapq, itertools
import json, math, operator, random, struct, types
import numpy as np
import eager
Pair = collections.namedtuple("Pair", "p q")

@dataclasses.dataclass
class Held:
    v: object

class Shown:
    def __init__(self, v):
        self.v = v

    def __repr__(self):
        return f"Shown({self.v})"

def outside(x, n, h, b):
    return types.SimpleNamespace(items=[n, h, x], table={"k": [n], 1: h}, held=Held([n, b]), more=ValueError(n))

def program(x, n, h, b, o):
"""


def program(seed):
    """The text of the program of this seed, whose last function is `program`."""
    rng = random.Random(seed)
    lines = [f"v = {rng.choice(VALUES)}"]
    if seed % 2:
        lines += [
            f"c = {rng.choice(CONTAINERS)}",
            f"return {rng.choice(TEXTS)}, {rng.choice(TEXTS)}",
        ]
    else:
        lines += [f"r = {rng.choice(CALLS)}", "return r, getattr(r, 'dtype', None), type(r)"]
    return HEAD + "".join(f"    {line}\n" for line in lines)
