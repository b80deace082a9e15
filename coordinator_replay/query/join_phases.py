"""Rebalances of classic groups that were going on at a point in time, by the brokers' own logs.

A classic group writes no record until its rebalance is over. What its coordinator has logged since the group's last
record shows the phase it is in: "Preparing to rebalance group" with the generation of that record begins
PreparingRebalance, "Stabilized group" with a later one CompletingRebalance (``ClassicGroupState``). Had the rebalance
ended before, there would be a record of it. What was logged before the coordinator loaded the group's log partition
once more does not count: a group that is loaded is in the state of its last record.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from coordinator_replay.analysis.broker_words import DEPARTURES, LONGEST_MS, SLACK_MS, cause_of, step_of
from coordinator_replay.engine.model import GroupState
from coordinator_replay.listing import listed
from coordinator_replay.query.tables import END, Tables, shown

_PREPARING = "PREPARING_REBALANCE"
_SLACK = timedelta(milliseconds=SLACK_MS)
_LINES = f"""
    WITH loads AS (
        SELECT log_partition AS loaded, max(logged_at) AS loaded_at FROM broker_log
        WHERE cluster = $cluster AND event = 'LOADING_FINISHED' AND logged_at <= $at GROUP BY log_partition
    )
    SELECT group_id, log_partition, event, epoch, logged_at, reason
    FROM broker_log LEFT JOIN loads ON loaded = log_partition
    WHERE cluster = $cluster AND logged_at <= $at AND logged_at >= $since {{of_groups}}
      AND event IN ('{_PREPARING}', 'STABILIZED', 'ASSIGNMENT_RECEIVED', 'GROUP_EMPTY')
      AND coalesce(logged_at >= loaded_at, true)
"""  # noqa: S608 - put together from constants
_NOT_JOINED = """
    SELECT group_id, reason FROM broker_log AS expired
    WHERE cluster = $cluster AND event = 'JOIN_EXPIRED' AND reason IS NOT NULL AND logged_at >= $at {of_groups}
      AND NOT EXISTS (SELECT 1 FROM broker_log AS ended
                      WHERE ended.cluster = $cluster AND ended.group_id = expired.group_id
                        AND ended.event IN ('STABILIZED', 'GROUP_EMPTY') AND ended.logged_at >= $at
                        AND ended.logged_at < expired.logged_at)
"""
"""Members whom the coordinator removed when the join phase was over, in which the group was."""

_ASSIGNED, _JOINED = "MEMBER_ID_ASSIGNED", "MEMBER_JOINED"
_OUT = ("MEMBER_LEFT", "MEMBER_REPLACED", "SESSION_EXPIRED", "PENDING_MEMBER_EXPIRED", "JOIN_EXPIRED", "SYNC_EXPIRED")
_MEMBER_LINES = f"""
    SELECT event, member_id, reason
    FROM broker_log JOIN (SELECT DISTINCT log_partition AS own FROM group_timeline
                          WHERE cluster = $cluster AND group_id = $group) ON coalesce(log_partition = own, true)
    WHERE cluster = $cluster AND group_id = $group AND logged_at BETWEEN $since AND $at
      AND event IN {(_PREPARING, _ASSIGNED, _JOINED, *_OUT)}
    ORDER BY logged_at, event = '{_PREPARING}'
