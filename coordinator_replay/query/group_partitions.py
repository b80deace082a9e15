"""The log partition with a group's records, and whether audits have read this log partition.

A broker puts a group into partition ``Utils.abs(groupId.hashCode()) % partitions`` of ``__consumer_offsets``
(``GroupCoordinatorService.partitionFor``). A dump of one broker has only some of the partitions, so the tables may know
nothing about groups in the other partitions.
"""

import math
from collections.abc import Collection, Iterable

from coordinator_replay.java_strings import positive_hash
from coordinator_replay.listing import listed
from coordinator_replay.query.group_rows import GROUP_ROWS
from coordinator_replay.query.tables import Tables

OFFSETS_TOPIC = "__consumer_offsets"

_NAMED_COUNT = f"""
    SELECT max(partition_count) FROM topics WHERE cluster = $cluster AND topic = '{OFFSETS_TOPIC}'
"""  # noqa: S608 - put together from constants


def log_partition_of(group: str, partition_count: int) -> int:
    """Return the partition of ``__consumer_offsets`` that a group's records are in.

    >>> log_partition_of("payments", 50)
    13

    Args:
        group: id of the group.
        partition_count: partitions of ``__consumer_offsets``: ``offsets.topic.num.partitions``, 50 by default.
    """
    return positive_hash(group) % partition_count


def fitting_count(groups: Iterable[tuple[str, int]], highest: int) -> int | None:
    """Infer the partition count of ``__consumer_offsets`` from groups and their log partitions.

    Args:
        groups: groups, each with its log partition.
        highest: the highest number of a log partition that is known to exist.

    Returns:
        The count; None if several counts explain the log partitions of the groups, or no count does.
    """
    # Each number that fits divides all the differences, and so their greatest common divisor.
    common = math.gcd(*(positive_hash(group) - partition for group, partition in groups))
    if common == 0:
        return None
    roots = [number for number in range(1, math.isqrt(common) + 1) if common % number == 0]
    fitting = {number for root in roots for number in (root, common // root) if number > highest}
    return fitting.pop() if len(fitting) == 1 else None


def partition_count(warehouse: Tables) -> int | None:
    """Return the partition count of ``__consumer_offsets``; None if it is unknown.

    The count is in the cluster metadata, or follows from the log partitions of the groups.
    """
    audited = warehouse.completeness.partitions
    [(named,)] = warehouse.rows(_NAMED_COUNT)
    if named is not None or not audited:
        return None if named is None else int(named)
    # Groups' own records are far fewer than offsets, and usually they are enough.
    for source in ("group_timeline WHERE cluster = $cluster", GROUP_ROWS):
        sql = f"SELECT DISTINCT group_id, log_partition FROM {source}"  # noqa: S608 - put together from constants
        if count := fitting_count(warehouse.rows(sql), max(audited)):
            return count
    return None


def unaudited_reason(warehouse: Tables, group: str) -> str | None:
    """Return a clause that says why a group has no record in the tables: its log partition was perhaps not audited.

    Return None if the group's log partition was audited, or if no log partition was audited.
    """
    audited = warehouse.completeness.partitions
    count = partition_count(warehouse)
    if count is None:
        return f"only {_only(audited)}" if audited else None
    partition = log_partition_of(group, count)
    return None if partition in audited else f"audits have read no record of its log partition {partition}"


def _only(audited: Collection[int]) -> str:
    """Return a clause that names the audited log partitions, and says that the partition count is unknown.

    >>> _only([0])
    'log partition 0 was audited, and the partition count of __consumer_offsets is not known'
    """
    partitions = f"log partition {listed(sorted(audited), 10)} was"
    if len(audited) > 1:
        partitions = f"log partitions {listed(sorted(audited), 10)} were"
    return f"{partitions} audited, and the partition count of {OFFSETS_TOPIC} is not known"


def unaudited_note(warehouse: Tables) -> str | None:
    """Return a note that names the log partitions of which audits have read no record.

    Return None if audits have read all log partitions.
    """
    audited = warehouse.completeness.partitions
    count = partition_count(warehouse)
    if count is None:
        elsewhere = "groups in other log partitions are not in this warehouse"
        return f"Only {_only(audited)}: {elsewhere}." if audited else None
    missing = sorted(set(range(count)) - set(audited))
    if not missing:
        return None
    return (
        f"Audits have read no record of {len(missing)} of the {count} partitions of {OFFSETS_TOPIC} "
        f"({listed(missing, 10)}): this warehouse knows no group in them."
    )
