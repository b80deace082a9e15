"""Rebalances with their reasons, by when they began."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from coordinator_replay.analysis.reasons import Cause
from coordinator_replay.errors import UsageError
from coordinator_replay.query.groups import check_group
from coordinator_replay.query.warehouse import Warehouse, nearest
from coordinator_replay.times import later

_REBALANCES = """
    SELECT started_at, completed_at, duration_ms, duration_ms_min, duration_ms_max, commit_pause_ms, group_id,
           group_type, epoch, attempts, cause, join_reason, confidence, members_before, members_after, partitions_moved,
           partitions_added, partitions_total, unowned_ms_max, unowned_ms_total, held_up_by, held_up_ms,
           metadata_delay_ms, evidence, alternatives, trigger_members, members_joined, members_left, is_exact,
           rebalance_id, completed_offset
    FROM rebalances
    WHERE cluster = $cluster {one_group}
      AND coalesce(completed_at >= $start, completed_offset IS NULL OR $start IS NULL)
      AND coalesce(coalesce(started_at, completed_at) < $end, true)
    ORDER BY coalesce(started_at, completed_at) NULLS FIRST, group_id, completed_offset, epoch
"""

_CAUSES = "SELECT DISTINCT cause FROM rebalances WHERE cluster = $cluster AND cause IS NOT NULL ORDER BY cause"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """A rebalance: a row of the table of that name.

    Attributes:
        completed_offset: log offset of the record by which it was over, None while it is not; ``completed_at`` is None
            where that record, and those of the group before it, carry no time.
        matched_by: where causes were asked for, whether one of them is its ``cause`` or only an ``alternative`` to it.
    """

    started_at: datetime | None
    completed_at: datetime | None
    duration_ms: int | None
    duration_ms_min: int | None
    duration_ms_max: int | None
    commit_pause_ms: int | None
    group_id: str
    group_type: str
    epoch: int | None
    attempts: int | None
    cause: str | None
    join_reason: str | None
    confidence: str | None
    members_before: int | None
    members_after: int | None
    partitions_moved: int | None
    partitions_added: int | None
    partitions_total: int | None
    unowned_ms_max: int | None
    unowned_ms_total: int | None
    held_up_by: str | None
    held_up_ms: int | None
    metadata_delay_ms: int | None
    evidence: list[str] | None
    alternatives: list[str] | None
    trigger_members: list[str] | None
    members_joined: list[str] | None
    members_left: list[str] | None
    is_exact: bool | None
    rebalance_id: str
    completed_offset: int | None
    matched_by: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether every member has its assignment."""
        return self.completed_at is not None or self.completed_offset is not None

    @property
    def began_by(self) -> datetime | None:
        """When it had begun at the latest: its start, or for a classic one the end of the join phase."""
        if self.started_at is not None or self.completed_at is None:
            return self.started_at
        return later(self.completed_at, -(self.duration_ms_min or 0))

    @property
    def began_after(self) -> datetime | None:
        """When it can have begun at the earliest; None where the log does not tell."""
        if self.started_at is not None or self.completed_at is None or self.duration_ms_max is None:
            return self.started_at
        return later(self.completed_at, -self.duration_ms_max)

    def match(self, causes: Sequence[str]) -> str | None:
        """How one of the causes, in any case, matches: by the ``cause`` or by an ``alternative``; None if none does."""
        wanted = {cause.upper() for cause in causes}
        if self.cause in wanted:
            return "cause"
        return None if wanted.isdisjoint(self.alternatives or ()) else "alternative"


COLUMNS = tuple(field.name for field in fields(Rebalance) if field.name != "matched_by")
"""The columns of the table that a rebalance is made of, in its order."""


def rebalance_of(row: Iterable[Any]) -> Rebalance:
    """A rebalance from the values of ``COLUMNS``."""
    return Rebalance(**dict(zip(COLUMNS, row, strict=True)))


def rebalances_of(
    warehouse: Warehouse,
    group: str | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
    *,
    causes: Sequence[str] = (),
) -> list[Rebalance]:
    """Rebalances that touch a time range, by when they began.

    Args:
        warehouse: the tables.
        group: only of this group; of all if None.
        start: those not over before then.
        end: those begun before then.
        causes: only these causes, in any case, be they an alternative to the one named; all if empty.

    Raises:
        UsageError: the tables don't know the group, or nothing of that time range; or there is no such cause.
    """
    check_causes(causes)
    warehouse.check_range(start, end)
    sql = _REBALANCES.format(one_group="" if group is None else "AND group_id = $group")
    rows = warehouse.rows(sql, group=group, start=start, end=end)
    if not rows and group is not None:
        check_group(warehouse, group)
    found = map(rebalance_of, rows)
    if not causes:
        return list(found)
    return [replace(one, matched_by=how) for one in found if (how := one.match(causes)) is not None]


def rebalances_at(
    warehouse: Warehouse, group: str | None, at: datetime, *, causes: Sequence[str] = ()
) -> list[Rebalance]:
    """The rebalance under way at a point in time, or else the last one before it.

    A classic rebalance leaves no record until it ends. Where the point lies between the earliest and the latest moment
    at which the next one can have begun, that one is given as well.

    Args:
        warehouse: the tables.
        group: only of this group; of all if None, and then only rebalances that had begun for sure.
        at: the point in time.
        causes: as for ``rebalances_of``.

    Raises:
        UsageError: as for ``rebalances_of``.
    """
    found = rebalances_of(warehouse, group, causes=causes)
    begun = [one for one in found if (by := one.began_by) is None or by <= at]
    if group is None:
        return begun[-1:]
    perhaps = [one for one in found if one not in begun and (after := one.began_after) is not None and after <= at]
    return [*begun[-1:], *perhaps[:1]]


def known_causes(warehouse: Warehouse) -> list[str]:
    """Every cause that a rebalance of the cluster has."""
    return [cause for (cause,) in warehouse.rows(_CAUSES)]


def check_causes(causes: Sequence[str]) -> None:
    """Make sure that a rebalance can have these causes.

    Raises:
        UsageError: one is none of the words that ``rebalances.cause`` takes.
    """
    known = [str(cause) for cause in Cause]
    for cause in causes:
        if cause.upper() not in known:
            near = nearest(cause.upper(), known)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise UsageError(f"there is no cause {cause}: {hint}")
