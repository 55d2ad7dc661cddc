"""nn.functional: connectionist temporal classification. scores over time and label sequences -> a
number (or one per sequence)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eager.base import dtype as dt
from eager.construct.interop import tensor
from eager.control_flow.scan import scan
from eager.core.casts import full_precision
from eager.core.dispatch import apply, must_hold
from eager.core.op import Sample
from eager.core.tensor import Tensor
from eager.nn.functional.register import functional, reduced
from eager.ops import samples as s
from eager.ops.index import GATHER
from eager.ops.index_and_sort import iota
from eager.ops.move import cat, constant_pad_nd, stack
from eager.ops.pointwise import where


def _log_probs(*shape: int) -> Any:
    x = s.values(shape)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


@functional(
    lambda: [
        Sample((_log_probs(6, 2, 4), np.array([[1, 1, 3], [2, 3, 0]]), (6, 5), (3, 2))),
        Sample((_log_probs(5, 4), np.array([3, 0, 0]), (5,), (3,), 2), {"reduction": "sum"}),
        Sample(
            (_log_probs(4, 3, 3), np.array([1, 1, 1, 2]), (4, 2, 3), (3, 1, 0)),
            {"reduction": "none", "zero_infinity": True},
        ),
    ]
)
@full_precision
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the probability that `log_probs` (T, N, C) or (T, C) spell `targets`, summed over
    all alignments: labels in order, with blanks between and repetitions merged.

    `targets` are (N, S), padded, or all labels one after the other; "mean" divides each loss by
    the length of its target first. As in PyTorch the gradient is that by the logits of a
    `log_softmax` before. Source: Graves et al., "Connectionist temporal classification" (2006)."""
    single = log_probs.ndim == 2
    scores = log_probs.unsqueeze(1) if single else log_probs
    if scores.ndim != 3 or 0 in scores.shape[:2]:
        raise RuntimeError(f"ctc_loss: log_probs must be (T, N, C), got {list(log_probs.shape)}")
    if not 0 <= blank < scores.shape[2]:
        raise RuntimeError("blank must be in label range")
    times = _lengths("input_lengths", input_lengths, scores)
    labels = _lengths("target_lengths", target_lengths, scores)
    _check_lengths(scores, targets, times, labels)
    named = _padded(targets, labels, single)
    loss = _alignments(scores, named, times, labels, blank, zero_infinity)
    # The gradient by logits has the softmax in it: a term whose value is nothing.
    alive = (iota(scores.shape[0], like=times).unsqueeze(1) < times).unsqueeze(2)
    mass = where(alive, scores.exp(), 0.0).sum((0, 2))
    loss = loss + (mass - mass.detach())
    if zero_infinity:
        loss = where(loss == math.inf, 0.0, loss)
    if reduction == "mean":
        return (loss / labels.clamp(min=1).to(loss.dtype)).mean()
    loss = reduced(loss, reduction)
    return loss.squeeze(0) if single and loss.ndim else loss


def _lengths(name: str, given: Any, scores: Tensor) -> Tensor:
    """One int64 for each of the batch, beside the scores (T, N, C)."""
    lengths = given if isinstance(given, Tensor) else tensor(given)
    if lengths.dtype.category is not dt.INT:
        raise RuntimeError(f"{name} must be of integral type")
    if lengths.numel() != scores.shape[1]:
        raise RuntimeError(f"{name} must be of size batch_size")
    return lengths.reshape(-1).to(scores.device, dt.int64)


