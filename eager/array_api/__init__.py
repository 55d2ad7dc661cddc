"""`x.__array_namespace__()`: the array API standard (2024.12) over `eager`. tensors -> tensors.

PyTorch's functions, which `eager` has, differ from the standard's in names (`axis`, `keepdims`), in
results (`sort` gives values and places) and in defaults (`var` divides by n - 1). The standard's
live in a namespace of their own, as libraries that are written for it ask:
https://data-apis.org/array-api/2024.12. Under `@jit` they are captured like any other function.

Not there: uint16, uint32 and uint64, which `eager` has no arithmetic for, and `nextafter`.
Functions whose sizes depend on values (`nonzero`, `unique_*`) split a captured program.
"""

from __future__ import annotations

from typing import Final

from eager.array_api import fft as fft
from eager.array_api import linalg as linalg
from eager.array_api.creation import *  # noqa: F403 - the standard's names, and no others
from eager.array_api.creation import __array_namespace_info__ as __array_namespace_info__
from eager.array_api.functions import *  # noqa: F403

__array_api_version__: Final = "2024.12"
VERSIONS: Final = ("2021.12", "2022.12", "2023.12", "2024.12")
