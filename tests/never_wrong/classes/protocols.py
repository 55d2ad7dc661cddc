"""The user's own special methods: as often as in Python, in its order, and by its protocol."""

import operator

import eager
from jitcap import graph_break
from tests.never_wrong.harness import Call, Program, after, case, over, vector


class Watched:
    """Every special method says that it was called."""

    def __init__(self, log, name, value):
        self.log, self.name, self.value = log, name, value

    def _say(self, what, other=None):
        self.log.append((self.name, what, getattr(other, "name", other)))

    def __eq__(self, other):
        self._say("eq", other)
        return self.value == getattr(other, "value", other)

    def __ne__(self, other):
        self._say("ne", other)
        return self.value != getattr(other, "value", other)

    def __lt__(self, other):
        self._say("lt", other)
        return self.value < getattr(other, "value", other)

    def __hash__(self):
        self._say("hash")
        return hash(self.value)

    def __bool__(self):
        self._say("bool")
        return bool(self.value)

    def __len__(self):
        self._say("len")
        return 3

    def __contains__(self, item):
        self._say("contains", item)
        return item == self.value

    def __index__(self):
        self._say("index")
        return self.value

    def __add__(self, other):
        self._say("add", other)
        return NotImplemented

    def __radd__(self, other):
        self._say("radd", other)
        return self.value + (other if isinstance(other, int) else 100)

    def __iadd__(self, other):
        self._say("iadd", other)
        return self

    def __getitem__(self, key):
        self._say("getitem", key)
        if key >= 3:
            raise IndexError(key)
        return self.value + key

    def __call__(self, *args):
        self._say("call", args)
        return self.value


def watching(name, compute):
    def build():
        log = []

        def step(x, n):
            a, b = Watched(log, "a", n), Watched(log, "b", 2)
            return x, compute(a, b)

        return over(step, [1, 2, 0], lambda: list(log))

    build.__name__ = f"own_methods_{name}"
    case("evaluation order")(build)


WATCHED = {
    "compare": lambda a, b: [a == b, a != b, a < b, a > b, not a == b],
    "compare_with_numbers": lambda a, b: [a == 2, 2 == a, a != 1, 1 != a, 3 > a],
    "truth": lambda a, b: [a and b, a or b, not a, bool(b), 1 if a else 2, all([a, b]), any([a, b])],
    "membership": lambda a, b: [2 in a, a in [1, b], b in (a, b), a not in [b], [a, b].index(b)],
    "list_methods": lambda a, b: [[a, b].count(b), [b, a].index(a), [a, b] == [b, a], (a,) == (a,)],
    "remove": lambda a, b: [b, a].remove(a),
    "dictionaries": lambda a, b: [{a: 1, b: 2}.get(a), len({a, b}), {a: 1} == {b: 1}, a in {b: 1}],
    "index": lambda a, b: [operator.index(a), [5, 6, 7][a], list(range(b)), "ab" * a, [1, 2, 3][:b]],
    "add": lambda a, b: [a + 1, 1 + a, sum([a, b]) if a.value else 0],
    "iterate": lambda a, b: [list(a), max(a), sorted(a), tuple(zip(a, b)), [*b]],  # noqa: B905
    "length": lambda a, b: [len(a), bool(a), list(enumerate(b)), list(reversed(a))],
    "sort": lambda a, b: [v.value for v in sorted([b, a, Watched(a.log, "c", 1)])],
    "minimum": lambda a, b: [min(a, b).value, max([a, b]).value, min([a, b], key=lambda v: v.value).name],
    "call": lambda a, b: [a(1), list(map(b, [1, 2])), next(iter(a, 2), "none") if a.value else 0],
    "unpack": lambda a, b: [(lambda p, q, r: p)(*a), [p for p, q in [(a, b)] if p == q]],
    "chain": lambda a, b: [a < b < a, a == b == a, a < b and b < a],
    "identity_before_equality": lambda a, b: [a in [a], [a] == [a], {a: 1}[a], (a, b).index(a)],
}  # fmt: skip
for _name, _compute in WATCHED.items():
    watching(_name, _compute)


@case("evaluation order")
def own_getattribute_and_getattr():
    log = []

    class Box:
        here = 1

        def __getattribute__(self, name):
            log.append(f"get {name}")
            return object.__getattribute__(self, name)

        def __getattr__(self, name):
            log.append(f"missing {name}")
            if name == "nowhere":
                raise AttributeError(name)
            return 7

        def __setattr__(self, name, value):
            log.append(f"set {name}")
            object.__setattr__(self, name, value)

        def method(self):
            return self.here

    def step(x, n):
        box = Box()
        box.n = n
        box.n += 1
        found = [
            box.here,
            box.late,
            box.method(),
            hasattr(box, "nowhere"),
            getattr(box, "nowhere", 5),
        ]
        found.append(isinstance(box, Box))
        return found, box.n, x

    return over(step, [1, 2], lambda: list(log))


