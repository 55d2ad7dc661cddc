"""`eager.nn.utils`: weights that are computed from other parameters before each call of a layer.

The parameter makes way for those it is computed from; a forward pre-hook sets the weight. Names
and order of parameters and buffers are PyTorch's, so that state dicts fit.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from eager.autograd import no_grad
from eager.base.compat_warnings import warn
from eager.core.tensor import Tensor
from eager.nn.functional import normalize
from eager.nn.modules import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from eager.nn.modules.module import Module
from eager.nn.parameter import Parameter

T = TypeVar("T", bound=Module)


class _Computed:
    """The pre-hook: sets `module.<name>` from the module's other parameters."""

    kind: ClassVar[str] = ""

    def __init__(self, name: str) -> None:
        self.name = name

    def weight(self, module: Module) -> Tensor:
        raise NotImplementedError

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.weight(module))

    def install(self, module: Module) -> None:
        for hook in module._forward_pre_hooks.values():
            if type(hook) is type(self) and hook.name == self.name:
                raise RuntimeError(
                    f"Cannot register two {self.kind} hooks on the same parameter {self.name}"
                )
        module.register_forward_pre_hook(self)


def _remove(module: T, kind: type[_Computed], name: str, parts: tuple[str, ...]) -> T:
    """The weight as it is now becomes a parameter again."""
    for key, hook in module._forward_pre_hooks.items():
        if type(hook) is kind and hook.name == name:
            with no_grad():
                value = hook.weight(module).detach().clone()
            del module._forward_pre_hooks[key]
            for each in (name, *(f"{name}_{part}" for part in parts)):
                delattr(module, each)
            setattr(module, name, Parameter(value))
            return module
    raise ValueError(f"{kind.kind} of '{name}' not found in {module}")


# ----------------------------------------------------------------------------- weight norm
def length_except(v: Tensor, dim: int | None) -> Tensor:
    """|v| over all dimensions but `dim`, which stay with size 1; over all, for None and -1."""
    if dim is None or dim == -1:
        return v.norm()
    others = [d for d in range(v.ndim) if d != dim % v.ndim]
    return (v * v).sum(others, keepdim=True).sqrt()


class WeightNorm(_Computed):
    """weight = g * v / |v|, with one length g for each index of dimension `dim` (None: one)."""

    kind = "weight_norm"

    def __init__(self, name: str, dim: int | None) -> None:
        super().__init__(name)
        self.dim = dim

    def weight(self, module: Module) -> Tensor:
        g, v = (getattr(module, f"{self.name}_{part}") for part in "gv")
        return v * (g / length_except(v, self.dim))


def weight_norm(module: T, name: str = "weight", dim: int | None = 0) -> T:
    """Parameters `<name>_g` (length) and `<name>_v` (direction) in place of `<name>` (Salimans and
    Kingma 2016). Raises RuntimeError if that was done already."""
    warn(
        "nn.utils.weight_norm is deprecated in favor of nn.utils.parametrizations.weight_norm",
        FutureWarning,
    )
    hook = WeightNorm(name, dim)
    hook.install(module)
    weight = getattr(module, name)
    del module._parameters[name]
    module.register_parameter(f"{name}_g", Parameter(length_except(weight, dim).detach()))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    hook(module, ())
    return module


def remove_weight_norm(module: T, name: str = "weight") -> T:
    """Undo `weight_norm`. Raises ValueError if there is none."""
    return _remove(module, WeightNorm, name, ("g", "v"))


# --------------------------------------------------------------------------- spectral norm
class SpectralNorm(_Computed):
    """weight divided by its largest singular value, which power iteration follows in training."""

    kind = "spectral_norm"

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__(name)
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.n_power_iterations, self.dim, self.eps = n_power_iterations, dim, eps

    def matrix(self, weight: Tensor) -> Tensor:
        """`dim` as rows, the other dimensions as columns."""
        return weight.movedim(self.dim, 0).flatten(1)

    def weight(self, module: Module) -> Tensor:
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        rows = self.matrix(weight)
        if module.training:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(normalize(rows.t().mv(u), dim=0, eps=self.eps))
                    u.copy_(normalize(rows.mv(v), dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()  # the next call overwrites the buffers
        return weight / u.dot(rows.mv(v))


def spectral_norm(
    module: T,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> T:
    """`<name>_orig` and buffers `<name>_u`, `<name>_v` in place of `<name>` (Miyato et al. 2018).

    `dim` counts the outputs: 1 for transposed convolutions, else 0. Raises RuntimeError if that
    was done already."""
    if dim is None:
        transposed = (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
        dim = 1 if isinstance(module, transposed) else 0
    hook = SpectralNorm(name, n_power_iterations, dim, eps)
    hook.install(module)
    weight: Parameter = module._parameters.pop(name)
    with no_grad():
        rows = hook.matrix(weight)
        start = [normalize(rows.new_empty(n).normal_(), dim=0, eps=eps) for n in rows.shape]
    module.register_parameter(f"{name}_orig", weight)
    setattr(module, name, weight.detach())
    for part, value in zip("uv", start, strict=True):
        module.register_buffer(f"{name}_{part}", value)
    return module


def remove_spectral_norm(module: T, name: str = "weight") -> T:
    """Undo `spectral_norm`. Raises ValueError if there is none."""
    return _remove(module, SpectralNorm, name, ("orig", "u", "v"))
