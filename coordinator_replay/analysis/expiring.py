"""SQL that computes when committed offsets expire, for audits and for questions that assume another retention.

Each row of ``offset_history`` has a rule of expiry (``rule``), the time from which the retention counts
(``base_timestamp``), and whether members protect the offset (``is_protected``). The SQL compares these columns with the
present time, as ``OffsetExpirationConditionImpl`` does in Kafka.
"""

from enum import StrEnum
from typing import NamedTuple

from coordinator_replay.times import LATEST_MS

DEFAULT_RETENTION_MS = 7 * 24 * 3600 * 1000
"""Default of ``offsets.retention.minutes``."""

TOPIC_DELETED = "the topic was deleted"
"""Beginning of the evidence for a removed offset if the cluster's metadata has the deletion of its topic."""

DEFAULT_CHECK_INTERVAL_MS = 600_000
"""Default of ``offsets.retention.check.interval.ms``."""


class ExpiryRule(StrEnum):
    """Rules of expiry. A rule says from which time an offset's retention counts, or that the offset does not expire.

    Attributes:
        EMPTY_SINCE: retention counts from the time at which the classic group became Empty.
        UNSUBSCRIBED_TOPIC: retention counts from the offset's commit, because no member subscribes to the topic.
        SIMPLE_GROUP: retention counts from the offset's commit, because clients commit without joining the group.
        EXPLICIT_EXPIRE_TIMESTAMP: the commit itself has the time at which the offset expires.
        NEVER_WHILE_ACTIVE: the offset does not expire as long as the group has members.
    """

    EMPTY_SINCE = "empty_since"
    UNSUBSCRIBED_TOPIC = "unsubscribed_topic"
    SIMPLE_GROUP = "simple_group"
    EXPLICIT_EXPIRE_TIMESTAMP = "explicit_expire_timestamp"
    NEVER_WHILE_ACTIVE = "never_while_active"


class Retention(NamedTuple):
    """The retention by which offsets expire, and where its value comes from.

    Attributes:
        ms: offsets.retention.minutes in milliseconds.
        is_known: whether the user gave the retention, or removed offsets show it. If it is only the default, no expiry
            is certain.
        note: a sentence on the source of the retention.
    """

    ms: int
    is_known: bool
    note: str = ""


PROVEN = "coalesce(is_exact AND is_proven AND last_state IS DISTINCT FROM 'Unknown', false)"
"""SQL for whether the log proves that an offset was in force, and which rule applied to it."""


def expire_at(retention_ms: str) -> str:
    """Return an SQL expression for the time at which an offset's retention is over.

    The time is null if no rule lets the offset expire, or if the time is after the year 9999.
    """
    later = f"(epoch_us(base_timestamp) + CAST({retention_ms} AS BIGINT) * 1000)"
    shown = f"CASE WHEN {later} <= {LATEST_MS} * 1000 THEN make_timestamptz({later}) END"
    return f"CASE WHEN rule = '{ExpiryRule.EXPLICIT_EXPIRE_TIMESTAMP}' THEN expire_timestamp ELSE {shown} END"


def expiring_offsets(source: str) -> str:
    """Return SQL for the present committed offsets that are past retention at ``$as_of``, or will be by ``$limit``.

    The statement also takes ``$retention_ms`` and ``$is_known``, the attributes of ``Retention``. Its result has
    columns of ``expired_offsets``. It leaves out offsets that can't expire. These are offsets of topics to which
    members subscribe, and offsets of partitions with an open transaction.

    Args:
        source: relation of the present committed offset of each partition, in columns of ``offset_history``.
    """
    return f"""
    WITH timed AS (
        SELECT *, {expire_at("$retention_ms")} AS expire_at
        FROM {source} WHERE NOT is_protected AND base_timestamp IS NOT NULL
    )
    SELECT group_id, topic, partition, log_partition, committed_offset, metadata, commit_timestamp, base_timestamp,
        expire_at, rule, CASE WHEN expire_at <= $as_of THEN 'DUE' ELSE 'EXPIRING' END AS status,
        CASE WHEN $is_known THEN 'certain' ELSE 'likely' END AS confidence, last_owner_member_id,
        last_state AS group_state, CAST([] AS VARCHAR[]) AS alternatives, CAST($retention_ms AS BIGINT) AS retention_ms,
        CAST(NULL AS TIMESTAMPTZ) AS tombstone_at, CAST(NULL AS BIGINT) AS tombstone_offset,
        {PROVEN} AS is_exact
    FROM timed WHERE expire_at <= $limit
    """  # noqa: S608 - names of our own
