"""Rebalances of classic groups that are in progress. Only brokers' logs show them, because they leave no record yet.

While a rebalance is in progress, the coordinator's last line about the group shows the group's state
(``ClassicGroupState``):

- "Preparing to rebalance group" begins PreparingRebalance,
- "Stabilized group" begins CompletingRebalance.

When a coordinator loads a log partition, it gives each group the state of the group's last record. So lines from before
the last load don't count.

When a rebalance is over, the group has a record of it. The table ``rebalances`` has the rebalance from then on.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from coordinator_replay.analysis.broker_logs.lines import (
    BEGIN,
    DEPARTURES,
    LOADED,
    LONGEST_MS,
    SLACK_MS,
    cause_of,
    step_of,
)
from coordinator_replay.engine.model import GroupState
from coordinator_replay.listing import listed
from coordinator_replay.query.tables import END, Tables
from coordinator_replay.times import moment_text

_JOIN_ENDED = "STABILIZED"
LOGGED_STATES = {
    BEGIN: str(GroupState.PREPARING_REBALANCE),
    _JOIN_ENDED: str(GroupState.COMPLETING_REBALANCE),
}
"""States that a group enters with a line of a broker's log, by the line's event."""
_SLACK = timedelta(milliseconds=SLACK_MS)
_LINES = f"""
    WITH loads AS (
        SELECT log_partition AS loaded, max(logged_at) AS loaded_at FROM broker_log
        WHERE cluster = $cluster AND event = '{LOADED}' AND logged_at <= $at GROUP BY log_partition
    ), unfinished AS (
        SELECT group_id, epoch AS to_epoch, epoch - coalesce(attempts, 1) AS from_epoch, started_at IS NULL AS is_open,
               coalesce(began_by, completed_at) AS joined_at,
               coalesce(started_at, completed_at - to_milliseconds(
                   least(coalesce(duration_ms_max, {LONGEST_MS}), {LONGEST_MS}) + {SLACK_MS})) AS since
        FROM rebalances
        WHERE cluster = $cluster AND group_type = 'classic' AND coalesce(started_at <= $at, true)
          AND coalesce(completed_at > $at, completed_offset IS NULL) {{of_groups}}
        QUALIFY row_number() OVER (PARTITION BY group_id ORDER BY started_at DESC NULLS LAST, completed_at) = 1
    ), ends AS (
        SELECT group_id, epoch AS to_epoch, logged_at AS ended_at FROM broker_log
        WHERE cluster = $cluster AND event IN ('STABILIZED', 'GROUP_EMPTY') {{of_groups}}
    )
    SELECT group_id, log_partition, event, epoch, logged_at, reason,
           CASE WHEN is_open AND joined_at <= $at THEN joined_at END
    FROM broker_log JOIN unfinished USING (group_id) LEFT JOIN loads ON loaded = log_partition
    WHERE cluster = $cluster AND logged_at BETWEEN since AND $at {{of_groups}} AND event IN {tuple(LOGGED_STATES)}
      AND coalesce(logged_at >= loaded_at, true)
      AND (NOT is_open OR logged_at < joined_at AND epoch >= from_epoch AND epoch < to_epoch AND NOT EXISTS (
               SELECT 1 FROM ends WHERE ends.group_id = unfinished.group_id AND ends.to_epoch = unfinished.to_epoch
               AND abs(epoch_ms(ended_at) - epoch_ms(joined_at)) <= {SLACK_MS}))
"""  # noqa: S608 - put together from constants
_NOT_JOINED = """
    SELECT group_id, reason FROM broker_log AS expired
    WHERE cluster = $cluster AND event = 'JOIN_EXPIRED' AND reason IS NOT NULL AND logged_at >= $at {of_groups}
      AND NOT EXISTS (SELECT 1 FROM broker_log AS ended
                      WHERE ended.cluster = $cluster AND ended.group_id = expired.group_id
                        AND ended.event IN ('STABILIZED', 'GROUP_EMPTY') AND ended.logged_at >= $at
                        AND ended.logged_at < expired.logged_at)
"""
"""SQL for members that the coordinator removed at the end of the join phase in progress, as they had not joined."""

OF_OWN_PARTITION = """broker_log JOIN (SELECT DISTINCT log_partition AS own FROM group_timeline
                     WHERE cluster = $cluster AND group_id = $group) ON coalesce(log_partition = own, true)"""
"""SQL for the lines that name the group's own log partition, or no log partition. Lines about other log partitions are
about another group of this name, or about no group."""

_ASSIGNED, _JOINED = "MEMBER_ID_ASSIGNED", "MEMBER_JOINED"
_OUT = ("MEMBER_LEFT", "MEMBER_REPLACED", "SESSION_EXPIRED", "PENDING_MEMBER_EXPIRED", "JOIN_EXPIRED", "SYNC_EXPIRED")
_MEMBER_LINES = f"""
    SELECT event, member_id, reason
    FROM {OF_OWN_PARTITION}
    WHERE cluster = $cluster AND group_id = $group AND logged_at BETWEEN $since AND $at
      AND event IN {(BEGIN, _ASSIGNED, _JOINED, *_OUT)}
    ORDER BY logged_at, event = '{BEGIN}'
