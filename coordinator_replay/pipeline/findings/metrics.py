"""The table ``group_metrics``: metrics that a coordinator would show minute by minute, computed from the log.

A row is about all groups of one type and state in one minute. The events of a group count in the row of the type and
state that the group has at the end of the minute.

A group without group records counts as an Empty classic group from its first commit on. It counts until it has neither
an offset nor a commit that waits for its marker.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from coordinator_replay.analysis.findings.evidence import Evidence
from coordinator_replay.analysis.findings.thresholds import MINUTE_MS
from coordinator_replay.analysis.findings.totals import GROUP
from coordinator_replay.columns import NONE
from coordinator_replay.engine.model import GroupState
from coordinator_replay.pipeline.bucket_files import Place, TableWriter
from coordinator_replay.pipeline.commit_sums import MINUTES
from coordinator_replay.pipeline.minute_states import MINUTE_STATES, NUMBERED, SIMPLE
from coordinator_replay.store.duckdb_connection import connected, select
from coordinator_replay.store.scan import BATCH_ROWS, read_paths, read_table, reader_of, rows_of
from coordinator_replay.store.snapshot import TableFile
from coordinator_replay.store.writer import DataFile
from coordinator_replay.tables.definition import table

METRICS = "group_metrics"

COUNTERS = ("rebalance_count", "offset_commits", "expired_offsets", "deleted_offsets")

BEGAN, ENDED = "began", "ended"
"""Events of a group that only has offsets: its first offset is committed, its last offset or pending commit ends."""

HAPPENED = pa.schema([("group_id", pa.string()), ("at_ms", pa.int64()), ("what", pa.string())])
"""Events of groups with their times; ``what`` is one of COUNTERS, BEGAN or ENDED."""

STEPS = pa.schema([(name, pa.int64()) for name in ("minute", "kind", "delta", *COUNTERS)])
"""Changes in a minute for groups of one kind: the change of the number of groups, and counts of events. The minute is
NONE for events before the first record with a time."""

_DEAD = ", ".join(str(number) for number, (_, state) in enumerate(NUMBERED, 1) if state is GroupState.DEAD)
_KINDS = ", ".join(f"({number}, '{group_type}', '{state}')" for number, (group_type, state) in enumerate(NUMBERED, 1))
_COUNTED = ", ".join(f"count(*) FILTER (what = '{name}') AS {name}" for name in COUNTERS)
_SUMMED = ", ".join(f"coalesce(sum({name}), 0) AS {name}" for name in COUNTERS)
_ANY = " OR ".join(f"{name} > 0" for name in COUNTERS)

_STEPS = f"""
WITH states AS ({MINUTE_STATES}), changes AS (
    SELECT minute, kind, coalesce(lag(kind) OVER (PARTITION BY group_id ORDER BY minute), 0) AS before FROM states
), steps AS (
    SELECT minute, kind, CASE WHEN kind = before OR kind IN ({_DEAD}) THEN 0 ELSE 1 END AS delta, NULL AS what
    FROM changes
    UNION ALL
    SELECT minute, before, CASE WHEN before IN ({_DEAD}) THEN 0 ELSE -1 END, NULL
    FROM changes WHERE kind <> before AND before > 0
    UNION ALL
    SELECT at_ms // {MINUTE_MS}, {SIMPLE}, CASE what WHEN '{BEGAN}' THEN 1 ELSE -1 END, NULL
    FROM happened WHERE what IN ('{BEGAN}', '{ENDED}') AND group_id NOT IN (SELECT group_id FROM states)
    UNION ALL
    SELECT at_ms // {MINUTE_MS}, coalesce(kind, {SIMPLE}), 0, what
    FROM happened ASOF LEFT JOIN states
    ON happened.group_id = states.group_id AND happened.at_ms // {MINUTE_MS} >= states.minute
    WHERE what NOT IN ('{BEGAN}', '{ENDED}')
)
SELECT minute, kind, sum(delta) AS delta, {_COUNTED} FROM steps GROUP BY minute, kind
"""  # noqa: S608 - our own names and numbers

_HAPPENED = f"""
WITH tombstones AS (
    SELECT group_id, valid_to // 1000 AS at_ms, ended_by FROM removed WHERE valid_to IS NOT NULL
), commits AS (
    SELECT group_id, first_at FROM new_sums
    UNION ALL SELECT group_id, CAST(sums->>'first_at' AS BIGINT) FROM totals WHERE what = '{GROUP.name}'
), firsts AS (SELECT group_id, min(first_at) AS first_at FROM commits GROUP BY group_id), ends AS (
    SELECT group_id, at_ms FROM tombstones
    UNION ALL SELECT group_id, epoch_ms(valid_to) FROM pending WHERE valid_to IS NOT NULL
), with_offsets AS (
    SELECT group_id FROM current UNION ALL SELECT group_id FROM pending WHERE to_offset IS NULL
)
SELECT group_id, at_ms, CASE ended_by WHEN 'EXPIRED' THEN 'expired_offsets' ELSE 'deleted_offsets' END AS what
FROM tombstones
UNION ALL SELECT group_id, first_at, '{BEGAN}' FROM firsts
UNION ALL SELECT group_id, max(at_ms), '{ENDED}' FROM ends SEMI JOIN firsts USING (group_id)
    ANTI JOIN with_offsets USING (group_id) GROUP BY group_id
