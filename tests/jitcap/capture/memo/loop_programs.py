"""A generator of loops over items that are alike but for a few: what a round reads, writes, decides
and calls is drawn from a list, and so are the items that differ, and how."""

import operator
import random
import re

import numpy as np

import eager
from jitcap import jit

STATEMENTS = (
    "total = total + x.v.sum()",
    "total = total + scale * x.v.mean()",
    "x.v.mul_(0.5)",
    "x.v.add_(obj.step, alpha=0.1)",
    "x.n += 1",
    "obj.count += 1",
    "obj.last = x",
    "obj.step.add_(1)",
    "out.append(x.v.sum())",
    "out.append(x.name)",
    "if x.flag: total = total * 2",
    "if x.flag: continue",
    "if x.flag: break",
    "if x.n > 3: total = total - x.n",
    "if x.v.ndim == 1: total = total + 1",
    "if x.v is obj.held: total = total - 7",
    "if len(out) > 3: total = total + 100",
    "if obj.count > 3: total = total + 10",
    "a, b = x.pair; total = total + a - 2 * b",
    "a, *b = x.pair; total = total + a - 2 * len(b)",
    "a, b = x.two; total = total + a - 2 * b",
    "k = x.fn(*x.two); total = total + k",
    "k = x.fn(x.two[0], x.two[1]); total = total + k",
    "total = helper(x, total)",
    "total = obj.method(x, total)",
    "total = closed(x)(total)",
    "total = total + sum([p.sum() for p in x.parts])",
    "total = total + x.v.reshape(-1)[1:].sum()",
    "w = f'{x.name}-{x.n}'; out.append(w)",
    "total = total + len([*x.pair, x.name])",
    "total = total + dict(a=x.n, **x.table)['a']",
    "total = total + x.table[x.name]",
    "total = total + x.table.get(x.name, 5)",
    "total = total + table.get(x.name, 5)",
    "table[x.name] = x.n",
    "table.pop(x.name, None); total = total + len(table)",
    "table.setdefault(x.name, 3)",
    "total = total + ('a' in table)",
    "total = total + states[x]['w'].sum()",
    "s = states.get(x) or first(x); total = total + s['w'].sum(); s['w'].add_(1)",
    "with eager.no_grad(): total = total + x.v.sum()",
    "for j in range(2): total = total + x.v.sum() * j",
    "y = x.v * 2; total = total + y.sum(); del y",
    "last, this = this, x; total = total + last.n",
    "if x.flag: this = x",
    "if x.flag: mark = x.v.sum()",
    "total = total + mark",
    "x.v = x.v + 1",
    "x.v, total = x.v * 1, total + x.v.sum()",
    "x.parts[0].add_(x.v.sum())",
    "cells.append(lambda: x.n)",
    "total = total + next(counter)",
    "total = total + next(iter(x.pair))",
)
BLOCKS = (
    "try:\n    total = total + x.table[x.name]\nexcept KeyError:\n    total = total - 3",
    "try:\n    total = total + x.missing\nexcept AttributeError:\n    pass",
    "for q in x.parts:\n    if x.flag:\n        break\n    total = total + q.sum()",
    "match x.two:\n    case (1, k):\n        total = total + k\n    case _:\n        total = total - 1",
    "if x.v is None:\n    total = total + 3\nelse:\n    total = total + x.v.max()",
)
OVER = ("xs", "xs[:]", "tuple(xs)", "reversed(xs)", "zip(xs, xs)", "enumerate(xs)", "iter(xs)")
ODD = (
    "flag", "n", "name", "pair", "two", "fn", "table", "shape", "dtype", "none", "gone", "parts",
    "twice", "held", "three",
)  # fmt: skip
HEAD = """
def helper(x, total, more=2):
    if x.flag:
        return total - 1
    return total + x.v.sum() * more

def closed(x):
    return lambda y: y + x.n

class Obj:
    def __init__(self):
        self.count = 0
        self.step = eager.ones(())
    def method(self, x, total):
        self.count = self.count + x.n
        return total + x.v.sum() / (1 + self.count)

def step(xs, obj, states, table, scale):
    total, out, cells, this, mark = eager.zeros(()), [], [], xs[0], eager.ones(())
    counter = iter(range(100))
    def first(x):
        states[x] = {"w": x.v.reshape(-1)[:1] * 1}
        return states[x]
    for TARGET in OVER:
BODY
    return total, out, [c() for c in cells], this, mark
"""


