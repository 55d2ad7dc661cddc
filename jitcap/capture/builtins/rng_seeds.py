"""Capture: where the program puts generators of random tensors. a seed, an earlier place -> the
tracer's state of that generator (`tracing.Draws`). Registered beside the handlers of `objects.py`.
"""

from __future__ import annotations

from typing import Any

from eager import cuda
from eager import random as eager_random
from eager.random.fork import Forked
from jitcap.base.breaks import Break
from jitcap.base.origin import Fixed
from jitcap.capture.kinds.base import Session, handles, handles_each


@handles_each(eager_random.manual_seed, cuda.manual_seed_all, cuda.manual_seed)
def _manual_seed(s: Session, fn: Any, seed: int) -> Any:
    everywhere = fn is eager_random.manual_seed
    generators = eager_random.all_generators() if everywhere else cuda.generators()
    if fn is cuda.manual_seed:
        generators = [g for g in generators if g.device.index == cuda.current_device()]
    for generator in generators:
        _reseed(s, generator, seed)
    return eager_random.default_generator if everywhere else None


@handles(eager_random.Generator.manual_seed)
def _generator_manual_seed(s: Session, generator: Any, seed: int) -> Any:
    _reseed(s, generator, seed)
    return generator


def _reseed(s: Session, generator: Any, seed: int) -> None:
    """The stream starts from its beginning."""
    if s.tracer.is_outside(generator):
        s.tracer.draws_of(generator).go_to((int(seed) & 0xFFFFFFFFFFFFFFFF, True, 0, 0, 0))
    else:
        generator.manual_seed(seed)


@handles(eager_random.fork_rng)
def _fork_rng(s: Session, /, *args: Any, **kwargs: Any) -> Any:
    given = tuple(map(s.known, args)), {name: s.known(x) for name, x in kwargs.items()}
    forked = eager_random.fork_rng(*given[0], **given[1]).generators
    found = tuple(s.outside.load(g, Fixed(g, "generator")) for g in forked)
    return s.call(Forked, (found,), {})


@handles(eager_random.Generator.position)
def _position(s: Session, generator: Any) -> Any:
    tracer = s.tracer
    if not tracer.is_outside(generator):
        return generator.position()
    state = tracer.draws_of(generator).opened(tracer)
    seed = state.seed if state.reseeded else state.read(tracer, "seed_value")
    place = seed, tracer.plus(state.start, state.count)
    state.places.append((place, state.now()))
    return place


@handles(eager_random.Generator.go_to)
def _go_to(s: Session, generator: Any, place: Any) -> None:
    """Back to where the stream was in this capture."""
    if not s.tracer.is_outside(generator):
        generator.go_to(place)
        return
    state = s.tracer.draws_of(generator)
    known = next((before for there, before in state.places if there is place), None)
    if known is None:
        raise Break("effect", "a generator goes back to where another part of the program was")
    state.go_to(known)
