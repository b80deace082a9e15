"""Offsets still committed that expire next, for any horizon.

The table ``expired_offsets`` ends at the horizon of its audit. The offsets in force at the end of the log carry what
decides about them, so the audit's own rule answers for other horizons, with the retention that the last audit applied.
For times after the end of the log, groups are taken to stay as they are.
"""

from datetime import timedelta
from typing import Any

from coordinator_replay.analysis.expiration import DEFAULT_RETENTION_MS
from coordinator_replay.analysis.expiring import Retention, expiring_offsets
from coordinator_replay.query.tables import Tables
from coordinator_replay.times import later

_SETTINGS = """
    SELECT CAST(settings->>'$.retention_ms' AS BIGINT) FROM audit_runs
    WHERE cluster = $cluster AND status = 'done' ORDER BY started_at DESC, run_id DESC LIMIT 1
"""

_APPLIED = """
    SELECT min(retention_ms), bool_or(confidence = 'certain') FILTER (status <> 'EXPIRED')
    FROM expired_offsets WHERE cluster = $cluster
"""

_IN_FORCE = "(SELECT * FROM offset_history WHERE cluster = $cluster AND to_offset IS NULL {of_groups})"

_WITHOUT_RULE = f"SELECT count(*) FROM {_IN_FORCE} WHERE rule IS NULL"  # noqa: S608 - put together from constants


def applied_retention(warehouse: Tables) -> Retention:
    """The retention that the last finished audit of the cluster applied."""
    named_ms = next((row[0] for row in warehouse.rows(_SETTINGS)), None)
    applied_ms, is_certain = warehouse.rows(_APPLIED)[0]
    retention_ms = named_ms or applied_ms or DEFAULT_RETENTION_MS
    is_known = named_ms is not None or bool(is_certain)
    if is_certain is None and named_ms is None:
        # No offset that is left shows it; a retention other than the default was inferred from offsets that expired.
        is_known = retention_ms != DEFAULT_RETENTION_MS
    return Retention(retention_ms, is_known)


def expiring_rows(warehouse: Tables, group: str | None, within: timedelta, columns: str) -> list[tuple[Any, ...]]:
    """Offsets in force that are past retention, or will be within a horizon, the earliest first.

    Args:
        warehouse: the tables.
        group: only of this group; of all if None.
        within: how far ahead of the end of the log to look.
        columns: which columns of ``expired_offsets``.
    """
    [(unknown,)] = warehouse.rows(_WITHOUT_RULE, group=group)
    if unknown:
        which = "1 offset was" if unknown == 1 else f"{unknown:,} offsets were"
        rest = (
            "is left out: audit --full adds its rule" if unknown == 1 else "are left out: audit --full adds their rule"
        )
        warehouse.notes.append(f"{which} written by an earlier release and {rest}")
    retention, end = applied_retention(warehouse), warehouse.coverage.last
    sql = f"SELECT {columns} FROM ({expiring_offsets(_IN_FORCE)}) ORDER BY expire_at, group_id, topic, partition"  # noqa: S608
    return warehouse.rows(
        sql,
        group=group,
        as_of=end,
        limit=later(end, round(within.total_seconds() * 1000)),
        retention_ms=retention.ms,
        is_known=retention.is_known,
    )
