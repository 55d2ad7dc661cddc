"""Calls of the host that are put off, and what the program reads of them in the same call; what the
library's own state is."""

import io
import logging
import os
import random
import tempfile

import numpy as np

import eager
from tests.never_wrong.harness import case
from tests.never_wrong.scene import nothing, scene


def logger_with(handler):
    made = logging.Logger("never wrong", logging.DEBUG)
    made.addHandler(handler)
    return made


@case("put off")
def a_buffer_from_outside_is_read_after_it_was_written():
    text = io.StringIO()

    def step(x):
        text.write("a")
        print("b", file=text, end="")
        return x * len(text.getvalue()), text.tell()

    return scene(step, nothing, observe=lambda: text.getvalue())


@case("put off")
def a_handler_keeps_records_in_a_list():
    records = []

    class Keeping(logging.Handler):
        def emit(self, record):
            records.append(record.getMessage())

    logger = logger_with(Keeping())

    def step(x):
        logger.warning("first")
        n = len(records)
        logger.info("second %s", n)
        return x * n, records[-1]

    return scene(step, nothing, observe=lambda: list(records))


@case("put off")
def a_filter_that_is_an_object():
    counts = {"n": 0}

    class Counting(logging.Filter):
        def filter(self, record):
            counts["n"] += 1
            return True

    logger = logger_with(logging.NullHandler())
    logger.addFilter(Counting())

    def step(x):
        logger.error("one")
        return x * counts["n"]

    return scene(step, nothing, observe=lambda: counts)


@case("put off")
def a_formatter_of_a_handler_looks_at_the_world():
    state, text = {"n": 1}, io.StringIO()

    class Looking(logging.Formatter):
        def format(self, record):
            return f"{record.getMessage()} {state['n']}"

    handler = logging.StreamHandler(text)
    handler.setFormatter(Looking())
    logger = logger_with(handler)

    def step(x):
        logger.warning("before")
        state["n"] += 1
        logger.warning("after")
        return x * state["n"]

    return scene(step, nothing, observe=lambda: text.getvalue())


@case("put off")
def a_stream_of_a_handler_is_read():
    text = io.StringIO()
    logger = logger_with(logging.StreamHandler(text))

    def step(x):
        logger.warning("told")
        return x, text.getvalue()

    return scene(step, nothing, observe=lambda: text.getvalue())


@case("put off")
def a_stream_of_the_program_is_written():
    lines = []

    class Lines(io.TextIOBase):
        def write(self, text):
            lines.append(text)
            return len(text)

    stream = Lines()

    def step(x):
        print("a", file=stream)
        n = len(lines)
        stream.write("b")
        return x * n, len(lines)

    return scene(step, nothing, observe=lambda: list(lines))


@case("put off")
def a_file_is_read_after_it_was_written():
    path = os.path.join(tempfile.mkdtemp(), "a.txt")
    file = open(path, "w")

    def step(x):
        file.write("1 2\n")
        file.flush()
        return x, np.loadtxt(path).sum(), os.path.getsize(path)

    made = scene(step, nothing, observe=lambda: os.path.getsize(path))
    restore = made.close
    made.close = lambda: (file.close(), restore())
    return made


@case("put off")
def numpy_reads_a_file_that_changes():
    path = os.path.join(tempfile.mkdtemp(), "a.npy")
    np.save(path, np.float64(2))

    def step(x):
        return x * float(np.load(path))

    return scene(step, lambda: np.save(path, np.float64(5)))


@case("put off")
def numpy_writes_a_file_at_each_call():
    folder = tempfile.mkdtemp()

    def step(x):
        np.save(os.path.join(folder, "b.npy"), np.arange(3))
        return x + 1

    def remove():
        os.remove(os.path.join(folder, "b.npy"))

    return scene(step, remove, observe=lambda: sorted(os.listdir(folder)))


@case("put off")
def settings_of_numpy_printing():
    def step(x):
        np.set_printoptions(precision=2)
        return str(np.float64(1.23456)), np.get_printoptions()["precision"], x

    made = scene(
        step,
        lambda: np.set_printoptions(precision=8),
        observe=lambda: np.get_printoptions()["precision"],
    )
    return made


@case("put off")
def the_level_of_a_logger_is_changed_inside():
    text = io.StringIO()
    logger = logger_with(logging.StreamHandler(text))

    def step(x):
        logger.debug("heard")
        logger.setLevel(logging.ERROR)
        logger.debug("not heard")
        logger.setLevel(logging.DEBUG)
        return x, logger.level, logger.isEnabledFor(10)

    return scene(step, lambda: logger.setLevel(logging.ERROR), observe=lambda: text.getvalue())


@case("put off")
def the_fields_of_a_logger():
    logger = logger_with(logging.NullHandler())

    def step(x):
        return x * len(logger.handlers), logger.name, logger.level, logger.disabled

    return scene(
        step,
        lambda: logger.addHandler(logging.NullHandler()),
        lambda: setattr(logger, "name", "other"),
        lambda: setattr(logger, "disabled", True),
    )


@case("put off")
def a_handler_is_added_inside():
    text = io.StringIO()
    logger = logger_with(logging.NullHandler())
    handler = logging.StreamHandler(text)

    def step(x):
        logger.warning("before")
        logger.handlers.append(handler)
        logger.warning("after")
        logger.handlers.remove(handler)
        return x

    return scene(step, nothing, observe=lambda: text.getvalue())


# ---- generators


@case("put off")
def the_state_of_a_generator_of_eager():
    g = eager.Generator().manual_seed(3)

    def step(x):
        a = eager.rand(2, generator=g)
        return a, g.ordinal, g.seed_value, g.initial_seed(), x

    return scene(step, nothing, lambda: g.manual_seed(9))


@case("put off")
def a_generator_of_eager_is_set_inside():
    g = eager.Generator().manual_seed(3)

    def step(x):
        a = eager.rand(2, generator=g)
        g.seed_value = 11
        b = eager.rand(2, generator=g)
        state = g.get_state()
        c = eager.rand(2, generator=g)
        g.set_state(state)
        return a, b, c, eager.rand(2, generator=g), x

    return scene(step, nothing, observe=lambda: (g.seed_value, g.ordinal))


@case("put off")
def the_fields_of_generators_of_eager():
    g = eager.Generator().manual_seed(3)

    def step(x):
        return vars(g)["seed_value"], sorted(vars(g)), g.device, x * eager.rand(1, generator=g)

    return scene(step, nothing, lambda: g.manual_seed(4), lambda: setattr(g, "mark", 1))


@case("put off")
def draws_of_several_kinds_in_one_expression():
    r, n = random.Random(1), np.random.RandomState(2)

    def step(x):
        a = r.uniform(0.0, 1.0), r.getrandbits(3), n.rand(), n.bytes(2), r.sample(range(9), 2)
        return x * a[0], a

    return scene(step, nothing)


@case("put off")
def methods_of_generators_are_kept():
    r = random.Random(5)
    state = {}

    def step(x):
        state["draw"] = r.random
        state["bits"] = r.getrandbits
        return x * state["draw"](), state["bits"](4)

    return scene(step, nothing, lambda: r.seed(1), observe=lambda: state["draw"]())


@case("put off")
def a_method_of_a_subclass_of_a_generator():
    class Own(random.Random):
        def random(self):
            return 0.25

    r, kept = Own(3), []

    def step(x):
        kept.append(r.getrandbits)
        return x * r.random(), r.uniform(1.0, 3.0), r.getrandbits(5)

    return scene(step, nothing, observe=lambda: len(kept))
