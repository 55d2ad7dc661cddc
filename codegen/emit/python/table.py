"""Spelling of the scalar vocabulary in Python, for printing and for the reference backend.
intrinsic -> operator."""

from __future__ import annotations

from typing import Final

INFIX: Final = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "eq": "==", "ne": "!=", "and_": "&", "or_": "|", "xor": "^",
}  # fmt: skip
