"""The settings of NumPy, Python and eager."""

import sys

import numpy as np

import eager
from eager.base.config import config
from tests.never_wrong.harness import case
from tests.never_wrong.scene import nothing, scene


@case("settings")
def the_errors_of_numpy():
    saved = np.geterr()

    def step(x):
        try:
            return np.float64(1.0) / np.float64(0.0)
        except FloatingPointError as error:
            return str(error)

    program = scene(step, lambda: np.seterr(divide="raise"), lambda: np.seterr(divide="ignore"))
    program.close = lambda: np.seterr(**saved)
    return program


@case("settings")
def an_errstate_inside():
    def step(x):
        with np.errstate(divide="ignore", invalid="ignore"):
            a = np.log(np.float64(0.0))
        return float(a), np.geterr()["divide"]

    return scene(step, nothing)


@case("settings")
def the_print_options_of_numpy():
    saved, values = np.get_printoptions(), np.array([0.123456789])

    def step(x):
        return str(values), repr(values)

    program = scene(step, lambda: np.set_printoptions(precision=2))
    program.close = lambda: np.set_printoptions(**saved)
    return program


@case("settings")
def the_print_options_of_eager():
    x = eager.tensor([0.123456789])

    def step(x):
        return str(x), repr(x * 2), f"{x}"

    program = scene(step, lambda: eager.set_printoptions(precision=2), args=(x,))
    program.close = lambda: eager.set_printoptions(precision=4)
    return program


@case("settings")
def the_longest_int_that_is_printed():
    saved = sys.get_int_max_str_digits()
    state = {"n": 10**1000}

    def step(x):
        try:
            return len(str(state["n"])), x
        except ValueError as error:
            return "limit" in str(error)

    program = scene(step, lambda: sys.set_int_max_str_digits(640), lambda: state.update(n=5))
    program.close = lambda: sys.set_int_max_str_digits(saved)
    return program


@case("settings")
def deterministic_algorithms():
    def step(x):
        return eager.are_deterministic_algorithms_enabled(), x

    program = scene(step, lambda: eager.use_deterministic_algorithms(True))
    program.close = lambda: eager.use_deterministic_algorithms(False)
    return program


@case("settings")
def a_flag_is_asked():
    def step(x):
        return config.tolerance, x * config.tolerance

    block = config(tolerance=32.0)
    program = scene(step, block.__enter__)
    program.close = lambda: block.__exit__(None, None, None)
    return program


@case("settings")
def the_number_of_threads_is_asked():
    def step(x):
        return eager.get_num_threads(), x

    program = scene(step, lambda: eager.set_num_threads(eager.get_num_threads() + 1))
    program.close = lambda: config._assigned.pop("threads")
    return program


@case("settings")
def the_number_of_threads_is_set_inside():
    def step(x):
        before = eager.get_num_threads()
        eager.set_num_threads(before + 1)
        return eager.get_num_threads() - before, x

    program = scene(step)
    program.close = lambda: config._assigned.pop("threads")
    return program


@case("settings")
def the_precision_of_products_is_asked():
    def step(x):
        return eager.get_float32_matmul_precision(), x

    program = scene(step, lambda: eager.set_float32_matmul_precision("high"))
    program.close = lambda: eager.set_float32_matmul_precision("highest")
    return program


@case("settings")
def the_seed_is_set_between_and_inside():
    state = {"seed": 1}

    def step(x):
        eager.manual_seed(state["seed"])
        return eager.rand(2), eager.initial_seed()

    return scene(step, nothing, lambda: state.update(seed=2), observe=lambda: eager.rand(1))


@case("settings")
def the_default_device_is_asked():
    def step(x):
        return (
            str(eager.get_default_device()),
            eager.ones(1).device.type,
            x.device == eager.device("cpu"),
        )

    return scene(step, nothing)
