"""The committed offsets of one topic or partition over time, commit by commit."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from coordinator_replay.answer_columns import column, row_of, select_list
from coordinator_replay.listing import partition_ranges
from coordinator_replay.query.group_moves import in_log_order
from coordinator_replay.query.groups import check_group
from coordinator_replay.query.offsets import check_partition, check_topics
from coordinator_replay.query.tables import Tables
from coordinator_replay.times import moment_text

MOST_CHANGES = 100_000
"""Largest number of commits in one answer. If there are more, the answer has the latest of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetChange:
    """A row of ``offset_history``: one committed offset, from its commit to its replacement or removal.

    The fields that are not described here are columns of this table (see ``schemas/tables/offset_history.json``).

    Attributes:
        topic_id: id of the topic; None if the id is not known.
        delta: this offset minus the partition's previous committed offset; negative if the group went back. None if
            there is no previous offset, or if the difference means nothing, because the topic was created again or an
            offset is negative.
        ended_by: COMMIT, EXPIRED, DELETED, GROUP_DELETED, TOMBSTONE, GROUP_MOVED (to another log partition), or
            RECORDS_MISSING (the end is not on record); None while the offset is in force.
        owner_member_id: member that owned the partition at the commit; None if the partition had no owner, or if the
            owner is not known.
        commits_merged: number of commits before this one that ``audit --history-every`` left out.
        is_proven: False if the commit may have been aborted, because the input has no transaction markers.
        is_exact: whether the log proves that the offset was in force from ``valid_from`` to ``valid_to``.
        is_begin_open: whether the partition may have had earlier commits that are not on record.
    """

    group_id: str
    valid_from: datetime | None = column("FROM", 1)
    topic: str = column("TOPIC", 6, is_id=True)
    topic_id: str | None
    partition: int = column("PARTITION", 1)
    committed_offset: int | None = column("OFFSET", 1)
    delta: int | None = column("DELTA", 1, sql="committed_offset::HUGEINT - previous_offset")
    valid_to: datetime | None = column("TO", 3)
    ended_by: str | None = column("ENDED-BY", 2)
    ended_confidence: str | None = column("CONFIDENCE", 6)
    owner_member_id: str | None = column("CONSUMER-ID", 3, 10, is_id=True)
    group_state: str | None = column("GROUP-STATE", 4)
    is_transactional: bool | None = column("TRANSACTIONAL", 2)
    commit_timestamp: datetime | None
    metadata: str | None = column("METADATA", 5, 8, is_cut=True)
    commits_merged: int | None
    log_partition: int
    from_offset: int = column("LOG-OFFSET", 7)
    is_proven: bool = column(sql="coalesce(is_proven, true)")
    is_exact: bool = column(sql="coalesce(is_exact, false)")
    is_begin_open: bool = column(rank=3, bound="MAYBE-EARLIER", sql="coalesce(is_begin_open, true)")


_NO_PARTITION = 2**31
"""A number that is too large for a partition."""

_CHANGES = f"""
    SELECT {select_list(OffsetChange)}
    FROM offset_history
    WHERE cluster = $cluster AND group_id = $group AND topic = $topic
      AND (len($partitions::BIGINT[]) = 0 OR list_contains($partitions::BIGINT[], partition))
      AND coalesce(valid_to > $start, true) AND coalesce(valid_from < $end, true)
    ORDER BY {in_log_order("offset_history")} DESC, partition DESC
    LIMIT $most + 1
"""  # noqa: S608 - put together from constants


def offset_changes(
    warehouse: Tables,
    group: str,
    topic: str,
    partitions: Sequence[int] = (),
    start: datetime | None = None,
    end: datetime | None = None,
) -> list[OffsetChange]:
    """Return the committed offsets of a topic that were in force during a time range, in log order.

    If there are more than ``MOST_CHANGES``, return only the latest, and add a note that says so to ``warehouse.notes``.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        topic: name of the topic.
        partitions: only these partitions; empty for all partitions of the topic.
        start: leave out offsets that were no longer in force at this time; None for no lower bound.
        end: leave out offsets that were committed at this time or later; None for no upper bound.

    Raises:
        UsageError: the tables have no record of the group or of the time range, or the group never committed an offset
            of the topic or partition.
    """
    warehouse.check_range(start, end)
    # No partition has a larger number, and larger numbers may not fit the type in SQL.
    numbers = [min(partition, _NO_PARTITION) for partition in partitions]
    rows = warehouse.rows(
        _CHANGES, group=group, topic=topic, partitions=numbers, start=start, end=end, most=MOST_CHANGES
    )
    changes = [row_of(OffsetChange, row) for row in reversed(rows[:MOST_CHANGES])]
    if not changes:
        check_group(warehouse, group)
        check_topics(warehouse, [topic], group)
    for partition in _without(changes, partitions):
        check_partition(warehouse, topic, partition, group)
    if len(rows) > MOST_CHANGES:
        warehouse.notes.append(f"Only the latest {MOST_CHANGES:,} commits are shown: narrow the time range")
    return changes


def _without(changes: Sequence[OffsetChange], partitions: Sequence[int]) -> list[int]:
    """Return the partitions for which an answer has no commit, sorted.

    Args:
        changes: the rows of the answer.
        partitions: the partitions that the user asks about.
    """
    return sorted(set(partitions).difference(change.partition for change in changes))


def partitions_without_note(changes: Sequence[OffsetChange], topic: str, partitions: Sequence[int]) -> str | None:
    """Return a note that names partitions without a commit in an answer.

    Return None if all partitions have a commit, or if none has.

    Args:
        changes: the commits of the answer.
        topic: name of the topic.
        partitions: the partitions that the user asks about.
    """
    without = _without(changes, partitions)
    if not (changes and without):
        return None
    return f"No commit of {topic}:{partition_ranges(without)} is among these commits."


def created_again_note(changes: Sequence[OffsetChange]) -> str | None:
    """Return a note if the topic ids in commits show that the topic was deleted and created again.

    Otherwise return None.

    Args:
        changes: commits of one topic, in log order.
    """
    last_ids: dict[int, str] = {}
    for change in changes:
        if change.topic_id is None:
            continue
        if last_ids.setdefault(change.partition, change.topic_id) != change.topic_id:
            since = "Some commits" if change.valid_from is None else f"Commits from {moment_text(change.valid_from)} on"
            return (
                f"{since} carry another id of topic {change.topic}: it was created again, and its offsets began anew."
            )
    return None