UNION ALL SELECT group_id, CAST(detail->>'at' AS BIGINT), 'rebalance_count' FROM evidence
    WHERE tag = {int(Evidence.REBALANCE)} AND CAST(detail->>'is_over' AS BOOLEAN) AND detail->>'at' IS NOT NULL
"""  # noqa: S608 - our own names and numbers

_NO_GROUP_SUMS = pa.table({"group_id": pa.array([], pa.string()), "first_at": pa.array([], pa.int64())})

_ADDED_UP = f"""
CREATE TEMP TABLE added AS
WITH kinds AS (SELECT * FROM (VALUES {_KINDS}) AS kinds (kind, group_type, state)), every AS (
    SELECT * FROM steps
    UNION ALL BY NAME
    SELECT minute, kind, commits AS offset_commits FROM minutes
    UNION ALL BY NAME
    SELECT epoch_ms(bucket) // {MINUTE_MS} AS minute, kind, offset_commits
    FROM earlier JOIN kinds USING (group_type, state) WHERE offset_commits > 0 AND bucket < $since
)
SELECT minute, kind, group_type, state, coalesce(sum(delta), 0) AS delta, {_SUMMED}
FROM every JOIN kinds USING (kind) GROUP BY minute, kind, group_type, state
"""  # noqa: S608 - our own names and numbers

# Events before the first minute on record count in that minute.
_ROWS = f"""
WITH every_minute AS (SELECT DISTINCT minute FROM added WHERE minute <> {NONE}), placed AS (
    SELECT * REPLACE (CASE WHEN minute = {NONE} THEN (SELECT min(minute) FROM every_minute) ELSE minute END AS minute)
    FROM added
), filled AS (
    SELECT minute, kind, group_type, state, coalesce(sum(delta), 0) AS delta, {_SUMMED}
    FROM every_minute CROSS JOIN (SELECT DISTINCT kind, group_type, state FROM added)
    LEFT JOIN placed USING (minute, kind, group_type, state) GROUP BY ALL
)
SELECT make_timestamptz(minute * {MINUTE_MS * 1000}) AS bucket, group_type, state,
    sum(delta) OVER (PARTITION BY kind ORDER BY minute) AS group_count, {", ".join(COUNTERS)}
