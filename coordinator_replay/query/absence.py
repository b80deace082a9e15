"""Proofs that a group, or a committed offset, did not exist at a point in time, if records are missing from the log.

If a copy of a log partition has a tombstone and a later record of the same key, then the key had no value between the
two. The reason: if there had been a record of the key between the two, the cleaner would have removed the tombstone
together with this record.

There is one exception: the cleaner always removes the commits of an aborted transaction. Before the abort, such a
commit was pending, and a group exists as long as one of its commits is pending (``OffsetMetadataManager.replay``).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import Any, NamedTuple

from coordinator_replay.completeness.past import LogPartition
from coordinator_replay.query.tables import Tables

# Ranges of records in those copies of the log partition that end at an offset or later.
_HAS = """
    SELECT from_offset, to_offset FROM log_copies
    WHERE cluster = $cluster AND log_partition = $log_partition AND end_offset >= $end_offset
"""

# Keys with a record after the time asked about: the offset of the first such record, and the last tombstone before it.
# A record that could not be decoded counts as a key without a tombstone. Groups without a tombstone are left out.
_LATER_KEYS = """
    WITH removed AS (
        SELECT group_id FROM offset_commits
        WHERE cluster = $cluster AND is_tombstone AND log_timestamp <= $at {of_groups}
        UNION
        SELECT group_id FROM group_records
        WHERE cluster = $cluster AND is_tombstone AND log_timestamp <= $at {of_groups}
    )
    SELECT group_id, log_partition, is_own, min(log_offset) FILTER (is_later) AS next_offset,
           arg_max(log_timestamp, log_offset) FILTER (is_tombstone AND NOT is_later),
           max(log_offset) FILTER (is_tombstone AND NOT is_later)
    FROM (
        SELECT group_id, log_partition, log_offset, log_timestamp, false AS is_own, [topic, partition::VARCHAR] AS key,
               is_tombstone, coalesce(log_timestamp > $at, true) AS is_later
        FROM offset_commits WHERE cluster = $cluster {of_groups}
        UNION ALL
        SELECT group_id, log_partition, log_offset, log_timestamp, true, [kind, key_json],
               is_tombstone, coalesce(log_timestamp > $at, true)
        FROM group_records WHERE cluster = $cluster {of_groups}
        UNION ALL
        SELECT group_id, log_partition, coalesce(log_offset, 0), log_timestamp, true, [key_json], false, true
        FROM quarantine WHERE cluster = $cluster {of_groups}
    ) SEMI JOIN removed USING (group_id)
    GROUP BY group_id, log_partition, is_own, key
    HAVING next_offset IS NOT NULL
"""

# Of each producer, the first marker of a complete range ends the transaction that was open at the start of the range. A
# marker counts only if it comes before the end of the first copy that has everything from that start on: the cleaner
# had removed no record of transactions that were still open at that end.
_HIDING = """
    WITH spans AS (
        SELECT unnest($log_partitions) AS log_partition, unnest($from_offsets) AS from_offset,
               unnest($to_offsets) AS to_offset
    ), parts AS (
        SELECT spans.log_partition, spans.from_offset, least(any_value(spans.to_offset), min(end_offset)) AS to_offset
        FROM spans LEFT JOIN log_copies AS copies
          ON cluster = $cluster AND copies.log_partition = spans.log_partition AND NOT is_export
          AND copies.from_offset <= spans.from_offset AND end_offset >= spans.from_offset
          AND copies.to_offset = end_offset
        GROUP BY spans.log_partition, spans.from_offset
    ), ends AS (
        SELECT log_partition, arg_min(log_timestamp, log_offset) AS ended_at,
               arg_min(control_type, log_offset) AS ended_by
        FROM control_records JOIN parts USING (log_partition)
        WHERE cluster = $cluster AND control_type <> 'OTHER' AND log_offset >= from_offset AND log_offset < to_offset
        GROUP BY log_partition, from_offset, producer_id
    )
    SELECT DISTINCT log_partition FROM ends WHERE ended_by = 'ABORT' AND coalesce(ended_at > $at, true)
