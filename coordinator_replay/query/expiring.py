"""Offsets still committed that expire next, for any horizon.

The table ``expired_offsets`` ends at the horizon of its audit. Here the same is computed from what is on record: the
offsets in force at the end of the log, the rule of each group that was in force last (``expiry_rules``), open
transactions, and the retention that the last audit applied. For times after the end of the log, groups are taken to
stay as they are. The rules are those of ``GroupCoordinatorShard.cleanupGroupMetadata``.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from coordinator_replay.analysis.expiration import DEFAULT_RETENTION_MS, Rule
from coordinator_replay.query.warehouse import Warehouse
from coordinator_replay.times import later

_SETTINGS = """
    SELECT CAST(settings->>'$.retention_ms' AS BIGINT) FROM audit_runs
    WHERE cluster = $cluster AND status = 'done' ORDER BY started_at DESC, run_id DESC LIMIT 1
"""

_APPLIED = """
    SELECT min(retention_ms), bool_or(confidence = 'certain') FILTER (status <> 'EXPIRED')
    FROM expired_offsets WHERE cluster = $cluster
"""

# A group without a rule on record is a simple one; a rule without a base counts from each offset's own commit.
_EXPIRING = f"""
    WITH in_force AS (
        SELECT group_id, arg_max(struct_pack(rule, base_timestamp, spared_topics, group_state), log_offset) AS last
        FROM expiry_rules WHERE cluster = $cluster {{one_group}} GROUP BY group_id
    ), states AS (
        SELECT group_id, arg_max(nullif(to_state, 'Dead'), seq) AS state
        FROM group_timeline WHERE cluster = $cluster {{one_group}} GROUP BY group_id
    ), pending AS (
        SELECT DISTINCT group_id, topic, partition FROM pending_offsets
        WHERE cluster = $cluster AND valid_to IS NULL {{one_group}}
    ), owners AS (
        SELECT group_id, topic, partition,
               max(struct_pack(owned_from, from_offset, member_id)) FILTER (owned_from IS NOT NULL).member_id
                   AS member_id
        FROM partition_ownership WHERE cluster = $cluster {{one_group}} GROUP BY ALL
    ), judged AS (
        SELECT offset_history.*, last.group_state AS rule_state,
               CASE WHEN list_contains(last.spared_topics, topic) THEN '{Rule.NEVER_WHILE_ACTIVE}'
                    WHEN last.rule = '{Rule.NEVER_WHILE_ACTIVE}' THEN last.rule
                    WHEN expire_timestamp IS NOT NULL THEN '{Rule.EXPLICIT_EXPIRE_TIMESTAMP}'
                    ELSE coalesce(last.rule, '{Rule.SIMPLE_GROUP}') END AS rule,
               coalesce(last.base_timestamp, commit_timestamp) AS base_timestamp
        FROM offset_history LEFT JOIN in_force USING (group_id)
        WHERE cluster = $cluster AND valid_to IS NULL {{one_group}}
    ), due AS (
        SELECT *, CASE WHEN rule = '{Rule.EXPLICIT_EXPIRE_TIMESTAMP}' THEN expire_timestamp
                       ELSE base_timestamp + to_milliseconds($retention_ms) END AS expire_at
        FROM judged WHERE rule <> '{Rule.NEVER_WHILE_ACTIVE}'
    )
    SELECT due.group_id, due.topic, due.partition, committed_offset,
           CASE WHEN expire_at <= $end THEN 'DUE' ELSE 'EXPIRING' END, expire_at, rule, $confidence, commit_timestamp,
           base_timestamp, NULL, NULL, owners.member_id, coalesce(states.state, rule_state, 'Empty'), [], $retention_ms,
           metadata
    FROM due
    LEFT JOIN states ON states.group_id = due.group_id
    LEFT JOIN owners ON owners.group_id = due.group_id AND owners.topic = due.topic AND owners.partition = due.partition
    LEFT JOIN pending
      ON pending.group_id = due.group_id AND pending.topic = due.topic AND pending.partition = due.partition
    WHERE expire_at <= $limit AND pending.group_id IS NULL
    ORDER BY expire_at, due.group_id, due.topic, due.partition
"""  # noqa: S608 - put together from constants


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The retention that expiry is evaluated by.

    Attributes:
        retention_ms: offsets.retention.minutes in milliseconds: as given, as inferred, or Kafka's default.
        is_known: whether it was given or inferred; a default makes nothing certain.
    """

    retention_ms: int
    is_known: bool


def applied_retention(warehouse: Warehouse) -> Retention:
    """The retention that the last finished audit of the cluster applied."""
    given_ms = next((row[0] for row in warehouse.rows(_SETTINGS)), None)
    applied_ms, is_certain = warehouse.rows(_APPLIED)[0]
    retention_ms = given_ms or applied_ms or DEFAULT_RETENTION_MS
    is_known = given_ms is not None or bool(is_certain)
    if is_certain is None and given_ms is None:
        # No offset that is left tells; a retention other than the default was inferred from offsets that expired.
        is_known = retention_ms != DEFAULT_RETENTION_MS
    return Retention(retention_ms=retention_ms, is_known=is_known)


def expiring_rows(warehouse: Warehouse, group: str | None, within: timedelta) -> list[tuple[Any, ...]]:
    """Offsets in force that are past retention, or will be within a horizon, in the columns of ``ExpiredOffset``.

    Args:
        warehouse: the tables.
        group: only of this group; of all if None.
        within: how far ahead of the end of the log to look.
    """
    retention = applied_retention(warehouse)
    end = warehouse.coverage.last
    limit = later(end, round(within.total_seconds() * 1000))
    return warehouse.rows(
        _EXPIRING.format(one_group="" if group is None else "AND group_id = $group"),
        group=group,
        end=end,
        limit=limit,
        retention_ms=retention.retention_ms,
        confidence="certain" if retention.is_known else "likely",
    )
