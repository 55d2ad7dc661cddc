"""Text: f-strings, formats, repr, print, redirected streams, logging, warnings."""

import contextlib
import decimal
import enum
import fractions
import io
import logging
import sys
import textwrap
import warnings

import numpy as np

import eager
from tests.never_wrong.harness import Program, after, case, over


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Name(enum.StrEnum):
    A = "a"
    B = "b"


class Flags(enum.Flag):
    R = 1
    W = 2


class Plain(enum.Enum):
    ONE = 1


@case("text")
def format_specs_of_run_time_numbers():
    def step(x, f):
        width = 9
        return f"{f}|{f:.2f}|{f:>10}|{f:<10.3e}|{f:+}|{f!r:>8}|{f:{width}.{2}f}|{f:%}|{f:,}", x

    return over(step, [1.5, -0.0, 12345.678, float("inf"), 7])


@case("text")
def parameters_are_shown_as_such():
    layer = eager.nn.Linear(2, 1)

    def step(x, n):
        with eager.no_grad():
            layer.weight.fill_(n)
        made = eager.nn.Parameter(x * n)
        return (
            str(layer.weight),
            [f"{p!r}" for p in layer.parameters()][:1],
            f"{made}",
            repr([made]),
        )

    return over(step, [1, 2])


@case("text")
def format_specs_of_items():
    def step(x, n):
        loss = (x * n).sum().item()
        return f"{loss}|{loss:.2f}|{loss:>10}|{loss!r}|{loss:{n}.1f}|{int(loss):d}|{loss=}|{n=:03d}"

    return over(step, [1, 2, 12])


@case("text")
def format_specs_of_ints():
    def step(x, n):
        return f"{n:d}|{n:05d}|{n:x}|{n:#b}|{n:e}|{n:c}|{n:_}|{n:^7}|{n!s:>6}", f"{n:>{n % 7}}", x

    return over(step, [65, 66, 1234])


@case("text")
def enum_members_in_f_strings():
    def step(x, m):
        return (
            f"{m}|{m!s}|{m!r}|{m:>12}|{m.name}|{m.value}",
            str(m),
            repr(m),
            "%s" % m,
            format(m),
            x,
        )

    return over(step, [Level.LOW, Level.HIGH, Name.A, Name.B, Plain.ONE, Flags.R | Flags.W])


@case("text")
def enum_members_read_from_a_class():
    holder = {"level": Level.LOW}

    def step(x):
        return x * holder["level"], f"{holder['level']} {Name.A} {Level.HIGH:d} {Name.B.upper()}"

    x = eager.tensor([1.0])
    return Program(step, [(x,), after(lambda: holder.update(level=Level.HIGH), x),
                          after(lambda: holder.update(level=1), x)])  # fmt: skip


@case("text")
def percent_formats():
    def step(x, n):
        table = {"n": n, "x": x.sum().item()}
        return "%d %5.1f %s %r %%" % (n, n, n, n), "%(n)s %(x).1f" % table, "%s" % (x,), "%c" % 65

    return over(step, [1, 2, 3.5, 2**70])


@case("text")
def percent_format_errors():
    def step(x, n):
        found = []
        for spec, args in (("%d", "a"), ("%d %d", n), ("%z", n), ("%s", (1, 2)), ("%(a)s", {})):
            try:
                found.append(spec % args)
            except Exception as error:
                found.append((type(error).__name__, str(error)))
        return found, x

    return over(step, [1, 2])


@case("text")
def str_format_with_attributes_and_items():
    class Box:
        def __init__(self, v):
            self.v, self.items = v, [v, v * 2]

    def step(x, n):
        box = Box(n)
        return "{0.v} {0.items[1]} {b.v!r:>5} {1[key]}".format(box, {"key": n}, b=box), x

    return over(step, [1, 2, 3])


