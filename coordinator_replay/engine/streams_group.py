"""A streams group of KIP-1071, built from records of the kinds 17 and 19 to 23.

Mirrors ``streams.StreamsGroup``. A streams group is like a consumer group, but has tasks (subtopology, partition) in
place of partitions, and one more state: NotReady. The group is NotReady until a topology exists and was validated
against the topics. Brokers of 4.1 wrote no validated epoch. So groups of these brokers are shown as NotReady, although
they may be ready.

The numbers of member states differ from those of consumer groups (``streams.MemberState``). For example, Stable is 1
here and 0 in a consumer group.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator_replay.engine.model import (
    Current,
    GroupState,
    GroupType,
    MemberState,
    Record,
    Subscription,
    Target,
    Topology,
    epochs_by_topic,
    partitions_by_topic,
)
from coordinator_replay.engine.modern_group import (
    ASSIGNING,
    EMPTY,
    RECONCILING,
    STABLE,
    ReconcilingGroup,
    StateRule,
)
from coordinator_replay.engine.operation import Operation

NOT_VALIDATED = -1

MEMBER_STATES: Mapping[int, MemberState] = {
    1: MemberState.STABLE,
    2: MemberState.UNREVOKED_TASKS,
    3: MemberState.UNRELEASED_TASKS,
}


NOT_READY: StateRule = (
    GroupState.NOT_READY,
    "no topology, or not the validated one",
    lambda group: not group.is_ready(),
)

STATES: Sequence[StateRule] = (EMPTY, NOT_READY, ASSIGNING, RECONCILING, STABLE)


@dataclass(eq=False)
class StreamsGroup(ReconcilingGroup):
    """The replayed state of one streams group.

    Attributes:
        topology: None if no record has a topology.
        validated_topology_epoch: epoch of the topology that was validated; NOT_VALIDATED if no record has such an
            epoch.
    """

    states = STATES
    group_type = GroupType.STREAMS
    protocol_type = "streams"
    topology: Topology | None = None
    validated_topology_epoch: int = NOT_VALIDATED

    def is_ready(self) -> bool:
        """Return whether the group has a topology and this topology was validated."""
        return self.topology is not None and self.topology.epoch == self.validated_topology_epoch

    def replay_metadata(self, record: Record, operation: Operation) -> None:
        """Replay a ``StreamsGroupMetadata`` record (kind 17).

        It has the group epoch, the metadata hash, and the topology epoch that was validated.
        """
        value = record.value or {}
        self.validated_topology_epoch = value.get("validatedTopologyEpoch", NOT_VALIDATED)
        super().replay_metadata(record, operation)

    def read_subscription(self, value: Mapping[str, Any]) -> Subscription:
        """Return the subscription in the value of a ``StreamsGroupMemberMetadata`` record (kind 19)."""
        endpoint = value.get("userEndpoint")
        return Subscription(
            value.get("instanceId"),
            value.get("rackId"),
            value.get("clientId"),
            value.get("clientHost"),
            rebalance_timeout_ms=value.get("rebalanceTimeoutMs", -1),
            process_id=value.get("processId"),
            topology_epoch=value.get("topologyEpoch"),
            user_endpoint=(endpoint["host"], endpoint["port"]) if endpoint else None,
            client_tags=tuple((tag["key"], tag["value"]) for tag in value.get("clientTags") or ()),
        )

    def read_target(self, value: Mapping[str, Any], missing: int) -> Target:
        """Return the target tasks in the value of a ``StreamsGroupTargetAssignmentMember`` record (kind 21)."""
        return Target(
            _tasks(value, "activeTasks"),
            _tasks(value, "standbyTasks"),
            _tasks(value, "warmupTasks"),
            missing=missing,
        )

    def read_current(self, value: Mapping[str, Any], missing: int) -> Current:
        """Return the current tasks in the value of a ``StreamsGroupCurrentMemberAssignment`` record (kind 22)."""
        return Current(
            value.get("memberEpoch", 0),
            value.get("previousMemberEpoch", 0),
            MEMBER_STATES.get(value.get("state", 1), MemberState.UNKNOWN),
            _tasks(value, "activeTasks"),
            _tasks(value, "activeTasksPendingRevocation"),
            epochs_by_topic(value.get("activeTasks"), "subtopologyId"),
            epochs_by_topic(value.get("activeTasksPendingRevocation"), "subtopologyId"),
            _tasks(value, "standbyTasks"),
            _tasks(value, "warmupTasks"),
            _tasks(value, "standbyTasksPendingRevocation"),
            _tasks(value, "warmupTasksPendingRevocation"),
            missing=missing,
        )

    def replay_topology(self, record: Record, operation: Operation) -> None:
        """Replay a ``StreamsGroupTopology`` record (kind 23), or its tombstone. The record has the topology.

        The tombstone of a topology comes after the group's tombstone, and then has no effect.
        """
        old = self.topology
        self.topology = read_topology(record.value) if record.value is not None else None
        operation.changes.setdefault("topology", old)
        operation.at["topology"] = record.offset


def read_topology(value: Mapping[str, Any]) -> Topology:
    """Return the topology in the value of a ``StreamsGroupTopology`` record (kind 23).

    Both the source topics and the repartition source topics of a subtopology count as its source topics.
    """
    return Topology(
        value.get("epoch", 0),
        {
            subtopology["subtopologyId"]: tuple(
                sorted(
                    {
                        *subtopology.get("sourceTopics", ()),
                        *(topic["name"] for topic in subtopology.get("repartitionSourceTopics", ())),
                    }
                )
            )
            for subtopology in value.get("subtopologies", ())
        },
    )


def _tasks(value: Mapping[str, Any], name: str) -> Mapping[str, tuple[int, ...]]:
    return partitions_by_topic(value.get(name), "subtopologyId")
