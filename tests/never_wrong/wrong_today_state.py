"""The programs of programs_state_*.py that are wrong today, by cause. A mark goes with its fault."""

from typing import Final

_BY_CAUSE: Final = {
    "what stands for a number reaches an exception": "nan_in_a_container",
}

WRONG_TODAY: Final = {name: cause for cause, names in _BY_CAUSE.items() for name in names.split()}
