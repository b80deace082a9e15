"""Events of a group's committed offsets, summed up for the timeline of the group.

Between two events of the group itself, all offset events of the same kind and topic become a single event. So a group
that commits in a transaction every second adds one line to the timeline instead of thousands. The table
``offset_history`` has each single commit.
"""

from datetime import datetime
from typing import Any

from coordinator_replay.analysis.expiring import TOPIC_DELETED
from coordinator_replay.query.group_moves import in_log_order
from coordinator_replay.query.removed import GROUP_MOVED, RECORDS_MISSING
from coordinator_replay.query.tables import Tables

FIRST_COMMIT = "OFFSETS_FIRST_COMMIT"
FIRST_ON_RECORD = "OFFSETS_FIRST_ON_RECORD"
REWIND = "OFFSETS_REWOUND"
RESET = "OFFSETS_SET_WHILE_EMPTY"
PENDING = "OFFSETS_PENDING"
LOST = "OFFSETS_POSITION_LOST"
OTHER_TOPIC = "OFFSETS_OF_OTHER_TOPIC"
ENDED = {
    "EXPIRED": "OFFSETS_EXPIRED",
    "DELETED": "OFFSETS_DELETED",
    "GROUP_DELETED": "OFFSETS_DELETED",
    "TOMBSTONE": "OFFSETS_REMOVED",
    RECORDS_MISSING: "OFFSETS_NOT_ON_RECORD",
    GROUP_MOVED: "OFFSETS_LEFT_BEHIND",
}
"""Name of the event for each value of the column ``ended_by``. The event's detail has this value as its ``cause``."""

UNREADABLE = "UNREADABLE"
"""Value of ``cause`` in the detail of an event about commits whose records can't be read."""

_IS_RESET = "group_state = 'Empty' AND owner_member_id IS NULL AND coalesce(from_offset > joined.since, false)"

_IS_TOPIC_DELETED = f"coalesce(starts_with(ended_evidence[1], '{TOPIC_DELETED}'), false)"

_CASES = " ".join(f"WHEN '{cause}' THEN '{event}'" for cause, event in ENDED.items())