@case("text")
def str_format_of_objects_from_outside():
    class Config:
        rate = 0.5
        names = ["a", "b"]

    def step(x):
        return x * Config.rate, "{0.rate} {0.names[0]} {names}".format(Config, names=Config.names)

    x = eager.tensor([1.0])
    return Program(step, [(x,), after(lambda: setattr(Config, "rate", 0.25), x),
                          after(lambda: Config.names.__setitem__(0, "c"), x)])  # fmt: skip


@case("text")
def user_format_methods():
    log = []

    class Money:
        def __init__(self, v):
            self.v = v

        def __format__(self, spec):
            log.append(("format", spec))
            return f"${self.v:{spec or '.2f'}}"

        def __str__(self):
            log.append("str")
            return "money"

        def __repr__(self):
            log.append("repr")
            return f"Money({self.v})"

    def step(x, n):
        m = Money(n)
        return f"{m} {m:.1f} {m!s} {m!r}", "{} {:.3f}".format(m, m), "%s %r" % (m, m), str([m]), x

    return over(step, [1, 2, 3.5], lambda: list(log))


@case("text")
def repr_of_objects_from_outside_inside_containers():
    class Item:
        def __init__(self, v):
            self.v = v

        def __repr__(self):
            return f"<{self.v}>"

    held = [Item(1), {"a": Item(2)}]

    def step(x):
        return repr(held), f"{held}", str({"k": held[0]}), x

    x = eager.tensor([1.0])
    return Program(step, [(x,), after(lambda: setattr(held[0], "v", 5), x),
                          after(lambda: held[1].update(b=Item(9)), x)])  # fmt: skip


@case("text")
def repr_of_containers_with_tensors_and_numbers():
    def step(x, n):
        y = x * n
        values = [y, {"n": n, "loss": y.sum().item()}, (n,), {n}, y.shape, n / 3]
        return repr(values), str(values), f"{values!r:.30}", f"{y}"

    return over(step, [1, 2, 3])


@case("text")
def repr_of_a_list_that_changes_after():
    def step(x, n):
        values = [x.sum().item(), n]
        text = repr(values)
        values.append("late")
        x.add_(1)
        return text, f"{values}", repr(x)

    return over(step, [1, 2])


@case("text")
def methods_of_text_made_of_items():
    def step(x, n):
        text = f"{x.sum().item():.1f}"
        return text.split("."), text + "!", len(text), text.upper() + text, text == "3.0", text * 2

    return over(step, [1, 2])


@case("text")
def join_of_numbers():
    def step(x, n):
        return ", ".join(map(str, [n, n / 2, x.sum().item()])), "-".join(f"{v}" for v in (n, "a"))

    return over(step, [1, 2, 3])


@case("text")
def text_is_a_key():
    table = {}

    def step(x, n):
        table[f"step {n}"] = x.sum().item()
        table[str(n)] = n
        return list(table), f"step {n}" in table, x

    return over(step, [1, 2, 2, 3], lambda: table)


@case("text")
def text_of_an_item_is_a_key():
    table = {}

    def step(x, n):
        key = f"{(x * n).sum().item():.0f}"
        table[key] = table.get(key, 0) + 1
        return x

    return over(step, [1, 2, 1, 3], lambda: table)


@case("text")
def print_with_sep_end_and_file():
    held = io.StringIO()

    def step(x, n):
        print(n, x.sum().item(), sep="-", end="|")
        print("to the file", n, file=held)
        print("error", file=sys.stderr)
        print(*[n] * 3, sep="\n", end="")
        print(x, [n], {"n": n}, flush=True)
        return x * n

    return over(step, [1, 2, 3], lambda: held)


@case("text")
def print_to_a_writer_of_the_user():
    class Writer:
        def __init__(self):
            self.parts = []

        def write(self, text):
            self.parts.append(text)

        def flush(self):
            self.parts.append("flushed")

    writer = Writer()

    def step(x, n):
        print("n", n, file=writer, flush=n == 2)
        return x

    return over(step, [1, 2, 3], lambda: writer.parts)


