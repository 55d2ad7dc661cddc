"""Beside `pickled.py`, for a file that the user trusts (`weights_only=False`): Python's own reader
of pickles, which imports and calls what the file says. a pickle -> any value.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from eager.serialization.pickled import Callee
from eager.serialization.refusal import LoadError, UsersError


class Unpickler(pickle.Unpickler):
    """PyTorch's names stand for ours; `persistent(id)` gives what lies outside of the pickle."""

    def __init__(
        self, find: Callable[[str], Any], persistent: Callable[[Any], Any], file: Any
    ) -> None:
        super().__init__(file)
        self.find = find
        self.persistent = persistent

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] == "torch":
            found = self.find(f"{module}.{name}")
            return found.value if type(found) is Callee and found.value is not None else found
        if module.startswith("numpy.core."):  # of NumPy 1
            module = module.replace("core", "_core", 1)
        return super().find_class(module, name)

    def persistent_load(self, pid: Any) -> Any:
        return self.persistent(pid)

    def load(self) -> Any:
        try:
            return super().load()
        except (LoadError, UsersError):
            raise
        except Exception as error:  # of what the file runs
            raise UsersError(error) from error
