"""`eager.utils._pytree`: PyTorch's trees of containers. a tree <-> its leaves and a `TreeSpec`.

A node is a tuple, list, dict, OrderedDict, defaultdict, deque, named tuple, or of a class that was
registered; anything else is a leaf, None and objects of subclasses among them. What control flow
carries is less general, and kept apart (`eager.base.tree`).
"""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from eager.base.dataclass import dataclass

PyTree = Any
Context = Any
Leaf = Callable[[Any], bool] | None
KeyPath = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class SequenceKey:
    """The way to an element of a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        return sequence[self.idx]


@dataclass(frozen=True, slots=True)
class MappingKey:
    """The way to a value of a dictionary."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        return mapping[self.key]


@dataclass(frozen=True, slots=True)
class GetAttrKey:
    """The way to an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        return getattr(obj, self.name)


class NodeDef(NamedTuple):
    """Functions that flatten and unflatten nodes of a class: node -> (children, context), and back;
    `keys` names the key of each child, given the node."""

    flatten_fn: Callable[[Any], tuple[Iterable[Any], Context]]
    unflatten_fn: Callable[[Iterable[Any], Context], Any]
    keys: Callable[[Any], Iterable[Any]]


def _indices(node: Any) -> list[SequenceKey]:
    return [SequenceKey(i) for i in range(len(node))]


def _names(node: Any) -> list[MappingKey]:
    return [MappingKey(key) for key in node]


def _dict_flatten(node: Any) -> tuple[list[Any], Context]:
    """The values and the keys of a mapping; PyTorch's name, as of the two below: programs register
    their classes of mappings with them."""
    return list(node.values()), list(node)


def _dict_flatten_with_keys(node: Any) -> tuple[list[tuple[Any, Any]], Context]:
    return [(MappingKey(key), value) for key, value in node.items()], list(node)


def _dict_unflatten(values: Iterable[Any], context: Context) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def _mapping(make: Callable[[Any], Any]) -> NodeDef:
    return NodeDef(
        _dict_flatten,
        lambda children, keys: make(zip(keys, children, strict=True)),
        _names,
    )


SUPPORTED_NODES: Final[dict[Any, NodeDef]] = {
    tuple: NodeDef(lambda node: (node, None), lambda children, _: tuple(children), _indices),
    list: NodeDef(lambda node: (node, None), lambda children, _: list(children), _indices),
    dict: _mapping(dict),
    OrderedDict: _mapping(OrderedDict),
    defaultdict: NodeDef(
        lambda node: (list(node.values()), [node.default_factory, list(node)]),
        lambda children, c: defaultdict(c[0], zip(c[1], children, strict=True)),
        _names,
    ),
    deque: NodeDef(
        lambda node: (list(node), node.maxlen),
        lambda children, most: deque(children, maxlen=most),
        _indices,
    ),
}
_NAMED: Final = NodeDef(
    lambda node: (list(node), type(node)),
    lambda children, cls: cls(*children),
    lambda node: [GetAttrKey(name) for name in type(node)._fields],
)

SUPPORTED_NODES[namedtuple] = _NAMED  # a function: PyTorch's key


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[Iterable[Any], Context]],
    unflatten_fn: Callable[[Iterable[Any], Context], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Any = None,
    from_dumpable_context: Any = None,
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Context]] | None = None,
) -> None:
    """Objects of `cls` (not of its subclasses) are nodes from now on. The names for writing specs
    down are accepted and not used. Raises ValueError for a class that is one already."""
    del serialized_type_name, to_dumpable_context, from_dumpable_context
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")

    def keys(node: Any) -> list[Any]:
        if flatten_with_keys_fn is None:
            raise ValueError(
                f"Did not find a flatten_with_keys_fn for type: {cls}. "
                "Please pass a flatten_with_keys_fn argument to register_pytree_node."
            )
        return [key for key, _ in flatten_with_keys_fn(node)[0]]

    SUPPORTED_NODES[cls] = NodeDef(flatten_fn, unflatten_fn, keys)


_register_pytree_node = register_pytree_node  # its name in older PyTorch


def is_namedtuple(obj: Any) -> bool:
    """True if an object, or a class, is a named tuple's."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_namedtuple_class(cls: type) -> bool:
    fields = getattr(cls, "_fields", None)
    named = isinstance(fields, tuple) and all(type(name) is str for name in fields)
    return issubclass(cls, tuple) and named


