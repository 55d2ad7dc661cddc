"""Exceptions: contexts, causes, groups, arguments with run-time values, tracebacks, StopIteration."""

import contextlib
import sys
import traceback

import eager

from .harness import Program, after, case


def over(step, values, observe=lambda: None):
    x = eager.tensor([1.0, 2.0])
    return Program(step, [(x, value) for value in values], observe)


def caught(step, values):
    """The step's exceptions are kept by its caller."""
    kept = []

    def outer(x, value):
        try:
            return step(x, value)
        except Exception as error:
            kept.append(error)
            return str(error), error.args

    return over(outer, values, lambda: kept)


@case("exceptions")
def text_of_an_exception_with_a_run_time_int():
    def step(x, n):
        try:
            raise ValueError(n)
        except ValueError as error:
            return str(error), error.args, repr(error), f"{error}", x

    return over(step, [1, 2, 3, 2**70])


@case("exceptions")
def exception_with_an_item_is_kept():
    def step(x, n):
        raise ValueError("loss is", (x * n).sum().item(), f"{x.sum().item():.2f}")

    return caught(step, [1, 2, 3])


@case("exceptions")
def exception_with_a_float_escapes():
    def step(x, f):
        if f > 1:
            raise OverflowError("rate", f, f * 2, f"{f:.3f}")
        return x * f

    return over(step, [0.5, 1.5, 2.5, 0.25])


@case("exceptions")
def text_is_read_in_a_later_call():
    held = {}

    def step(x, n):
        before = str(held["error"]) if "error" in held else "none"
        held["error"] = KeyError(n, x.sum().item(), f"n={n}")
        return before, x

    return over(step, [1, 2, 3, 4], lambda: held)


@case("exceptions")
def texts_of_exceptions_in_a_list():
    errors = []

    def step(x, n):
        try:
            [10][n]
        except IndexError as error:
            errors.append(error)
        return [str(e) for e in errors], len(errors), x

    return over(step, [0, 1, 2, -1], lambda: errors)


@case("exceptions")
def implicit_context_of_two_levels():
    def step(x, n):
        try:
            {}[n]
        except KeyError:
            try:
                1 / (n - n)
            except ZeroDivisionError:
                raise ValueError(n)

    return caught(step, [1, 2])


@case("exceptions")
def cause_and_suppressed_context():
    def step(x, n):
        try:
            int("x")
        except ValueError as error:
            if n == 0:
                raise KeyError("none") from None
            if n == 1:
                raise KeyError("caused") from error
            if n == 2:
                raise KeyError("other cause") from OSError(2, "no such file")
            raise KeyError("context")

    return caught(step, [0, 1, 2, 3])


@case("exceptions", lines=True)
def lines_of_an_uncaught_exception():
    def inner(x, n):
        y = x * 2
        if n == 1:
            raise ValueError(n)
        return y[n]

    def step(x, n):
        x = x + 1
        return inner(x, n)

    return over(step, [0, 1, 5, 1])


@case("exceptions", lines=True)
def lines_of_an_exception_after_a_write():
    log = []

    def inner(x, n):
        log.append(n)
        x.add_(1)
        return 10 // n

    def step(x, n):
        inner(x, n)
        return inner(x, n - 1)

    return over(step, [2, 3, 1, 0], lambda: log)


@case("exceptions")
def error_from_a_finally_replaces_the_first():
    def step(x, n):
        try:
            raise ValueError("first")
        finally:
            if n:
                raise KeyError("second")

    return caught(step, [0, 1])


@case("exceptions")
def context_of_an_error_in_exit():
    class Closing:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, tb):
            raise RuntimeError(f"closing after {kind and kind.__name__}: {error}")

    def step(x, n):
        with Closing():
            if n:
                raise ValueError(n)
        return x

    return caught(step, [0, 1, 2])


@case("exceptions")
def context_is_cut_by_reraise():
    def step(x, n):
        try:
            try:
                raise ValueError("a")
            except ValueError as error:
                first = error
                raise KeyError("b") from first
        except KeyError as error:
            if n:
                raise first
            raise error.__cause__ from error

    return caught(step, [0, 1])


@case("exceptions")
def group_is_split():
    def step(x, n):
        found = []
        try:
            raise ExceptionGroup(
                "many", [ValueError(n), KeyError("k"), ExceptionGroup("in", [OSError(n, "os")])]
            )
        except* ValueError as group:
            found.append(("value", [str(e) for e in group.exceptions]))
        except* KeyError as group:
            found.append(("key", len(group.exceptions)))
        except* OSError as group:
            found.append(("os", str(group)))
        return found, x

    return over(step, [1, 2])


@case("exceptions")
def group_that_is_not_all_handled():
    def step(x, n):
        try:
            raise ExceptionGroup("many", [ValueError(n), KeyError("k")])
        except* ValueError:
            x = x + 1

    return caught(step, [1, 2])


