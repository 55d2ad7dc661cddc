"""Classes derived from builtin ones whose methods are the program's: each is asked as often as in
Python, at every call, and by what Python would let ask.
"""

import collections
import operator

import eager
from eager import nn
from tests.never_wrong.harness import case
from tests.never_wrong.scene import nothing, scene


def counting(base, names, log):
    """A class like `base` that writes down which of its methods are called."""

    def noting(name, method):
        def noted(self, *args, **kwargs):
            log.append((name, *(type(a).__name__ for a in args)))
            return method(self, *args, **kwargs)

        return noted

    members = {name: noting(name, getattr(base, name)) for name in names.split()}
    return type(f"Counting{base.__name__.title()}", (base,), members)


def each(uses, log, *given):
    """What each of the functions gives, or raises."""
    found = []
    for use in uses:
        log.append("---")
        try:
            found.append(use(*given))
        except Exception as error:
            found.append((type(error).__name__, str(error)))
    return found


@case("own builtins")
def dictionaries_that_count_their_readers():
    log = []
    named = "__getitem__ __setitem__ __contains__ __iter__ __len__ get keys items update __or__"
    held = counting(dict, named, log)(a=1.0, b=2.0)
    log.clear()
    uses = (
        lambda d: d | {"z": 1}, lambda d: {"z": 1} | d, lambda d: "%(a)s" % d,
        lambda d: "{a}".format(**d), lambda d: "{a}".format_map(d), lambda d: {**d}, dict, len,
        lambda d: operator.itemgetter("a")(d), collections.Counter, collections.OrderedDict,
    )  # fmt: skip

    def step(x):
        return x * held["a"], each(uses, log, held)

    return scene(step, nothing, lambda: dict.update(held, a=5.0), observe=lambda: list(log))


@case("own builtins")
def sequences_and_sets_that_count_their_readers():
    log = []
    reads = "__getitem__ __iter__ __len__ __contains__ __eq__ __add__ index __mul__"
    rows = counting(list, f"{reads} append extend copy", log)([3.0, 1.0, 2.0])
    pair = counting(tuple, reads, log)((3.0, 4.0))
    names = counting(tuple, "__iter__ __getitem__", log)(("a", "b"))
    kept = counting(set, "__contains__ __iter__ __or__ add union", log)([1, 2])
    log.clear()

    def into(start, values):
        start.__setitem__(slice(0, 1), values)
        return start

    uses = (
        lambda: [1.0] + rows, lambda: rows + [1.0], lambda: rows * 2, lambda: into([0, 5], rows),
        lambda: rows == [3.0], lambda: (1,) + pair, lambda: pair + (1,), lambda: "%s %s" % pair,
        lambda: "a".startswith(names), lambda: {9} | kept, lambda: kept | {9}, lambda: 1 in kept,
        lambda: tuple(pair), lambda: list(rows), lambda: [*rows], lambda: sorted(kept),
    )  # fmt: skip

    def step(x):
        return x * rows[0], each(uses, log)

    return scene(step, lambda: list.append(rows, 7.0), observe=lambda: list(log))


@case("own builtins")
def numbers_and_texts_that_count_their_readers():
    log = []
    numeric = "__add__ __radd__ __mul__ __lt__ __float__ __int__ __bool__ __format__ __repr__"
    rate = counting(float, numeric, log)(2.5)
    count = counting(int, f"{numeric} __index__", log)(2)
    word = counting(str, "__add__ __getitem__ __len__ __iter__ __repr__ upper", log)("ab")
    shape = counting(str, "__repr__ __str__", log)("shape")
    log.clear()
    uses = (
        lambda: float(rate), lambda: int(rate), lambda: bool(count), lambda: f"{rate:.1f}",
        lambda: rate + 1, lambda: 1 + rate, lambda: [0] * count, lambda: "ab" * count,
        lambda: [1, 2, 3][count], lambda: "z" + word, lambda: word + "z", lambda: word[0],
        lambda: ",".join([word, "q"]), lambda: tuple(getattr(eager.ones(3), shape)),
        lambda: hasattr(word, shape), lambda: str(count), lambda: "%s" % word,
    )  # fmt: skip

    def step(x):
        return x * 2, each(uses, log)

    return scene(step, nothing, observe=lambda: list(log))


@case("own builtins")
def text_of_names_alone():
    log = []
    held = {"a": 0.5}

    class Shown:
        def __format__(self, spec):
            log.append(spec)
            return f"shown {spec}"

    shown = Shown()

    def step(x):
        loss = x.sum().item()
        text = "{loss:.2f} {a:.1f}".format(loss=loss, a=held["a"])
        odd = "{x y} {if}".format(**{"x y": loss, "if": held["a"]})
        return x * held["a"], text, odd, "{} {a:d} {:.1f}".format(shown, loss, a=shown)

    changes = lambda: held.update(a=0.25), lambda: held.update(a=3.0)
    return scene(step, *changes, observe=lambda: list(log))


@case("own builtins")
def a_part_of_a_sequence_of_layers_is_one():
    class Stack(nn.Sequential):
        def forward(self, x):
            for layer in self[:-1]:
                x = x + layer(x)
            return self[-1](x)

    layers = [("a", nn.ReLU()), ("b", nn.Tanh()), ("c", nn.Identity())]
    stack = Stack(collections.OrderedDict(layers))

    def step(x):
        made = collections.OrderedDict([("x", stack.a), ("y", x)], z=1)
        return stack(x), type(stack[:2]).__name__, stack[:2][0] is stack.a, made["x"] is stack.a

    return scene(step, lambda: stack.append(nn.ReLU()))
