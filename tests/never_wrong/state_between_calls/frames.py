"""What a program can see of the capture: frames, filters, identities, its own numbers."""

import collections
import gc
import inspect
import io
import logging
import math
import sys
import threading
import traceback
import warnings

import eager
from tests.never_wrong.harness import case
from tests.never_wrong.scene import nothing, rows, scene


@case("frames")
def the_frame_above():
    def name():
        return sys._getframe(1).f_code.co_name, sys._getframe(0).f_code.co_name

    def step(x):
        return name(), x

    return scene(step, nothing)


@case("frames")
def the_locals_of_the_caller():
    def peek():
        return sorted(sys._getframe(1).f_locals)[:2], sys._getframe(1).f_lineno > 0

    def step(x):
        a = 1
        return peek(), a

    return scene(step, nothing)


@case("frames")
def the_stack_is_inspected():
    def names():
        return [f.function for f in inspect.stack()[:2]], inspect.currentframe().f_code.co_name

    def step(x):
        return names()

    return scene(step, nothing)


@case("frames")
def the_stack_of_a_traceback():
    def names():
        return [f.name for f in traceback.extract_stack()[-2:]]

    def step(x):
        return names(), x

    return scene(step, nothing)


@case("frames")
def the_recursion_limit():
    def deep(n):
        return 0 if n == 0 else 1 + deep(n - 1)

    def step(x):
        return sys.getrecursionlimit(), deep(40)

    return scene(step, lambda: sys.setrecursionlimit(2000))


@case("frames")
def the_collector_during_a_step():
    def step(x):
        return gc.isenabled(), gc.get_threshold()[0] > 0, x

    return scene(step, nothing)


@case("frames")
def the_filters_of_warnings():
    def step(x):
        return len(warnings.filters), x

    return scene(step, lambda: warnings.simplefilter("ignore"))


@case("frames")
def a_warning_becomes_an_error():
    def step(x):
        try:
            warnings.warn("w", UserWarning, stacklevel=1)
        except UserWarning as error:
            return str(error)
        return x

    return scene(step, lambda: warnings.simplefilter("error", UserWarning))


@case("frames")
def warnings_are_caught_inside():
    def step(x):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            warnings.warn("inner", UserWarning, stacklevel=1)
        return len(said), str(said[0].message) if said else "", x

    return scene(step, nothing)


@case("frames")
def a_warning_from_a_helper():
    def helper():
        warnings.warn("deep", DeprecationWarning, stacklevel=2)

    def step(x):
        helper()
        return x + 1

    return scene(step, nothing)


@case("frames")
def the_thread():
    def step(x):
        return (
            threading.current_thread().name,
            threading.active_count() >= 1,
            threading.main_thread() is threading.current_thread(),
        )

    return scene(
        step, lambda: setattr(threading.current_thread(), "name", threading.current_thread().name)
    )


@case("frames")
def the_exception_that_is_handled():
    def step(x):
        before = sys.exc_info()[0]
        try:
            raise ValueError("v")
        except ValueError:
            inside = sys.exc_info()[0]
        return before, inside, sys.exc_info()[1]

    def call(x):
        try:
            raise KeyError("k")
        except KeyError:
            return inner(x), inner(x)

    inner = step
    return scene(call, nothing)


@case("frames")
def an_exception_raised_while_one_is_handled():
    def step(x, deep):
        if deep:
            raise ValueError("inner")
        return x

    def call(x):
        try:
            raise KeyError("outer")
        except KeyError:
            try:
                inner(x, True)
            except ValueError as error:
                return repr(error.__context__), error.__suppress_context__

    inner = step
    return scene(call, nothing)


@case("frames")
def locals_and_globals():
    def step(x, n=2):
        a = n * 2
        held = locals()
        b = 3
        return sorted(held), held["a"], "never_wrong" in globals()["__name__"], b

    return scene(step, nothing)


@case("frames")
def ids_and_hashes():
    a, b = [1], object()

    def step(x):
        c = []
        return (
            id(a) == id(a),
            id(a) == id(c),
            hash(b) == hash(b),
            hash("t") == hash("t"),
            hash(1) == hash(1.0),
        )

    return scene(step, nothing)


