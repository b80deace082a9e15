"""Committed offsets of a group at a point in time, as a broker would have returned them in OffsetFetch.

The answer has all partitions with a committed offset. A partition that has only a pending commit is left out. With
``require_stable`` (KIP-447), a partition with a pending transactional commit is unstable, and has no offset.

If the log lacks the offset of a partition, the answer has the partition without an offset, and with
``is_exact = False``.
"""

import csv
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from coordinator_replay.answer_columns import (
    BEFORE_REMOVAL,
    END_OFFSETS,
    LAST,
    REQUIRE_STABLE,
    column,
    row_of,
    row_with,
    select_list,
)
from coordinator_replay.completeness.past import LogPartition
from coordinator_replay.completeness.ranges import CompleteRange
from coordinator_replay.errors import UsageError, writing
from coordinator_replay.listing import counted, ranges_by_topic
from coordinator_replay.query.absence import Tombstone, is_removed, kept_ranges
from coordinator_replay.query.completeness import log_partitions_of
from coordinator_replay.query.group_moves import COUNTS, in_log_order
from coordinator_replay.query.groups import check_group
from coordinator_replay.query.removed import LAST_REMOVALS, RECORDS_MISSING
from coordinator_replay.query.similar import did_you_mean
from coordinator_replay.query.tables import AS_OF, END, Tables
from coordinator_replay.times import LATEST, moment_text

# Partitions without an offset in force. Each row also has the time up to which the last offset on record was in force,
# and the first later commit, which may be pending already.
_WITHOUT = f"""
    SELECT topic, partition, min(log_partition), max(valid_to) FILTER (valid_to <= $at),
           arg_max(ended_by, valid_to) FILTER (valid_to <= $at),
           min(CASE WHEN is_transactional THEN least(commit_timestamp, valid_from) ELSE valid_from END)
               FILTER (is_next),
           min(record_offset) FILTER (is_next), bool_or(is_undecided AND valid_from <= $at)
    FROM (
        SELECT topic, partition, log_partition, valid_from, valid_to, to_offset, ended_by, is_transactional,
               commit_timestamp, coalesce(record_offset, from_offset) AS record_offset, false AS is_pending,
               false AS is_undecided, valid_from > $at AS is_next
        FROM offset_history WHERE cluster = $cluster AND group_id = $group
        UNION ALL
        SELECT topic, partition, log_partition, coalesce(pending_since, valid_from), NULL, NULL, NULL, false, NULL,
               coalesce(pending_since_offset, from_offset), true, valid_to IS NULL, coalesce(valid_to > $at, true)
        FROM pending_offsets WHERE cluster = $cluster AND group_id = $group
    )
    GROUP BY topic, partition
    HAVING NOT bool_or(NOT is_pending AND {AS_OF})
    ORDER BY topic, partition
"""  # noqa: S608 - put together from constants

# These are read from the records: a tombstone of an offset that is not on record has no row in offset_history.
_TOMBSTONES = """
    SELECT topic, partition, max(log_timestamp), arg_max(log_offset, log_timestamp) FROM offset_commits AS records
    WHERE cluster = $cluster AND group_id = $group AND is_tombstone AND log_timestamp <= $at AND {counts} GROUP BY ALL
""".replace("{counts}", COUNTS)

_PENDING = f"""
    SELECT topic, partition, producer_id, producer_epoch, pending_since
    FROM pending_offsets WHERE cluster = $cluster AND group_id = $group AND {AS_OF}
    QUALIFY row_number() OVER (PARTITION BY topic, partition ORDER BY pending_since, producer_id) = 1
"""  # noqa: S608 - put together from constants

# A transaction that was open at an offset ends with the first later marker of its producer. A marker counts only if it
# comes before the end of the first copy that has everything from that offset on. The cleaner had removed no record of
# transactions that were still open at that end.
_OPEN_UNTIL = """
    SELECT max(ended_at) FROM (
        SELECT arg_min(log_timestamp, log_offset) AS ended_at FROM control_records
        WHERE cluster = $cluster AND log_partition = $log_partition
          AND log_offset >= $from_offset AND log_offset < least($to_offset, (
              SELECT min(end_offset) FROM log_copies
              WHERE cluster = $cluster AND log_partition = $log_partition AND NOT is_export
                AND greatest(cleaned_to_offset, from_offset) <= $from_offset AND end_offset >= $from_offset
                AND to_offset = end_offset))
        GROUP BY producer_id
    )
"""

