"""Beside everything: the settings, one typed table. environment, code, `with` -> config.<flag>.

    config.debug = 2                      for the process
    with config(debug=2, dump="out"): ... for a while
    JITCAP_DEBUG=2 python train.py        from outside

An assignment outranks the environment, which outranks the default. The environment is read when a
flag is, so a test may set it late. What compiles beside the program goes by the settings at the
time of the call (`snapshot`, `held`).
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import Any, ClassVar, Final

from eager.base.compat_warnings import tell
from eager.base.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Flag:
    """One setting: its environment variable, its default (which fixes its type), what it does, and
    which values there are: these texts, or numbers from `least` to `most`."""

    name: str
    env: str
    default: bool | int | float | str
    what: str
    valid: tuple[str, ...] = ()
    least: float = 0
    most: float = inf

    def parse(self, text: str) -> bool | int | float | str:
        """The value spelled `text`. Raises ValueError naming the variable if it is none."""
        kind = type(self.default)
        if kind is bool:
            word = text.strip().lower()
            ours = self.env.startswith("JITCAP_")  # CHECK may be another program's
            if ours and word not in (*_YES, *_NO):
                raise ValueError(f"{self.env}={text!r}: there are {', '.join((*_YES, *_NO[1:]))}")
            return word not in _NO
        try:
            value = kind(text)
        except ValueError:
            raise ValueError(
                f"{self.env}={text!r} is not {kind.__name__}; expected for example "
                f"{self.env}={self.default!r}"
            ) from None
        self.require(value, self.env)
        return value

    def require(self, value: Any, where: str) -> None:
        """Raises ValueError, which says what there is, for a value that means nothing."""
        if self.valid and value not in self.valid:
            there = ", ".join(map(repr, self.valid))
            raise ValueError(f"{where}={value!r}: there are {there}: {self.what}")
        if isinstance(value, int | float) and not self.least <= value <= self.most:
            upto = "at least {}" if self.most == inf else "{} to {}"
            there = upto.format(self.least, self.most)
            raise ValueError(f"{where}={value!r}: expected {there}: {self.what}")


_YES: Final = ("1", "true", "yes", "on")
_NO: Final = ("", "0", "false", "no", "off")
FLAGS: Final[dict[str, Flag]] = {
    flag.name: flag
    for flag in (
        Flag("debug", "JITCAP_DEBUG", 0, "how much is printed about each compile, 0 to 6", most=6),
        Flag("dump", "JITCAP_DUMP", "", "a directory: each stage is written there as a file"),
        Flag("check", "CHECK", False, "verify the program between stages"),
        Flag(
            "strict",
            "JITCAP_STRICT",
            False,
            "a fault of the compiler raises; else the function runs eagerly, and says so",
        ),
        Flag(
            "traceback",
            "JITCAP_TRACEBACK",
            "short",
            "full: an error shows the library's frames, too; short: it ends at the user's line",
            ("short", "full"),
        ),
        Flag("backend", "JITCAP_BACKEND", "", "cpp, triton, python or eager for every `@jit`"),
        Flag(
            "isa",
            "JITCAP_ISA",
            "native",
            "instructions of compiled code for the CPU: native, avx512, avx2 or baseline",
            ("native", "avx512", "avx2", "baseline"),
        ),
        Flag(
            "device",
            "JITCAP_DEVICE",
            "",
            'sim: "cuda" is a simulated GPU in this process; else a real one',
            ("", "sim"),
        ),
        Flag("sim_devices", "JITCAP_SIM_DEVICES", 1, "how many simulated GPUs there are", least=1),
        Flag(
            "threads",
            "JITCAP_THREADS",
            0,
            "threads of compiled code; 0: as OMP_NUM_THREADS says, else one per core",
        ),
        Flag(
            "entries",
            "JITCAP_ENTRIES",
            64,
            "compiled versions kept per function and guard set",
            least=1,
        ),
        Flag(
            "recompute", "JITCAP_RECOMPUTE", True, "the backward pass may recompute what is cheap"
        ),
        Flag(
            "tolerance",
            "JITCAP_TOLERANCE",
            16.0,
            "roundings by which `verify=True` lets floats differ",
        ),
        Flag(
            "reproduce",
            "JITCAP_REPRODUCE",
            30,
            "seconds in which a fault that `verify=True` finds is reduced to a file; 0: no file",
        ),
    )
}


_held: Final[ContextVar[Mapping[str, Any] | None]] = ContextVar("settings", default=None)


class Config:
    """The settings as attributes; call it for a `with` block. Unknown names and types raise."""

    debug: int
    dump: str
    check: bool
    strict: bool
    traceback: str
    backend: str
    isa: str
    device: str
    sim_devices: int
    threads: int
    entries: int
    recompute: bool
    tolerance: float
    reproduce: int
    _assigned: ClassVar[dict[str, Any]] = {}

    def __getattr__(self, name: str) -> Any:
        """The value assigned, else the environment's, else the default."""
        flag = _flag(name)
        for known in (_held.get(), self._assigned):
            if known is not None and name in known:
                return known[name]
        text = os.environ.get(flag.env)
        return flag.default if text is None else flag.parse(text)

    def __setattr__(self, name: str, value: Any) -> None:
        flag = _flag(name)
        kind = type(flag.default)
        if not isinstance(value, kind) and not (kind is float and isinstance(value, int)):
            raise TypeError(f"config.{name} is {kind.__name__}, got {value!r}: {flag.what}")
        flag.require(value, f"config.{name}")
        self._assigned[name] = kind(value)
        self._changed()

    @contextmanager
    def __call__(self, **changes: Any) -> Iterator[Config]:
        """Set flags for the length of a `with` block."""
        before = {name: v for name, v in self._assigned.items() if name in changes}
        try:
            for name, value in changes.items():
                setattr(self, name, value)
            yield self
        finally:
            for name in changes:
                self._assigned.pop(name, None)
            self._assigned.update(before)
            self._changed()

    def _changed(self) -> None:
        """Say what is assigned in names of attributes, too, for `@jit`: a step that asks for a flag
        guards them, while `__getattr__` is the library's and guarded by nobody."""
        own = vars(self)
        own.clear()
        own.update((f"{name}={value!r}", True) for name, value in self._assigned.items())
        for follow in on_change:
            follow()

    def require_valid(self) -> None:
        """Raises ValueError for a variable of the environment that has no value of its setting."""
        for name in FLAGS:
            getattr(self, name)

    def __dir__(self) -> list[str]:
        return list(FLAGS)

    def __repr__(self) -> str:
        rows = (f"  {n} = {getattr(self, n)!r:12}  # {f.env}: {f.what}" for n, f in FLAGS.items())
        return "config(\n" + "\n".join(rows) + "\n)"


