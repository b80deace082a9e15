"""Answers about the events of a group and the states of its members."""

from collections.abc import Sequence
from datetime import datetime

from coordinator_replay.listing import counted
from coordinator_replay.query.answers.answered import Rows
from coordinator_replay.query.basis import basis_from
from coordinator_replay.query.describe import inherited_note
from coordinator_replay.query.tables import Tables
from coordinator_replay.query.timeline import MemberInterval, TimelineEvent, member_intervals_of, timeline_of


def timeline(warehouse: Tables, group: str, start: datetime | None, end: datetime | None) -> Rows[TimelineEvent]:
    """Return the events of a group in a time range, in log order."""
    events = timeline_of(warehouse, group, start, end)
    return Rows(
        content=events,
        row_type=TimelineEvent,
        notes=[_late_note(warehouse, events), _no_event_note(warehouse, group, events)],
        basis=basis_from(warehouse, start, group=group),
    )


def members(warehouse: Tables, group: str, start: datetime | None, end: datetime | None) -> Rows[MemberInterval]:
    """Return the states of each member of a group in a time range, in log order.

    Each row is an interval of time in which a member did not change.
    """
    intervals = member_intervals_of(warehouse, group, start, end)
    inherited = inherited_note((interval.member_id, interval.is_client_inherited) for interval in intervals)
    return Rows(
        content=intervals,
        row_type=MemberInterval,
        notes=[inherited, _no_event_note(warehouse, group, intervals)],
        basis=basis_from(warehouse, start, group=group),
    )


def _no_event_note(warehouse: Tables, group: str, rows: Sequence[object]) -> str | None:
    """Return a note that says that an answer has no events, and which time range the tables cover.

    Return None if the answer has events.
    """
    if rows:
        return None
    on_record = "" if warehouse.completeness.is_whole else " on record"
    return f"No events of group {group!r}{on_record} in this time range; the tables cover {warehouse.coverage}."


def _late_note(warehouse: Tables, events: Sequence[TimelineEvent]) -> str | None:
    """Return a note on events after the end of the log, which come from brokers' logs or cluster metadata.

    Return None if all events are before the end of the log.
    """
    end = warehouse.coverage.last
    late = sum(event.log_timestamp is not None and event.log_timestamp > end for event in events)
    if not late:
        return None
    are = "is" if late == 1 else "are"
    return f"{counted(late, 'event')} after the end of the log {are} from brokers' logs or cluster metadata."
