"""Sources as syntax trees, parsed once for all tests of a process."""

import ast
import functools


@functools.cache
def tree(path):
    return ast.parse(path.read_text())


@functools.cache
def nodes(path):
    """Every node of a source."""
    return list(ast.walk(tree(path)))
