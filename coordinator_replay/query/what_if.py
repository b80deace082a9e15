"""A group's records and what is known of its topics, out of the tables, as ``whatif`` takes them."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from coordinator_replay.analysis.reasons.topic_changes import TopicChange
from coordinator_replay.engine.model import Record
from coordinator_replay.errors import UsageError
from coordinator_replay.query.groups import check_group
from coordinator_replay.query.warehouse import Warehouse
from coordinator_replay.records.protocol import open_blobs
from coordinator_replay.times import EPOCH
from coordinator_replay.whatif.alternative import Alternative
from coordinator_replay.whatif.answer import Recorded, WhatIf, what_if

_RECORDS = """
    SELECT kind, key_json, value_json, log_partition, log_offset,
           coalesce(epoch_ms(log_timestamp), -1), coalesce(missing_before, 0), value_version
    FROM group_records
    WHERE cluster = $cluster AND group_id = $group
    ORDER BY log_partition, log_offset
"""

_TOPICS = (
    "SELECT topic_id, topic, partition_count, changes FROM topics WHERE cluster = $cluster ORDER BY topic, topic_id"
)

_JUDGED = """
    SELECT epoch, epoch_ms(completed_at), cause, confidence
    FROM rebalances
    WHERE cluster = $cluster AND group_id = $group
"""


def recorded_of(warehouse: Warehouse, group: str) -> Recorded:
    """What is on record of a group.

    Raises:
        UsageError: the tables don't know the group, or have offset commits of it alone.
    """
    records = tuple(
        Record(
            kind,
            json.loads(key),
            None if value is None else open_blobs(kind, json.loads(value)),
            partition,
            offset,
            at_ms,
            missing,
            version if value is not None else None,
        )
        for kind, key, value, partition, offset, at_ms, missing, version in warehouse.rows(_RECORDS, group=group)
    )
    if not records:
        check_group(warehouse, group)
        raise UsageError(f"group {group!r} has no members on record: there is no life to replay")
    names, counts, changes = {}, {}, {}
    for topic_id, topic, count, told in warehouse.rows(_TOPICS):
        names[topic_id] = topic
        if count is not None:
            counts[topic] = count
        if told:
            changes[topic] = [
                TopicChange(_milliseconds(one["changed_at"]), one["change"], one["partition_count"] or 0)
                for one in told
            ]
    columns = ("epoch", "completed_at", "cause", "confidence")
    judged = [dict(zip(columns, row, strict=True)) for row in warehouse.rows(_JUDGED, group=group)]
    return Recorded(group, records, names, counts, changes, judged, _milliseconds(warehouse.coverage.last))


def what_if_of(
    warehouse: Warehouse,
    group: str,
    alternatives: Sequence[Alternative],
    start: datetime | None = None,
    end: datetime | None = None,
    known: dict[str, str] | None = None,
) -> WhatIf:
    """Replay a group's life under other settings.

    Args:
        warehouse: the tables.
        group: the group.
        alternatives: settings to try.
        start: from then on; the group's first record if None.
        end: until then, not included; the end of its records if None.
        known: settings of the recorded life that the log does not hold.

    Raises:
        UsageError: the tables don't know the group, it can't be simulated, or a setting is unknown.
    """
    warehouse.check_range(start, end)
    return what_if(
        recorded_of(warehouse, group),
        alternatives,
        start_ms=None if start is None else _milliseconds(start),
        end_ms=None if end is None else _milliseconds(end),
        known=known,
    )


def _milliseconds(moment: datetime) -> int:
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return round((moment - EPOCH).total_seconds() * 1000)
