"""The SQL statements of the stage *evaluate*: expiring offsets, and evidence for findings."""

from datetime import datetime

import pyarrow as pa

from coordinator_replay.analysis.expiring import ExpiryRule, Retention, expiring_offsets
from coordinator_replay.analysis.findings.evidence_rows import ABANDONED
from coordinator_replay.analysis.findings.thresholds import Thresholds
from coordinator_replay.analysis.findings.totals import PARTITION
from coordinator_replay.records.damage import ErrorClass
from coordinator_replay.store.duckdb_connection import select
from coordinator_replay.times import later, milliseconds

_LONG_TRANSACTIONS = """
WITH long AS (
    SELECT * FROM pending WHERE is_exact
        AND (to_offset IS NULL OR (valid_to IS NOT NULL
            AND ended_by IN ('COMMIT', 'ABORT', 'SUPERSEDED', 'TOMBSTONE', 'RECORDS_MISSING')))
        AND coalesce(epoch_ms(valid_to), $end) - epoch_ms(pending_since) >= $limit
)
SELECT group_id, producer_id, first(producer_epoch ORDER BY from_offset) AS producer_epoch,
    first(log_partition ORDER BY from_offset) AS log_partition, min(from_offset) AS from_offset,
    min(epoch_ms(pending_since)) AS pending_since, first(epoch_ms(valid_to) ORDER BY from_offset) AS ended_at,
    first(ended_by ORDER BY from_offset) AS ended_by, count(*) AS partitions,
    CASE WHEN count(DISTINCT topic) = 1 THEN min(topic) END AS topic
-- If another commit of the producer waits beyond the missing records, it is one of the same transaction.
FROM long WHERE ended_by IS DISTINCT FROM 'RECORDS_MISSING' OR NOT EXISTS (
    FROM long AS longer WHERE longer.group_id = long.group_id AND longer.log_partition = long.log_partition
        AND longer.producer_id = long.producer_id AND longer.from_offset < long.to_offset
        AND coalesce(longer.to_offset > long.to_offset, true))
GROUP BY group_id, producer_id, to_offset
"""
"""SQL for transactions that were open for long, by the marker that ended them, with their number of partitions."""

_EXPECTED = f"{expiring_offsets('opened')} ORDER BY group_id, topic, partition"

_STALLS = """
SELECT group_id, topic, partition, p.log_partition, member_id, epoch_ms(owned_from) AS owned_from, p.from_offset,
    committed_offset, epoch_ms(valid_from) AS at, epoch_ms(least(valid_to, owned_to)) AS until,
    coalesce(epoch_ms(valid_to), $end) AS pause_until, coalesce(ended_by = 'COMMIT', false) AS is_over
FROM pauses AS p JOIN ownership AS o USING (group_id, topic, partition)
WHERE member_id = owner_member_id AND is_exact AND o.from_offset <= record_offset AND is_topic_over IS NOT TRUE
    AND coalesce(o.to_offset > record_offset, true)
    AND epoch_ms(least(valid_to, owned_to)) - epoch_ms(valid_from) >= $limit
"""
"""SQL for pauses of a partition while it had an owner, up to the next commit or the end of the ownership.

If the next commit is of another topic with the same name, the time between the two commits is no pause."""

_UNCOMMITTED = """
WITH commits AS (
    SELECT group_id, topic, partition, first_at FROM new_sums
    UNION ALL SELECT group_id, topic, partition, (sums->>'first_at')::BIGINT FROM sums WHERE what = $what
), firsts AS (
    SELECT group_id, topic, partition, min(first_at) AS first_at, bool_or(first_at IS NULL) AS is_untimed
    FROM commits GROUP BY ALL
)
SELECT group_id, topic, partition, member_id, log_partition, epoch_ms(owned_from) AS at,
    least(epoch_ms(owned_to), first_at) AS until
FROM ownership LEFT JOIN firsts USING (group_id, topic, partition)
WHERE is_exact AND topic IS NOT NULL AND NOT coalesce(is_untimed, false)
    AND coalesce(first_at > epoch_ms(owned_from), true)
    AND least(epoch_ms(owned_to), first_at) - epoch_ms(owned_from) >= $limit
"""
"""SQL for long ownership of a partition before its first commit."""

