"""`eager.nn.utils.prune`: parameters whose smallest (or random) elements are zero. module, name and
amount -> the module, which computes `name` from `name_orig` and `name_mask` before each call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from eager import random as rng
from eager.core.tensor import Tensor
from eager.nn.modules.module import Module
from eager.nn.parameter import Parameter
from eager.nn.utils.convert import parameters_to_vector
from eager.ops.move import cat


def _count(amount: float, size: int) -> int:
    """Number of elements out of `size` that an amount is: an int number of them, or a float
    share."""
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (isinstance(amount, float) and amount > 1.0):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )
    if isinstance(amount, int):
        if amount > size:
            raise ValueError(
                f"amount={amount} should be smaller than the number of parameters to prune={size}"
            )
        return amount
    return round(amount * size)


class BasePruningMethod:
    """A way to choose what to prune: `compute_mask(t, default_mask)` says what stays.

    `PRUNING_TYPE`: whether the amount counts all elements ("global"), those that are still there
    ("unstructured"), or slices along `dim` ("structured")."""

    PRUNING_TYPE = "unstructured"
    _tensor_name: str

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        raise NotImplementedError

    def __call__(self, module: Module, inputs: Any) -> None:
        """The hook before the module's call."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    def apply_mask(self, module: Any) -> Tensor:
        mask = getattr(module, self._tensor_name + "_mask")
        original = getattr(module, self._tensor_name + "_orig")
        return mask.to(dtype=original.dtype) * original

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Tensor:
        """`t` with zeros where it is pruned; nothing is registered."""
        mask = t.new_ones(t.shape) if default_mask is None else default_mask
        scores = t if importance_scores is None else importance_scores
        return t * self.compute_mask(scores, default_mask=mask)

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        *args: Any,
        importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Prune `module.name`, in addition to what was pruned before."""
        method = cls(*args, **kwargs)
        method._tensor_name = name
        before = _registered(module, name)
        seen = getattr(module, name)
        scores = seen.detach() if importance_scores is None else importance_scores
        if scores.shape != seen.shape:
            raise ValueError("importance_scores should have the same shape as parameter to prune")
        if before is None and not isinstance(seen, Parameter):
            raise TypeError(f"{name} of {type(module).__name__} is no parameter")
        mask = (
            seen.detach().new_ones(seen.shape)
            if before is None
            else getattr(module, name + "_mask")
        )
        mask, now = _next_mask(method, scores, mask), method
        if before is None:
            module.register_parameter(name + "_orig", seen)
            del module._parameters[name]
        else:
            del module._forward_pre_hooks[before[0]]
            now = _with(before[1], method)
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, now.apply_mask(module))
        module.register_forward_pre_hook(now)
        return now

    def remove(self, module: Module) -> None:
        """Make what was pruned permanent: `name` is a parameter again."""
        name = self._tensor_name
        original = getattr(module, name + "_orig")
        original.data = self.apply_mask(module).detach()
        delattr(module, name)
        del module._parameters[name + "_orig"]
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several ways, one after the other."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods = tuple(args)
        self._tensor_name = args[0]._tensor_name if args else ""

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, index: int) -> BasePruningMethod:
        return self._pruning_methods[index]

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        self._pruning_methods = (*self._pruning_methods, method)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _next_mask(self._pruning_methods[-1], t, default_mask)


def _with(earlier: BasePruningMethod, method: BasePruningMethod) -> PruningContainer:
    parts = tuple(earlier) if isinstance(earlier, PruningContainer) else (earlier,)
    return PruningContainer(*parts, method)


def _next_mask(method: BasePruningMethod, t: Tensor, mask: Tensor) -> Tensor:
    """The mask after one more way: it sees what is still there."""
    if method.PRUNING_TYPE == "unstructured":
        there = mask == 1
        after = mask.clone()
        after[there] = method.compute_mask(t[there], default_mask=mask[there])
        return after
    if method.PRUNING_TYPE == "structured":
        others = tuple(d for d in range(t.ndim) if d != method.dim % t.ndim)  # type: ignore[attr-defined]
        there = mask.sum(dim=others) != 0
        index = (slice(None),) * (method.dim % t.ndim) + (there,)  # type: ignore[attr-defined]
        after = mask.clone()
        after[index] = method.compute_mask(t[index], default_mask=mask[index])
        return after
    return method.compute_mask(t, default_mask=mask)


class Identity(BasePruningMethod):
    """Prunes nothing."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Random elements."""

    def __init__(self, amount: float) -> None:
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without(default_mask, rng.rand(t.shape), _count(self.amount, t.numel()), True)