@case("exceptions")
def exception_with_notes_and_attributes():
    class Bad(Exception):
        def __init__(self, code, *, hint):
            super().__init__(f"code {code}")
            self.code, self.hint = code, hint

        def __str__(self):
            return f"<{self.args[0]} {self.hint}>"

    def step(x, n):
        error = Bad(n, hint=x.shape)
        error.add_note(f"note {n}")
        raise error

    return caught(step, [1, 2, 3])


@case("exceptions")
def custom_str_with_effects():
    log = []

    class Loud(Exception):
        def __str__(self):
            log.append("asked")
            return f"loud {self.args}"

    def step(x, n):
        try:
            raise Loud(n)
        except Loud as error:
            if n == 2:
                raise
            return str(error), f"{error}", x

    return over(step, [1, 2, 3], lambda: list(log))


@case("exceptions")
def exception_made_outside_is_raised_inside():
    error = ValueError("made outside")

    def step(x, n):
        if n:
            raise error
        return x

    return over(step, [0, 1, 0, 1], lambda: (error.args, error.__context__))


@case("exceptions")
def raise_a_class_or_an_instance():
    class Coded(Exception):
        def __init__(self, code=7):
            self.code = code

    def step(x, n):
        if n == 0:
            raise Coded
        if n == 1:
            raise Coded(8)
        if n == 2:
            raise Coded from KeyError
        raise "text"

    return caught(step, [0, 1, 2, 3])


@case("exceptions")
def bare_raise_without_an_exception():
    def step(x, n):
        if n:
            raise
        return x

    return over(step, [0, 1])


@case("exceptions")
def bare_raise_in_a_helper():
    def again():
        raise

    def step(x, n):
        try:
            [][n]
        except IndexError:
            again()

    return caught(step, [0, 1])


@case("exceptions")
def sys_exception_inside_and_outside_handlers():
    def step(x, n):
        before = sys.exc_info()[0]
        try:
            [][n]
        except IndexError:
            inside = sys.exc_info()[0].__name__
            try:
                int("x")
            except ValueError:
                deeper = type(sys.exc_info()[1]).__name__
            restored = sys.exc_info()[0].__name__
        return before, inside, deeper, restored, sys.exc_info(), x

    return over(step, [0, 1])


@case("exceptions")
def called_while_an_exception_is_handled():
    def inner(x, n):
        try:
            raise KeyError(n)
        except KeyError as error:
            return str(error.__context__), x

    program = over(inner, [0, 1, 2])
    plain = program.step
    program.step = inner
    program.calls[1] = after(lambda: None, *program.calls[1])
    assert plain is inner
    return program


@case("exceptions")
def context_from_the_caller_s_handler():
    kept = []

    def inner(x, n):
        raise KeyError(n)

    def step(x, n):
        try:
            try:
                raise ValueError(n)
            except ValueError:
                inner(x, n)
        except KeyError as error:
            kept.append(error)
            return repr(error.__context__), x

    return over(step, [1, 2, 3], lambda: kept)


@case("exceptions")
def formatted_traceback():
    def inner(n):
        return [10, 20][n]

    def step(x, n):
        try:
            return inner(n), x
        except IndexError as error:
            lines = traceback.format_exception_only(error)
            names = [f.name for f in traceback.extract_tb(error.__traceback__)]
            return lines, names

    return over(step, [0, 5, 1, 6])


@case("exceptions")
def line_number_of_a_traceback():
    def step(x, n):
        try:
            return [10, 20][n], x
        except IndexError as error:
            return error.__traceback__.tb_lineno, error.__traceback__.tb_next is None

    return over(step, [0, 5])


@case("exceptions")
def traceback_is_kept_in_state():
    held = []

    def step(x, n):
        try:
            [10, 20][n]
        except IndexError as error:
            held.append(error)
        return x

    def observe():
        return [[f.name for f in traceback.extract_tb(e.__traceback__)] for e in held]

    return over(step, [0, 5, 6], observe)


@case("exceptions")
def assert_messages_are_made_only_on_failure():
    log = []

    def text(n):
        log.append(n)
        return f"n is {n}"

    def step(x, n):
        assert n < 3, text(n)
        assert x.sum().item() < 100 or text("never")
        return x * n

    return over(step, [1, 2, 3, 4, 1], lambda: log)


@case("exceptions")
def assert_with_a_tensor_in_the_message():
    def step(x, n):
        assert n < 2, x * n
        return x

    return caught(step, [1, 2, 3])


