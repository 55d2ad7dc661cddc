"""Exceptions: contexts, causes, groups, arguments with run-time values, tracebacks, StopIteration."""

import sys
import traceback

from jitcap import graph_break
from tests.never_wrong.harness import after, case, over


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
                raise ValueError(n)  # noqa: B904

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
            raise KeyError("context")  # noqa: B904

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


@case("exceptions", lines=True)
def lines_of_an_exception_that_is_raised_again_after_a_split():
    """A bare `raise` adds no line, in a helper neither."""

    def again():
        raise  # noqa: PLE0704

    def step(x, n):
        graph_break()
        y = x * 2
        try:
            y = y + int("1" if n == 3 else "a")
        except ValueError as error:
            if n == 0:
                again()
            if n == 1:
                raise error
            raise
        return y if n else again()

    return over(step, [0, 1, 2, 3])


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
                raise first  # noqa: B904
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
def group_of_one_that_was_raised_alone():
    """The interpreter makes it: nothing raises it, and it has no traceback where it is a context."""

    def step(x, n):
        try:
            raise ValueError(n)
        except* ValueError as group:
            if n:
                raise KeyError("in")  # noqa: B904
            found = group.args
        return x * 2, found

    return over(step, [0, 1])


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
        raise "text"  # noqa: B016

    return caught(step, [0, 1, 2, 3])


@case("exceptions")
def bare_raise_without_an_exception():
    def step(x, n):
        if n:
            raise  # noqa: PLE0704
        return x

    return over(step, [0, 1])


@case("exceptions")
def bare_raise_in_a_helper():
    def again():
        raise  # noqa: PLE0704

    def step(x, n):
        try:
            [][n]
        except IndexError:
            again()

    return caught(step, [0, 1])


@case("exceptions")
def bare_raise_in_a_helper_that_is_split():
    def again(deep):
        graph_break()
        if deep:
            again(deep - 1)
        raise  # noqa: PLE0704

    def step(x, n):
        try:
            [][n]
        except IndexError:
            again(n)

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
def the_context_of_an_exception_goes_through_splits():
    def inner(x, n):
        try:
            {}[n]
        except KeyError:
            graph_break()
            try:
                1 / (n - n)
            except ZeroDivisionError:
                graph_break()
                if n == 2:
                    raise
                raise ValueError(n)  # noqa: B904
            finally:
                graph_break()

    def step(x, n):
        try:
            inner(x, n)
        except (ValueError, ZeroDivisionError) as error:
            link, found = error, []
            while link is not None:
                found.append((type(link).__name__, link.args))
                link = link.__context__
            return found

    return over(step, [1, 2, 3])


@case("exceptions")
def a_note_of_run_time_numbers():
    class Bad(Exception):
        pass

    def step(x, n):
        errors = Bad(n), ValueError(n)
        for error in errors:
            error.add_note(f"note {n}")
            graph_break()
            error.add_note("another")
        return errors

    return over(step, [1, 2, 3])


def _links(error, known):
    found, link = [], error.__traceback__
    while link is not None:
        found.append((link is known, link.tb_frame.f_code.co_name))
        link = link.tb_next
    return found


@case("exceptions")
def the_entries_of_a_traceback_that_is_given_stay_the_same():
    def inner(n):
        return 1 / (n - n)

    def step(x, n):
        graph_break()
        try:
            inner(n)
        except ZeroDivisionError as error:
            kept, known = error, error.__traceback__
        graph_break()
        found = []
        for make in (lambda: ValueError(n).with_traceback(known), lambda: kept):
            try:
                raise make()
            except (ValueError, ZeroDivisionError) as error:
                graph_break()
                found.append(_links(error, known))
        return x, found

    return over(step, [1, 2])


@case("exceptions")
def what_is_raised_again_has_no_entries_of_capture():
    def step(x, n):
        graph_break()
        try:
            try:
                try:
                    raise KeyError(n)
                finally:
                    graph_break()
            except ValueError:
                pass
        except KeyError as error:
            graph_break()
            return x, _links(error, None)

    return over(step, [1, 2])


@case("exceptions")
def an_exception_of_the_program_sets_its_arguments():
    class Missing(Exception):
        def __init__(self, name):
            Exception.__init__(self, f"missing {name}")
            self.args = [name, 1]
            self.__cause__ = KeyError(name)

    def step(x, n):
        error = Missing(n)
        return x, error.args, str(error), repr(error), vars(error), error, error.__cause__

    return over(step, [1, 2])
