"""Reading and writing of the blobs that classic clients put into JoinGroup, SyncGroup and group records.

Only blobs of protocol type ``consumer`` have a form that the coordinator reads (``ConsumerProtocol``). Other blobs have
the form of the framework that wrote them, such as Kafka Connect. In this module, a blob is a base64 text, as in the
JSON form of requests and records. ``schemas/records/protocol`` defines the fields of blobs.

The ``open_…`` functions return None instead of the fields if a blob can't be read. The ``read_…`` functions raise
BlobError. A record with such a blob is not quarantined, because the record itself can be read.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from coordinator_replay.records.damage import ErrorClass, RecordError
from coordinator_replay.records.kinds import blob
from coordinator_replay.records.plain import encode_blob, read_blob

KINDS_WITH_BLOBS = ("GroupMetadata", "ConsumerGroupMemberMetadata")
"""Kinds of records whose values can hold blobs of clients."""

_SUBSCRIPTION, _ASSIGNMENT = "ConsumerProtocolSubscription", "ConsumerProtocolAssignment"

_PART_OF_ALL_VERSIONS = 0
"""The version whose fields are at the beginning of every subscription."""


class BlobError(ValueError):
    """An error: a blob can't be read as a subscription or assignment.

    Attributes:
        is_expected: whether Kafka throws a ``SchemaException`` for this fault, as for a negative version, or if the
            bytes end inside a number. Kafka's callers of ``ConsumerProtocol`` handle only this exception.
    """

    def __init__(self, problem: str, *, is_expected: bool = True) -> None:
        super().__init__(problem)
        self.is_expected = is_expected


class ConsumerSubscription(NamedTuple):
    """The subscription that a consumer sends when it joins, for the leader of its group.

    Attributes:
        topics: names of the subscribed topics, in the client's order.
        user_data: data of the assignor in base64; None if there is none.
        owned: partitions that the member claims to own, by topic name, in their original order.
        generation: generation in which the member owned these partitions; -1 if the blob names none.
        rack_id: the member's rack.
    """

    topics: tuple[str, ...]
    user_data: str | None
    owned: tuple[tuple[str, tuple[int, ...]], ...]
    generation: int
    rack_id: str | None


class ConsumerAssignment(NamedTuple):
    """Assignment of a consumer: its partitions, and data of the assignor.

    Attributes:
        partitions: partitions by topic name, in their original order.
        user_data: data of the assignor in base64; None if there is none.
    """

    partitions: tuple[tuple[str, tuple[int, ...]], ...]
    user_data: str | None


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as problem:
        raise BlobError(f"not base64: {problem}") from None


def _read(name: str, text: str, version: int | None = None) -> dict[str, Any]:
    try:
        return read_blob(blob(name), _bytes(text), version)[0]
    except RecordError as problem:
        is_expected = problem.is_in_number or problem.error_class is ErrorClass.UNSUPPORTED_VERSION
        raise BlobError(str(problem), is_expected=is_expected) from None


# Clients send the same blobs in every generation, so the cache saves most reads.
@lru_cache(maxsize=128)
def _open(name: str, text: str | None, version: int | None = None) -> Mapping[str, Any] | None:
    try:
        return _read(name, text or "", version)
    except BlobError:
        return None


def read_version(text: str) -> int:
    """Return the version that is at the beginning of a blob.

    Raises:
        BlobError: the text is no base64, or has fewer than two bytes.
    """
    opening = _bytes(text)[:2]
    if len(opening) < 2:
        raise BlobError("it has no version")
    return int.from_bytes(opening, signed=True)


def read_subscription(text: str, version: int | None = None) -> ConsumerSubscription:
    """Read a subscription.

    Args:
        text: the bytes in base64.
        version: the version in which to read the blob. None means the blob's own version, or the highest known version
            if that is lower.

    Raises:
        BlobError: the text is no base64, or its bytes are no subscription.
    """
    fields = _read(_SUBSCRIPTION, text, version)
    return ConsumerSubscription(
        tuple(fields["topics"]),
        fields["userData"],
        _by_topic(fields.get("ownedPartitions", ())),
        fields.get("generationId", -1),
        fields.get("rackId"),
    )


def read_assignment(text: str) -> ConsumerAssignment:
    """Read an assignment.

    Raises:
        BlobError: the text is no base64, or its bytes are no assignment.
    """
    fields = _read(_ASSIGNMENT, text)
    return ConsumerAssignment(_by_topic(fields["assignedPartitions"]), fields["userData"])


def _by_topic(partitions: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((each["topic"], tuple(each["partitions"])) for each in partitions)


def subscribed_topics(text: str) -> frozenset[str]:
    """Return the topics in a subscription, as the coordinator of a classic group reads them.

    The coordinator reads only the version 0 fields, whatever version the blob has
    (``ClassicGroup.computeSubscribedTopics``).

    Raises:
        BlobError: the version 0 fields can't be read.
    """
    return frozenset(read_subscription(text, _PART_OF_ALL_VERSIONS).topics)


def open_subscription(text: str | None) -> Mapping[str, Any] | None:
    """Return the fields of a subscription in its own version; None if the blob is empty or can't be read.

    The fields are version, topics, userData, ownedPartitions, generationId and rackId, as far as the version has them.
    """
    return _open(_SUBSCRIPTION, text)


def open_assignment(text: str | None) -> Mapping[str, Any] | None:
    """Return the fields of an assignment; None if the blob is empty or can't be read.

    The fields are version, assignedPartitions and userData. Only the client reads these fields: the coordinator of a
    classic group passes an assignment on unread.
    """
    return _open(_ASSIGNMENT, text)


def open_classic_member(subscription: str | None, assignment: str | None, *, is_consumer: bool) -> dict[str, Any]:
    """Return a classic member's decoded blobs in a dict with the keys ``subscriptionFields`` and ``assignmentFields``.

    A subscription has the fields of its own version if all can be read. Otherwise it has only the version 0 fields. The
    coordinator reads no others (see ``subscribed_topics``).

    Args:
        subscription: the blob of the chosen protocol.
        assignment: the assignment's blob.
        is_consumer: whether the group's protocol type is ``consumer``. If not, the blobs are not read, and both values
            are None.
    """
    if not is_consumer:
        return {"subscriptionFields": None, "assignmentFields": None}
    whole = open_subscription(subscription)
    return {
        "subscriptionFields": _open(_SUBSCRIPTION, subscription, _PART_OF_ALL_VERSIONS) if whole is None else whole,
        "assignmentFields": open_assignment(assignment),
    }


def write_subscription(fields: Mapping[str, Any]) -> str:
    """Return a subscription with these fields in base64, in the highest known version.

    Raises:
        ValueError: a field is missing or of the wrong type.
    """
    struct = blob(_SUBSCRIPTION)
    return base64.b64encode(encode_blob(struct, struct.versions.high, fields)).decode()


def write_assignment(partitions: Mapping[str, Sequence[int]], version: int) -> str:
    """Return an assignment without user data in base64.

    If the version is above the highest known version, use the highest known version.
    """
    struct = blob(_ASSIGNMENT)
    by_topic = [{"topic": topic, "partitions": numbers} for topic, numbers in partitions.items()]
    fields = {"assignedPartitions": by_topic, "userData": None}
    return base64.b64encode(encode_blob(struct, min(version, struct.versions.high), fields)).decode()


def open_blobs(kind: str, value: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return a record's value with the decoded fields of each blob next to the blob. The engine reads these fields.

    - In a ``GroupMetadata`` value, each member gets ``subscriptionFields`` and ``assignmentFields``. Both are None if
      the group's protocol type is not ``consumer``.
    - In a consumer group, each protocol of a classic member gets ``metadataFields``. ``metadataFields`` is None if the
      blob ends before the last field of its version.

    The added field is None if its blob is empty or can't be read. Other values are returned unchanged.

    Args:
        kind: Kafka's name of the record kind.
        value: the value's fields; None for a tombstone.
    """
    if value is None:
        return None
    if kind == "GroupMetadata":
        is_consumer = value["protocolType"] == "consumer"
        return {
            **value,
            "members": [
                {**member, **open_classic_member(member["subscription"], member["assignment"], is_consumer=is_consumer)}
                for member in value["members"]
            ],
        }
    classic = value.get("classicMemberMetadata") if kind == "ConsumerGroupMemberMetadata" else None
    if classic is None:
        return value
    protocols = [
        {**protocol, "metadataFields": open_subscription(protocol["metadata"])}
        for protocol in classic["supportedProtocols"]
    ]
    return {**value, "classicMemberMetadata": {**classic, "supportedProtocols": protocols}}