"""  # noqa: S608 - put together from constants
_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class RecordedGeneration:
    """What the last record of a classic group says of it.

    Attributes:
        epoch: its generation.
        since: the time of that record.
        log_partition: where it stands.
    """

    epoch: int
    since: datetime
    log_partition: int | None


@dataclass(frozen=True, slots=True)
class JoinPhase:
    """A rebalance that was going on.

    Attributes:
        state: PreparingRebalance or CompletingRebalance.
        since: when the group came into that state.
        began_at: when the rebalance began.
        reasons: what the coordinator had logged as reasons of it, in order.
        not_joined: members that had not joined when it stopped waiting for them, as it logged them; empty if there are
            none on record.
    """

    state: str
    since: datetime
    began_at: datetime
    reasons: Sequence[str]
    not_joined: str = ""

    def note(self, group: str, awaited: Sequence[str]) -> str:
        """What there is to say of the group.

        Args:
            group: its name.
            awaited: see ``awaited_members``.
        """
        waited = f"; not shown to have joined: {listed(awaited, _MOST_NAMED)}" if awaited else ""
        waited += f"; removed later, for they had not joined: {self.not_joined}" if self.not_joined else ""
        return (
            f"By its coordinator's log group {group!r} was in {self.state} from {shown(self.since)} on, in a rebalance "
            f"that began at {shown(self.began_at)}: {'; '.join(self.reasons)}{waited}"
        )


def join_phases(
    warehouse: Tables,
    recorded: Mapping[str, RecordedGeneration],
    at: datetime | None = None,
    *,
    group: str | None = None,
) -> dict[str, JoinPhase]:
    """The rebalances that were going on, by group.

    Args:
        warehouse: the tables.
        recorded: what is on record at that time of classic groups.
        at: the point in time; the end of the records and of the logs if None.
        group: only this one.
    """
    if not warehouse.has_rows("broker_log"):
        return {}
    times = [one.since for one in recorded.values()]
    since = max(min(times) - _SLACK, (at or max(times)) - timedelta(milliseconds=LONGEST_MS)) if times else END
    phases: dict[str, JoinPhase] = {}
    lines = warehouse.rows(_LINES, at=at or END, since=since, group=group)
    for name, log_partition, *line in sorted(lines, key=_order):
        last = recorded.get(name)
        if last is None or log_partition not in (None, last.log_partition):
            continue
        phase = _next(phases.pop(name, None), last, *line)
        if phase is not None:
            phases[name] = phase
    for name, members in warehouse.rows(_NOT_JOINED, at=at, group=group) if phases and at is not None else ():
        if name in phases and phases[name].state == GroupState.PREPARING_REBALANCE:
            phases[name] = replace(phases[name], not_joined=members.removeprefix("Set").strip("[]()"))
    return phases


def awaited_members(
    warehouse: Tables, group: str, phase: JoinPhase, members: Iterable[str], at: datetime | None
) -> list[str]:
    """Members that a coordinator in PreparingRebalance may be waiting for.

    That a member joins again is logged only where a rebalance begins with it, so that others of these may have joined:
    at most these have not. New members count from when they got an id.

    Args:
        warehouse: the tables.
        group: the group.
        phase: the rebalance that was going on.
        members: of the generation on record.
        at: the point in time; the end of the logs if None.
    """
    if phase.state != GroupState.PREPARING_REBALANCE:
        return []
    present, joined = dict.fromkeys(members), set[str]()
    for event, member_id, reason in warehouse.rows(
        _MEMBER_LINES, group=group, since=phase.began_at - _SLACK, at=at or END
    ):
        about = [one for one in present if one == member_id or one in (reason or "")]
        if event in (_ASSIGNED, _JOINED) and member_id is not None:
            present[member_id] = None
        if event == _PREPARING:
            # Who had joined the attempt before has to do so once more.
            joined.clear()
        if event == _JOINED:
            joined.add(member_id)
        elif event in _OUT or (event == _PREPARING and cause_of(reason) in DEPARTURES):
            present = {one: None for one in present if one not in about}
        elif event == _PREPARING:
            joined.update(about)
    return [one for one in present if one not in joined]


def _order(line: tuple[Any, ...]) -> tuple[datetime, int]:
    _, _, event, epoch, logged_at, _ = line
    return logged_at, step_of(event, epoch)


def _next(
    phase: JoinPhase | None,
    last: RecordedGeneration,
    event: str,
    epoch: int | None,
    logged_at: datetime,
    reason: str | None,
) -> JoinPhase | None:
    """The phase that a group is in after one more line."""
    if epoch is None or logged_at < last.since - _SLACK:
        return phase
    if event == _PREPARING and (epoch == last.epoch or (phase is not None and epoch > last.epoch)):
        began_at, reasons = (logged_at, []) if phase is None else (phase.began_at, phase.reasons)
        return JoinPhase(str(GroupState.PREPARING_REBALANCE), logged_at, began_at, [*reasons, reason or "no reason"])
    if event == "STABILIZED" and phase is not None and epoch > last.epoch:
        return replace(phase, state=str(GroupState.COMPLETING_REBALANCE), since=logged_at)
    # What ends a rebalance is on record: where that is not read yet, it is over all the same.
    return None if event in ("GROUP_EMPTY", "ASSIGNMENT_RECEIVED") else phase
