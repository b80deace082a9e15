"""The causes of rebalances with their meanings, and the confidence in a cause."""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum


class Cause(StrEnum):
    """Causes of rebalances."""

    GROUP_CONVERSION = "GROUP_CONVERSION"
    GROUP_CREATED = "GROUP_CREATED"
    PROTOCOL_CHANGE = "PROTOCOL_CHANGE"
    CLIENT_UPGRADE = "CLIENT_UPGRADE"
    CLIENT_DOWNGRADE = "CLIENT_DOWNGRADE"
    MEMBER_RESTART = "MEMBER_RESTART"
    POLL_TIMEOUT_REJOIN = "POLL_TIMEOUT_REJOIN"
    MEMBER_JOIN = "MEMBER_JOIN"
    REBALANCE_TIMEOUT = "REBALANCE_TIMEOUT"
    SESSION_TIMEOUT = "SESSION_TIMEOUT"
    MEMBER_LEAVE = "MEMBER_LEAVE"
    LEAVE_OR_TIMEOUT = "LEAVE_OR_TIMEOUT"
    SUBSCRIPTION_CHANGE = "SUBSCRIPTION_CHANGE"
    BROKER_UPGRADE = "BROKER_UPGRADE"
    TOPIC_METADATA_CHANGE = "TOPIC_METADATA_CHANGE"
    SHARE_PARTITIONS_READY = "SHARE_PARTITIONS_READY"
    TOPOLOGY_CHANGE = "TOPOLOGY_CHANGE"
    MEMBER_METADATA_CHANGE = "MEMBER_METADATA_CHANGE"
    COOPERATIVE_FOLLOW_UP = "COOPERATIVE_FOLLOW_UP"
    LEADER_REJOIN = "LEADER_REJOIN"
    UNKNOWN = "UNKNOWN"


class Confidence(StrEnum):
    """Confidence in a cause."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


class JoinReason(StrEnum):
    """Reasons for which a member joins, as the proposal KIP-423 lists them."""

    RESTART = "restart"
    TOPIC_METADATA_CHANGE = "topic_metadata_change"
    UPGRADE = "upgrade"
    UNKNOWN = "unknown"


MEANING: Mapping[Cause, str] = {
    Cause.GROUP_CONVERSION: "the group was converted from the classic to the consumer protocol, or back",
    Cause.GROUP_CREATED: "the first generation or epoch of a group",
    Cause.PROTOCOL_CHANGE: "the same members, another assignor",
    Cause.CLIENT_UPGRADE: "a client came back on a newer protocol, with another assignor, or with a newer subscription",
    Cause.CLIENT_DOWNGRADE: "a client that had used the consumer protocol (KIP-848) came back on the classic protocol",
    Cause.MEMBER_RESTART: "a client came back: it was removed from the group and joined again",
    Cause.POLL_TIMEOUT_REJOIN: "a client exceeded max.poll.interval.ms, was removed for that, and joined again",
    Cause.MEMBER_JOIN: "a member joined, and no record shows it in the group before",
    Cause.REBALANCE_TIMEOUT: "a member did not revoke its partitions, or join again, within the rebalance timeout",
    Cause.SESSION_TIMEOUT: "a member sent no heartbeat for its session timeout",
    Cause.MEMBER_LEAVE: "a member left: closed, unsubscribed, over max.poll.interval.ms, or removed by an admin",
    Cause.LEAVE_OR_TIMEOUT: "a member left or a timeout removed it; the log doesn't show which",
    Cause.SUBSCRIPTION_CHANGE: "a member subscribed to other topics",
    Cause.BROKER_UPGRADE: "a newer broker (4.1) replaced topic metadata by a hash: once for each group",
    Cause.TOPIC_METADATA_CHANGE: "subscribed topics were created or deleted, or their partitions increased",
    Cause.SHARE_PARTITIONS_READY: "partitions of a share group were initialised and can be assigned now",
    Cause.TOPOLOGY_CHANGE: "the topology of a streams group was validated, or the group's assignment settings changed",
    Cause.MEMBER_METADATA_CHANGE: "a member of a streams group changed something other than its topics",
    Cause.COOPERATIVE_FOLLOW_UP: "the second step of a cooperative rebalance: revoked partitions get their new owners",
    Cause.LEADER_REJOIN: "a member joined again, most often the leader, and nothing on record changed",
    Cause.UNKNOWN: "the records around the rebalance are not in the log",
}

JOIN_REASONS: Mapping[Cause, JoinReason] = {
    Cause.GROUP_CONVERSION: JoinReason.UPGRADE,
    Cause.PROTOCOL_CHANGE: JoinReason.UPGRADE,
    Cause.CLIENT_UPGRADE: JoinReason.UPGRADE,
    Cause.BROKER_UPGRADE: JoinReason.UPGRADE,
    Cause.CLIENT_DOWNGRADE: JoinReason.RESTART,
    Cause.MEMBER_RESTART: JoinReason.RESTART,
    Cause.TOPIC_METADATA_CHANGE: JoinReason.TOPIC_METADATA_CHANGE,
}
"""The join reason of each cause. Other causes have ``unknown``; a follow-up has the reason of the step before it."""


def by_frequency(causes: Iterable[str | None]) -> dict[str, int]:
    """Return how often each cause occurs, the most frequent cause first.

    Equally frequent causes are in order of their names. Reports show the first cause as the usual cause. UNKNOWN also
    counts rebalances without a cause.

    >>> by_frequency(["MEMBER_LEAVE", None, "MEMBER_JOIN", "MEMBER_LEAVE", "MEMBER_JOIN"])
    {'MEMBER_JOIN': 2, 'MEMBER_LEAVE': 2, 'UNKNOWN': 1}
    """
    counted = Counter(str(cause or Cause.UNKNOWN) for cause in causes)
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))
