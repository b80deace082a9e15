"""Subscriptions and settings in the form in which client libraries of the classic protocol send them.

The bytes follow each library's own encoder: the version that it writes, null or empty user data, and with or without
owned partitions.
"""

import base64
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

Partitions = Mapping[str, Sequence[int]]

OWNED_SINCE, GENERATION_SINCE, RACK_SINCE = 1, 2, 3


class Library(NamedTuple):
    """A client library.

    Attributes:
        name: name of the library.
        version: version of the subscription that the library writes.
        user_data: user data of the subscription, None for null.
        is_whole: whether the library writes all fields of this version; False if it stops after the user data.
        join_versions: versions of JoinGroup that the library may send, depending on the broker and on its own age.
        gives_reasons: whether the library sends reasons for joins and leaves (KIP-800).
        assignors: lists of assignors with which the library can be configured.
        leaves: whether the library sends LeaveGroup when a consumer is closed.
        commits_unchanged: whether auto-commit also commits positions that have not changed.
    """

    name: str
    version: int
    user_data: bytes | None
    is_whole: bool
    join_versions: tuple[int, ...]
    gives_reasons: bool
    assignors: tuple[tuple[str, ...], ...]
    leaves: bool = True
    commits_unchanged: bool = False


JAVA = Library(
    "java", 3, None, True, (5, 7, 9), True,
    (("range", "cooperative-sticky"), ("range",), ("roundrobin",), ("cooperative-sticky",), ("sticky",)),
    commits_unchanged=True,
)  # fmt: skip
OLD_JAVA = JAVA._replace(
    name="old java", version=0, join_versions=(0, 1, 2, 3), gives_reasons=False,
    # Version 1 has owned partitions. It came together with cooperative rebalances (KIP-429).
    assignors=(("range",), ("range",), ("roundrobin",), ("sticky",), ("sticky",)),
)  # fmt: skip
LIBRDKAFKA = Library(
    "librdkafka", 3, b"", True, (5,), False, (("range", "roundrobin"), ("roundrobin", "range"), ("cooperative-sticky",))
)
SARAMA = Library("sarama", 0, None, True, (1, 5), False, (("range",), ("roundrobin",)))
KAFKA_PYTHON = Library("kafka-python", 0, b"", True, (1, 2, 4), False, (("range", "roundrobin"), ("roundrobin",)))
AIOKAFKA = KAFKA_PYTHON._replace(name="aiokafka", join_versions=(2, 5))
KAFKAJS = Library("kafkajs", 1, b"", False, (5,), False, (("roundrobin",),))
KAFKA_GO = Library("kafka-go", 1, b"", False, (1,), False, (("range", "roundrobin"),))
FRANZ_GO = Library("franz-go", 3, None, True, (5, 9), False, (("cooperative-sticky",), ("range",)))
NODE_RDKAFKA = LIBRDKAFKA._replace(name="node-rdkafka")
LIBRARIES = (
    JAVA, OLD_JAVA, LIBRDKAFKA, NODE_RDKAFKA, SARAMA, KAFKA_PYTHON, AIOKAFKA, KAFKAJS, KAFKA_GO, FRANZ_GO,
)  # fmt: skip
"""All libraries whose bytes are known."""


def subscription(
    library: Library, topics: Sequence[str], owned: Partitions, generation: int, rack: str | None = None
) -> str:
    """Return a subscription in base64."""
    data = struct.pack(">hi", library.version, len(topics)) + b"".join(map(_text, topics)) + _bytes(library.user_data)
    if library.is_whole and library.version >= OWNED_SINCE:
        data += struct.pack(">i", len(owned))
        for topic, numbers in owned.items():
            data += _text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    if library.is_whole and library.version >= GENERATION_SINCE:
        data += struct.pack(">i", generation)
    if library.is_whole and library.version >= RACK_SINCE:
        data += struct.pack(">h", -1) if rack is None else _text(rack)
    return base64.b64encode(data).decode()


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _bytes(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data
