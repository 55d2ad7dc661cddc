"""Output: what is printed, logged and warned, where it goes, and when the program's own code hears it."""

import contextlib
import datetime
import io
import logging
import os
import sys
import time
import warnings

import eager
from tests.never_wrong.harness import Program, after, case, over, vector


@contextlib.contextmanager
def handling(logger, handler):
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class Tee(io.StringIO):
    """A stream of the program: it counts, and its state is read by steps."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def write(self, text):
        self.count += 1
        return super().write(text)


@case("output")
def stderr_is_redirected_inside():
    def step(x, n):
        text = io.StringIO()
        with contextlib.redirect_stderr(text):
            print("inside", n, file=sys.stderr)
            y = x * n
        print("outside", y.sum().item(), file=sys.stderr)
        return text.getvalue(), y

    return over(step, [1, 2])


@case("output")
def stdout_is_replaced_by_hand():
    def step(x, n):
        before, sys.stdout = sys.stdout, io.StringIO()
        try:
            print("inside", n)
            y = x * n
            text = sys.stdout.getvalue()
        finally:
            sys.stdout = before
        print("outside", text)
        return y

    return over(step, [1, 2, 3])


@case("output")
def stdout_is_the_programs_for_one_call():
    tee = Tee()

    def step(x, n):
        print("a", n)
        return x * tee.count, tee.count

    def outer(x, n):
        if n == 2:
            with contextlib.redirect_stdout(tee):
                return inner(x, n)
        return inner(x, n)

    inner = step
    return over(outer, [1, 2, 3, 2], lambda: (tee.getvalue(), tee.count))


@case("output")
def print_to_a_stream_that_counts():
    tee = Tee()

    def step(x, n):
        print("n", n, x.sum().item(), file=tee)
        seen = tee.count
        tee.write("more")
        return x, seen, tee.count

    return over(step, [1, 2], lambda: tee.getvalue())


@case("output")
def wrong_words_for_print_and_write():
    out = io.StringIO()

    def step(x, n):
        found = []
        for each in (lambda: print("a", sep=n), lambda: print("a", end=x), lambda: out.write(n),
                     lambda: out.writelines(["b", n]), lambda: out.write(), lambda: print(n, file=n)):  # fmt: skip
            try:
                found.append(each())
            except Exception as error:
                found.append((type(error).__name__, str(error)))
        return found, x

    return over(step, [1, 2], out.getvalue)


@case("output")
def lengths_of_what_is_written():
    out = io.StringIO()

    def step(x, n):
        first = out.write(f"{n}\n")
        second = out.write(f"{x.sum().item():.1f}")
        out.writelines(str(v) for v in range(n))
        return first + 1, second, x

    return over(step, [1, 20, 3], out.getvalue)


@case("output")
def a_filter_of_a_logger_counts():
    seen = []
    log = logging.getLogger("never_wrong.filter")
    log.setLevel(logging.INFO)

    def counts(record):
        seen.append(record.getMessage())
        return len(seen) % 2 == 0

    log.addFilter(counts)

    def step(x, n):
        log.info("n is %d", n)
        log.debug("not enabled %d", n)
        return x * len(seen)

    program = over(step, [1, 2, 3], lambda: list(seen))
    program.close = lambda: log.removeFilter(counts)
    return program


@case("output")
def a_handler_is_added_between_calls():
    seen = []
    log = logging.getLogger("never_wrong.added")
    log.setLevel(logging.INFO)

    class Keep(logging.Handler):
        def emit(self, record):
            seen.append(record.getMessage())

    keep = Keep()

    def step(x, n):
        log.info("n is %d", n)
        seen.append(n)
        return x * len(seen)

    x = vector()
    return Program(
        step,
        [(x, 1), (x, 2), after(lambda: log.addHandler(keep), x, 3), (x, 4),
         after(lambda: log.removeHandler(keep), x, 5)],
        lambda: list(seen),
        lambda: log.removeHandler(keep),
    )  # fmt: skip


@case("output")
def an_adapter_and_the_functions_of_the_module():
    seen = []

    class Keep(logging.Handler):
        def emit(self, record):
            seen.append((record.getMessage(), record.levelname))

    keep = Keep()
    adapter = logging.LoggerAdapter(logging.getLogger("never_wrong.adapter"), {"a": 1})

    def step(x, n):
        adapter.warning("adapted %s", n)
        seen.append("between")
        logging.error("root %s", n)
        logging.log(logging.DEBUG, "quiet")
        return x, len(seen)

    logging.root.addHandler(keep)
    return Program(
        step,
        [(vector(), 1), (vector(), 2)],
        lambda: list(seen),
        lambda: logging.root.removeHandler(keep),
    )


@case("output")
def a_level_that_is_not_enabled():
    log = logging.getLogger("never_wrong.level")
    log.setLevel(logging.WARNING)

    def step(x, n):
        log.debug("n is %d", n)
        log.log(5 * n, "by number")
        return x * n

    return Program(
        step,
        [(vector(), 1), (vector(), 9), after(lambda: log.setLevel(logging.DEBUG), vector(), 2)],
        close=lambda: log.setLevel(logging.NOTSET),
    )


@case("output")
def an_exception_is_logged():
    log = logging.getLogger("never_wrong.exception")

    def step(x, n):
        text = io.StringIO()
        handler = logging.StreamHandler(text)
        with handling(log, handler):
            try:
                return x * [1, 2][n], text.getvalue()
            except IndexError:
                log.exception("no such %d", n)
        lines = text.getvalue().splitlines()
        return lines[0], len([v for v in lines if v.startswith("  File")])

    return over(step, [1, 5, 0, 6])


@case("output")
def a_warning_is_an_error_of_the_caller():
    def step(x, n):
        try:
            warnings.warn(f"n is {n}", UserWarning, stacklevel=1)
        except UserWarning as error:
            return x, str(error)
        return x * n, ""

    def outer(x, n):
        with warnings.catch_warnings():
            warnings.simplefilter("error" if n == 2 else "ignore")
            return inner(x, n)

    inner = step
    return over(outer, [1, 2, 3, 2])


@case("output")
def the_program_shows_warnings_itself():
    seen = []

    def show(message, category, filename, lineno, file=None, line=None):
        seen.append(str(message))

    def step(x, n):
        warnings.warn(f"n is {n}", stacklevel=1)
        return x * len(seen), list(seen)

    def outer(x, n):
        with warnings.catch_warnings():
            warnings.showwarning = show
            return inner(x, n)

    inner = step
    return over(outer, [1, 2], lambda: list(seen))


@case("output")
def a_warning_of_no_category():
    def step(x, n):
        found = []
        for category in (n, int, "UserWarning", UserWarning("made")):
            try:
                warnings.warn("w", category)  # noqa: B028
            except TypeError as error:
                found.append(str(error))
        warnings.warn(DeprecationWarning(f"n = {n}"))  # noqa: B028
        return found, x

    return over(step, [1, 2])


@case("output")
def warnings_are_ignored_for_a_block():
    def step(x, n):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="quiet")
            warnings.warn("quiet please", stacklevel=1)
            warnings.warn("loud", stacklevel=1)
        warnings.warn("quiet again", stacklevel=1)
        return x * n

    return over(step, [1, 2])


@case("output")
def the_program_counts_the_warnings():
    def step(x, n):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            warnings.warn("first", stacklevel=1)
            seen = len(found)
            warnings.warn("second", stacklevel=1)
        return x * n, seen, [str(w.message) for w in found]

    return over(step, [1, 2])


@case("output")
def warnings_are_recorded_in_a_list_that_the_program_has():
    box = []

    def inner(x, n):
        warnings.warn("slow", stacklevel=1)
        return x * n, len(box[-1])

    def step(x, n):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            box.append(found)
            return inner(x, n)

    return over(step, [1, 2])


@case("output")
def sleeping_for_no_time():
    def step(x, n):
        try:
            time.sleep(n)
        except (ValueError, TypeError) as error:
            return str(error), x
        return x * 2

    return over(step, [0, -1, 0.0, -0.5, "a", float("nan"), 1e300, 1])


@case("output")
def the_print_of_another_writer():
    """Between two prints the program's own stream writes to the same place."""
    text = io.StringIO()

    class Stream:
        def write(self, data):
            text.write(f"<{data}>")

        def flush(self):
            text.write("!")

    stream = Stream()

    def step(x, n):
        print("a", n, file=text)
        print("b", file=stream, flush=n > 1)
        stream.write("c")
        print("d", x.sum().item(), file=text)
        return x

    return over(step, [1, 2], text.getvalue)


