"""Capture: containers made by a call, and two ways to ask one. `dict`, `reversed` -> handler.

Registered beside those of `objects.py`, for the same table. Native code would be lent the
instances among the values of a dictionary, which it only stores.
"""

from __future__ import annotations

import collections
import operator
from typing import Any

from jitcap.capture.kinds.base import HANDLERS, MISSING, Session, handles, kind_of
from jitcap.capture.kinds.classes import class_raw
from jitcap.capture.kinds.constants import sequence_of
from jitcap.capture.kinds.counted import SizedIterator, SizedRange
from jitcap.capture.kinds.iterators import Lazy, ReversedIterator
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


@handles(reversed)
def _reversed(s: Session, obj: Any) -> Any:
    found = s.asked(obj, "__reversed__")
    if found is not MISSING:
        return found
    if kind_of(obj).python and not isinstance(obj, list | tuple | dict):
        cls = type(obj)
        if class_raw(s, cls, "__getitem__") is MISSING:
            return reversed(obj)  # raises
        return ReversedIterator(s, obj)
    if type(obj) is SizedRange:
        return SizedIterator(obj, backwards=True)
    s.settle(obj)
    return reversed(obj)


@handles(operator.length_hint)
def _length_hint(s: Session, obj: Any, default: Any = 0, /) -> Any:
    """An iterator is asked as it is: what native code drives in its place has no hint."""
    kind = kind_of(obj)
    if kind.python or not hasattr(type(obj), "__next__"):
        return s.pure(operator.length_hint, (obj, default), {})
    if type(obj) is Lazy and hasattr(obj.cls, "__length_hint__"):
        kind.refuse(obj, ".__length_hint__()")
    return operator.length_hint(obj, s.known(default))