@case("frames")
def an_id_is_kept():
    seen, items = {}, [1]

    def step(x):
        seen[id(items)] = seen.get(id(items), 0) + 1
        return x * seen[id(items)]

    return scene(step, nothing, observe=lambda: (list(seen.values()), id(items) in seen))


@case("frames")
def is_between_constants():
    small = 5
    numbers = [10**6, 0.5]

    def step(x, a, b):
        return a is b, numbers[0] is numbers[0], numbers[1] is numbers[1]

    x = eager.ones(1)
    half = float("0.5")
    return rows(step, (x, half, half), (x, half, float("0.5")), (x, small, 5), (x, None, None))


@case("frames")
def is_between_tensors():
    w = eager.ones(2)
    held = {"w": w}

    def step(x):
        held["y"] = x
        return (
            held["w"] is w,
            held["y"] is x,
            x.data is x,
            x.detach() is x,
            (x + 0) is x,
            x.view(-1) is x,
        )

    return scene(step, lambda: held.update(w=eager.ones(2)))


@case("frames")
def the_type_of_what_is_inside():
    def step(x, n):
        y = x.sum().item()
        return (
            type(n),
            type(y),
            type(x),
            type(x * n),
            isinstance(y, float),
            type(n + 1) is int,
            n.__class__,
        )

    x = eager.ones(1)
    return rows(step, (x, 1), (x, 2), (x, 3), (x, 4))


@case("frames")
def a_number_in_an_exception():
    def step(x, n):
        raise ValueError(f"n = {n}", n, x.shape)

    x = eager.ones(1)
    return rows(step, (x, 1), (x, 2), (x, 3))


@case("frames")
def a_key_error_with_a_number():
    table = {0: 1}

    def step(x, n):
        return x * table[n]

    x = eager.ones(1)
    return rows(step, (x, 0), (x, 1), (x, 2), (x, 3))


@case("frames")
def methods_of_numbers():
    def step(x, n):
        return (
            n.bit_length(),
            n.to_bytes(2, "big"),
            n.numerator,
            (n / 2).is_integer(),
            (n / 3).hex(),
            n.__add__(1),
        )

    x = eager.ones(1)
    return rows(step, (x, 1), (x, 2), (x, 3))


@case("frames")
def a_counter_that_changes_names():
    state = {"n": 0}

    def step(x):
        state["n"] += 1
        return (
            f"step {state['n']:03d}",
            "%d" % state["n"],
            str(state["n"]),
            repr(state),
            [state["n"]] * 2,
        )

    return scene(step, nothing, nothing, nothing, observe=lambda: dict(state))


@case("frames")
def a_counter_is_a_key_and_an_index():
    state, table, items = {"n": 0}, {}, [5, 6, 7, 8]

    def step(x):
        table[state["n"]] = items[state["n"]]
        state["n"] += 1
        return list(table), "a" * state["n"], list(range(state["n"])), x[: state["n"]]

    return scene(step, nothing, nothing, observe=lambda: dict(table))


@case("frames")
def the_trace_and_profile_functions():
    def step(x):
        return sys.gettrace() is None, sys.getprofile() is None, x

    return scene(step, nothing)


@case("frames")
def eval_and_exec():
    def step(x):
        n = 3
        return eval("n * 2"), eval("a + 1", {"a": 1}), x

    return scene(step, nothing)


@case("frames")
def a_signature_and_its_source():
    def helper(a, b=2, *, c=3):
        return a

    def step(x):
        return (
            list(inspect.signature(helper).parameters),
            inspect.isfunction(helper),
            helper.__code__.co_argcount,
        )

    def change():
        helper.__defaults__ = None
        helper.__signature__ = inspect.Signature()

    return scene(step, change)