@case("text")
def printing_is_redirected_inside():
    def step(x, n):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            print("inside", n)
        print("outside", n)
        return out.getvalue(), x

    return over(step, [1, 2])


@case("text")
def printing_is_redirected_between_calls():
    held, before = io.StringIO(), []

    def step(x, n):
        print("printed", n)
        sys.stdout.write(f"written {n}\n")
        print("named", file=sys.stdout)
        return x

    def outer(x, n):
        if n == 2:
            with contextlib.redirect_stdout(held):
                return step(x, n)
        return step(x, n)

    return over(outer, [1, 2, 3], lambda: held)


@case("text")
def stdout_is_replaced_by_a_class_of_the_user():
    lines = []

    class Tee(io.StringIO):
        def write(self, text):
            lines.append(text)
            return len(text)

    tees = [Tee()]

    def step(x, n):
        print("printed", n, file=tees[0])
        sys.stdout.write("direct\n")
        return x

    return over(step, [1, 2], lambda: lines)


@case("text")
def string_io_made_inside():
    def step(x, n):
        out = io.StringIO()
        out.write(f"{n}")
        print("more", x.sum().item(), file=out)
        return out.getvalue(), x

    return over(step, [1, 2])


@case("text")
def logging_with_lazy_arguments():
    logger = logging.getLogger("never_wrong.lazy")
    logger.setLevel(logging.DEBUG)
    asked = []

    class Costly:
        def __str__(self):
            asked.append("str")
            return "costly"

    def step(x, n):
        logger.info("n=%d loss=%.2f", n, (x * n).sum().item())
        logger.debug("%s", Costly())
        logger.warning("dict %(a)s", {"a": n})
        return x

    x = eager.tensor([1.0, 2.0])
    calls = [(x, 1), (x, 2), after(lambda: logger.setLevel(logging.WARNING), x, 3), (x, 4)]
    return Program(step, calls, lambda: list(asked), lambda: logger.setLevel(logging.NOTSET))


@case("text")
def logging_arguments_that_change_after():
    logger = logging.getLogger("never_wrong.change")
    logger.setLevel(logging.DEBUG)

    def step(x, n):
        values = [n]
        logger.info("%s %s", values, x)
        values.append("late")
        x.add_(1)
        logger.info("%s", values)
        return x

    return over(step, [1, 2])


@case("text")
def logging_through_helpers_and_stacklevel():
    logger = logging.getLogger("never_wrong.level")
    logger.setLevel(logging.DEBUG)

    def say(n):
        logger.info("here %s", n)
        logger.info("caller %s", n, stacklevel=2)
        logger.log(logging.ERROR, "extra", extra={"code": n})

    def step(x, n):
        say(n)
        return x

    return over(step, [1, 2])


@case("text")
def logging_an_exception():
    logger = logging.getLogger("never_wrong.exception")
    logger.setLevel(logging.DEBUG)

    def step(x, n):
        try:
            1 // n
        except ZeroDivisionError:
            logger.exception("n=%s", n)
        return x

    return over(step, [1, 0, 2])


@case("text")
def logger_adapter_and_filters():
    logger = logging.getLogger("never_wrong.adapter")
    logger.setLevel(logging.DEBUG)
    adapter = logging.LoggerAdapter(logger, {"run": 1})
    seen = []

    class Drop(logging.Filter):
        def filter(self, record):
            seen.append(record.getMessage())
            return "2" not in record.getMessage()

    drop = Drop()
    logger.addFilter(drop)

    def step(x, n):
        adapter.info("n=%s", n)
        return x

    program = over(step, [1, 2, 3], lambda: list(seen))
    program.close = lambda: logger.removeFilter(drop)
    return program