def is_namedtuple_instance(obj: Any) -> bool:
    return is_namedtuple_class(type(obj))


def _definition(tree: Any, is_leaf: Leaf = None) -> NodeDef | None:
    """Definition by which a node is flattened; None for a leaf."""
    if is_leaf is not None and is_leaf(tree):
        return None
    found = SUPPORTED_NODES.get(type(tree))
    return _NAMED if found is None and is_namedtuple_instance(tree) else found


def _get_node_type(tree: PyTree) -> Any:
    """The key that `SUPPORTED_NODES` has for a node, if it has one."""
    return namedtuple if is_namedtuple_instance(tree) else type(tree)


def tree_is_leaf(tree: PyTree, is_leaf: Leaf = None) -> bool:
    return _definition(tree, is_leaf) is None


@dataclass(frozen=True, slots=True)
class TreeSpec:
    """Structure of a tree without its leaves. `type` is None for a leaf."""

    type: Any
    context: Context
    children_specs: list[TreeSpec]

    @property
    def num_leaves(self) -> int:
        return 1 if self.is_leaf() else sum(child.num_leaves for child in self.children_specs)

    @property
    def num_nodes(self) -> int:
        return 1 + sum(child.num_nodes for child in self.children_specs)

    @property
    def num_children(self) -> int:
        return len(self.children_specs)

    def is_leaf(self) -> bool:
        return self.type is None

    def children(self) -> list[TreeSpec]:
        return [*self.children_specs]

    def child(self, index: int) -> TreeSpec:
        return self.children_specs[index]

    def __repr__(self) -> str:
        if self.is_leaf():
            return "*"
        inner = ", ".join(map(repr, self.children_specs))
        return f"TreeSpec({self.type.__name__}, {self.context}, [{inner}])"

    def unflatten(self, leaves: Iterable[Any]) -> PyTree:
        """The tree with these leaves. Raises ValueError if they are not as many as it has."""
        given = [*leaves]
        if len(given) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(given)} but the spec refers "
                f"to a pytree that holds {self.num_leaves} items ({self})."
            )
        return self._fill(iter(given))

    def _fill(self, leaves: Iterator[Any]) -> PyTree:
        if self.is_leaf():
            return next(leaves)
        children = [child._fill(leaves) for child in self.children_specs]
        return SUPPORTED_NODES.get(self.type, _NAMED).unflatten_fn(children, self.context)

    def flatten_up_to(self, tree: PyTree) -> list[PyTree]:
        """The parts of `tree` where this spec has leaves. Raises ValueError where `tree` is of
        another structure."""
        if self.is_leaf():
            return [tree]
        how = _definition(tree)
        if how is None or type(tree) is not self.type:
            raise ValueError(f"Type mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        children, context = how.flatten_fn(tree)
        children = [*children]
        if len(children) != len(self.children_specs):
            raise ValueError(
                f"Node arity mismatch; expected {len(self.children_specs)}, but got {len(children)}"
            )
        if context != self.context:
            if not (isinstance(tree, dict) and set(tree) == set(self._keys())):
                raise ValueError(f"Node context mismatch: {context!r} is not {self.context!r}.")
            children = [tree[key] for key in self._keys()]
        pairs = zip(self.children_specs, children, strict=True)
        return [leaf for spec, child in pairs for leaf in spec.flatten_up_to(child)]

    def _keys(self) -> list[Any]:
        """The keys of a dictionary's node."""
        keys: list[Any] = self.context[1] if self.type is defaultdict else self.context
        return keys


PyTreeSpec = TreeSpec


def LeafSpec() -> TreeSpec:
    """The spec of a leaf."""
    return TreeSpec(None, None, [])


def tree_flatten(tree: PyTree, is_leaf: Leaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves, from left to right, and the rest. `is_leaf` names more leaves."""
    leaves: list[Any] = []
    return leaves, _flattened(tree, leaves, is_leaf)


def _flattened(tree: PyTree, leaves: list[Any], is_leaf: Leaf) -> TreeSpec:
    how = _definition(tree, is_leaf)
    if how is None:
        leaves.append(tree)
        return LeafSpec()
    children, context = how.flatten_fn(tree)
    return TreeSpec(type(tree), context, [_flattened(c, leaves, is_leaf) for c in children])


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "tree_unflatten(leaves, treespec): Expected `treespec` to be instance of PyTreeSpec "
            f"but got item of type {type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_leaves(tree: PyTree, is_leaf: Leaf = None) -> list[Any]:
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: PyTree, is_leaf: Leaf = None) -> Iterator[Any]:
    return iter(tree_leaves(tree, is_leaf))


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    return tree_leaves([*args, *kwargs.values()])


def tree_structure(tree: PyTree, is_leaf: Leaf = None) -> TreeSpec:
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: Leaf = None
) -> PyTree:
    """The tree of `func` of the leaves, and of what the other trees have at their places."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(func, leaves, *map(spec.flatten_up_to, rests)))


def tree_map_(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: Leaf = None
) -> PyTree:
    """`func` is called for what it does; `tree` itself."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for each in zip(leaves, *map(spec.flatten_up_to, rests), strict=True):
        func(*each)
    return tree


def _is_of(kinds: Any) -> Callable[[Any], bool]:
    """A type, a tuple of them, or a predicate."""
    if isinstance(kinds, type | tuple):
        return lambda x: isinstance(x, kinds)
    if not callable(kinds):
        raise TypeError("Argument must be a type, a tuple of types, or a callable.")
    return kinds


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Any], Any]:
    """A decorator: what is of none of these types stays as it is."""
    fits = _is_of(type_or_types_or_pred)

    def decorate(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return functools.wraps(func)(lambda x: func(x) if fits(x) else x)

    return decorate


def tree_map_only(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: Leaf = None
) -> PyTree:
    fits = _is_of(type_or_types_or_pred)
    return tree_map(lambda x: func(x) if fits(x) else x, tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: Leaf = None
) -> PyTree:
    for leaf in filter(_is_of(type_or_types_or_pred), tree_leaves(tree, is_leaf)):
        func(leaf)
    return tree


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: Leaf = None) -> bool:
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: Leaf = None) -> bool:
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: Leaf = None
) -> bool:
    return all(map(pred, filter(_is_of(type_or_types), tree_leaves(tree, is_leaf))))


def tree_any_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: Leaf = None
) -> bool:
    return any(map(pred, filter(_is_of(type_or_types), tree_leaves(tree, is_leaf))))


# ---- with the ways to the leaves


def tree_leaves_with_path(tree: PyTree, is_leaf: Leaf = None) -> list[tuple[KeyPath, Any]]:
    return [*_with_path((), tree, is_leaf)]


def _with_path(path: KeyPath, tree: PyTree, is_leaf: Leaf) -> Iterator[tuple[KeyPath, Any]]:
    how = _definition(tree, is_leaf)
    if how is None:
        yield path, tree
        return
    for key, child in zip(how.keys(tree), how.flatten_fn(tree)[0], strict=True):
        yield from _with_path((*path, key), child, is_leaf)


def tree_flatten_with_path(
    tree: PyTree, is_leaf: Leaf = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: Leaf = None
) -> PyTree:
    """Map `func` over the leaves, as `tree_map`; it is given the key path of each leaf first."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    paths, leaves = [path for path, _ in found], [leaf for _, leaf in found]
    return spec.unflatten(map(func, paths, leaves, *map(spec.flatten_up_to, rests)))


def keystr(kp: KeyPath) -> str:
    """A way as text."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """Value at the end of a key path."""
    for key in kp:
        obj = key.get(obj)
    return obj
