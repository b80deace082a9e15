"""The rule by which a group's offsets expire, from the engine's state of the group.

``deciding`` returns the rule, which depends on the type and the state of the group. A rule says from which time
retention counts, and which topics' offsets are kept because a member subscribes to the topic. The rules follow
``GroupCoordinatorShard.cleanupGroupMetadata``. A group without a record is a simple group: a client commits offsets for
it without joining.
"""

from typing import NamedTuple

from coordinator_replay.analysis.expiring import ExpiryRule
from coordinator_replay.engine.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from coordinator_replay.engine.consumer_group import ConsumerGroup
from coordinator_replay.engine.model import GroupState, GroupType
from coordinator_replay.engine.notes import Group, ModernGroup
from coordinator_replay.engine.share_group import ShareGroup


class Expiry(NamedTuple):
    """Rule by which a group's offsets expire at one point of the log.

    Attributes:
        rule: the rule for all topics but those in ``spared``.
        base_ms: the time from which retention counts; None if each offset's own commit timestamp counts.
        spared: topics whose offsets don't expire, whatever their age.
    """

    rule: ExpiryRule
    base_ms: int | None = None
    spared: frozenset[str] = frozenset()


class Deciding(NamedTuple):
    """Facts that decide about the expiry of a group's offsets at one point of the log.

    Attributes:
        group_type: type of the group; None for a simple group.
        protocol_type: protocol type of a classic group; None if no member gave one.
        group_state: ``Empty`` or ``Stable`` for a classic group. For a consumer or streams group, ``Empty`` if no
            member has a subscription on record, else None. Always ``Empty`` for a simple group and a share group.
        expiry: the rule of expiry.
    """

    group_type: GroupType | None
    protocol_type: str | None
    group_state: GroupState | None
    expiry: Expiry


_SIMPLE = Deciding(None, None, GroupState.EMPTY, Expiry(ExpiryRule.SIMPLE_GROUP))


def deciding(group: Group | None) -> Deciding:
    """Return the facts that decide about the expiry of a group's offsets.

    Args:
        group: the group; None if it has no record.
    """
    if group is None:
        return _SIMPLE
    if isinstance(group, ClassicGroup):
        if group.is_simple:
            return _SIMPLE
        return Deciding(GroupType.CLASSIC, group.protocol_type, group.state, _expiry_of_classic(group))
    if group.group_type is GroupType.SHARE:
        return Deciding(GroupType.SHARE, None, GroupState.EMPTY, Expiry(ExpiryRule.NEVER_WHILE_ACTIVE))
    subscribed = _subscribed(group)
    expiry = Expiry(ExpiryRule.UNSUBSCRIBED_TOPIC, spared=subscribed or frozenset())
    return Deciding(group.group_type, None, GroupState.EMPTY if subscribed is None else None, expiry)


def _expiry_of_classic(group: ClassicGroup) -> Expiry:
    if group.protocol_type is None:
        return Expiry(ExpiryRule.SIMPLE_GROUP)
    if not group.members:
        return Expiry(ExpiryRule.EMPTY_SINCE, group.state_timestamp_ms)
    topics = [member.subscription_or_empty.topics for member in group.members.values()]
    readable = [names for names in topics if names is not None]
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE or group.protocol is None or len(readable) < len(topics):
        return Expiry(ExpiryRule.NEVER_WHILE_ACTIVE)
    return Expiry(ExpiryRule.UNSUBSCRIBED_TOPIC, spared=frozenset().union(*readable))


def _subscribed(group: ModernGroup) -> frozenset[str] | None:
    """Return the topics that the members of a consumer or streams group subscribe to.

    Return None if no member has a subscription on record.
    """
    subscriptions = [member.subscription for member in group.members.values() if member.subscription is not None]
    if not subscriptions:
        return None
    if isinstance(group, ConsumerGroup):
        resolved = (regex.topics for regex in group.regexes.values())
        return frozenset().union(*(subscription.topics or () for subscription in subscriptions), *resolved)
    topology = None if isinstance(group, ShareGroup) else group.topology
    return frozenset().union(*(topology.source_topics.values() if topology is not None else ()))


GROUP_KINDS = frozenset({"GroupMetadata", "ConsumerGroupMetadata", "ShareGroupMetadata", "StreamsGroupMetadata"})
"""Kinds of records whose tombstone deletes the group."""

DECIDING_KINDS = GROUP_KINDS | {
    "ConsumerGroupMemberMetadata",
    "ConsumerGroupRegularExpression",
    "StreamsGroupMemberMetadata",
    "StreamsGroupTopology",
}
"""Kinds of records that can change how a group's offsets expire."""
