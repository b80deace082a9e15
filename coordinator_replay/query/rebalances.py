"""Rebalances with their reasons, by when they began."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from coordinator_replay.errors import UsageError
from coordinator_replay.query.groups import check_group
from coordinator_replay.query.warehouse import Warehouse, nearest

_REBALANCES = """
    SELECT started_at, completed_at, duration_ms, group_id, group_type, epoch, attempts, cause, join_reason, confidence,
           members_before, members_after, partitions_moved, partitions_total, unowned_ms_max, unowned_ms_total,
           metadata_delay_ms, evidence, alternatives, trigger_members, members_joined, members_left, is_exact,
           rebalance_id
    FROM rebalances
    WHERE cluster = $cluster {one_group}
      AND coalesce(completed_at >= $start, true)
      AND coalesce(coalesce(started_at, completed_at) < $end, true)
    ORDER BY coalesce(started_at, completed_at), group_id, epoch
"""

_CAUSES = "SELECT DISTINCT cause FROM rebalances WHERE cluster = $cluster AND cause IS NOT NULL ORDER BY cause"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """A rebalance: a row of the table of that name."""

    started_at: datetime | None
    completed_at: datetime | None
    duration_ms: int | None
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
    partitions_total: int | None
    unowned_ms_max: int | None
    unowned_ms_total: int | None
    metadata_delay_ms: int | None
    evidence: list[str] | None
    alternatives: list[str] | None
    trigger_members: list[str] | None
    members_joined: list[str] | None
    members_left: list[str] | None
    is_exact: bool | None
    rebalance_id: str


def rebalances_of(
    warehouse: Warehouse,
    group: str | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
    *,
    causes: Sequence[str] = (),
) -> list[Rebalance]:
    """Rebalances that touch a stretch of time, by when they began.

    Args:
        warehouse: the tables.
        group: only of this group; of all if None.
        start: those not over before then.
        end: those begun before then.
        causes: only these causes, in any case; all if empty.

    Raises:
        UsageError: the tables don't know the group, the cause, or nothing of that stretch of time.
    """
    sql = _REBALANCES.format(one_group="" if group is None else "AND group_id = $group")
    rows = warehouse.rows(sql, group=group, start=start, end=end)
    if not rows:
        if group is not None:
            check_group(warehouse, group)
        warehouse.check_range(start, end)
    found = [Rebalance(**dict(zip(Rebalance.__slots__, row, strict=True))) for row in rows]
    if not causes:
        return found
    wanted = {cause.upper() for cause in causes}
    chosen = [rebalance for rebalance in found if (rebalance.cause or "").upper() in wanted]
    return chosen or _check_causes(warehouse, wanted)


def known_causes(warehouse: Warehouse) -> list[str]:
    """Every cause that a rebalance of the cluster has."""
    return [cause for (cause,) in warehouse.rows(_CAUSES)]


def _check_causes(warehouse: Warehouse, wanted: set[str]) -> list[Rebalance]:
    """No rebalance, where every cause asked for does occur in the cluster."""
    known = known_causes(warehouse)
    for cause in sorted(wanted - {name.upper() for name in known}):
        near = nearest(cause, known)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known) or 'none'}"
        raise UsageError(f"no rebalance has the cause {cause}: {hint}")
    return []
