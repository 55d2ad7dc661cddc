"""Public API: `jit` and its companions. a function -> the same function, compiled when called.

`jit` changes nothing about what it decorates: a function comes back as a `Jitted` that looks like
it, a module comes back as itself (its `forward` is compiled), and `stance("eager")` turns all of it
off. Compiling happens at the first call with given guards: see `jitcap.entry`.
"""

from __future__ import annotations

import copy
import functools
import sys
import weakref
from collections.abc import Callable
from contextlib import ContextDecorator
from dataclasses import replace
from types import MethodType
from typing import Any, Final

from codegen import CheckFailed
from codegen.targets.cpp.runtime import arena
from eager import compiler
from eager.base.process.memory import POOL
from eager.base.tracebacks import trim
from eager.core.dispatch import current_tracer
from eager.core.tape import mode
from jitcap.base.breaks import Break
from jitcap.base.call_policy import name_of
from jitcap.base.diagnostics import Stats, announce, forget_announcements
from jitcap.base.later import BACKGROUND
from jitcap.base.stack import passed_over
from jitcap.compile.backends import known_backend, takes_symbols
from jitcap.entry import Entries
from jitcap.explain import Explanation, explanation_of
from jitcap.pipeline import compile_call, everything
from jitcap.versions.dynamism import Varying
from jitcap.versions.version import MISS, STANCE, Options

_OF_PYTORCH: Final = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
STANCES: Final = ("default", "eager", "fail_on_split", "fail_on_recompile")
_all: weakref.WeakSet[Jitted] | set[Jitted] = weakref.WeakSet()
_forced: Final[dict[str, Any]] = {}  # options, see `force`


@passed_over
class Jitted:
    """A function, compiled at its first call and again whenever its guards do not hold.

    `original` is the undecorated function, `stats` what happened so far, `reset()` forgets the
    compiled versions. As an attribute of a class it binds like a function.
    """

    def __init__(self, fn: Callable[..., Any], options: Options) -> None:
        functools.update_wrapper(self, fn)
        self.original = fn
        self.options = options
        self._entries = Entries(fn, options)
        _all.add(self)

    @property
    def stats(self) -> Stats:
        return self._entries.stats

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        try:
            stance = STANCE.get()
            if current_tracer.get() is not None or mode.levels or stance == "eager":
                return self.original(*args, **kwargs)
            entries = self._entries
            entries.stats.calls += 1
            for entry in entries.versions:
                try:
                    result = entry(args, kwargs)
                except CheckFailed as error:
                    failure = error.without_frames()
                    break
                if result is not MISS:
                    if entry is not entries.versions[0]:
                        entries.prefer(entry)
                    return result
            else:
                return entries.miss(args, kwargs, stance)
            return entries.discard(entry, failure, args, kwargs, stance)
        except Exception as error:
            trim(error)
            raise

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def wait(self) -> None:
        """Wait until nothing of this function is being compiled (`mode="background"`): the next
        call runs what was."""
        for task in tuple(self.stats.tasks):
            task.wait()

    def is_compiled(self) -> bool:
        """True if there is a compiled version, or a part of one."""
        return bool(self._entries.compiled)

    def explanation(self) -> Explanation:
        """All stages of what calls have compiled so far, and where it is split or runs plainly.
        What came from disk has no graph."""
        entries = self._entries
        reasons = (*entries.splits, *entries.plain)
        made, history = list(entries.compiled.values()), tuple(self.stats.history)
        waiting = len(entries.jobs.all)
        note = f"{waiting} more versions are being compiled, or wait for a call that they fit"
        return explanation_of(entries.name, made, reasons, history, (note,) * bool(waiting))

    def reset(self) -> None:
        """Forget what was compiled, and the counts. What is being compiled is given up."""
        self._entries.jobs.drop()
        self._entries = Entries(self.original, self.options)

    def __repr__(self) -> str:
        return f"<jit {self.original!r}>"

    def __reduce__(self) -> Any:
        """By name, as the function that it stands for would be, where it is found by that."""
        path = getattr(self, "__qualname__", "")
        found: Any = sys.modules.get(self.__module__)
        for name in path.split("."):
            found = getattr(found, name, None)
        return path if found is self else (_again, (self.original, self.options))

    def __deepcopy__(self, memo: dict[int, Any]) -> Jitted:
        """A copy of a module's compiled forward belongs to the copied module."""
        return Jitted(copy.deepcopy(self.original, memo), self.options)


def _again(fn: Callable[..., Any], options: Options) -> Jitted:
    return Jitted(fn, options)


