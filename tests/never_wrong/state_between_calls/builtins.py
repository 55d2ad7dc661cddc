"""Builtins that are replaced, added, shadowed."""

import builtins
import operator

from tests.never_wrong.harness import case
from tests.never_wrong.scene import module, nothing, scene


@case("builtins")
def a_builtin_is_replaced():
    original = builtins.abs

    def step(x):
        return x * abs(-2)

    return scene(
        step,
        lambda: setattr(builtins, "abs", lambda v: 10),
        lambda: setattr(builtins, "abs", original),
    )


@case("builtins")
def a_replaced_builtin_counts_its_calls():
    original, log = builtins.len, []

    def counted(value):
        log.append(1)
        return original(value)

    def step(x):
        return x * len([1, 2])

    return scene(
        step,
        lambda: setattr(builtins, "len", counted),
        nothing,
        lambda: setattr(builtins, "len", original),
        observe=lambda: log.copy(),
    )


@case("builtins")
def print_is_replaced():
    original, log = builtins.print, []

    def step(x):
        print("hello", len(x))
        return x + 1

    return scene(
        step,
        lambda: setattr(builtins, "print", lambda *a: log.append(a)),
        lambda: setattr(builtins, "print", original),
        observe=lambda: list(log),
    )


@case("builtins")
def a_builtin_is_added_and_removed():
    def step(x):
        try:
            return x * never_wrong_name  # noqa: F821
        except NameError as error:
            return str(error)

    return scene(
        step,
        lambda: setattr(builtins, "never_wrong_name", 2),
        lambda: setattr(builtins, "never_wrong_name", 3),
        lambda: delattr(builtins, "never_wrong_name"),
    )


@case("builtins")
def a_global_shadows_a_builtin():
    m = module("def step(x): return x * max(2, 3)\n")
    return scene(m.step, lambda: setattr(m, "max", min), lambda: delattr(m, "max"))


@case("builtins")
def a_module_with_builtins_of_its_own():
    m = module("def step(x): return x * abs(-2)\n")
    return scene(m.step, lambda: vars(m)["__builtins__"].__class__ and None)


@case("builtins")
def builtins_of_a_function_are_a_copy():
    space = {"__builtins__": {"abs": lambda v: 5, "len": len}}
    exec("def step(x): return x * abs(-2) + len('ab')", space)

    def change():
        space["__builtins__"]["abs"] = lambda v: 6

    return scene(space["step"], change)


@case("builtins")
def isinstance_is_replaced():
    original = builtins.isinstance

    class Marker:
        pass

    def step(x):
        return isinstance(x, Marker), x * 2

    def lie():
        builtins.isinstance = lambda value, kind: (
            "lied" if kind is Marker else original(value, kind)
        )

    return scene(step, lie, lambda: setattr(builtins, "isinstance", original))


@case("builtins")
def the_class_of_exceptions_is_shadowed():
    m = module(
        "class Error(ValueError): pass\n"
        "def step(x):\n"
        "  try: raise ValueError('v')\n"
        "  except Error: return x\n"
        "  except Exception as e: return type(e).__name__\n"
    )
    return scene(m.step, lambda: setattr(m, "Error", ValueError))


@case("builtins")
def a_function_of_math_is_replaced():
    m = module("import math\ndef step(x): return x * math.floor(2.5)\n")
    fake = type(m)("fake")
    fake.floor = lambda v: 7
    return scene(m.step, lambda: setattr(m, "math", fake))


@case("builtins")
def a_function_of_operator_is_replaced():
    original = operator.add

    def step(x):
        return operator.add(x, 1)

    return scene(
        step,
        lambda: setattr(operator, "add", operator.mul),
        lambda: setattr(operator, "add", original),
    )


@case("builtins")
def a_builtin_is_replaced_inside():
    """By what is no good for the code of capture itself."""
    log = []

    def of_text(value):
        log.append(value)
        return len(str(value))

    def step(x):
        held = builtins.max
        builtins.max = of_text
        try:
            found = max("abc")
        finally:
            builtins.max = held
        return x * 2, found, max(1, 2)

    return scene(step, nothing, observe=lambda: log)
