"""At the edge: `eager._tensor_str`, a private module of PyTorch's by which libraries print their
own tensors. Tensor -> str."""

from __future__ import annotations

from eager.core.printing import PRINT_OPTS as PRINT_OPTS
from eager.core.printing import body, in_lines
from eager.core.tensor import Tensor


def _tensor_str(self: Tensor, indent: int) -> str:
    """The elements in brackets, of which the lines after the first begin with so many blanks."""
    return body(self.detach().numpy(), indent) if self.numel() else "[]"


# The text with what is said of a tensor behind its elements, and the closing bracket.
_add_suffixes = in_lines


def _str_intern(inp: Tensor, *, tensor_contents: str | None = None) -> str:
    return repr(inp)
