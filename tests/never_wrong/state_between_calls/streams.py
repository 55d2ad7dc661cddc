"""Streams: what is printed, where it goes, what is read."""

import contextlib
import io
import logging
import sys
import time

from tests.never_wrong.harness import case
from tests.never_wrong.scene import nothing, scene


@case("streams")
def stdout_is_redirected_between_calls():
    text, saved = io.StringIO(), []

    def step(x):
        print("hello", len(x))
        return x + 1

    def redirect():
        saved.append(sys.stdout)
        sys.stdout = text

    def back():
        sys.stdout = saved.pop()

    return scene(step, redirect, back, observe=text.getvalue)


@case("streams")
def stdout_is_redirected_inside():
    def step(x):
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            print("inner")
        print("outer")
        return x + 1, text.getvalue()

    return scene(step, nothing)


@case("streams")
def a_stream_is_bound_early():
    text = io.StringIO()

    def step(x):
        print("a", file=text)
        text.write("b")
        return x + 1, text.tell()

    return scene(step, nothing, observe=text.getvalue)


@case("streams")
def the_stream_is_a_user_object():
    class Tee:
        def __init__(self):
            self.parts = []

        def write(self, part):
            self.parts.append(part)

        def flush(self):
            self.parts.append("flush")

    tee = Tee()

    def step(x):
        print("a", 1, file=tee, flush=True)
        return x + 1

    return scene(step, nothing, observe=lambda: list(tee.parts))


@case("streams")
def stdout_is_read_inside():
    def step(x):
        sys.stdout.write("text\n")
        sys.stderr.write("error\n")
        return x + 1, sys.stdout is sys.__stdout__

    return scene(step, nothing)


@case("streams")
def print_of_a_value_that_changes_later():
    items = [1]

    def step(x):
        print(items, x.sum().item())
        items.append(2)
        x.add_(1)
        print(items, x.sum().item())
        return x

    return scene(step, nothing, observe=lambda: list(items))


@case("streams")
def a_replaced_display_hook_and_argv():
    saved = sys.argv

    def step(x):
        return x * len(sys.argv[0:1]), sys.argv is saved

    return scene(step, lambda: setattr(sys, "argv", ["other"]), lambda: setattr(sys, "argv", saved))


@case("streams")
def a_string_is_read_step_by_step():
    text = io.StringIO("one\ntwo\nthree\n")

    def step(x):
        return x + 1, text.readline()

    return scene(step, nothing, nothing, nothing, observe=text.tell)


@case("streams")
def a_file_is_iterated():
    text = io.StringIO("1\n2\n3\n")

    def step(x):
        for line in text:
            return x * int(line)
        return x

    return scene(step, nothing, nothing, nothing)


@case("streams")
def print_with_separators_of_another_type():
    def step(x):
        print(1, 2, sep=3)
        return x

    return scene(step)


@case("streams")
def a_clock_sleeps_and_counts():
    log = []
    saved = time.sleep

    def step(x):
        time.sleep(0)
        return x + 1

    return scene(
        step,
        lambda: setattr(time, "sleep", log.append),
        lambda: setattr(time, "sleep", saved),
        observe=lambda: list(log),
    )


@case("streams", one_graph=True)
def a_logger_is_looked_up_inside():
    def step(x):
        logger = logging.getLogger("never_wrong.looked_up")
        logger.info("text %d", 1)
        logging.getLogger().warning("root")
        return x, logging.getLogger("never_wrong.looked_up") is logger

    found = logging.getLogger("never_wrong.looked_up")
    table = logging.Logger.manager.loggerDict
    program = scene(
        step, lambda: found.setLevel(10), lambda: table.pop(found.name), lambda: found.setLevel(0)
    )
    program.close = lambda: table.pop(found.name)
    return program
