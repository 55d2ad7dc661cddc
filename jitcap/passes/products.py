"""Rules on matrix products: one canonical form, plain matrices. node -> simpler value.

`dot(a[*B, M, K], b[*B, K, N])`: a product whose second operand is the same matrix for the whole
batch is one product with more rows.
"""

from __future__ import annotations

import math
from typing import Final

from jitcap.graph import Arg, Node
from jitcap.passes.rules import Maker, Rule, is_op


def _shared_matrix(s: Maker, n: Node) -> Arg | None:
    """dot(a[*B, M, K], expand(w[K, N])) = reshape(dot(reshape(a), w)): the same sums."""
    a, b = n.args
    if not is_op(b, "expand") or n.aval.ndim < 3:
        return None
    assert isinstance(b, Node)
    assert isinstance(a, Node)
    w = b.args[0]
    assert isinstance(w, Node)
    k, cols = b.aval.shape[-2:]
    if w.aval.shape[-2:] != (k, cols) or math.prod(w.aval.shape[:-2]) != 1:
        return None
    matrix = s.make("reshape", w, like=n, shape=(k, cols))
    rows = s.make("reshape", a, like=n, shape=(math.prod(a.aval.shape[:-1]), k))
    product = s.make(n.op, rows, matrix, like=n, **n.attrs)
    return s.make("reshape", product, like=n, shape=n.aval.shape)


RULES: Final[dict[str, tuple[Rule, ...]]] = {"dot": (_shared_matrix,)}