# Clients may send any 64-bit number as an offset, so a difference of two offsets may need 65 bits.
#
# A commit to an Empty group counts as set by a tool only if the group has had members: groups without members always
# commit this way. The first commit on record may not have been the first one.
_CHANGES = f"""
    WITH marks AS (
        SELECT DISTINCT log_partition, log_offset FROM group_timeline WHERE cluster = $cluster AND group_id = $group
    ), joined AS (
        SELECT log_partition, min(log_offset) AS since FROM group_timeline
        WHERE cluster = $cluster AND group_id = $group AND member_count > 0 GROUP BY log_partition
    ), history AS (
        SELECT * FROM offset_history WHERE cluster = $cluster AND group_id = $group
    ), readable AS (
        SELECT * FROM history WHERE committed_offset IS NOT NULL
    ), of_topics AS (
        -- Topics that were created again, as far as the topic ids in commits show.
        SELECT *, last_value(topic_id IGNORE NULLS) OVER (
            PARTITION BY topic, partition ORDER BY {in_log_order("readable")}
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS id_before
        FROM readable WHERE topic IN (SELECT topic FROM readable GROUP BY topic HAVING count(DISTINCT topic_id) > 1)
    ), changes AS (
        SELECT CASE WHEN committed_offset < 0 THEN '{LOST}'
                    WHEN {_IS_RESET} THEN '{RESET}'
                    WHEN committed_offset < previous_offset THEN '{REWIND}'
                    WHEN is_begin_open THEN '{FIRST_ON_RECORD}'
                    ELSE '{FIRST_COMMIT}' END AS event,
               topic, partition, valid_from AS seen, from_offset AS log_offset, log_partition,
               committed_offset AS value, previous_offset AS before, NULL AS ended_by, NULL AS confidence,
               NULL AS until, is_exact, false AS is_topic_deleted
        FROM readable LEFT JOIN joined USING (log_partition)
        WHERE (previous_offset IS NULL AND replaced_offset IS NULL) OR committed_offset < previous_offset
           OR committed_offset < 0 OR ({_IS_RESET})
        UNION ALL
        SELECT '{OTHER_TOPIC}', topic, partition, valid_from, from_offset, log_partition, committed_offset, NULL, NULL,
               NULL, NULL, is_exact, false
        FROM of_topics WHERE topic_id <> id_before
        UNION ALL
        SELECT CASE ended_by {_CASES} END, topic, partition, valid_to, to_offset, log_partition, committed_offset, NULL,
               ended_by, ended_confidence, NULL, is_exact, {_IS_TOPIC_DELETED}
        FROM readable WHERE ended_by <> 'COMMIT'
        UNION ALL
        SELECT '{ENDED[RECORDS_MISSING]}', topic, partition, valid_from, from_offset, log_partition, NULL, NULL,
               '{UNREADABLE}', NULL, NULL, is_exact, false
        FROM history WHERE committed_offset IS NULL
        UNION ALL
        SELECT '{PENDING}', topic, partition, valid_from, from_offset, log_partition, committed_offset, producer_id,
               ended_by, NULL, valid_to, is_exact, false
        FROM pending_offsets WHERE cluster = $cluster AND group_id = $group
    ), placed AS (
        SELECT changes.*, marks.log_offset AS mark
        FROM changes ASOF LEFT JOIN marks
            ON changes.log_partition = marks.log_partition AND changes.log_offset >= marks.log_offset
        WHERE coalesce(seen >= $start, true) AND coalesce(seen < $end, true)
    )
    SELECT event, topic, min(seen), max(seen), min(log_offset), min(log_partition), count(*),
           list_sort(list(DISTINCT partition)), min(value), max(value), max(before::HUGEINT - value), min(ended_by),
           min(confidence), count(*) FILTER (ended_by = 'COMMIT'), count(*) FILTER (ended_by = 'ABORT'),
           count(*) FILTER (until IS NULL), max(epoch_ms(until) - epoch_ms(seen)),
           list_sort(list(DISTINCT before) FILTER (until IS NULL AND event = '{PENDING}')),
           bool_and(coalesce(is_exact, false)), bool_and(is_topic_deleted)
    FROM placed GROUP BY event, topic, log_partition, mark, CASE WHEN event <> '{PENDING}' THEN ended_by END
    ORDER BY min(log_offset), event, topic
"""  # noqa: S608 - put together from constants


def offset_events(
    warehouse: Tables, group: str, start: datetime | None = None, end: datetime | None = None
) -> list[tuple[str, datetime | None, dict[str, Any], dict[str, Any]]]:
    """Return events that sum up the commits and removals of a group's offsets in a time range, in log order.

    Returns:
        For each event, four values:

        - its name
        - the time of the first commit or removal that the event sums up
        - its detail: topic, partitions, number of commits or removals (``times``), time of the last commit or removal
          (``until``), and values that depend on the event
        - a dict with ``is_exact``, and the log partition and log offset of the first commit or removal
    """
    events = []
    for row in warehouse.rows(_CHANGES, group=group, start=start, end=end):
        (event, topic, first, last, log_offset, log_partition, times, partitions, lowest, highest, furthest, ended_by,
         confidence, committed, aborted, opened, longest_ms, producers, is_exact,
         is_topic_deleted) = row  # fmt: skip
        detail: dict[str, Any] = {"topic": topic, "partitions": list(partitions), "times": times, "until": last}
        if event == PENDING:
            detail |= {"committed": committed, "aborted": aborted, "open": opened, "longest_ms": longest_ms}
            detail["producer_ids"] = list(producers or ())
        else:
            detail |= {"lowest": lowest, "highest": highest}
        if event in (REWIND, RESET):
            detail["furthest_back"] = None if furthest is None or furthest <= 0 else furthest
        if event in ENDED.values():
            detail |= {"cause": ended_by, "confidence": confidence}
        if is_topic_deleted:
            detail["is_topic_deleted"] = True
        place = {"log_partition": log_partition, "log_offset": log_offset, "is_exact": is_exact}
        events.append((event, first, detail, place))
    return events
