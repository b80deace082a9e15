"""Causes of removed offsets. A tombstone names no cause, so the cause is inferred from other events at its time.

Retention removes every offset of a group that is past ``offsets.retention.minutes``. With the last offset, it removes
the group. DeleteGroups removes all offsets of a group, whatever their age. A deleted topic removes its offsets from
many groups at once. DeleteOffsets removes the offsets that an admin names. So a single offset that is too young proves
that the operation which removed it was not retention. If all offsets are old enough, the confidence in retention
depends on how soon after the end of retention they were removed. Some releases of Kafka expired offsets that were not
due, or that a member's subscription or an open transaction should have kept. If such a bug explains the records too,
the evidence names the bug and its releases.

A group's tombstone in the same write mostly comes from DeleteGroups. But a coordinator written in Scala (before 4.0)
also writes it if DeleteOffsets or a deleted topic removes the last offsets of an Empty group
(``GroupMetadataManager.cleanupGroupMetadata``). Two requests in the same millisecond look like one write, too. So
GROUP_DELETED is ``certain`` only if a broker's log says it.

Only this step looks across buckets: a topic is deleted in all of them, and retention is the same for all.
"""

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
    TOPIC_DELETED,
    ExpiryRule,
    Retention,
    expire_at,
)
from coordinator_replay.arrow_times import TIMESTAMP
from coordinator_replay.columns import numbers_of, some
from coordinator_replay.pipeline.bucket_files import Place, TableWriter
from coordinator_replay.pipeline.interval_rows import STAGED
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
        coordinators: tuples of four: log partition, first time of a leader epoch on record in milliseconds, the epoch,
            and whether the coordinator was elected at that time.
        rebalances: files of ``rebalances``.
        lines: files of ``broker_log``.
        commits: files of ``offset_commits``; none if ``lines`` is empty.
        group_records: files of ``group_records``; none if ``lines`` is empty.
        deletions: topics and times of their deletion in milliseconds, if the dump holds the cluster's metadata.
        retention_ms: offsets.retention.minutes as the user gave it, in milliseconds. None infers the retention, or
            takes Kafka's default if it can't be inferred.
        end: the latest timestamp of a record of the log.
        as_of: the time at which expiry is evaluated; None for the end of the log.
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
), rounded AS (
    SELECT *, coalesce({
    ", ".join(
        f"CASE WHEN youngest_ms // {unit} * {unit} >= lowest_ms THEN youngest_ms // {unit} * {unit} END"
        for unit in _ROUND_MS
    )
}) AS retention_ms
    FROM bounded WHERE groups > 2 * dissenting
)
SELECT retention_ms FROM rounded WHERE retention_ms IS NOT NULL ORDER BY groups - dissenting DESC, place LIMIT 1
"""  # noqa: S608 - names and numbers of our own


def infer_retention(removed: pa.Table, survivors: pa.Table) -> int | None:
    """Return the retention inferred from the ages at which offsets of several groups were removed.

    - Retention is at most the age of each offset that it removed. It is at least the age of each offset that it kept,
      minus one check interval.
    - If several groups lost offsets at ages that agree with both bounds and with each other, retention lies between the
      bounds. Whole days, hours or minutes are preferred to other values.
    - A group that kept an offset for longer than the retention found contradicts these groups. One contradicting group
      for every two agreeing groups is enough to drop the value.
    - The age of an offset counts from the latest of three times: its own time, the time of its record, and the time
      since which its rule applies. A commit may name any time as its own. So an offset whose own time is long before
      its record has no age.

    Args:
        removed: removed offsets, in the columns of STAGED about their age.
        survivors: how long each group has kept an offset that could expire by age, with the columns of SURVIVORS.

    Returns:
        The retention in milliseconds; None if it can't be inferred.
    """
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
        DEFAULT_RETENTION_MS, False, "offset retention: 7 days, Kafka's default; none was given or observed"
    )


def _texts(*texts: str) -> str:
    """Return SQL for a list of sentences.

    A column's name in braces stands for the column's value.
    """
    parts = (text.replace("'", "''").replace("{", "' || ").replace("}", " || '") for text in texts)
    return "[" + ", ".join(f"'{part}'" for part in parts) + "]"


def _cause(ended_by: str, confidence: str, evidence: str, alternatives: str) -> str:
    """Return SQL for a cause.

    The evidence is SQL for a list of sentences.
    """
    return (
        f"{{'ended_by': '{ended_by}', 'ended_confidence': {confidence}, "
        f"'ended_alternatives': CAST({alternatives} AS VARCHAR[]), 'ended_evidence': {evidence}}}"
    )


def _case(ended_by: str, confidence: str, evidence: Sequence[str], alternatives: str) -> str:
    """Return SQL for a cause.

    The evidence is a list of sentences, see ``_texts``.
    """
    return _cause(ended_by, confidence, _texts(*evidence), alternatives)


_SURE = "CASE WHEN $is_known AND all_proven THEN 'certain' ELSE 'likely' END"
_MAY_BE_GROUP = "coalesce(has_group_tombstone, true)"
_MAY_BE_RETENTION = "(all_maybe OR NOT is_sure)"
_OTHERWISE_DELETED = f"CASE WHEN {_MAY_BE_GROUP} THEN ['GROUP_DELETED', 'DELETED'] ELSE ['DELETED'] END"
_NOT_DELETED = f"""list_concat(CASE WHEN {_MAY_BE_RETENTION} THEN ['EXPIRED'] ELSE [] END,
    CASE WHEN {_MAY_BE_GROUP} THEN ['GROUP_DELETED'] ELSE [] END)"""
_DELETED_SURE = f"CASE WHEN {_MAY_BE_RETENTION} OR {_MAY_BE_GROUP} THEN 'likely' ELSE 'certain' END"
_NOT_GROUP = "CASE WHEN all_maybe THEN ['DELETED', 'EXPIRED'] ELSE ['DELETED'] END"
_EXPIRED_TOO = f"list_concat(['EXPIRED'], {_OTHERWISE_DELETED})"
_ALL_PAST = "every offset removed in the same write was past offsets.retention.minutes"
_GROUP_TOMBSTONE = "the group's tombstone was written with it"
_SOME_YOUNG = "an offset removed in the same write was not past offsets.retention.minutes"
_SOME_YOUNGER = (
    "an offset removed in the same write was younger than the default of offsets.retention.minutes (7 days); "
    "the cluster's own retention is not known, and retention may have removed all of them if it is shorter"
)
_REMOVED_YOUNG = (
    "removed before offsets.retention.minutes were over while the group existed: "
    "DeleteOffsets, or the topic was deleted"
)
_REMOVED_YOUNGER = (
    "removed while the group existed, before the default of offsets.retention.minutes (7 days) was over: "
    "DeleteOffsets, or the topic was deleted; the cluster's own retention is not known, and may have removed it"
)
_REMOVED_EARLY = (
    "removed before the time of expiry that the commit itself names, while the group existed: "
    "DeleteOffsets, or the topic was deleted"
)
_REMOVED_SPARED = (
    "past {retention}, but a member subscribed to its topic, which keeps retention and DeleteOffsets away: "
    "the topic was deleted"
)
_REMOVED_HELD = (
    "past {retention}, but a transaction on it was open, which keeps retention away: "
    "DeleteOffsets, or the topic was deleted"
)
_ALL_OTHERS = "past {retention}; another offset of the same write was not, or was kept from expiring"
_WITH_OTHERS = "removed in the same write as an offset that retention did not remove, while the group existed"
_UNREADABLE = "a commit that the same write removed can't be read, and with it whether it was past retention"
_STATE_UNKNOWN = (
    "whether it was past {retention} is not proven: the log lacks the time of the commit, or the group's state then"
)
_TOPIC_DELETED = "offsets of the topic were removed from several groups at about the same time: the topic was deleted"

_WHY_EARLY = f"""CASE
    WHEN is_old THEN {_texts(_WITH_OTHERS)}
    WHEN is_due AND is_protected THEN {_texts(_REMOVED_HELD)}
    WHEN is_due THEN {_texts(_REMOVED_SPARED)}
    WHEN rule = '{ExpiryRule.EXPLICIT_EXPIRE_TIMESTAMP}' THEN {_texts(_REMOVED_EARLY)}
    WHEN $is_known THEN {_texts(_REMOVED_YOUNG)}
    ELSE {_texts(_REMOVED_YOUNGER)}
