"""Readers of a topic.

A reader is a client that subscribed to the topic, or owned partitions of the topic. If only offset commits show that a
group read the topic, the group is the reader.
"""

from dataclasses import dataclass
from datetime import datetime

from coordinator_replay.answer_columns import column, select_list
from coordinator_replay.errors import UsageError
from coordinator_replay.listing import partition_ranges
from coordinator_replay.query.similar import did_you_mean
from coordinator_replay.query.tables import Tables
from coordinator_replay.tables.views import views_in

_IDENTITIES = """
    SELECT topic, topic_id FROM topics WHERE cluster = $cluster AND (topic = $topic OR topic_id = $topic)
    UNION
    SELECT topic, topic_id FROM partition_ownership WHERE cluster = $cluster AND (topic = $topic OR topic_id = $topic)
"""

_NAMES = """
    SELECT topic FROM topics WHERE cluster = $cluster
    UNION SELECT unnest(subscribed_topics) FROM member_timeline WHERE cluster = $cluster
    UNION SELECT unnest(assigned).topic FROM member_timeline WHERE cluster = $cluster
    UNION SELECT topic FROM offset_history WHERE cluster = $cluster
    UNION SELECT topic FROM pending_offsets WHERE cluster = $cluster
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConsumer:
    """A client that read a topic, or a group that read the topic without clients on record.

    A client that left and came back has several rows.

    Attributes:
        how: how the log shows that the client read the topic.

            - ``subscribed``: the client subscribed to the topic by name.
            - ``regex``: the client subscribed by a regular expression.
            - ``share``, ``streams``: the client was a member of a share or streams group.
            - ``assigned``: the client owned partitions, but its subscription is not in the log.
            - ``commits``: only offset commits of the group show that the group read the topic. A commit has no client.
        client_id: client id; None for ``commits``. Also None for a static member if the client id on record may be the
            client id of an earlier process.
        client_host: host of the client; None in the same two cases as ``client_id``.
        instance_id: ``group.instance.id`` of a static member.
        member_ids: number of member ids that the client had; each restart of a dynamic member adds one.
        partitions: partitions of the topic that the client owned or committed in the time range; empty if the client
            only subscribed.
        first_at: the time at which the client began to read; for ``commits``, the time of the first commit. None if the
            client began before the first record with a time.
        last_at: the time at which the client stopped; for ``commits``, the time of the last commit. None for a member
            that is still there at the end of the log.
        is_exact: whether the log proves all values of this row.
    """

    group_id: str = column("GROUP", 1, is_id=True)
    how: str = column("HOW", 1)
    client_id: str | None = column("CLIENT-ID", 1, 8, is_id=True)
    instance_id: str | None = column("GROUP-INSTANCE-ID", 1, 8, is_id=True)
    client_host: str | None = column("HOST", 1, 8, is_id=True)
    member_ids: int | None = column("#MEMBER-IDS", 4)
    partitions: list[int] = column("PARTITIONS", 1, 10, text=partition_ranges)
    first_at: datetime | None = column("FROM", 1)
    last_at: datetime | None = column("TO", 1)
    is_exact: bool


_INCOMPLETE = ", ".join(f"{view.name} AS ({view.sql})" for view in views_in("incomplete_groups"))

_CLIENT = "group_id, how, client_id, instance_id, client_host"
"""Columns that identify a reader of a topic."""

_READERS = f"""
    WITH {_INCOMPLETE}, patterns AS (
        SELECT group_id, log_partition, key_json ->> 'regularExpression' AS pattern, log_timestamp AS since,
               coalesce(list_has_any((value_json -> 'topics')::VARCHAR[], $names), false) AS matches,
               lead(log_timestamp) OVER (PARTITION BY group_id, log_partition, key_json ORDER BY log_offset) AS until
        FROM group_records WHERE cluster = $cluster AND kind = 'ConsumerGroupRegularExpression'
    ), intervals AS (
        SELECT member_timeline.*, coalesce(list_has_any(subscribed_topics, $names), false) AS is_named,
               list_sort(list_distinct(flatten([one.partitions
                   FOR one IN list_concat(coalesce(assigned, []), coalesce(pending_revocation, []))
                   IF coalesce(list_contains($names, one.topic), false)
                       OR coalesce(list_contains($ids, one.topic_id), false)]))) AS owned
        FROM member_timeline
        WHERE cluster = $cluster AND coalesce(valid_from < $end, true)
          AND coalesce(valid_to > $start, to_offset IS NULL OR $start IS NULL)
    ), matched AS (
        -- The coordinator may resolve the regular expression after the member subscribed: it reads from the later of
        -- the two.
        SELECT intervals.* REPLACE (
                   greatest(valid_from, since) AS valid_from, least(valid_to, until) AS valid_to,
                   CASE WHEN until IS NULL OR valid_to <= until THEN to_offset ELSE 0 END AS to_offset)
        FROM intervals JOIN patterns USING (group_id, log_partition)
        WHERE subscribed_topic_regex = pattern AND matches AND owned = [] AND NOT is_named
          AND coalesce(valid_from < until, true) AND coalesce(valid_to > since, to_offset IS NULL)
          AND coalesce(since < $end, true) AND coalesce(until > $start, true)
    ), readers AS (
        SELECT group_id, member_id, instance_id, owned, valid_from, valid_to, from_offset, to_offset,
               CASE WHEN group_type IN ('share', 'streams') THEN group_type WHEN is_named THEN 'subscribed'
                    WHEN subscribed_topic_regex IS NOT NULL THEN 'regex' ELSE 'assigned' END AS how,
               CASE WHEN NOT coalesce(is_client_inherited, false) THEN client_id END AS client_id,
               CASE WHEN NOT coalesce(is_client_inherited, false) THEN client_host END AS client_host,
               coalesce(is_exact AND NOT is_begin_open, false) AS is_exact
        FROM (SELECT * FROM intervals WHERE is_named OR owned <> [] UNION ALL SELECT * FROM matched)
    ), stays AS (
        -- A client that was gone in between came back: each time that it was there is a stay of its own.
        SELECT *, count(*) FILTER (valid_from > there_until) OVER (
                   PARTITION BY {_CLIENT} ORDER BY valid_from NULLS FIRST, from_offset) AS stay
        FROM (
            SELECT *, max(CASE WHEN to_offset IS NULL THEN TIMESTAMPTZ 'infinity' ELSE valid_to END) OVER (
                       PARTITION BY {_CLIENT} ORDER BY valid_from NULLS FIRST, from_offset
                       ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS there_until
            FROM readers)
    ), members AS (
        SELECT {_CLIENT}, count(DISTINCT member_id) AS member_ids,
               list_sort(list_distinct(flatten(list(owned)))) AS partitions,
               CASE WHEN count(*) = count(valid_from) THEN min(valid_from) END AS first_at,
               CASE WHEN count(*) = count(to_offset) THEN max(valid_to) END AS last_at,
               bool_and(is_exact) AS is_exact
        FROM stays GROUP BY {_CLIENT}, stay
    ), committed AS (
        -- If two topics had this name, count only commits of the topic asked for. Most commits carry no topic id.
        SELECT group_id, partition, valid_from, is_exact AND NOT is_begin_open AS is_exact FROM offset_history
        WHERE cluster = $cluster AND list_contains($names, topic) AND coalesce(topic_id = $topic_id, true)
        UNION ALL
        SELECT group_id, partition, pending_since, is_exact AND NOT is_begin_open FROM pending_offsets
        WHERE cluster = $cluster AND list_contains($names, topic) AND coalesce(topic_id = $topic_id, true)
    ), commits AS (
        SELECT group_id, 'commits' AS how, NULL AS client_id, NULL AS instance_id, NULL AS client_host,
               NULL AS member_ids,
               list_sort(list_distinct(list(partition))) AS partitions, min(valid_from) AS first_at,
               max(valid_from) AS last_at, bool_and(coalesce(is_exact, false)) AS is_exact
        FROM committed
        WHERE coalesce(valid_from >= $start, $start IS NULL) AND coalesce(valid_from < $end, true)
          AND group_id NOT IN (SELECT group_id FROM members)
        GROUP BY group_id
    )
    SELECT {select_list(TopicConsumer)}
    FROM (
        SELECT * REPLACE (is_exact AND group_id NOT IN (
            SELECT group_id FROM incomplete_groups
            WHERE cluster = $cluster AND coalesce(since < $end, true) AND coalesce(until > $start, true)) AS is_exact)
        FROM (SELECT * FROM members UNION ALL BY NAME SELECT * FROM commits)
    )
    ORDER BY group_id, first_at NULLS FIRST, client_id, instance_id, client_host, how
"""  # noqa: S608 - put together from constants


NOT_IN_THE_LOG = (
    "Principals are not in this log, nor are consumers that use assign() and commit nothing: brokers' request logs "
    "have them."
)
"""A note on every answer about who read a topic."""


def topic_names(warehouse: Tables) -> list[str]:
    """Return the names of all topics in the tables, sorted."""
    return sorted(name for (name,) in warehouse.rows(_NAMES) if name is not None)


def consumers_of(
    warehouse: Tables, topic: str, start: datetime | None = None, end: datetime | None = None
) -> list[TopicConsumer]:
    """Return the clients and groups that read a topic in a time range, sorted by group and then by ``first_at``.

    Args:
        warehouse: the tables to read.
        topic: the topic's name or id.
        start: start of the time range, included; None for no lower bound.
        end: end of the time range, excluded; None for no upper bound.

    Raises:
        UsageError: no record names the topic, or the tables have no record of that time range.
    """
    warehouse.check_range(start, end)
    identities = warehouse.rows(_IDENTITIES, topic=topic)
    names = sorted({topic, *(name for name, _ in identities if name)})
    ids = sorted({topic, *(topic_id for _, topic_id in identities if topic_id)})
    asked = {
        "names": names,
        "ids": ids,
        "topic_id": next((topic_id_ for _, topic_id_ in identities if topic_id_ == topic), None),
    }
    consumers = warehouse.answers(TopicConsumer, _READERS, **asked, start=start, end=end)
    if not consumers and not identities:
        _check_topic(warehouse, topic)
    return consumers


def _check_topic(warehouse: Tables, topic: str) -> None:
    names = topic_names(warehouse)
    if topic in names:
        return
    hint = did_you_mean(topic, names)
    raise UsageError(f"no record of cluster {warehouse.cluster!r} names a topic {topic!r}{hint and f': {hint}'}")
