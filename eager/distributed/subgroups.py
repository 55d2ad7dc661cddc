"""`eager.distributed`: a world cut into groups. ranks -> this process's group, and all of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from eager.distributed.groups import GroupMember, get_rank, new_group, resolve


def new_subgroups(
    group_size: int | None = None, group: Any = None, timeout: timedelta | None = None,
    backend: str | None = None, pg_options: Any = None, group_desc: str | None = None,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """Neighbouring ranks of a group in subgroups of one size: this rank's, and the list of all.

    Raises ValueError where the size is not given or does not divide that of the group."""
    found = resolve(group)
    ranks = () if found is None else found.ranks
    if not group_size or len(ranks) % group_size:
        raise ValueError(f"new_subgroups: {len(ranks)} ranks do not make groups of {group_size}")
    rows = [ranks[i : i + group_size] for i in range(0, len(ranks), group_size)]
    return new_subgroups_by_enumeration(rows, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """A group of each list of ranks: this rank's (None where it is in none), and the list of all.
    ValueError for a rank that is in two of them."""
    everyone = [rank for ranks in ranks_per_subgroup_list for rank in ranks]
    if len(set(everyone)) != len(everyone):
        raise ValueError("new_subgroups_by_enumeration: a rank is in two of the groups")
    groups = [
        new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        for ranks in ranks_per_subgroup_list
    ]
    mine = [g for g in groups if g is not GroupMember.NON_GROUP_MEMBER]
    return (mine[0] if mine else None), groups


def split_group(
    parent_pg: Any = None,
    split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
    backend: str | None = None,
) -> Any:
    """This rank's group of those into which a group (default: the world) is cut, by the group's own
    ranks; None where it is in none. Raises ValueError without lists, or where a rank is twice."""
    parent = resolve(parent_pg)
    if not split_ranks or parent is None:
        raise ValueError("split_group: split_ranks are lists of ranks of a group with this process")
    everyone = [rank for ranks in split_ranks for rank in ranks]
    if len(set(everyone)) != len(everyone):
        raise ValueError("split_group: a rank is in two of the groups")
    rows = [[parent.ranks[r] for r in ranks] for ranks in split_ranks]
    mine = [row for row in rows if get_rank() in row]
    if not mine:
        return None
    return new_group(mine[0], timeout or parent.timeout, backend, pg_options, group_desc=group_desc)
