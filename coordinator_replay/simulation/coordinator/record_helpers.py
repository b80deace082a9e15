"""The records that the coordinator writes, built in Kafka's JSON form.

Every function gives one record. Versions and omitted default fields are as in Kafka 4.3
(``GroupCoordinatorRecordHelpers``).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from coordinator_replay.engine.classic_group import UNKNOWN_TIMESTAMP, ClassicGroup
from coordinator_replay.engine.model import Assignment, Member
from coordinator_replay.records.blobs import open_classic_member


class NewRecord(NamedTuple):
    """A record to be written.

    Attributes:
        kind: Kafka's name of the record.
        key: the key's fields.
        value: the value's fields, None for a tombstone.
        value_version: version of the value, None for a tombstone.
    """

    kind: str
    key: Mapping[str, Any]
    value: Mapping[str, Any] | None = None
    value_version: int | None = None


def tombstone(kind: str, **key: str | int) -> NewRecord:
    """Return a record without a value, which removes its key.

    Args:
        kind: Kafka's name of the record.
        key: the key's fields.
    """
    return NewRecord(kind, key)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> NewRecord:
    """Return a record of kind 3 (group epoch and metadata hash).

    A hash of 0 is left out.
    """
    value = {"epoch": epoch}
    if metadata_hash:
        value["metadataHash"] = metadata_hash
    return NewRecord("ConsumerGroupMetadata", {"groupId": group_id}, value, 0)


def member_metadata(group_id: str, member_id: str, value: Mapping[str, Any]) -> NewRecord:
    """Return a record of kind 5: a member's subscription."""
    return NewRecord("ConsumerGroupMemberMetadata", {"groupId": group_id, "memberId": member_id}, value, 0)


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> NewRecord:
    """Return a record of kind 6: the assignment epoch, and when the target assignment was computed."""
    value = {"assignmentEpoch": epoch}
    if timestamp_ms:
        value["assignmentTimestamp"] = timestamp_ms
    return NewRecord("ConsumerGroupTargetAssignmentMetadata", {"groupId": group_id}, value, 0)


def target(group_id: str, member_id: str, assignment: Assignment) -> NewRecord:
    """Return a record of kind 7: a member's target assignment."""
    topics = [{"topicId": topic, "partitions": list(partitions)} for topic, partitions in assignment.items()]
    value = {"topicPartitions": topics}
    return NewRecord("ConsumerGroupTargetAssignmentMember", {"groupId": group_id, "memberId": member_id}, value, 0)


def current_assignment(group_id: str, member_id: str, value: Mapping[str, Any]) -> NewRecord:
    """Return a record of kind 8: a member's current assignment."""
    return NewRecord("ConsumerGroupCurrentMemberAssignment", {"groupId": group_id, "memberId": member_id}, value, 0)


def regular_expression(
    group_id: str, expression: str, topics: Iterable[str], version: int, timestamp_ms: int
) -> NewRecord:
    """Return a record of kind 16: a regular expression, and the topics to which it was resolved."""
    value = {"topics": sorted(topics), "version": version, "timestamp": timestamp_ms}
    key = {"groupId": group_id, "regularExpression": expression}
    return NewRecord("ConsumerGroupRegularExpression", key, value, 0)


def classic_group(group: ClassicGroup, members: Sequence[Mapping[str, Any]] = ()) -> NewRecord:
    """Return a record of kind 2: the metadata of a classic group.

    Args:
        group: the group.
        members: the entries of the members, made by ``classic_member``.
    """
    entered_ms = group.state_timestamp_ms
    value = {
        "protocolType": group.protocol_type or "",
        "generation": group.generation,
        "protocol": group.protocol,
        "leader": group.leader,
        "currentStateTimestamp": UNKNOWN_TIMESTAMP if entered_ms is None else entered_ms,
        "members": list(members),
    }
    return NewRecord("GroupMetadata", {"group": group.group_id}, value, 3)


def classic_member(member: Member, metadata: str, assignment: str, *, is_consumer: bool) -> dict[str, Any]:
    """Return a member's entry in the record of a classic group.

    Args:
        member: the member.
        metadata: the member's subscription, as base64 text.
        assignment: the member's assignment, as base64 text.
        is_consumer: whether the group's protocol type is ``consumer``.
    """
    subscription = member.subscription_or_empty
    return {
        "memberId": member.member_id,
        "groupInstanceId": subscription.instance_id,
        "clientId": subscription.client_id,
        "clientHost": subscription.client_host,
        "rebalanceTimeout": subscription.rebalance_timeout_ms,
        "sessionTimeout": subscription.session_timeout_ms,
        "subscription": metadata,
        "assignment": assignment,
        **open_classic_member(metadata, assignment, is_consumer=is_consumer),
    }


def offset_commit(group_id: str, topic: str, partition: int, value: Mapping[str, Any], value_version: int) -> NewRecord:
    """Return a record of kind 1: a committed offset."""
    key = {"group": group_id, "topic": topic, "partition": partition}
    return NewRecord("OffsetCommit", key, value, value_version)
