"""The CPU runtime: emitted C++ and a Signature -> a loaded, callable entry.

path = build_shared({"graph.cpp": source}).result()  # compiled, or found in the cache
run = load(path).runner("entry", signature)         # run(inputs: list) -> list of arrays
"""

from __future__ import annotations

import _ctypes
import ctypes
import functools
import operator
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from codegen.runtime.artifact import (
    Array,
    CheckFailed,
    Exchange,
    Host,
    Signature,
    Spec,
    between,
    failure,
)
from codegen.targets.cpp.runtime import support
from codegen.targets.cpp.runtime.arena import Arena, arena, renew
from codegen.targets.cpp.runtime.exchange import Exchanges
from codegen.targets.cpp.runtime.sizing import MOST, Plans, Sizing
from codegen.targets.cpp.runtime.support import (
    build_shared,
    isa_flags,
    prefetch,
)
from eager.base.recorder import Work

__all__ = [
    "Module", "Runner", "build_shared", "isa_flags", "load", "prefetch",
]  # fmt: skip

INDEX_ERROR: Final = 1  # jc::fail's code
BUSY, NOT_ARRAY = -2, -3  # jitcap_call's codes
HostFunction = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_long, ctypes.POINTER(ctypes.c_void_p))


class PlanStruct(ctypes.Structure):
    """JcPlan of jitcap_call.h."""

    _fields_ = (
        ("entry", ctypes.c_void_p),
        ("arena", ctypes.c_void_p),
        ("kinds", ctypes.c_char_p),
        ("inputs", ctypes.c_long),
        ("outputs", ctypes.c_long),
        ("data_offset", ctypes.c_long),
        ("type_offset", ctypes.c_long),
        ("release_gil", ctypes.c_long),
        ("array_type", ctypes.c_void_p),
        ("buffers", ctypes.c_void_p),
        ("scalars", ctypes.c_void_p),
        ("clocks", ctypes.c_void_p),
    )


class MethodDef(ctypes.Structure):
    """PyMethodDef of the stable ABI."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_FASTCALL: Final = 0x80
_new_function = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
)(("PyCFunction_NewEx", ctypes.pythonapi))
_keep_for_ever = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))


@functools.cache
def _layout() -> tuple[int, int]:
    """Offsets of the data pointer and of the type in an ndarray object. Raises RuntimeError if they
    are not found."""
    probes = [np.empty(n, np.uint8) for n in (1, 100, 10000)]
    data = _offset_of(probes, [p.ctypes.data for p in probes])
    kind = _offset_of(probes, [id(np.ndarray)] * len(probes))
    if data is None or kind is None:
        raise RuntimeError(
            f"cannot find the data pointer inside NumPy {np.__version__} arrays; compiled code "
            "cannot be called. Use backend='python' and report this."
        )
    return data, kind


def _offset_of(objects: Sequence[Any], pointers: Sequence[int]) -> int | None:
    """The first offset at which each of the objects holds its pointer."""
    for offset in range(0, 64, 8):
        if [ctypes.c_void_p.from_address(id(x) + offset).value for x in objects] == list(pointers):
            return offset
    return None


class Module:
    """A loaded shared object of compiled kernels; unloaded when nothing refers to it any more. Who
    calls it does, and the team's members are back in code of their own when a call ends."""

    def __init__(self, path: Path) -> None:
        self.api = support.api()
        self.path = path
        self.library = ctypes.PyDLL(str(path))  # keeps the GIL: jitcap_call releases it if it pays
        weakref.finalize(self, _ctypes.dlclose, self.library._handle).atexit = False
        self.library.jitcap_init(ctypes.byref(self.api))
        support.provide_team()
        for symbol, ctype in support.USES_PRODUCT.items():
            if hasattr(self.library, symbol):
                support.provide_product(ctype)
        entry = support.address_of(self.library, "jitcap_call")
        self._call = MethodDef(b"jitcap_call", entry, _FASTCALL)
        _keep_for_ever(self._call)  # a builtin reads its own when it is freed, also at exit

    def call_of(self, plan: PlanStruct) -> Callable[[list[Any], list[Array]], int]:
        """The function (inputs, outputs) -> code that runs what `plan` says."""
        made: Callable[[list[Any], list[Array]], int] = _new_function(
            ctypes.addressof(self._call), ctypes.addressof(plan), None
        )
        return made

    def runner(self, name: str, signature: Signature) -> Runner:
        """The entry called `name`. Raises AttributeError if the object has none."""
        return Runner(self, name, signature)


