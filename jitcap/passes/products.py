"""Rules on matrix products: one canonical form, plain matrices. node -> simpler value.

`dot(a[*B, M, K], b[*B, K, N])`: a product whose second operand is the same matrix for the whole
batch is one product with more rows.
"""

from __future__ import annotations

import math
from typing import Final

from eager.sizes.aval import same
from eager.sizes.symint import is_one
from jitcap.graph.graph import Arg, Node
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
    if not same(w.aval.shape[-2:], (k, cols)) or not is_one(math.prod(w.aval.shape[:-2])):
        return None
    matrix = s.make("reshape", w, like=n, shape=(k, cols))
    rows = s.make("reshape", a, like=n, shape=(math.prod(a.aval.shape[:-1]), k))
    product = s.make(n.op, rows, matrix, like=n, **n.attrs)
    return s.make("reshape", product, like=n, shape=n.aval.shape)


def _sum_of_products(s: Maker, n: Node) -> Arg | None:
    """sum over t of dot(a[t, M, K], b[t, K, N]) is one product with the longer sum t * K."""
    (x,) = n.args
    if not isinstance(x, Node) or 0 not in n.attrs["dim"] or n.attrs["keepdim"]:
        return None
    if is_op(x, "permute") and x.attrs["dims"][0] == 0 and n.attrs["dim"] == (0,):
        inner = s.make(n.op, x.args[0], like=n, **n.attrs)
        return s.make("permute", inner, like=n, dims=tuple(d - 1 for d in x.attrs["dims"][1:]))
    if not is_op(x, "dot") or x.aval.ndim != 3 or n.attrs["dim"] != (0,):
        return None
    if x.aval.dtype is not n.aval.dtype:
        return None
    a, b = x.parents
    steps, rows, depth = a.aval.shape
    right = s.make("reshape", b, like=n, shape=(steps * depth, b.aval.shape[2]))
    if is_op(a, "permute") and a.attrs["dims"][1] == 2:  # a's rows are the last in memory
        left = s.make("permute", a, like=n, dims=(0, 2, 1))
        left = s.make("reshape", left, like=n, shape=(steps * depth, rows))
        left = s.make("permute", left, like=n, dims=(1, 0))
    else:
        left = s.make("permute", a, like=n, dims=(1, 0, 2))
        left = s.make("reshape", left, like=n, shape=(rows, steps * depth))
    return s.make(x.op, left, right, like=n)


RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "dot": (_shared_matrix,),
    "sum": (_sum_of_products,),
}