END"""
"""SQL for the evidence against retention, if some offset of the same operation was not past its retention."""

_PERHAPS_REBALANCING, _UNDETERMINED = "PERHAPS_REBALANCING", "UNDETERMINED"
"""Reasons why retention may have removed an offset although it seems to have spared it:

- PERHAPS_REBALANCING: the log does not show whether a classic group was rebalancing, as REBALANCING and JOINING need.
- UNDETERMINED: the commit has no time, or is past retention while the log does not prove the group's state.
"""

_REBALANCING, _JOINING, _HELD, _UPGRADED, _LOADING = "REBALANCING", "JOINING", "HELD", "UPGRADED", "LOADING"
"""Bugs of brokers that remove offsets which should not expire. Each was verified in the classes of Kafka's releases:

- REBALANCING (KAFKA-13636): ``GroupMetadata.removeExpiredOffsets`` went by subscriptions even while the group was not
  Stable. Affected: 2.4.0 (the first release with subscriptions) to 2.8.1, 3.0.0 and 3.1.0.
- JOINING: the same bug, after a member joined an Empty group. Until the rebalance is over, no topic counts as
  subscribed, and retention counts from the commit instead of the time at which the group became Empty. The group is not
  Empty then, so the broker does not write a tombstone of the group as well.
- HELD: the same method spared pending commits, but not pending commits of transactions. Affected: every coordinator in
  Scala.
