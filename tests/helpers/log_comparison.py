"""The write log of capture beside a comparison of all that the program can reach: an unlogged write
is an error, not a wrong answer.

`compared` is for the `conftest.py` of tests that capture much.
"""

import gc

import pytest

from eager.core.tensor import Tensor
from jitcap.base.walks import reach
from jitcap.capture.control.log import Region
from jitcap.capture.interpret import Frame
from jitcap.capture.kinds.contents import Snapshot, can_change, reachable
from jitcap.capture.kinds.tensors import TensorShadow


class Unlogged(BaseException):
    """Error of capture itself: the log differs from what the comparison finds. No `except` of a
    program catches it."""


class Heap:
    """All that a program can change, at one moment. `changes()` is asked later."""

    def __init__(self, session):
        self.session = session
        roots = [*session.vm.frames, *session.vm.generators, *session.made.values()]
        roots += [s.twin for s in self._shadows()]
        seen = [x for x in reach(roots, self._parts, id) if can_change(x)]
        counters = [x._storage for x in seen if isinstance(x, Tensor)]
        made = [x for x in seen if session.outside.shadow(x) is None]
        every = {id(x): x for x in (*self._shadows(), *made, *counters)}
        taken = {key: Snapshot.of(x, []) for key, x in every.items()}
        # Nothing is told by those that are never as they were.
        self.before = {key: x for key, x in taken.items() if not x.is_changed()}

    def changes(self):
        """The objects that were there and are different now."""
        yield from (x.obj for x in self.before.values() if x.is_changed())
        for shadow in self._shadows():  # those that were loaded since
            if id(shadow) not in self.before and _is_written(shadow):
                yield shadow

    def _shadows(self):
        return [part for s in self.session.outside.by_real.values() for part in s.parts()]

    def _parts(self, obj):
        return [x for x in reachable(self.session, obj) if id(x) not in self.session.idle]


def _is_written(shadow):
    fields = shadow.mark()
    if isinstance(shadow, TensorShadow):  # its counters are objects of their own
        return any(name != "_storage" for name, _ in fields)
    return fields != ()


def _compare(region):
    found = [record.obj for record in region.written()]
    sure, known = [*region.heap.changes()], region.heap.before
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