@case("text")
def warnings_with_stacklevel_and_categories():
    class Mine(UserWarning):
        pass

    def helper(n):
        warnings.warn(f"helper {n}", stacklevel=2)
        warnings.warn(Mine(f"mine {n}"))  # noqa: B028
        warnings.warn("deprecated", DeprecationWarning, 1)

    def step(x, n):
        helper(n)
        return x

    return over(step, [1, 2, 2])


@case("text")
def warnings_are_errors_for_a_while():
    def step(x, n):
        log = []
        with warnings.catch_warnings():
            warnings.simplefilter("error" if n == 2 else "ignore")
            try:
                warnings.warn("careful", stacklevel=1)
                log.append("went on")
            except UserWarning as error:
                log.append(str(error))
        return log, x

    return over(step, [1, 2, 1])


@case("text")
def warnings_are_recorded_inside():
    def step(x, n):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            warnings.warn(f"first {n}")  # noqa: B028
            warnings.warn("second", RuntimeWarning)  # noqa: B028
        return [(w.category.__name__, str(w.message)) for w in said], x

    return over(step, [1, 2])


@case("text")
def texts_of_numpy_fractions_and_decimals():
    def step(x, v):
        return f"{v}", repr(v), str(v), f"{v!r:>30}", f"{v:>12}", "%s" % v, str([v]), x

    return over(step, [np.float64(0.1), np.float32(0.1), np.int64(3), fractions.Fraction(1, 3),
                       decimal.Decimal("0.10"), True, None, 1e16, 1j])  # fmt: skip


@case("text")
def texts_of_tensors():
    def step(x, n):
        y = (x * n).requires_grad_()
        z = y.exp() * 1e-5
        return f"{x}", repr(y), str(z > 0), f"{x.sum()}", f"{x.sum():.2f}", f"{y.shape} {y.dtype}"

    return over(step, [1, 2])


@case("text")
def text_methods_with_numbers():
    def step(x, n):
        return ("ab" * n, "abc"[n:], "abc".center(n + 5, "*"), str(n).zfill(5), "x".rjust(n),
                "a,b,c".split(",", n), textwrap.shorten("one two three", 6 + n), "abc".replace("b", "d", n),
                chr(97 + n), ord("a") + n, "{:>{w}}".format("a", w=n), b"%d" % n, x)  # fmt: skip

    return over(step, [1, 2, 3])


@case("text")
def print_order_among_effects_and_errors():
    log = []

    def step(x, n):
        print("one")
        log.append("one")
        x.add_(1)
        print("two", x.sum().item())
        log.append(10 // n)
        print("three")
        return x

    return over(step, [1, 2, 0, 1], lambda: log)


@case("text")
def print_is_replaced_between_calls():
    import builtins

    lines = []

    def step(x, n):
        print("n", n)
        return x

    def mine(*args, **kwargs):
        lines.append(args)

    before = builtins.print
    x = eager.tensor([1.0])
    calls = [(x, 1), after(lambda: setattr(builtins, "print", mine), x, 2),
             after(lambda: setattr(builtins, "print", before), x, 3)]  # fmt: skip
    return Program(step, calls, lambda: list(lines), lambda: setattr(builtins, "print", before))


@case("text")
def sys_stderr_and_writelines():
    def step(x, n):
        sys.stderr.write(f"error {n}\n")
        written = sys.stdout.write(f"{x.sum().item()}\n")
        sys.stdout.writelines(["a\n", f"{n}\n"])
        return written, x

    return over(step, [1, 22])


@case("text")
def subclasses_of_text():
    class Tag(str):  # noqa: SLOT000
        def __str__(self):
            return "tag " + str.__str__(self)

        def __format__(self, spec):
            return f"<{str.__str__(self)}>"

        def __eq__(self, other):
            return True

        __hash__ = str.__hash__

    def step(x, t):
        return f"{t}", str(t), "%s" % t, t + "!", t == "z", t in ("p", "q"), "".join([t, "b"]), x

    return over(step, ["a", Tag("a"), "b", Tag("b")])
