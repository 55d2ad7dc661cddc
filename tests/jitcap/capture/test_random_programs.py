"""Random Python functions without tensors: plain CPython against capture, whole and cut in pieces.

A failure prints the program and its seed; `fuzz_seeds` says how to run others.
"""

import random
import warnings

import fuzz_seeds
import pytest

from jitcap import jit

from .harness import check, outcome, plain
from .test_split import Chopper


class Writer:
    """Writes statements over the variables a, b (ints), xs (list of ints), d (dict), log (list)."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.lines = []
        self.names = ["a", "b"]
        self.loops = 0

    def pick(self, *options):
        return self.rng.choice(options)

    def number(self, depth=0):
        name = self.rng.choice(self.names)
        if depth > 2:
            return self.pick(name, str(self.rng.randint(-3, 9)))
        one, two = self.number(depth + 1), self.number(depth + 1)
        return self.pick(
            name, str(self.rng.randint(-3, 9)), f"({one} {self.pick('+', '-', '*', '^', '|')} {two})",
            f"({one} % 7)", f"abs({one})", "len(xs)", f"({one} if {self.test()} else {two})", f"max({one}, {two})",
            f"f({one})", f"d.get({one} % 5, {two})", f"sum(v * {one} for v in xs[:3])", f"xs[{one} % max(len(xs), 1)]",
            f"obj.bump({one})", "obj.total", f"(lambda q, r={one}: q - r)({two})",
        )  # fmt: skip

    def test(self):
        return self.pick(
            "a < b", "len(xs) > 3", "a % 2", "b in xs", "not d", "a == b or xs", "obj.total > 4 and a", "1 in d", "xs and xs[0] > a",
        )  # fmt: skip

    def block(self, indent, depth):
        for _ in range(self.rng.randint(1, 4)):
            self.statement(indent, depth)

    def add(self, indent, text):
        self.lines.append("    " * indent + text)

    def statement(self, indent, depth):
        kinds = [
            "assign",
            "append",
            "item",
            "aug",
            "attribute",
            "unpack",
            "print",
            "comprehension",
            "delete",
        ]
        if depth < 3:
            kinds += ["if", "for", "while", "try", "with", "def", "match", "gen"]
        getattr(self, "write_" + self.rng.choice(kinds))(indent, depth)

    def write_assign(self, i, _):
        name = self.pick("a", "b", "c", "e")
        self.add(i, f"{name} = {self.number()}")
        if i == 1 and name not in self.names:
            self.names.append(name)

    def write_append(self, i, _):
        self.add(
            i,
            self.pick(
                f"xs.append({self.number()})",
                f"xs.insert(0, {self.number()})",
                f"log.append(('s', {self.number()}))",
            ),
        )

    def write_item(self, i, _):
        self.add(
            i,
            self.pick(
                f"d[{self.number()} % 5] = {self.number()}",
                f"if xs: xs[-1] = {self.number()}",
                f"d.setdefault({self.number()} % 5, []) ",
            ),
        )

    def write_aug(self, i, _):
        self.add(i, f"{self.pick('a', 'b')} {self.pick('+=', '-=', '*=')} {self.number()} % 11")

    def write_attribute(self, i, _):
        self.add(
            i,
            self.pick(
                f"obj.total = {self.number()}",
                f"obj.extra = {self.number()}",
                f"setattr(obj, 'z', {self.number()})",
            ),
        )

    def write_unpack(self, i, _):
        self.add(
            i, self.pick("a, b = b, a", "a, *_ = [b, *xs]", "(a, b), _ = (b, a), d", "[a] = [b]")
        )

    def write_print(self, i, _):
        self.add(i, f"print({self.number()}, f'{{a!r:>4}}', xs[:2])")

    def write_comprehension(self, i, _):
        self.add(i, self.pick(
            f"xs = [v + {self.number()} for v in xs if v % 3][:6]", "d = {k: v for k, v in d.items() if k}",
            "xs = sorted(set(v for v in xs if isinstance(v, int)), key=lambda v: -v)", "log.extend((u, v) for u in range(2) for v in range(u))",
        ))  # fmt: skip

    def write_delete(self, i, _):
        self.add(
            i,
            self.pick(
                "d.pop(a % 5, None)",
                "xs[:1] = []",
                "d.update({a % 5: b})",
                "xs = xs[::-1]",
                "d = dict(d, k=a)",
            ),
        )

    def write_if(self, i, depth):
        self.add(i, f"if {self.test()}:")
        self.block(i + 1, depth + 1)
        if self.rng.random() < 0.5:
            self.add(i, "else:")
            self.block(i + 1, depth + 1)

    def write_for(self, i, depth):
        self.add(i, f"for a in {self.pick('range(3)', 'xs[:3]', 'list(d)[:2]', 'count(3)')}:")
        self.add(i + 1, "a = a if isinstance(a, int) else 0")
        self.block(i + 1, depth + 1)
        self.add(i + 1, self.pick("pass", "if b > 5: break", "if a: continue", "log.append(a)"))

    def write_while(self, i, depth):
        self.loops += 1
        guard = f"w{self.loops}"
        self.add(i, f"{guard} = 0")
        self.add(i, f"while {guard} < 3 and ({self.test()}):")
        self.add(i + 1, f"{guard} += 1")
        self.block(i + 1, depth + 1)

    def write_try(self, i, depth):
        self.add(i, "try:")
        self.block(i + 1, depth + 1)
        self.add(
            i + 1,
            self.pick("raise ValueError(a)", "d['missing']", "1 // (a % 2)", "xs[99]", "pass"),
        )
        self.add(
            i, self.pick("except (ValueError, KeyError) as error:", "except Exception as error:")
        )
        self.add(i + 1, "log.append(type(error).__name__)")
        if self.rng.random() < 0.5:
            self.add(i, "finally:")
            self.block(i + 1, depth + 1)

    def write_with(self, i, depth):
        self.add(i, f"with Guard(log, {self.pick('True', 'False')}) as g:")
        self.block(i + 1, depth + 1)
        self.add(i + 1, self.pick("pass", "g.note(a)", "if a > 3: raise RuntimeError('w')"))

    def write_def(self, i, depth):
        self.add(i, "def f(q, k=2):")
        self.add(i + 1, self.pick("nonlocal b", "pass"))
        self.add(i + 1, self.pick("b = q", "log.append(q)", "q = q + len(xs)"))
        self.add(i + 1, "return q * k - 1")

    def write_match(self, i, depth):
        self.add(i, f"match ({self.number()} % 3, xs[:2]):")
        self.add(i + 1, "case (0, [p, *_]): a = p if isinstance(p, int) else 1")
        self.add(i + 1, f"case (1 | 2 as m, _) if m: b = m + {self.number()}")
        self.add(i + 1, "case _: log.append('none')")

    def write_gen(self, i, depth):
        self.add(i, "def gen(n):")
        self.add(i + 1, "for r in range(n):")
        self.add(i + 2, "got = yield r + a")
        self.add(i + 2, "if got: log.append(got)")
        self.add(
            i, "it = gen(3); log.append(next(it)); log.append(it.send(5)); log.append(list(it))"
        )

    def program(self):
        self.add(0, "def program(a, b, xs, d, obj, log):")
        self.add(1, "f = lambda q, k=2: q * k - 1")
        for _ in range(self.rng.randint(4, 9)):
            self.statement(1, 0)
        self.add(1, "return a, b, xs, d, obj.total, f(2)")
        return "\n".join(self.lines)


class Obj:
    def __init__(self):
        self.total = 1

    def bump(self, by):
        self.total += by % 5
        return self.total


class Guard:
    def __init__(self, log, swallow):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("in")
        return self

    def note(self, x):
        self.log.append(x)

    def __exit__(self, kind, value, tb):
        self.log.append(kind and kind.__name__)
        return self.swallow


def count(n):
    while n:
        yield n
        n -= 1


def define(seed):
    text = Writer(seed).program()
    scope = {"Guard": Guard, "count": count}
    exec(compile(text, f"<random {seed}>", "exec"), scope)
    return scope["program"], text


def arguments(seed):
    rng = random.Random(seed)
    return (
        rng.randint(0, 9),
        rng.randint(0, 9),
        [rng.randint(0, 9) for _ in range(4)],
        {1: 2, 3: 4},
        Obj(),
        [],
    )


def one(seed):
    """One program through @jit, its arguments changed between calls, and in pieces. Raises
    AssertionError for a difference; gives the counts."""
    fn, text = define(seed)
    step, chopper = jit(fn, backend="eager"), Chopper(1 + seed % 11)
    for shift in (0, 1, 0):
        mine, theirs, pieces = (arguments(seed + shift) for _ in range(3))
        expected = outcome(lambda: fn(*mine))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            got = outcome(lambda: step(*theirs))
        assert got == expected, f"seed {seed}\n{text}"
        assert plain(theirs) == plain(mine), f"seed {seed}\n{text}"
        got = outcome(lambda: chopper.call(fn, pieces, {}))
        assert got == expected, f"seed {seed} in pieces\n{text}"
        assert plain(pieces) == plain(mine), f"seed {seed} in pieces\n{text}"
    counts = fuzz_seeds.counts_of(step)
    fuzz_seeds.check_stats(counts, step, splits=0)
    return counts


@pytest.mark.parametrize("seed", fuzz_seeds.seeds(40))
def test_whole(seed):
    """Capturing alone changes nothing, and refuses only what raises."""
    fn, text = define(seed)
    try:
        check(fn, *arguments(seed))
    except AssertionError:
        print(text)
        raise


@pytest.mark.parametrize("seed", fuzz_seeds.seeds(10))  # scripts/nightly: 2000
def test_jitted_and_in_pieces(seed):
    fuzz_seeds.note("plain", seed, one(seed))