RUNNERS: Final[weakref.WeakSet[Runner]] = weakref.WeakSet()
Works = Callable[[Mapping[str, int]], Sequence[Work]]  # the values of symbols -> parts by number
Clocked = tuple[Module, Signature, Works]  # a second build, and what one run of it does


def load(path: Path) -> Module:
    """Load a shared object made by `build_shared`. Raises OSError if the system cannot."""
    return Module(path)


class PerThread:
    """The call structure of one runner on one thread, and what must live as long as it."""

    def __init__(self, runner: Runner, arena: Arena, module: Module | None = None) -> None:
        """`module`: another build of the runner's program."""
        self.module = module or runner.module
        signature = runner.signature
        self.table = signature.kinds.count("t") + len(signature.outputs)
        first = self.table + bool(signature.blocks)
        self.arena = arena
        self.failure: BaseException | None = None
        self.buffers = (ctypes.c_void_p * max(1, first + len(signature.hosts)))()
        self.scalars = (ctypes.c_double * max(1, len(signature.kinds)))()
        self.sizing: Sizing | None = None  # of the last call
        records = signature.exchanges
        self.exchanges = Exchanges(records, _wrap) if records else None
        self.hosts = [self._host(i, h) for i, h in enumerate(signature.hosts)]
        for i, function in enumerate(self.hosts):
            self.buffers[first + i] = ctypes.cast(function, ctypes.c_void_p).value
        self.plan = PlanStruct(
            entry=support.address_of(self.module.library, runner.name),
            arena=arena.address,
            kinds=signature.kinds.encode(),
            inputs=len(signature.kinds),
            outputs=len(signature.outputs),
            data_offset=_layout()[0],
            type_offset=_layout()[1],
            array_type=id(np.ndarray),
            buffers=ctypes.addressof(self.buffers),
            scalars=ctypes.addressof(self.scalars),
        )
        self.call = self.module.call_of(self.plan)

    def take(self, sizing: Sizing) -> None:
        """Make ready for calls at these sizes; not while the arena is in use by an outer call."""
        if self.arena.struct.busy:
            return
        self.sizing = sizing
        self.arena.reserve(sizing.arena_bytes)
        self.plan.release_gil = sizing.release_gil
        if len(sizing.offsets):
            self.buffers[self.table] = sizing.offsets.ctypes.data

    def _host(self, number: int, what: Host | Exchange) -> Any:
        """A C function around a Python kernel; an exception is kept and re-raised by the runner.
        Or the address of the record of a collective."""
        if isinstance(what, Exchange):
            assert self.exchanges is not None
            return self.exchanges.address_of(what)

        def call(_: int, pointers: Any) -> int:
            try:
                assert self.sizing is not None
                host = self.sizing.hosts[number]
                assert isinstance(host, Host)
                count = len(host.inputs)
                arrays = [
                    _wrap(pointers[i], spec) for i, spec in enumerate(host.inputs + host.outputs)
                ]
                results = host.call(*arrays[:count])
                results = results if isinstance(results, (tuple, list)) else (results,)
                for target, value in zip(arrays[count:], results, strict=True):
                    target[...] = value
            except BaseException as error:  # noqa: BLE001 - raised again after the C frame
                self.failure = error
                return 0
            return 1  # not what ctypes gives for an exception that it cannot raise

        return HostFunction(call)


_abandoned: Final[list[Any]] = []  # calls whose memory other ranks may still write to


def _abandon(state: PerThread, inputs: list[Any], outputs: list[Array]) -> None:
    """Leave the memory of a run that failed alone, where other ranks may still write to it."""
    if state.exchanges is not None and state.exchanges.is_busy():
        _abandoned.append((state, inputs, outputs))
        renew()
        for runner in tuple(RUNNERS):  # they have the old arena
            runner.forget_states()


def _attempt(state: PerThread, inputs: list[Any], outputs: list[Array]) -> int:
    """The code of a run. Raises what a signal's handler raises while it waits for other ranks."""
    try:
        return state.call(inputs, outputs)
    except BaseException:
        _abandon(state, inputs, outputs)
        raise


def _wrap(address: int | None, spec: Spec) -> Array:
    """An array over memory that the compiled graph owns; valid during the host call only."""
    if spec.nbytes == 0 or address is None:
        return np.empty(spec.shape, spec.dtype)
    raw = (ctypes.c_char * spec.nbytes).from_address(address)
    return np.ndarray(spec.shape, spec.dtype, memoryview(raw))


