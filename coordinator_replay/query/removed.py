"""Offsets and groups that had been removed by a point in time, with the time and the reason."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from coordinator_replay.analysis.expiring import TOPIC_DELETED
from coordinator_replay.answer_columns import column
from coordinator_replay.listing import partition_ranges
from coordinator_replay.query.group_moves import in_log_order
from coordinator_replay.query.tables import AS_OF, END, Tables
from coordinator_replay.times import moment_text


def _last_ends(*others: str) -> str:
    """Return a SELECT that finds the last removed offset of each partition in the table ``offset_history``.

    Args:
        others: offsets with these values of ``ended_by`` don't count as removed.
    """
    left_out = ", ".join(repr(ended_by) for ended_by in ("COMMIT", *others))
    return f"""
        SELECT * FROM (
            SELECT *, {in_log_order("offset_history", "to_offset")} AS place FROM offset_history
            WHERE cluster = $cluster AND group_id = $group AND coalesce(valid_to <= $at, true)
              AND ended_by NOT IN ({left_out})
        )
        QUALIFY row_number() OVER (PARTITION BY topic, partition ORDER BY place DESC) = 1
    """  # noqa: S608 - put together from constants


# Partitions with a later commit in force are left out.
_LOST = f"""
    SELECT * FROM ({_last_ends()})
    WHERE (topic, partition) NOT IN (
        SELECT (topic, partition) FROM offset_history
        WHERE cluster = $cluster AND group_id = $group AND {AS_OF}
    )
"""  # noqa: S608 - put together from constants

LAST_REMOVALS = _last_ends("GROUP_MOVED", "RECORDS_MISSING")
"""SQL for the last removed offset of each partition up to a point in time: a row of ``offset_history``. The partition
may have been committed again later."""

_BY_REASON = """
    SELECT topic, list_sort(list(partition)), ended_by, max(valid_to), ended_confidence, ended_alternatives,
           ended_evidence
    FROM ({rows})
    GROUP BY topic, ended_by, ended_confidence, ended_alternatives, ended_evidence, date_trunc('second', valid_to)
    ORDER BY max(valid_to), topic
"""

_GROUPS = f"""
    WITH ends AS (
        SELECT group_id, arg_max(event = 'GROUP_DELETED' OR to_state IS NOT DISTINCT FROM 'Dead', seq) AS is_deleted,
               arg_max(group_type, seq) AS group_type, arg_max(coalesce(is_exact, false), seq) AS is_exact,
               arg_max(log_timestamp, seq) AS deleted_at, max(log_timestamp) FILTER (member_count > 0) AS last_member_at
        FROM group_timeline WHERE cluster = $cluster AND coalesce(log_timestamp <= $at, true) {{of_groups}}
        GROUP BY group_id
    ), offsets AS (
        SELECT group_id, bool_or({AS_OF}) AS has_offsets, max(valid_to) AS removed_at,
               max(commit_timestamp) AS last_commit_at,
               count(DISTINCT (topic, partition)) FILTER (ended_by <> 'COMMIT' AND valid_to <= $at) AS removed,
               arg_max(ended_by, place) FILTER (ended_by <> 'COMMIT' AND valid_to <= $at) AS ended_by,
               arg_max(ended_confidence, place) FILTER (ended_by <> 'COMMIT' AND valid_to <= $at) AS confidence,
               bool_and(coalesce(is_exact, false) AND ended_by <> 'RECORDS_MISSING') FILTER (ended_by <> 'COMMIT')
                   AS is_exact
        FROM (
            SELECT *, {in_log_order("offset_history", "to_offset")} AS place FROM offset_history
            WHERE cluster = $cluster AND coalesce(valid_from <= $at, true) {{of_groups}}
        ) GROUP BY group_id
    ), waiting AS (
        SELECT DISTINCT group_id FROM pending_offsets WHERE cluster = $cluster AND {AS_OF} {{of_groups}}
    )
    SELECT id, group_type, CASE WHEN is_exact THEN ended_at END, CASE WHEN NOT is_exact THEN deleted_at END, ended_by,
           confidence, removed, last_member_at, last_commit_at, is_exact
    FROM (
        SELECT coalesce(ends.group_id, offsets.group_id) AS id, coalesce(group_type, 'classic') AS group_type,
               coalesce(deleted_at, removed_at) AS ended_at, deleted_at, ended_by, confidence,
               coalesce(removed, 0) AS removed, last_member_at, last_commit_at,
               coalesce(ends.is_exact, offsets.is_exact, false) AS is_exact
        FROM ends FULL JOIN offsets ON offsets.group_id = ends.group_id
        WHERE coalesce(is_deleted, true) AND NOT coalesce(has_offsets, false)
          AND coalesce(ends.group_id, offsets.group_id) NOT IN (SELECT group_id FROM waiting)
    )
    ORDER BY ended_at, id
