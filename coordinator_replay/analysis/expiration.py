"""Under which rule a group's offsets expire, from the few group records that decide it.

The table is that of ``GroupCoordinatorShard.cleanupGroupMetadata``: each kind and state of a group has a condition, a
moment that retention counts from, and topics that are spared because a member subscribes to them. A group that the
log holds no record of is a simple group: somebody commits under its name without joining.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from coordinator_replay.engine.plain import Fields

DEFAULT_RETENTION_MS = 7 * 24 * 3600 * 1000
"""What ``offsets.retention.minutes`` is where nobody set it."""

TOPIC_DELETED = "the topic was deleted"
"""How the evidence for a removed offset begins where the cluster's metadata has the deletion."""

DEFAULT_CHECK_INTERVAL_MS = 600_000
"""What ``offsets.retention.check.interval.ms`` is where nobody set it."""


class ExpiryRule(StrEnum):
    """Why an offset expires, or why it does not."""

    EMPTY_SINCE = "empty_since"
    UNSUBSCRIBED_TOPIC = "unsubscribed_topic"
    SIMPLE_GROUP = "simple_group"
    EXPLICIT_EXPIRE_TIMESTAMP = "explicit_expire_timestamp"
    NEVER_WHILE_ACTIVE = "never_while_active"


class Expiry(NamedTuple):
    """How a group's offsets expire at one point of the log.

    Attributes:
        rule: for topics that are not spared.
        base_ms: the moment retention counts from; None where each offset's own commit timestamp counts.
        spared: topics whose offsets don't expire, whatever their age.
    """

    rule: ExpiryRule
    base_ms: int | None = None
    spared: frozenset[str] = frozenset()


class _Classic(NamedTuple):
    """What a classic group's record says: each member's topics (None where they can't be read), and since when."""

    subscribed: tuple[frozenset[str] | None, ...]
    since_ms: int | None


class _Row(NamedTuple):
    applies: Callable[["ExpiryState"], bool]
    rule: ExpiryRule
    counts_from_emptying: bool = False
    spares_subscribed: bool = False


_TABLE = (
    _Row(lambda group: group.group_type is None, ExpiryRule.SIMPLE_GROUP),
    _Row(lambda group: group.group_type == "share", ExpiryRule.NEVER_WHILE_ACTIVE),
    _Row(lambda group: group.group_type != "classic", ExpiryRule.UNSUBSCRIBED_TOPIC, spares_subscribed=True),
    _Row(lambda group: group.protocol_type is None, ExpiryRule.SIMPLE_GROUP),
    _Row(lambda group: group.is_empty, ExpiryRule.EMPTY_SINCE, counts_from_emptying=True),
    _Row(lambda group: group.subscribed is not None, ExpiryRule.UNSUBSCRIBED_TOPIC, spares_subscribed=True),
    _Row(lambda _group: True, ExpiryRule.NEVER_WHILE_ACTIVE),
)
"""The first row that applies decides."""


def _names(topics: Iterable[Any] | None) -> frozenset[str]:
    return frozenset(str(topic) for topic in topics or ())


