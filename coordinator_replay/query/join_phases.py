"""Rebalances of classic groups that were going on at a point in time, by the brokers' own logs.

A classic group writes no record until its rebalance is over. What its coordinator has logged since the group's last
record shows the phase it is in: "Preparing to rebalance group" with the generation of that record begins
PreparingRebalance, "Stabilized group" with a later one CompletingRebalance (``ClassicGroupState``). Had the rebalance
ended before, there would be a record of it. What was logged before the coordinator loaded the group's log partition
once more does not count: a group that is loaded is in the state of its last record.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from coordinator_replay.analysis.broker_words import LONGEST_MS, SLACK_MS, step_of
from coordinator_replay.engine.model import GroupState
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

    def note(self, group: str) -> str:
        """What there is to say of the group."""
        waited = f"; removed later, for they had not joined: {self.not_joined}" if self.not_joined else ""
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