FROM filled QUALIFY group_count > 0 OR {_ANY} ORDER BY kind, minute
"""  # noqa: S608 - our own names and numbers


def happened_rows(
    removed: pa.Table,
    evidence: pa.Table,
    group_sums: pa.Table | None,
    totals: pa.Table,
    current: pa.Table,
    pending: pa.Table,
) -> pa.Table:
    """Return the events of the groups of a bucket that ``group_metrics`` counts.

    These are tombstones of offsets, rebalances, and two kinds of events of groups without group records: BEGAN (the
    first commit) and ENDED (the last offset was removed). Tombstones and rebalances without a time are left out.

    Args:
        removed: tombstones of offsets, with their times in microseconds.
        evidence: rows of ``group_evidence``, from which the ends of rebalances come.
        group_sums: sums of the commits of this run, by group; None if the run has no commits.
        totals: rows of ``commit_totals``.
        current: offsets that are current at the end of the log.
        pending: rows of ``pending_offsets``.

    Returns:
        Rows with the columns of HAPPENED.
    """
    sums = _NO_GROUP_SUMS if group_sums is None else group_sums.select(_NO_GROUP_SUMS.column_names)
    tables = {"removed": removed, "evidence": evidence, "new_sums": sums, "totals": totals}
    return select(_HAPPENED, {}, **tables, current=current, pending=pending).cast(HAPPENED)


def minute_steps(evidence: pa.Table, happened: pa.Table) -> pa.Table:
    """Return the changes of the state of some groups, and their other events, minute by minute.

    Args:
        evidence: rows of ``group_evidence`` of these groups, with at least the columns STATES.
        happened: the other events, with the columns of HAPPENED.

    Returns:
        Rows with the columns of STEPS.
    """
    return rows_of(select(_STEPS, {}, evidence=evidence, happened=happened).to_batches(), STEPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsShare:
    """Inputs of the metrics of a cluster.

    Attributes:
        steps: files with the columns of STEPS.
        minutes: files of commits by minute, with the columns of MINUTES.
        earlier: files of ``group_metrics`` from the last run, with the numbers of commits before ``since``.
        since: the first minute whose commits this run added up; None if this run added up all commits.
        place: the folders for the rows that are written.
    """

    steps: Sequence[str]
    minutes: Sequence[str]
    earlier: Sequence[str]
    since: datetime | None
    place: Place


@dataclass(frozen=True, slots=True)
class MetricsResult:
    """The written metrics of a cluster, and its groups.

    Attributes:
        files: the written files.
        groups: the number of groups at the end of the log, by type and state.
    """

    files: Sequence[DataFile]
    groups: Counter[tuple[str, str]]


def write_metrics(share: MetricsShare) -> MetricsResult:
    """Write table ``group_metrics``: a row for each type and state in each minute that has a record in the log.

    A minute without a record has no row: the numbers of groups are then the same as in the last minute with a row.

    Args:
        share: the inputs.
    """
    schema = table(METRICS).file_schema().remove_metadata()
    writer = TableWriter(share.place, None)
    earlier = share.earlier if share.since is not None else ()
    with connected() as connection:
        for name, uris, columns in (
            ("steps", share.steps, STEPS),
            ("minutes", share.minutes, MINUTES),
            ("earlier", earlier, schema),
        ):
            connection.register(name, reader_of(read_paths(uris, columns.names), columns))
        connection.execute(_ADDED_UP, {"since": share.since})
        for batch in connection.sql(_ROWS).to_arrow_reader(BATCH_ROWS):
            writer.add(METRICS, batch)
        last = "SELECT group_type, state, sum(delta)::BIGINT FROM added GROUP BY ALL"
        groups = Counter(
            {(group_type, state): count for group_type, state, count in connection.execute(last).fetchall()}
        )
    return MetricsResult(writer.close(), +groups)


def last_groups(files: Iterable[TableFile]) -> Counter[tuple[str, str]]:
    """Return the number of groups by type and state in the last minute of ``group_metrics``."""
    names = ["bucket", "group_type", "state", "group_count"]
    last, groups = None, Counter[tuple[str, str]]()
    for batch in read_table(files, names):
        for minute, group_type, state, count in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
            if last is None or minute > last:
                last, groups = minute, Counter()
            if minute == last:
                groups[group_type, state] += count
    return +groups