def _check_lengths(scores: Tensor, targets: Tensor, times: Tensor, labels: Tensor) -> None:
    """RuntimeError for lengths that do not fit."""
    long, wide = scores.shape[0], targets.shape[-1]
    checking = "(while checking arguments for ctc_loss_cpu)"
    must_hold(((times >= 0) & (labels >= 0)).all(), "ctc_loss: lengths must be non-negative")
    must_hold(
        (times <= long).all(), f"Expected input_lengths to have value at most {long} {checking}"
    )
    if targets.ndim != 2:
        fits, size = labels.sum() == wide, f"as many elements as targets in all, {wide}"
        must_hold(fits, f"Expected target_lengths to have {size} {checking}")
        return
    if targets.shape[0] != scores.shape[1]:
        raise RuntimeError(
            f"Expected targets of {scores.shape[1]} sequences, got {targets.shape[0]} {checking}"
        )
    must_hold(
        (labels <= wide).all(),
        f"Expected targets to have size at least the largest of target_lengths at dimension 1, got "
        f"size {wide} {checking}",
    )


def _padded(targets: Tensor, labels: Tensor, single: bool) -> Tensor:
    """The labels as (N, S)."""
    if targets.ndim == 2:
        return targets.to(dt.int64)
    if single:
        return targets.to(dt.int64).reshape(1, -1)
    longest = int(labels.max().item())
    first = labels.cumsum(0) - labels
    places = first.unsqueeze(1) + iota(longest, like=first)
    last = targets.numel() - 1
    if last < 0:
        return places
    return targets.to(dt.int64).reshape(-1)[places.clamp(max=last)]


def _alignments(
    scores: Tensor, targets: Tensor, times: Tensor, labels: Tensor, blank: int, zero_infinity: bool
) -> Tensor:
    """The loss of each sequence (N), by the forward recursion over (N, 2 S + 1) states: the labels
    with a blank before, between and after. Where no alignment fits it is infinite."""
    n, size = targets.shape
    named = where(iota(size, like=labels) < labels.unsqueeze(1), targets, blank)
    blanks = named.new_full((n, size + 1), blank)
    states = cat([stack([blanks[:, :size], named], -1).reshape(n, -1), blanks[:, size:]], 1)
    before = constant_pad_nd(states, (2, 0), blank)[:, :-2]
    skips = (states != blank) & (states != before)
    here = apply(GATHER, scores, states.unsqueeze(0).expand(scores.shape[0], -1, -1), dim=2)
    place = iota(2 * size + 1, like=named)
    reached = where(place < (labels > 0).unsqueeze(1).long() + 1, here[0], -math.inf)

    def step(reached: Tensor, now: tuple[Tensor, Tensor]) -> tuple[Tensor, None]:
        scores, t = now  # (N, 2 S + 1), ()
        by_one = constant_pad_nd(reached, (1, 0), -math.inf)[:, :-1]
        by_two = constant_pad_nd(reached, (2, 0), -math.inf)[:, :-2]
        ways = _log_add(reached, by_one, where(skips, by_two, -math.inf)) + scores
        return where((t < times).unsqueeze(1), ways, reached), None

    reached, _ = scan(step, reached, (here[1:], iota(scores.shape[0], like=times)[1:]))
    end = 2 * labels.unsqueeze(1)
    ends = where((place == end) | (place == end - 1), reached, -math.inf)
    top = _finite(ends.detach().amax(1, keepdim=True))
    total = (ends - top).exp().sum(1)
    loss = -(total.log() + top.squeeze(1))
    if zero_infinity:  # the gradient of log 0 would be NaN
        dead = total == 0
        loss = where(dead, math.inf, -(where(dead, 1.0, total).log() + top.squeeze(1)))
    nothing = where(labels == 0, 0.0, math.inf).to(loss.dtype)
    return where(times == 0, nothing, loss)


def _finite(top: Tensor) -> Tensor:
    return where(top == -math.inf, 0.0, top)


def _log_add(*xs: Tensor) -> Tensor:
    """log of the sum of exponentials. Minus infinity adds nothing, and has a gradient of 0."""
    a, b, c = xs
    top = _finite(a.detach().maximum(b.detach()).maximum(c.detach()))
    total = (a - top).exp() + (b - top).exp() + (c - top).exp()
    dead = total == 0
    return where(dead, -math.inf, where(dead, 1.0, total).log() + top)