# Ids of a topic in the group's commits, and its creations and deletions in the cluster metadata.
_LIVES = f"""
    SELECT topic, last_id, ids, created_at, is_there
    FROM (
        SELECT topic, arg_max(topic_id, {in_log_order("offset_history")}) AS last_id, count(DISTINCT topic_id) AS ids
        FROM offset_history
        WHERE cluster = $cluster AND group_id = $group AND topic_id IS NOT NULL GROUP BY topic
    ) FULL JOIN (
        SELECT topic, max(created_at) AS created_at, bool_or(removed_at IS NULL) AS is_there FROM topics
        WHERE cluster = $cluster GROUP BY topic
    ) USING (topic)
"""  # noqa: S608 - put together from constants

_TOPICS = """
    SELECT DISTINCT topic FROM offset_history WHERE cluster = $cluster AND group_id = $group ORDER BY topic
"""

_PARTITIONS = """
    SELECT DISTINCT partition
    FROM (
        SELECT cluster, group_id, topic, partition FROM offset_history
        UNION ALL
        SELECT cluster, group_id, topic, partition FROM pending_offsets
    )
    WHERE cluster = $cluster AND group_id = $group AND topic = $topic ORDER BY partition
"""

TopicPartition = tuple[str, int]

_LISTED = re.compile(r"(.+):(\d+(?:,\d+)*)")
_DASHED = re.compile(r"(.+)-(\d+)")


def partitions_asked(text: str, known: Collection[str]) -> tuple[str, tuple[int, ...]]:
    """Return the topic and the partitions that a text like ``orders``, ``orders:0,1`` or ``orders-4`` names.

    An empty tuple of partitions stands for all partitions of the topic. A text like ``orders-4`` names partition 4 only
    if there is a topic ``orders`` and no topic ``orders-4``.

    Args:
        text: the text that the user typed.
        known: names of topics.
    """
    if text in known:
        return text, ()
    if (listed := _LISTED.fullmatch(text)) is not None:
        return listed[1], tuple(int(number) for number in listed[2].split(","))
    if (dashed := _DASHED.fullmatch(text)) is not None and dashed[1] in known:
        return dashed[1], (int(dashed[2]),)
    return text, ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """A committed offset at a point in time.

    The fields that are not described here are columns of ``offset_history`` (see ``schemas/tables``).

    Attributes:
        committed_offset: the offset; None if it is not in the log. Also None if the user asked for stable offsets and a
            transactional commit was pending.
        valid_from: the time at which the offset came into force.
        owner_member_id: member that owned the partition at the commit; None if the partition had no owner, or if the
            owner is not known.
        group_state: the group's state at the commit.
        is_proven: False if the commit may have been aborted, because the input has no transaction markers.
        is_exact: whether the log proves that the partition had this committed offset from ``valid_from`` up to the
            point in time. False if ``committed_offset`` is not in the log.
        is_begin_open: whether the partition may have had earlier commits that are not on record.
        is_stable: whether the log proves that no transactional commit of the partition was pending.
        is_topic_current: False if the topic was deleted after the commit, or may have been deleted and created again.
        is_unstable: whether the user asked for stable offsets and a transactional commit of the partition was pending.
        producer_id: producer id of the pending transactional commit; None if no commit was pending. If several were
            pending, the one that had been pending longest.
        pending_since: the time of this pending commit.
        lag: distance to the end offset of the partition; None if the lag can't be computed.
        client_host: host of the owner; None if the host is not on record, or may be the host of an earlier process.
        client_id: client id of the owner; None in the same cases as ``client_host``.
        removed_at: if the user asked about removed offsets, the time of the removal. None if no record has this time.
        removed_by: if the user asked about removed offsets, the cause of the removal, as in ``offset_history``.
        is_committed_again: if the user asked about removed offsets, whether the partition has an offset again at the
            end of the log. None if this is not on record.
    """

    group_id: str = column("GROUP", LAST, is_id=True)
    topic: str = column("TOPIC", 1, is_id=True)
    topic_id: str | None
    partition: int = column("PARTITION", 1)
    committed_offset: int | None = column("CURRENT-OFFSET", 1)
    end_offset: int | None = column("LOG-END-OFFSET", 2, only_with=END_OFFSETS, default=None)
    lag: int | None = column("LAG", 1, only_with=END_OFFSETS, default=None)
    owner_member_id: str | None = column("CONSUMER-ID", 5, 10, is_id=True)
    client_host: str | None = column("HOST", 3, 8, is_id=True, default=None)
    client_id: str | None = column("CLIENT-ID", 4, 8, is_id=True, default=None)
    leader_epoch: int | None = column("LEADER-EPOCH", 7)
    metadata: str | None = column("METADATA", 6, 8, is_cut=True)
    commit_timestamp: datetime | None = column("COMMITTED-AT", 2)
    valid_from: datetime | None
    is_transactional: bool | None
    group_state: str | None
    log_partition: int
    from_offset: int | None
    is_proven: bool | None
    is_exact: bool = column(sql="coalesce(is_exact, false)")
    is_begin_open: bool = column(sql="coalesce(is_begin_open, true)")
    is_stable: bool = column(default=True)
    is_topic_current: bool = column(default=True)
    is_unstable: bool = column("UNSTABLE", 1, only_with=REQUIRE_STABLE, default=False)
    producer_id: int | None = column("PRODUCER-ID", 1, only_with=REQUIRE_STABLE, default=None)
    producer_epoch: int | None = column("PRODUCER-EPOCH", 2, only_with=REQUIRE_STABLE, default=None)
    pending_since: datetime | None = column("PENDING-SINCE", 1, only_with=REQUIRE_STABLE, default=None)
    removed_at: datetime | None = column("REMOVED-AT", 1, only_with=BEFORE_REMOVAL, default=None)
    removed_by: str | None = column("REMOVED-BY", 2, only_with=BEFORE_REMOVAL, default=None)
    is_committed_again: bool | None = column("COMMITTED-AGAIN", 2, only_with=BEFORE_REMOVAL, default=None)


