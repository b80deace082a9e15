"""Causes of removed offsets. A tombstone names no cause, so the cause is inferred from other events at its time.

- Retention removes every offset of a group that is past ``offsets.retention.minutes``. When the last offset is removed,
  the group is removed, too.
- DeleteGroups removes all offsets of a group, whatever their age.
- A deleted topic loses its offsets in many groups at once.
- DeleteOffsets removes the offsets that an admin names.

So if an operation of the coordinator removed an offset that was not past retention, the cause was not retention. If all
removed offsets were past retention, the confidence depends on how soon after the end of retention they were removed.
Some releases of Kafka removed offsets too early. If such a bug may be the cause, the evidence names the bug.

This stage reads all buckets, because a deleted topic concerns all of them.
"""

# A group's tombstone in the same write mostly comes from DeleteGroups. But a coordinator written in Scala (before 4.0)
# also writes it if DeleteOffsets or a deleted topic removes the last offsets of an Empty group
# (``GroupMetadataManager.cleanupGroupMetadata``). Two requests in the same millisecond look like one write, too. So
# GROUP_DELETED is ``certain`` only if a broker's log says it.

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.analysis.broker_logs.removals import LoggedRemoval
from coordinator_replay.analysis.expiring import (
    DEFAULT_CHECK_INTERVAL_MS,
    DEFAULT_RETENTION_MS,
    PROVEN,
    ExpiryRule,
    Retention,
    expire_at,
)
from coordinator_replay.analysis.removal_facts import facts_of, sentences_of
from coordinator_replay.arrow_times import TIMESTAMP
from coordinator_replay.columns import numbers_of, some
from coordinator_replay.pipeline.bucket_files import Place, TableWriter
from coordinator_replay.pipeline.interval_rows import STAGED
from coordinator_replay.pipeline.offsets.cause_rules import (
    DECISION,
    HELD,
    JOINING,
    LOADING,
    PERHAPS_REBALANCING,
    REBALANCING,
    UNDETERMINED,
    UPGRADED,
)
from coordinator_replay.pipeline.offsets.logged_removals import removals_of
from coordinator_replay.store.duckdb_connection import connected, select
from coordinator_replay.store.scan import BATCH_ROWS, Batches, read_paths, rows_of
from coordinator_replay.store.writer import DataFile, conform
from coordinator_replay.tables.definition import table
from coordinator_replay.times import microseconds, moment_of_ms

TOPIC_DELETION_SPREAD_MS = 30_000
"""A deleted topic's offsets are removed from all log partitions at about the same time, at most this far apart."""

OPEN_FOR = timedelta(days=7)
"""The cause of a tombstone may still change if the tombstone is at most this old at the end of the log."""

SEVERAL_GROUPS = 3
"""Number of groups that are evidence together. If this many groups lost offsets of a topic that were too young for
retention, the topic was deleted. If this many groups lost offsets at once, and all these offsets came due since the
check before, a retention check removed them. Removals in one or two groups are evidence of neither."""

SURVIVORS = pa.schema([("group_id", pa.string()), ("at_risk_ms", pa.int64())])
"""The longest time for which each group has kept an offset that could expire by age, in milliseconds, at the end of the
log."""

HISTORY, REMOVED, EXPIRED = "offset_history", "removed_offsets", "expired_offsets"
COMMITS, GROUP_RECORDS, REBALANCES = "offset_commits", "group_records", "rebalances"

_REBALANCES = table(REBALANCES).arrow_schema(["group_id", "completed_at", "duration_ms_max"]).remove_metadata()

_MINUTE_MS = 60_000
_ROUND_MS = (24 * 60 * _MINUTE_MS, 60 * _MINUTE_MS, 10 * _MINUTE_MS, _MINUTE_MS)
"""Units in which people set the retention: days are tried first, then hours and minutes."""

