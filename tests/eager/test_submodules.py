"""Submodules have the names and the classes that they have in PyTorch."""

import importlib

import pytest

from eager.submodules import _HOMES

torch = pytest.importorskip("torch")
NAMES = [
    f"{package}.{name}"
    for package, homes in _HOMES.items()
    for names in homes.values()
    for name in names.split()
]
NOT_HERE = {  # helpers of PyTorch's own, and what is older than its names of today
    "ConstraintRegistry", "D", "ExpRelaxedCategorical", "LogitRelaxedBernoulli",
    "adadelta", "adagrad", "adamax", "adamw", "nadam", "radam", "rmsprop",
    "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d",
    "clip_grad_norm", "Flatten", "Unflatten",
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_has_what_pytorch_has_there(name):
    theirs, ours = (
        importlib.import_module(f"torch.{name}"),
        importlib.import_module(f"eager.{name}"),
    )
    public = {
        n for n, v in vars(theirs).items()
        if not n.startswith("_") and getattr(v, "__module__", "") == theirs.__name__
    }  # fmt: skip
    lacks = {n for n in public - NOT_HERE if not hasattr(ours, n)}
    assert not lacks
