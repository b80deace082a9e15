"""An overview of all groups of a cluster: their numbers, rebalances, findings, and offsets that will expire."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from coordinator_replay.answer_columns import column, select_list
from coordinator_replay.query.findings import FINDING_TOUCHES_RANGE, Finding, findings_of
from coordinator_replay.query.groups import groups_at
from coordinator_replay.query.rebalances import TIMED_REBALANCES, TOUCHES_RANGE
from coordinator_replay.query.tables import Coverage, Tables
from coordinator_replay.times import EPOCH, later, round_length

MOST_ROWS = 500
"""Largest number of rows that the page of all groups shows of each list. The list of groups has no limit."""

MOST_BARS = 120
"""Largest number of intervals in which rebalances are counted; each interval is a bar of a chart."""

_CAUSES = f"""
    SELECT time_bucket($width, coalesce(started_at, in_progress_to), $origin) AS since, coalesce(cause, 'UNKNOWN'),
           count(*)
    FROM {TIMED_REBALANCES}
    WHERE cluster = $cluster AND {TOUCHES_RANGE} AND coalesce(started_at, in_progress_to) IS NOT NULL
    GROUP BY 1, 2 ORDER BY 1, 2
"""  # noqa: S608 - put together from constants

_GROUPS_WITH_NEWS = f"""
    SELECT group_id FROM {TIMED_REBALANCES} WHERE cluster = $cluster AND {TOUCHES_RANGE}
    UNION
    SELECT group_id FROM findings WHERE cluster = $cluster AND group_id IS NOT NULL AND {FINDING_TOUCHES_RANGE}
"""  # noqa: S608 - put together from constants

_EXPIRING = """
    SELECT group_id, topic, status, count(*), min(coalesce(tombstone_at, expire_at)), min(rule),
           min(last_owner_member_id), min(group_state)
    FROM expired_offsets WHERE cluster = $cluster
    GROUP BY group_id, topic, status
    ORDER BY list_position(['DUE', 'EXPIRING', 'EXPIRED'], status), 5, group_id, topic
"""

_GAPS = """
    SELECT gap.log_partition, gap.from_offset, gap.to_offset, started_at, run_id FROM (
        SELECT unnest(gaps) AS gap, started_at, run_id FROM audit_runs WHERE cluster = $cluster
    ) ORDER BY started_at DESC, gap.log_partition, gap.from_offset
"""

_QUARANTINE = """
    SELECT error_class, count(*), min(error_message), min(log_timestamp), max(log_timestamp)
    FROM quarantine WHERE cluster = $cluster GROUP BY error_class ORDER BY 2 DESC, 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseCount:
    """Number of rebalances of one cause in one interval.

    A rebalance counts in the interval in which it began. If its start is not on record, it counts in the interval in
    which it ended.

    Attributes:
        since: start of the interval.
    """

    since: datetime
    cause: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiring:
    """Offsets of one group and topic that expired or will expire soon, all with the same status.

    Attributes:
        partitions: number of the offsets.
        earliest: the earliest time at which one of the offsets was removed or will expire.
        rule, last_owner_member_id, group_state: the value of these columns of ``expired_offsets``. If the offsets have
            different values, the first in alphabetical order.
    """

    group_id: str
    topic: str
    status: str
    partitions: int
    earliest: datetime | None
    rule: str | None
    last_owner_member_id: str | None
    group_state: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRun:
    """Counts of one audit, as in the table ``audit_runs`` (see ``schemas/tables/audit_runs.json``).

    Attributes:
        gap_count: number of ranges of log offsets that were missing from the audit's input.
    """

    started_at: datetime | None
    finished_at: datetime | None
    status: str | None
    records_read: int | None
    records_decoded: int | None
    records_quarantined: int | None
    control_records: int | None
    duplicates_dropped: int | None
    already_audited: int | None
    gap_count: int | None = column(sql="len(gaps)")
    inputs: list[str] | None
    run_id: str


