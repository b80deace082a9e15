"""The timeline of a group: events of the group, of its offsets and of its coordinator. Also the states of members."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate
from typing import Any, NamedTuple

from coordinator_replay.analysis.broker_faults import KAFKA_12759
from coordinator_replay.answer_columns import column, parsed_json, row_with, select_list
from coordinator_replay.query.broker_logs.events import (
    GroupLine,
    contradictions,
    departure_of,
    departures,
    group_lines,
    refusals,
)
from coordinator_replay.query.coordinators import CHANGED, GroupCoordinatorChange, group_coordinator_changes
from coordinator_replay.query.event_words import words_of
from coordinator_replay.query.group_moves import moves_of, numbers_of, partition_at
from coordinator_replay.query.groups import check_group
from coordinator_replay.query.offset_events import offset_events
from coordinator_replay.query.partitions import TopicPartitions, target_partitions, topic_partitions
from coordinator_replay.query.tables import MEMBER_END_IS_OPEN, Tables
from coordinator_replay.times import EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEvent:
    """An event in the timeline of a group.

    There are four kinds of events:

    - an event of the group itself (a row of ``group_timeline``)
    - a summary of commits and removals of the group's offsets
    - a change of the group's coordinator
    - a line of a broker's log

    The fields that are not described here are columns of ``group_timeline`` (see ``schemas/tables``).

    Attributes:
        seq: serial number of the event in ``group_timeline``; None for the other three kinds of events.
        group_type: type of the group. Type, state, epoch and member count are None if the event is not a row of
            ``group_timeline``.
        log_offset: log offset of the event's record; None for a line of a broker's log. For a change of the
            coordinator, the log offset of the first known record that the new coordinator wrote; None if no such
            record is known.
        summary: a text with the event's cause and detail; None if the event has neither.
        detail: for events of the group, the column ``detail``, parsed from JSON.
        cause: the cause of a rebalance, at the event that began or completed the rebalance; None at all other events.
        confidence: how sure the cause is.
    """

    group_id: str
    log_timestamp: datetime | None = column("TIME", 1)
    seq: int | None
    event: str = column("EVENT", 1)
    group_type: str | None
    from_state: str | None = column("FROM-STATE", 8)
    to_state: str | None = column("TO-STATE", 3)
    epoch: int | None = column("EPOCH", 2)
    assignment_epoch: int | None
    member_count: int | None = column("#MEMBERS", 4)
    member_id: str | None = column("CONSUMER-ID", 1, 10, is_id=True)
    instance_id: str | None
    rebalance_id: str | None
    cause: str | None = column("CAUSE", 7, sql="r.cause")
    confidence: str | None = column("CONFIDENCE", 7, sql="r.confidence")
    is_exact: bool = column("EXACT", 8)
    log_partition: int
    log_offset: int | None = column("LOG-OFFSET", 8)
    summary: str | None = column("DETAIL", 1, 28, good=56, default=None)
    detail: Any = column(read=parsed_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberInterval:
    """A row of ``member_timeline``: the state of a member in an interval.

    The fields that are not described here are columns of this table (see ``schemas/tables/member_timeline.json``).

    Attributes:
        is_exact: whether the log proves this state in the whole interval.
        departure: how the member left at the end of the interval, if a broker's log says it.
        is_begin_open: whether the member may have been in this state before ``valid_from``, because records before that
            time are missing.
        is_end_open: whether the member may have been in this state after ``valid_to``, because records from that time
            on are missing.
    """

    group_id: str
    valid_from: datetime | None = column("FROM", 1)
    valid_to: datetime | None = column("TO", 1)
    client_id: str | None = column("CLIENT-ID", 1, 8, is_id=True)
    client_host: str | None = column("HOST", 2, 8, is_id=True)
    instance_id: str | None = column("GROUP-INSTANCE-ID", 1, 8, is_id=True)
    member_id: str = column("CONSUMER-ID", 3, 10, is_id=True)
    is_client_inherited: bool = column(sql="coalesce(is_client_inherited, false)")
    member_epoch: int | None = column("CURRENT-EPOCH", 2)
    member_state: str | None = column("MEMBER-STATE", 3)
    assigned: tuple[TopicPartitions, ...] = column("ASSIGNMENT", 1, 12, read=topic_partitions)
    pending_revocation: tuple[TopicPartitions, ...] = column("PENDING-REVOCATION", 3, 12, read=topic_partitions)
    target_assignment: tuple[TopicPartitions, ...] | None = column(sql="target", read=target_partitions)
    departure: str | None = column("DEPARTURE", 1, 12, good=18, default=None)
    log_partition: int
    from_offset: int = column("LOG-OFFSET", 6)
    is_exact: bool = column(sql="coalesce(is_exact, false)")
    is_begin_open: bool = column(rank=2, bound="MAYBE-EARLIER", sql="coalesce(is_begin_open, true)")
    is_end_open: bool = column(rank=2, bound="MAYBE-LATER", sql=MEMBER_END_IS_OPEN)


_EVENTS = f"""
    SELECT {select_list(TimelineEvent, "t")}
    FROM group_timeline t
    LEFT JOIN rebalances r
      ON r.cluster = t.cluster AND r.rebalance_id = t.rebalance_id AND r.epoch = t.epoch
     AND (t.event IN ('REBALANCE_STARTED', 'GROUP_EMPTIED')
          OR t.group_type = 'classic' AND t.event IN ('REBALANCE_COMPLETED', 'EPOCH_CHANGED'))
    WHERE t.cluster = $cluster AND t.group_id = $group
      AND coalesce(t.log_timestamp >= $start, true) AND coalesce(t.log_timestamp < $end, true)
    ORDER BY t.seq
