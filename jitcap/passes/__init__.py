"""Graph passes, between capture and lowering: a table of plain functions Graph -> Graph.

Every pass is O(n log n) in nodes, keeps values bit for bit unless it says otherwise, and leaves a
graph that `verify` accepts. To add one: write the function, add a line with its reason here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jitcap.graph import Graph
from jitcap.passes.common_subexpressions import common_subexpressions
from jitcap.passes.dead import dead_code
from jitcap.passes.join_parts import join_parts
from jitcap.passes.simplify import simplify
from jitcap.passes.unrolled_products import hoist_products, sum_products

Pass = Callable[[Graph], Graph]

# (pass, why here)
PASSES: Final[tuple[tuple[Pass, str], ...]] = (
    (dead_code, "what nobody reads costs every later pass its time"),
    (simplify, "local identities; before sharing, so that two spellings of one value meet"),
    (common_subexpressions, "one value, one node: the backward repeats parts of the forward"),
    (hoist_products, "after sharing: every step has the same weights"),
    (sum_products, "before parts are joined, which hides additions"),
    (join_parts, "after sharing, so that only gradients used once are looked through"),
    (simplify, "sharing makes `where(c, x, x)` and its like visible"),
    (common_subexpressions, "what the rewrites made equal: codegen shares nothing"),
    (dead_code, "drop what the rewrites left behind"),
)
