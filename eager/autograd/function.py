"""`eager.autograd.function`: where PyTorch has `Function` and what it hands to its methods, too."""

from eager.autograd import Function, FunctionCtx

__all__ = ["Function", "FunctionCtx"]
