"""Frames, tracebacks, and exceptions that are no Exception: what they show is Python's own."""

import contextlib
import inspect
import logging
import sys
import traceback
import typing

from tests.never_wrong.harness import Program, case, over, vector


@case("frames")
def format_exc_of_a_helper():
    def inner(n):
        return {}[n]

    def step(x, n):
        try:
            return inner(n), x
        except KeyError:
            return [line.strip() for line in traceback.format_exc().splitlines() if "^" not in line]

    return over(step, [1, 2])


@case("frames")
def an_exit_looks_at_its_traceback():
    seen = []

    class Scope:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, trace):
            seen.append((kind and kind.__name__, trace and trace.tb_frame.f_code.co_name))
            return True

    def step(x, n):
        with Scope():
            if n > 1:
                raise ValueError(n)
        return x * n

    return over(step, [1, 2, 1, 3], lambda: list(seen))


@case("frames")
def an_exit_passes_its_traceback_on():
    seen = []

    def step(x, n):
        with contextlib.ExitStack() as stack:
            stack.push(lambda kind, error, trace: seen.append(repr(error)) or True)
            stack.enter_context(contextlib.suppress(KeyError))
            raise (KeyError if n == 1 else ValueError)(n)
        return x * len(seen)

    return over(step, [1, 2, 1, 3], lambda: list(seen))


@case("frames")
def errors_are_collected():
    errors = []

    def attempt(n):
        if n % 2:
            raise ValueError(n)
        return n

    def step(x, n):
        for i in range(n):
            try:
                attempt(i)
            except ValueError as error:
                errors.append(error)
        return x * len(errors)

    def observe():
        return [[f.name for f in traceback.extract_tb(e.__traceback__)] for e in errors]

    return over(step, [2, 4, 2], observe)


@case("frames")
def an_error_is_returned_with_its_cause():
    def step(x, n):
        try:
            try:
                raise KeyError(n)
            except KeyError as inner:
                raise ValueError("outer") from inner
        except ValueError as error:
            return error, x

    def call(x, n):
        error, _ = step(x, n)
        return [f.name for f in traceback.extract_tb(error.__cause__.__traceback__)], str(error)

    return over(call, [1, 2])


@case("frames")
def an_error_is_raised_again_later():
    held = {}

    def step(x, n):
        if n == 1:
            try:
                raise ValueError("kept")
            except ValueError as error:
                held["error"] = error
            return x
        raise held["error"]

    return over(step, [1, 2, 1, 2])


@case("frames")
def an_error_that_was_never_raised_is_kept():
    held = []

    def step(x, n):
        held.append(ValueError(n))
        return x, held[-1].__traceback__ is None

    return over(step, [1, 2], lambda: list(held))


@case("frames")
def locals_of_the_caller_after_a_split():
    def names():
        return sorted(sys._getframe(1).f_locals), sys._getframe(0).f_code.co_name

    def step(x, n):
        if x.sum() > 0:
            n = n + 1
        return n, x

    def outer(x, n):
        kept = n * 2
        return step(x, n), names(), kept

    return over(outer, [1, 2])


@case("frames")
def the_line_that_runs():
    def here():
        return inspect.currentframe().f_back.f_lineno

    def step(x, n):
        first = here()
        return here() - first, x

    return over(step, [1, 2])


@case("frames")
def arguments_by_inspection():
    def step(x, n, *rest, flag=True):
        info = inspect.getargvalues(inspect.currentframe())
        return info.args, info.varargs, info.locals["n"], x

    return over(step, [1, 2])


@case("frames")
def names_are_made_inside():
    """What a library asks a frame for is the module's name."""

    def step(x, n):
        point = typing.NamedTuple("Point", [("a", int), ("b", int)])
        p = point(n, n + 1)
        return x * p.a, tuple(p), point.__module__

    return over(step, [1, 2])


@case("frames", lines=True)
def the_lines_of_an_error_through_two_helpers():
    def deep(n):
        return [1][n]

    def helper(n):
        try:
            return deep(n)
        finally:
            n += 1

    def step(x, n):
        return x * helper(n)

    return over(step, [0, 1, 0, 5])


@case("frames")
def exit_codes():
    log = []

    def step(x, n):
        try:
            if n:
                sys.exit(n)
        except SystemExit as error:
            log.append(error.code)
            if n == 2:
                raise
        finally:
            log.append("finally")
        return x * n

    return over(step, [0, 1, 2, "text", 0], lambda: list(log))