class Runner:
    """Calls one compiled entry. Thread-safe: every thread has its own call structure and arena.

    `clocked` makes a second build of the program, with clocks around its parts, for profiles; None
    where the program is not at hand."""

    clocked: Callable[[], Clocked] | None = None

    def __init__(self, module: Module, name: str, signature: Signature) -> None:
        self.module = module
        self.name = name
        self.signature = signature
        positions = [position for _, position in signature.symbols]
        self._values = operator.itemgetter(*positions) if positions else None
        self._sizings: dict[Any, Sizing] = {}
        self._plans = Plans(signature)
        self._static = None if positions else Sizing.of(signature)  # the one for all calls
        getattr(module.library, name)  # raises now, not at the first call
        self._local = threading.local()
        RUNNERS.add(self)

    def forget_states(self) -> None:
        """Every thread makes its call structure anew at its next call."""
        self._local = threading.local()

    def new_state(self, arena: Arena) -> PerThread:
        """A call structure for this thread. (While a profile runs there is another function in this
        place: `clocked.py`.)"""
        return PerThread(self, arena)

    def __call__(self, inputs: list[Any]) -> list[Array]:
        """Run on `inputs`. Raises CheckFailed if a check of the program fails or a host kernel
        raises: no input is written then."""
        try:
            state = self._local.state
        except AttributeError:
            state = self._local.state = self.new_state(arena())
        sizing = state.sizing  # of the last call
        if self._values is not None:
            values = self._values(inputs)
            if sizing is None or values != sizing.values:
                sizing = self._sizing(values)
                state.take(sizing)
        elif sizing is None:
            sizing = self._static
            state.take(sizing)
        outputs = [make() for make in sizing.make]
        if state.exchanges is not None and not state.arena.struct.busy:
            state.exchanges.prepare(sizing.exchanges)
        try:
            code = state.call(inputs, outputs)
        except BaseException:
            _abandon(state, inputs, outputs)
            raise
        if code:
            self._failed(code, state, sizing, inputs, outputs)
        return outputs

    def _sizing(self, values: Any) -> Sizing:
        """The sizing for these values of the symbols: a tuple, or the value of the only one."""
        found = self._sizings.get(values)
        if found is None:
            if len(self._sizings) >= MOST:
                self._sizings.clear()
            numbers = values if type(values) is tuple else (values,)
            places = self._plans.of(tuple(map(int, numbers)))
            found = Sizing.of(self.signature, numbers, places, values)
            self._sizings[values] = found
        return found

    def _failed(
        self,
        code: int,
        state: PerThread,
        sizing: Sizing,
        inputs: list[Any],
        outputs: list[Array],
    ) -> None:
        if code == BUSY:  # called from inside a compiled call on this thread: use a second arena
            state = self.new_state(Arena())
            state.take(sizing)
            if state.exchanges is not None:
                state.exchanges.prepare(sizing.exchanges)
            code = _attempt(state, inputs, outputs)
            if not code:
                return
        if code == NOT_ARRAY:
            plain = self._as_arrays(inputs)
            if not _attempt(state, plain, outputs):
                return
        # No local holds it: with its traceback it would keep this frame, and the caller's values.
        raise self._failure(code, state, inputs, outputs)

    def _failure(
        self, code: int, state: PerThread, inputs: list[Any], outputs: list[Array]
    ) -> BaseException:
        """The exception of a failed run, behind whose collectives the memory is left alone."""
        error, exchanges = self._error(code, state), state.exchanges
        if exchanges is None:
            return error
        failed, half_done = exchanges.error(), exchanges.is_half_done()
        _abandon(state, inputs, outputs)
        if failed is not None:
            return failed
        if half_done:
            told = between(error)
            told.__cause__ = error
            return told
        if isinstance(error, CheckFailed):  # the function will run plainly
            exchanges.give_up()
        return error

    def _error(self, code: int, state: PerThread) -> BaseException:
        """The exception of a failed run."""
        if state.failure is not None:
            error, state.failure = state.failure, None
            return error
        record = state.arena.error()
        sites = self.signature.sites
        where = sites[record.site] if record.site < len(sites) else "an unknown place"
        if record.code == INDEX_ERROR:
            return failure(where, int(record.value), int(record.bound))
        return RuntimeError(f"compiled entry {self.name} failed with code {code} (at {where})")

    def _as_arrays(self, inputs: list[Any]) -> list[Any]:
        """The inputs with subclasses of ndarray as plain arrays. Raises TypeError for others."""
        plain = list(inputs)
        for i, kind in enumerate(self.signature.kinds):
            if kind == "t":
                if not isinstance(inputs[i], np.ndarray):
                    raise TypeError(
                        f"input {i} of {self.name} must be a NumPy array, got {type(inputs[i])}"
                    )
                plain[i] = inputs[i].view(np.ndarray)
        return plain
