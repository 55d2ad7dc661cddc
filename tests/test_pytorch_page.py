"""docs/pytorch.md: each program of its tables gives what stands beside it, in PyTorch and here."""

import ast
import doctest
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import eager

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "pytorch.md").read_text()
ROWS = [re.findall(r" `(.*?)` \|", row) for row in re.findall(r"^\| `.*$", PAGE, re.M)]


def result(library, program):
    """The printed value of the last expression, or the name of the exception's type."""
    scope = {"torch": library, "nn": library.nn, "F": library.nn.functional, "np": np}
    *before, last = ast.parse(program).body
    try:
        exec(compile(ast.Module(before, []), "page", "exec"), scope)
        if not isinstance(last, ast.Expr):
            exec(compile(ast.Module([last], []), "page", "exec"), scope)
            return "None"
        return repr(eval(compile(ast.Expression(last.value), "page", "eval"), scope))
    except Exception as error:
        return type(error).__name__
    finally:
        library.use_deterministic_algorithms(False)


def same(shown, got):
    return doctest.OutputChecker().check_output(shown, got, doctest.ELLIPSIS)


@pytest.mark.once
@pytest.mark.parametrize("row", ROWS, ids=[row[0][:50] for row in ROWS])
def test_each_row(row):
    program, theirs, ours = row if len(row) == 3 else (*row, row[-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = result(eager, program)
        assert same(ours, got if ours.startswith("'eager") else got.replace("eager.", "torch.")), (
            got
        )
        torch = pytest.importorskip("torch")
        told = result(torch, program)
        assert same(theirs, told), told
        eager.manual_seed(0)
