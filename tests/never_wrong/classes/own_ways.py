"""Classes with ways of their own: a metaclass that hashes its classes, text that is compared by the
program, containers that count who asks, a dictionary that is its own attributes.
"""

import collections
import contextlib
import datetime as dt
import functools
import itertools
import re
import string
import types
import typing

import eager
from jitcap import graph_break
from tests.never_wrong.harness import case
from tests.never_wrong.scene import nothing, rows, scene


@case("own ways")
def a_metaclass_hashes_and_compares_its_classes():
    log = []

    class Meta(type):
        def __hash__(cls):
            log.append(f"hash {cls.__name__}")
            return 7

        def __eq__(cls, other):
            log.append(f"eq {cls.__name__}")
            return cls is other

    class A(metaclass=Meta):
        k = 2

        def __init__(self, n):
            self.n = n

        @property
        def more(self):
            return self.n + 1

        def __call__(self, x):
            return x * self.k + self.more

        def __len__(self):
            return self.n

        def __iter__(self):
            return iter([self.n, self.k])

        def __eq__(self, other):
            return self.n == other.n

    class B(A):
        k = 3

    held = {"a": A(1)}

    def step(x):
        y = held["a"](x) + B(3)(x) + len(held["a"])
        known = isinstance(held["a"], A), issubclass(B, A), type(held["a"]) is A, A == B
        table = {A: 1, B: 2}
        return y * table[type(held["a"])], known, sorted(A(5)), held["a"] == A(1)

    return scene(
        step,
        lambda: held.update(a=B(2)),
        lambda: setattr(A, "k", 5),
        observe=lambda: (len(log), list(log)),
    )


@case("own ways")
def names_and_keys_hash_and_compare_themselves():
    log = []

    class Name(str):  # noqa: SLOT000 - it has attributes
        def __hash__(self):
            log.append(f"hash {self[:]}")
            return str.__hash__(self)

        def __eq__(self, other):
            log.append(f"eq {self[:]}")
            return str.__eq__(self, other)

    class Shown(str):  # noqa: SLOT000 - it has attributes
        def __str__(self):
            return "shown"

        def __lt__(self, other):
            return str.__gt__(self, other)

    class Holder:
        a, b = 3.0, 4.0

    outside, table, holder = Name("a"), {"a": 1.0}, Holder()

    def step(x):
        inside, shown = Name("b"), [Shown("a"), Shown("b")]
        setattr(holder, Name("c"), 5.0)
        table[inside] = len(table)
        got = getattr(holder, outside), hasattr(holder, inside), getattr(holder, shown[0])
        found = table[outside], table.get(inside), inside in table, outside == "a", {outside: 1}
        return x * got[0] + found[0], got, found, sorted(shown), "-".join(shown), str(shown[1])

    def changed():
        table["a"] = holder.a = 9.0

    return scene(step, nothing, changed, observe=lambda: (list(log), table, vars(holder)))


@case("own ways")
def who_asks_how_many_there_are():
    log = []

    class Down:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            log.append("iter")
            return self

        def __next__(self):
            if self.n <= 0:
                raise StopIteration
            self.n -= 1
            return float(self.n)

        def __length_hint__(self):
            log.append("hint")
            return self.n

    class Many:
        def __iter__(self):
            log.append("iter of many")
            return iter([1.0, 2.0, 3.0])

        def __len__(self):
            log.append("len of many")
            return 3

    class Items:
        def __getitem__(self, i):
            log.append(f"item {i}")
            return (1.0, 2.0)[i]

        def __len__(self):
            log.append("len of items")
            return 2

    class Words:
        def __iter__(self):
            log.append("iter of words")
            return iter("ab")

        def __len__(self):
            log.append("len of words")
            return 2

    class Rows(list):
        def __len__(self):
            log.append("len of rows")
            return list.__len__(self)

        def __iter__(self):
            log.append("iter of rows")
            return list.__iter__(self)

    def step(x):
        out = []
        for made in (Many, Items, lambda: Down(3), lambda: Rows([1.0, 2.0])):
            first, *rest = made()
            *start, last = made()
            parts = [0.0]
            parts[1:] = made()
            parts[:0] = made()
            parts.extend(made())
            parts += made()
            log.append("---")
            out += [first, rest, start, last, parts, list(made()), tuple(made()), [*made()]]
            out += [(lambda *given: given)(*made()), sorted(made()), collections.deque(made())]
            out += [
                list(iter(made())),
                ",".join(map(str, made())),
                dict(zip(made(), made(), strict=False)),
            ]
        rows = Rows([4.0])
        rows.append(5.0)
        out += [",".join(Words()), dict([Words(), Words()])]
        return x * len(out), out, rows

    return scene(step, nothing, observe=lambda: list(log))


