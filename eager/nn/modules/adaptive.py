"""A softmax over many classes, most of them rare. features, classes -> log probabilities, loss."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from eager.core.tensor import Tensor
from eager.nn import functional as F
from eager.nn.modules.container import ModuleList, Sequential
from eager.nn.modules.linear import Linear
from eager.nn.modules.module import Module
from eager.ops.move import cat


class _Found(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """The log probability of each target and the mean loss, from a softmax in two steps (Grave et
    al. 2017): a head over the frequent classes and one entry for each cluster of rarer ones, and
    a smaller softmax for each cluster, of which only the rows with a target in it are computed.

    Classes are sorted by frequency; `cutoffs` are the first classes of the clusters. Cluster i
    projects to `in_features / div_value**(i + 1)` features."""

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        rising = all(a < b for a, b in itertools.pairwise([0, *cutoffs, n_classes]))
        if not rising or any(int(c) != c for c in cutoffs):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
                f"order, where each value is between 1 and n_classes-1; got {cutoffs}"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = cutoffs[0]
        self.n_clusters = len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **made)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(itertools.pairwise(self.cutoffs)):
            inner = int(in_features // div_value ** (i + 1))
            project = Linear(in_features, inner, bias=False, **made)
            self.tail.append(Sequential(project, Linear(inner, high - low, bias=False, **made)))

    def reset_parameters(self) -> None:
        for layer in (self.head, *(layer for cluster in self.tail for layer in cluster)):
            layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _Found:
        self._check(input_, target_)
        if target_.ndim:
            output = self._log_prob_of(input_, target_)
        else:
            output = self._log_prob_of(input_.unsqueeze(0), target_.unsqueeze(0)).squeeze(0)
        return _Found(output, (-output).mean())

    def _check(self, input: Tensor, target: Tensor) -> None:
        if target.ndim > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if input.ndim != target.ndim + 1:
            raise RuntimeError(
                f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found "
                f"inputs with size {list(input.shape)}"
            )
        if target.ndim and input.shape[0] != target.shape[0]:
            raise RuntimeError(
                "Input and target should have the same size in the batch dimension: got "
                f"{input.shape[0]} and {target.shape[0]}"
            )

    def _log_prob_of(self, input: Tensor, target: Tensor) -> Tensor:
        """The log probability of each row's target: that of its entry in the head, and in its
        cluster."""
        output = input.new_zeros(target.shape[0])
        entry = target  # in the head
        rows_seen = int(((target >= 0) & (target < self.shortlist_size)).sum())
        for i in range(self.n_clusters):
            low, high = self.cutoffs[i], self.cutoffs[i + 1]
            inside = (target >= low) & (target < high)
            rows = inside.nonzero().squeeze(1)
            rows_seen += rows.shape[0]
            if not rows.shape[0]:
                continue
            entry = entry.masked_fill(inside, self.shortlist_size + i)
            scores = self.tail[i](input.index_select(0, rows)).log_softmax(1)
            picked = scores.gather(1, (target[rows] - low).unsqueeze(1)).squeeze(1)
            output = output.index_copy(0, rows, picked)
        if rows_seen != target.shape[0]:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found."
            )
        head = F.log_softmax(self.head(input), dim=1)
        return output + head.gather(1, entry.unsqueeze(1)).squeeze(1)

    def log_prob(self, input: Tensor) -> Tensor:
        """The log probabilities of all classes: (N, in_features) -> (N, n_classes)."""
        head = F.log_softmax(self.head(input), dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            parts.append(cluster(input).log_softmax(1) + head[:, self.shortlist_size + i, None])
        return cat(parts, dim=1)

    def predict(self, input: Tensor) -> Tensor:
        """The most likely class of each row: that of `log_prob`, which is computed for those rows
        only that the head gives to a cluster."""
        best = self.head(input).argmax(dim=1)
        rows = (best >= self.shortlist_size).nonzero().squeeze(1)
        if not rows.shape[0]:
            return best
        return best.index_copy(0, rows, self.log_prob(input.index_select(0, rows)).argmax(dim=1))