@case("evaluation order")
def own_getattribute_of_an_object_from_outside():
    log = []

    class Box:
        def __init__(self):
            self.n = 1

        def __getattribute__(self, name):
            log.append(name)
            return object.__getattribute__(self, name)

    box = Box()

    def step(x, n):
        box.n += n
        return x * box.n, box.n

    return over(step, [1, 2, 3], lambda: list(log))


@case("evaluation order")
def own_equality_of_objects_from_outside():
    log = []

    class Key:
        def __init__(self, v):
            self.v = v

        def __eq__(self, other):
            log.append(("eq", self.v, other.v))
            return self.v == other.v

        def __hash__(self):
            log.append(("hash", self.v))
            return hash(self.v)

    keys = [Key(1), Key(2), Key(1)]
    table = {keys[0]: "one"}

    def step(x, n):
        return table.get(keys[n], "none"), keys[0] == keys[n], keys.index(keys[n]), x

    calls = [0, 1, 2, 0]
    return over(step, calls, lambda: list(log))


@case("evaluation order")
def own_truth_of_an_object_from_outside():
    log = []

    class Switch:
        on = True

        def __bool__(self):
            log.append("asked")
            return self.on

    switch = Switch()

    def step(x, n):
        if switch and (switch or n):
            x = x * 2
        return x, not switch

    x = eager.tensor([1.0])
    return Program(step, [(x, 1), (x, 1), after(lambda: setattr(switch, "on", False), x, 1), (x, 2)],
                   lambda: list(log))  # fmt: skip


@case("evaluation order")
def properties_and_descriptors_are_read_each_time():
    log = []

    class Doubled:
        def __set_name__(self, owner, name):
            self.name = "_" + name

        def __get__(self, obj, owner):
            log.append(f"get {self.name}")
            return getattr(obj, self.name) * 2

        def __set__(self, obj, value):
            log.append(f"set {value}")
            setattr(obj, self.name, value)

    class Box:
        field = Doubled()

        @property
        def size(self):
            log.append("size")
            return self._field + 1

        @size.setter
        def size(self, value):
            log.append("size set")
            self._field = value

    box = Box()
    box._field = 1

    def step(x, n):
        box.field = box.field + n
        box.size = box.size - 1
        box.size += 1
        return x * box.field, box.size

    return over(step, [1, 2], lambda: (list(log), vars(box)))


@case("evaluation order")
def augmented_assignment_reads_its_target_once():
    log = []

    def say(value):
        log.append(value)
        return value

    class Table(dict):
        def __getitem__(self, key):
            log.append(f"get {key}")
            return dict.__getitem__(self, key)

        def __setitem__(self, key, value):
            log.append(f"set {key}")
            dict.__setitem__(self, key, value)

    def step(x, n):
        table = Table(a=1)
        table[say("a")] += say(n)
        table["b"] = table["a"] = say(5)
        (first, table["c"]), *rest = (1, 2), say(3)
        return dict(table), first, rest, x

    return over(step, [1, 2], lambda: list(log))


@case("evaluation order")
def reflected_operators_of_subclasses_go_first():
    log = []

    class Base:
        def __add__(self, other):
            log.append("base add")
            return "base"

        def __radd__(self, other):
            log.append("base radd")
            return "rbase"

        def __eq__(self, other):
            log.append("base eq")
            return NotImplemented

        __hash__ = None

    class Derived(Base):
        def __radd__(self, other):
            log.append("derived radd")
            return "rderived"

        def __eq__(self, other):
            log.append("derived eq")
            return True

        __hash__ = None

    class Same(Base):
        pass

    def step(x, n):
        b, d, s = Base(), Derived(), Same()
        return [b + d, d + b, b + s, n + d, d + n, b == d, d == b, b == s, b == n, b != d], x

    return over(step, [1, 2], lambda: list(log))


@case("evaluation order")
def not_implemented_falls_back_in_pythons_words():
    class Left:
        def __add__(self, other):
            return NotImplemented

        def __lt__(self, other):
            return NotImplemented

    class Right:
        def __radd__(self, other):
            return NotImplemented if other == 1 else "right"

    def step(x, n):
        found = [Left() + Right(), 2 + Right()]
        for compute in (lambda: 1 + Right(), lambda: Left() + n, lambda: Left() < Right(),
                        lambda: Right() * 2, lambda: Left().__add__(1)):  # fmt: skip
            try:
                found.append(compute())
            except TypeError as error:
                found.append(str(error))
        return [v if isinstance(v, str) else repr(v) for v in found], x

    return over(step, [1, 2])


