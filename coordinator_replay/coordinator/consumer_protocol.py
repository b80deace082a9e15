"""The blobs that classic consumers put into JoinGroup and SyncGroup, read and written.

The coordinator opens them where it must know topics (expiry, OffsetDelete) and where a group changes its protocol.
They are base64 texts, as in requests and records. ``ConsumerProtocol`` of kafka-clients; layouts as in
``schemas/records/protocol``.
"""

import base64
import binascii
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

HIGHEST_VERSION = 3
OWNED_PARTITIONS_SINCE = 1
GENERATION_SINCE = 2
RACK_SINCE = 3


class ConsumerProtocolError(ValueError):
    """A blob can't be read as what it should be."""


class ConsumerSubscription(NamedTuple):
    """What a consumer tells its leader when it joins.

    Attributes:
        version: the version it was written in.
        topics: names subscribed to, in the client's order.
        user_data: data of the assignor in base64, None for none.
        owned: partitions the member claims to own, by topic name; as they came.
        generation: generation of that claim, -1 for none.
        rack_id: the member's rack.
    """

    version: int
    topics: tuple[str, ...]
    user_data: str | None
    owned: tuple[tuple[str, tuple[int, ...]], ...]
    generation: int
    rack_id: str | None

    def as_fields(self) -> dict[str, Any]:
        """The fields in the form in which the engine takes them from a record."""
        fields: dict[str, Any] = {"version": self.version, "topics": list(self.topics), "userData": self.user_data}
        if self.version >= OWNED_PARTITIONS_SINCE:
            fields["ownedPartitions"] = _topic_partitions(self.owned)
        if self.version >= GENERATION_SINCE:
            fields["generationId"] = self.generation
        if self.version >= RACK_SINCE:
            fields["rackId"] = self.rack_id
        return fields


class ConsumerAssignment(NamedTuple):
    """What a consumer is assigned.

    Attributes:
        version: the version it was written in.
        partitions: partitions by topic name, as they came.
        user_data: data of the assignor in base64, None for none.
    """

    version: int
    partitions: tuple[tuple[str, tuple[int, ...]], ...]
    user_data: str | None

    def as_fields(self) -> dict[str, Any]:
        """The fields in the form in which the engine takes them from a record."""
        return {
            "version": self.version,
            "assignedPartitions": _topic_partitions(self.partitions),
            "userData": self.user_data,
        }


def read_version(blob: str) -> int:
    """The version a blob begins with.

    Raises:
        ConsumerProtocolError: it is too short.
    """
    return _Bytes(blob).number(">h")


def read_subscription(blob: str, version: int | None = None) -> ConsumerSubscription:
    """Read a subscription.

    Args:
        blob: the bytes in base64.
        version: read it as if it were of this version; None for its own, where later ones count as the highest known.

    Raises:
        ConsumerProtocolError: it can't be read.
    """
    reader = _Bytes(blob)
    own = reader.version()
    layout = own if version is None else version
    topics = tuple(reader.text() for _ in range(reader.count()))
    return ConsumerSubscription(
        own,
        topics,
        reader.nullable_bytes(),
        reader.topic_partitions() if layout >= OWNED_PARTITIONS_SINCE else (),
        reader.number(">i") if layout >= GENERATION_SINCE else -1,
        reader.nullable_text() if layout >= RACK_SINCE else None,
    )


def read_assignment(blob: str) -> ConsumerAssignment:
    """Read an assignment.

    Raises:
        ConsumerProtocolError: it can't be read.
    """
    reader = _Bytes(blob)
    return ConsumerAssignment(reader.version(), reader.topic_partitions(), reader.nullable_bytes())


def write_assignment(partitions: Mapping[str, Sequence[int]], version: int) -> str:
    """An assignment without user data, in base64; a version above the highest known becomes that one."""
    parts = [struct.pack(">hi", min(version, HIGHEST_VERSION), len(partitions))]
    for topic, numbers in partitions.items():
        name = topic.encode()
        parts.append(struct.pack(f">h{len(name)}si{len(numbers)}i", len(name), name, len(numbers), *numbers))
    parts.append(struct.pack(">i", -1))
    return base64.b64encode(b"".join(parts)).decode()


def open_subscription(blob: str) -> dict[str, Any] | None:
    """The fields of a subscription as the engine takes them, None where it can't be read."""
    try:
        return read_subscription(blob).as_fields()
    except ConsumerProtocolError:
        return None


def open_assignment(blob: str) -> dict[str, Any] | None:
    """The fields of an assignment as the engine takes them, None where it is empty or can't be read."""
    try:
        return read_assignment(blob).as_fields()
    except ConsumerProtocolError:
        return None


def subscribed_topics(blob: str) -> frozenset[str]:
    """Topics of a subscription: the part that every version has.

    Raises:
        ConsumerProtocolError: it can't be read.
    """
    return frozenset(read_subscription(blob, 0).topics)


def _topic_partitions(partitions: tuple[tuple[str, tuple[int, ...]], ...]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partitions": list(numbers)} for topic, numbers in partitions]


class _Bytes:
    """Reads one value after the other; what is left at the end does not matter, as in Kafka."""

    __slots__ = ("_at", "_data")

    def __init__(self, blob: str) -> None:
        try:
            self._data = base64.b64decode(blob, validate=True)
        except binascii.Error as error:
            raise ConsumerProtocolError(f"not base64: {error}") from None
        self._at = 0

    def number(self, layout: str) -> int:
        """A signed big-endian number."""
        found: int = struct.unpack(layout, self._take(struct.calcsize(layout)))[0]
        return found

    def version(self) -> int:
        """The version a blob begins with, at most the highest known."""
        found = self.number(">h")
        if found < 0:
            raise ConsumerProtocolError(f"version {found}")
        return min(found, HIGHEST_VERSION)

    def count(self) -> int:
        """How many entries a list has."""
        found = self.number(">i")
        if found < 0 or found > len(self._data):
            raise ConsumerProtocolError(f"a list of {found} entries")
        return found

    def text(self) -> str:
        """A text that must be there."""
        found = self.nullable_text()
        if found is None:
            raise ConsumerProtocolError("a text is null")
        return found

    def nullable_text(self) -> str | None:
        """A text or null."""
        length = self.number(">h")
        if length < 0:
            return None
        return self._take(length).decode("utf-8", "replace")

    def nullable_bytes(self) -> str | None:
        """Bytes in base64, or null."""
        length = self.number(">i")
        if length < 0:
            return None
        return base64.b64encode(self._take(length)).decode()

    def topic_partitions(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Partitions by topic."""
        found = []
        for _ in range(self.count()):
            topic = self.text()
            found.append((topic, tuple(self.number(">i") for _ in range(self.count()))))
        return tuple(found)

    def _take(self, length: int) -> bytes:
        end = self._at + length
        if length < 0 or end > len(self._data):
            raise ConsumerProtocolError("it ends too early")
        taken = self._data[self._at : end]
        self._at = end
        return taken
