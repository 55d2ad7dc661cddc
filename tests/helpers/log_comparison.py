"""The write log of capture beside a comparison of all that the program can reach: an unlogged write
is an error, not a wrong answer.

`compared` is for the `conftest.py` of tests that capture much.
"""

import gc

import pytest

from eager.core.tensor import Tensor
from jitcap.base.walks import reach
from jitcap.capture.control.contents import mark_of_part, reachable
from jitcap.capture.control.log import Region
from jitcap.capture.interpret import Frame
from jitcap.capture.kinds.tensors import TensorShadow


class Unlogged(BaseException):
    """Error of capture itself: the log differs from what the comparison finds. No `except` of a
    program catches it."""


class Heap:
    """All that a program can change, at one moment. `changes()` is asked later."""

    def __init__(self, session):
        self.session = session
        self.shadows = {id(s): (s, mark_of_part(s)) for s in self._shadows()}
        roots = [*session.vm.frames, *session.vm.generators, *session.made.values()]
        roots += [s.twin for s in self._shadows()]
        self.seen = {id(obj): obj for obj in reach(roots, self._parts, id)}
        marks = {key: self._mark(obj) for key, obj in self.seen.items()}
        self.marks = {key: mark for key, mark in marks.items() if mark is not None}
        tensors = [t for t in self.seen.values() if isinstance(t, Tensor)]
        self.counters = {id(t._storage): (t._storage, mark_of_part(t._storage)) for t in tensors}

    def changes(self):
        """The objects that were there and are different now."""
        for shadow in self._shadows():
            _, before = self.shadows.get(id(shadow), (shadow, ()))  # it was loaded since
            if mark_of_part(shadow) != before:
                yield shadow
        for key, before in self.marks.items():
            now = self._mark(self.seen[key])
            if now is not None and now != before:
                yield self.seen[key]
        for storage, before in self.counters.values():
            if mark_of_part(storage) != before:
                yield storage

    def known(self):
        return {*self.marks, *self.shadows, *self.counters}

    def _shadows(self):
        return [part for s in self.session.outside.by_real.values() for part in s.parts()]

    def _parts(self, obj):
        return [x for x in reachable(self.session, obj) if id(x) not in self.session.idle]

    def _mark(self, obj):
        """None for what cannot be changed, and for a twin: it has its shadow."""
        return None if self.session.outside.by_twin.get(id(obj)) else mark_of_part(obj)


def _compare(region):
    found = [record.obj for record in region.written()]
    sure, known = [*region.heap.changes()], region.heap.known()
    found_ids, sure_ids = {*map(id, found)}, {*map(id, sure)}

    def follows(x):
        """True for a frame that runs, for the place of an iterator in a container that has changed,
        and for a tensor whose hooks have."""
        if isinstance(x, Frame):
            return any(x is frame for frame in region.roots)
        held = gc.get_referents(x) if hasattr(type(x), "__next__") else []
        if isinstance(x, TensorShadow):
            held = [x.twin._hooks, x.twin._accumulate_hooks]
        return any(id(part) in found_ids for part in held)

    missed = [x for x in sure if id(x) not in found_ids and not follows(x)]
    more = [x for x in found if id(x) in known and id(x) not in sure_ids]
    if missed or more:
        lost, same = ([type(x).__qualname__ for x in each] for each in (missed, more))
        raise Unlogged(f"written without a record: {lost}; recorded, and the same: {same}")


@pytest.fixture(autouse=True, scope="module")
def compared():
    """Each region of each capture is compared."""
    begin, changed = Region.__init__, Region.changed

    def begun(self, session, *args):
        begin(self, session, *args)
        self.heap = Heap(session)

    def checked(self):
        _compare(self)
        return changed(self)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Region, "__init__", begun)
        patched.setattr(Region, "changed", checked)
        yield
