"""At the edge: what a package above this one provides, found by entry point. a group -> an object.

`eager` imports nothing above it. Where it offers what a higher package does (`eager.compile`), the
installed packages are asked at the first use, never at import:

    eager.compiler    a function with the signature of `jitcap.jit`
    eager.kernels     a module with the functions that `eager/device/plan.py` names

This is the only place where a lower package of ours reaches a higher one.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Final

# What each group is for, and the package that provides it.
_GROUPS: Final = {
    "eager.compiler": ("eager.compile()", "jitcap"),
    "eager.kernels": ("an op on a device", "jitcap"),
}


def entry_points(group: str) -> Any:
    """Entry points of a group in the installed packages. The module that finds them is slow to
    import and seldom used."""
    from importlib import metadata

    return metadata.entry_points(group=group)


@functools.cache
def provider(group: str) -> Any:
    """The object that an installed package provides for `group`. Raises ModuleNotFoundError naming
    the package to install if there is none, RuntimeError if there are several."""
    what, package = _GROUPS[group]
    found = {point.value: point for point in entry_points(group=group)}
    if not found:
        raise ModuleNotFoundError(
            f"{what} needs the package {package!r}, and no installed package has an entry point "
            f"{group!r}: pip install {package} (in a checkout: pip install -e .)",
            name=package,
        )
    if len(found) > 1:
        raise RuntimeError(f"{what}: several packages provide {group!r}: {', '.join(found)}")
    (point,) = found.values()
    return point.load()


def compiler(name: str) -> Any:
    """The object that the package with the compiler calls `name`."""
    package = provider("eager.compiler").__module__.partition(".")[0]
    return getattr(sys.modules[package], name)