@case("output")
def a_library_is_patched_for_a_while():
    import math

    def step(x, n):
        before = math.sqrt
        math.sqrt = lambda v: v * 100
        try:
            y = x * math.sqrt(4) + eager.ones(2) * n
        finally:
            math.sqrt = before
        return y, math.sqrt(4)

    return over(step, [1, 2])


@case("output")
def text_that_some_numbers_do_not_have():
    def step(x, n, f):
        y = x.sum().item()
        found = []
        for each in (lambda: "%d" % f, lambda: f"{n:c}", lambda: "%*d" % (n, 3), lambda: "%c" % n,
                     lambda: f"{f:d}", lambda: "%d" % y, lambda: f"{y:x}", lambda: "%s %s" % (y,),  # noqa: F507
                     lambda: f"{3:{n}}", lambda: f"{x:.2f}", lambda: format(y, "q"),
                     lambda: "{:d} {}".format(f, n), lambda: "{} {}".format(n), lambda: f"{y}" + n,  # noqa: F524
                     lambda: "-".join([f"{y}", n]), lambda: "a".center(n, "xy"), lambda: "%x" % f):  # fmt: skip
            try:
                found.append(each())
            except Exception as error:
                found.append((type(error).__name__, str(error)))
        return found

    x = vector()
    rows = [(5, 2.5), (6, 1e300), (7, float("nan")), (-8, float("inf")), (2**40, 0.0), (9, 3.0)]
    return Program(step, [(x, n, f) for n, f in rows])


