"""Random Python functions over tensors: a seed -> source text of `program(x, y, n, scale)`.

Every program is valid and ends; variables are tensors of shape (3, 4), Python ints, or lists of
tensors. Statements use what users' step functions use: loops, branches on Python values,
comprehensions, closures, tuples, dicts, try/finally, in-place writes, keyword arguments.
"""

import random

UNARY = ("sin", "tanh", "exp", "relu", "abs", "sigmoid", "neg", "square")
REDUCTIONS = (
    "{x}.sum()",
    "{x}.mean(dim=1, keepdim=True)",
    "{x}.amax(0)",
    "{x}.std()",
    "{x}.softmax(-1)",
    "{x}.t().reshape(3, 4)",
    "{x}[1:].sum(0)",
    "{x}[:, -1:]",
)


class Writer:
    """Keeps the lines written so far and which variables may be read."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.tensors = ["x", "y"]
        self.ints = ["n"]
        self.lists: list[str] = []
        self.count = 0

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def pick(self, names: list[str]) -> str:
        return self.rng.choice(names)

    def integer(self) -> str:
        return self.rng.choice(
            [str(self.rng.randint(0, 4)), self.pick(self.ints), f"({self.pick(self.ints)} % 3)"]
        )

    def number(self) -> str:
        return self.rng.choice(["scale", "0.5", "-1.25", self.integer(), "(scale + 1) / 2"])

    def tensor(self, depth: int = 0) -> str:
        """An expression whose value broadcasts to (3, 4)."""
        x = self.pick(self.tensors)
        choices = [
            lambda: x,
            lambda: f"({x} {self.rng.choice('+-*')} {self.pick(self.tensors)})",
            lambda: f"({x} {self.rng.choice('+-*')} {self.number()})",
            lambda: f"{x}.clamp(-3, 3).{self.rng.choice(UNARY)}()",
            lambda: self.rng.choice(REDUCTIONS).format(x=x),
            lambda: f"torch.where({x} > {self.number()}, {x}, {self.pick(self.tensors)})",
            lambda: f"({x} @ {self.pick(self.tensors)}.t()).mean()",
        ]
        if depth < 2:
            choices.append(lambda: f"({self.tensor(depth + 1)} * {self.tensor(depth + 1)})")
        return self.rng.choice(choices)()

    def full(self) -> str:
        """An expression of shape (3, 4) exactly, with values kept small."""
        return f"torch.tanh(x * 0.1 + {self.tensor()})"

    def emit(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def block(self, indent: int, depth: int, statements: int) -> None:
        """Statements of one suite; what they bind is forgotten after it."""
        kept = list(self.tensors), list(self.ints), list(self.lists)
        for _ in range(statements):
            self.statement(indent, depth)
        self.tensors, self.ints, self.lists = kept

    def statement(self, indent: int, depth: int) -> None:
        simple = (self.assign, self.assign, self.augment, self.write, self.collect, self.number_)
        compound = (self.loop, self.branch, self.guarded, self.closure, self.no_grad, self.early)
        kind = self.rng.choice(simple if depth >= 2 else simple + compound)
        kind(indent, depth)

    def assign(self, indent: int, depth: int) -> None:
        name = self.name("t")
        self.emit(indent, f"{name} = {self.full()}")
        self.tensors.append(name)

    def augment(self, indent: int, depth: int) -> None:
        own = [name for name in self.tensors if name.startswith("t")]
        if own:
            name = self.pick(own)
            # A copy first: a value saved for backward must not be written to.
            self.emit(indent, f"{name} = {name}.clone()")
            self.emit(indent, f"{name} {self.rng.choice(['+=', '*=', '-='])} 0.5")

    def write(self, indent: int, depth: int) -> None:
        name = self.name("t")
        self.emit(indent, f"{name} = {self.full()}.clone()")
        place = self.rng.choice(["[0]", "[:, 1:3]", "[-1, 2]", "[..., ::2]"])
        self.emit(indent, f"{name}{place} = {self.number()}")
        self.tensors.append(name)

    def collect(self, indent: int, depth: int) -> None:
        name = self.name("parts")
        kind = self.rng.randrange(3)
        if kind == 0:
            x = self.pick(self.tensors)
            self.emit(indent, f"{name} = [{x} * i for i in range({self.integer()} + 1) if i != 1]")
        elif kind == 1:
            self.emit(indent, f"{name} = list({self.pick(self.tensors)}.unbind(0))")
        else:
            table = self.name("table")
            self.emit(indent, f"{table} = {{'a': {self.full()}, 'b': {self.full()}}}")
            self.emit(indent, f"{name} = [v + len(k) for k, v in {table}.items()]")
        result = self.name("t")
        self.emit(indent, f"{name}.append({self.pick(self.tensors)} * 0.1)")
        self.emit(indent, f"{result} = torch.tanh(sum({name}, torch.zeros(3, 4)))")
        self.tensors.append(result)

    def number_(self, indent: int, depth: int) -> None:
        name = self.name("i")
        value = self.rng.choice(
            [f"{self.integer()} * 2 + 1", f"len([0] * {self.integer()})", "x.shape[0] - 1"]
        )
        self.emit(indent, f"{name} = {value}")
        self.ints.append(name)

    def loop(self, indent: int, depth: int) -> None:
        total = self.name("t")
        self.emit(indent, f"{total} = {self.full()}")
        index = self.name("i")
        if self.rng.random() < 0.5:
            self.emit(indent, f"for {index} in range({self.integer()}):")
        else:
            x = self.pick(self.tensors)
            self.emit(indent, f"for {index}, row in enumerate({x}):")
        self.ints.append(index)
        self.emit(indent + 1, f"{total} = {total} * 0.5 + {index}")
        if self.rng.random() < 0.3:
            self.emit(indent + 1, f"if {index} == 2:")
            self.emit(indent + 2, self.rng.choice(["break", "continue"]))
        self.block(indent + 1, depth + 1, 1)
        self.ints.remove(index)
        self.tensors.append(total)

    def branch(self, indent: int, depth: int) -> None:
        name = self.name("t")
        test = self.rng.choice(
            [f"{self.integer()} > 1", "scale > 0", f"x.shape[{self.rng.randrange(2)}] == 3", "flag"]
        )
        self.emit(indent, f"if {test}:")
        self.block(indent + 1, depth + 1, 1)
        self.emit(indent + 1, f"{name} = {self.full()}")
        self.emit(indent, "else:")
        self.emit(indent + 1, f"{name} = {self.full()}")
        self.tensors.append(name)

    def guarded(self, indent: int, depth: int) -> None:
        name = self.name("t")
        self.emit(indent, f"{name} = {self.full()}")
        self.emit(indent, "try:")
        self.emit(indent + 1, f"{name} = {name} + [1.0, 2.0][{self.integer()}]")
        self.emit(indent, "except IndexError:")
        self.emit(indent + 1, f"{name} = {name} - 1")
        self.emit(indent, "finally:")
        self.emit(indent + 1, f"log.append('{name}')")
        self.tensors.append(name)

    def closure(self, indent: int, depth: int) -> None:
        function, name = self.name("f"), self.name("t")
        self.emit(indent, f"def {function}(a, b={self.number()}, *rest, c=1):")
        self.emit(indent + 1, f"return a * b + c * {self.pick(self.tensors)} + len(rest)")
        call = self.rng.choice(["(x)", "(x, 2, 3)", "(*[y, 1.5])", "(y, **{'c': 0.5})"])
        self.emit(indent, f"{name} = torch.tanh({function}{call})")
        self.tensors.append(name)

    def no_grad(self, indent: int, depth: int) -> None:
        name = self.name("t")
        self.emit(indent, "with torch.no_grad():")
        self.emit(indent + 1, f"{name} = {self.full()}")
        self.tensors.append(name)

    def early(self, indent: int, depth: int) -> None:
        self.emit(indent, f"if {self.integer()} > 3:")
        self.emit(indent + 1, f"return {self.full()}, {self.full()}")


def program(seed: int, statements: int = 8) -> str:
    """Source of one random function; the same seed gives the same text."""
    writer = Writer(seed)
    writer.emit(0, "def program(x, y, n, scale, flag=True):")
    for _ in range(statements):
        writer.statement(1, 0)
    parts = ", ".join(writer.tensors[2:] or ["x"])
    writer.emit(1, f"out = torch.stack(torch.broadcast_tensors({parts}, y))")
    writer.emit(1, "return out.sum(0), out.mean()")
    return "\n".join(writer.lines) + "\n"
