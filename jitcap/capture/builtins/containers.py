"""Capture: containers made by a call, and some ways to ask one. `dict`, `reversed` -> handler.

Registered beside those of `objects.py`, for the same table. Native code would be lent the
instances among the values of a dictionary, which it only stores.
"""

from __future__ import annotations

import collections
import functools
import operator
from types import MappingProxyType
from typing import Any

from jitcap.base.breaks import Break
from jitcap.base.origin import Fixed, result_of
from jitcap.capture.builtins import polyfills
from jitcap.capture.kinds.base import HANDLERS, MISSING, Session, handles, kind_of
from jitcap.capture.kinds.classes import class_raw
from jitcap.capture.kinds.constants import sequence_of
from jitcap.capture.kinds.iterators import Lazy, backwards
from jitcap.capture.kinds.symbolic.sequences import SizedIterator, SymRange
from jitcap.capture.opcodes.build import entries


@handles(dict)
def _dict(s: Session, given: Any = (), /, **kwargs: Any) -> dict[Any, Any]:
    if isinstance(given, dict) or HANDLERS[hasattr](s, given, "keys"):
        pairs = list(entries(s, given, str))
    else:
        words = "cannot convert dictionary update sequence element #{} to a sequence"
        pairs = [
            tuple(sequence_of(s, pair, words.format(i))) for i, pair in enumerate(s.iter(given))
        ]
    s.hashing(pair[0] for pair in pairs if pair)
    return dict(pairs) | kwargs


@handles(collections.OrderedDict)
def _ordered(s: Session, /, *args: Any, **kwargs: Any) -> Any:
    if len(args) > 1:
        return collections.OrderedDict(*args)  # raises, in this version's words
    return collections.OrderedDict(_dict(s, *args, **kwargs))


@handles(collections.defaultdict)
def _with_default(s: Session, /, *args: Any, **kwargs: Any) -> Any:
    made = s.native(collections.defaultdict, args[:1], {})
    made.update(_dict(s, *args[1:], **kwargs))
    return made


@handles(MappingProxyType)
def _view(s: Session, mapping: Any) -> Any:
    """A view of the dictionary itself: native code would be lent what it holds."""
    if isinstance(mapping, dict):
        return MappingProxyType(mapping)
    return s.native(MappingProxyType, (mapping,), {})


@handles(reversed)
def _reversed(s: Session, obj: Any) -> Any:
    found = s.asked(obj, "__reversed__")
    if found is not MISSING:
        return found
    if kind_of(obj).python and not isinstance(obj, list | tuple | dict):
        cls = type(obj)
        if class_raw(s, cls, "__getitem__") is MISSING:
            return reversed(obj)  # raises
        return backwards(s, obj)
    if type(obj) is SymRange:
        return SizedIterator(obj, backwards=True)
    s.settle(obj)
    return reversed(obj)


@handles(operator.countOf)
def _count_of(s: Session, values: Any, value: Any, /) -> Any:
    return s.call(polyfills.count_of, (values, value), {})


@handles(operator.indexOf)
def _index_of(s: Session, values: Any, value: Any, /) -> Any:
    return s.call(polyfills.index_of, (values, value), {})


@handles(operator.length_hint)
def _length_hint(s: Session, obj: Any, default: Any = 0, /) -> Any:
    """An iterator is asked as it is: what native code drives in its place has no hint."""
    kind = kind_of(obj)
    if kind.python or not hasattr(type(obj), "__next__"):
        return s.pure(operator.length_hint, (obj, default), {})
    if type(obj) is Lazy and hasattr(obj.cls, "__length_hint__"):
        kind.refuse(obj, ".__length_hint__()")
    return operator.length_hint(obj, s.known(default))


@handles((type, "fromkeys"))
def _fromkeys(s: Session, cls: Any, /, *args: Any, **kwargs: Any) -> Any:
    if kwargs and not issubclass(cls, collections.OrderedDict):
        raise TypeError(f"{cls.__name__}.fromkeys() takes no keyword arguments")
    return s.call(polyfills.fromkeys, (cls, *args), kwargs)


@handles(functools.singledispatch(len).dispatch.__code__)  # the closure of every generic function
def _dispatch(s: Session, dispatch: Any, cls: Any) -> Any:
    """The implementation that a generic function has for a class, with its origin."""
    shadow: Any = s.outside.by_real.get(id(_registry(dispatch)))
    if shadow is not None and any(shadow.base.get(k) is not v for k, v in shadow.twin.items()):
        raise Break("effect", "a generic function is called behind what is registered with it")
    origin: Any = s.outside.origin_of(dispatch) or Fixed(dispatch, "dispatch")
    origin = result_of(implementation, origin, more=(cls,))
    return s.outside.load(implementation(dispatch, cls), origin)


def implementation(dispatch: Any, cls: Any) -> Any:
    """The result of `dispatch(cls)`, without an entry in the generic function's own cache."""
    registry = _registry(dispatch)
    return registry[cls] if cls in registry else functools._find_impl(cls, registry)  # type: ignore[attr-defined]


def _registry(dispatch: Any) -> dict[type, Any]:
    cells = dict(zip(dispatch.__code__.co_freevars, dispatch.__closure__, strict=True))
    found: dict[type, Any] = cells["registry"].cell_contents
    return found