_ENDANGERED = f"""
WITH periods AS (
    SELECT group_id, group_state, log_offset, rule, base_timestamp, spared_topics, log_timestamp AS begin_at,
        lead(log_offset) OVER later AS end_offset, lead(log_timestamp) OVER later AS end_at
    FROM rules WINDOW later AS (PARTITION BY group_id, log_partition ORDER BY log_offset)
), pieces AS (
    SELECT p.*, coalesce(group_state = 'Empty', false) AS is_empty,
        CASE WHEN expire_timestamp IS NULL THEN s.rule ELSE '{ExpiryRule.EXPLICIT_EXPIRE_TIMESTAMP}' END AS rule,
        coalesce(epoch_ms(expire_timestamp), epoch_ms(coalesce(base_timestamp, commit_timestamp)) + $retention) AS ends,
        epoch_ms(greatest(valid_from, begin_at)) AS since, epoch_ms(least(valid_to, end_at)) AS until,
        coalesce(ended_by = 'EXPIRED', false) AND coalesce(end_offset >= to_offset, true) AS is_expired
    FROM pauses AS p JOIN periods AS s ON p.group_id = s.group_id
        AND coalesce(log_offset < to_offset, true) AND coalesce(end_offset > from_offset, true)
    WHERE s.rule <> '{ExpiryRule.NEVER_WHILE_ACTIVE}' AND NOT coalesce(list_contains(spared_topics, topic), false)
), past AS (
    SELECT 'EXPIRING' AS status, greatest(since, ends - $horizon) AS begin_ms, least(until, ends) AS until, *
        EXCLUDE (since, until) FROM pieces WHERE NOT is_expired AND (until IS NOT NULL OR ends <= $end)
    UNION ALL BY NAME
    SELECT 'DUE' AS status, greatest(since, ends) AS begin_ms, * EXCLUDE (since) FROM pieces WHERE NOT is_expired
    UNION ALL BY NAME
    SELECT '{ABANDONED}' AS status, epoch_ms(valid_from) AS begin_ms, * EXCLUDE (since) FROM pieces
    WHERE rule = '{ExpiryRule.UNSUBSCRIBED_TOPIC}' AND NOT is_empty AND until - epoch_ms(valid_from) >= $abandoned
)
SELECT group_id, topic, partition, log_partition, from_offset, status, rule, begin_ms AS since, until,
    CASE WHEN status = '{ABANDONED}' THEN begin_ms ELSE ends END AS at, NULL::BIGINT AS log_offset,
    CASE WHEN $is_known THEN 'certain' ELSE 'likely' END AS confidence,
    coalesce(ended_by = 'COMMIT', false) AS is_over
FROM past WHERE until > begin_ms
"""  # noqa: S608 - our own names
"""SQL for times in which offsets were to expire within the horizon, were past retention, or belonged to a topic that no
member subscribed to. Such a time ends with a commit, a tombstone, or another expiry rule of the group. Expired offsets
are left to another finding."""

_UNREADABLE = f"""
SELECT log_partition, error_class, count(*) AS records, min(epoch_ms(log_timestamp)) AS first_at,
    max(epoch_ms(log_timestamp)) AS last_at, min(log_offset) AS log_offset, min(error_message[:200]) AS error_message,
    coalesce(list_sort(list(DISTINCT group_id) FILTER (group_id IS NOT NULL)), []) AS groups
FROM quarantine
GROUP BY log_partition, error_class, CASE WHEN error_class = '{ErrorClass.UNKNOWN_RECORD_TYPE}' THEN error_message END
ORDER BY log_partition NULLS FIRST, error_class, error_message
"""  # noqa: S608 - our own names
"""SQL for records that could not be decoded; each unknown kind has its own row."""

_NO_SUMS = pa.table(
    {
        "group_id": pa.array([], pa.string()),
        "topic": pa.array([], pa.string()),
        "partition": pa.array([], pa.int32()),
        "first_at": pa.array([], pa.int64()),
    }
)


