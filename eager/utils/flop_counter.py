"""`eager.utils.flop_counter`: floating point operations of matrix products and convolutions.
running code -> counts.

What runs is what profiles see (`eager.base.recorder`): two operations for each product that is
added. Other operations are not counted, as in PyTorch; names of operations are ours. What a
module's derivative computes counts as "Global" alone. Count plain calls: small products in jitted
ones are loops as any other.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from eager.base.recorder import Events, Options, recorder
from eager.core.dispatch import tracing
from eager.nn.modules.hooks import register_module_forward_hook, register_module_forward_pre_hook
from eager.nn.modules.module import Module

__all__ = ["FlopCounterMode"]
_UNITS = ("", "K", "M", "B", "T")


class FlopCounterMode:
    """Counts inside its `with` block. At the end of it a table is printed if `display`, with the
    modules that were called down to `depth`. `mods` is not needed."""

    def __init__(
        self, mods: Any = None, depth: int | None = 2, display: bool = True,
        custom_mapping: Any = None,
    ) -> None:  # fmt: skip
        if custom_mapping:
            raise NotImplementedError("FlopCounterMode: only matrix products are counted")
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self._options = Options()
        self._begun = recorder.start(self._options)
        self._entered: list[tuple[Module, str, int]] = []  # where the spans of each call begin
        self._handles = (
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        )
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._count("Global", recorder.stop(self._options, self._begun))
        if self.display:
            sys.stdout.write(f"{self.get_table(self.depth)}\n")

    def _enter(self, module: Module, _: Any) -> None:
        if tracing():
            return
        name = type(module).__name__
        if self._entered:
            above, path, _ = self._entered[-1]
            names = (n for n, child in above.named_modules() if child is module)
            name = f"{path}.{next(names, name)}"
        self._entered.append((module, name, len(recorder.spans)))

    def _leave(self, module: Module, _: Any, __: Any) -> None:
        if tracing():
            return
        while self._entered:
            called, name, begun = self._entered.pop()
            if called is module:
                self._count(name, _spans(recorder.spans[begun:]))
                return

    def _count(self, name: str, spans: Any) -> None:
        for span in spans:
            if span.part.products:
                self.flop_counts[name][span.part.name] += int(span.part.products * span.runs)

    def get_total_flops(self) -> int:
        """The number of operations."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """Module -> operation -> number; "Global" has all."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The numbers as text."""
        rows = [("Module", "FLOP", "% Total")]
        total = self.get_total_flops()
        unit = min((len(str(total)) - 1) // 3, len(_UNITS) - 1)
        for name, counts in sorted(self.flop_counts.items(), key=lambda each: each[0] != "Global"):
            level = 0 if name == "Global" else name.count(".") + 1
            if depth is None or level <= depth:
                for label, n in ((name, sum(counts.values())), *counts.items()):
                    indent = " " * level + (" - " if label != name else "")
                    shown = f"{n / 1000**unit:.3f}{_UNITS[unit]}" if n else "0"
                    rows.append((indent + label, shown, f"{100 * n / max(total, 1):.2f}%"))
        left, middle, right = (max(map(len, column)) for column in zip(*rows, strict=True))
        lines = [f"{a:{left}}  {b:>{middle}}  {c:>{right}}" for a, b, c in rows]
        return "\n".join([lines[0], f"{'-' * left}  {'-' * middle}  {'-' * right}", *lines[1:]])


def _spans(found: Any) -> Iterator[Any]:
    for each in found:
        yield from each.spans() if isinstance(each, Events) else (each,)