@case("own ways")
def a_dictionary_is_its_own_attributes():
    class Settings(dict):
        def __init__(self, **given):
            super().__init__(**given)
            self.__dict__ = self

    class Slotted(dict):
        __slots__ = ("rate",)

    settings, slotted = Settings(rate=0.5, n=2), Slotted(n=1)
    slotted.rate = 2.0

    def step(x):
        settings.calls = settings.get("calls", 0) + 1
        settings["n"] += 1
        slotted.rate += 1.0
        slotted["n"] = settings.n
        return x * settings.rate * slotted.rate + settings["n"], settings["calls"] == settings.calls

    def dropped():
        del settings["calls"]

    return scene(
        step,
        lambda: settings.update(rate=0.25),
        dropped,
        lambda: setattr(slotted, "rate", 7.0),
        observe=lambda: (dict(settings), dict(slotted), slotted.rate),
    )


@case("own ways")
def an_ordered_dictionary_puts_new_entries_first():
    class Recent(collections.OrderedDict):
        def __setitem__(self, key, value):
            super().__setitem__(key, value)
            self.move_to_end(key, last=False)

    recent, plain = Recent(a=1.0), collections.OrderedDict(a=1.0, b=2.0)

    def step(x, n):
        recent[f"k{n}"] = n
        plain.move_to_end("a")
        key, value = plain.popitem(last=False)
        plain[key] = value * 2
        return x * n, list(plain)

    x = eager.tensor([1.0, 2.0])
    return rows(step, (x, 1), (x, 2), (x, 1), observe=lambda: (recent, plain))


@case("own ways")
def an_exception_is_thrown_as_its_class_and_its_value():
    def numbers(log):
        for i in range(9):
            try:
                yield i
            except Exception as error:
                log.append(f"{error} {error.args!r}")

    class Own(Exception):
        def __init__(self, code, more=2):
            super().__init__(f"code {code}")
            self.more = more

    @contextlib.contextmanager
    def noted(log):
        try:
            yield
        except KeyError as error:
            log.append(f"caught {error}")

    def step(x):
        log = []
        given = numbers(log)
        next(given)
        with contextlib.ExitStack() as stack:
            stack.enter_context(noted(log))
            raise KeyError("z")
        for thrown in (
            (KeyError, KeyError("a")), (KeyError, "b"), (KeyError, ("c", 1)), (KeyError,),
            (ValueError("d"),), (Own, 3), (Own, (4, 5)), (ValueError("e"), 1), (3,), (int, 1),
        ):  # fmt: skip
            try:
                given.throw(*thrown)
            except TypeError as error:
                log.append(str(error))
        return x, log, next(given)

    return scene(step, nothing)


@case("own ways")
def what_is_made_of_numbers_that_vary():
    def step(x, n):
        made = type(f"Layer{n}", (), {"n": n})
        days = dt.timedelta(days=n, hours=2)
        text = re.sub("b", str(n), "abc")
        filled = string.Template("$n of $all").substitute(n=n, all=9)
        keep = (x * x).sum().backward(retain_graph=n == 3)
        return x * days.days, days, text, filled, made.__name__, made.n, keep

    grown = eager.tensor([1.0, 2.0], requires_grad=True)
    return rows(step, *[(grown, n) for n in (2, 3, 4)], observe=lambda: grown.grad)


@case("own ways")
def a_generator_is_closed_as_the_call_that_was_split_ends():
    def numbers(log):
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    def delegates(log):
        try:
            yield from numbers(log)
        finally:
            log.append("outer closed")

    def step(x):
        log = []
        for make in (numbers, delegates, numbers, delegates):
            given = make(log)
            log.append(next(given))
            for value in (None,)[: len(log) % 2]:
                log.append(given.send(value))
            log.append("next one")
        return log

    return scene(step, nothing)


