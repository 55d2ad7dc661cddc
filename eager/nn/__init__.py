"""`eager.nn`: neural networks under PyTorch's names.

Modules, functions, initialisation, utilities.
"""

from eager.base.misspelled import missing
from eager.nn import attention, functional, init, modules, parallel, parameter, utils
from eager.nn.modules import *  # noqa: F403 (the one list of layers is theirs)
from eager.nn.parallel import DataParallel
from eager.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    "Buffer",
    "DataParallel",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "attention",
    "functional",
    "init",
    "modules",
    "parallel",
    "parameter",
    "utils",
]
__all__ += modules.__all__

__getattr__ = missing(__name__)