@case("frames")
def the_name_of_the_logger_and_its_level():
    log = logging.getLogger("never_wrong.scene")

    def step(x):
        if log.isEnabledFor(logging.DEBUG):
            log.debug("value %s", x.sum().item())
        log.warning("at %d", 3)
        return x + 1

    def close():
        log.setLevel(logging.NOTSET)
        log.disabled = False

    program = scene(
        step,
        lambda: log.setLevel(logging.DEBUG),
        lambda: log.setLevel(logging.ERROR),
        lambda: setattr(log, "disabled", True),
    )
    program.close = close
    return program


@case("frames")
def a_handler_of_a_logger_is_added():
    text = io.StringIO()
    log = logging.Logger("never_wrong.own")
    handler = logging.StreamHandler(text)

    def step(x):
        log.warning("at %d", len(x))
        return x + 1

    return scene(
        step,
        lambda: log.addHandler(handler),
        lambda: log.removeHandler(handler),
        observe=text.getvalue,
    )


@case("frames")
def the_grad_mode_is_asked():
    def step(x):
        return eager.is_grad_enabled(), (x * 2).requires_grad

    x = eager.ones(1, requires_grad=True)

    def call(x):
        with eager.no_grad():
            first = inner(x)
        return first, inner(x)

    inner = step
    return scene(call, nothing, args=(x,))


@case("frames")
def math_on_changing_numbers():
    state = {"n": 1}

    def step(x):
        n = state["n"]
        state["n"] += 1
        return (
            math.factorial(n),
            math.gcd(n, 6),
            math.isqrt(n),
            round(n / 3, 2),
            divmod(n, 2),
            -n // 2,
            n << 2,
            ~n,
        )

    return scene(step, nothing, nothing, nothing)


@case("frames")
def text_of_changing_numbers():
    def step(x, lr):
        return (
            f"{lr:.3e}",
            f"{lr:>8}",
            str(lr),
            repr(lr),
            round(lr, 1),
            x * lr,
            int(lr * 10),
            lr.as_integer_ratio(),
        )

    x = eager.ones(1)
    return rows(step, (x, 0.1), (x, 0.25), (x, 1e-9), (x, 1e22))


@case("frames")
def stdout_and_exception_in_order():
    log = []

    def step(x):
        print("one")
        log.append(1)
        x.add_(1)
        print(x.sum().item())
        raise RuntimeError(f"after {len(log)}")

    return scene(step, nothing, observe=lambda: list(log))


@case("frames")
def an_assertion_fails_after_effects():
    log = []

    def step(x, n):
        log.append(n)
        x.mul_(2)
        assert n < 2, f"n is {n}"
        return x

    x = eager.ones(1)
    return rows(step, (x, 0), (x, 1), (x, 2), (x, 3), observe=lambda: list(log))


@case("frames")
def finally_and_with_in_order():
    log = []

    class Scope:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            log.append("+" + self.name)
            return self

        def __exit__(self, kind, value, trace):
            log.append((self.name, kind and kind.__name__, str(value)))
            return self.name == "b"

    def step(x, fail):
        with Scope("a"):
            try:
                with Scope("b"), Scope("c"):
                    if fail:
                        raise ValueError("v")
            finally:
                log.append("finally")
        return x * len(log)

    x = eager.ones(1)
    return rows(step, (x, False), (x, True), (x, False), observe=lambda: list(log))


@case("frames")
def contextlib_managers():
    import contextlib

    log = []

    @contextlib.contextmanager
    def scope(n):
        log.append(n)
        try:
            yield n * 2
        except KeyError:
            log.append("key")
        finally:
            log.append(-n)

    def step(x):
        with contextlib.ExitStack() as stack:
            a = stack.enter_context(scope(1))
            stack.callback(log.append, "callback")
            with contextlib.suppress(ValueError), scope(2):
                raise ValueError
        with scope(3):
            raise KeyError
        return x * a

    return scene(step, nothing, observe=lambda: list(log))


@case("frames")
def a_stored_exception_is_raised_again():
    error = ValueError("first")

    def step(x):
        try:
            raise error
        except ValueError as e:
            return e is error, e.args, collections.Counter([type(e).__name__])["ValueError"]

    return scene(step, lambda: setattr(error, "args", ("second",)))
