"""Contexts: of decimals, variables and threads; the environment and the clock."""

import contextvars
import decimal
import locale
import os
import threading

from tests.never_wrong.harness import case
from tests.never_wrong.scene import module, nothing, scene


@case("contexts")
def the_precision_of_decimals_changes():
    saved = decimal.getcontext().copy()

    def step(x):
        return x * float(decimal.Decimal(1) / decimal.Decimal(3))

    def coarse():
        decimal.getcontext().prec = 3

    return scene(step, coarse, lambda: decimal.setcontext(saved))


@case("contexts")
def the_rounding_of_decimals_changes():
    saved, half = decimal.getcontext().copy(), decimal.Decimal("2.5")

    def step(x):
        return half.to_integral_value(), half.quantize(decimal.Decimal(1)), round(half)

    def up():
        decimal.getcontext().rounding = decimal.ROUND_UP

    return scene(step, up, lambda: decimal.setcontext(saved))


@case("contexts")
def a_trap_of_decimals_is_set():
    saved = decimal.getcontext().copy()

    def step(x):
        return x * float(decimal.Decimal("0.1") + decimal.Decimal("0.2"))

    def trap():
        decimal.getcontext().prec = 1
        decimal.getcontext().traps[decimal.Inexact] = True

    return scene(step, trap, lambda: decimal.setcontext(saved))


@case("contexts")
def a_local_context_inside():
    def step(x):
        with decimal.localcontext() as context:
            context.prec = 4
            third = decimal.Decimal(1) / 3
        return str(third), str(decimal.Decimal(1) / 7)

    return scene(step, nothing)


@case("contexts")
def the_flags_of_decimals_are_raised():
    decimal.getcontext().clear_flags()

    def step(x):
        return x * float(decimal.Decimal(1) / decimal.Decimal(3))

    return scene(
        step,
        lambda: decimal.getcontext().clear_flags(),
        observe=lambda: bool(decimal.getcontext().flags[decimal.Inexact]),
    )


@case("contexts")
def a_context_variable_is_set_between_calls():
    scale = contextvars.ContextVar("scale", default=2)

    def step(x):
        return x * scale.get()

    return scene(step, lambda: scale.set(3), lambda: scale.set(4))


@case("contexts")
def a_context_variable_is_set_inside():
    depth = contextvars.ContextVar("depth", default=0)

    def step(x):
        token = depth.set(depth.get() + 1)
        inner = depth.get()
        depth.reset(token)
        depth.set(inner + 1)
        return x * inner

    return scene(step, nothing, nothing, observe=depth.get)


@case("contexts")
def a_function_runs_in_a_copied_context():
    scale = contextvars.ContextVar("scale", default=2)

    def work():
        scale.set(scale.get() * 2)
        return scale.get()

    def step(x):
        return x * contextvars.copy_context().run(work), scale.get()

    return scene(step, lambda: scale.set(5))


@case("contexts")
def a_thread_local_is_set_between_calls():
    local = threading.local()
    local.scale = 2

    def step(x):
        return x * local.scale

    return scene(step, lambda: setattr(local, "scale", 3), lambda: delattr(local, "scale"))


@case("contexts")
def a_thread_local_is_written_inside():
    local = threading.local()

    def step(x):
        local.count = getattr(local, "count", 0) + 1
        return x * local.count

    return scene(step, nothing, nothing, observe=lambda: local.count)


@case("contexts")
def a_thread_local_in_another_thread():
    local = threading.local()
    local.scale = 2

    def scale():
        return getattr(local, "scale", 7)

    def step(x):
        return x * scale()

    def run(x):
        found = []
        worker = threading.Thread(target=lambda: found.append(step(x)))
        worker.start()
        worker.join()
        return found[0], step(x)

    return scene(run, nothing)


@case("contexts")
def the_environment_is_read():
    os.environ["NEVER_WRONG"] = "2"

    def step(x):
        return x * int(os.environ["NEVER_WRONG"]), os.getenv("NEVER_WRONG_ABSENT", "none")

    def add():
        os.environ["NEVER_WRONG_ABSENT"] = "there"

    return scene(
        step,
        lambda: os.environ.__setitem__("NEVER_WRONG", "3"),
        add,
        lambda: os.environ.pop("NEVER_WRONG"),
        lambda: os.environ.pop("NEVER_WRONG_ABSENT"),
    )


@case("contexts")
def the_environment_is_written_inside():
    os.environ.pop("NEVER_WRONG", None)

    def step(x):
        count = int(os.environ.get("NEVER_WRONG", "0"))
        os.environ["NEVER_WRONG"] = str(count + 1)
        return x * count

    return scene(
        step,
        nothing,
        nothing,
        observe=lambda: (os.environ["NEVER_WRONG"], os.getenv("NEVER_WRONG")),
    )


@case("contexts")
def the_working_directory_changes(here=os.sep):
    place = os.getcwd()

    def step(x):
        return x * (2 if os.getcwd() == here else 3)

    return scene(step, lambda: os.chdir(here), lambda: os.chdir(place))


@case("contexts")
def a_clock_is_replaced():
    ticks = iter(range(100))
    m = module(
        "import types\ntime = types.SimpleNamespace()\ndef step(x): return x * time.time()\n"
    )
    m.time.time = lambda: float(next(ticks))
    return scene(m.step, nothing, nothing)


@case("contexts")
def the_locale_is_asked():
    def step(x):
        return f"{1234567.5:n}", locale.localeconv()["decimal_point"]

    return scene(step, nothing)
