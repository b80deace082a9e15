"""Events of a group that brokers' logs show: departures, refused requests, and lines that contradict records."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

from coordinator_replay.analysis.broker_logs.lines import LONGEST_MS, SLACK_MS, broker_name, fencing_cause
from coordinator_replay.analysis.reasons.vocabulary import Cause
from coordinator_replay.listing import listed
from coordinator_replay.query.broker_logs.join_phases import OF_OWN_PARTITION
from coordinator_replay.query.saved import run_saved_query
from coordinator_replay.query.tables import Tables
from coordinator_replay.times import later, moment_text

REFUSED = ("INSTANCE_ID_FENCED", "INSTANCE_ID_UNRELEASED")
"""Events of lines about requests that a coordinator refused. No record shows such a request."""

CONTRADICTED = "BROKER_LOG_CONTRADICTED"
"""The event of a line that records contradict."""

_BY_REBALANCE_TIMEOUT = "rebalance timeout"
_BY_ADMIN = "REMOVED_BY_ADMIN"
"""Event that the saved query ``_OF_MEMBERS`` returns if an admin removed a member. The line itself has event
MEMBER_LEFT."""
_OF_MEMBERS = "broker-log-members"
_WENT = {
    "MEMBER_LEFT": "left by LeaveGroup",
    _BY_ADMIN: "removed by an admin",
    "SESSION_EXPIRED": "session timeout",
    "JOIN_EXPIRED": _BY_REBALANCE_TIMEOUT,
    "SYNC_EXPIRED": _BY_REBALANCE_TIMEOUT,
}
_LOGGED_AT = attrgetter("logged_at")
_IDS = re.compile(r"[^\s,()\[\]]+")
_FENCED = "MEMBER_FENCED"
_LINES = f"""
    SELECT event, logged_at, member_id, instance_id, reason, client_reason, broker
    FROM {OF_OWN_PARTITION}
    WHERE cluster = $cluster AND group_id = $group AND event IN {(*REFUSED, *_WENT, _FENCED)}
    ORDER BY logged_at, event, member_id, instance_id
"""  # noqa: S608 - put together from constants
_REMOVALS = """
    SELECT member_id, log_timestamp, group_type = 'classic' FROM group_timeline
    WHERE cluster = $cluster AND group_id = $group AND event = 'MEMBER_LEFT' AND log_timestamp IS NOT NULL ORDER BY seq
"""
_MOST_NAMED = 3
_LOG = "broker_log"


@dataclass(frozen=True, slots=True)
class GroupLine:
    """A line of a broker's log about one or more members of a group.

    Attributes:
        event: kind of the line, such as MEMBER_LEFT; REMOVED_BY_ADMIN if an admin removed the member.
        member_id: id of the member; None if the line has no member id, or several. If several, they are in ``reason``.
    """

    event: str
    logged_at: datetime
    member_id: str | None
    instance_id: str | None
    reason: str | None
    client_reason: str | None
    broker: int | None

    @property
    def source(self) -> str:
        """Return a text that names the broker whose log has the line."""
        return f"log of {broker_name(self.broker)}"

    @property
    def departure(self) -> str:
        """Return a text that says how the member left."""
        if self.event == _FENCED:
            is_session = fencing_cause(self.reason) is Cause.SESSION_TIMEOUT
            return f"{_WENT['SESSION_EXPIRED'] if is_session else _BY_REBALANCE_TIMEOUT} ({self.source})"
        client = f"; client reason: {self.client_reason}" if self.client_reason else ""
        return f"{_WENT[self.event]} ({self.source}{client})"

    def is_about(self, member_id: str) -> bool:
        """Return whether the line names a member: in the field for the member id, or in its reason."""
        return member_id == self.member_id or (self.member_id is None and member_id in _IDS.findall(self.reason or ""))


class LoggedDeparture(NamedTuple):
    """Departure of a member, with the reason in a broker's log.

    Attributes:
        removed_at: time of the record that removed the member.
        words: a text with the reason.
    """

    member_id: str
    removed_at: datetime
    words: str


def group_lines(warehouse: Tables, group: str) -> list[GroupLine]:
    """Return the lines of brokers' logs about members that left a group, or whose requests were refused, by time."""
    if not warehouse.has_rows(_LOG):
        return []
    lines = [GroupLine(*row) for row in warehouse.rows(_LINES, group=group)]
    if all(line.event != "MEMBER_LEFT" for line in lines):
        return lines
    names, rows = run_saved_query(warehouse, _OF_MEMBERS, {"group": group})
    at, event, member_id = map(names.index, ("logged_at", "event", "member_id"))
    by_admin = {(row[at], row[member_id]) for row in rows if row[event] == _BY_ADMIN}
    return [
        replace(line, event=_BY_ADMIN)
        if line.event == "MEMBER_LEFT" and (line.logged_at, line.member_id) in by_admin
        else line
        for line in lines
    ]