_BY_AGE = ", ".join(
    f"'{rule}'" for rule in (ExpiryRule.EMPTY_SINCE, ExpiryRule.SIMPLE_GROUP, ExpiryRule.UNSUBSCRIBED_TOPIC)
)
_AGES = (
    *("log_partition", "group_id", "rule", "expire_timestamp", "is_protected", "base_timestamp", "rule_since"),
    *("valid_from", "valid_to"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CausesShare:
    """Inputs from which causes are inferred.

    Attributes:
        removed: files of removed offsets whose cause may still change, with the columns of STAGED.
        closed: files of ``removed_offsets`` whose causes are final. They are read to infer the retention.
        survivors: files with ages of current offsets, with the columns of SURVIVORS.
        coordinators: the changes of coordinators. Each change is a tuple of log partition, time in milliseconds, leader
            epoch, and a boolean: True if the election was at this time, False if it may have been earlier.
        rebalances: files of ``rebalances``.
        lines: files of ``broker_log``.
        commits: files of ``offset_commits``; none if ``lines`` is empty.
        group_records: files of ``group_records``; none if ``lines`` is empty.
        deletions: topics and times of their deletion in milliseconds, if the dump holds the cluster's metadata.
        retention_ms: offsets.retention.minutes as the user gave it, in milliseconds. None to infer the retention, or to
            use Kafka's default if it can't be inferred.
        end: the latest timestamp of a record of the log.
        as_of: the time at which the ages of offsets are compared with the retention; None for the end of the log.
        place: the folders for the rows that are written.
        buckets: number of buckets.
    """

    removed: Sequence[str]
    closed: Sequence[str]
    survivors: Sequence[str]
    deletions: Sequence[tuple[str, int]]
    retention_ms: int | None
    end: datetime | None
    as_of: datetime | None
    place: Place
    buckets: int
    coordinators: Sequence[tuple[int, int, int, bool]] = ()
    rebalances: Sequence[str] = ()
    lines: Sequence[str] = ()
    commits: Sequence[str] = ()
    group_records: Sequence[str] = ()


@dataclass(slots=True)
class CausesResult:
    """The files of rows that were written, and the retention that was used."""

    retention: Retention
    files: list[DataFile] = field(default_factory=list)


def _ms_between(earlier: str, later: str) -> str:
    """Return SQL for the milliseconds from one timestamp to another."""
    return f"CAST(floor((epoch_us({later}) - epoch_us({earlier})) / 1000.0) AS BIGINT)"


_INFERENCE = f"""
WITH by_age AS (
    SELECT *, {_ms_between("base_timestamp", "valid_to")} AS age_ms,
        {_ms_between("greatest(base_timestamp, rule_since, valid_from)", "valid_to")} AS at_risk_ms,
        coalesce({_ms_between("base_timestamp", "valid_from")} <= $check, true) AS is_age_of_record
    FROM removed WHERE rule IN ({_BY_AGE}) AND expire_timestamp IS NULL AND NOT is_protected
), operations AS (
    SELECT log_partition, group_id, valid_to, min(age_ms) AS age_ms FROM by_age WHERE is_age_of_record GROUP BY ALL
), at_risk AS (
    SELECT group_id, at_risk_ms FROM by_age UNION ALL SELECT group_id, at_risk_ms FROM survivors
), bounds AS (
    SELECT group_id, max(at_risk_ms) - $check AS bound_ms FROM at_risk WHERE at_risk_ms IS NOT NULL GROUP BY group_id
), dissent AS (
    SELECT bound_ms, sum(count(*)) OVER (ORDER BY bound_ms DESC ROWS UNBOUNDED PRECEDING) - count(*) AS dissenting
    FROM bounds GROUP BY bound_ms
), agreeing AS (
    SELECT floor(age_ms / $check) AS place, count(DISTINCT group_id) AS groups, min(age_ms) AS youngest_ms,
        max(age_ms) AS oldest_ms
    FROM operations WHERE age_ms >= {_MINUTE_MS} GROUP BY place HAVING groups >= 2
), bounded AS (
    SELECT agreeing.*, dissenting, greatest(bound_ms, oldest_ms - $check, {_MINUTE_MS}) AS lowest_ms
    FROM agreeing ASOF JOIN dissent ON youngest_ms >= bound_ms
), candidates AS (
    SELECT *, coalesce({
    ", ".join(
        f"CASE WHEN youngest_ms // {unit} * {unit} >= lowest_ms THEN youngest_ms // {unit} * {unit} END"
        for unit in _ROUND_MS
    )
}) AS retention_ms
    FROM bounded WHERE groups > 2 * dissenting
)
SELECT retention_ms FROM candidates
WHERE retention_ms IS NOT NULL AND place - 1 NOT IN (SELECT place FROM candidates)
ORDER BY groups - dissenting DESC, place LIMIT 1
"""  # noqa: S608 - names and numbers of our own


def infer_retention(removed: pa.Table, survivors: pa.Table) -> int | None:
    """Return the retention that the ages of removed offsets show: ``offsets.retention.minutes`` of the brokers.

    The retention is found only if offsets of several groups were removed at about the same age.

    Args:
        removed: removed offsets, with the columns of STAGED about their age.
        survivors: the age of the oldest offset that each group still has, with the columns of SURVIVORS.

    Returns:
        The retention in milliseconds; None if it can't be inferred.
    """
    # - The coordinator checks for old offsets once in each check interval. So it removes an offset up to one check
    #   interval after the end of retention.
    # - Retention is at most the age of each offset that was removed. It is at least the age of each offset that was
    #   kept, minus one check interval.
    # - Several groups must have lost offsets at ages that differ by no more than a check interval. The lowest of these
    #   ages is the upper bound.
    # - Between the bounds, whole days, hours or minutes are preferred to other values.
    # - If a group has kept an offset for longer than the value found, the group contradicts the value. The value is
    #   dropped if there is a contradicting group for every two agreeing groups.
    # - The age of an offset counts from the latest of three times: its own time, the time of its record, and the time
    #   since which its expiry rule applies.
    # - A client may choose the time of a commit freely. If that time is long before the time of the commit's record,
    #   the offset has no age.
    [inferred] = select(_INFERENCE, {"check": DEFAULT_CHECK_INTERVAL_MS}, removed=removed, survivors=survivors).columns
    return next((int(value) for value in inferred.to_pylist()), None)


def _retention(share: CausesShare, removed: pa.Table) -> Retention:
    if share.retention_ms is not None:
        note = f"offset retention: {share.retention_ms // _MINUTE_MS} minutes, as given"
        return Retention(share.retention_ms, True, note)
    inferred = None
    if share.end is not None:
        new = removed.select(list(_AGES))
        ages = pa.concat_tables([new, rows_of(read_paths(share.closed, _AGES), new.schema)])
        kept = pa.Table.from_batches(read_paths(share.survivors, SURVIVORS.names), SURVIVORS)
        inferred = infer_retention(ages, kept)
    if inferred is not None:
        minutes = inferred // _MINUTE_MS
        return Retention(inferred, True, f"offset retention: {minutes} minutes, inferred from observed expirations")
    return Retention(
        DEFAULT_RETENTION_MS,
        False,
        "offset retention: 7 days, Kafka's default (--retention was not given, and no expiration was observed)",
    )


_COMMIT_DUE = "commit_timestamp + to_milliseconds(CAST($retention AS BIGINT))"
"""SQL for the end of retention, if retention counts from the commit."""

_SPARED_UNTIL = f"""CASE WHEN rule = '{ExpiryRule.NEVER_WHILE_ACTIVE}' THEN {_COMMIT_DUE} END"""
"""SQL for the end of retention of an offset that a member's subscription keeps."""

_CAUSES = f"""
WITH timed AS (
    SELECT * EXCLUDE (ended_by, has_group_tombstone), to_offset AS tombstone_offset, valid_to AS tombstone_at,
        CASE WHEN has_group_tombstone OR NOT bool_or(has_group_tombstone IS NULL)
                OVER (PARTITION BY log_partition, group_id, valid_to)
            THEN has_group_tombstone END AS has_group_tombstone,
        {expire_at("$retention")} AS expire_at, {_ms_between("deleted_at", "valid_to")} AS since_deleted_ms,
        CASE WHEN since_deleted_ms <= $spread THEN since_deleted_ms END AS deleted_ms,
        coalesce({expire_at("$retention")}, {_SPARED_UNTIL}) AS due_at,
        earlier_at IS NOT NULL OR rebalanced_at IS NOT NULL AS was_classic,
        {_ms_between("elected_at", "valid_to")} AS elected_ms, {_ms_between("valid_to", "rebalanced_at")}
        AS until_rebalanced_ms,
        {_ms_between("commit_timestamp", "valid_to")} AS since_commit_ms,
        coalesce({_ms_between("base_timestamp", "valid_to")}, since_commit_ms) AS age_ms,
        {_ms_between("commit_timestamp", "expire_timestamp")} AS named_ms
    FROM removed ASOF LEFT JOIN deletions ON removed.topic = deletions.name AND removed.valid_to >= deletions.deleted_at
        ASOF LEFT JOIN coordinators
            ON coordinators.of_partition = removed.log_partition AND removed.valid_to >= coordinators.elected_at
        ASOF LEFT JOIN rebalanced
            ON rebalanced.of_group = removed.group_id AND removed.valid_to <= rebalanced.rebalanced_at
        ASOF LEFT JOIN (FROM rebalanced SELECT of_group AS earlier_of, rebalanced_at AS earlier_at) AS earlier
            ON earlier.earlier_of = removed.group_id AND removed.valid_to >= earlier.earlier_at
        LEFT JOIN logged ON logged.at_partition = removed.log_partition AND logged.at_ms = epoch_ms(removed.valid_to)
), dated AS (
    SELECT *, coalesce(expire_at <= tombstone_at, false) AND NOT is_protected AS is_old,
        coalesce(due_at <= tombstone_at, false) AS is_due,
        coalesce({_COMMIT_DUE} <= tombstone_at, false) AS is_commit_due,
        coalesce(elected_ms <= $check AND valid_from < elected_at, false) AS is_loaded
    FROM timed
), aged AS (
    SELECT *,
        CASE WHEN rule = '{ExpiryRule.NEVER_WHILE_ACTIVE}' AND is_due AND until_rebalanced_ms <= rebalance_ms
            THEN '{REBALANCING}'
            WHEN rule = '{ExpiryRule.EMPTY_SINCE}' AND NOT is_due AND is_commit_due
                AND until_rebalanced_ms <= rebalance_ms AND has_group_tombstone IS NOT TRUE
            THEN '{JOINING}'
            WHEN is_protected AND is_due AND {_ms_between("greatest(due_at, rule_since)", "tombstone_at")} <= $check
            THEN '{HELD}'
            WHEN is_loaded AND NOT is_due AND value_version = 1 AND expire_timestamp IS NULL THEN '{UPGRADED}'
            WHEN is_loaded AND NOT is_due AND rule = '{ExpiryRule.EXPLICIT_EXPIRE_TIMESTAMP}' THEN '{LOADING}'
        END AS fault,
        CASE WHEN fault IS NOT NULL THEN fault
            WHEN NOT is_old AND rule IS DISTINCT FROM '{ExpiryRule.EXPLICIT_EXPIRE_TIMESTAMP}'
                AND (commit_timestamp IS NULL OR is_commit_due AND NOT {PROVEN})
            THEN '{UNDETERMINED}'
            WHEN (until_rebalanced_ms IS NULL OR rebalance_ms IS NULL) AND was_classic
                AND (rule = '{ExpiryRule.NEVER_WHILE_ACTIVE}' AND is_due
                    OR rule = '{ExpiryRule.EMPTY_SINCE}' AND NOT is_due AND is_commit_due
                        AND has_group_tombstone IS NOT TRUE)
            THEN '{PERHAPS_REBALANCING}'
        END AS doubt,
        {_ms_between("greatest(expire_at, rule_since)", "tombstone_at")} AS late_ms,
        committed_offset IS NULL AS is_unreadable,
        CASE WHEN tombstone_at IS NOT NULL
            AND coalesce({_ms_between("lag(tombstone_at) OVER in_topic", "tombstone_at")} > $spread, true)
            THEN 1 ELSE 0 END AS starts_session
    FROM dated
    WINDOW in_topic AS (
        PARTITION BY topic ORDER BY tombstone_at NULLS FIRST, log_partition NULLS FIRST, tombstone_offset NULLS FIRST
    )
), compared AS (
    SELECT *, bool_or(is_unreadable) OVER operation AS any_unreadable,
        bool_and(is_old) OVER operation AS all_old,
        bool_and(is_old OR fault IS NOT NULL) OVER operation AS all_by_fault,
        bool_and(is_old OR doubt IS NOT NULL) OVER operation AS all_maybe,
        bool_or(doubt = '{UNDETERMINED}') OVER operation AS any_undetermined,
        bool_or(NOT is_old AND doubt IS DISTINCT FROM '{UNDETERMINED}') OVER operation AS any_spared,
        bool_or(rule = '{ExpiryRule.EXPLICIT_EXPIRE_TIMESTAMP}') OVER operation AS any_named,
        bool_and({PROVEN}) OVER operation AS all_proven,
        $is_known OR bool_or(NOT is_due AND rule = '{ExpiryRule.EXPLICIT_EXPIRE_TIMESTAMP}') OVER operation AS is_sure,
        max(late_ms) OVER operation AS late_ms_of_write, late_ms_of_write <= $check AS is_prompt,
        sum(starts_session) OVER (
            PARTITION BY topic
            ORDER BY tombstone_at NULLS FIRST, log_partition NULLS FIRST, tombstone_offset NULLS FIRST
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS session
    FROM aged
    WINDOW operation AS (PARTITION BY log_partition, group_id, tombstone_at)
), sessions AS (
    SELECT topic, session,
        count(DISTINCT group_id) FILTER (NOT all_old AND has_group_tombstone IS NOT TRUE) AS young_groups,
        young_groups >= $several AND young_groups > count(DISTINCT group_id) FILTER (all_old) AS topic_went
    FROM compared GROUP BY topic, session
), shared AS (
    SELECT compared.*,
        count(DISTINCT CASE WHEN all_old AND is_prompt THEN group_id END) OVER at_once AS prompt_groups,
        prompt_groups >= $several AS with_others, topic_went, young_groups
    FROM compared JOIN sessions USING (topic, session)
    WINDOW at_once AS (PARTITION BY log_partition, tombstone_at)
), decided AS (
    SELECT *, {DECISION} AS cause FROM shared
)
SELECT {", ".join(name for name in STAGED.names if name not in ("kind", "ended_by"))},
    tombstone_offset, tombstone_at, expire_at, {PROVEN} AS is_rule_proven, cause.ended_by, cause.ended_confidence,
    cause.ended_alternatives, {sentences_of("cause.evidence")} AS ended_evidence,
    {facts_of("cause.evidence")} AS ended_facts
FROM decided ORDER BY log_partition, group_id, topic, partition, from_offset
"""  # noqa: S608 - names and texts of our own

CAUSES = pa.schema(
    [
        *(field for field in STAGED if field.name not in ("kind", "ended_by")),
        *table(EXPIRED).arrow_schema(["tombstone_offset", "tombstone_at", "expire_at"]),
        ("is_rule_proven", pa.bool_()),
        *table(REMOVED).arrow_schema(
            ["ended_by", "ended_confidence", "ended_alternatives", "ended_evidence", "ended_facts"]
        ),
    ]
)
"""Columns of removed offsets with their causes."""


def tombstone_causes(
    removed: pa.Table,
    retention: Retention,
    deletions: Sequence[tuple[str, int]] = (),
    logged: Sequence[LoggedRemoval] = (),
    coordinators: Sequence[tuple[int, int, int, bool]] = (),
    rebalanced: pa.Table | None = None,
) -> Batches:
    """Yield why each offset was removed, and other possible causes, with the columns of CAUSES.

    Args:
        removed: removed offsets, with the columns of STAGED.
        retention: the retention of offsets.
        deletions: topics and the times of their deletion, in milliseconds.
        logged: removals of offsets that lines of brokers' logs name.
        coordinators: changes of coordinators, as in ``CausesShare``.
        rebalanced: rebalances of classic groups from which an offset was removed, with the columns of REBALANCED.
    """
    asked = {
        "retention": retention.ms,
        "is_known": retention.is_known,
        "check": DEFAULT_CHECK_INTERVAL_MS,
        "spread": TOPIC_DELETION_SPREAD_MS,
        "several": SEVERAL_GROUPS,
    }
    with connected() as connection:
        connection.register("removed", removed)
        connection.register("deletions", _deletions(deletions))
        connection.register("logged", _logged(logged))
        connection.register("coordinators", _coordinators(coordinators))
        connection.register("rebalanced", REBALANCED.empty_table() if rebalanced is None else rebalanced)
        for batch in connection.sql(_CAUSES, params=asked).to_arrow_reader(BATCH_ROWS):
            yield conform(batch, CAUSES)


def _deletions(deletions: Sequence[tuple[str, int]]) -> pa.Table:
    """Return the deletions of topics with their times, as a table."""
    times = pa.array([at_ms * 1000 for _, at_ms in deletions], pa.int64()).cast(TIMESTAMP)
    return pa.table({"name": pa.array([name for name, _ in deletions], pa.string()), "deleted_at": times})


_COORDINATORS = pa.schema(
    [
        ("of_partition", pa.int32()),
        ("elected_at", TIMESTAMP),
        ("elected_epoch", pa.int32()),
        ("is_election_exact", pa.bool_()),
    ]
)

REBALANCED = pa.schema([("of_group", pa.string()), ("rebalanced_at", TIMESTAMP), ("rebalance_ms", pa.int64())])
"""Ends of classic groups' rebalances, and the longest possible duration of each."""


def _coordinators(changes: Sequence[tuple[int, int, int, bool]]) -> pa.Table:
    """Return the changes of coordinators as a table."""
    rows = [
        dict(zip(_COORDINATORS.names, (partition, moment_of_ms(at_ms), epoch, is_exact), strict=True))
        for partition, at_ms, epoch, is_exact in changes
    ]
    return pa.Table.from_pylist(rows, _COORDINATORS)


def _rebalanced(uris: Sequence[str], removed: pa.Table) -> pa.Table:
    """Return the rebalances of the classic groups whose offsets were removed.

    Groups whose offsets can expire while the group has subscribed members are left out.

    Args:
        uris: files of the table ``rebalances``.
        removed: the removed offsets.
    """
    rules = pa.array([str(ExpiryRule.NEVER_WHILE_ACTIVE), str(ExpiryRule.EMPTY_SINCE)])
    depends = pc.is_in(removed.column("rule"), value_set=rules)
    groups = pc.unique(removed.filter(depends).column("group_id"))
    if not len(groups):
        return REBALANCED.empty_table()
    where = pc.field("group_id").isin(groups) & (pc.field("group_type") == "classic")
    batches = read_paths(uris, ("group_id", "completed_at", "duration_ms_max"), where)
    rows = pa.Table.from_batches(batches, _REBALANCES).rename_columns(REBALANCED.names)
    return rows.filter(pc.is_valid(rows.column("rebalanced_at"))).cast(REBALANCED)


_LOGGED = pa.schema(
    [
        ("at_partition", pa.int32()),
        ("at_ms", pa.int64()),
        ("removal", pa.string()),
        ("names", pa.list_(pa.string())),
        ("sentence", pa.string()),
    ]
)


def _logged(removals: Sequence[LoggedRemoval]) -> pa.Table:
    """Return the removals of offsets that brokers' logs name, as a table of Arrow."""
    rows = [(*removal.write, str(removal.removal), list(removal.names), removal.sentence) for removal in removals]
    return pa.Table.from_pylist([dict(zip(_LOGGED.names, row, strict=True)) for row in rows], _LOGGED)


def _expired_rows(causes: pa.RecordBatch, as_of: datetime | None, retention: Retention) -> pa.RecordBatch:
    """Return rows of ``expired_offsets`` for offsets that were removed because of retention.

    Args:
        causes: the removed offsets with their causes.
        as_of: the time after which removals don't count; None to count all removals.
        retention: the retention of offsets.
    """
    taken = np.array([cause == "EXPIRED" for cause in causes.column("ended_by").to_pylist()], np.bool_)
    if as_of is not None:
        at = numbers_of(causes.column("tombstone_at"), 0)
        taken &= at <= microseconds(as_of)
    rows = some(causes, taken)
    n = rows.num_rows
    named: dict[str, Any] = {
        "status": pa.repeat("EXPIRED", n),
        "confidence": rows.column("ended_confidence"),
        "alternatives": rows.column("ended_alternatives"),
        "group_state": rows.column("last_state"),
        "retention_ms": pa.repeat(retention.ms, n),
        "is_exact": rows.column("is_rule_proven"),
    }
    columns = {name: rows.column(name) for name in rows.schema.names} | named
    return pa.RecordBatch.from_pydict(columns)


def _by_bucket(rows: pa.RecordBatch, share: CausesShare) -> Iterator[tuple[int, bool, pa.RecordBatch]]:
    """Divide removed offsets by bucket, and by whether a later record may still change the cause of the removal.

    Yields:
        The bucket, whether the cause may still change, and the rows.
    """
    buckets = numbers_of(rows.column("log_partition"), 0) % share.buckets
    is_open = np.ones(rows.num_rows, np.bool_)
    if share.end is not None and share.as_of is None:
        since = microseconds(share.end - OPEN_FOR)
        is_open = numbers_of(rows.column("tombstone_at"), since) >= since
    for bucket in np.unique(buckets).tolist():
        for value in (False, True):
            of_bucket = (buckets == bucket) & (is_open == value)
            if of_bucket.any():
                yield bucket, value, some(rows, of_bucket)


def find_causes(share: CausesShare) -> CausesResult:
    """Find why offsets were removed, and write the rows of these offsets.

    Causes that can't change any more are left out.

    Args:
        share: the inputs.

    Returns:
        The retention (``offsets.retention.minutes``), and the written files.
    """
    batches = [*read_paths(share.removed, STAGED.names)]
    removed = pa.Table.from_batches(batches, STAGED) if batches else STAGED.empty_table()
    result = CausesResult(_retention(share, removed))
    if not removed.num_rows:
        return result
    writer = TableWriter(share.place, None)
    logged = removals_of(share.lines, removed, share.commits, share.group_records)
    rebalanced = _rebalanced(share.rebalances, removed)
    for causes in tombstone_causes(removed, result.retention, share.deletions, logged, share.coordinators, rebalanced):
        for bucket, is_open, rows in _by_bucket(causes, share):
            writer.add(HISTORY, rows, is_open=is_open, bucket=bucket)
            writer.add(REMOVED, rows, is_open=is_open, bucket=bucket)
            expired = _expired_rows(rows, share.as_of, result.retention)
            writer.add(EXPIRED, expired, is_open=is_open, bucket=bucket)
    result.files = writer.close()
    return result
