"""Effects, prints, host calls and the user's own methods of one expression: as often as in Python,
in its order, and by its protocol."""

import logging
import operator
import sys

import eager

from .harness import Program, after, case


def over(step, values, observe=lambda: None):
    x = eager.tensor([1.0, 2.0])
    return Program(step, [(x, value) for value in values], observe)


def loud(log):
    def say(value):
        log.append(value)
        return value

    return say


@case("evaluation order", one_graph=True)
def operands_arguments_and_subscripts():
    log = []
    say = loud(log)

    def step(x, n):
        held = [0, 0, 0]
        held[say(0)] = say(1)
        held[say(1)], held[say(2)] = say(2), say(n)
        held[say(0)] += say(10)
        total = say(1) + say(2) * say(3) - say(n)
        pair = {say("k"): say("v"), say("l"): say("w")}
        called = (say(max) or say(min))(*[say(1), say(2)], *(say(v) for v in (3, 4)), key=say(None))
        chained = say(1) < say(n) < say(3)
        return (
            x,
            held,
            total,
            pair,
            called,
            chained,
            [*map(say, "ab")],
            say(1) if say(n) else say(2),
        )

    return over(step, [2, 5, 0], lambda: list(log))


@case("evaluation order")
def prints_logs_and_writes_interleave():
    out = []
    logger = logging.getLogger("never_wrong.order")
    logger.setLevel(logging.DEBUG)

    class Collect(logging.Handler):
        def emit(self, record):
            out.append(record.getMessage())

    class Stream:
        def write(self, text):
            out.append(text)

        def flush(self):
            pass

    collect, stream = Collect(), Stream()
    logger.addHandler(collect)

    def step(x, n):
        print("a", n, file=stream, end="")
        logger.info("b %s", n)
        out.append("c")
        print("d", x.sum().item(), file=stream, end="")
        return x, [print("e", file=stream), logger.info("f"), out.append("g")], len(out)

    program = over(step, [1, 2], lambda: list(out))
    program.close = lambda: logger.removeHandler(collect)
    return program


@case("evaluation order")
def a_host_call_reads_what_effects_changed():
    state = {"n": 0}

    class Shown:
        def __str__(self):
            return f"state is {state['n']}"

        def __format__(self, spec):
            return f"formatted {state['n']}"

    shown = Shown()

    def step(x, n):
        print(shown)
        state["n"] = n
        print(shown, f"{shown}")
        state["n"] += 1
        return x, str(shown)

    return over(step, [1, 2, 3], lambda: state)


@case("evaluation order")
def a_log_handler_changes_what_the_step_reads():
    state = {"seen": 0}
    logger = logging.getLogger("never_wrong.handler")
    logger.setLevel(logging.DEBUG)

    class Counting(logging.Handler):
        def emit(self, record):
            state["seen"] += 1

    handler = Counting()
    logger.addHandler(handler)

    def step(x, n):
        logger.info("one")
        return x * state["seen"], state["seen"]

    program = over(step, [1, 2, 3], lambda: dict(state))
    program.close = lambda: logger.removeHandler(handler)
    return program


@case("evaluation order")
def a_stream_of_the_user_raises():
    log = []

    class Full:
        def write(self, text):
            if "2" in text:
                raise OSError(28, "full")
            log.append(text)

    stream = Full()

    def step(x, n):
        log.append("before")
        print(n, file=stream)
        log.append("after")
        return x

    return over(step, [1, 2, 3], lambda: list(log))


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
    "iterate": lambda a, b: [list(a), max(a), sorted(a), tuple(zip(a, b)), [*b]],
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
    say = loud(log)

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


@case("evaluation order")
def key_functions_run_once_per_item():
    log = []

    def step(x, items):
        def key(v):
            log.append(v)
            return -v

        return (
            sorted(items, key=key),
            max(items, key=key, default=0),
            min(items, key=key, default=9),
            x,
        )

    return over(step, [[1, 3, 2], [], [2, 2]], lambda: list(log))


@case("evaluation order")
def any_and_all_stop_early():
    log = []
    say = loud(log)

    def step(x, n):
        return (
            any(say(v) > 1 for v in (1, n, 3)),
            all(say(v) for v in (1, n, 0, 5)),
            x,
            sum(say(v) for v in (1, n)),
        )

    return over(step, [0, 2, 1], lambda: list(log))


@case("evaluation order")
def default_of_get_and_setdefault_is_always_made():
    log = []
    say = loud(log)
    table = {"a": 1}

    def step(x, n):
        found = table.get("a", say("unused")), table.setdefault(n, say(n)), table.pop("b", say("c"))
        return found, getattr(x, "shape", say("shape")), next(iter([]), say("end"))

    return over(step, [1, 1, 2], lambda: (list(log), table))


