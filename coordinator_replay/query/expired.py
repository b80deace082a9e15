"""Offsets that expired, are past retention, or expire next."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from coordinator_replay.query.expiring import expiring_rows
from coordinator_replay.query.groups import check_group
from coordinator_replay.query.warehouse import Warehouse

STATUSES = ("EXPIRED", "DUE", "EXPIRING")

_COLUMNS = """group_id, topic, partition, committed_offset, status, expire_at, rule, confidence, commit_timestamp,
    base_timestamp, tombstone_at, tombstone_offset, last_consumed_by, group_state, alternatives, retention_ms,
    metadata, is_exact"""

_EXPIRED = """
    SELECT {columns}
    FROM expired_offsets
    WHERE cluster = $cluster {one_group}
    ORDER BY coalesce(tombstone_at, expire_at), group_id, topic, partition
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredOffset:
    """An offset that is lost or in danger: a row of ``expired_offsets``.

    Attributes:
        is_exact: whether the log proves that the offset was in force until then, and which rule applied.
    """

    group_id: str
    topic: str
    partition: int
    committed_offset: int | None
    status: str
    expire_at: datetime | None
    rule: str | None
    confidence: str | None
    commit_timestamp: datetime | None
    base_timestamp: datetime | None
    tombstone_at: datetime | None
    tombstone_offset: int | None
    last_consumed_by: str | None
    group_state: str | None
    alternatives: Sequence[str] | None
    retention_ms: int | None
    metadata: str | None
    is_exact: bool | None


def expired_offsets(
    warehouse: Warehouse,
    group: str | None = None,
    *,
    statuses: Sequence[str] = (),
    within: timedelta | None = None,
) -> list[ExpiredOffset]:
    """Offsets that expired or are about to, the earliest first.

    Args:
        warehouse: the tables.
        group: only of this group; of all if None.
        statuses: only these; all if empty.
        within: only offsets still committed that expire within so long after the end of the log, however far ahead
            the audit looked; None: what the audit wrote, expired ones among it.

    Raises:
        UsageError: the tables don't know the group.
    """
    if within is None:
        sql = _EXPIRED.format(columns=_COLUMNS, one_group="" if group is None else "AND group_id = $group")
        rows = warehouse.rows(sql, group=group)
    else:
        rows = expiring_rows(warehouse, group, within, _COLUMNS)
    if not rows and group is not None:
        check_group(warehouse, group)
    found = [ExpiredOffset(**dict(zip(ExpiredOffset.__slots__, row, strict=True))) for row in rows]
    if statuses:
        found = [offset for offset in found if offset.status in statuses]
    return found