@case("output", one_graph=True)
def text_that_every_number_has():
    def step(x, n, f):
        y = x.sum().item()
        text = f"{n:>5} {f:.3f} {y:08.3f}", "%s %5.1f %d" % (n, y, n), "{:e} {}".format(f, [y, n])
        return x * 2, text, "%d%%" % f, ", ".join(str(v) for v in (n, f, y)), repr({"a": (n, y)})

    x = vector()
    return Program(step, [(x, 1, 0.5), (x, 2, 1.5), (x, -3, -2.5), (x, 2**62, 1e20)])


@case("output")
def a_count_of_more_digits_than_python_writes():
    state = {"n": 10**4298}

    def step(x):
        state["n"] *= 10
        try:
            text = f"{state['n']}"
        except ValueError:
            text = "too long"
        return len(text), x

    return Program(step, [(vector(),)] * 4, lambda: hex(state["n"])[:20])


@case("output")
def methods_of_text_with_numbers():
    def step(x, n):
        y = f"{x.sum().item()}"
        return (
            "a1b2".find(str(n)), "121".count(str(n)), "1,2".split(str(n)), str(n).isdigit(),
            "12".startswith(str(n)), "x".encode() + str(n).encode(), "a{}b".format(n).upper(), y,
            type("ab".replace("a", y)), "b".join(["a", y]),
        )  # fmt: skip

    return over(step, [1, 2, 3])


@case("output")
def fields_that_a_format_reads():
    class Config:
        def __init__(self):
            self.rate, self.names = 0.5, ["a", "b"]

    config = Config()

    def step(x):
        text = "{0.rate:.2f} {0.names[1]} {c.rate}".format(config, c=config)
        return x, text, "{1:{0.names[0]}>5}".format(config, 1) if config.rate > 1 else ""

    x = vector()
    return Program(step, [(x,), after(lambda: setattr(config, "rate", 0.25), x),
                          after(lambda: config.names.__setitem__(1, "c"), x)])  # fmt: skip


@case("output")
def items_that_a_format_reads():
    table, rows = {"a": 1, "b": [2, 3]}, [4, 5]

    def step(x, n):
        return "{0[a]} {0[b][1]} {1[0]}".format(table, rows), "{a} {b}".format_map(table), x * n

    x = vector()
    return Program(step, [(x, 1), after(lambda: table.update(a=7), x, 2),
                          after(lambda: rows.insert(0, "first"), x, 3)])  # fmt: skip


