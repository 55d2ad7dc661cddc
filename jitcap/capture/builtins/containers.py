"""Capture: dictionaries made by a call. `dict`, `defaultdict` -> handler(session, ...).

Registered beside those of `objects.py`, for the same table. Native code would be lent the
instances among the values, which it only stores.
"""

from __future__ import annotations

import collections
import operator
from typing import Any

from jitcap.capture.kinds.base import HANDLERS, Session, handles, kind_of
from jitcap.capture.kinds.constants import sequence_of
from jitcap.capture.kinds.iterators import Lazy
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


@handles(operator.length_hint)
def _length_hint(s: Session, obj: Any, default: Any = 0, /) -> Any:
    """An iterator is asked as it is: what native code drives in its place has no hint."""
    kind = kind_of(obj)
    if kind.python or not hasattr(type(obj), "__next__"):
        return s.pure(operator.length_hint, (obj, default), {})
    if type(obj) is Lazy and hasattr(obj.cls, "__length_hint__"):
        kind.refuse(obj, ".__length_hint__()")
    return operator.length_hint(obj, s.known(default))
