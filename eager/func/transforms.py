"""Derivatives as functions of functions. A function -> one that gives its gradient.

Arguments are tensors, or tuples, lists and dictionaries of them. A gradient keeps a history only
where it depends on tensors that require one (so derivatives nest).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eager import autograd
from eager.autograd import is_grad_enabled
from eager.autograd.grad_mode import recording
from eager.autograd.transposed import forward_derivatives
from eager.autograd.vmapped import directions, vmap
from eager.base.compat_warnings import refuse
from eager.base.tree import flatten, mapped
from eager.core.batched import Batched
from eager.core.dispatch import variable
from eager.core.tape import differentiable, full
from eager.core.tensor import Tensor, bare, wrap


def _leaves(tree: Any) -> list[Tensor]:
    return [x for x in flatten(tree)[0] if isinstance(x, Tensor)]


def _variables(tree: Any) -> Any:
    """`tree` with variables of its tensors. ValueError where there is something else."""
    for x in flatten(tree)[0]:
        if not isinstance(x, Tensor):
            raise ValueError(  # noqa: TRY004 - as PyTorch
                f"Thing passed to transform API must be Tensor, got {type(x)}"
            )
    return mapped(variable, tree)


def _outputs(out: Any, name: str) -> list[Tensor]:
    """The tensors that a function gave. Raises RuntimeError for none, for anything else, and for
    types that have no derivative."""
    outs = flatten(out)[0]
    for x in [None] if out is None else outs:
        if not isinstance(x, Tensor):
            raise RuntimeError(  # noqa: TRY004 - as PyTorch
                f"{name}: expected f(*primals) to return only tensors, got unsupported type "
                f"{type(x)}"
            )
        if not (x.dtype.is_floating_point or x.dtype.is_complex):
            raise RuntimeError(
                f"{name}: All outputs of f must be floating-point or complex Tensors, got Tensor "
                f"with dtype {x.dtype}"
            )
    if not outs:
        raise RuntimeError(f"{name}: Expected f to be a function that has non-empty output")
    return outs


def _same_structure(a: Any, b: Any, said: str) -> None:
    first, second = flatten(a)[1], flatten(b)[1]
    if first != second:
        raise RuntimeError(f"{said}, got {first} and {second}")


def _map(fn: Callable[[Tensor], Any], tree: Any) -> Any:
    """`tree` with `fn` of its tensors in their places."""
    return mapped(lambda x: fn(x) if isinstance(x, Tensor) else x, tree)


def _fill(tree: Any, values: Sequence[Any]) -> Any:
    """`tree` with `values` in the places of its tensors."""
    rest = iter(values)
    return _map(lambda _: next(rest), tree)


def _dual(outs: Sequence[Tensor]) -> list[Tensor]:
    """Variables for u in u^T J, whose derivative by u is J."""
    return [variable(full(0, o.aval)) for o in outs]


def _settled(result: Tensor, own: set[int], keep: bool) -> Tensor:
    """`result` without its history if that leads to nothing but the variables of this call, here
    and outside of the mapped functions that run."""
    out = _settled_here(result, own, keep)
    array = out._array
    if type(array) is Batched and (value := _settled(array.value, own, keep)) is not array.value:
        settled: Tensor = wrap(array.of(value), out._storage)
        settled._node, settled._index = out._node, out._index
        settled._requires_grad = out._requires_grad
        return settled
    return out


def _settled_here(result: Tensor, own: set[int], keep: bool) -> Tensor:
    if not result.requires_grad:
        return result
    seen: set[int] = set()
    stack: list[Any] = [result._node] if result._node is not None else [result]
    while keep and stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Tensor):
            if id(node) not in own:
                return result
        else:
            stack += [e[0] for e in node.edges if e is not None]
    return bare(result)


def _linear(outs: Sequence[Tensor], ins: Sequence[Tensor], dual: Sequence[Any]) -> list[Tensor]:
    """u^T J, whose derivative by u (`dual`) is J."""
    with forward_derivatives():
        return _gradients(outs, ins, dual)


def _gradients(outs: Sequence[Tensor], ins: Sequence[Tensor], v: Sequence[Any]) -> list[Tensor]:
    pairs = [(o, g) for o, g in zip(outs, v, strict=True) if o.requires_grad]
    found: Sequence[Any] = (None,) * len(ins)
    if pairs:
        live, given = zip(*pairs, strict=True)
        found = autograd.grad(live, ins, given, create_graph=True, allow_unused=True)
    return [full(0, x.aval) if g is None else g for g, x in zip(found, ins, strict=True)]


def _parted(result: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(
            "has_aux=True: the function is to return a tuple of two, (output, aux), got "
            f"{type(result).__name__}"
        )
    for x in flatten(result[1])[0]:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(x)}")  # noqa: TRY004 - as PyTorch
    return result


def _at(args: Sequence[Any], argnums: int | Sequence[int]) -> tuple[list[Any], Any]:
    """`args` with the chosen ones as variables, and the chosen ones."""
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    if not isinstance(numbers, tuple) or not all(isinstance(n, int) for n in numbers):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {argnums!r}")
    if not numbers:
        raise RuntimeError("argnums must be non-empty")
    for n in numbers:
        if not -len(args) <= n < len(args):
            raise RuntimeError(f"argnum={n} is out of range for {len(args)} positional arguments")
    if len({n % len(args) for n in numbers}) < len(numbers):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    changed = list(args)
    for n in numbers:
        changed[n] = _variables(args[n])
    chosen = tuple(changed[n] for n in numbers)
    return changed, chosen[0] if isinstance(argnums, int) else chosen


def _value_and_gradient(
    func: Any, argnums: Any, has_aux: bool, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Any, Any, Any]:
    """The gradient by the chosen arguments, the value, and what else `func` returned."""
    keep = is_grad_enabled()
    with recording():
        changed, chosen = _at(args, argnums)
        out, aux = _parted(func(*changed, **kwargs), has_aux)
        if not isinstance(out, Tensor):
            raise RuntimeError(  # noqa: TRY004 - as PyTorch
                f"grad_and_value(f)(*args): Expected f(*args) to return a tensor, got {type(out)}"
            )
        if out.ndim:
            raise RuntimeError(
                "grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got tensor "
                f"with {out.ndim} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
            )
        if out.dtype.is_complex:
            raise RuntimeError(
                f"grad can be implicitly created only for real scalar outputs but got {out.dtype}"
            )
        ins = _leaves(chosen)
        found = _gradients([out], ins, [full(1, out.aval)])
    own = {id(x) for x in ins}

    def settled(x: Tensor) -> Tensor:
        return _settled(x, own, keep)

    return _fill(chosen, [*map(settled, found)]), settled(out), _map(settled, aux)


def grad(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """The gradient of a scalar function by its arguments `argnums`, as a function of all of them;
    with what it returns beside the scalar if `has_aux`."""

    def gradient(*args: Any, **kwargs: Any) -> Any:
        found, _, aux = _value_and_gradient(func, argnums, has_aux, args, kwargs)
        return (found, aux) if has_aux else found

    return gradient


def grad_and_value(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Like `grad`: (gradient, value), or (gradient, (value, aux))."""

    def gradient(*args: Any, **kwargs: Any) -> Any:
        found, out, aux = _value_and_gradient(func, argnums, has_aux, args, kwargs)
        return found, (out, aux) if has_aux else out

    return gradient


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """(func(*primals), a function of v that gives v^T J as a tuple by primal), and aux."""
    keep = is_grad_enabled()
    with recording():
        changed = [_variables(p) for p in primals]
        out, aux = _parted(func(*changed), has_aux)
    ins, outs = _leaves(changed), _outputs(out, "vjp(f, *primals)")
    own = {id(x) for x in ins}

    def settled(x: Tensor) -> Tensor:
        return _settled(x, own, keep)

    def pullback(cotangents: Any) -> Any:
        given = flatten(cotangents)[0]
        said = "vjp: the cotangents are to have the structure of the outputs"
        _same_structure(cotangents, out, said)
        with recording():
            found = _gradients(outs, ins, given)
        own.update(id(x) for x in given if not x.requires_grad)
        return tuple(_fill(changed, [*map(settled, found)]))

    result = _map(settled, out), pullback
    return (*result, _map(settled, aux)) if has_aux else result