@case("own ways")
def what_does_not_fit_is_refused_in_pythons_words():
    class Slotted:
        __slots__ = ("a",)

    class Plain:
        pass

    def called(a, *rest, d=1):
        return a

    def no_class(self):
        return super()

    def enters():
        with Plain():
            pass

    def made():
        class Made(1):
            pass

    def imports():
        from math import no_such_name  # noqa: F401, PLC0415

    def unbound():
        def inner():
            return name

        if Plain is None:
            name = 1
        return inner()

    def hooked():
        layer = eager.nn.ReLU()
        layer.register_forward_hook(1)
        layer(eager.ones(2))

    refused = (
        lambda: called(*1), lambda: called(1, **3), lambda: called(*[1], *None),
        lambda: list(itertools.starmap(called, [1])), lambda: ",".join(1), lambda: b"".join(None),
        lambda: dict([1]), lambda: dict([(1,)]), lambda: {**1}, lambda: vars(1),
        lambda: functools.reduce(called, []), lambda: no_class(1), lambda: (lambda: super())(),
        lambda: types.SimpleNamespace(a=1).b, lambda: delattr(types.SimpleNamespace(), "b"),
        lambda: setattr(Slotted(), "b", 1), lambda: setattr(Plain(), "__dict__", 1) or 1 / 0,
        enters, made, imports, unbound, hooked,
    )  # fmt: skip

    def step(x):
        log = []
        for make in refused:
            try:
                make()
            except Exception as error:
                log.append((type(error).__name__, str(error), type(error.__context__).__name__))
        return x, log

    def first(x, i):
        return refused[i]()

    programs = {"all": step, "one": first}
    x = eager.tensor([1.0])
    return rows(lambda which, *given: programs[which](x, *given), ("all",), ("one", 0), ("one", 21))


@case("own ways")
def metaclasses_are_called_by_what_is_no_function():
    callers = [
        dict,
        staticmethod(lambda *args, **kwargs: (args, kwargs)),
        classmethod(lambda meta, **kwargs: (meta.__name__, kwargs)),
        property(lambda cls: cls.make),
    ]
    metas = [type("Meta", (type,), {"__call__": caller}) for caller in callers]
    made = [meta("Made", (), {"make": staticmethod(lambda **kwargs: kwargs)}) for meta in metas]
    table = typing.TypedDict("table", {"a": object})

    def step(x):
        return [cls(a=1) for cls in made], table(a=x)

    return scene(step, nothing)


class Counted:
    """An iterator that says what it is asked for."""

    def __init__(self, log, n, split=False):
        self.log, self.n, self.split = log, n, split

    def __iter__(self):
        self.log.append("iter")
        return self

    def __next__(self):
        if self.split:
            graph_break()
        if self.n <= 0:
            raise StopIteration
        self.n -= 1
        return float(self.n)

    def __length_hint__(self):
        self.log.append("hint")
        return self.n


@case("own ways")
def an_iterator_is_unpacked_in_one_step():
    log = []

    def step(x):
        first, *rest = Counted(log, 3, split=True)
        log.append("---")
        a, b = Counted(log, 2, split=True)
        log.append("---")
        return x * a, b, first, rest, {*Counted(log, 3, split=True)}

    return scene(step, nothing, observe=lambda: list(log))


@case("own ways")
def an_iterator_is_asked_for_one_in_its_turn():
    log = []

    def step(x):
        log.append(sum(Counted(log, 3)))
        made = itertools.chain([1.0], Counted(log, 2), Counted(log, 1))
        log.append([next(made), next(made), type(made) is itertools.chain])
        log.append(list(made))
        made = itertools.chain.from_iterable(Counted(log, n) for n in (2, 1))
        log.append(next(made))
        log.append(list(made))
        one, two = itertools.tee(Counted(log, 2))
        log.append([*one, *two])
        found = collections.deque([1.0])
        found.extend(Counted(log, 2))
        log.append(list(found))
        return x * len(log)

    return scene(step, nothing, observe=lambda: list(log))
