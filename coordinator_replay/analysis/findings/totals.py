"""Sums of commits by group and by partition; sums of several tasks, or of earlier runs, become one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Sum = dict[str, Any]
"""The sum of some commits, by column."""

Key = tuple[str, int]
"""A topic and a partition."""

WHOLE: Key = ("", -1)
"""Stands for all partitions, where a group is summed up."""


def _plus(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else one + other


def _least(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else min(one, other)


def _most(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else max(one, other)


def _newest(one: Any, other: Any) -> Any:
    return other if other["from_offset"] > one["from_offset"] else one


class Summary(NamedTuple):
    """How sums of one kind are added up.

    Attributes:
        name: of the kind.
        columns: how each is made of two.
        newest: columns that are those of the newest, by the column that is largest for it.
    """

    name: str
    columns: Mapping[str, Callable[[Any, Any], Any]]
    newest: Mapping[str, Sequence[str]] = {}

    def merge(self, one: Sum, other: Sum) -> Sum:
        """One sum of two of the same key."""
        # A sum that an earlier release kept may lack a column.
        merged = {column: how(one.get(column), other.get(column)) for column, how in self.columns.items()}
        for by, columns in self.newest.items():
            is_newer = one[by] is None or (other[by] is not None and other[by] > one[by])
            newer = other if is_newer else one
            merged |= {column: newer[column] for column in columns}
        return merged


GROUP = Summary(
    "group",
    {
        "log_partition": _most,
        "commits": _plus,
        "bytes": _plus,
        "unproven": _plus,
        "first_at": _least,
        "last_at": _most,
        "last_offset": _most,
        "most_a_minute": _most,
        "hot_minutes": _plus,
        "hot_from": _least,
        "hot_to": _most,
    },
)
"""Commits of a group; unproven are those of which the input doesn't show whether they were made in a transaction,
most_a_minute is of each partition."""

PARTITION = Summary(
    "partition",
    {
        "log_partition": _most,
        "commits": _plus,
        "first_at": _least,
        "last_at": _most,
        "metadata_bytes": _most,
        "with_leader_epoch": _plus,
        "from_offset": _most,
        "empty_count": _plus,
        "empty_first_at": _least,
        "empty_from_offset": _most,
    },
    {
        "from_offset": ("committed_offset", "is_lost"),
        "empty_from_offset": ("empty_valid_from", "empty_committed_offset", "empty_previous_offset"),
    },
)
"""Commits of a partition, with what the newest says; the same of those into an Empty group."""

_REWINDS = {"log_partition": _most, "count": _plus, "first_at": _least, "furthest": _most, "last": _newest}

REWIND = Summary("rewind", _REWINDS)
"""Commits of a partition that went back while the group was not Empty, with the newest of them."""

EMPTY_REWIND = Summary("empty_rewind", _REWINDS)
"""The same while the group was Empty, or had no records of its own at all."""

SUMMARIES = {summary.name: summary for summary in (GROUP, PARTITION, REWIND, EMPTY_REWIND)}
"""Every kind by its name."""

_REWIND = (
    *("from_offset", "committed_offset", "previous_offset", "leader_epoch", "is_transactional"),
    *("owner_member_id", "group_state", "valid_from"),
)


def rewind(row: Mapping[str, Any]) -> Sum:
    """A commit that went back, as something to add up.

    Args:
        row: log_partition, from_offset, committed_offset, previous_offset, leader_epoch, is_transactional,
            owner_member_id, group_state, valid_from.
    """
    return {
        "log_partition": row["log_partition"],
        "count": 1,
        "first_at": row["valid_from"],
        "furthest": row["previous_offset"] - row["committed_offset"],
        "last": {name: row[name] for name in _REWIND},
    }


class Totals:
    """Sums of the commits of one group: of all, and of those that the next run need not add up again."""

    __slots__ = ("every", "over")

    def __init__(self) -> None:
        self.every: dict[str, dict[Key, Sum]] = {name: {} for name in SUMMARIES}
        self.over: dict[str, dict[Key, Sum]] = {name: {} for name in SUMMARIES}

    def add(self, summary: Summary, key: Key, added: Sum, *, is_over: bool) -> None:
        """Add a sum of commits; ``is_over`` if no later commit belongs to it."""
        for sums in (self.every, self.over) if is_over else (self.every,):
            before = sums[summary.name].get(key)
            sums[summary.name][key] = added if before is None else summary.merge(before, added)

    def first_at(self) -> int | None:
        """When the group first committed, in milliseconds; None where it never has."""
        commits = self.every[GROUP.name].get(WHOLE)
        return None if commits is None else commits["first_at"]

    def kept(self) -> Iterator[tuple[str, Key, Sum]]:
        """The sums that the next run begins with: the summary's name, the key, and the sum."""
        for name, sums in self.over.items():
            for key, one in sums.items():
                yield name, key, one