@case("evaluation order")
def defaultdict_and_missing():
    log = []

    class Auto(dict):
        def __missing__(self, key):
            log.append(key)
            self[key] = len(self)
            return self[key]

    auto = Auto()

    def step(x, n):
        return auto[n], auto.get("no"), auto[n], "no" in auto, x * auto[n]

    return over(step, [1, 2, 1, 3], lambda: (list(log), auto))


@case("evaluation order")
def the_step_sees_its_own_frames():
    def inner():
        frame = sys._getframe(1)
        return frame.f_code.co_name, frame.f_lineno > 0

    def step(x, n):
        return inner(), x

    return over(step, [1, 2])


@case("evaluation order")
def finalizer_runs_when_the_last_name_goes():
    log = []

    class Held:
        def __init__(self, n):
            self.n = n

        def __del__(self):
            log.append(f"gone {self.n}")

    def step(x, n):
        held = Held(n)
        log.append("made")
        del held
        log.append("end")
        return x * n

    return over(step, [1, 2, 1], lambda: list(log))


@case("evaluation order")
def reads_of_tensors_stand_before_later_writes():
    log = []

    def step(x, n):
        log.append(x.sum().item())
        x.add_(n)
        y = x
        log.append(f"{x.sum().item():.1f}")
        x.mul_(2)
        log.append(repr(y))
        y = y + 0
        x.zero_()
        log.append(x.tolist())
        return y, log[-1]

    return over(step, [1.0, 2.0], lambda: list(log))


@case("evaluation order")
def step_that_prints_its_gradient_between_writes():
    w = eager.tensor([1.0, 2.0], requires_grad=True)

    def step(x, n):
        loss = (w * x).sum() * n
        print("loss", loss.item())
        loss.backward()
        print("grad", w.grad)
        with eager.no_grad():
            w.sub_(w.grad)
        print("w", w)
        w.grad.zero_()
        print("zeroed", w.grad)
        return loss.detach()

    return over(step, [1.0, 2.0], lambda: w)


class Guarded:
    """Equality and hash are the user's code: nobody but the user's step may run them."""

    log: list = []

    def __init__(self, v):
        self.v = v

    def __eq__(self, other):
        Guarded.log.append("eq")
        return isinstance(other, Guarded) and self.v == other.v

    def __hash__(self):
        Guarded.log.append("hash")
        return hash(self.v)

    def __bool__(self):
        Guarded.log.append("bool")
        return True


def guarded(name, make):
    def build():
        Guarded.log = []
        step, calls = make()
        return Program(step, calls, lambda: list(Guarded.log))

    build.__name__ = f"guards_run_nothing_of_the_user_{name}"
    case("evaluation order")(build)


def object_as_an_argument():
    x = eager.tensor([1.0])
    return (lambda x, g: x * g.v), [(x, Guarded(1)), (x, Guarded(1)), (x, Guarded(2))]


def object_in_a_tuple_and_a_default():
    x, held = eager.tensor([1.0]), (Guarded(1), 2)

    def step(x, extra=held):
        return x * held[0].v, extra is held, held[0] is extra[0]

    return step, [(x,), (x,), (x, (Guarded(1), 2))]


def object_in_a_dictionary():
    x, held = eager.tensor([1.0]), {"g": Guarded(1)}
    change = lambda: held.update(g=Guarded(1))
    return (lambda x: (x * held["g"].v, len(held))), [(x,), (x,), after(change, x)]


def object_as_a_key_of_a_dictionary_that_is_iterated():
    x, held = eager.tensor([1.0]), {Guarded(1): 2}
    Guarded.log = []
    return (lambda x: x * sum(held.values())), [(x,), (x,)]


def object_that_is_stored():
    x, held = eager.tensor([1.0]), {}

    def step(x, g):
        held["last"] = g
        return x, held["last"] is g

    g = Guarded(1)
    return step, [(x, g), (x, g), (x, Guarded(1))]


for _make in (object_as_an_argument, object_in_a_tuple_and_a_default, object_in_a_dictionary,
              object_as_a_key_of_a_dictionary_that_is_iterated, object_that_is_stored):  # fmt: skip
    guarded(_make.__name__, _make)


@case("evaluation order")
def attributes_of_returned_functions_are_their_own():
    made, shared = [], {"tag": 0}

    def step(x, n):
        def inner(y, by=n):
            return y * by

        inner.tag = n
        inner.__dict__.update(shared)
        made.append(inner)
        inner.calls = [n]
        return inner, x

    def observe():
        if len(made) > 1:
            made[0].changed = True
            made[0].calls.append("late")
        return [(f(3), f.__dict__) for f in made], shared

    return over(step, [1, 1, 2], observe)
