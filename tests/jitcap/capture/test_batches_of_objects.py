"""Batches that are lists of examples: flags among them, and tensors that several share, differ at
every call; that is one version, and what the program asks of them is right."""

import collections
import copy
import random
import types

import numpy as np
import pytest

import eager
import eager.nn.functional as F
from eager import nn
from jitcap import jit


def table():
    return eager.arange(12.0).reshape(3, 4)


def matched(v):
    match v:
        case True:
            return "T"
        case False:
            return "F"


def changed(b):
    b = list(b)
    b[0] = not b[0]
    b.append(b[1])
    return b, b[0], [type(v) for v in b]


def stored(b, row):
    for i, v in enumerate(b[:4]):
        row[i] = v
    return row


# What is asked of a list of six flags, `b`.
QUESTIONS = """
b[0] is True
b[0] is not True
b[0] is b[1]
not b[0]
type(b[0])
isinstance(b[0], bool), isinstance(b[0], int)
table()[b[0]]
table()[b[0], b[1]]
table()[[b[0],b[1],b[2]]]
table()[eager.tensor(b[:3])]
table().sum(0, keepdim=b[0])
table().std(1, unbiased=b[0])
F.dropout(table(), 0.0, training=b[0])
eager.sort(table(), descending=b[0])[0]
table().cumsum(b[0])
table().argsort(1, b[1])
f'{b[0]}', f'{b[1]:>6}', f'{b[2]!r}', '%s %d' % (b[0], b[1]), str(b), repr(b)
b[0] + b[1], b[0] - b[1], b[0] * 3, b[0] / 2, -b[0], +b[0], abs(b[0])
b[0] & b[1], b[0] | b[2], b[0] ^ b[3], b[0] & 1, b[1] | 6
b[0] << 2, b[0] // 1, b[0] ** 2
sum(b), any(b), all(b), max(b), min(b), len(b)
b.count(True), b.index(b[3]), True in b
sorted(b), list(reversed(b)), set(b), tuple(b)
eager.tensor(b)
eager.tensor(b, dtype=eager.float32), eager.tensor([float(v) for v in b]), eager.tensor([1 - v for v in b])
eager.as_tensor(b).float() * 2
eager.tensor([[v, not v] for v in b])
eager.stack([eager.tensor(v) for v in b])
table() * b[0], table() + b[1], b[2] * table(), table().bool() & b[0], table() == b[0]
eager.where(eager.tensor(b[:4]), table()[0], -table()[0])
eager.full((2,), b[0]), eager.full((2,), b[0], dtype=eager.float32)
int(b[0]), float(b[1]), complex(b[2]), bool(b[3]), str(b[4])
{True: 'y', False: 'n'}[b[0]], ('n','y')[b[1]], [1,2,3][b[0]]
b[0] and table(), b[1] or 5, (1 if b[2] else 2)
b[0] == 1, b[0] == True, b[0] != b[1], b[0] < b[1], b[0] is not None, b[0] in (0, 2)
hash(b[0]), range(b[0]), list(range(b[1])), 'ab' * b[2], [0] * b[3]
json.dumps(b)
[x for x, f in zip(range(6), b) if f]
[i for i, f in enumerate(b) if not f]
dict(zip('abcdef', b))
stored(b, eager.zeros(4))
stored(b, eager.zeros(4, dtype=eager.bool))
b[0].real, b[0].bit_length(), b[0].__class__, b[0].conjugate()
eager.zeros(2, requires_grad=b[0]).requires_grad
table().masked_fill(eager.tensor(b[:4]), -1.0)
eager.tensor(b[0]).dtype, eager.tensor([b[0], 2]).dtype, eager.tensor([b[0], 1.5]).dtype
eager.result_type(table(), b[0]), eager.is_tensor(b[0])
table().view(3 + b[0] * 0, 4), table().roll(b[0], 1), eager.arange(b[0] + 2)
table().flip(b[0]) if b[1] else table().transpose(b[0], 1)
F.interpolate(table()[None], scale_factor=2.0, mode='linear', align_corners=b[0])
F.avg_pool1d(table()[None], 2, ceil_mode=b[0], count_include_pad=b[1])
eager.linalg.norm(table(), keepdim=b[0]), eager.allclose(table(), table(), equal_nan=b[0])
table().softmax(b[0]), table().unsqueeze(b[1]), table().size(b[2])
F.one_hot(eager.tensor([int(v) for v in b]), 2)
eager.cat([table()[i % 3] * v for i, v in enumerate(b)]).reshape(6, 4)
matched(b[0])
[v.__and__(True) for v in b], [v == False for v in b], sum(v is True for v in b)
b[::2], b[0:3] + b[3:], b * 2, [*b, not b[0]]
changed(b)
"""


def plain(x):
    """A value that compares by type and contents."""
    if isinstance(x, eager.Tensor):
        return "tensor", str(x.dtype), tuple(x.shape), x.requires_grad, x.tolist()
    if isinstance(x, list | tuple):
        return type(x).__name__, [plain(v) for v in x]
    if isinstance(x, dict):
        return "dict", [(plain(k), plain(v)) for k, v in x.items()]
    return type(x).__name__, repr(x)