"""  # noqa: S608 - put together from constants

MOST_NOTES = 10
"""Largest number of notes about removed offsets in an answer; the history of a topic has the others."""

_WORDS = {
    "EXPIRED": "expired (offsets.retention.minutes)",
    "DELETED": "deleted (DeleteOffsets, or the topic was deleted)",
    "GROUP_DELETED": "deleted with the group",
    "TOMBSTONE": "removed; the log does not say why",
    "GROUP_MOVED": "left behind as the group moved to another log partition",
}

GROUP_MOVED = "GROUP_MOVED"
"""The offset no longer counts, because the group moved to another log partition."""

RECORDS_MISSING = "RECORDS_MISSING"
"""No record shows how the offset was replaced or removed, because records of that time are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedOffsets:
    """Offsets of one topic that were removed in the same second for the same reason.

    Attributes:
        ended_by: EXPIRED, DELETED, GROUP_DELETED or GROUP_MOVED. TOMBSTONE if the log does not show why.
            RECORDS_MISSING if no record shows the removal.
        ended_at: the time of the last of these removals; None if no record has this time.
        evidence: sentences that support the cause in ``ended_by``.
    """

    topic: str
    partitions: Sequence[int]
    ended_by: str
    ended_at: datetime | None
    confidence: str | None
    alternatives: Sequence[str] | None
    evidence: Sequence[str] | None

    def __str__(self) -> str:
        """Return a sentence that says when and why the offsets were removed."""
        if self.ended_by == RECORDS_MISSING:
            until = "" if self.ended_at is None else f" was in force at least until {moment_text(self.ended_at)};"
            return f"{self.topic}:{partition_ranges(self.partitions)}{until} what removed it is not on record"
        when = "" if self.ended_at is None else f" at {moment_text(self.ended_at)}"
        sure = f", {self.confidence}" if self.confidence else ""
        is_topic_deleted = any(fact.startswith(TOPIC_DELETED) for fact in self.evidence or ())
        what = "deleted with its topic" if is_topic_deleted else _WORDS.get(self.ended_by, self.ended_by)
        reason = f": {'; '.join(self.evidence)}" if self.evidence else ""
        others = f". Could also be: {', '.join(self.alternatives)}" if self.alternatives else ""
        return f"{self.topic}:{partition_ranges(self.partitions)} {what}{when}{sure}{reason}{others}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedGroup:
    """A group that existed before a point in time, but no longer at that time.

    Attributes:
        deleted_at: the time at which the group was deleted; None if the log does not prove this time.
        absent_from: if ``deleted_at`` is None, a time from which on the group certainly did not exist.
        reason: why the group was deleted. EXPIRED: its last offsets expired. GROUP_DELETED: somebody called
            DeleteGroups. DELETED: somebody called DeleteOffsets, and the group had only offsets. None if the group had
            no offsets, because then the log does not show the reason.
        offsets_removed: number of partitions whose offsets had been removed before the point in time.
        last_member_at: the time at which the group last had a member; None for a group that only stored offsets.
        is_exact: whether the log proves when the group was deleted.
    """

    group_id: str = column("GROUP", 1, is_id=True)
    group_type: str = column("TYPE", 2)
    deleted_at: datetime | None = column("DELETED-AT", 1)
    absent_from: datetime | None
    reason: str | None = column("REASON", 1)
    confidence: str | None = column("CONFIDENCE", 2)
    offsets_removed: int = column("#OFFSETS-REMOVED", 4)
    last_member_at: datetime | None = column("LAST-MEMBER-AT", 3)
    last_commit_at: datetime | None = column("LAST-COMMIT-AT", 3)
    is_exact: bool

    @property
    def deletion(self) -> str:
        """Return a clause such as ``deleted at 2026-11-20T02:13:00Z``.

        If no record has the time of the deletion, the clause says so.
        """
        if self.deleted_at is not None:
            return f"deleted at {moment_text(self.deleted_at)}"
        before = "" if self.absent_from is None else f" before {moment_text(self.absent_from)}"
        return f"deleted{before}, when is not on record"


