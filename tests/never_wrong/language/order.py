"""Effects, prints, host calls and the user's own methods of one expression: as often as in Python,
in its order, and by its protocol."""

import logging
import sys

import eager
from tests.never_wrong.harness import Program, after, case, over


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
