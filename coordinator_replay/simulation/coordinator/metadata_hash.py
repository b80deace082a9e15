"""The metadata hash of a group's topics. If this hash changes, the coordinator raises the group epoch.

Mirrors ``Utils.computeTopicHash`` and ``computeGroupHash``. The hash of a topic is the 64-bit XXH3 of its fields.
Numbers are little-endian. A string is hashed as its UTF-16 units, followed by the number of these units.
"""

import struct
from collections.abc import Iterable
from functools import lru_cache

from xxhash import xxh3_64_intdigest

from coordinator_replay.simulation.coordinator.messages import uuid_bytes
from coordinator_replay.simulation.coordinator.topics import Topic, Topics

MAGIC = b"\x00"
"""Version of the layout."""


def group_hash(names: Iterable[str], topics: Topics) -> int:
    """Return the hash of those topics among ``names`` that exist, as a signed number.

    Return 0 if none of them exists.
    """
    hashes = [topic_hash(topics.by_name[name]) for name in sorted(names) if name in topics.by_name]
    if not hashes:
        return 0
    return _signed(xxh3_64_intdigest(struct.pack(f"<{len(hashes)}Q", *hashes)))


@lru_cache(maxsize=1 << 12)
def topic_hash(topic: Topic) -> int:
    """Return the hash of a topic: of its id, its name, its partition count, and the racks of its replicas."""
    topic_id = uuid_bytes(topic.topic_id)
    parts = [MAGIC, topic_id[7::-1], topic_id[:7:-1], _string(topic.name), struct.pack("<i", topic.partitions)]
    for partition in range(topic.partitions):
        parts.append(struct.pack("<i", partition))
        racks = topic.racks[partition] if partition < len(topic.racks) else ()
        for rack in sorted(racks):
            parts += [struct.pack("<i", len(rack.encode("utf-16-le")) // 2), _string(rack)]
    return xxh3_64_intdigest(b"".join(parts))


def _string(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + struct.pack("<i", len(units) // 2)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
