"""Sources as syntax trees, parsed once for all tests of a process."""

import ast
import functools
import gc


@functools.cache
def tree(path):
    return _for_good(lambda: ast.parse(path.read_text()))


@functools.cache
def nodes(path):
    """Every node of a source."""
    return _for_good(lambda: list(ast.walk(tree(path))))


def _for_good(make):
    """Millions of objects that live to the end: neither while they are made nor in later tests need a
    collection of garbage go through them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        return make()
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
