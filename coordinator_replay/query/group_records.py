"""Facts about a group at a point in time that only the table ``group_records`` has.

These are the tasks and the topology of a streams group, the share-partition state of a share group, and which members
of a consumer group use the classic protocol. If a record is no longer in the log, the fields from this record are None.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from coordinator_replay.listing import partition_ranges
from coordinator_replay.query.partitions import TopicPartitions, topic_partitions
from coordinator_replay.query.tables import END, Tables

_NEWEST = """
    SELECT kind, coalesce(member_id, ''), value_json FROM group_records
    WHERE cluster = $cluster AND group_id = $group AND coalesce(log_timestamp <= $at, true)
      AND log_partition = $log_partition
      AND (kind LIKE 'StreamsGroup%' OR kind IN ('ShareGroupStatePartitionMetadata', 'ConsumerGroupMemberMetadata'))
    QUALIFY row_number() OVER (PARTITION BY kind, member_id ORDER BY log_offset DESC) = 1
"""

_TOPICS = "SELECT topic, source, created_at, removed_at FROM topics WHERE cluster = $cluster"

Value = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtopologyTasks:
    """Tasks of one subtopology.

    Attributes:
        partitions: numbers of the tasks. A task has the number of the partition that it reads.
    """

    subtopology_id: str
    partitions: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.subtopology_id}:{partition_ranges(self.partitions)}"


Tasks = tuple[SubtopologyTasks, ...]


def _tasks(value: Value | None, name: str) -> Tasks | None:
    if value is None:
        return None
    return tuple(
        SubtopologyTasks(subtopology_id=task_set["subtopologyId"], partitions=tuple(sorted(task_set["partitions"])))
        for task_set in sorted(value.get(name) or (), key=lambda task_set: str(task_set["subtopologyId"]))
    )


def _topics(value: Value | None, name: str) -> tuple[TopicPartitions, ...] | None:
    if value is None:
        return None
    return topic_partitions(
        {"topic": element["topicName"], "topic_id": element["topicId"], "partitions": element.get("partitions", ())}
        for element in value.get(name) or ()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTopology:
    """The topology of a streams group.

    Attributes:
        epoch: epoch of the topology.
        validated_epoch: the topology epoch that the coordinator has validated against the topics; None if it has
            validated none. Kafka 4.1 does not record this epoch.
        source_topics: topics that the application reads.
        internal_topics: repartition and changelog topics.
    """

    epoch: int
    validated_epoch: int | None
    source_topics: tuple[str, ...]
    internal_topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupRecords:
    """The newest records of a group.

    Attributes:
        values: values of the records, by record type and member id. The member id is empty for a record about the
            whole group.
    """

    values: Mapping[tuple[str, str], Value]

    def _value(self, kind: str, member_id: str = "") -> Value | None:
        return self.values.get((kind, member_id))

    @property
    def topology(self) -> GroupTopology | None:
        """Return the topology of a streams group; None if no topology is on record."""
        value = self._value("StreamsGroupTopology")
        if value is None:
            return None
        subtopologies = value.get("subtopologies") or ()
        validated = (self._value("StreamsGroupMetadata") or {}).get("validatedTopologyEpoch", -1)
        return GroupTopology(
            epoch=value.get("epoch", 0),
            validated_epoch=None if validated < 0 else validated,
            source_topics=_sorted(
                name for subtopology in subtopologies for name in subtopology.get("sourceTopics") or ()
            ),
            internal_topics=_sorted(
                topic["name"]
                for subtopology in subtopologies
                for kind in ("repartitionSourceTopics", "stateChangelogTopics")
                for topic in subtopology.get(kind) or ()
            ),
        )

    def group_fields(self) -> dict[str, Any]:
        """Return values for the fields of ``DescribedGroup`` that only the group's records have, by field name."""
        topology = self.topology
        share = self._value("ShareGroupStatePartitionMetadata")
        return {
            "topology_epoch": None if topology is None else topology.epoch,
            "validated_topology_epoch": None if topology is None else topology.validated_epoch,
            "initialized_topics": _topics(share, "initializedTopics"),
            "initializing_topics": _topics(share, "initializingTopics"),
            "deleting_topics": _topics(share, "deletingTopics"),
        }

    def member_fields(self, member_id: str) -> dict[str, Any]:
        """Return values for the fields of ``DescribedMember`` that only the member's records have, by field name."""
        consumer = self._value("ConsumerGroupMemberMetadata", member_id)
        streams = self._value("StreamsGroupMemberMetadata", member_id) or {}
        current = self._value("StreamsGroupCurrentMemberAssignment", member_id)
        target = self._value("StreamsGroupTargetAssignmentMember", member_id)
        fields: dict[str, Any] = {
            "is_upgraded": None if consumer is None else not consumer.get("classicMemberMetadata"),
            "process_id": streams.get("processId"),
            "member_topology_epoch": streams.get("topologyEpoch"),
        }
        for kind in ("active", "standby", "warmup"):
            fields[f"{kind}_tasks"] = _tasks(current, f"{kind}Tasks")
            fields[f"{kind}_tasks_pending_revocation"] = _tasks(current, f"{kind}TasksPendingRevocation")
            fields[f"target_{kind}_tasks"] = _tasks(target, f"{kind}Tasks")
        return fields


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


