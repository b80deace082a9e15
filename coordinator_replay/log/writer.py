"""A writer of record batches of magic 2 for simulated logs. It writes the same bytes as Kafka and its clients.

It writes one record after the other. For millions of records see ``scripts/benchmarks/bulk_writer.py``.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from crc32c import crc32c

from coordinator_replay.log.layout import Attribute


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """A record to be written."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    offset: int


def write_records(
    records: Sequence[LogEntry], *, producer_id: int = -1, producer_epoch: int = -1, control: int = 0
) -> bytes:
    """Return the bytes of one batch. A batch with a producer is transactional.

    Args:
        records: the records, in order of their log offsets.
        producer_id: the producer in whose transaction the batch is; -1 for none.
        producer_epoch: the epoch of this producer; -1 for none.
        control: ``Attribute.CONTROL`` for a batch with a control record, else 0.
    """
    first, last = records[0], records[-1]
    body = b"".join(
        record_bytes(record.key, record.value, record.timestamp_ms - first.timestamp_ms, record.offset - first.offset)
        for record in records
    )
    latest = max(record.timestamp_ms for record in records)
    attributes = control | (0 if producer_id == -1 else Attribute.TRANSACTIONAL)
    delta = last.offset - first.offset
    fields = attributes, delta, first.timestamp_ms, latest, producer_id, producer_epoch, -1, len(records)
    return batch_bytes(first.offset, 0, fields, body)


def write_control(*, offset: int, control_type: int, producer_id: int, producer_epoch: int, timestamp_ms: int) -> bytes:
    """Return the bytes of a control batch.

    Type 0 aborts the producer's transaction, and type 1 commits it.
    """
    key, value = struct.pack(">hh", 0, control_type), struct.pack(">hi", 0, 0)
    marker = LogEntry(key=key, value=value, timestamp_ms=timestamp_ms, offset=offset)
    return write_records([marker], producer_id=producer_id, producer_epoch=producer_epoch, control=Attribute.CONTROL)


def batch_bytes(base_offset: int, leader_epoch: int, fields: tuple[int, ...], body: bytes) -> bytes:
    """Return a batch of records.

    Args:
        base_offset: the log offset of the batch's first record.
        leader_epoch: the epoch of the leader that wrote the batch.
        fields: attributes, last offset delta, base and largest timestamp, producer id and epoch, base sequence, and
            number of records.
        body: the bytes of the records, compressed or not.
    """
    summed = struct.pack(">hiqqqhii", *fields) + body
    return struct.pack(">qiibI", base_offset, 9 + len(summed), leader_epoch, 2, crc32c(summed)) + summed


def record_bytes(
    key: bytes | None, value: bytes | None, timestamp_delta: int, offset_delta: int, headers: bytes = b"\0"
) -> bytes:
    """Return a record as bytes.

    ``headers`` begins with the number of headers.
    """
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta) + sized_bytes(key) + sized_bytes(value) + headers
    return varint(len(body)) + body


def varint(number: int) -> bytes:
    """Return a number as a zigzag varint."""
    rest = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while rest >= 0x80:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def sized_bytes(data: bytes | None) -> bytes:
    """Return the length of some bytes as a varint, followed by the bytes. The length of None is -1."""
    return varint(-1) if data is None else varint(len(data)) + data
