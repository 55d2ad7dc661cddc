"""Between fuse and writes: checks first, then updates of inputs as soon as they can. Fused -> Fused
in another order.

An optimizer stands at the end of a step, so every gradient would be alive until then. An update
that runs right after its gradient finds it in the cache and lets its memory go. It must come after
whatever else reads the old value of the input it overwrites, or it could not be done in place; and
after the last item that can fail, or a run that fails would leave half a step (what must be
computed earlier goes through a temporary, see `writes`). Checks move up to
what they read, so that updates need not wait for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from codegen.ir.schema import Fused, Kernel, Library


def hoist_updates(fused: Fused) -> Fused:
    """`fused` with each check moved up to its last producer, and each kernel that updates inputs to
    its last producer, last rival reader, or the last check."""
    if not fused.program.writes:
        return fused
    keys = _Order(fused).run()
    places = sorted(range(len(fused.items)), key=lambda i: (keys[i], i))
    return replace(fused, items=tuple(fused.items[i] for i in places))


class _Order:
    """The new order of the items: `keys` are their sort keys, on the scale of today's positions."""

    def __init__(self, fused: Fused) -> None:
        self.fused = fused
        self.targets = {f"v{v.id}": f"v{t.id}" for t, v in fused.program.writes}
        self.updated = [self.inputs_of(item) for item in fused.items]
        self.writer = {name: i for i, item in enumerate(fused.items) for name in item.writes()}
        updates = (item for item, inputs in zip(fused.items, self.updated, strict=True) if inputs)
        names = {*self.targets.values(), *(name for item in updates for name in item.writes())}
        self.readers, _ = fused.touching(names)
        self.keys = [float(i) for i in range(len(fused.items))]

    def run(self) -> list[float]:
        checks = self.fused.failing()
        for i in sorted(checks):
            if isinstance(self.fused.items[i], Kernel):
                self.keys[i] = min(self.keys[i], self.producers(i) + 0.25)
        last = max((self.keys[i] for i in checks), default=-1.0)
        updates = [i for i, inputs in enumerate(self.updated) if inputs and i not in checks]
        for i in reversed(updates):  # first those that others read
            writes = self.fused.items[i].writes()
            used = (self.keys[j] for s in writes for j in self.readers.get(s, ()))
            if self.keys[i] <= last and not any(key <= last for key in used):
                self.keys[i] = last + 0.5
        for i in updates:
            if self.keys[i] > last:
                self.keys[i] = min(self.keys[i], max(self.producers(i), last, self.rivals(i)) + 0.5)
        return self.keys

    def inputs_of(self, item: Kernel | Library) -> list[str]:
        """The inputs whose new values the item computes."""
        if not isinstance(item, Kernel) and item.name != "call":
            return []
        return [self.targets[s] for s in item.writes() if s in self.targets]

    def producers(self, i: int) -> float:
        """Position of the last producer of what the item reads; -1 if there is none."""
        return self.latest({self.writer.get(r, -1) for r in self.fused.items[i].reads()} - {-1})

    def rivals(self, i: int) -> float:
        """Position of the last earlier reader of the old values that the item updates."""
        readers = (self.readers.get(name, ()) for name in self.updated[i])
        return self.latest({j for found in readers for j in found if j < i})

    def latest(self, items: Iterable[int]) -> float:
        """Position of the last of the items, the old or the new one, whichever is later."""
        return max([max(self.keys[i], i) for i in items], default=-1.0)
