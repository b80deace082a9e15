"""What happened to a group and to its offsets, in log order; and how its members were, interval by interval."""

import heapq
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from coordinator_replay.query.event_words import words_of
from coordinator_replay.query.groups import check_group
from coordinator_replay.query.offset_events import offset_events
from coordinator_replay.query.partitions import TopicPartitions, topic_partitions
from coordinator_replay.query.warehouse import Warehouse

_EVENTS = """
    SELECT t.log_timestamp, t.seq, t.event, t.group_type, t.from_state, t.to_state, t.epoch, t.assignment_epoch,
           t.member_id, t.instance_id, t.member_count, t.rebalance_id, r.cause, r.confidence, NULL, t.detail,
           t.is_exact, t.log_partition, t.log_offset
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
           pending_revocation, target, log_partition, from_offset, coalesce(is_client_inherited, false),
           coalesce(is_exact, false), coalesce(is_begin_open, true)
    FROM member_timeline
    WHERE cluster = $cluster AND group_id = $group
      AND coalesce(valid_to > $start, to_offset IS NULL OR $start IS NULL) AND coalesce(valid_from < $end, true)
    ORDER BY from_offset, member_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEvent:
    """One thing that happened to a group (a row of ``group_timeline``) or to its offsets (summed up).

    Attributes:
        seq: place among the group's own events; None for an event of its offsets.
        group_type: None for an event of its offsets, as are states, epochs and members.
        summary: cause and detail in words; None where there is nothing to add.
        detail: the detail as the table has it, parsed.
        cause: why the group rebalanced, at the event that tells of the rebalance; None at all others.
        confidence: how sure that is.
    """

    log_timestamp: datetime | None
    seq: int | None
    event: str
    group_type: str | None
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
    summary: str | None
    detail: Any
    is_exact: bool
    log_partition: int
    log_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberInterval:
    """How a member was from one time to another: a row of ``member_timeline``.

    Attributes:
        is_exact: whether the log proves it in the whole interval.
        is_begin_open: whether it may have been so before, too: the log does not have what was before ``valid_from``.
    """

    valid_from: datetime | None
    valid_to: datetime | None
    member_id: str
    instance_id: str | None
    client_id: str | None
    client_host: str | None
    is_client_inherited: bool
    member_epoch: int | None
    member_state: str | None
    assigned: tuple[TopicPartitions, ...]
    pending_revocation: tuple[TopicPartitions, ...]
    target: tuple[TopicPartitions, ...] | None
    log_partition: int
    from_offset: int
    is_exact: bool
    is_begin_open: bool


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
    """What happened to a group and its offsets in a time range, in log order.

    Args:
        warehouse: the tables.
        group: the group.
        start: from then on; None: from the first record.
        end: up to then, not included; None: to the last record.

    Raises:
        UsageError: the tables don't know the group, or nothing of that time range.
    """
    warehouse.check_range(start, end)
    of_group = [_event(row) for row in warehouse.rows(_EVENTS, group=group, start=start, end=end)]
    of_offsets = [_offset_event(*told) for told in offset_events(warehouse, group, start, end)]
    if not of_group and not of_offsets:
        check_group(warehouse, group)
    # A group lives in one log partition: its events and those of its offsets share their order.
    return list(heapq.merge(of_group, of_offsets, key=lambda event: event.log_offset))


def _event(row: tuple[Any, ...]) -> TimelineEvent:
    values = dict(zip(TimelineEvent.__slots__, row, strict=True))
    detail = _parsed(values["detail"])
    cause = None if values["cause"] is None else f"{values['cause']} ({values['confidence']})"
    words = words_of(values["event"], detail)
    if words is None and values["event"] == "REBALANCE_COMPLETED" and values["epoch"] is not None:
        words = f"{values['to_state']} at epoch {values['epoch']}"
    summary = ", ".join(part for part in (cause, words) if part)
    return TimelineEvent(**{**values, "detail": detail or None, "summary": summary or None})


def _offset_event(
    event: str, at: datetime | None, log_partition: int, log_offset: int, detail: dict[str, Any], is_exact: bool
) -> TimelineEvent:
    return TimelineEvent(
        log_timestamp=at,
        seq=None,
        event=event,
        group_type=None,
        from_state=None,
        to_state=None,
        epoch=None,
        assignment_epoch=None,
        member_id=None,
        instance_id=None,
        member_count=None,
        rebalance_id=None,
        cause=None,
        confidence=None,
        summary=words_of(event, detail),
        detail=detail,
        is_exact=is_exact,
        log_partition=log_partition,
        log_offset=log_offset,
    )


def member_intervals_of(
    warehouse: Warehouse, group: str, start: datetime | None = None, end: datetime | None = None
) -> list[MemberInterval]:
    """The intervals of a group's members that touch a time range, in log order.

    Args:
        warehouse: the tables.
        group: the group.
        start: from then on; None: from the first record.
        end: up to then, not included; None: to the last record.

    Raises:
        UsageError: the tables don't know the group, or nothing of that time range.
    """
    warehouse.check_range(start, end)
    rows = warehouse.rows(_INTERVALS, group=group, start=start, end=end)
    if not rows:
        check_group(warehouse, group)
    return [
        MemberInterval(
            valid_from=row[0],
            valid_to=row[1],
            member_id=row[2],
            instance_id=row[3],
            client_id=row[4],
            client_host=row[5],
            is_client_inherited=row[13],
            member_epoch=row[6],
            member_state=row[7],
            assigned=topic_partitions(row[8]),
            pending_revocation=topic_partitions(row[9]),
            target=None if row[10] is None else topic_partitions(row[10]),
            log_partition=row[11],
            from_offset=row[12],
            is_exact=row[14],
            is_begin_open=row[15],
        )
        for row in rows
    ]
