"""Capture: the state of one capture, which all its parts read and add to, and the door of guards.

Nothing here asks what a value is: that is the kinds' to say, and a `Session` has it besides.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any, Concatenate, ParamSpec

from jitcap.base.origin import Computed, MembersOf, Origin
from jitcap.base.terms import Term
from jitcap.capture.inputs import Outside, Shadow
from jitcap.guards.guard import Guard, Guards, Holds

P = ParamSpec("P")


class State:
    """The tables of one capture. What is only declared belongs to a part of its own."""

    guards: Guards
    outside: Outside
    tracer: Any
    vm: Any
    sizes: Any
    line: Callable[[], str]
    where: Callable[[], Any]
    log: Any  # of writes, while somebody asks for them
    ties: Any  # what results of branches could be the same as
    search: Any  # for all refusals, not for a graph
    layers: Any  # calls of these that are alike: see `jitcap.capture.memo.calls`
    paths: Any  # of modules
    drawn: dict[Any, Any]  # graph input -> the number that the host draws for it
    host_calls: list[Any]  # put off until the graph has run
    unsafe: frozenset[str] = frozenset()  # lines where a check failed as a version ran
    known: Callable[[Any], Any]  # a run-time number as its value, guarded

    def __init__(self) -> None:
        self.made: dict[int, Any] = {}  # classes and functions that the program made
        self.idle: dict[int, Any] = {}  # objects that no code of the program names
        self.reached: dict[int, FunctionType] = {}  # functions that were interpreted
        self.inputs: dict[Any, Any] = {}  # graph input -> the shadow of its tensor
        self.owners: dict[int, Any] = {}  # id of traced memory -> the shadow whose it is
        self.cells: dict[tuple[int, int], CellType] = {}  # (function, index) -> twin
        self.written: dict[tuple[int, Any], Any] = {}  # (id of a twin, key) -> the last write
        self.arrays: dict[int, Any] = {}  # by id of an OutsideArray: the input that shares it
        self.hashed: dict[int, Shadow] = {}  # objects that native code told apart by identity
        self.dictionaries: dict[int, Any] = {}  # those of objects made inside, by id: the object
        self.namespaces: dict[int, MembersOf] = {}  # of the classes that were looked into
        self.class_reads: dict[tuple[int, str], Any] = {}
        self.global_reads: dict[tuple[int, str, Any], Any] = {}  # the same of a library's modules
        self.libraries: dict[int, tuple[Any, bool]] = {}  # globals, by id: whether a library's
        self.lookups: dict[tuple[int, str], Any] = {}  # the same, through the order of resolution
        self.unwatched: set[int] = set()  # classes of tensors, by id, that run no code at a look
        self.acting: dict[int, bool] = {}  # classes, by id: see `kinds.classes.acts_by_itself`
        self.defaulted: set[int] = set()  # native functions whose defaults are guarded
        self.defaults: dict[int, Origin] = {}  # where those of interpreted ones lie, by function
        self.special_names: dict[type, frozenset[str]] = {}  # those that are written in Python
        self.lent_classes: dict[type, type] = {}  # of the stand-ins for instances, by their class
        self.lent: dict[int, Any] = {}  # by id of an instance: its stand-in for native code
        # Containers, their copies in native code, and what they held by then.
        self.mirrors: list[tuple[Any, Any, list[Any]]] = []
        self.computed: dict[Any, Any] = {}  # numbers from outside, by how they are computed
        self.required: set[tuple[Any, int]] = set()  # of what the host calls: see `capture.host`
        self.counts: dict[int, list[Any]] = {}  # writes that only a run counts, by their memory
        self.rolls: list[Any] = []  # loops of which a step is recorded now: see `control.for_loops`
        self.turns: dict[tuple[Any, int], int] = {}  # of loops: see `control.concrete_loops`
        self.tried: dict[int, tuple[Any, collections.Counter[str]]] = {}  # by iterator: see `tries`
        self.inner: dict[int, Any] = {}  # values of steps of loops, by id, each with its loop
        self.rolled: list[str] = []  # what became of loops, for people
        self.answers: dict[Any, Any] = {}  # of caches that are looked through: see `kinds.caches`
        self.bound_to = ""  # what the program saw that holds in this process only

    def tries(self, iterator: Any, what: str, most: int) -> int:
        """Number of tries that a loop has left, this one included, to be recorded as `what`."""
        _, counts = self.tried.setdefault(id(iterator), (iterator, collections.Counter()))
        counts[what] += 1
        return max(most + 1 - counts[what], 0)

    def guard(
        self, kind: Callable[Concatenate[Any, str, P], Guard], place: Any,
        *expected: P.args, **how: P.kwargs,
    ) -> None:  # fmt: skip
        """Make a guard of this kind about what is found at a place."""
        self.guards.add(kind(place, self.line(), *expected, **how))

    def guard_first(
        self, kind: Callable[Concatenate[Any, str, P], Guard], place: Any, *expected: P.args,
        **how: P.kwargs,
    ) -> None:  # fmt: skip
        """Make a guard as nobody made before: the place is read for the first time."""
        self.guards.append(kind(place, self.line(), *expected, **how))

    def guard_that(self, form: Term, *asked: Any, answer: bool = True) -> None:
        """Guard what a term over places, and then objects, answers: see `Computed`."""
        places = tuple(x for x in asked if isinstance(x, Origin))
        self.guard(Holds, Computed(places, form, asked[len(places) :]), answer)