def jit(
    fn: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | None = None,
    verify: bool = False,
    check_nans: bool = False,
    mode: str | None = None,
) -> Any:
    """Compile `fn`: a function, method, callable object or module. Also `@jit` and `@jit(...)`.

    fullgraph   raise where the program would be split, and list every place
    dynamic     None: a size is static until another comes, then a symbol, and one version serves
                all; True: sizes of arguments are symbols at once; False: each is compiled
    backend     "cpp", "triton", "python" (loop IR, the reference) or "eager" (op by op)
    verify      run every call plainly, and the compiled version beside it on copies; raise
                VerifyError where they differ, with a small file that shows it (costs both runs,
                copies, and a capture per call)
    check_nans  raise at the user's line that first makes a NaN
    mode        None: a call that no version fits compiles one, and runs it. "background": such a
                call is captured, and runs plainly, and so do others like it until a thread has
                compiled it (`step.wait()`)

    Raises TypeError if `fn` cannot be called, ValueError for an unknown backend or mode, or for
    check_nans in the background: the first calls would not be looked at.
    """
    known_backend(backend)
    _require_mode(mode, check_nans=check_nans)
    options = Options(fullgraph, dynamic, backend, verify, check_nans, mode=mode)
    options = replace(options, **_forced)
    if fn is None:
        return functools.partial(_jit, options=options)
    return _jit(fn, options)


def _require_mode(mode: str | None, *, check_nans: bool) -> None:
    if mode not in (None, BACKGROUND):
        more = ": eager.compile takes those of PyTorch" if mode in _OF_PYTORCH else ""
        raise ValueError(f"jit: unknown mode {mode!r}; there are None and {BACKGROUND!r}{more}")
    if mode and check_nans:
        raise ValueError(
            f"jit: check_nans=True looks at every call, and mode={mode!r} runs the first ones as "
            "plain Python: leave one of them out"
        )


def _jit(fn: Any, options: Options) -> Any:
    if options.dynamic and not takes_symbols(options.backend):
        announce(
            "dynamic",
            "jit(dynamic=True) has no effect: every size compiles a version of its own. Pad to few "
            "sizes, or raise config.entries",
        )
    if isinstance(fn, Jitted):
        return Jitted(fn.original, options)
    if isinstance(fn, staticmethod | classmethod):
        return type(fn)(Jitted(fn.__func__, options))
    if isinstance(fn, type):
        raise TypeError(f"jit: {fn.__name__} is a class: jit its methods, or an instance of it")
    if not callable(fn):
        raise TypeError(f"jit: expected something to call, got {type(fn).__name__}")
    forward = getattr(fn, "forward", None)
    if hasattr(fn, "state_dict") and callable(forward) and not isinstance(fn, type):
        original = forward.original if isinstance(forward, Jitted) else forward
        object.__setattr__(fn, "forward", Jitted(original, options))
        return fn
    return Jitted(fn, options)


def disable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` is called plainly, never captured: the program splits around it."""
    plain: Callable[..., Any] = compiler.disable(fn)
    return plain


def explain(
    fn: Callable[..., Any],
    *,
    backend: str | None = None,
    fullgraph: bool = False,
    dynamic: bool | None = None,
) -> Callable[..., Explanation]:
    """`explain(fn)(*args)`: capture and compile this call, run nothing, and show every stage.

    `fn` may be jitted already. `dynamic=True`: with symbols for the sizes of the arguments. Raises
    Break, with all there is to know, if it cannot be captured.
    """
    inner = fn.original if isinstance(fn, Jitted) else fn
    options = Options(fullgraph=fullgraph, backend=backend, dynamic=dynamic)

    def explained(*args: Any, **kwargs: Any) -> Explanation:
        try:
            varying = Varying.of(options).known()
            made = compile_call(inner, args, kwargs, options, varying)
            return explanation_of(name_of(inner), [made])
        except Break as refusal:
            if fullgraph:
                raise everything(refusal.record(), inner, args, kwargs) from None
        jitted = Jitted(inner, options)
        jitted._entries.miss(args, kwargs, STANCE.get())
        return jitted.explanation()

    return explained


class stance(ContextDecorator):
    """Context manager: "eager" (no @jit), "fail_on_split", "fail_on_recompile" or "default". One
    that is entered and dropped goes on: no generator, which would end with who has it."""

    def __init__(self, name: str) -> None:
        if name not in STANCES:
            raise ValueError(f"unknown stance {name!r}; there are {', '.join(STANCES)}")
        self.name = name

    def __enter__(self) -> None:
        self._token = STANCE.set(self.name)

    def __exit__(self, *_: object) -> None:
        STANCE.reset(self._token)

    def _recreate_cm(self) -> stance:
        return stance(self.name)  # as a decorator: one for each call


def keep_all() -> set[Jitted]:
    """Keep every jitted function from now on, those too that the program drops: the set of them."""
    global _all
    _all = kept = {*_all}
    return kept


def force(**options: Any) -> None:
    """Give every function that is jitted from now on these options, whatever it asks for."""
    _forced.update(options)


def reset() -> None:
    """Forget everything compiled in this process, and what was announced. Memory goes back to the
    system: code that nothing uses any more, this thread's temporaries, free blocks of tensors."""
    for jitted in list(_all):
        jitted.reset()
    arena.renew()
    POOL.clear()
    forget_announcements()