- UPGRADED (KAFKA-8069): ``GroupMetadataManager.readOffsetMessageValue`` of 2.1 took the -1 of version 1 for a time.
- LOADING: ``OffsetManager`` of 0.8.2 had no lock between its cleanup and loading; 0.9 has ``offsetExpireLock``.
"""

_WAS_REBALANCING = (
    "the group was rebalancing: a rebalance of at most {rebalance_ms} ms was over {until_rebalanced_ms} ms later"
)
_CHANGED = "the coordinator had changed: {election} of leader epoch {elected_epoch} was {elected_ms} ms earlier"
_FAULT_EVIDENCE = f"""CASE doubt
    WHEN '{_REBALANCING}' THEN {
    _texts(
        "past {retention}, but a member subscribed to its topic: the broker refuses DeleteOffsets, and retention "
        "spares it",
        _WAS_REBALANCING,
        "Kafka 2.4.0 to 2.8.1, 3.0.0 and 3.1.0 expire offsets of subscribed topics while a group rebalances "
        "(KAFKA-13636)",
    )
}
    WHEN '{_JOINING}' THEN {
    _texts(
        "past {retention} since its commit, but not since the group became Empty",
        _WAS_REBALANCING,
        "Kafka 2.4.0 to 2.8.1, 3.0.0 and 3.1.0 count retention from the commit while a group rebalances (KAFKA-13636)",
    )
}
    WHEN '{_HELD}' THEN {
    _texts(
        "past {retention} by less than one retention check, while a transaction on it was open",
        "the coordinator written in Scala (all releases before 4.0) expires offsets with an open transaction",
    )
}
    WHEN '{_UPGRADED}' THEN {
    _texts(
        "removed before {retention} were over",
        _CHANGED,
        "the commit is of version 1 and names no time of expiry: Kafka 2.1 with an inter.broker.protocol.version below "
        "2.1 expires such offsets once it has loaded them (KAFKA-8069)",
    )
}
    WHEN '{_LOADING}' THEN {
    _texts(
        "removed before the time of expiry that the commit itself names",
        _CHANGED,
        "Kafka 0.8.2 may expire older commits of a partition while it loads the log, and its tombstone then removes "
        "the newest one",
    )
}
    WHEN '{_PERHAPS_REBALANCING}' THEN {
    _texts(
        "whether the group was rebalancing then is not on record: Kafka 2.4.0 to 2.8.1, 3.0.0 and 3.1.0 expire other "
        "offsets while a group rebalances (KAFKA-13636)",
    )
}
    WHEN '{_UNDETERMINED}' THEN {_texts(_STATE_UNKNOWN)}
    ELSE {_texts(_ALL_OTHERS)}