def outcome(fn, *args):
    try:
        return plain(fn(*args))
    except Exception as error:  # noqa: BLE001 - compared with that of plain Python
        return type(error).__name__, str(error)


@pytest.mark.parametrize("kind", [list, pytest.param(tuple, marks=pytest.mark.once)])
@pytest.mark.parametrize("text", QUESTIONS.strip().splitlines())
def test_flags_are_bools(text, kind):
    rng = random.Random(0)
    fn = eval(f"lambda b: ({text})")  # noqa: S307 - of this file
    jitted = jit(fn, backend="eager")
    for _ in range(7):
        flags = kind(rng.random() < 0.5 for _ in range(6))
        assert outcome(jitted, flags) == outcome(fn, flags), flags
    assert jitted.stats.fallbacks == 0


HOLDERS = {
    "tuples": (lambda **values: (*values.values(),), tuple),
    "dicts": (dict, lambda example: example.values()),
    "objects": (types.SimpleNamespace, lambda example: (example.x, example.done, example.action)),
}


@pytest.mark.parametrize("kind", HOLDERS)
def test_flags_are_data(kind):
    """As many as a batch has: a version for each pattern would be one for each call."""
    make, values = HOLDERS[kind]

    @jit(backend="eager")
    def mean(batch):
        xs, flags, actions = zip(*map(values, batch), strict=True)
        done = eager.tensor(flags, dtype=eager.float32)
        return (eager.stack(xs).sum(1) * (1 - done) + eager.tensor(actions)).mean()

    rng = random.Random(1)
    for _ in range(12):
        batch = [(eager.ones(2) * i, rng.random() < 0.2, rng.randrange(2)) for i in range(32)]
        want = sum(2 * i * (1 - d) + a for i, (_, d, a) in enumerate(batch)) / 32
        given = [make(x=x, done=d, action=a) for x, d, a in batch]
        assert mean(given).item() == pytest.approx(want)
    assert mean.stats.compiles <= 3


def _draws(memory, places):
    return eager.stack([memory[i] for i in places]).sum(0), len(memory)


def _changes(memory, places):
    """Reads and writes at numbers that may be the same, and at constants."""
    seen = [memory[2], *(memory[i] for i in places)]
    memory[places[0]] = memory[places[-1]] + memory[3]
    memory[2] = seen[4] * 2
    return eager.stack([*seen, *(memory[i] for i in places), memory[-1]]), memory[
        places[1]
    ] is seen[2]


def _goes_through(memory, places):
    i = places[0]
    part = memory[i : i + 12]
    memory[i + 1] = part[0] * 2
    return eager.stack(part), part[1] is memory[i], memory[i : i + 2], len(part), part[-1]


@pytest.mark.parametrize("program", [_draws, _changes, _goes_through])
def test_a_memory_is_read_at_many_places(program):
    """A batch that the step draws by itself. Places that are the same are another version."""
    rng = random.Random(2)
    compiled = jit(program, backend="eager")
    memory, other = ([eager.ones(2) * k for k in range(60)] for _ in range(2))
    draws = [rng.sample(range(4, 50), 24) for _ in range(12)]
    for places in draws:
        assert plain(compiled(memory, places)) == plain(program(other, places))
    assert (compiled.stats.compiles, compiled.stats.splits) == (2, 0)
    for places in [rng.choices(range(60), k=24) for _ in range(4)] + [[2] * 24, draws[0]]:
        assert plain(compiled(memory, places)) == plain(program(other, places))
        assert plain(memory) == plain(other)


