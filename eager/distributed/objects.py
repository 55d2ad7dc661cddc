"""`eager.distributed`'s collectives of Python objects. picklable objects -> objects on other ranks.

They are pickled, so that ranks have to trust each other, and sent as bytes: first the lengths.
Before, the ranks compare what they came to: the kind of call, its root, and its number among the
group's collectives of objects.
"""

from __future__ import annotations

import pickle
from typing import Any, Final

import numpy as np

from eager.base.host_only import host_only
from eager.distributed import engine
from eager.distributed.engine import Request
from eager.distributed.groups import ProcessGroup, require_agreement, resolve
from eager.distributed.work import Work

_TAG: Final = 7907  # messages of objects are told from the program's


def _bytes(obj: Any) -> Any:
    return np.frombuffer(pickle.dumps(obj), np.uint8).copy()


def _object(array: Any) -> Any:
    return pickle.loads(array.tobytes())  # noqa: S301 - the ranks run one program


def _wait(group: ProcessGroup, what: str, request: Request) -> None:
    Work(request, group, what).wait()


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """The objects of all ranks, into `object_list`, which has one place for each."""
    host_only("distributed.all_gather_object")
    found = resolve(group)
    if found is None:
        return
    objects = gathered(found, "all_gather_object", obj)
    if len(object_list) != found.size():
        raise ValueError(f"all_gather_object(): the list has {len(object_list)} places, and the "
                         f"group {found.size()} ranks")  # fmt: skip
    object_list[:] = objects


def _pickled(group: ProcessGroup, what: str, obj: Any) -> Any:
    """The bytes of an object, once all ranks have come to the same collective. Raises
    DistBackendError, on all of them, where they have not."""
    group.object_calls += 1  # also where only this rank cannot pickle its object
    data = _bytes(obj)
    require_agreement(group, f"{what} (number {group.object_calls} of objects)")
    return data


def gathered(group: ProcessGroup, what: str, obj: Any) -> list[Any]:
    """The objects of all ranks, which came to the same: `what`."""
    mine = _pickled(group, what, obj)
    rows = engine.gathered(group.engine, mine, lambda request: _wait(group, what, request))
    return [*map(_object, rows)]


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None,
    group: Any = None, group_dst: int | None = None,
) -> None:  # fmt: skip
    """The objects of all ranks, into `dst`'s list (default: of rank 0 of the world)."""
    host_only("distributed.gather_object")
    found = resolve(group)
    if found is None:
        return
    root = _root(found, dst, group_dst)
    objects = gathered(found, f"gather_object to {found.ranks[root]}", obj)
    if found.rank() == root:
        if object_gather_list is None or len(object_gather_list) != found.size():
            raise ValueError("gather_object(): dst gives a list with a place for each rank")
        object_gather_list[:] = objects


def _root(group: ProcessGroup, rank: int | None, of_group: int | None) -> int:
    return of_group if of_group is not None else group.local(rank or 0)


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
    group_src: int | None = None,
) -> None:  # fmt: skip
    """`src`'s objects (default: of rank 0 of the world), into the lists of all ranks, which are of
    one length."""
    host_only("distributed.broadcast_object_list")
    found = resolve(group)
    if found is None:
        return
    what = f"broadcast_object_list of {len(object_list)}"
    object_list[:] = _broadcast(found, what, list(object_list), _root(found, src, group_src))


def _broadcast(group: ProcessGroup, what: str, obj: Any, root: int) -> Any:
    """The root's object."""
    what = f"{what} from {group.ranks[root]}"
    is_root = group.rank() == root
    given = _pickled(group, what, obj if is_root else None)
    length = np.array([len(given)])
    _wait(group, what, group.engine.broadcast(length, root))
    data = given if is_root else np.empty(int(length[0]), np.uint8)
    _wait(group, what, group.engine.broadcast(data, root))
    return _object(data)


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
) -> None:
    """Send objects to one rank, which receives them."""
    host_only("distributed.send_object_list")
    found = resolve(group)
    if found is None:
        return
    to = _root(found, dst, group_dst)
    data = _bytes(list(object_list))
    for array in (np.array([len(data)]), data):
        _wait(found, f"send_object_list to {found.ranks[to]}", found.engine.send(array, to, _TAG))


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> int:
    """Receive into `object_list` as many objects as it has from one rank, or from any; the sender's
    rank in the world, -1 outside of the group."""
    host_only("distributed.recv_object_list")
    found = resolve(group)
    if found is None:
        return -1
    named = src is not None or group_src is not None
    source = _root(found, src, group_src) if named else None
    length = np.empty(1, np.int64)
    request = found.engine.receive(length, source, _TAG)
    _wait(found, "recv_object_list", request)
    data = np.empty(int(length[0]), np.uint8)
    _wait(found, "recv_object_list", found.engine.receive(data, request.source, _TAG))
    object_list[:] = _object(data)
    return found.ranks[request.source]


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Object r of `src`'s list (default: of rank 0 of the world) becomes the first of rank r's."""
    host_only("distributed.scatter_object_list")
    found = resolve(group)
    if found is None:
        return
    root = _root(found, src, group_src)
    everything = _broadcast(found, "scatter_object_list", scatter_object_input_list, root)
    if len(everything or ()) != found.size():
        raise ValueError(f"scatter_object_list(): src gives {found.size()} objects, one a rank")
    scatter_object_output_list[0] = everything[found.rank()]