@case("exceptions")
def stop_iteration_leaves_next():
    class Numbers:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            if self.n == 0:
                raise StopIteration("end", 7)
            self.n -= 1
            return self.n

    def step(x, n):
        numbers = Numbers(n)
        got = list(numbers)
        try:
            next(numbers)
        except StopIteration as stop:
            return got, stop.value, stop.args, x

    return over(step, [0, 2, 3])


@case("exceptions")
def stop_iteration_escapes_the_step():
    def step(x, items):
        it = iter(items)
        return next(it), next(it), x

    return over(step, [[1, 2, 3], [1], []])


@case("exceptions")
def exceptions_in_comprehensions_and_lambdas():
    def step(x, items):
        halves = [10 // v for v in items]
        return halves, x, sorted(items, key=lambda v: 1 / (v - 3))

    return over(step, [[1, 2], [1, 0], [5, 3], [4]])


@case("exceptions")
def errors_of_attributes_and_names():
    class Box:
        here = 1

    def step(x, n):
        try:
            if n == 0:
                return Box.missing
            if n == 1:
                return Box().missing
            if n == 2:
                return undefined_name  # noqa: F821
            if n == 3:
                return (None).field
            return x.no_such_attribute
        except (AttributeError, NameError) as error:
            return type(error).__name__, str(error), error.name, error.args

    return over(step, [0, 1, 2, 3, 4])


@case("exceptions")
def errors_of_wrong_types():
    def step(x, n):
        tries = [
            lambda: n + "a", lambda: len(n), lambda: n[0], lambda: n(), lambda: iter(n),
            lambda: "a" + n, lambda: [1] + (n,), lambda: -"a", lambda: {}[[]], lambda: n < "a",
            lambda: int([]), lambda: {**{"a": 1}, **n}, lambda: sum(["a"]), lambda: max([]),
            lambda: "abc".index("z"), lambda: [1].remove(n), lambda: int("3x"), lambda: n @ n,
            lambda: range(1.5), lambda: "%d" % "a", lambda: "{}{}".format(n), lambda: f"{n:zz}",
            lambda: (lambda a: a)(), lambda: print(end=n), lambda: isinstance(n, n),
        ]  # fmt: skip
        found = []
        for each in tries:
            try:
                found.append(each())
            except Exception as error:
                found.append((type(error).__name__, str(error)))
        return found, x

    return over(step, [5, 6, 7])


@case("exceptions")
def errors_of_tensors():
    def step(x, n):
        tries = [
            lambda: x + eager.ones(3), lambda: x.view(3), lambda: x[n], lambda: x @ eager.ones(3),
            lambda: x.reshape(n, 3), lambda: bool(x), lambda: x.item(), lambda: int(x),
            lambda: x.sum(dim=n), lambda: eager.cat([x, x], dim=n), lambda: x.backward(),
            lambda: len(x.sum()), lambda: x.to("nowhere"), lambda: eager.zeros(-n),
        ]  # fmt: skip
        found = []
        for each in tries:
            try:
                found.append(each())
            except Exception as error:
                found.append((type(error).__name__, str(error)))
        return found

    return over(step, [5, 6, 7])


@case("exceptions")
def suppressed_errors_and_their_order():
    log = []

    def step(x, n):
        with contextlib.suppress(KeyError, IndexError):
            log.append("a")
            [1, 2][n]
            log.append("b")
            {1: 1}[n]
            log.append("c")
        return x

    return over(step, [1, 0, 5, 1], lambda: log)


@case("exceptions")
def exception_is_returned_and_shared():
    def step(x, n):
        try:
            raise ValueError(n, [x])
        except ValueError as error:
            return error, [error, error.args], x

    return over(step, [1, 2, 3])


@case("exceptions")
def keyboard_interrupt_and_system_exit():
    log = []

    def step(x, n):
        try:
            log.append("try")
            if n == 1:
                raise SystemExit(n + 2)
            if n == 2:
                raise KeyboardInterrupt
        except Exception:
            log.append("except")
        finally:
            log.append("finally")
        return x

    return over(step, [0, 1, 2, 0], lambda: log)


@case("exceptions")
def exception_classes_compare_by_hooks():
    log = []

    class Meta(type):
        def __instancecheck__(cls, instance):
            log.append("asked")
            return True

    class Any_(Exception, metaclass=Meta):
        pass

    def step(x, n):
        try:
            raise ValueError(n)
        except (KeyError, Any_):
            return "any", isinstance(n, Any_), x
        except ValueError:
            return "value", isinstance(n, Any_), x

    return over(step, [1, 2], lambda: list(log))


@case("exceptions")
def errors_of_a_step_while_the_caller_handles_another():
    kept = []

    def step(x, n):
        try:
            return 1 // n, x
        except ZeroDivisionError as error:
            return repr(error.__context__), x

    def outer(x, n):
        try:
            raise OSError(n)
        except OSError:
            return step(x, n)

    return over(outer, [1, 0, 2], lambda: kept)