END"""

_RETENTION_UNKNOWN = "the cluster's own retention is not known, and may have removed it"
_GROUP_UNKNOWN = "records are missing after it, and a tombstone of the group may be among them"


def _with_doubts(evidence: str, retention: str) -> str:
    """Return SQL for evidence, followed by the sentences that speak for retention and for a deleted group.

    Args:
        evidence: SQL for a list of sentences.
        retention: SQL for a list of sentences about a retention that is not known.
    """
    doubt = f"CASE WHEN NOT is_sure THEN {retention} WHEN all_old THEN {_texts(_ALL_PAST)} ELSE {_FAULT_EVIDENCE} END"
    return f"""list_concat(list_concat({evidence}, CASE WHEN {_MAY_BE_RETENTION} THEN {doubt} ELSE [] END),
        CASE WHEN has_group_tombstone IS NULL THEN {_texts(_GROUP_UNKNOWN)} ELSE [] END)"""


_DECISION = f"""CASE
    WHEN tombstone_at IS NULL
        THEN {_case("TOMBSTONE", "'possible'", ["the tombstone carries no timestamp"], _EXPIRED_TOO)}
    WHEN removal = 'GROUPS' AND has_group_tombstone AND list_contains(names, group_id) THEN {
    _case("GROUP_DELETED", "'certain'", ["{sentence}", _GROUP_TOMBSTONE], "[]")
}
    WHEN removal = 'TOPICS' AND (list_contains(names, topic) OR list_contains(names, topic || '-' || partition)) THEN {
    _case("DELETED", "'certain'", ["{sentence}"], "[]")
}
    WHEN removal = 'OFFSETS' AND list_contains(names, group_id || '/' || topic || '-' || partition) THEN {
    _case("DELETED", "'certain'", ["{sentence}"], "[]")
}
    WHEN removal = 'CLEANUP' AND (all_old OR NOT $is_known) THEN {_case("EXPIRED", "'certain'", ["{sentence}"], "[]")}
    WHEN any_unreadable
        THEN {_case("TOMBSTONE", "'possible'", [_UNREADABLE], _EXPIRED_TOO)}
    WHEN NOT all_old AND all_by_fault AND deleted_ms IS NULL AND NOT topic_went THEN {
    _cause("EXPIRED", "'possible'", _FAULT_EVIDENCE, _OTHERWISE_DELETED)
}
    WHEN NOT all_old AND has_group_tombstone AND is_sure THEN {
    _cause("GROUP_DELETED", "'likely'", _with_doubts(_texts(_GROUP_TOMBSTONE, _SOME_YOUNG), "[]"), _NOT_GROUP)
}
    WHEN NOT all_old AND has_group_tombstone THEN {
    _case("GROUP_DELETED", "'likely'", [_GROUP_TOMBSTONE, _SOME_YOUNGER], "['DELETED', 'EXPIRED']")
}
    WHEN deleted_ms IS NOT NULL THEN {
    _cause(
        "DELETED",
        _DELETED_SURE,
        _with_doubts(
            _texts(f"{TOPIC_DELETED} {{deleted_ms}} ms earlier (cluster metadata)"), _texts(_RETENTION_UNKNOWN)
        ),
        _NOT_DELETED,
    )
}
    WHEN topic_went THEN {
    _cause(
        "DELETED",
        "'likely'",
        _with_doubts(_texts(_TOPIC_DELETED), _texts(_RETENTION_UNKNOWN)),
        _NOT_DELETED,
    )
}
    WHEN NOT all_old AND all_maybe AND any_undetermined
        THEN {_case("TOMBSTONE", "'possible'", [_STATE_UNKNOWN], _EXPIRED_TOO)}
    WHEN NOT all_old THEN {_cause("DELETED", _DELETED_SURE, _with_doubts(_WHY_EARLY, "[]"), _NOT_DELETED)}
    WHEN with_others AND coalesce(is_prompt, false) THEN {
    _case(
        "EXPIRED",
        _SURE,
        [f"{_ALL_PAST}, by less than one retention check", "so did offsets of at least two other groups"],
        "[]",
    )
}
    WHEN coalesce(is_prompt, false) OR with_others THEN {
    _case(
        "EXPIRED",
        "CASE WHEN coalesce(is_prompt, false) THEN 'likely' ELSE 'possible' END",
        [_ALL_PAST],
        _OTHERWISE_DELETED,
    )
}
    ELSE {
    _case(
        "TOMBSTONE",
        "'possible'",
        [f"{_ALL_PAST}, but for longer than the broker's retention check leaves them"],
        _EXPIRED_TOO,
    )
}
END"""
"""SQL for the cause of a removed offset: the first case that fits."""

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
        CASE WHEN $is_known THEN 'offsets.retention.minutes'
            ELSE 'the default of offsets.retention.minutes (7 days)' END AS retention,
        CASE WHEN is_election_exact THEN 'the election' ELSE 'the first record' END AS election
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
            THEN '{_REBALANCING}'
            WHEN rule = '{ExpiryRule.EMPTY_SINCE}' AND NOT is_due AND is_commit_due
                AND until_rebalanced_ms <= rebalance_ms AND has_group_tombstone IS NOT TRUE
            THEN '{_JOINING}'
            WHEN is_protected AND is_due AND {_ms_between("greatest(due_at, rule_since)", "tombstone_at")} <= $check
            THEN '{_HELD}'
            WHEN is_loaded AND NOT is_due AND value_version = 1 AND expire_timestamp IS NULL THEN '{_UPGRADED}'
            WHEN is_loaded AND NOT is_due AND rule = '{ExpiryRule.EXPLICIT_EXPIRE_TIMESTAMP}' THEN '{_LOADING}'
        END AS fault,
        CASE WHEN fault IS NOT NULL THEN fault
            WHEN NOT is_old AND rule IS DISTINCT FROM '{ExpiryRule.EXPLICIT_EXPIRE_TIMESTAMP}'
                AND (commit_timestamp IS NULL OR is_commit_due AND NOT {PROVEN})
            THEN '{_UNDETERMINED}'
            WHEN (until_rebalanced_ms IS NULL OR rebalance_ms IS NULL) AND was_classic
                AND (rule = '{ExpiryRule.NEVER_WHILE_ACTIVE}' AND is_due
                    OR rule = '{ExpiryRule.EMPTY_SINCE}' AND NOT is_due AND is_commit_due
                        AND has_group_tombstone IS NOT TRUE)
            THEN '{_PERHAPS_REBALANCING}'
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
        bool_or(doubt = '{_UNDETERMINED}') OVER operation AS any_undetermined,
        bool_and({PROVEN}) OVER operation AS all_proven,
        $is_known OR bool_or(NOT is_due AND rule = '{ExpiryRule.EXPLICIT_EXPIRE_TIMESTAMP}') OVER operation AS is_sure,
        max(late_ms) OVER operation <= $check AS is_prompt,
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
        count(DISTINCT CASE WHEN all_old AND is_prompt THEN group_id END) OVER at_once >= $several AS with_others,
        topic_went
    FROM compared JOIN sessions USING (topic, session)
    WINDOW at_once AS (PARTITION BY log_partition, tombstone_at)
), decided AS (
    SELECT *, {_DECISION} AS cause FROM shared
)
SELECT {", ".join(name for name in STAGED.names if name not in ("kind", "ended_by"))},
    tombstone_offset, tombstone_at, expire_at, {PROVEN} AS is_rule_proven, unnest(cause)
FROM decided ORDER BY log_partition, group_id, topic, partition, from_offset
"""  # noqa: S608 - names and texts of our own

