"""`eager.nn`: neural networks under PyTorch's names. modules, functions, initialisation, utilities."""

from eager.nn import functional, init, modules, parameter, utils
from eager.nn.modules import *  # noqa: F403
from eager.nn.modules import __all__ as _modules
from eager.nn.parameter import Buffer, Parameter

__all__ = [*_modules, "Buffer", "Parameter", "functional", "init", "modules", "parameter", "utils"]