class L1Unstructured(BasePruningMethod):
    """The elements that are smallest in absolute value."""

    def __init__(self, amount: float) -> None:
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without(default_mask, t.abs(), _count(self.amount, t.numel()), False)


def _without(mask: Tensor, scores: Tensor, n: int, largest: bool) -> Tensor:
    """The mask with zeros at the n largest (or smallest) scores."""
    mask = mask.clone()
    if n:
        mask.view(-1)[scores.reshape(-1).topk(n, largest=largest)[1]] = 0
    return mask


class _Structured(BasePruningMethod):
    """Slices along `dim`."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        self.amount = amount
        self.dim = dim

    def scores(self, t: Tensor, dim: int) -> Tensor:
        """One number for each slice: those with small ones are pruned."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        dim = self.dim % t.ndim
        size = t.shape[dim]
        kept = size - _count(self.amount, size)
        mask = t.new_zeros((size,))
        mask[self.scores(t, dim).topk(kept)[1]] = 1
        shape = [1] * t.ndim
        shape[dim] = size
        return mask.reshape(shape) * default_mask


class RandomStructured(_Structured):
    """Random slices along `dim`."""

    def scores(self, t: Tensor, dim: int) -> Tensor:
        return rng.rand(t.shape[dim])


class LnStructured(_Structured):
    """The slices along `dim` with the smallest n-norm."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def scores(self, t: Tensor, dim: int) -> Tensor:
        return t.norm(p=self.n, dim=[d for d in range(t.ndim) if d != dim])


class CustomFromMask(BasePruningMethod):
    """Pruning by a given mask: its zeros are left out."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask * self.mask.to(dtype=default_mask.dtype)


def identity(module: Module, name: str) -> Module:
    """`name` gets a mask of ones."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune random elements."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: float, importance_scores: Tensor | None = None
) -> Module:
    """Prune the elements that are smallest in absolute value (or have the lowest scores)."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune random slices along `dim`."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module,
    name: str,
    amount: float,
    n: Any,
    dim: int,
    importance_scores: Tensor | None = None,
) -> Module:
    """Prune the slices along `dim` with the smallest n-norm."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune what `mask` leaves out."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: Callable[..., Any],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters together, as if they were one."""
    pairs: Sequence[tuple[Any, str]] = list(parameters)
    given = importance_scores or {}
    scores = parameters_to_vector([given.get(p, getattr(*p)).detach() for p in pairs])
    masks = [
        getattr(m, name + "_mask", getattr(m, name).detach().new_ones(getattr(m, name).shape))
        for m, name in pairs
    ]
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError("Only 'unstructured' PRUNING_TYPE supported for the `pruning_method`")
    final = _next_mask(method, scores, cat([mask.reshape(-1) for mask in masks]))
    start = 0
    for (module, name), mask in zip(pairs, masks, strict=True):
        part = final[start : start + mask.numel()].reshape(mask.shape)
        custom_from_mask(module, name, part)
        start += mask.numel()


def _registered(module: Module, name: str) -> tuple[int, Any] | None:
    """The hook that prunes `name`, with its number."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return key, hook
    return None


def remove(module: Module, name: str) -> Module:
    """Make what was pruned of `name` permanent. ValueError if nothing was."""
    found = _registered(module, name)
    if found is None:
        raise ValueError(
            f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
        )
    found[1].remove(module)
    del module._forward_pre_hooks[found[0]]
    return module


def is_pruned(module: Module) -> bool:
    """True if anything in the tree of `module` is pruned."""
    return any(
        isinstance(hook, BasePruningMethod)
        for m in module.modules()
        for hook in m._forward_pre_hooks.values()
    )