def test_examples_share_tensors():
    """The next state of one transition is the state of another: which, differs at every call."""
    Transition = collections.namedtuple("Transition", "state action reward after done")
    rng = random.Random(3)
    net, other = nn.Linear(3, 2), nn.Linear(3, 2)
    optimizer = eager.optim.Adam(net.parameters(), lr=0.1)

    def learn(batch):
        b = Transition(*zip(*batch, strict=True))
        now = net(eager.stack(b.state)).gather(1, eager.tensor(b.action)[:, None]).squeeze(1)
        with eager.no_grad():
            best = other(eager.stack(b.after)).max(1).values
            target = eager.tensor(b.reward) + 0.9 * best * (1 - eager.tensor(b.done).float())
        loss = F.smooth_l1_loss(now, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    states = [eager.tensor([rng.random() for _ in range(3)]) for _ in range(13)]
    memory = [
        Transition(states[i], rng.randrange(2), rng.random(), states[i + 1], i % 4 == 3)
        for i in range(12)
    ]
    batches = [rng.sample(memory, 8) for _ in range(30)]
    start = copy.deepcopy([*net.state_dict().values()])
    want = [learn(batch).item() for batch in batches]
    net.load_state_dict(dict(zip(net.state_dict(), start, strict=True)))
    optimizer = eager.optim.Adam(net.parameters(), lr=0.1)
    step = jit(learn, backend="eager")
    assert [step(batch).item() for batch in batches] == pytest.approx(want, rel=1e-5)
    assert step.stats.compiles <= 6  # two are those of an optimizer's first steps


# ---- what a program asks of tensors of which some are the same


def identities(b):
    return [b[i] is b[j] for i in range(4) for j in range(i)], sum(b)


def writes(b):
    b[0].add_(1)
    return [t.sum() for t in b]


def writes_what_it_read(b):
    twice = b[1] * 2
    b[2].mul_(twice)
    return b[0] + b[1] + b[2] + b[3]


def returns(b):
    return [b[0], b[1], b[0] + b[2]], b[0] is b[1]


def counts(b):
    found = {}
    for t in b:
        found[t] = found.get(t, 0) + 1
    return list(found.values()), sum(b)


def members(b):
    return len({*b}), len({id(t) for t in b}), b[3] - b[0]


def marks(b):
    b[0].mark = 1
    return [hasattr(t, "mark") for t in b], b[0] + b[1]


def becomes_a_parameter(b):
    b[0].requires_grad_(True)
    (b[0] * b[1]).sum().backward()
    return [t.grad for t in b], [t.requires_grad for t in b]


def gets_data(b):
    b[1].data = b[1] * 3
    return b[0] + b[1]


def gets_a_gradient(b):
    b[1].grad = eager.ones(2)
    return [t.grad is None for t in b], b[0] + b[1]


def writes_a_part(b):
    b[0][0:1].fill_(7)
    return b[1] + b[2]


def writes_out(b):
    eager.add(b[0], b[1], out=b[2])
    return b[2], b[3] + 0


def copies(b):
    c = copy.deepcopy(b)
    return [c[i] is c[j] for i in range(4) for j in range(i)], c[0] + c[1]


def swaps(b):
    b[0], b[1] = b[1], b[0]
    return b[0] - b[1]


def reads(b):
    weight = eager.ones(2, requires_grad=True)
    sum((weight * t).sum() for t in b).backward()
    return weight.grad


SHARED = [
    identities, writes, writes_what_it_read, returns, counts, members, marks, becomes_a_parameter,
    gets_data, gets_a_gradient, writes_a_part, writes_out, copies, swaps, reads,
]  # fmt: skip


@pytest.mark.parametrize("fn", SHARED, ids=lambda fn: fn.__name__)
def test_shared_tensors(fn):
    for seed in range(3):
        jitted, rng = jit(fn, backend="eager"), random.Random(seed)
        for call in range(8):
            chosen = [rng.randrange(5) for _ in range(4)] if call < 7 else [0, 1, 2, 3]

            def run(f, chosen=chosen):
                tensors = [eager.ones(2) * (k + 1) for k in range(5)]
                batch = [tensors[i] for i in chosen]
                found = outcome(f, batch)
                places = [[i for i, t in enumerate(tensors) if t is x] for x in batch]
                return found, plain(tensors), places

            assert run(jitted) == run(fn), (seed, chosen)


def shares_arrays(b):
    return [eager.from_numpy(x) for x in b], b[0] is b[1]


def writes_arrays(b):
    found = eager.from_numpy(b[1]).mul_(2).sum() + eager.as_tensor(b[2])
    b[0][:] = 7
    return found, [float(x[0]) for x in b]


def tells_arrays(b):
    return len({id(x) for x in b}), eager.as_tensor(b[0]) + eager.as_tensor(b[3])


def stacks_arrays(b):
    return eager.stack([eager.from_numpy(x) for x in b]), eager.tensor(np.stack(b))


@pytest.mark.filterwarnings("ignore:@jit")
@pytest.mark.parametrize("fn", [shares_arrays, writes_arrays, tells_arrays, stacks_arrays])
def test_shared_arrays(fn):
    jitted, rng = jit(fn, backend="eager"), random.Random(0)
    for call in range(8):
        chosen = [rng.randrange(5) for _ in range(4)] if call < 7 else [0, 1, 2, 3]

        def run(f, chosen=chosen):
            arrays = [np.full(2, k + 1, np.float32) for k in range(5)]
            return outcome(f, [arrays[i] for i in chosen]), [a.tolist() for a in arrays]

        assert run(jitted) == run(fn), chosen
    if fn is shares_arrays:
        assert jitted.stats.fallbacks == 0


def test_examples_share_arrays():
    rng = random.Random(1)
    states = [np.full(3, i, np.float32) for i in range(13)]

    @jit(backend="eager")
    def total(batch):
        return eager.stack([eager.from_numpy(a) - eager.from_numpy(b) for a, b in batch]).sum()

    for _ in range(20):
        chosen = [rng.randrange(12) for _ in range(8)]
        assert total([(states[i], states[i + 1]) for i in chosen]).item() == -24
    assert total.stats.compiles <= 5