def departure_of(
    lines: Sequence[GroupLine], member_id: str | None, at: datetime | None, *, classic: bool
) -> str | None:
    """Return a text that says how a removed member left, from lines of brokers' logs.

    Return None if no line near the time ``at`` shows how the member left, or if lines contradict each other.

    Args:
        lines: lines about the group, by time.
        member_id: id of the member.
        at: the time of the record that removed the member.
        classic: whether the group is classic.
    """
    # The record of a classic group is written at the end of the join phase, later than the line.
    if member_id is None or at is None:
        return None
    # A group may have as many removals as lines, so only lines near the record are looked at.
    first = bisect_left(lines, later(at, -(LONGEST_MS if classic else SLACK_MS)), key=_LOGGED_AT)
    last = bisect_right(lines, later(at, SLACK_MS), key=_LOGGED_AT)
    own = [line for line in lines[first:last] if line.is_about(member_id) and line.event not in REFUSED]
    named = {line.departure for line in own}
    return named.pop() if len(named) == 1 else None


def departures(warehouse: Tables, group: str) -> list[LoggedDeparture]:
    """Return the members that left a group, with a text that says how they left, in log order.

    Members for whom no broker's log says this are left out.
    """
    lines = group_lines(warehouse, group)
    if not lines:
        return []
    removals = warehouse.rows(_REMOVALS, group=group)
    worded = (
        (member_id, at, departure_of(lines, member_id, at, classic=classic)) for member_id, at, classic in removals
    )
    return [LoggedDeparture(member_id, at, words) for member_id, at, words in worded if words is not None]


def last_departures_note(warehouse: Tables, group: str, at: datetime | None) -> str | None:
    """Return a note on the last members that were removed from a group: how each of them left.

    Return None if brokers' logs don't show this for any member.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        at: leave out members that were removed after this time; None for no upper bound.
    """
    earlier = [departure for departure in departures(warehouse, group) if at is None or departure.removed_at <= at]
    last = [removed for removed in earlier if removed.removed_at == earlier[-1].removed_at]
    if not last:
        return None
    named = listed([f"{removed.member_id}, {removed.words}" for removed in last], _MOST_NAMED, "; ")
    return f"Removed last, at {moment_text(last[0].removed_at)}: {named}."


def refusals(lines: Iterable[GroupLine]) -> list[tuple[str, datetime, dict[str, Any]]]:
    """Return the event, the time and the detail of each log line about a request that the coordinator refused."""
    names = ("member_id", "instance_id", "broker")
    return [
        (line.event, line.logged_at, {name: value for name in names if (value := getattr(line, name)) is not None})
        for line in lines
        if line.event in REFUSED
    ]


def contradictions(warehouse: Tables, group: str) -> list[tuple[str, datetime, dict[str, Any]]]:
    """Return the event, the time and the detail of each line in a broker's log that a record contradicts.

    The line is about the group. The record is in the group's log partition.
    """
    if not warehouse.has_rows(_LOG):
        return []
    names, rows = run_saved_query(warehouse, "broker-log-contradictions", {"group": group})
    lines: Sequence[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in rows]
    shown = ("log_partition", "epoch", "member_count", "members_by_record", "broker", "note")
    return [
        (CONTRADICTED, line["logged_at"], {name: line[name] for name in shown if line[name] is not None})
        for line in lines
    ]