@case("output")
def text_of_parameters():
    layer = eager.nn.Linear(2, 1)
    with eager.no_grad():
        layer.weight.fill_(2.0)
        layer.bias.fill_(1.0)
    log = logging.getLogger("never_wrong")

    def step(x):
        log.warning("weight %s", layer.weight)
        print(layer.weight, [layer.bias], f"{layer.bias!r}|{layer.weight}", layer.weight.detach())
        return str(layer.bias), "%s" % layer.weight, "{}".format(layer.bias)  # noqa: UP031, UP032

    return over(lambda x, _: step(x), [1, 2])


@case("output", one_graph=True, compiles=1)
def a_clock_is_read_and_told():
    seen = []

    def step(x, _):
        begun, day = time.perf_counter(), datetime.datetime.now()
        y = x * 2
        first = time.perf_counter()
        z = y.sum()
        seen.append((time.perf_counter() - first, first - begun, time.time_ns(), os.getpid()))
        later = datetime.datetime.now() - day
        print(f"{first - begun:.0f} {later.total_seconds():.0f} {day:at}")
        return z, type(first), type(day), type(later), isinstance(day, datetime.date)

    def ordered():
        return [(a >= 0, b >= 0, c > 10**18, d == os.getpid()) for a, b, c, d in seen]

    return over(step, [1, 1, 2, 3], ordered)


@case("output")
def a_clock_that_decides():
    seen = []

    def step(x, limit):
        begun = time.monotonic()
        time.sleep(0.002)
        slept = time.monotonic() - begun
        while time.monotonic() - begun < limit and len(seen) < 9:
            x = x * 2
            seen.append(len(seen))
        rate = 1 / (time.monotonic() - begun)
        return x, slept >= 0.002, rate > 0, x * (time.time() > 0)

    return over(step, [0.0, 100.0, 0.0], lambda: seen)


@case("output")
def reports_tell_of_callers():
    """Of those that are compiled in parts, and of those above them."""
    seen, log = [], logging.getLogger("never_wrong.callers")

    class Kept(logging.Handler):
        def emit(self, record):
            seen.append((record.funcName, record.lineno))

    def tell(level):
        log.warning("told", stacklevel=level)
        warnings.warn("told", UserWarning, level)

    def through(level):
        tell(level)

    def step(x, n):
        for level in (1, 2, 3, 4, 5):
            through(level)
        return x * n

    log.addHandler(Kept())
    log.propagate = False
    shown = warnings.showwarning

    def outer(x, n):
        warnings.showwarning = lambda message, category, file, line, *_: seen.append(line)
        try:
            return step(x, n)
        finally:
            warnings.showwarning = shown

    return over(outer, [1, 2], lambda: seen)


@case("output")
def a_logger_without_handlers_is_heard():
    """By the program's own stream, by what it has in place of `basicConfig`; and what a logger has
    noted of its levels is what the program has asked."""
    heard, log = [], logging.getLogger("never_wrong.bare")

    class Own:
        def write(self, text):
            heard.append(text)

        def flush(self):
            heard.append("flushed")

    def step(x, n):
        stream, configure, held = sys.stderr, logging.basicConfig, logging.root.handlers[:]
        sys.stderr, logging.basicConfig = Own(), lambda: heard.append("configured")
        logging.root.handlers[:] = []
        manager = logging.root.manager
        try:
            logging.debug("configures")  # noqa: LOG015
            log.warning("n is %d", n)
            first = len(heard)
            logging.error("again")  # noqa: LOG015
            found = first, len(heard)
        finally:
            sys.stderr, logging.basicConfig, logging.root.handlers[:] = stream, configure, held
        log.manager.disable = 33
        try:
            same = manager is logging.Logger.manager
            return x, found, same, log.isEnabledFor(32), sorted(log._cache)
        finally:
            log.manager.disable = 0
            log._cache.clear()

    return over(step, [1, 2], lambda: heard)
