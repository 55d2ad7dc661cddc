"""Random Python programs about numbers: from arguments, attributes, globals, lists and `.item()`."""

import random

INTS = (
    0, 1, -1, 2, 7, -3, 255, 2**31, 2**62, 2**63 - 1, 2**63, -(2**63), 10**30, -(10**25), True, False,
)  # fmt: skip
FLOATS = (
    0.0, -0.0, 1.0, -1.5, 0.1, 3.0, 0.5, 1e308, -1e308, 5e-324, 1e16, 2.0**53, 710.0, -7.25,
    float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
INT64 = tuple(i for i in INTS if -(2**63) <= i < 2**63)
OF_ONE = "sqrt exp log sin cos tanh atan asin log1p expm1 log2 log10 fabs cosh isnan erf".split()
HEADER = "def program(n, a, t, f):\n    global G\n"


class Writer:
    """The lines of one program; `ints` and `floats` are the names that hold numbers there."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.ints = ["n", "o.k", "G", "xs[0]", "t.sum().item()", "i"]
        self.floats = ["a", "o.r", "xs[1]", "f.sum().item()", "r"]
        self.powers = 2
        self.count = 0

    def integer(self, depth: int = 0) -> str:
        choose = self.rng.random()
        if depth > 2 or choose < 0.35:
            return self.rng.choice(self.ints)
        if choose < 0.45:
            return str(self.rng.choice((0, 1, 2, 3, -2, 7, 2**40, 10**20)))
        x, y = self.integer(depth + 1), self.integer(depth + 1)
        if choose < 0.75:
            return f"({x} {self.rng.choice(('+', '-', '*', '&', '|', '^'))} {y})"
        if choose < 0.85:
            return f"({x} {self.rng.choice(('//', '%'))} {y})"
        if choose < 0.89 and self.powers:
            self.powers -= 1
            return f"({x} ** {self.rng.choice((0, 2, 3, 5))})"
        if choose < 0.93:
            return f"({x} {self.rng.choice(('<<', '>>'))} ({y} % {self.rng.choice((5, 70))}))"
        return self.rng.choice(
            (f"(-{x})", f"abs({x})", f"(~{x})", f"int({self.number(depth + 1)})",
             f"round({self.number(depth + 1)})", f"math.floor({self.number(depth + 1)})",
             f"divmod({x}, {y})[1]", f"pow({x}, 3, 1000003)", f"max({x}, {y})")
        )  # fmt: skip

    def number(self, depth: int = 0) -> str:
        choose = self.rng.random()
        if depth > 2 or choose < 0.3:
            return self.rng.choice(self.floats)
        if choose < 0.4:
            return self.rng.choice(("0.5", "2.0", "-1.0", "1e200", "0.0", "-0.0", "1e-9"))
        x = self.number(depth + 1) if self.rng.random() < 0.7 else self.integer(depth + 1)
        y = self.number(depth + 1) if self.rng.random() < 0.7 else self.integer(depth + 1)
        if choose < 0.7:
            return f"({x} {self.rng.choice(('+', '-', '*'))} {y})"
        if choose < 0.8:
            return f"({x} {self.rng.choice(('/', '//', '%'))} {y})"
        if choose < 0.84:
            return f"(({x}) ** {self.rng.choice((2, 0.5, -1, 3.0))})"
        if choose < 0.94:
            return f"math.{self.rng.choice(OF_ONE)}({x})"
        return self.rng.choice((f"float({y})", f"round({x}, 2)", f"abs({x})", f"min({x}, {y})"))

    def either(self) -> str:
        return self.integer() if self.rng.random() < 0.5 else self.number()

    def condition(self) -> str:
        x, y = self.either(), self.either()
        form = self.rng.choice(("{} < {}", "{} != 0", "0 != {}", "{} == {}", "{} >= {}", "{}"))
        return form.format(x, y)

    def statement(self, indent: int, depth: int = 0) -> None:
        kind = self.rng.choice(KINDS if depth < 2 else KINDS[:SIMPLE])
        getattr(self, kind)(indent, depth)

    def emit(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def assign(self, indent: int, depth: int) -> None:
        if self.rng.random() < 0.5:
            self.emit(indent, f"i = {self.integer()}")
        else:
            self.emit(indent, f"r = {self.number()}")

    def store(self, indent: int, depth: int) -> None:
        target, value = self.rng.choice(
            (("o.k", self.integer()), ("o.r", self.number()), ("G", self.integer()),
             ("xs[0]", self.integer()), ("xs[1]", self.number()))
        )  # fmt: skip
        self.emit(indent, f"{target} = {value}")

    def log(self, indent: int, depth: int) -> None:
        form = self.rng.choice(
            ("{}", "str({})", "f'{{{}}}'", "f'{{{}!r:>9}}'", "'%s' % ({},)", "type({}).__name__",
             "({}, 1)", "isinstance({}, int)", "{} in (0, 1.0, 7)", "table.get({})")
        )  # fmt: skip
        self.emit(indent, f"log.append({form.format(self.either())})")

    def write(self, indent: int, depth: int) -> None:
        op = self.rng.choice(("p.add_({})", "p.mul_({})", "q.add_({})", "p = p * {}"))
        if op.startswith("p ="):
            op = "log.append((p * {}).sum())"
        self.emit(indent, op.format(self.either()))

    def branch(self, indent: int, depth: int) -> None:
        self.emit(indent, f"if {self.condition()}:")
        for _ in range(self.rng.randint(1, 2)):
            self.statement(indent + 1, depth + 1)
        self.emit(indent, "else:")
        self.statement(indent + 1, depth + 1)

    def guarded(self, indent: int, depth: int) -> None:
        self.emit(indent, "try:")
        self.statement(indent + 1, depth + 1)
        self.statement(indent + 1, depth + 1)
        self.emit(indent, "except (ArithmeticError, ValueError) as error:")
        self.emit(indent + 1, "log.append((type(error).__name__, str(error)))")

    def complaint(self, indent: int, depth: int) -> None:
        self.emit(indent, "try:")
        self.emit(indent + 1, f"raise KeyError({self.either()}, 'k')")
        self.emit(indent, "except KeyError as error:")
        self.emit(indent + 1, "log.append(str(error))")

    def loop(self, indent: int, depth: int) -> None:
        self.count += 1
        self.emit(indent, f"for j{self.count} in range({self.rng.randint(1, 3)}):")
        self.statement(indent + 1, depth + 1)


KINDS = (
    "assign", "assign", "store", "log", "log", "write", "write", "complaint", "branch", "guarded",
    "loop",
)  # fmt: skip
SIMPLE = 8


def program(seed: int, statements: int = 6) -> str:
    """The text of the program of this seed."""
    writer = Writer(seed)
    writer.emit(1, "i, r = 3, 0.75")
    for _ in range(statements):
        writer.statement(1)
    writer.emit(1, f"return i, r, p.sum(), {writer.either()}")
    return HEADER + "\n".join(writer.lines) + "\n"


def arguments(seed: int) -> list[tuple[int, float, int, list[float]]]:
    """(n, a, the int in t, the floats in f) of each call: some values change, some stay."""
    rng = random.Random(seed + 1_000_000)
    calls = []
    current = [rng.choice(INTS), rng.choice(FLOATS), rng.choice(INT64), rng.choice(FLOATS)]
    mild = [rng.choice(INTS[:6]), 0.5, 3, 1.25]
    for _ in range(5):
        pool = rng.choice((current, mild))
        calls.append((pool[0], pool[1], int(pool[2]), [pool[3]]))
        place = rng.randrange(4)
        current[place] = rng.choice((INTS, FLOATS, INT64, FLOATS)[place])
    return calls