def jvp(
    func: Callable[..., Any],
    primals: Any,
    tangents: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """(func(*primals), J tangents), and aux, by double backward: u^T J is linear in u."""
    refuse("jvp", "compare with and without the input yourself", strict=strict)
    if not isinstance(primals, tuple) or not primals:
        raise RuntimeError("jvp: Expected primals to be a tuple of at least one Tensor")
    _same_structure(tangents, primals, "jvp: the tangents are to have the structure of the primals")
    if any(not isinstance(x, Tensor) for x in flatten(tangents)[0]):
        raise RuntimeError("jvp: Expected tangents to only contain Tensors")
    for x in flatten(primals)[0]:
        if isinstance(x, Tensor) and not differentiable(x.dtype):
            raise ValueError(f"Expected primal to be floating point or complex, but got: {x.dtype}")
    keep = is_grad_enabled()
    with recording():
        changed = [_variables(p) for p in primals]
        out, aux = _parted(func(*changed), has_aux)
        ins, outs = _leaves(changed), _outputs(out, "jvp(f, primals, tangents)")
        dual = _dual(outs)
        products = _gradients(_linear(outs, ins, dual), dual, _leaves(tangents))
    own = {id(x) for x in [*ins, *dual]}

    def settled(x: Tensor) -> Tensor:
        return _settled(x, own, keep)

    result = _map(settled, out), _fill(out, [*map(settled, products)])
    return (*result, _map(settled, aux)) if has_aux else result


def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """The Jacobian by the arguments `argnums`: (*output, *input), one backward for all elements of
    an output, or for `chunk_size` of them at once. ValueError for a `chunk_size` below 1."""
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        return _by_rows(func, argnums, has_aux, args, kwargs, chunk_size)

    return jacobian


def _by_rows(
    func: Any, argnums: Any, has_aux: bool, args: Sequence[Any], kwargs: dict[str, Any], chunk: Any
) -> Any:
    keep = is_grad_enabled()
    with recording():
        changed, chosen = _at(args, argnums)
        out, aux = _parted(func(*changed, **kwargs), has_aux)
        _outputs(out, "vjp(f, *primals)")
        ins = _leaves(chosen)
        own = {id(x) for x in ins}
        found = _map(lambda o: _fill(chosen, _rows(o, ins, own, keep, chunk)), out)
    return (found, _map(lambda x: _settled(x, own, keep), aux)) if has_aux else found


def _rows(
    out: Tensor, ins: Sequence[Tensor], own: set[int], keep: bool, chunk: Any
) -> list[Tensor]:
    rows = vmap(lambda g: tuple(_gradients([out], ins, [g])), chunk_size=chunk)(directions(out))
    return [
        _settled(row.reshape((*out.shape, *x.shape)), own, keep)
        for row, x in zip(rows, ins, strict=True)
    ]


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """The second derivatives: the Jacobian of the Jacobian."""
    return jacrev(jacrev(func, argnums), argnums)


def jacfwd(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """The Jacobian by the arguments `argnums`: (*output, *input), like `jacrev`, by the products
    J v of all elements of an input at once."""
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"randomness must be 'error', 'different' or 'same', got {randomness}")

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        return _by_columns(func, argnums, has_aux, args, kwargs)

    return jacobian


def _by_columns(
    func: Any, argnums: Any, has_aux: bool, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    keep = is_grad_enabled()
    with recording():
        changed, chosen = _at(args, argnums)
        out, aux = _parted(func(*changed, **kwargs), has_aux)
        ins, outs = _leaves(chosen), _outputs(out, "jvp(f, primals, tangents)")
        dual = _dual(outs)
        linear = _linear(outs, ins, dual)
        own = {id(x) for x in [*ins, *dual]}
        blocks = [_columns(linear, i, ins[i], dual, own, keep) for i in range(len(ins))]
    by_out = iter([_fill(chosen, [b[k] for b in blocks]) for k in range(len(outs))])
    found = _map(lambda _: next(by_out), out)
    return (found, _map(lambda x: _settled(x, own, keep), aux)) if has_aux else found


def _columns(
    linear: Sequence[Tensor], i: int, x: Tensor, dual: Sequence[Tensor], own: set[int], keep: bool
) -> list[Tensor]:
    """The Jacobian of each output by the i-th input: (*output, *input)."""
    products = vmap(lambda v: tuple(_gradients([linear[i]], dual, [v])), out_dims=-1)
    return [
        _settled(p.reshape((*d.shape, *x.shape)), own, keep)
        for p, d in zip(products(directions(x)), dual, strict=True)
    ]


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """(func(*primals), a function of tangents that gives J tangents)."""
    keep = is_grad_enabled()
    with recording():
        changed = [_variables(p) for p in primals]
        out = func(*changed)
        ins, outs = _leaves(changed), _outputs(out, "linearize(f, *primals)")
        dual = _dual(outs)
        linear = _linear(outs, ins, dual)
    own = {id(x) for x in [*ins, *dual]}

    def product(*tangents: Any) -> Any:
        said = "linearize: the tangents are to have the structure of the primals"
        _same_structure(tangents, primals, said)
        with recording():
            found = _gradients(linear, dual, _leaves(tangents))
        return _fill(out, [_settled(x, own, keep) for x in found])

    return _map(lambda x: _settled(x, own, keep), out), product
