"""The layout of the entries of a segment: sizes, fields of a header, bits of the attributes.

Entries are record batches (magic 2) and messages (magic 0 and 1). Source: DefaultRecordBatch, LegacyRecord,
AbstractLegacyRecordBatch.
"""

from enum import IntEnum

LOG_OVERHEAD = 12
"""Bytes of the fields offset and size, which the value of size does not include."""
SHORTEST_HEADER = 17
"""Bytes of an entry up to its magic byte, which is included."""
BATCH_OVERHEAD = 61
"""Bytes of a record batch without records."""
MESSAGE_OVERHEAD = (26, 34)
"""Bytes of a message without key and value, in magic 0 and in magic 1."""
OFFSET_LIMIT = 1 << 56
"""Offsets at or above this are damage: no log has that many records, and text misread as a header gives larger
offsets."""
BATCH_CRC_START = 21
"""First byte that the checksum of a record batch covers. The broker may change the base offset and the leader epoch,
which lie before this byte."""
MESSAGE_CRC_START = 16
"""First byte that the checksum of a message of magic 0 or 1 covers: its magic byte."""
NO_TIMESTAMP = -1
"""The timestamp of a record without a time."""


class HeaderField(IntEnum):
    """Rows of a header matrix. The matrix has a column for each entry.

    The rows from LEADER_EPOCH on are 0 for messages of magic 0 and 1.
    """

    POSITION = 0
    SIZE = 1
    OFFSET = 2
    MAGIC = 3
    CHECKSUM = 4
    ATTRIBUTES = 5
    LEADER_EPOCH = 6
    LAST_OFFSET_DELTA = 7
    BASE_TIMESTAMP = 8
    MAX_TIMESTAMP = 9
    PRODUCER_ID = 10
    PRODUCER_EPOCH = 11
    RECORD_COUNT = 12


class Attribute(IntEnum):
    """Bits of the attributes of a batch or message.

    Messages of magic 0 and 1 have only the first two of these.
    """

    CODEC = 0x07
    LOG_APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    CONTROL = 0x20
    DELETE_HORIZON = 0x40