def newest_records(
    warehouse: Tables, group: str, log_partition: int | None, at: datetime | None = None
) -> GroupRecords:
    """Return the last records of a group before a point in time: of each record type, and of each member.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        log_partition: the group's log partition at the point in time.
        at: the point in time; the end of the log if None.
    """
    rows = warehouse.rows(_NEWEST, group=group, log_partition=log_partition, at=at or END)
    return GroupRecords({(kind, member): json.loads(value) for kind, member, value in rows if value is not None})


def not_ready_note(warehouse: Tables, topology: GroupTopology | None, at: datetime | None = None) -> str:
    """Return a note on the topics that a streams group in state NotReady waits for.

    Only the cluster metadata shows which topics were missing. Without cluster metadata, the note names all topics that
    the group needs.

    Args:
        warehouse: the tables to read.
        topology: the group's topology; None if no topology is on record.
        at: the point in time; the end of the log if None.
    """
    if topology is None:
        return "NotReady: the log has no topology of this group."
    validated = (
        "no topology epoch of this group as validated (brokers of 4.1 record none)"
        if topology.validated_epoch is None
        else f"topology epoch {topology.validated_epoch} as the validated one, and the group is at {topology.epoch}"
    )
    needed = (*topology.source_topics, *topology.internal_topics)
    missing = _missing_topics(warehouse, needed, at or END)
    if missing is None:
        which = (
            f"It needs the source topics {', '.join(topology.source_topics) or 'none'} and the internal topics "
            f"{', '.join(topology.internal_topics) or 'none'}; which of them were missing is not in this log: audit "
            "with --cluster-metadata."
        )
    elif missing:
        which = f"By the cluster metadata these topics did not exist then: {', '.join(missing)}."
    else:
        which = "By the cluster metadata all of its topics existed then; the next heartbeat validates them."
    return f"NotReady: the log has {validated}. {which}"


def _missing_topics(warehouse: Tables, names: Iterable[str], at: datetime) -> list[str] | None:
    """Return the given topics that did not exist at a point in time.

    Return None if there is no dump of the cluster metadata.
    """
    rows = [
        (topic, created, removed)
        for topic, source, created, removed in warehouse.rows(_TOPICS)
        if source == "cluster_metadata"
    ]
    if not rows:
        return None
    existed = {
        topic
        for topic, created, removed in rows
        if (created is None or created <= at) and (removed is None or removed > at)
    }
    return [name for name in names if name not in existed]
