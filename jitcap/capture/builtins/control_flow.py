"""Capture: `eager.cond` and its like, whose functions are interpreted. calls -> nodes with graphs.

What a function may do that a run need not take is the tracer's to say (`CaptureTracer.part`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import eager
from eager.control_flow import cond as control_flow
from eager.control_flow import while_loop as rounds
from eager.core.sym import SymNumber
from eager.core.tensor import Tensor
from eager.ops import move
from jitcap.base.breaks import Break
from jitcap.capture.builtins import polyfills
from jitcap.capture.kinds.base import MISSING, Session, handles, handles_each, kind_of
from jitcap.capture.kinds.symbolic.sequences import StackedList
from jitcap.graph.tracer import is_on_device


@contextmanager
def _agreeing() -> Iterator[None]:
    """Plain Python runs one arm, and does not see that another one differs."""
    try:
        yield
    except control_flow.Disagreement as error:
        raise Break("data dependent", str(error)) from error


def _interpreted(s: Session, fn: Any) -> Callable[..., Any]:
    return lambda *args: s.call(fn, args, {})


def _decision(s: Session, pred: Any) -> Any:
    return pred if isinstance(pred, Tensor | SymNumber) else s.truth(pred)


def _python(s: Session, fn: Any, *args: Any) -> Any:
    """Call as Python does it, on a device, which has no kernel of it."""
    return s.interpret(fn, args, {})


@handles(control_flow.cond)
def _cond(s: Session, pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    if is_on_device(s.tracer):
        return _python(s, polyfills.cond, pred, true_fn, false_fn, operands)
    given = s.list_of(operands)
    arms = _interpreted(s, true_fn), _interpreted(s, false_fn)
    with _agreeing():
        return control_flow.cond(_decision(s, pred), *arms, given)


@handles(control_flow.switch)
def _switch(s: Session, index: Any, branches: Any, *operands: Any) -> Any:
    if is_on_device(s.tracer):
        return _python(s, polyfills.switch, index, branches, *operands)
    arms = [_interpreted(s, fn) for fn in s.list_of(branches)]
    with _agreeing():
        return control_flow.switch(index, arms, *operands)


@handles(rounds.while_loop)
def _while_loop(s: Session, cond_fn: Any, body_fn: Any, carried_inputs: Any) -> Any:
    if is_on_device(s.tracer):
        return _python(s, polyfills.while_loop, cond_fn, body_fn, carried_inputs)
    holds = _interpreted(s, cond_fn)
    carried = s.list_of(carried_inputs)
    s.settle(carried)

    def decision(*values: Any) -> Any:
        return _decision(s, holds(*values))

    return rounds.while_loop(decision, _interpreted(s, body_fn), carried)


@handles_each(eager.stack, move.stack, eager.cat, move.cat)
def _joined(
    s: Session, fn: Any, /, tensors: Any, dim: Any = MISSING, axis: Any = 0, **kwargs: Any
) -> Any:
    """Also what a loop of unknown length appended."""
    dim = axis if dim is MISSING else dim
    stacks = fn in (eager.stack, move.stack)
    if type(tensors) is StackedList and not kwargs:
        return (tensors.stacked if stacks else tensors.joined)(s.known(dim))
    fn = eager.stack if stacks else eager.cat
    return kind_of(fn).call(s, fn, (tensors, dim), kwargs)