_RUNS = f"SELECT {select_list(AuditRun)} FROM audit_runs WHERE cluster = $cluster ORDER BY started_at DESC, run_id"  # noqa: S608


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingOffsets:
    """A range of log offsets that are missing from the files that an audit read.

    Attributes:
        from_offset: the first log offset of the range.
        to_offset: end of the range, excluded.
        started_at: the time at which the audit began.
    """

    log_partition: int
    from_offset: int
    to_offset: int
    started_at: datetime | None
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecoded:
    """Records in quarantine that could not be decoded for the same reason.

    Attributes:
        example: the error message of one of these records.
        first, last: the earliest and the latest timestamp of these records.
    """

    error_class: str | None
    count: int
    example: str | None
    first: datetime | None
    last: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterGroups:
    """A cluster's groups at a glance: the content of the page of all groups.

    Attributes:
        width: length of the intervals of ``causes``, such as one hour.
        kinds: for each type and state of a group, the number of groups at the end of the time range.
        causes: number of rebalances in each interval, by cause.
        expiring: offsets that expired or will expire soon, by group, topic and status.
        findings: all findings.
        runs: all audits, the latest first.
        gaps: ranges of log offsets that are missing from the files that audits read.
        undecoded: records in quarantine, by reason.
    """

    start: datetime
    end: datetime
    coverage: Coverage
    width: timedelta
    kinds: tuple[tuple[str, str, int], ...]
    causes: tuple[CauseCount, ...]
    expiring: tuple[Expiring, ...]
    findings: tuple[Finding, ...]
    runs: tuple[AuditRun, ...]
    gaps: tuple[MissingOffsets, ...]
    undecoded: tuple[Undecoded, ...]


def _kinds(warehouse: Tables, at: datetime | None) -> tuple[tuple[str, str, int], ...]:
    counted: dict[tuple[str, str], int] = {}
    for group in groups_at(warehouse, at):
        counted[group.group_type, group.state] = counted.get((group.group_type, group.state), 0) + 1
    return tuple((kind, state, count) for (kind, state), count in sorted(counted.items()))


def fleet_of(warehouse: Tables, start: datetime | None = None, end: datetime | None = None) -> ClusterGroups:
    """Return an overview of a cluster's groups.

    Only ``kinds`` (numbers of groups by type and state) and ``causes`` (numbers of rebalances) depend on the time
    range. All other fields are about the whole log.

    Args:
        warehouse: the tables to read.
        start: start of the time range, included; None to begin at the first record that was read.
        end: end of the time range, excluded; None to end after the last record of the log.

    Raises:
        UsageError: the tables have no record of the cluster, or of the time range.
    """
    warehouse.check_range(start, end)
    covered = warehouse.coverage
    begin, stop = start or covered.first, end or later(covered.last, 1)
    asked = {"start": begin, "end": stop}
    width = round_length(stop - begin, MOST_BARS, timedelta(seconds=1))
    # Days begin at midnight of the zone.
    origin = EPOCH - (begin.astimezone(warehouse.zone).utcoffset() or timedelta())
    return ClusterGroups(
        start=begin,
        end=stop,
        coverage=covered,
        width=width,
        kinds=_kinds(warehouse, end),
        causes=tuple(warehouse.answers(CauseCount, _CAUSES, width=width, origin=origin, **asked)),
        expiring=tuple(warehouse.answers(Expiring, _EXPIRING)),
        findings=tuple(findings_of(warehouse)),
        runs=tuple(warehouse.answers(AuditRun, _RUNS)),
        gaps=tuple(warehouse.answers(MissingOffsets, _GAPS)),
        undecoded=tuple(warehouse.answers(Undecoded, _QUARANTINE)),
    )


def groups_with_news(warehouse: Tables, start: datetime | None = None, end: datetime | None = None) -> set[str]:
    """Return the names of the groups that have a rebalance or a finding in a time range.

    Args:
        warehouse: the tables to read.
        start: start of the time range, included; None for no lower bound.
        end: end of the time range, excluded; None for no upper bound.
    """
    return {group for (group,) in warehouse.rows(_GROUPS_WITH_NEWS, start=start, end=end)}