@case("frames")
def interrupts_in_nested_blocks():
    log = []

    @contextlib.contextmanager
    def scope():
        try:
            yield
        except BaseException as error:
            log.append(type(error).__name__)
            raise
        finally:
            log.append("left")

    class Own(BaseException):
        pass

    def step(x, n):
        try:
            with scope():
                if n == 1:
                    raise KeyboardInterrupt
                if n == 2:
                    raise Own("own", x.shape)
                if n == 3:
                    raise GeneratorExit
        except Own as error:
            log.append(error.args)
        return x * n

    return over(step, [0, 1, 2, 3, 0], lambda: list(log))


@case("frames")
def a_base_exception_is_a_way_out():
    class Stop(BaseException):
        def __init__(self, value):
            self.value = value

    def search(n):
        for i in range(10):
            if i * i > n:
                raise Stop(i)

    def step(x, n):
        try:
            search(n)
        except Stop as stop:
            return x * stop.value
        return x

    return over(step, [3, 20, 3])


@case("frames")
def a_logged_traceback():
    log = logging.getLogger("never_wrong.frames")
    log.setLevel(logging.DEBUG)

    def step(x, n):
        try:
            raise ValueError(n)
        except ValueError as error:
            log.warning("bad: %s", error)
            log.info("worse: %r", error)
        return x * n

    return over(step, [1, 2])


@case("frames")
def an_error_group_is_kept():
    held = []

    def step(x, n):
        try:
            raise ExceptionGroup("all", [ValueError(n), KeyError(n)])
        except* ValueError as group:
            held.append(group)
        except* KeyError:
            pass
        return x * n

    return over(step, [1, 2], lambda: [(str(g), g.__traceback__ is None) for g in held])


@case("frames")
def exc_info_is_kept():
    def step(x, n):
        try:
            raise ValueError(n)
        except ValueError:
            kind, error, trace = sys.exc_info()
            return kind, str(error), trace is None, trace is error.__traceback__, bool(trace), x

    return over(step, [1, 2])


@case("frames")
def a_hook_of_an_exception_class_is_asked_by_isinstance_only():
    asked = []

    class Meta(type):
        def __subclasscheck__(cls, other):
            asked.append(other.__name__)
            return True

        def __instancecheck__(cls, obj):
            asked.append(type(obj).__name__)
            return True

    class Every(Exception, metaclass=Meta):
        pass

    def step(x, n):
        y = x.sum().item()
        found = isinstance(n, Every), isinstance(y, (int, Every)), issubclass(int, Every)
        try:
            raise KeyError(n)
        except Every:
            return "every", found
        except KeyError:
            return "key", found

    return over(step, [1, 2, 3], lambda: list(asked))


@case("frames")
def names_of_missing_names():
    def step(x, n):
        def inner():
            return later

        try:
            if n == 0:
                return inner()
            if n == 1:
                return print(unbound)
            if n == 2:
                del nowhere  # noqa: F821
            return x.missing
        except (NameError, AttributeError) as error:
            return type(error).__name__, error.name, str(error)
        unbound = later = 1

    return over(step, [0, 1, 3])


@case("frames")
def the_exception_of_a_step_that_splits():
    log = []

    def step(x, n):
        try:
            if x.sum() > n:
                raise SystemExit(n)
            log.append("went on")
        except BaseException as error:
            log.append(repr(error))
            return x * 2, error.__traceback__.tb_frame.f_code.co_name
        return x, ""

    x = vector()
    return Program(step, [(x, 1), (x, 5), (x, 2)], lambda: list(log))


@case("frames", lines=True)
def the_lines_of_a_recursion_that_splits():
    def fall(x, n):
        if x.sum() > 0:
            x = x + 1
        return [][n] if n == 0 else fall(x, n - 1)

    return over(fall, [0, 3])


@case("frames")
def text_that_is_executed_has_the_futures_of_its_function():
    def step(x, n):
        space = {}
        exec("number: int = 1\ndef half(x: float): ...", space)
        code = compile("other: int", "other", "exec")
        exec(code, space)
        return x * n, space["__annotations__"], space["half"].__annotations__

    return over(step, [1, 2])


@case("frames")
def lines_are_traced():
    def inner(n):
        m = n + 1
        return m * 2

    def step(x, n):
        seen, outer = [], (sys.gettrace(), sys.getprofile())

        def trace(frame, event, _):
            if frame.f_code.co_name == "inner":
                seen.append((event, frame.f_lineno - frame.f_code.co_firstlineno))
            return trace

        for start, held in zip((sys.settrace, sys.setprofile), outer, strict=True):
            start(trace)
            try:
                inner(n)
            finally:
                start(held)
        return seen, x

    return over(step, [1, 2])