CAUSES = pa.schema(
    [
        *(field for field in STAGED if field.name not in ("kind", "ended_by")),
        *table(EXPIRED).arrow_schema(["tombstone_offset", "tombstone_at", "expire_at"]),
        ("is_rule_proven", pa.bool_()),
        *table(REMOVED).arrow_schema(["ended_by", "ended_confidence", "ended_alternatives", "ended_evidence"]),
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
    """Yield the cause and the alternatives of each tombstone that removed an offset, in the columns of CAUSES.

    Args:
        removed: removed offsets, with the columns of STAGED.
        retention: the retention of offsets.
        deletions: topics and the times of their deletion, in milliseconds.
        logged: removals in brokers' logs.
        coordinators: first times of leader epochs, as in ``CausesShare``.
        rebalanced: rebalances of classic groups that lost an offset, with the columns of REBALANCED.
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
    """Return a table of the first times of leader epochs."""
    rows = [
        dict(zip(_COORDINATORS.names, (partition, moment_of_ms(at_ms), epoch, is_exact), strict=True))
        for partition, at_ms, epoch, is_exact in changes
    ]
    return pa.Table.from_pylist(rows, _COORDINATORS)


def _rebalanced(uris: Sequence[str], removed: pa.Table) -> pa.Table:
    """Return rebalances of classic groups that lost an offset whose retention depends on the group's members."""
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
    """Return removals in brokers' logs as a table."""
    rows = [(*removal.write, str(removal.removal), list(removal.names), removal.sentence) for removal in removals]
    return pa.Table.from_pylist([dict(zip(_LOGGED.names, row, strict=True)) for row in rows], _LOGGED)


def _expired_rows(causes: pa.RecordBatch, as_of: datetime | None, retention: Retention) -> pa.RecordBatch:
    """Return rows of ``expired_offsets`` for the offsets that retention removed up to ``as_of``.

    If ``as_of`` is None, all offsets that retention removed get a row.
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
    """Divide rows by bucket, and by whether the causes of the rows may still change.

    Yields:
        The bucket, whether the causes may still change, and the rows.
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
    """Find the causes of all removed offsets whose cause may still change, and write their rows.

    Args:
        share: the inputs.

    Returns:
        The retention, and files of rows of ``offset_history``, ``removed_offsets`` and ``expired_offsets``.
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
