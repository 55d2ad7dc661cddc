"""Under the compiled calls: what depends on the sizes of a call. Signature, values of its symbols
-> makers of outputs, places of temporaries, host kernels.

One `Sizing` per vector of sizes: the greedy plan costs more than a call, and few vectors come again
and again. Where they do not (data decide the sizes), there is one plan with room for all so far.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np

from codegen.ir.sizes import name_of, spelled
from codegen.runtime.artifact import Array, Exchange, Host, Signature, Spec
from codegen.runtime.callback import Callback
from codegen.schedule.plan import assign_offsets
from eager.base.dataclass import dataclass
from eager.base.process import memory
from eager.sizes.substitute import substitute

RELEASE_GIL_BYTES: Final = 64 << 10  # smaller calls are over before another thread could profit
MOST: Final = 1024  # vectors of sizes that are remembered
EXACT: Final = 8  # that have a plan of their own


class Plans:
    """The places of an artifact's temporaries."""

    def __init__(self, signature: Signature) -> None:
        self.blocks = signature.blocks
        names = ", ".join(name_of(symbol) for symbol, _ in signature.symbols)
        sizes = ", ".join(spelled(size, whole=True) for *_, size in self.blocks)
        functions: dict[str, Any] = {}
        exec(f"def nbytes({names}): return [{sizes}]", functions)
        self._nbytes: Callable[..., list[int]] = functions["nbytes"]
        self._made = 0
        self._room: tuple[np.ndarray[Any, Any], Places] | None = None

    def of(self, values: tuple[int, ...]) -> Places:
        """Offsets, and the bytes of the arena, for these values of the symbols."""
        if not self.blocks:
            return _NOWHERE
        need = np.array(self._nbytes(*values), np.int64)
        self._made += 1
        if self._made <= EXACT:
            return self._assign(need)
        found = self._room
        if found is None or (need > found[0]).any():
            room = need if found is None else np.maximum(need, found[0])
            found = self._room = room, self._assign(room)
        return found[1]

    def _assign(self, nbytes: np.ndarray[Any, Any]) -> Places:
        rows = zip(self.blocks, nbytes.tolist(), strict=True)
        blocks = {str(i): (first, last, n) for i, ((first, last, _), n) in enumerate(rows)}
        offsets, total = assign_offsets(blocks)
        return np.array([offsets[name] for name in blocks], np.int64), total


Places: TypeAlias = "tuple[np.ndarray[Any, np.dtype[np.int64]], int]"
_NOWHERE: Final[Places] = (np.array([], np.int64), 0)


@dataclass(frozen=True, eq=False, slots=True)
class Sizing:
    """`make` the outputs; `offsets` of the temporaries in an arena of `arena_bytes`; `hosts`.
    `values`: of the symbols, as a call has them."""

    values: Any
    make: tuple[Callable[[], Array], ...]
    arena_bytes: int
    offsets: np.ndarray[Any, np.dtype[np.int64]]
    hosts: tuple[Host | Exchange, ...]
    exchanges: tuple[Exchange, ...]
    release_gil: bool

    @classmethod
    def of(
        cls,
        signature: Signature,
        numbers: tuple[int, ...] = (),
        places: Places = _NOWHERE,
        values: Any = None,
    ) -> Sizing:
        """The sizing for these `numbers`, which the signature's symbols are."""
        names = (name for name, _ in signature.symbols)
        sizes = dict(zip(names, numbers, strict=True))
        specs = tuple(_spec(s, sizes) for s in signature.outputs)
        offsets, total = places
        room = total or signature.arena_bytes
        make = tuple(
            functools.partial(
                np.empty if s.nbytes < memory.SMALL else memory.empty, s.shape, s.dtype
            )
            for s in specs
        )
        waits = bool(signature.exchanges)  # for other ranks, perhaps for long
        release = waits or room + sum(s.nbytes for s in specs) >= RELEASE_GIL_BYTES
        hosts = tuple(_host(h, sizes) for h in signature.hosts)
        exchanges = tuple(h for h in hosts if isinstance(h, Exchange))
        return cls(values, make, room, offsets, hosts, exchanges, release)


def _spec(spec: Spec, sizes: dict[str, int]) -> Spec:
    return Spec(substitute(spec.shape, sizes), spec.dtype) if sizes else spec


def _host(host: Host | Exchange, sizes: dict[str, int]) -> Host | Exchange:
    if not sizes:
        return host
    if isinstance(host, Exchange):
        operand, result = _spec(host.operand, sizes), _spec(host.result, sizes)
        attrs = substitute(dict(host.attrs), sizes)
        return replace(host, attrs=attrs, operand=operand, result=result)
    call = host.call.at(sizes) if isinstance(host.call, Callback) else host.call
    inputs, outputs = (tuple(_spec(s, sizes) for s in x) for x in (host.inputs, host.outputs))
    return Host(call, inputs, outputs)
