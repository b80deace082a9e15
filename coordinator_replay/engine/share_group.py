"""A share group of KIP-932, built from records of the kinds 10 to 15.

Mirrors ``modern.share.ShareGroup``. Members may share partitions and nothing is revoked, so there are only two states:
Empty and Stable. A member whose epoch is below the assignment epoch has not sent a heartbeat since the assignment. For
the engine, a rebalance ends when every member has sent such a heartbeat: from then on all members consume by the new
targets.

The initialisation of partitions (kind 15) is not part of the group and outlives the group, as in the broker. A group
may have such a record and no other. The record becomes an event only if the group exists.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator_replay.engine.model import (
    Current,
    GroupType,
    MemberState,
    Subscription,
    partitions_by_topic,
)
from coordinator_replay.engine.modern_group import EMPTY, STABLE, ReconcilingGroup, StateRule

STATES: Sequence[StateRule] = (EMPTY, STABLE)


@dataclass(eq=False)
class ShareGroup(ReconcilingGroup):
    """The replayed state of one share group."""

    states = STATES
    group_type = GroupType.SHARE
    protocol_type = "share"

    def read_subscription(self, value: Mapping[str, Any]) -> Subscription:
        """Return the subscription in the value of a ``ShareGroupMemberMetadata`` record (kind 10)."""
        return Subscription(
            None,
            value.get("rackId"),
            value.get("clientId"),
            value.get("clientHost"),
            tuple(value.get("subscribedTopicNames") or ()),
        )

    def read_current(self, value: Mapping[str, Any], missing: int) -> Current:
        """Return the current assignment in the value of a ``ShareGroupCurrentMemberAssignment`` record (kind 14).

        The value's state is always 0, so it is not read.
        """
        return Current(
            value.get("memberEpoch", 0),
            value.get("previousMemberEpoch", 0),
            MemberState.STABLE,
            partitions_by_topic(value.get("assignedPartitions")),
            missing=missing,
        )
