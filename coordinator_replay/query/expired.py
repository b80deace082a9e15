"""Offsets that expired, are past retention, or will expire soon.

The table ``expired_offsets`` has offsets that will expire up to a certain time after the end of the log. If a user asks
about a later time, ``expiring_rows`` computes which offsets will expire. It assumes that groups don't change after the
end of the log.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from coordinator_replay.analysis.expiring import DEFAULT_RETENTION_MS, Retention, expiring_offsets
from coordinator_replay.answer_columns import column, row_of, select_list
from coordinator_replay.listing import counted
from coordinator_replay.query.groups import check_group
from coordinator_replay.query.tables import Tables
from coordinator_replay.times import later, moment_text

_MINUTE_MS = 60_000
_DAY_MS = 86_400_000

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
    """Return the retention that the last finished audit applied.

    ``is_known`` is False if the retention is only Kafka's default. ``note`` is empty if the user gave the retention.
    """
    named_ms = next((row[0] for row in warehouse.rows(_SETTINGS)), None)
    applied_ms, is_certain = warehouse.rows(_APPLIED)[0]
    retention_ms = named_ms or applied_ms or DEFAULT_RETENTION_MS
    is_known = named_ms is not None or bool(is_certain)
    if is_certain is None and named_ms is None:
        # The remaining offsets don't show the retention. If it differs from the default, it was inferred from expired
        # offsets.
        is_known = retention_ms != DEFAULT_RETENTION_MS
    return Retention(retention_ms, is_known, "" if named_ms is not None else _source_note(retention_ms, is_known))


def _source_note(retention_ms: int, is_known: bool) -> str:
    """Return a sentence with the offset retention that says where this value comes from.

    Args:
        retention_ms: the offset retention.
        is_known: whether the retention was inferred from expired offsets; False if it is Kafka's default.
    """
    if not is_known:
        return (
            f"Offset retention: {retention_ms // _DAY_MS} days, Kafka's default; no audit had --retention, and the "
            "log does not show the retention."
        )
    minutes = counted(retention_ms // _MINUTE_MS, "minute")
    return f"Offset retention: {minutes}, inferred from offsets that expired; the audits were given none."


def expiring_rows(warehouse: Tables, group: str | None, within: timedelta, columns: str) -> list[tuple[Any, ...]]:
    """Return offsets that are past retention, or will expire within a duration after the end of the log.

    Rows of old releases may lack the rule by which an offset expires. These offsets are left out, and a note has their
    number.

    Args:
        warehouse: the tables to read.
        group: only offsets of this group; None for all groups.
        within: the duration after the end of the log.
        columns: the columns of ``expired_offsets`` to return.
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


_HORIZON = """
    SELECT CAST(settings->>'$.horizon_ms' AS BIGINT) FROM audit_runs
    WHERE cluster = $cluster AND status = 'done' ORDER BY started_at DESC, run_id DESC LIMIT 1
"""


def looked_until(warehouse: Tables, within: timedelta | None) -> datetime | None:
    """Return the time up to which an answer has the offsets that will expire. Return None if the time is unknown.

    Args:
        warehouse: the tables to read.
        within: the time as a duration after the end of the log; None for the duration of the last audit (``audit
            --horizon``).
    """
    if within is not None:
        return later(warehouse.coverage.last, round(within.total_seconds() * 1000))
    horizon_ms = next((row[0] for row in warehouse.rows(_HORIZON)), None)
    return None if horizon_ms is None else later(warehouse.coverage.last, horizon_ms)


def looked_note(until: datetime | None, *, is_chosen: bool, has_none: bool) -> str | None:
    """Return a note that says that an answer has the offsets that expire up to a certain time.

    Args:
        until: the time; None if unknown. Then the result is None, too.
        is_chosen: whether the user gave this time.
        has_none: whether the user asked for offsets that will expire, and the answer has none.
    """
    if until is None:
        return None
    further = "" if is_chosen else "; --within and --until look further"
    found = ": the answer has none" if has_none else ""
    return f"Offsets that expire up to {moment_text(until)} were looked for{found}{further}."


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredOffset:
    """A row of ``expired_offsets``: an offset that expired, is past retention, or will expire soon.

    The fields that are not described here are columns of this table (see ``schemas/tables/expired_offsets.json``).

    Attributes:
        is_exact: whether the log proves the rule by which the offset expires (``rule``), and also proves that no commit
            replaced the offset before its removal.
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
    """Return offsets that expired or are about to expire, the earliest first.

    Args:
        warehouse: the tables to read.
        group: only offsets of this group; None for all groups.
        statuses: only offsets with one of these statuses; empty for all statuses.
        within: only offsets that have not expired and will expire within this duration after the end of the log. None
            for all rows of the table ``expired_offsets``.

    Raises:
        UsageError: the tables have no record of the group.
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
