"""PyTorch's op database, its calls that raise: op -> whether ours raises the same."""

import warnings
from typing import Any

import opdb


def run_errors(op: Any) -> opdb.Outcome:
    """Each of the op's calls that torch refuses: right where ours raises the same type."""
    out = opdb.Outcome()
    if op.error_inputs_func is None:
        return out
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opdb.torch.manual_seed(0)
        given = list(op.error_inputs("cpu"))
        try:
            fn = opdb.ours(op)
        except opdb.Absent as error:
            return opdb.Outcome(absent=list(range(len(given))), name=str(error))
        for index, case in enumerate(given):
            _run_error(op, index, case.sample_input, fn, out)
    return out


def _run_error(op: Any, index: int, sample: Any, fn: Any, out: opdb.Outcome) -> None:
    try:
        mine = opdb.converted((sample.input, sample.args, sample.kwargs), {})
    except opdb.Absent as error:
        out.absent.append(index)
        out.name = str(error)
        return
    theirs = raised(op.op, sample.input, sample.args, sample.kwargs)
    error = raised(fn, *mine)
    if theirs is None:  # only on other devices, or no longer
        out.right.append(index)
    elif error is None:
        out.wrong.append((index, "accepted", opdb.text_of(theirs)))
    elif isinstance(error, AttributeError) and (name := opdb.missing_name(error)):
        out.absent.append(index)
        out.name = name
    elif not isinstance(error, _plain_type(theirs)):
        out.wrong.append((index, "type", f"{opdb.text_of(error)} for {opdb.text_of(theirs)}"))
    else:
        out.right.append(index)


def _plain_type(error: BaseException) -> type:
    """The exception's builtin type (`torch.linalg.LinAlgError` is a RuntimeError)."""
    return next(t for t in type(error).__mro__ if t.__module__ == "builtins")


def raised(fn: Any, first: Any, args: tuple, kwargs: dict) -> BaseException | None:
    try:
        fn(first, *args, **kwargs)
    except Exception as error:
        return error
    return None