_OWNERS = """
    SELECT member_id, arg_max({host: client_host, client: client_id}, from_offset)
    FROM member_timeline WHERE cluster = $cluster AND group_id = $group AND NOT coalesce(is_client_inherited, false)
    GROUP BY member_id
"""
"""SQL for host and client id of each member, unless these may belong to an earlier process."""


# A transactional commit was pending from its record until its marker, so the history also shows pending commits: rows
# that are not in force yet. One pass over the table finds both, which matters if it is large and not clustered.
_OFFSETS = f"""
    SELECT {select_list(CommittedOffset)}, {AS_OF} AS holds
    FROM offset_history
    WHERE cluster = $cluster AND group_id = $group
      AND ({AS_OF} OR (is_transactional AND commit_timestamp <= $at AND valid_from > $at))
    QUALIFY row_number() OVER (PARTITION BY topic, partition, holds ORDER BY from_offset DESC) = 1
    ORDER BY topic, partition
"""  # noqa: S608 - put together from constants

# A commit was pending at the removal if it was written before the tombstone and ended with the tombstone or later. Log
# offsets are compared, because a commit and its removal may have the same time.
_REMOVED = f"""
    SELECT {select_list(CommittedOffset)}, valid_to, ended_by,
           EXISTS (
               SELECT 1 FROM offset_history AS later
               WHERE later.cluster = removed.cluster AND later.group_id = removed.group_id
                 AND later.topic = removed.topic AND later.partition = removed.partition
                 AND later.log_partition = removed.log_partition AND later.is_transactional
                 AND later.record_offset < removed.to_offset AND later.from_offset > removed.to_offset
           ),
           (
               SELECT arg_min({{
                   producer_id: waiting.producer_id, producer_epoch: waiting.producer_epoch,
                   pending_since: waiting.pending_since
               }}, waiting.from_offset)
               FROM pending_offsets AS waiting
               WHERE waiting.cluster = removed.cluster AND waiting.group_id = removed.group_id
                 AND waiting.topic = removed.topic AND waiting.partition = removed.partition
                 AND waiting.log_partition = removed.log_partition
                 AND coalesce(waiting.pending_since_offset, waiting.from_offset) < removed.to_offset
                 AND coalesce(waiting.to_offset >= removed.to_offset, true)
           )
    FROM ({LAST_REMOVALS}) AS removed
    ORDER BY topic, partition
"""  # noqa: S608 - put together from constants


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCommit:
    """A transactional commit of a partition that is pending. If several are pending, the one that began first."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int | None
    pending_since: datetime | None


def pending_commits(warehouse: Tables, group: str, at: datetime | None = None) -> list[PendingCommit]:
    """Return, for each partition, the transactional commit that had been pending longest at a point in time.

    A partition without a pending commit is left out.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        at: the point in time; the end of the log if None.
    """
    return warehouse.answers(PendingCommit, _PENDING, group=group, at=at or END)


def pending_notes(
    pending: Sequence[PendingCommit],
    stored: Sequence[CommittedOffset],
    asked: Collection[tuple[str, tuple[int, ...]]] = (),
) -> list[str]:
    """Return notes on pending transactional commits. An answer with committed offsets does not show these commits.

    Args:
        pending: the pending commits.
        stored: the committed offsets of the answer.
        asked: topics and partitions that the user asks about, see ``topics_asked``; empty for all topics.
    """
    committed = {(offset.topic, offset.partition) for offset in stored}
    shown_stable = {(offset.topic, offset.partition) for offset in stored if not offset.is_unstable}
    waiting = [
        pending_offset for pending_offset in pending if (pending_offset.topic, pending_offset.partition) in shown_stable
    ]
    since = min(
        (pending_offset.pending_since for pending_offset in waiting if pending_offset.pending_since is not None),
        default=None,
    )
    count = len({(pending_offset.topic, pending_offset.partition) for pending_offset in waiting})
    unstable = (
        f"{count} of these partitions {'has' if count == 1 else 'have'} a transactional commit pending"
        f"{'' if since is None else f' since {moment_text(since)}'}: --require-stable shows which."
    )
    return [unstable] * bool(waiting) + [
        f"{commit.topic}-{commit.partition} has no committed offset, only a transactional commit pending"
        f"{'' if commit.pending_since is None else f' since {moment_text(commit.pending_since)}'} "
        f"(producer id {commit.producer_id}, epoch {commit.producer_epoch})."
        for commit in pending
        if (commit.topic, commit.partition) not in committed and is_asked(commit.topic, commit.partition, asked)
    ]


def _no_commit_of(warehouse: Tables, group: str, topic: str, committed: Sequence[str]) -> str:
    """Return an error message: the tables have no committed offset of a group for a topic.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        topic: name of the topic.
        committed: topics for which the tables have committed offsets of the group.
    """
    names = ", ".join(committed) or "no topic"
    if _is_whole(warehouse, group):
        hint = did_you_mean(topic, committed, f"it committed offsets of {names}")
        return f"group {group!r} never committed an offset of topic {topic!r}: {hint}"
    hint = did_you_mean(topic, committed, f"the tables have offsets of {names}")
    return (
        f"no committed offset of group {group!r} for topic {topic!r} is on record, and its log is not complete: {hint}"
    )


def _is_whole(warehouse: Tables, group: str) -> bool:
    """Return whether no record is missing in the log partitions of a group."""
    return warehouse.completeness.since(log_partitions_of(warehouse, group)).is_whole


def check_partition(warehouse: Tables, topic: str, partition: int, group: str) -> None:
    """Check that the tables have a commit of the group for the partition. Call ``check_topics`` before.

    Raises:
        UsageError: the tables have no commit of the group for the partition.
    """
    partitions = [number for (number,) in warehouse.rows(_PARTITIONS, group=group, topic=topic)]
    if partition in partitions:
        return
    known = ranges_by_topic((topic, number) for number in partitions)
    if _is_whole(warehouse, group):
        raise UsageError(f"group {group!r} never committed an offset of {topic}-{partition}: it committed {known}")
    raise UsageError(
        f"no committed offset of group {group!r} for {topic}-{partition} is on record, and its log is not complete: "
        f"the tables have {known}"
    )


def check_topics(warehouse: Tables, topics: Sequence[str], group: str) -> None:
    """Check that the tables have committed offsets of a group for all given topics.

    Raises:
        UsageError: the tables have no committed offset for one of the topics.
    """
    committed = committed_topics(warehouse, group)
    for topic in topics:
        if topic not in committed:
            raise UsageError(_no_commit_of(warehouse, group, topic, committed))


def _is_open(partition: LogPartition | None, at: datetime, row: Sequence[Any]) -> bool:
    """Return whether a partition may have had a committed offset at a point in time, although the tables have none.

    Call this function only for partitions of which the tables have no offset at this time.

    Args:
        partition: the log partition of the group.
        at: the point in time.
        row: the partition's row in the result of ``_WITHOUT``.
    """
    ended_at, ended_by, next_seen, next_offset, is_undecided = row[3:]
    if partition is None or partition.is_whole:
        return False
    # The cleaner works only below the first open transaction: it has removed no record because of a commit that is
    # still pending.
    if is_undecided and partition.proven_from(LATEST) is not None:
        return False
    # If a commit was pending at that time, the cleaner may have removed the offset before it.
    asked = at if next_seen is None else min(at, next_seen)
    if partition.proves_absence(asked, next_offset):
        return False
    is_removed = ended_by is not None and ended_by != RECORDS_MISSING
    return not (is_removed and not partition.has_hole_between(ended_at, at))


def open_offsets(warehouse: Tables, group: str, at: datetime | None = None) -> list[CommittedOffset]:
    """Return a row without an offset for each partition whose offset at a point in time is open.

    The offset of a partition is open if the log shows no offset, and does not prove that the partition had none.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        at: the point in time; the end of the log if None.
    """
    history = warehouse.completeness
    if history.is_whole:
        return []
    moment = at or END
    rows = [
        (row, partition)
        for row in warehouse.rows(_WITHOUT, group=group, at=moment)
        if _is_open(partition := history.partitions.get(row[2]), moment, row)
    ]
    if not rows:
        return []
    tombstones = {row[:2]: Tombstone(*row[2:]) for row in warehouse.rows(_TOMBSTONES, group=group, at=moment)}
    partitions = {known.log_partition: known for _, known in rows if known is not None}
    kept = {number: cache(partial(kept_ranges, warehouse, known, moment)) for number, known in partitions.items()}
    return [
        row_with(
            CommittedOffset,
            group_id=group,
            topic=row[0],
            partition=row[1],
            log_partition=row[2],
            is_exact=False,
            is_begin_open=True,
        )
        for row, partition in rows
        if partition is None or not is_removed(partition, moment, tombstones.get(row[:2]), kept[row[2]])
    ]


def open_offsets_note(offsets: Iterable[CommittedOffset]) -> str | None:
    """Return a note on partitions whose committed offset is open: the log shows no offset, but there may have been one.

    Return None if there are no such partitions.
    """
    without = [
        offset
        for offset in offsets
        if not offset.is_exact and offset.committed_offset is None and not offset.is_unstable
    ]
    if not without:
        return None
    return f"The committed offsets of {_named(without)} at that time are not on record; there may have been none."


def _named(offsets: Sequence[CommittedOffset]) -> str:
    """Return a text with the partitions of some committed offsets, such as ``orders:0-2``.

    If the offsets belong to several groups, the text has only the number of partitions and the number of groups.
    """
    groups = {offset.group_id for offset in offsets}
    if len(groups) > 1:
        return f"{counted(len(offsets), 'partition')} of {counted(len(groups), 'group')}"
    return ranges_by_topic((offset.topic, offset.partition) for offset in offsets)


def maybe_pending_note(warehouse: Tables, offsets: Iterable[CommittedOffset], at: datetime | None) -> str | None:
    """Return a note on partitions that may have had a pending transactional commit that the log lacks.

    The cleaner may have removed such a commit.

    Return None if there are no such partitions.
    """
    unstable = [offset for offset in offsets if not (offset.is_stable or offset.is_unstable)]
    shown = _shows_pending(warehouse, {offset.log_partition for offset in unstable}, at or END)
    open_ones = [offset for offset in unstable if offset.log_partition not in shown]
    if not open_ones:
        return None
    return (
        f"STABLE is false because a transactional commit of {_named(open_ones)} may have been pending then: "
        "the cleaner may have removed its record."
    )


def committed_topics(warehouse: Tables, group: str) -> list[str]:
    """Return all topics for which a group committed offsets."""
    return [topic for (topic,) in warehouse.rows(_TOPICS, group=group)]


def offsets_at(
    warehouse: Tables,
    group: str,
    at: datetime | None = None,
    *,
    topics: Sequence[str] = (),
    require_stable: bool = False,
    pending: Sequence[PendingCommit] | None = None,
) -> list[CommittedOffset]:
    """Return every committed offset of a group at a point in time, sorted by topic and partition.

    If the log does not show whether a partition had an offset, the partition has a row without an offset.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        at: the point in time; the end of the log if None.
        topics: only offsets of these topics. ``orders:0,1`` names single partitions of a topic. Empty for all topics.
        require_stable: show partitions with a pending transactional commit as unstable, without an offset.
        pending: the group's pending commits at that time, if the caller has read them already.

    Raises:
        UsageError: the tables have no record of the group, or no committed offset of one of ``topics``.
    """
    moment = at or END
    rows = warehouse.rows(_OFFSETS, group=group, at=moment)
    if not rows:
        check_group(warehouse, group)
    offsets = [row_of(CommittedOffset, values) for *values, holds in rows if holds]
    unknown = open_offsets(warehouse, group, at)
    if unknown:
        offsets = sorted([*offsets, *unknown], key=lambda offset: (offset.topic, offset.partition))
    offsets = _of_asked(offsets, topics_asked(warehouse, group, topics))
    pending = pending_commits(warehouse, group, at) if pending is None else pending
    by_partition = {(pending_offset.topic, pending_offset.partition): pending_offset for pending_offset in pending}
    waiting = {(topic, partition) for _, topic, _, partition, *_, holds in rows if not holds} | set(by_partition)
    shows_pending = _shows_pending(warehouse, {offset.log_partition for offset in offsets}, moment)
    shown = {(offset.topic, offset.partition) for offset in offsets if offset.log_partition in shows_pending}
    offsets = [
        replace(
            offset,
            producer_id=commit.producer_id,
            producer_epoch=commit.producer_epoch,
            pending_since=commit.pending_since,
        )
        if (commit := by_partition.get((offset.topic, offset.partition)))
        else offset
        for offset in _with_topics_and_clients(warehouse, group, offsets)
    ]
    return _with_stable(offsets, waiting, shown, require_stable=require_stable)


def offsets_before_removal(
    warehouse: Tables,
    group: str,
    at: datetime | None = None,
    *,
    topics: Sequence[str] = (),
    require_stable: bool = False,
) -> list[CommittedOffset]:
    """Return the offset that each partition of a group had just before its offset was last removed.

    Partitions that got another committed offset after the removal are included. The rows are sorted by topic and
    partition.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        at: only removals up to this point in time; the end of the log if None.
        topics: only offsets of these topics. ``orders:0,1`` names single partitions of a topic. Empty for all topics.
        require_stable: show partitions with a pending transactional commit as unstable, without an offset.

    Raises:
        UsageError: the tables have no record of the group, or no committed offset of one of ``topics``.
    """
    check_group(warehouse, group)
    asked = topics_asked(warehouse, group, topics)
    rows = warehouse.rows(_REMOVED, group=group, at=at or END)
    offsets = [
        replace(row_of(CommittedOffset, values), removed_at=removed_at, removed_by=removed_by, **(commit or {}))
        for *values, removed_at, removed_by, _, commit in rows
    ]
    waiting = {
        (offset.topic, offset.partition)
        for offset, (*_, is_later, commit) in zip(offsets, rows, strict=True)
        if is_later or commit
    }
    offsets = _of_asked(offsets, asked)
    now = offsets_at(warehouse, group) if offsets else []
    # A row without an offset stands for a partition of which the log does not show whether it has an offset.
    again = {(offset.topic, offset.partition): True if offset.committed_offset is not None else None for offset in now}
    offsets = [
        replace(offset, is_committed_again=again.get((offset.topic, offset.partition), False))
        for offset in _with_topics_and_clients(warehouse, group, offsets)
    ]
    return _with_stable(offsets, waiting, _shown_at_removal(warehouse, offsets), require_stable=require_stable)


def _shown_at_removal(warehouse: Tables, offsets: Iterable[CommittedOffset]) -> set[TopicPartition]:
    """Return the partitions for which the log shows all commits that were pending when the offset was removed.

    Args:
        warehouse: the tables to read.
        offsets: removed offsets, at most one of each partition.
    """
    by_time: dict[datetime, list[CommittedOffset]] = {}
    for offset in offsets:
        if offset.removed_at is not None:
            by_time.setdefault(offset.removed_at, []).append(offset)
    return {
        (offset.topic, offset.partition)
        for removed_at, removed in by_time.items()
        for shown in [_shows_pending(warehouse, {offset.log_partition for offset in removed}, removed_at)]
        for offset in removed
        if offset.log_partition in shown
    }


def topics_asked(warehouse: Tables, group: str, topics: Sequence[str]) -> list[tuple[str, tuple[int, ...]]]:
    """Return topics and partitions that a user typed, such as ``("orders", (0, 1))`` for ``orders:0,1``.

    An empty tuple of partitions stands for all partitions of the topic.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        topics: the texts that the user typed.

    Raises:
        UsageError: the tables have no committed offset of the group for one of the topics.
    """
    if not topics:
        return []
    known = committed_topics(warehouse, group)
    asked = [partitions_asked(text, known) for text in topics]
    check_topics(warehouse, [topic for topic, _ in asked], group)
    return asked


def is_asked(topic: str, partition: int, asked: Collection[tuple[str, tuple[int, ...]]]) -> bool:
    """Return whether a partition is among the topics and partitions that a user asks about.

    Args:
        topic: topic of the partition.
        partition: number of the partition.
        asked: topics and partitions that the user asks about, see ``topics_asked``; empty for all topics.
    """
    return not asked or any(topic == name and (not only or partition in only) for name, only in asked)


def _of_asked(
    offsets: Sequence[CommittedOffset], asked: Collection[tuple[str, tuple[int, ...]]]
) -> list[CommittedOffset]:
    """Return those offsets that are of the topics and partitions that a user asks about.

    Args:
        offsets: the offsets to choose from.
        asked: topics and partitions that the user asks about, see ``topics_asked``; empty for all topics.
    """
    return [offset for offset in offsets if is_asked(offset.topic, offset.partition, asked)]


def _with_topics_and_clients(
    warehouse: Tables, group: str, offsets: Sequence[CommittedOffset]
) -> list[CommittedOffset]:
    """Return offsets with ``client_host``, ``client_id`` and ``is_topic_current`` filled in."""
    owners = dict(warehouse.rows(_OWNERS, group=group)) if any(offset.owner_member_id for offset in offsets) else {}
    lives = {topic: _TopicLives(*row) for topic, *row in warehouse.rows(_LIVES, group=group)}
    return [
        replace(
            offset,
            is_topic_current=offset.topic not in lives or lives[offset.topic].is_current(offset),
            client_host=owners.get(offset.owner_member_id or "", {}).get("host"),
            client_id=owners.get(offset.owner_member_id or "", {}).get("client"),
        )
        for offset in offsets
    ]


def _with_stable(
    offsets: Sequence[CommittedOffset],
    waiting: Collection[TopicPartition],
    shown: Collection[TopicPartition],
    *,
    require_stable: bool,
) -> list[CommittedOffset]:
    """Return offsets with ``is_stable`` filled in.

    Args:
        offsets: the offsets.
        waiting: partitions with a pending transactional commit.
        shown: partitions for which no pending commit is missing from the log.
        require_stable: show partitions with a pending transactional commit as unstable, without an offset.
    """
    told = []
    for offset in offsets:
        partition = (offset.topic, offset.partition)
        offset = replace(offset, is_stable=partition in shown and partition not in waiting)
        if require_stable:
            # If the cleaner may have removed pending commits, another commit may have been pending for longer than
            # the one shown.
            offset = replace(offset, is_exact=offset.is_exact and partition in shown)
            if partition in waiting:
                offset = replace(offset, committed_offset=None, leader_epoch=None, metadata=None, is_unstable=True)
        told.append(offset)
    return told


def committed_again_note(offsets: Sequence[CommittedOffset]) -> str | None:
    """Return a note on partitions that got another committed offset after their offset was removed.

    Return None if there are no such partitions.

    Args:
        offsets: removed offsets.
    """
    again = [(offset.topic, offset.partition) for offset in offsets if offset.is_committed_again is not False]
    if not again:
        return None
    is_sure = all(offset.is_committed_again is not None for offset in offsets)
    perhaps = "" if is_sure else ", or may have had one"
    return f"At the end of the log, {ranges_by_topic(again)} had a committed offset again{perhaps}."


def unstable_removal_note(offsets: Iterable[CommittedOffset]) -> str | None:
    """Return a note on partitions that had, or may have had, a pending commit when their offset was removed.

    Return None if there are no such partitions.

    Args:
        offsets: the removed offsets.
    """
    unstable = [(offset.topic, offset.partition) for offset in offsets if not offset.is_stable]
    if not unstable:
        return None
    return (
        f"A transactional commit of {ranges_by_topic(unstable)} was pending just before the removal, or may have been."
    )


class _TopicLives(NamedTuple):
    """Facts about all topics that had the same name, one after another, because each was deleted and created again.

    Attributes:
        last_id: last topic id in the group's commits; None if the commits have no topic id.
        ids: number of topic ids in the group's commits; None if the commits have no topic id.
        created_at: the time at which the last of these topics was created; None if no cluster metadata has this time.
        is_there: whether one of these topics still exists; None if unknown.
    """

    last_id: str | None
    ids: int | None
    created_at: datetime | None
    is_there: bool | None

    def is_current(self, offset: CommittedOffset) -> bool:
        """Return False if the topic was deleted after an offset was committed, as far as is known. Else return True."""
        is_other = (self.ids or 0) > 1 if offset.topic_id is None else self.last_id not in (None, offset.topic_id)
        committed_at = offset.commit_timestamp
        is_older = self.created_at is not None and committed_at is not None and committed_at < self.created_at
        return not (is_other or is_older or self.is_there is False)


def negative_offsets_note(offsets: Iterable[CommittedOffset]) -> str | None:
    """Return a note on partitions whose committed offset is negative; None if there are no such partitions."""
    negative = [offset for offset in offsets if (offset.committed_offset or 0) < 0]
    if not negative:
        return None
    return (
        f"The committed offset of {_named(negative)} is negative. A consumer treats it as none, and begins "
        f"where auto.offset.reset says."
    )


def _shows_pending(warehouse: Tables, log_partitions: Iterable[int], at: datetime) -> set[int]:
    """Return the log partitions whose records show all commits that were pending at a point in time.

    Args:
        warehouse: the tables to read.
        log_partitions: numbers of the log partitions to check.
        at: the point in time.
    """
    # The cleaner may have removed a pending commit after the end of its transaction. It has removed none if two things
    # are true. The point in time lies in a range of the log in which no record is missing. And all transactions that
    # were open at the start of this range had ended at the point in time.
    history = warehouse.completeness
    if history.is_whole:
        return set(log_partitions)
    return {
        partition.log_partition
        for partition in history.some(log_partitions)
        if partition.is_whole
        or any(_are_over(warehouse, partition.log_partition, part, at) for part in partition.complete_at(at))
    }


def _are_over(warehouse: Tables, log_partition: int, part: CompleteRange, at: datetime) -> bool:
    """Return whether all transactions that were open at the first log offset of a range had ended at a point in time.

    Return False if the first log offset is unknown.

    Args:
        warehouse: the tables to read.
        log_partition: number of the log partition.
        part: a range of log offsets in which no record is missing.
        at: the point in time.
    """
    if not part.exact_from_offset:
        return part.exact_from_offset == 0
    bounds = {"from_offset": part.exact_from_offset, "to_offset": part.to_offset}
    [[ended_at]] = warehouse.rows(_OPEN_UNTIL, log_partition=log_partition, **bounds)
    return ended_at is None or ended_at <= at


def with_lag(offsets: Iterable[CommittedOffset], end_offsets: Mapping[TopicPartition, int]) -> list[CommittedOffset]:
    """Return committed offsets with the end offset and the lag of each partition filled in.

    The lag stays None in these cases:

    - ``end_offsets`` does not have the partition.
    - The committed offset is not on record, or negative.
    - The topic was deleted after the commit, or may have been deleted and created again.
    """
    measured = []
    for offset in offsets:
        end, committed = end_offsets.get((offset.topic, offset.partition)), offset.committed_offset
        has_lag = committed is not None and committed >= 0 and offset.is_topic_current
        lag = end - committed if has_lag and end is not None and committed is not None else None
        measured.append(replace(offset, end_offset=end, lag=lag))
    return measured


@dataclass(frozen=True, slots=True)
class ResetFile:
    """The result of writing a reset file.

    Attributes:
        written: number of lines in the file.
        left_out: partitions that are not in the file, by reason.
    """

    written: int
    left_out: Mapping[str, Sequence[TopicPartition]]

    def __str__(self) -> str:
        """Return a clause that says which partitions are not in the file and why.

        Return an empty text if all partitions are in the file.
        """
        return "; ".join(f"{ranges_by_topic(partitions)} ({why})" for why, partitions in self.left_out.items())


def _why_not_written(offset: CommittedOffset, *, include_unproven: bool, include_live: bool) -> str | None:
    """Return the reason why an offset is left out of a reset file; None if the offset is written.

    Args:
        offset: the offset.
        include_unproven: see ``write_reset_file``.
        include_live: see ``write_reset_file``.
    """
    if offset.committed_offset is None:
        return "a transactional commit was pending" if offset.is_unstable else "not on record"
    if offset.committed_offset < 0:
        return "a negative offset, which a consumer treats as none"
    doubts = {
        "a transactional commit was pending, or may have been": offset.is_stable,
        "may be of an aborted transaction: the input has no transaction markers": offset.is_proven is not False,
        "the log does not prove it": offset.is_exact,
        "of a topic that was deleted or created again since": offset.is_topic_current,
        "has a committed offset again, or may have one": include_live
        or offset.removed_by is None
        or offset.is_committed_again is False,
    }
    return None if include_unproven else next((why for why, is_sure in doubts.items() if not is_sure), None)


def write_reset_file(
    offsets: Iterable[CommittedOffset],
    path: Path,
    *,
    include_unproven: bool = False,
    include_live: bool = False,
    has_groups: bool = False,
) -> ResetFile:
    """Write offsets in the format that ``kafka-consumer-groups --reset-offsets --from-file`` reads.

    The file has no heading, and one line for each partition: topic, partition, offset. If ``has_groups``, the group
    comes before the topic.

    Partitions whose offset is negative or not on record are left out. Two kinds of offsets are written only on request:

    - doubtful offsets: offsets that are not exact, not proven or not stable, and offsets of a topic that was deleted
      or created again later,
    - live offsets: removed offsets of partitions that later got another offset, or may have got one.

    Args:
        offsets: the offsets to write.
        path: the file.
        include_unproven: also write doubtful and live offsets.
        include_live: also write live offsets.
        has_groups: whether each line begins with the id of the group. Kafka's tool needs the ids if the file has
            offsets of more than one group.

    Raises:
        UsageError: no offset can be written, or the file can't be written.
    """
    rows: list[tuple[str | int | None, ...]] = []
    left_out: dict[str, list[TopicPartition]] = {}
    for offset in offsets:
        why = _why_not_written(offset, include_unproven=include_unproven, include_live=include_live)
        if why is None:
            group = (offset.group_id,) if has_groups else ()
            rows.append((*group, offset.topic, offset.partition, offset.committed_offset))
        else:
            left_out.setdefault(why, []).append((offset.topic, offset.partition))
    result = ResetFile(len(rows), left_out)
    if not rows:
        which = f": {result}" if left_out else ""
        hint = "; --include-unproven writes these, too" if which and not include_unproven else ""
        raise UsageError(f"there is no committed offset to write into a reset file{which}{hint}")
    with writing(path), path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    return result
