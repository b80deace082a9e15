"""What happened to a group, in log order; and how its members were, interval by interval."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from coordinator_replay.query.groups import check_group
from coordinator_replay.query.partitions import TopicPartitions, topic_partitions
from coordinator_replay.query.warehouse import Warehouse

_EVENTS = """
    SELECT t.log_timestamp, t.seq, t.event, t.group_type, t.from_state, t.to_state, t.epoch, t.assignment_epoch,
           t.member_id, t.instance_id, t.member_count, t.rebalance_id, r.cause, r.confidence, t.detail, t.is_exact,
           t.log_partition, t.log_offset
    FROM group_timeline t
    LEFT JOIN rebalances r
      ON r.cluster = t.cluster AND r.rebalance_id = t.rebalance_id AND r.epoch = t.epoch
     AND (t.event IN ('REBALANCE_STARTED', 'GROUP_EMPTIED')
          OR t.group_type = 'classic' AND t.event IN ('REBALANCE_COMPLETED', 'EPOCH_CHANGED'))
    WHERE t.cluster = $cluster AND t.group_id = $group
      AND coalesce(t.log_timestamp >= $start, true) AND coalesce(t.log_timestamp < $end, true)
    ORDER BY t.seq
"""

_INTERVALS = """
    SELECT valid_from, valid_to, member_id, instance_id, client_id, client_host, member_epoch, member_state, assigned,
           pending_revocation, target, log_partition, from_offset
    FROM member_timeline
    WHERE cluster = $cluster AND group_id = $group
      AND coalesce(valid_to > $start, true) AND coalesce(valid_from < $end, true)
    ORDER BY from_offset, member_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEvent:
    """One thing that happened to a group: a row of ``group_timeline``, its detail parsed.

    Attributes:
        cause: why the group rebalanced, at the event that tells of the rebalance; None at all others.
        confidence: how sure that is.
    """

    log_timestamp: datetime | None
    seq: int
    event: str
    group_type: str
    from_state: str | None
    to_state: str | None
    epoch: int | None
    assignment_epoch: int | None
    member_id: str | None
    instance_id: str | None
    member_count: int | None
    rebalance_id: str | None
    cause: str | None
    confidence: str | None
    detail: Any
    is_exact: bool
    log_partition: int
    log_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberInterval:
    """How a member was from one moment to another: a row of ``member_timeline``."""

    valid_from: datetime | None
    valid_to: datetime | None
    member_id: str
    instance_id: str | None
    client_id: str | None
    client_host: str | None
    member_epoch: int | None
    member_state: str | None
    assigned: tuple[TopicPartitions, ...]
    pending_revocation: tuple[TopicPartitions, ...]
    target: tuple[TopicPartitions, ...] | None
    log_partition: int
    from_offset: int


def _parsed(detail: str | None) -> Any:
    if detail is None:
        return None
    try:
        return json.loads(detail)
    except ValueError:
        return detail


def timeline_of(
    warehouse: Warehouse, group: str, start: datetime | None = None, end: datetime | None = None
) -> list[TimelineEvent]:
    """What happened to a group within a stretch of time, in log order.

    Args:
        warehouse: the tables.
        group: the group.
        start: from then on; None: from the first record.
        end: up to then, not included; None: to the last record.

    Raises:
        UsageError: the tables don't know the group, or nothing of that stretch of time.
    """
    rows = warehouse.rows(_EVENTS, group=group, start=start, end=end)
    if not rows:
        check_group(warehouse, group)
        warehouse.check_range(start, end)
    names = TimelineEvent.__slots__
    return [
        TimelineEvent(**{**dict(zip(names, row, strict=True)), "detail": _parsed(row[names.index("detail")])})
        for row in rows
    ]


def member_intervals_of(
    warehouse: Warehouse, group: str, start: datetime | None = None, end: datetime | None = None
) -> list[MemberInterval]:
    """The intervals of a group's members that touch a stretch of time, in log order.

    Args:
        warehouse: the tables.
        group: the group.
        start: from then on; None: from the first record.
        end: up to then, not included; None: to the last record.

    Raises:
        UsageError: the tables don't know the group, or nothing of that stretch of time.
    """
    rows = warehouse.rows(_INTERVALS, group=group, start=start, end=end)
    if not rows:
        check_group(warehouse, group)
        warehouse.check_range(start, end)
    return [
        MemberInterval(
            valid_from=row[0],
            valid_to=row[1],
            member_id=row[2],
            instance_id=row[3],
            client_id=row[4],
            client_host=row[5],
            member_epoch=row[6],
            member_state=row[7],
            assigned=topic_partitions(row[8]),
            pending_revocation=topic_partitions(row[9]),
            target=None if row[10] is None else topic_partitions(row[10]),
            log_partition=row[11],
            from_offset=row[12],
        )
        for row in rows
    ]
