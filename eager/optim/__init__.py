"""`eager.optim`: optimizers and learning rate schedules under PyTorch's names."""

from eager.base.misspelled import missing
from eager.base.stub_modules import Absent as _Absent
from eager.base.submodules import name_submodules as _name_submodules
from eager.optim import lr_scheduler, swa_utils
from eager.optim.adafactor import Adafactor
from eager.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam
from eager.optim.asgd import ASGD
from eager.optim.lbfgs import LBFGS
from eager.optim.muon import Muon
from eager.optim.optimizer import Optimizer
from eager.optim.rms import Adadelta, Adagrad, RMSprop
from eager.optim.rprop import Rprop
from eager.optim.sgd import SGD

SparseAdam = _Absent("optim.SparseAdam", "gradients of embeddings are dense here: use Adam")
__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
    "swa_utils",
]

_name_submodules("optim")

__getattr__ = missing(__name__)
