"""Under what looks at all elements of parameters: those that other processes have.

Empty until a tensor is sharded; then `eager.distributed.shards` puts its own functions here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# (gradients, tensors that lie as they do, order) -> their norm; (parameters, a bool) -> it is so
# on any rank.
total_norm: Callable[[Any, Any, float], Any] | None = None
on_any_rank: Callable[[Any, Any], Any] | None = None
