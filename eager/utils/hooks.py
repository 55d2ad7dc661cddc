"""`eager.utils.hooks`: the class of what registering a hook returns, of tensors and of modules."""

from __future__ import annotations

from eager.core.gradient_hooks import RemovableHandle

__all__ = ["RemovableHandle"]