class Item:
    def __init__(self, **fields):
        vars(self).update(fields)


def item(i, rng):
    value = eager.from_numpy(rng.standard_normal((2, 3)).astype(np.float32))
    return Item(
        v=value, n=1, flag=False, name="a", pair=[1, 2], two=(1, 2), fn=operator.add,
        table={"a": 1}, parts=[value * 1, value + 1],
    )  # fmt: skip


def change(xs, i, how, obj):
    x = xs[i]
    if x.v is None or not hasattr(x, "name"):  # is odd already
        return
    if how in ("flag", "n", "name", "pair", "two", "fn", "table"):
        old = getattr(x, how)
        new = {"flag": True, "n": 7, "name": "b", "pair": [3, 4], "two": (3, 4), "fn": max,
               "table": {"b": 2}}[how]  # fmt: skip
        setattr(x, how, new if old != new else old)
    elif how == "shape":
        x.v = x.v.reshape(-1)[:4] * 1
    elif how == "dtype":
        x.v = x.v.double()
    elif how == "none":
        x.v = None
    elif how == "gone":
        del x.name
    elif how == "parts":
        x.parts = (x.parts[0],)
    elif how == "twice":
        xs[i] = xs[0]
    elif how == "held":
        obj.held = x.v
    else:
        x.pair = [1, 2, 3]


def program(seed):
    """Source of a function, and what makes its arguments."""
    draw = random.Random(seed)
    lines = draw.choices(STATEMENTS, k=draw.randint(1, 4)) + draw.choices(
        BLOCKS, k=draw.random() < 0.2
    )
    draw.shuffle(lines)
    over = draw.choice(OVER) if draw.random() < 0.4 else "xs"
    target = {"zip(xs, xs)": "x, x_", "enumerate(xs)": "i, x"}.get(over, "x")
    body = "\n".join(f"        {part}" for line in lines for part in line.split("\n"))
    text = HEAD.replace("TARGET", target).replace("OVER", over).replace("BODY", body)
    count = draw.randint(4, 9)
    odd = [(draw.randrange(count), draw.choice(ODD)) for _ in range(draw.randint(0, 3))]

    def arguments(space):
        rng = np.random.default_rng(seed)
        xs = [item(i, rng) for i in range(count)]
        obj = space["Obj"]()
        obj.held = None
        states = {x: {"w": x.v * 1} for x in xs[: count - seed % 3]}
        for i, how in odd:
            change(xs, i, how, obj)
        return xs, obj, states, {"a": 1, "c": 2}, 0.5

    return text, arguments


def shown(value, names, depth=0):
    """A value with all it holds as data; objects by the order in which they are met."""
    if isinstance(value, eager.Tensor):
        return (
            "tensor",
            str(value.dtype),
            value.shape,
            value._version,
            value.detach().numpy().tolist(),
        )
    if isinstance(value, list | tuple):
        return type(value).__name__, [shown(x, names, depth + 1) for x in value]
    if isinstance(value, dict):
        return "dict", [(shown(k, names), shown(v, names)) for k, v in value.items()]
    if hasattr(value, "__dict__") and not callable(value):
        if id(value) in names:
            return "known", names[id(value)]
        names[id(value)] = len(names)
        return type(value).__name__, shown(vars(value), names)
    return value


def outcome(space, arguments, fn):
    """What two calls give and leave."""
    given, found = arguments(space), []
    for _ in range(2):
        try:
            found.append(fn(*given))
        except Exception as error:  # noqa: BLE001 - the program's
            found.append((type(error).__name__, re.sub("0x[0-9a-f]+", "", str(error))))
    names = {}
    return shown(given, names), shown(found, names)


def compared(seed, decorate=jit):
    """(source, outcome in plain Python, outcome compiled) of a program."""
    text, arguments = program(seed)
    found = []
    for how in (lambda fn: fn, decorate):
        space = {"eager": eager}
        exec(compile(text, f"<loop {seed}>", "exec"), space)
        found.append(outcome(space, arguments, how(space["step"])))
    return text, *found