"""  # noqa: S608 - put together from constants
_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class JoinPhase:
    """A rebalance of a classic group that was in progress at a point in time.

    Attributes:
        state: state of the group: PreparingRebalance or CompletingRebalance.
        since: the time at which the group came into this state.
        began_at: the time at which the rebalance began.
        reasons: the reasons that the coordinator had logged, in order.
        not_joined: the members that the coordinator removed because they had not joined in time, as its log says; empty
            if the log names no such members.
    """

    state: str
    since: datetime
    began_at: datetime
    reasons: Sequence[str]
    not_joined: str = ""

    def note(self, group: str, awaited: Sequence[str]) -> str:
        """Return a note on the group's rebalance.

        Args:
            group: name of the group.
            awaited: the members that the coordinator may be waiting for.
        """
        waited = f"; members that no record shows to have joined: {listed(awaited, _MOST_NAMED)}" if awaited else ""
        waited += f"; removed later, because they had not joined: {self.not_joined}" if self.not_joined else ""
        return (
            f"By its coordinator's log group {group!r} was in {self.state} from {moment_text(self.since)} on, "
            f"in a rebalance "
            f"that began at {moment_text(self.began_at)}: {'; '.join(self.reasons)}{waited}"
        )


def join_phases(
    warehouse: Tables, partitions: Mapping[str, int | None], at: datetime | None = None, *, group: str | None = None
) -> dict[str, JoinPhase]:
    """Return the rebalance of each group that was in progress at a point in time, as brokers' logs show it.

    Groups without such a rebalance are left out.

    Args:
        warehouse: the tables to read.
        partitions: the groups to look for, each with its log partition.
        at: the point in time; None for the end of the log and of the brokers' logs.
        group: only this group; None for all groups.
    """
    if not partitions or not warehouse.has_rows("broker_log"):
        return {}
    phases: dict[str, JoinPhase] = {}
    lines = warehouse.rows(_LINES, at=at or END, group=group)
    for name, log_partition, event, _, logged_at, reason, joined_at in sorted(lines, key=_order):
        # A line about another log partition is of another group with this name, or of none.
        if name not in partitions or log_partition not in (None, partitions[name]):
            continue
        phase = phases.get(name)
        if phase is None and event != BEGIN:
            continue
        began_at, reasons = (logged_at, ()) if phase is None else (phase.began_at, phase.reasons)
        more = [(reason or "no reason").rstrip(".")] if event == BEGIN else []
        event, since = (event, logged_at) if joined_at is None else (_JOIN_ENDED, joined_at)
        phases[name] = JoinPhase(LOGGED_STATES[event], since, began_at, [*reasons, *more])
    for name, members in warehouse.rows(_NOT_JOINED, at=at, group=group) if phases and at is not None else ():
        if name in phases and phases[name].state == GroupState.PREPARING_REBALANCE:
            phases[name] = replace(phases[name], not_joined=members.removeprefix("Set").strip("[]()"))
    return phases


def awaited_members(
    warehouse: Tables, group: str, phase: JoinPhase, members: Iterable[str], at: datetime | None
) -> list[str]:
    """Return the members that the coordinator may be waiting for at a point in time, in a join phase.

    Some of these members may have joined already, because brokers don't log every join.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        phase: the rebalance that was in progress.
        members: ids of the members in the group's last record.
        at: the point in time; None for the end of the brokers' logs.
    """
    # A broker logs a member's rejoin only if the rejoin begins a rebalance.
    if phase.state != GroupState.PREPARING_REBALANCE:
        return []
    present, joined = dict.fromkeys(members), set[str]()
    for event, member_id, reason in warehouse.rows(
        _MEMBER_LINES, group=group, since=phase.began_at - _SLACK, at=at or END
    ):
        about: list[str] = []
        if event in _OUT or event == BEGIN:
            about = (
                [member_id]
                if member_id in present
                else [candidate for candidate in present if candidate in (reason or "")]
            )
        if event in (_ASSIGNED, _JOINED) and member_id is not None:
            present[member_id] = None
        if event == BEGIN:
            # Members that had joined the attempt before have to join again.
            joined.clear()
        if event == _JOINED:
            joined.add(member_id)
        elif event in _OUT or (event == BEGIN and cause_of(reason) in DEPARTURES):
            for candidate in about:
                del present[candidate]
        elif event == BEGIN:
            joined.update(about)
    return [candidate for candidate in present if candidate not in joined]


def _order(line: tuple[Any, ...]) -> tuple[datetime, int]:
    _, _, event, epoch, logged_at, *_ = line
    return logged_at, step_of(event, epoch)
