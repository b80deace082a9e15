"""A share group of KIP-932, from kinds 10 to 15.

Mirrors ``modern.share.ShareGroup``. Members may share partitions, nothing is revoked, so there are two states only:
Empty and Stable. A member whose epoch is below the assignment epoch has just not sent a heartbeat yet. The engine calls
a rebalance over once every member has, because only then do all members consume by the new targets.

The initialisation of partitions (kind 15) is not part of the group and outlives it, as in the broker. It may be
written for a group without any other record. It becomes an event only if the group exists.
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
        """Return kind 10."""
        return Subscription(
            None,
            value.get("rackId"),
            value.get("clientId"),
            value.get("clientHost"),
            tuple(value.get("subscribedTopicNames") or ()),
        )

    def read_current(self, value: Mapping[str, Any], missing: int) -> Current:
        """Return kind 14; its state byte is always 0."""
        return Current(
            value.get("memberEpoch", 0),
            value.get("previousMemberEpoch", 0),
            MemberState.STABLE,
            partitions_by_topic(value.get("assignedPartitions")),
            missing=missing,
        )
