"""At the edge: `eager.library`, a program's own operations under PyTorch's names. a function -> an
operation, also at `eager.ops.<library>.<name>`; the compiler's `custom_op` makes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, Final

import eager.ops
from eager.base import plugins
from eager.base.stub_modules import library as library

Function = Callable[..., Any]
_MADE: Final[dict[str, Any]] = {}  # by name


def custom_op(
    name: str,
    fn: Function | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make `fn`, a function of tensors, the operation "library::name", or a decorator that does. It
    writes the arguments that `mutates_args` names. `schema` says how many tensors it gives, else
    its annotation. `device_types` and `tags` are accepted, and change nothing."""
    if fn is None:
        return lambda f: custom_op(name, f, mutates_args=mutates_args, schema=schema)
    if mutates_args == "unknown":
        raise ValueError(f"custom_op {name}: mutates_args are the names of arguments, or ()")
    outputs = None if schema is None else schema.rpartition("->")[2].count("Tensor")
    made = plugins.compiler("custom_op")(name, fn, mutates_args=mutates_args, outputs=outputs)
    space, _, own = name.partition("::")
    if space not in vars(eager.ops):
        setattr(eager.ops, space, ModuleType(f"eager.ops.{space}"))
    setattr(vars(eager.ops)[space], own.partition(".")[0], made)
    made.default = _MADE[name] = made  # PyTorch's operations have overloads
    return made


def _called(op: Any) -> Any:
    if not isinstance(op, str):
        return op
    if op not in _MADE:
        raise RuntimeError(f"there is no operation {op!r}: library.custom_op makes one")
    return _MADE[op]


def register_fake(
    op: Any, func: Function | None = None, /, *, lib: Any = None, allow_override: bool = False
) -> Any:
    """Let `func` give tensors of the shape and dtype of an operation's results; also a
    decorator."""
    if func is None:
        return _called(op).register_fake
    return _called(op).register_fake(func)


def register_autograd(
    op: Any, backward: Function, /, *, setup_context: Function | None = None, lib: Any = None
) -> None:
    """Let `backward(ctx, *grads)` be the derivative of an operation."""
    _called(op).register_autograd(backward, setup_context=setup_context)


vars(library).update(
    custom_op=custom_op, register_autograd=register_autograd, register_fake=register_fake
)
