"""Types that a step writes down (`cast(List[Tensor], x)`), also where a package has replaced parts of
`typing` by functions that look at frames."""

import sys
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Callable, Deque, Dict, List, Literal, Optional, Tuple, Union  # noqa: UP035

import pytest

import eager
from eager import Tensor
from jitcap import jit

T = typing.TypeVar("T")
Pair = Tuple[int, Tensor]  # noqa: UP006


class Box(typing.Generic[T]):
    def __init__(self, held):
        self.held = held


STEPS = (
    lambda x: typing.cast(Tuple[Tensor, ...], (x,))[0] * 2,  # noqa: UP006
    lambda x: typing.cast(Optional[List[int]], x) * 2,  # noqa: UP006, UP045
    lambda x: typing.cast(Callable[[int], Dict[str, Tensor]], x) * 2,  # noqa: UP006
    lambda x: typing.cast(Union[List[Box], Literal["a"], None], x) * 2,  # noqa: UP006, UP007
    lambda x: (isinstance(x, Callable), isinstance([x], List), isinstance({}, Mapping)),  # noqa: UP006
    lambda x: (Box[int](x).held, repr(Box[int](x).__orig_class__), List is typing.List),  # noqa: UP006
    lambda x: (List[int], Tuple[()], {"a": Dict[str, List[Any]]}, str(Callable[..., int])),  # noqa: UP006
    lambda x: (Pair.__args__[0](3), typing.get_args(Dict[str, int]), Deque([1])),  # noqa: UP006
    lambda x: (typing.get_origin(Annotated[int, "m"]), [isinstance(x, t) for t in Pair.__args__]),
)


@pytest.mark.parametrize("step", STEPS)
def test_types_are_what_they_are(step, monkeypatch):
    def collected(*args, **kwargs):
        assert sys._getframe(1).f_globals["__name__"] == "typing"
        return found(*args, **kwargs)

    (name,) = {"_collect_parameters", "_collect_type_parameters"} & vars(typing).keys() or {""}
    found = getattr(typing, name, None)
    if found is not None:
        monkeypatch.setattr(typing, name, collected)
    compiled = jit(step)
    for i in range(3):
        x = eager.ones(2) * i
        assert repr(compiled(x)) == repr(step(x))
    assert compiled.stats.splits == compiled.stats.fallbacks == 0 and compiled.stats.compiles == 1
