"""Changes of groups' coordinators. The coordinator changes when the group's log partition gets a new leader."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from coordinator_replay.analysis.broker_logs.lines import broker_name
from coordinator_replay.analysis.coordinator_changes import BROKER_LOG, NO_LEADER
from coordinator_replay.answer_columns import column, select_list
from coordinator_replay.listing import listed
from coordinator_replay.query.rebalances import Rebalance
from coordinator_replay.query.tables import Tables
from coordinator_replay.times import later, moment_text

CHANGED = "COORDINATOR_CHANGED"
"""Name of the event in a timeline."""

NEAR_MS = 60_000
"""Longest time after a change of the coordinator in which a rebalance counts as near the change. Clients may need this
long to find the new coordinator."""

_MOST_NAMED = 3


GIVEN_UP = "broker IS NULL AND elected_at IS NULL AND unloaded_at IS NOT NULL"
"""SQL condition on rows of ``coordinator_changes`` that only the old leader's log shows: no new leader is on record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCoordinatorChange:
    """A change of a group's coordinator: a row of ``coordinator_changes``.

    Attributes:
        broker_before: id of the old coordinator; None if unknown.
        elected_at: the time at which the new coordinator was elected as leader of the log partition. If ``is_exact`` is
            False, the election was at this time or earlier. If ``is_given_up``, the time at which the old coordinator
            had unloaded the log partition.
        is_exact: whether ``elected_at`` is exact.
        broker: id of the new coordinator; ``NO_LEADER`` if the log partition had no leader, None if unknown.
        is_unclean: whether the election was unclean, so that records may be lost; None if unknown.
        loading_ms: how long the new coordinator took to load the log partition; None if no broker's log shows it.
        first_log_offset: log offset of the first known record that the new coordinator wrote.
        is_given_up: whether the log shows only that the old coordinator stopped, and not which broker is the new one.
        by_log_alone: whether only a broker's log shows the change, and no record.
    """

    group_id: str
    elected_at: datetime
    is_exact: bool
    log_partition: int
    leader_epoch: int
    broker: int | None
    broker_before: int | None
    is_unclean: bool | None
    loading_ms: int | None
    first_log_offset: int | None
    is_given_up: bool
    by_log_alone: bool = column(sql=f"sources = ['{BROKER_LOG}']")

    @property
    def sentence(self) -> str:
        """Return a sentence that describes the change."""
        when = "at" if self.is_exact else "by"
        to = "no broker" if self.broker == NO_LEADER else broker_name(self.broker)
        before = "" if self.broker_before is None else f" (before: {self.broker_before})"
        if self.is_given_up:
            return (
                f"{when} {moment_text(self.elected_at)} {broker_name(self.broker_before)} gave up log partition "
                f"{self.log_partition} in leader epoch {self.leader_epoch}, and no new leader is on record"
            )
        loading = "" if self.loading_ms is None else f", which loaded it in {self.loading_ms:,} ms"
        unclean = ", by an unclean election: records may be lost" if self.is_unclean else ""
        alone = "; only a broker's log says so" if self.by_log_alone else ""
        return (
            f"{when} {moment_text(self.elected_at)} "
            f"log partition {self.log_partition} went to {to}{before} in leader epoch "
            f"{self.leader_epoch}{loading}{unclean}{alone}"
        )


# The first leader on record is a change only if the controller or a broker says so.
_CHANGES = f"""
    WITH changes AS (
        SELECT * REPLACE (coalesce(elected_at, unloaded_at) AS elected_at),
               {GIVEN_UP} AS is_given_up,
               lag(nullif(broker, {NO_LEADER}) IGNORE NULLS) OVER before AS broker_before,
               lag(leader_epoch) OVER before AS epoch_before
        FROM coordinator_changes WHERE cluster = $cluster
        WINDOW before AS (PARTITION BY log_partition ORDER BY leader_epoch)
    ), groups AS (
        SELECT group_id, log_partition, min(log_timestamp) AS since FROM group_timeline
        WHERE cluster = $cluster {{of_groups}} GROUP BY ALL
    )
    SELECT {select_list(GroupCoordinatorChange)}
    FROM changes JOIN groups USING (log_partition)
    WHERE elected_at >= since AND (is_exact OR epoch_before IS NOT NULL)
      AND coalesce(elected_at >= $start, true) AND coalesce(elected_at < $end, true)
    ORDER BY elected_at, leader_epoch, group_id
"""  # noqa: S608 - put together from constants


def group_coordinator_changes(
    warehouse: Tables, group: str | None = None, start: datetime | None = None, end: datetime | None = None
) -> list[GroupCoordinatorChange]:
    """Return changes of the coordinators of groups, sorted by time.

    A change that took place before the group's first record is left out.

    Args:
        warehouse: the tables to read.
        group: only changes of this group's coordinator; None for all groups.
        start: only changes at this time or later; None for no lower bound.
        end: only changes before this time; None for no upper bound.
    """
    if not warehouse.has_rows("coordinator_changes"):
        return []
    return warehouse.answers(GroupCoordinatorChange, _CHANGES, group=group, start=start, end=end)


def nearby_note(warehouse: Tables, rebalances: Sequence[Rebalance]) -> str | None:
    """Return a note on changes of the coordinator during a rebalance or shortly before it.

    Return None if there are no such changes.
    """
    spans = [(rebalance, span) for rebalance in rebalances if (span := _span(rebalance)) is not None]
    if not spans:
        return None
    start, end = min(since for _, (since, _) in spans), max(until for _, (_, until) in spans)
    groups = {rebalance.group_id for rebalance, _ in spans}
    group = groups.pop() if len(groups) == 1 else None
    changes = group_coordinator_changes(warehouse, group, start, end + timedelta(microseconds=1))
    near = list(_near(spans, changes))
    return f"The coordinator changed near: {listed(near, _MOST_NAMED, '; ')}." if near else None


def _span(rebalance: Rebalance) -> tuple[datetime, datetime] | None:
    began = rebalance.began_by
    return None if began is None else (later(began, -NEAR_MS), rebalance.completed_at or began)


def _near(
    spans: Iterable[tuple[Rebalance, tuple[datetime, datetime]]], changes: Sequence[GroupCoordinatorChange]
) -> Iterable[str]:
    by_group: dict[str, list[GroupCoordinatorChange]] = {}
    for change in changes:
        by_group.setdefault(change.group_id, []).append(change)
    for rebalance, (since, until) in spans:
        last = next(
            (each for each in reversed(by_group.get(rebalance.group_id, ())) if since <= each.elected_at <= until), None
        )
        if last is not None:
            which = f"to {rebalance.number}" if rebalance.number else "that goes on"
            yield f"rebalance of {rebalance.group_id!r} {which}: {last.sentence}"