def snapshot() -> Mapping[str, Any]:
    """The settings as they are, but for the threads, which compiled code asks for when it runs."""
    return {name: getattr(config, name) for name in FLAGS if name != "threads"}


@contextmanager
def held(settings: Mapping[str, Any]) -> Iterator[None]:
    """In this thread settings are those of a snapshot."""
    token = _held.set(settings)
    try:
        yield
    finally:
        _held.reset(token)


on_change: Final[list[Callable[[], object]]] = []  # called when settings were changed in code


def _flag(name: str) -> Flag:
    if name not in FLAGS:
        raise AttributeError(f"there is no setting {name!r}; there are {', '.join(FLAGS)}")
    return FLAGS[name]


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the environment that is no flag: its default as text, and what it does."""

    env: str
    default: str
    what: str


VARIABLES: Final = (
    Variable("JITCAP_CACHE_DIR", "~/.cache/jitcap", "where compiled code is kept"),
    Variable("XDG_CACHE_HOME", "~/.cache", "where that folder lies, and the one of `eager.hub`"),
    Variable("CXX", "", "the C++ compiler; else the first of `c++`, `g++` and `clang++` found"),
    Variable(
        "OMP_NUM_THREADS",
        "",
        "threads, where `JITCAP_THREADS` says nothing; NumPy's matrix products obey it, too",
    ),
)
_OF_TESTS: Final = ("JITCAP_TEST_", "JITCAP_FUZZ_")


def unknown_variables() -> Iterator[str]:
    """Messages about variables that look like settings, and are none: most are misspelled."""
    ours = [each.env for each in VARIABLES if each.env.startswith("JITCAP_")]
    known = [*(flag.env for flag in FLAGS.values()), *ours]
    words = {name.removeprefix("JITCAP_"): name for name in known}
    for name in os.environ:
        if name.startswith("JITCAP_") and name not in known and not name.startswith(_OF_TESTS):
            near = [words[w] for w in difflib.get_close_matches(name[len("JITCAP_") :], words)]
            asked = f"did you mean {' or '.join(near)}?"
            there = asked if near else f"there are {', '.join(known)}"
            yield f"the environment has {name}, which means nothing here: {there}"


config: Final = Config()
for _what in unknown_variables():
    tell(_what, UserWarning)
config.require_valid()
