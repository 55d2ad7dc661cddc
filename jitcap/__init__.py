"""The compiler's public face: a function -> the same function, compiled. See `jitcap.api`."""
# ruff: noqa: E402 - nothing is collected while the rest is imported

from eager.base.process.uncollected import Uncollected as _Uncollected

_uncollected = _Uncollected()

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from eager.base import lazy_imports as _lazy_imports
from eager.base.config import config as config
from eager.version import __version__ as __version__
from jitcap.api import Jitted as Jitted
from jitcap.api import disable as disable
from jitcap.api import explain as explain
from jitcap.api import jit as jit
from jitcap.api import reset as reset
from jitcap.api import stance as stance
from jitcap.base.breaks import Break as Break
from jitcap.base.cache import cache as cache
from jitcap.base.diagnostics import JitcapWarning as JitcapWarning
from jitcap.base.diagnostics import Stats as Stats
from jitcap.base.marks import assume_static as assume_static
from jitcap.base.marks import graph_break as graph_break
from jitcap.base.marks import mark_dynamic as mark_dynamic
from jitcap.custom import custom_op as custom_op
from jitcap.explain import Explanation as Explanation

if _TYPE_CHECKING:
    from jitcap.exporting import Exported as Exported
    from jitcap.exporting import export as export
    from jitcap.exporting import load as load
    from jitcap.verify import VerifyError as VerifyError

__all__ = [
    "Break",
    "Explanation",
    "Exported",
    "JitcapWarning",
    "Jitted",
    "Stats",
    "VerifyError",
    "assume_static",
    "cache",
    "config",
    "custom_op",
    "disable",
    "explain",
    "export",
    "graph_break",
    "jit",
    "load",
    "mark_dynamic",
    "profile",
    "reset",
    "stance",
]


# What few programs name is imported then.
_HOMES = {
    "Exported": "exporting", "VerifyError": "verify", "export": "exporting", "load": "exporting",
    "profile": "profiling",
}  # fmt: skip


def __getattr__(name: str) -> _Any:
    if name in _HOMES:
        return getattr(_lazy_imports.submodule("jitcap", _HOMES[name]), name)
    return _lazy_imports.submodule("jitcap", name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_lazy_imports.PARTS["jitcap"]})


del _uncollected
