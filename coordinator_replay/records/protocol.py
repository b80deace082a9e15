"""The blobs that classic clients put into group records, opened.

Only protocol type ``consumer`` has a form the coordinator itself reads (``ConsumerProtocol``); others are the
business of their frameworks. A blob that can't be read stays as its bytes and opens to None: that is never damage.
"""

import base64
from collections.abc import Mapping
from typing import Any

from coordinator_replay.records.damage import RecordError
from coordinator_replay.records.kinds import blob
from coordinator_replay.records.plain import decode_blob

KINDS_WITH_BLOBS = ("GroupMetadata", "ConsumerGroupMemberMetadata")
"""Kinds of records whose values can hold such blobs."""


def _open(name: str, text: str | None) -> dict[str, Any] | None:
    if not text:
        return None
    try:
        return decode_blob(blob(name), base64.b64decode(text))
    except RecordError:
        return None


def open_subscription(text: str | None) -> dict[str, Any] | None:
    """Open a base64 ConsumerProtocolSubscription: version, topics, userData, ownedPartitions, generationId, rackId."""
    return _open("ConsumerProtocolSubscription", text)


def open_assignment(text: str | None) -> dict[str, Any] | None:
    """Open a base64 ConsumerProtocolAssignment: version, assignedPartitions, userData."""
    return _open("ConsumerProtocolAssignment", text)


def open_blobs(kind: str, value: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The value with its blobs opened beside them, as the engine takes it.

    Members of a ``GroupMetadata`` value of protocol type ``consumer`` gain ``subscriptionFields`` and
    ``assignmentFields``; protocols of a classic member inside a consumer group gain ``metadataFields``. Each is None
    where the blob is empty or can't be read. Other values come back as they are.
    """
    if value is None:
        return None
    if kind == "GroupMetadata":
        return {**value, "members": [_open_member(value, member) for member in value["members"]]}
    classic = value.get("classicMemberMetadata") if kind == "ConsumerGroupMemberMetadata" else None
    if classic is None:
        return value
    protocols = [
        {**protocol, "metadataFields": open_subscription(protocol["metadata"])}
        for protocol in classic["supportedProtocols"]
    ]
    return {**value, "classicMemberMetadata": {**classic, "supportedProtocols": protocols}}


def _open_member(value: Mapping[str, Any], member: Mapping[str, Any]) -> dict[str, Any]:
    is_consumer = value["protocolType"] == "consumer"
    return {
        **member,
        "subscriptionFields": open_subscription(member["subscription"]) if is_consumer else None,
        "assignmentFields": open_assignment(member["assignment"]) if is_consumer else None,
    }