@case("evaluation order")
def tensor_meets_an_object_with_operators():
    log = []

    class Scale:
        def __init__(self, by):
            self.by = by

        def __mul__(self, other):
            log.append("mul")
            return other * self.by

        def __rmul__(self, other):
            log.append("rmul")
            return other * self.by + 1

        def __rsub__(self, other):
            log.append("rsub")
            return NotImplemented

    scale = Scale(2.0)

    def step(x, n):
        try:
            late = x - scale
        except TypeError as error:
            late = type(error).__name__
        return scale * x, x * scale, late

    return over(step, [1, 2], lambda: list(log))


class Watching:
    """Notes each attribute that is read of it, and of nothing else."""

    log: list[str] = []

    def __init__(self, a=1):
        self.a = a

    def __getattribute__(self, name):
        Watching.log.append(name)
        return object.__getattribute__(self, name)

    def __call__(self, x, n=1):
        return x * self.a * n

    def scaled(self, x):
        return x * 3


def watching(step, *calls):
    Watching.log.clear()
    return Program(step, list(calls), lambda: list(Watching.log))


@case("protocols")
def watched_arguments_are_passed_on():
    def inner(x, w):
        return x * 2

    def step(x, w, *more, key=None):
        return inner(x, w), w is key, len(more)

    x, w = vector(), Watching()
    return watching(step, (x, w), (x, w, w), Call((x, w), {"key": w}), (x, Watching(), [w]))


@case("protocols")
def watched_arguments_are_told_apart_after_a_split():
    def step(x, w, *more, key=None):
        x = x * 2
        graph_break()
        return x, w is key, len(more)

    x, w = vector(), Watching()
    return watching(step, (x, w), (x, w, w), Call((x, w), {"key": w}), (x, Watching(), [w]))


@case("protocols")
def watched_objects_are_called():
    def step(x, w):
        return w(x), w.scaled(x), callable(w), isinstance(w, Watching), type(w) is Watching

    x = vector()
    return watching(step, (x, Watching(1)), (x, Watching(2)), (x, Watching(1)))


@case("protocols")
def watched_objects_in_state():
    w = Watching(5)
    held = {"w": w, "list": [w]}

    def step(x):
        found = held["w"].a + held["list"][0].a
        held["list"].append(held["w"])
        return x * found, held["w"] in held["list"]

    x = vector()
    return watching(step, (x,), (x,), (x,))


@case("protocols")
def watched_objects_are_matched_after_a_split():
    def step(x, w):
        if x.sum() > 0:
            x = x + 1
        match w:
            case int() | str():
                return x
            case Watching(a=2):
                return x * 2
            case Watching(a=a):
                return x * a

    x = vector()
    return watching(step, (x, Watching(2)), (x, Watching(3)), (x, 4))


@case("protocols")
def a_watched_object_is_the_step():
    w = Watching(3)
    x = vector()
    Watching.log.clear()
    program = watching(w, (x,), (x, 2), (x,))
    # jit() itself looks for a `forward`: only the calls are compared.
    program.calls[0] = after(Watching.log.clear, x)
    return program


@case("protocols")
def a_method_of_a_watched_object_is_the_step():
    w = Watching(3)
    step = w.scaled
    return watching(step, (vector(),), (vector(),))


@case("protocols", one_graph=True)
def attributes_that_are_methods_of_a_builtin_type():
    class Items(dict):
        __getattr__ = dict.__getitem__

    class Options(dict):
        __getattr__ = dict.get
        __setattr__ = dict.__setitem__
        __delattr__ = dict.__delitem__

    items, options = Items(rate=0.5, inner=Items(k=3.0)), Options(seen=0)

    def step(x, n):
        options.seen = options.seen + n
        options.short = n
        del options.short
        try:
            missing = items.nothing
        except KeyError as error:
            missing = type(error).__name__
        items["rate"] = items.rate * 2
        return x * items.rate + items.inner.k, options.nothing, missing, len(options)

    return over(step, [1, 2, 3], lambda: (dict(items), dict(options)))


@case("protocols")
def attributes_that_are_other_callables():
    class Odd:
        __getattr__ = staticmethod(lambda name: len(name) * 1.0)

    odd = Odd()
    return over(lambda x, n: x * odd.four + getattr(odd, "a" * n), [1, 2])


@case("protocols")
def what_special_methods_say_of_run_time_numbers_is_checked():
    class Says:
        def __init__(self, answer):
            self.answer = answer

        def say(self, *_):
            return self.answer

        __bool__ = __len__ = __str__ = __index__ = __hash__ = __format__ = __int__ = say

    def ask(fn, value):
        try:
            return fn(Says(value))
        except (TypeError, ValueError) as error:
            return type(error).__name__

    def step(x, n):
        asked = bool, len, str, operator.index, hash, format, int
        return x * 2, [ask(fn, n) for fn in asked]

    return over(step, [1, 2, 2.5, 3.5, -1, -2])
