"""`eager.distributed.nn`: PyTorch's place of collectives with derivatives."""

from __future__ import annotations

from eager.distributed.nn import functional as functional
from eager.distributed.nn.functional import *  # noqa: F403