"""  # noqa: S608 - put together from constants


_INTERVALS = f"""
    SELECT {select_list(MemberInterval)}
    FROM member_timeline
    WHERE cluster = $cluster AND group_id = $group
      AND coalesce(valid_to > $start, to_offset IS NULL OR $start IS NULL) AND coalesce(valid_from < $end, true)
    ORDER BY coalesce((
        SELECT max(number) FROM group_moves
        WHERE group_moves.cluster = $cluster AND group_moves.group_id = $group
          AND to_log_partition = member_timeline.log_partition
    ), 0), from_offset, member_id
"""  # noqa: S608 - put together from constants


def timeline_of(
    warehouse: Tables, group: str, start: datetime | None = None, end: datetime | None = None
) -> list[TimelineEvent]:
    """Return the events of a group in a time range, in log order: also events of its offsets and of its coordinator.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        start: start of the time range, included; None to begin at the first record.
        end: end of the time range, excluded; None to end after the last record.

    Raises:
        UsageError: the tables have no record of the group, or of the time range.
    """
    warehouse.check_range(start, end)
    lines = group_lines(warehouse, group)
    of_group = [
        _in_words(event, lines)
        for event in warehouse.answers(TimelineEvent, _EVENTS, group=group, start=start, end=end)
    ]
    of_offsets = [
        _event(group, event, at, detail, **place)
        for event, at, detail, place in offset_events(warehouse, group, start, end)
    ]
    if not of_group and not of_offsets:
        check_group(warehouse, group)
    moves = moves_of(warehouse.moves, group)
    events = sorted([*of_group, *of_offsets], key=_place)
    changes = group_coordinator_changes(warehouse, group, start, end)
    first = next((event.log_partition for event in events), None)
    # Leave out changes of a log partition in which the group's records did not count at that time.
    others = [
        _of(change)
        for change in changes
        if partition_at(moves, change.elected_at, change.log_partition) == change.log_partition
    ]
    for event, at, detail in (*refusals(lines), *contradictions(warehouse, group)):
        if first is not None and (start is None or at >= start) and (end is None or at < end):
            place = {"log_partition": partition_at(moves, at, first), "log_offset": None}
            others.append(_event(group, event, at, detail, is_exact=False, **place))
    # Log offsets compare only within a log partition, so the events of each log partition are merged separately.
    numbers = numbers_of(moves)
    timeline = []
    for number in range(len(moves) + 1):
        here = ([item for item in some if numbers.get(item.log_partition, 0) == number] for some in (events, others))
        timeline += _with_others(*here)
    return timeline


def _with_others(events: Sequence[TimelineEvent], others: Iterable[TimelineEvent]) -> list[TimelineEvent]:
    """Merge two lists of events into one timeline.

    Args:
        events: events of the group's records, in log order.
        others: changes of the coordinator and lines of brokers' logs, in any order. Each is put before the first of
            ``events`` that is later than it.
    """
    places = _Places.of(events)
    placed: deque[tuple[int, TimelineEvent]] = deque()
    for other in sorted(others, key=lambda other: (other.log_timestamp, other.event), reverse=True):
        place, before = places.first_behind(other), 0
        for at, later in placed:
            if at > place:
                break
            if _is_behind(later, other):
                place = at
                break
            before += 1
        placed.insert(before, (place, other))
    merged: list[TimelineEvent] = []
    done = 0
    for place, other in placed:
        merged += (*events[done:place], other)
        done = place
    return [*merged, *events[done:]]


class _Places(NamedTuple):
    """Facts about a list of events, for a binary search: which event is the first that comes after another event?

    Attributes:
        offsets: for each event, the highest log offset of this event and the events before it.
        times: for each event, the latest time of this event and the events before it.
        without_record: index of the first event without a log offset; the number of events if there is none.
    """

    offsets: Sequence[int]
    times: Sequence[datetime]
    without_record: int

    @classmethod
    def of(cls, events: Sequence[TimelineEvent]) -> "_Places":
        """Compute all fields from a list of events.

        Args:
            events: the events, in the order of the timeline.
        """
        offsets = accumulate((_place(event) for event in events), max)
        times = accumulate((event.log_timestamp or EPOCH for event in events), max)
        first = (place for place, event in enumerate(events) if event.log_offset is None)
        return cls([*offsets], [*times], next(first, len(events)))

    def first_behind(self, other: TimelineEvent) -> int:
        """Return the index of the first event that comes after another event.

        Args:
            other: a change of the coordinator, or a line of a broker's log.
        """
        if other.log_offset is not None:
            return min(bisect_left(self.offsets, other.log_offset), self.without_record)
        if other.log_timestamp is None:
            return self.without_record
        return min(bisect_right(self.times, other.log_timestamp), self.without_record)


def _place(event: TimelineEvent) -> int:
    return -1 if event.log_offset is None else event.log_offset


def _is_behind(event: TimelineEvent, other: TimelineEvent) -> bool:
    """Return whether ``event`` comes after ``other`` in the timeline.

    Args:
        event: an event of the timeline.
        other: a change of the coordinator, or a line of a broker's log.
    """
    # The caller compares events in such an order that an event without a log offset is later than ``other``.
    if event.log_offset is None:
        return True
    if other.log_offset is not None:
        return event.log_offset >= other.log_offset
    is_timed = event.log_timestamp is not None and other.log_timestamp is not None
    return is_timed and event.log_timestamp > other.log_timestamp  # type: ignore[operator]


def _of(change: GroupCoordinatorChange) -> TimelineEvent:
    names = ("leader_epoch", "broker", "broker_before", "is_unclean", "loading_ms")
    detail = {name: value for name in names if (value := getattr(change, name)) is not None}
    if change.is_given_up:
        detail["is_given_up"] = True
    place = {"log_partition": change.log_partition, "log_offset": change.first_log_offset}
    return _event(change.group_id, CHANGED, change.elected_at, detail, is_exact=change.is_exact, **place)


def _in_words(event: TimelineEvent, lines: Sequence[GroupLine]) -> TimelineEvent:
    """Return an event with its ``summary`` filled in: a text with the event's cause and detail.

    Args:
        event: an event from ``group_timeline``.
        lines: lines of brokers' logs about the group. The summary says how a member left if one of the lines shows it.
    """
    cause = None if event.cause is None else f"{event.cause} ({event.confidence})"
    detail = event.detail
    if event.event == "MEMBER_LEFT" and isinstance(detail, dict):
        is_classic = event.group_type == "classic"
        detail = detail | {"departure": departure_of(lines, event.member_id, event.log_timestamp, classic=is_classic)}
    words = words_of(event.event, detail)
    if (event.event, event.group_type, event.rebalance_id) == ("SUBSCRIPTION_CHANGED", "classic", None):
        words = f"{words or 'subscription changed'}, without a rebalance ({KAFKA_12759.issue})"
    if words is None and event.event == "REBALANCE_COMPLETED" and event.epoch is not None:
        words = f"{event.to_state} at epoch {event.epoch}"
    summary = ", ".join(part for part in (cause, words) if part)
    return replace(event, summary=summary or None, detail=event.detail or None)


def _event(group: str, event: str, at: datetime | None, detail: dict[str, Any], **place: Any) -> TimelineEvent:
    """Make an event of the timeline that is not a row of ``group_timeline``, such as a change of the coordinator.

    Args:
        group: id of the group.
        event: name of the event.
        at: the time of the event; None if unknown.
        detail: facts about the event. The event's ``summary`` states these facts in words.
        place: further fields of the event, such as ``log_offset``.
    """
    values = {"group_id": group, "log_timestamp": at, "event": event, "summary": words_of(event, detail)}
    return row_with(TimelineEvent, detail=detail, **values, **place)


def member_intervals_of(
    warehouse: Tables, group: str, start: datetime | None = None, end: datetime | None = None
) -> list[MemberInterval]:
    """Return the states of a group's members in a time range, in log order.

    Each state is a row of the table ``member_timeline``: an interval of time in which the member did not change.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        start: start of the time range, included; None to begin at the first record.
        end: end of the time range, excluded; None to end after the last record.

    Raises:
        UsageError: the tables have no record of the group, or of the time range.
    """
    warehouse.check_range(start, end)
    intervals = warehouse.answers(MemberInterval, _INTERVALS, group=group, start=start, end=end)
    if not intervals:
        check_group(warehouse, group)
    words = {(departure.member_id, departure.removed_at): departure.words for departure in departures(warehouse, group)}
    return [replace(interval, departure=words.get((interval.member_id, interval.valid_to))) for interval in intervals]  # type: ignore[arg-type]  # None is no key
