"""A small opener of ConsumerProtocol blobs in the standard library, so that these tests need no other room."""

import base64
import struct
from collections.abc import Mapping
from typing import Any

Fields = dict[str, Any]


class Reader:
    """Reads the non-flexible primitives in order."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def _take(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self.data, self.position)
        self.position += struct.calcsize(form)
        return int(value)

    def int16(self) -> int:
        return self._take(">h")

    def int32(self) -> int:
        return self._take(">i")

    def string(self) -> str | None:
        return self._text(self.int16())

    def _text(self, length: int) -> str | None:
        if length < 0:
            return None
        return self._bytes(length).decode()

    def _bytes(self, length: int) -> bytes:
        found = self.data[self.position : self.position + length]
        if len(found) != length:
            raise ValueError("blob ends early")
        self.position += length
        return found

    def blob(self) -> str | None:
        length = self.int32()
        return None if length < 0 else base64.b64encode(self._bytes(length)).decode()

    def partitions(self) -> list[Fields]:
        return [
            {"topic": self.string(), "partitions": [self.int32() for _ in range(self.int32())]}
            for _ in range(self.int32())
        ]


def open_subscription(text: str) -> Fields | None:
    if not text:
        return None
    try:
        reader = Reader(base64.b64decode(text))
        version = reader.int16()
        fields: Fields = {
            "version": version,
            "topics": [reader.string() for _ in range(reader.int32())],
            "userData": reader.blob(),
            "ownedPartitions": reader.partitions() if version >= 1 else [],
            "generationId": reader.int32() if version >= 2 else -1,
            "rackId": reader.string() if version >= 3 else None,
        }
    except (struct.error, ValueError):
        return None
    return fields


def open_assignment(text: str) -> Fields | None:
    if not text:
        return None
    try:
        reader = Reader(base64.b64decode(text))
        return {
            "version": reader.int16(),
            "assignedPartitions": reader.partitions(),
            "userData": reader.blob(),
        }
    except (struct.error, ValueError):
        return None


def opened(kind: str, value: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The value with its blobs opened beside them."""
    if value is None:
        return None
    if kind == "GroupMetadata":
        is_consumer = value["protocolType"] == "consumer"
        members = [
            {
                **member,
                "subscriptionFields": open_subscription(member["subscription"]) if is_consumer else None,
                "assignmentFields": open_assignment(member["assignment"]) if is_consumer else None,
            }
            for member in value["members"]
        ]
        return {**value, "members": members}
    classic = value.get("classicMemberMetadata")
    if kind == "ConsumerGroupMemberMetadata" and classic:
        protocols = [
            {**protocol, "metadataFields": open_subscription(protocol["metadata"])}
            for protocol in classic["supportedProtocols"]
        ]
        return {**value, "classicMemberMetadata": {**classic, "supportedProtocols": protocols}}
    return value