class ExpiryState:
    """One group, record by record, reduced to what decides about its offsets.

    Record kinds that say nothing about expiry may be given or left out.
    """

    group_type: str | None
    protocol_type: str | None
    _classic: _Classic | None
    _members: dict[str, frozenset[str]]
    _resolved: dict[str, frozenset[str]]
    _topology: frozenset[str]

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self.group_type = None
        self.protocol_type = None
        self._classic = None
        self._members = {}
        self._resolved = {}
        self._topology = frozenset()

    def _become(self, group_type: str) -> None:
        if self.group_type != group_type:
            self._forget()
            self.group_type = group_type

    @property
    def state(self) -> str | None:
        """``Empty``, or ``Stable`` for a classic group with members; None where these records don't show it."""
        if self.group_type is None or self.is_empty:
            return "Empty"
        return "Stable" if self.group_type == "classic" else None

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not (self._classic.subscribed if self._classic is not None else self._members)

    @property
    def subscribed(self) -> frozenset[str] | None:
        """Topics that members subscribe to; None where the records don't show them."""
        if self._classic is not None:
            if self.protocol_type != "consumer":
                return None
            opened = [topics for topics in self._classic.subscribed if topics is not None]
            return frozenset().union(*opened) if len(opened) == len(self._classic.subscribed) else None
        if self.is_empty:
            return frozenset()
        if self.group_type == "streams":
            return self._topology
        return frozenset().union(*self._members.values(), *self._resolved.values())

    def expiry(self) -> Expiry:
        """The rule that holds now."""
        row = next(row for row in _TABLE if row.applies(self))
        since = None if self._classic is None else self._classic.since_ms
        return Expiry(
            row.rule,
            since if row.counts_from_emptying else None,
            (self.subscribed or frozenset()) if row.spares_subscribed else frozenset(),
        )

    def apply(self, kind: str, key: Mapping[str, Any], value: Mapping[str, Any] | None) -> None:
        """Take a record.

        Args:
            kind: Kafka's name of the record kind.
            key: the key's fields.
            value: the value's fields, None for a tombstone. Members of a ``GroupMetadata`` value carry their opened
                subscription as ``subscriptionFields``, None where it can't be read.
        """
        if kind in _DELETES:
            if value is None:
                if self.group_type == _DELETES[kind]:
                    self._forget()
                return
            self._become(_DELETES[kind])
        if kind in _APPLY:
            _APPLY[kind](self, key, value)

    def _classic_group(self, _key: Mapping[str, Any], value: Mapping[str, Any]) -> None:
        since = value.get("currentStateTimestamp", -1)
        opened = (member["subscriptionFields"] for member in value["members"])
        subscribed = tuple(None if fields is None else _names(fields["topics"]) for fields in opened)
        self._classic = _Classic(subscribed, None if since == -1 else since)
        self.protocol_type = value["protocolType"] or None

    def _member(self, key: Mapping[str, Any], value: Mapping[str, Any] | None) -> None:
        if value is None:
            self._members.pop(key["memberId"], None)
            return
        self._become("consumer")
        self._members[key["memberId"]] = _names(value["subscribedTopicNames"])

    def _regular_expression(self, key: Mapping[str, Any], value: Mapping[str, Any] | None) -> None:
        if value is None:
            self._resolved.pop(key["regularExpression"], None)
            return
        self._become("consumer")
        self._resolved[key["regularExpression"]] = _names(value["topics"])

    def _streams_member(self, key: Mapping[str, Any], value: Mapping[str, Any] | None) -> None:
        if value is None:
            self._members.pop(key["memberId"], None)
            return
        self._become("streams")
        self._members[key["memberId"]] = frozenset()

    def _streams_topology(self, _key: Mapping[str, Any], value: Mapping[str, Any] | None) -> None:
        if value is None:
            self._topology = frozenset()
            return
        self._become("streams")
        self._topology = frozenset().union(
            *(
                _names(part["sourceTopics"]) | _names(topic["name"] for topic in part["repartitionSourceTopics"])
                for part in value["subtopologies"]
            )
        )


FIELDS = Fields(ExpiryState, "group_type", "protocol_type", "_classic", "_members", "_resolved", "_topology")
"""What a snapshot has."""

_DELETES = {
    "GroupMetadata": "classic",
    "ConsumerGroupMetadata": "consumer",
    "ShareGroupMetadata": "share",
    "StreamsGroupMetadata": "streams",
}
"""Kinds whose tombstone deletes the group, and the type of group that their value makes."""

_APPLY: Mapping[str, Callable[[ExpiryState, Mapping[str, Any], Any], None]] = {
    "GroupMetadata": ExpiryState._classic_group,
    "ConsumerGroupMemberMetadata": ExpiryState._member,
    "ConsumerGroupRegularExpression": ExpiryState._regular_expression,
    "StreamsGroupMemberMetadata": ExpiryState._streams_member,
    "StreamsGroupTopology": ExpiryState._streams_topology,
}

GROUP_KINDS = frozenset(_DELETES)
"""Kinds whose tombstone deletes the group."""

DECIDING_KINDS = frozenset(_DELETES) | frozenset(_APPLY)
"""Kinds that can change how a group's offsets expire."""
