"""Capture, step 2: runs normalised bytecode on captured values. frame -> return value.

The loop knows control flow only: the program counter, the value stack, the exception table,
generators. What an operation *means* (a call, an attribute, a branch on a value) is asked of the
world: `capture.session` reads with guards and traces; `capture.concrete` simply does it.
"""

from __future__ import annotations

import builtins
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import CellType, CodeType
from typing import Any, Final, Protocol

from jitcap.base.breaks import Break
from jitcap.base.call_policy import shown
from jitcap.capture.bytecode import VERSION, Bytecode, Instruction, decode


class Null:
    """Marker that `PUSH_NULL` pushes, and that an unbound local holds."""

    def __repr__(self) -> str:
        return "<NULL>"


NULL: Final = Null()
CO_GENERATOR: Final = 0x20
CO_ASYNC: Final = 0x80 | 0x200


class World(Protocol):
    """Operations that opcodes call. Every value on a frame's stack is a value of this world."""

    def binary(self, op: str, a: Any, b: Any) -> Any: ...
    def unary(self, op: str, a: Any) -> Any: ...
    def compare(self, op: str, a: Any, b: Any) -> Any: ...
    def contains(self, item: Any, container: Any) -> Any: ...
    def same(self, a: Any, b: Any) -> bool: ...
    def truth(self, a: Any) -> bool: ...
    def as_bool(self, a: Any) -> Any: ...
    def negation(self, a: Any) -> Any: ...
    def undecided(self, value: Any) -> bool: ...
    def branch(self, frame: Frame, value: Any, starts: Any) -> Any: ...
    def extreme(self, frame: Frame, fn: Any, args: tuple[Any, ...]) -> Any: ...
    def getattr(self, obj: Any, name: str) -> Any: ...
    def method(self, obj: Any, name: str) -> Any: ...
    def setattr(self, obj: Any, name: str, value: Any) -> None: ...
    def delattr(self, obj: Any, name: str) -> None: ...
    def getitem(self, obj: Any, key: Any) -> Any: ...
    def setitem(self, obj: Any, key: Any, value: Any) -> None: ...
    def delitem(self, obj: Any, key: Any) -> None: ...
    def iter(self, obj: Any) -> Any: ...
    def next(self, iterator: Any) -> Any: ...
    def roll(self, frame: Frame, end: int) -> Any: ...
    def turn(self, frame: Frame) -> None: ...
    def call(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def load_global(self, frame: Frame, name: str | None) -> Any: ...
    def load_builtin(self, frame: Frame, name: str) -> Any: ...
    def store_global(self, frame: Frame, name: str, value: Any) -> None: ...
    def delete_global(self, frame: Frame, name: str) -> None: ...
    def load_cell(self, cell: CellType) -> Any: ...
    def store_cell(self, cell: CellType, value: Any) -> None: ...
    def format(self, value: Any, spec: Any) -> Any: ...
    def convert(self, value: Any, kind: int) -> Any: ...
    def join(self, parts: list[Any]) -> Any: ...
    def list_of(self, iterable: Any) -> list[Any]: ...
    def super_getattr(self, cls: Any, obj: Any, name: str) -> Any: ...
    def import_name(self, frame: Frame, name: str, fromlist: Any, level: int) -> Any: ...
    def import_from(self, module: Any, name: str) -> Any: ...
    def place(self, frame: Frame, refusal: BaseException) -> None: ...
    def settle(self, value: Any) -> None: ...
    def complete(self, value: Any) -> None: ...
    def writing(self, obj: Any) -> None: ...
    def dropping(self, value: Any) -> None: ...
    def hashing(self, values: Iterable[Any]) -> None: ...
    def entering(self, values: Iterable[Any]) -> None: ...
    def changing(self, fn: Any) -> None: ...
    def raising(self, error: BaseException) -> None: ...
    def matches(self, error: BaseException, kinds: Any) -> bool: ...
    def catching(self, error: BaseException) -> None: ...
    def caught(self, error: BaseException) -> None: ...
    def type_flags(self, value: Any) -> int: ...
    def made_inside(self, value: Any) -> Any: ...


class Frame:
    """One activation: like CPython's, locals and cells share one table of slots, by name."""

    __slots__ = (
        "asked", "bytecode", "count", "fast", "function", "globals", "handled", "library", "limit",
        "namespace", "pc", "rounds", "stack",
    )  # fmt: skip

    def __init__(self, code: CodeType, globals: dict[str, Any], function: Any = None) -> None:
        self.bytecode: Bytecode = decode(code)
        self.fast: dict[str, Any] = {}
        self.globals = globals
        self.function = function
        self.library: bool | None = None  # whether a library's function runs, once asked
        self.rounds: dict[int, Any] = {}  # what is known of its loops, by their heads: see `memo`
        self.namespace: dict[str, Any] | None = None  # of a class body
        self.asked: dict[str, Any] | None = None  # what `locals()` gave
        self.stack: list[Any] = []
        self.pc = 0
        self.count = 0  # instructions completed, in a run that has a limit
        self.limit: int | None = None
        self.handled: list[BaseException | None] = [None]

    @property
    def code(self) -> CodeType:
        return self.bytecode.code

    @property
    def builtins(self) -> dict[str, Any]:
        """The names that are neither local nor global: those that the function was made with."""
        found: dict[str, Any] = self.function.__builtins__
        return found

    @property
    def instruction(self) -> Instruction:
        """The one being executed (the program counter is already past it)."""
        return self.bytecode.instructions[max(self.pc - 1, 0)]

    def names(self, load_cell: Callable[[CellType], Any]) -> dict[str, Any]:
        """The locals that are bound. `load_cell` raises ValueError for an empty cell."""
        if self.namespace is not None:
            return self.namespace
        cells = {*self.code.co_cellvars, *self.code.co_freevars}
        bound = {}
        for name, value in self.fast.items():
            with suppress(ValueError):
                if value is not NULL:
                    # from 3.12 on an inlined comprehension makes its cell when it begins
                    in_cell = name in cells and type(value) is CellType
                    bound[name] = load_cell(value) if in_cell else value
        return bound

    def snapshot(self, load_cell: Callable[[CellType], Any]) -> dict[str, Any]:
        """The result of `locals()`: until 3.12 one dictionary, brought up to date."""
        now = self.names(load_cell)
        if now is self.namespace or VERSION >= (3, 13):
            return now
        if self.asked is None:
            self.asked = {}
        code = self.code
        own = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
        for name in self.asked.keys() & own - now.keys():
            del self.asked[name]
        self.asked.update(now)
        return self.asked

    def leave(self) -> None:
        """Let go of the locals, in their order, though a refused capture may hold the frame."""
        fast, code = self.fast, self.code
        self.fast = {}
        for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
            fast.pop(name, None)

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        return self.stack.pop()

    def popn(self, n: int) -> list[Any]:
        """The n topmost values, the deepest first."""
        if n == 0:
            return []
        values = self.stack[-n:]
        del self.stack[-n:]
        return values


class Done:
    """A handler's answer that ends `run`: a return, or (suspended) a yield."""

    __slots__ = ("suspended", "value")

    def __init__(self, value: Any, suspended: bool = False) -> None:
        self.value = value
        self.suspended = suspended


Opcode = Callable[["Interpreter", Frame, Instruction], Done | None]


StepOver = Callable[[Frame, Instruction, tuple[Any, ...], BaseException], bool]


class Interpreter:
    """Executes frames. `frames` is the stack of active ones, for error messages and `Where`."""

    def __init__(self, world: World, opcodes: dict[str, Opcode]) -> None:
        self.world = world
        self.opcodes = opcodes
        self.frames: list[Frame] = []
        self.passing: BaseException | None = None  # on its way out of frames
        self.outer: BaseException | None = None  # that the caller of these frames is handling
        self.over = False  # whether nothing is executed any more
        self.dropped: Break | None = None  # what went wrong when a generator was dropped
        self.generators: weakref.WeakSet[Generator] = weakref.WeakSet()
        self.generating: Callable[[], object] = bool  # called when one is made
        self.step_over: StepOver | None = None  # of a search for all refusals
        self.passthrough: tuple[type[BaseException], ...] = (Break,)
        # What the program may handle. An interrupt of a capture is none of it.
        self.catches: tuple[type[BaseException], ...] = (Exception, GeneratorExit)

    def run(self, frame: Frame, limit: int | None = None) -> Any:  # Done | None: see `limit`
        """Run until the frame returns or yields (a Done), or `limit` instructions are done (None).

        What it raises and does not handle is raised."""
        self.frames.append(frame)
        frame.limit = limit
        try:
            return self._steps(frame, limit)
        finally:
            self.frames.pop()

    def step(self, frame: Frame) -> Done | None:
        """Execute one instruction, or go to the handler of what it raises."""
        return self._steps(frame, None, once=True)

    def _steps(self, frame: Frame, limit: int | None, *, once: bool = False) -> Done | None:
        """The loop over instructions."""
        instructions, opcodes = frame.bytecode.instructions, self.opcodes
        while frame.count != limit:
            ins = instructions[frame.pc]
            frame.pc += 1
            before = () if self.step_over is None else (*frame.stack,)
            try:
                done = opcodes[ins.op](self, frame, ins)
            except self.passthrough as refusal:
                done = None
                self.world.place(frame, refusal)
                if self.step_over is None or not self.step_over(frame, ins, before, refusal):
                    raise
            except self.catches as error:
                done = None
                if self.step_over is None or not self.step_over(frame, ins, before, error):
                    self.unwind(frame, error)
            if done is not None or once:
                return done
            frame.count += 1
        return None

    def unwind(self, frame: Frame, error: BaseException) -> None:
        """Continue at the handler of the current instruction, or raise `error` to the caller."""
        handler = frame.bytecode.handler_at(frame.pc - 1)
        self.world.place(frame, error)
        if frame.instruction.op not in GOES_ON and error is not self.passing:
            self.chain(error, self.handled())
        self.passing = error if handler is None else None
        if handler is None:
            frame.stack.clear()  # a generator there ends now
            try:
                raise error
            finally:
                del error  # its traceback holds this frame: no cycle, so that locals die on time
        try:
            self.world.catching(error)
            self._shorten(frame, handler.depth)
        except self.passthrough as refusal:
            self.world.place(frame, refusal)
            raise
        self.world.caught(error)
        if handler.lasti:
            frame.push(frame.pc - 1)
        frame.push(error)
        frame.pc = handler.target
        del error  # as above

    def _shorten(self, frame: Frame, depth: int) -> None:
        """Let go of what lies on the stack from `depth` on; no frame of a traceback has a name for
        it, as `unwind` would."""
        for value in frame.stack[depth:]:
            self.world.dropping(value)
        del frame.stack[depth:]

    def handled(self) -> BaseException | None:
        """The exception that the program is handling."""
        frames = reversed(self.frames)
        return next((f.handled[-1] for f in frames if f.handled[-1] is not None), self.outer)

    def chain(self, error: BaseException, context: BaseException | None) -> None:
        """An exception that is raised while another is handled has that as its context; as in
        CPython, no chain becomes a cycle."""
        if context is None or context is error:
            return
        link, slow, moves = context, context, False
        while (following := link.__context__) is not None:
            if following is error:
                link.__context__ = None
                break
            link = following
            if link is slow:  # a cycle that the program made
                break
            slow, moves = (slow.__context__ or slow) if moves else slow, not moves
        error.__context__ = context

    def execute(self, frame: Frame) -> Any:
        """Run a function's frame: its return value, or the generator that it makes."""
        flags = frame.code.co_flags
        if flags & CO_ASYNC:
            raise Break("async", f"{frame.code.co_qualname} is asynchronous")
        if flags & CO_GENERATOR:
            return Generator(self, frame)
        self.frames.append(frame)
        try:
            done = self._steps(frame, None)
        finally:
            self.frames.pop()
        assert done is not None  # there is no limit
        return done.value


def unsupported(vm: Interpreter, frame: Frame, ins: Instruction) -> Done | None:
    """Stands for every operation that has no function in `opcodes`."""
    raise Break("opcode", f"the operation {ins.op} is not captured")


class OpcodeTable(dict[str, Opcode]):
    """Opcodes by name; an unknown one answers with `unsupported`."""

    def __missing__(self, key: str) -> Opcode:
        return unsupported


# They go on with an exception as it is: no new context, no line of the traceback.
GOES_ON: Final = frozenset({"RERAISE", "CLEANUP_THROW"})
_STOPPED: Final = "generator raised StopIteration"
_OF_THREE: Final = (
    "the (type, exc, tb) signature of throw() is deprecated, use the single-arg signature instead."
)


_TESTS_ERRORS: Final = frozenset(
    "PUSH_EXC_INFO BUILD_TUPLE CHECK_EXC_MATCH POP_JUMP_IF_FALSE COPY POP_EXCEPT".split()
)


class Generator:
    """A generator whose body we interpret. Python code that iterates over it re-enters here."""

    def __repr__(self) -> str:
        raise Break("data dependent", "the address of a generator is shown")

    def __init__(self, vm: Interpreter, frame: Frame) -> None:
        self.vm = vm
        self.frame: Frame | None = frame
        self.started = False
        self.running = False
        vm.generators.add(self)
        vm.generating()
        frame.push(None)  # what the first resumption "receives"; the body pops it

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        frame = self._ready()
        if self.started:
            frame.push(value)
        elif value is not None:
            raise TypeError("can't send non-None value to a just-started generator")
        return self._resume(frame)

    def _ready(self) -> Frame:
        self.vm.world.writing(self)
        if self.running:
            where = self.frame and self.frame.globals.get("__name__", "")
            if str(where).startswith("jitcap."):  # C's own may be
                raise Break("iteration", "an iterator is asked for a value by what it asks for one")
            raise ValueError("generator already executing")
        if self.frame is None:
            raise StopIteration
        return self.frame

    def _resume(self, frame: Frame) -> Any:
        self.started = self.running = True
        try:
            done = self.vm.run(frame)
        except StopIteration as error:
            self.frame = None
            raise RuntimeError(_STOPPED) from error
        except BaseException:
            self.frame = None
            raise
        finally:
            self.running = False
        if done.suspended:
            return done.value
        self.frame = None
        raise StopIteration(*(() if done.value is None else (done.value,)))

    def in_block(self) -> bool:
        """True if the generator is suspended inside a `try` or `with` of which something runs when
        it is dropped: not of `except IndexError:`, as in `collections.abc.Sequence.__iter__`."""
        if self.frame is None or not self.started or self.running:
            return False
        code, at = self.frame.bytecode, self.frame.pc - 1
        while (handler := code.handler_at(at)) is not None:
            at = handler.target
            while (row := code.instructions[at]).op != "RERAISE":
                if row.op == "STOPITERATION_ERROR":  # from 3.12 on one covers the whole body
                    return False
                if row.op != "LOAD_GLOBAL" and row.op not in _TESTS_ERRORS:
                    return True
                if row.op == "LOAD_GLOBAL" and not self._names_errors(self.frame, row.arg):
                    return True
                at = row.target if row.target >= 0 else at + 1
        return False

    @staticmethod
    def _names_errors(frame: Frame, name: Any) -> bool:
        """True if a global is a class of exceptions that GeneratorExit is none of."""
        found = None if name in frame.globals else getattr(builtins, str(name), None)
        return isinstance(found, type) and issubclass(found, Exception)

    def __del__(self) -> None:
        """Dropped before its end: its `finally` and `with` blocks are left now, as in CPython."""
        if self.vm.over or not self.in_block():
            return
        try:
            self.close()
        except Break as refusal:
            refusal.__traceback__ = refusal.__context__ = None  # no cycle: see `unwind`
            self.vm.dropped = refusal
        except Exception as error:  # noqa: BLE001 - CPython prints it
            self.vm.dropped = Break("generator", f"{type(error).__name__} in one that is dropped")

    def throw(self, error: Any, *more: Any) -> Any:
        """Raise `error` where the generator is suspended, or in the one that it delegates to."""
        if more and VERSION >= (3, 12):
            self.vm.world.call(warnings.warn, (_OF_THREE, DeprecationWarning), {})
        if self.running:
            raise ValueError("generator already executing")
        self.vm.world.writing(self)
        frame = self.frame
        send = self._delegation(frame) if frame is not None and self.started else None
        try:
            if frame is not None and send is not None:
                suspended, given = self._pass_on(send, frame, (error, *more))
                if suspended:
                    return given
            else:
                self._raise(frame if self.started else None, self._exception(error, *more))
        except StopIteration as stop:
            if frame is None or VERSION >= (3, 12):  # later versions: by STOPITERATION_ERROR
                raise
            raise RuntimeError(_STOPPED) from stop
        finally:
            del error, more  # see `unwind`
        return self._resume(self._ready())

    def _exception(self, error: Any, value: Any = None, tb: Any = None) -> BaseException:
        """Exception that `throw(error, value, tb)` raises. Raises TypeError, in the name of the
        caller, where that is no exception; what making it raises is raised in the generator."""
        if isinstance(error, BaseException):
            if value is not None:
                raise TypeError("instance exception may not have a separate value")
            return error
        if not isinstance(error, type) or not issubclass(error, BaseException):
            what = "exceptions must be classes or instances deriving from BaseException"
            raise TypeError(f"{what}, not {shown(type(error))}")
        if isinstance(value, error):
            return value
        given = value if isinstance(value, tuple) else () if value is None else (value,)
        try:
            made = self.vm.world.call(error, given, {})
            if not isinstance(made, BaseException):
                what = "should have returned an instance of BaseException"
                text = self.vm.world.convert(error, 2)
                raise TypeError(f"calling {text} {what}, not {shown(type(made))}")
        except self.vm.passthrough:
            raise
        except BaseException as raised:  # noqa: BLE001 - the program may handle it
            return raised
        return made

    def _delegation(self, frame: Frame) -> Instruction | None:
        """The SEND of the `yield from` in which it is suspended."""
        code = frame.bytecode.instructions
        jump = code[frame.pc] if frame.pc < len(code) else None
        if jump is None or not jump.op.startswith("JUMP") or code[jump.target].op != "SEND":
            return None
        return code[jump.target]

    def _pass_on(self, send: Instruction, frame: Frame, given: tuple[Any, ...]) -> tuple[bool, Any]:
        """Give what is thrown to the iterator of a `yield from`: (True, what it yields), or, when
        the generator itself goes on, (False, None)."""
        world, inner = self.vm.world, frame.stack[-1]
        kind = given[0] if isinstance(given[0], type) else type(given[0])
        ends = issubclass(kind, GeneratorExit)
        error: BaseException | None = None
        self.running = True
        try:
            method = world.getattr(inner, "close" if ends else "throw")
            if not ends:
                return True, world.call(method, given, {})
            world.call(method, (), {})
        except self.vm.passthrough:
            raise
        except StopIteration as stop:
            if VERSION < (3, 12):
                frame.pop()  # later versions leave it to END_SEND
            frame.push(stop.value)
            frame.pc = send.target
            return False, None
        except AttributeError as missing:
            error = None if missing.obj is inner else missing
        except BaseException as raised:  # noqa: BLE001 - the program may handle it
            error = raised
        finally:
            self.running = False
        self._raise(frame, self._exception(*given) if error is None else error)
        return False, None

    def _raise(self, frame: Frame | None, error: BaseException) -> None:
        """Raise `error` from the instruction where the generator is suspended. Its context is the
        exception that the generator handles, not one that its caller handles. No frame: it is
        raised in the caller."""
        vm = self.vm
        if frame is None:
            self.frame, vm.passing = None, error
            raise error
        if frame.handled[-1] is not None:
            vm.chain(error, frame.handled[-1])
        vm.frames.append(frame)
        vm.passing = error
        try:
            vm.unwind(frame, error)
        except BaseException:
            self.frame = None
            raise
        finally:
            vm.frames.pop()
            del error  # see `unwind`

    def close(self) -> None:
        """Raise GeneratorExit where it is suspended and expect it to end."""
        self.vm.world.writing(self)
        if self.frame is None or not self.started:
            self.frame = None
            return
        end = GeneratorExit()
        self.vm.chain(end, self.vm.handled())
        try:
            self.throw(end)
        except (GeneratorExit, StopIteration):
            self.frame = None
            return
        raise RuntimeError("generator ignored GeneratorExit")
