"""Offsets that expired, are past retention, or expire next."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from coordinator_replay.answer_columns import column, row_of, select_list
from coordinator_replay.query.expiring import expiring_rows
from coordinator_replay.query.groups import check_group
from coordinator_replay.query.tables import Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredOffset:
    """An offset that is lost or in danger: a row of ``expired_offsets``.

    Attributes:
        is_exact: whether the log proves that the offset was in force until then, and which rule applied.
    """

    group_id: str = column("GROUP", 1, is_id=True)
    topic: str = column("TOPIC", 1, is_id=True)
    partition: int = column("PARTITION", 1)
    committed_offset: int | None = column("OFFSET", 2)
    status: str = column("STATUS", 1)
    expire_at: datetime | None = column("EXPIRE-AT", 1)
    rule: str | None = column("RULE", 1)
    confidence: str | None = column("CONFIDENCE", 4)
    commit_timestamp: datetime | None = column("COMMITTED-AT", 5)
    base_timestamp: datetime | None
    tombstone_at: datetime | None = column("TOMBSTONE-AT", 5)
    tombstone_offset: int | None
    last_owner_member_id: str | None = column("LAST-OWNER", 4, 10, is_id=True)
    group_state: str | None
    alternatives: Sequence[str] | None
    retention_ms: int | None
    metadata: str | None
    is_exact: bool | None


_EXPIRED = f"""
    SELECT {select_list(ExpiredOffset)}
    FROM expired_offsets
    WHERE cluster = $cluster {{of_groups}}
    ORDER BY coalesce(tombstone_at, expire_at), group_id, topic, partition
"""  # noqa: S608 - put together from constants


def expired_offsets(
    warehouse: Tables,
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
        rows = warehouse.rows(_EXPIRED, group=group)
    else:
        rows = expiring_rows(warehouse, group, within, select_list(ExpiredOffset))
    if not rows and group is not None:
        check_group(warehouse, group)
    offsets = [row_of(ExpiredOffset, row) for row in rows]
    if statuses:
        offsets = [offset for offset in offsets if offset.status in statuses]
    return offsets