def removed_offsets(warehouse: Tables, group: str, at: datetime | None = None) -> list[RemovedOffsets]:
    """Return the removed offsets of the partitions that had no committed offset at a point in time.

    For each partition, the result has the last removal before this time.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        at: the point in time; the end of the log if None.
    """
    return warehouse.answers(RemovedOffsets, _BY_REASON.format(rows=_LOST), group=group, at=at or END)


def last_removals(warehouse: Tables, group: str, at: datetime | None = None) -> list[RemovedOffsets]:
    """Return the last removal of the committed offset of each partition of a group.

    Partitions that got another committed offset after the removal are included.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        at: only removals up to this point in time; the end of the log if None.
    """
    return warehouse.answers(RemovedOffsets, _BY_REASON.format(rows=LAST_REMOVALS), group=group, at=at or END)


def deleted_groups(
    warehouse: Tables, at: datetime | None = None, *, group: str | None = None, types: Sequence[str] = ()
) -> list[DeletedGroup]:
    """Return groups that were deleted before a point in time, and did not exist at this time.

    The groups are in the order of their deletion.

    A group that only stored offsets counts as deleted when its last offset is removed.

    Args:
        warehouse: the tables to read.
        at: the point in time; the end of the log if None.
        group: only this group; None for all groups.
        types: only groups of these types, in upper or lower case; all if empty.
    """
    deleted = warehouse.answers(DeletedGroup, _GROUPS, at=at or END, group=group)
    wanted = {name.lower() for name in types}
    return [deletion for deletion in deleted if not wanted or deletion.group_type.lower() in wanted]


def removal_notes(removed: Sequence[RemovedOffsets], but: Collection[tuple[str, int]] = ()) -> list[str]:
    """Return notes that say when and why offsets of a group were removed. The note on the latest removal is the last.

    Args:
        removed: the removed offsets, in order of the removals.
        but: partitions to leave out.
    """
    excepted = frozenset(but)
    wanted = [
        replace(deletion, partitions=left)
        for deletion in removed
        if (left := [partition for partition in deletion.partitions if (deletion.topic, partition) not in excepted])
    ]
    notes = [f"{note}." for note in wanted[-MOST_NOTES:]]
    if len(wanted) > MOST_NOTES:
        notes.append(f"Offsets were removed {len(wanted):,} times, of which these are the latest.")
    return notes


def before_removal_note(removed: Sequence[RemovedOffsets]) -> str | None:
    """Return a note that tells the user how to ask for the offsets just before they were removed.

    Return None if none of the offsets was removed by a record.

    Args:
        removed: the removed offsets.
    """
    if all(deletion.ended_by in (RECORDS_MISSING, GROUP_MOVED) for deletion in removed):
        return None
    return "--before-removal asks for the offsets just before their removal."