def expected_offsets(opened: pa.Table, retention: Retention, as_of: datetime, horizon_ms: int) -> pa.Table:
    """Return offsets that are past retention at a time, or that will expire soon after this time.

    If ``as_of`` is after the end of the log, groups are assumed to stay as they are at the end.

    Args:
        opened: offsets that are current at the end of the log, with the columns of STAGED.
        retention: the retention of offsets.
        as_of: the time at which the ages of offsets are compared with the retention.
        horizon_ms: how long after ``as_of`` an offset may expire to be returned, in milliseconds.
    """
    asked = {
        "retention_ms": retention.ms,
        "is_known": retention.is_known,
        "as_of": as_of,
        "limit": later(as_of, horizon_ms),
    }
    return select(_EXPECTED, asked, opened=opened)


def long_transactions(pending: pa.Table, end: datetime, limits: Thresholds) -> pa.Table:
    """Return transactions whose commits waited long for their transaction marker.

    Don't count a commit if a later commit of the same transaction has the same key.

    Args:
        pending: rows of ``pending_offsets``.
        end: the end of the log.
        limits: the thresholds; ``pending_ms`` is the shortest wait that counts.
    """
    return select(_LONG_TRANSACTIONS, {"end": milliseconds(end), "limit": limits.pending_ms}, pending=pending)


def stalls(pauses: pa.Table, ownership: pa.Table, end: datetime, limits: Thresholds) -> pa.Table:
    """Return the long times in which a member owned a partition and committed no offset of it.

    Args:
        pauses: offsets that stayed current for a long time, with the columns of PAUSE.
        ownership: rows of ``partition_ownership``.
        end: the end of the log.
        limits: the thresholds; ``stall_ms`` is the shortest time that counts.
    """
    asked = {"limit": limits.stall_ms, "end": milliseconds(end)}
    return select(_STALLS, asked, pauses=pauses, ownership=ownership)


def endangered_offsets(
    pauses: pa.Table, rules: pa.Table, retention: Retention, horizon_ms: int, end: datetime, limits: Thresholds
) -> pa.Table:
    """Return past time ranges in which offsets were about to expire, were past retention, or had an abandoned topic.

    Args:
        pauses: offsets that stayed current for a long time, with the columns of PAUSE.
        rules: rows of ``expiry_rules``.
        retention: the retention of offsets.
        horizon_ms: an offset is about to expire if it will expire within this duration, in milliseconds.
        end: the end of the log.
        limits: the thresholds. A topic is abandoned if no member has subscribed to it for ``abandoned_ms``.
    """
    asked = {
        "end": milliseconds(end),
        "retention": retention.ms,
        "is_known": retention.is_known,
        "horizon": horizon_ms,
        "abandoned": limits.abandoned_ms,
    }
    return select(_ENDANGERED, asked, pauses=pauses, rules=rules)


def uncommitted_partitions(new: pa.Table | None, totals: pa.Table, ownership: pa.Table, limits: Thresholds) -> pa.Table:
    """Return partitions that had an owner for a long time without a commit.

    Args:
        new: number of commits that this run read, by partition; None if the run read no commits.
        totals: rows of ``commit_totals``, with the numbers of commits that earlier runs read.
        ownership: rows of ``partition_ownership``.
        limits: the thresholds; ``never_committed_ms`` is the shortest time that counts.
    """
    asked = {"limit": limits.never_committed_ms, "what": PARTITION.name}
    sums = _NO_SUMS if new is None else new.select(_NO_SUMS.column_names)
    return select(_UNCOMMITTED, asked, new_sums=sums, sums=totals, ownership=ownership)


def unreadable_records(quarantine: pa.Table) -> pa.Table:
    """Return the number of unreadable records for each log partition and error class, with their times and groups.

    Records of a kind that this release does not know have a row for each kind.

    Args:
        quarantine: rows of ``quarantine``.
    """
    return select(_UNREADABLE, {}, quarantine=quarantine)