"""


class Tombstone(NamedTuple):
    """A tombstone of a key.

    Attributes:
        removed_at: time of the tombstone.
        log_offset: log offset of the tombstone.
    """

    removed_at: datetime
    log_offset: int


@dataclass(frozen=True, slots=True)
class KnownGroups:
    """Groups that are proven to have had no members, or not to have existed, at a point in time.

    Attributes:
        without_members: groups that are proven to have had no members and no group metadata. They may have had offsets.
        absent: groups that are proven not to have existed.
    """

    without_members: Sequence[str] = ()
    absent: Sequence[str] = ()


def kept_ranges(warehouse: Tables, partition: LogPartition, at: datetime) -> Sequence[tuple[Any, ...]]:
    """Return the ranges of log offsets that copies of a log partition cover.

    Copies that end before the point in time ``at`` are left out. If the log partition has gaps, the result is empty.
    """
    asked = {"log_partition": partition.log_partition, "end_offset": partition.read_to(at)}
    return () if partition.gaps else warehouse.rows(_HAS, **asked)


def is_removed(
    partition: LogPartition, at: datetime, tombstone: Tombstone | None, kept: Callable[[], Iterable[Sequence[int]]]
) -> bool:
    """Return whether the last tombstone of a key proves that the key had no value at a point in time.

    Args:
        partition: the log partition of the group.
        at: the point in time.
        tombstone: the key's last tombstone up to the point in time; None if the log has no such tombstone.
        kept: function without arguments that calls ``kept_ranges`` for this log partition and point in time.
    """
    if tombstone is None:
        return False
    # If no hole lies between the tombstone and the point in time, no later record of the key is missing. If a hole lies
    # there, a copy from after the hole may still have the tombstone. Then the key had no later record: the cleaner
    # would have removed the tombstone.
    if not partition.has_hole_between(tombstone.removed_at, at):
        return True
    return any(first <= tombstone.log_offset < end for first, end in kept())


def known_groups(warehouse: Tables, groups: Mapping[str, int | None], at: datetime) -> KnownGroups:
    """Return the groups that are proven not to have existed, or to have had no members, at a point in time.

    Args:
        warehouse: the tables to read.
        groups: the groups to check, each with its log partition.
        at: the point in time.
    """
    history = warehouse.completeness
    provable = {
        number: (partition, proven_from, cache(partial(kept_ranges, warehouse, partition, at)))
        for number in set(groups.values())
        if number is not None
        and (partition := history.partitions.get(number)) is not None
        and (proven_from := partition.proven_from(at)) is not None
    }
    asked = [name for name, number in groups.items() if number in provable]
    if not asked:
        return KnownGroups()

    def is_known(group: str, log_partition: int | None, next_offset: int, *tombstone: Any) -> bool:
        """Return whether a key of a group is proven to have had no value at the point in time.

        Args:
            group: id of the group.
            log_partition: log partition of the key's records.
            next_offset: log offset of the key's first record after the point in time.
            tombstone: time and log offset of the key's last tombstone before the point in time. Both are None if there
                is no such tombstone.
        """
        if log_partition is None or log_partition != groups[group]:
            return False
        partition, proven_from, kept = provable[log_partition]
        last = None if None in tombstone else Tombstone(*tombstone)
        return next_offset >= proven_from or is_removed(partition, at, last, kept)

    # A group is in doubt because one of its keys has a later record. So a group without a key here remains in doubt.
    open_keys = {
        group: [is_own for number, is_own, *shown in keys if not is_known(group, number, *shown)]
        for group, keys in warehouse.rows_by_group(_LATER_KEYS, asked, at=at).items()
    }
    hiding = hiding_pending(warehouse, provable, at)
    return KnownGroups(
        without_members=[group for group, are_own in open_keys.items() if not any(are_own)],
        absent=[group for group, are_own in open_keys.items() if not are_own and groups[group] not in hiding],
    )


def hiding_pending(warehouse: Tables, log_partitions: Iterable[int], at: datetime) -> set[int]:
    """Return the log partitions that may lack a commit that was pending at a point in time and was aborted later.

    Args:
        warehouse: the tables to read.
        log_partitions: numbers of log partitions.
        at: the point in time.
    """
    # Such a commit can be missing only if its transaction began before the log offset from which the log is complete.
    # At log offset 0, no transaction is open.
    spans = [
        (partition.log_partition, span.from_offset, span.to_offset)
        for partition in warehouse.completeness.some(log_partitions)
        for span in partition.begun_at(at)
        if span.from_offset
    ]
    if not spans:
        return set()
    names = ("log_partitions", "from_offsets", "to_offsets")
    asked = {name: list(values) for name, values in zip(names, zip(*spans, strict=True), strict=True)}
    return {number for (number,) in warehouse.rows(_HIDING, at=at, **asked)}


def missing_groups_note(
    warehouse: Tables, at: datetime | None, log_partitions: Iterable[int] | None = None
) -> str | None:
    """Return a note that says that an answer may lack groups. Return None if the answer has all groups.

    An answer may lack a group that had only a pending transactional commit, because the cleaner may have removed this
    commit.

    Args:
        warehouse: the tables to read.
        at: the point in time of the answer; the end of the log if None.
        log_partitions: the log partitions of the answer; None for all.
    """
    history = warehouse.completeness
    asked = history.partitions if log_partitions is None else log_partitions
    if at is None or history.is_whole or not hiding_pending(warehouse, asked, at):
        return None
    return (
        "A group that then had only a pending transactional commit may not be on record: if the transaction was "
        "aborted later, the cleaner may have removed the commit."
    )
