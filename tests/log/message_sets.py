"""Writes messages of the formats before batches, byte by byte as old clients did."""

import struct
import zlib
from collections.abc import Sequence

from coordinator_replay.log.compression import Codec
from coordinator_replay.log.layout import Attribute
from tests.log.writer import LogEntry, compress, offsets_of


def write_message_set(
    records: Sequence[LogEntry],
    *,
    base_offset: int,
    magic: int,
    codec: str = "none",
    append_time_ms: int | None = None,
    wrapper_offset: int | None = None,
) -> bytes:
    """Writes messages of magic 0 or 1, wrapped into one if a codec is given.

    Args:
        records: In order of their offsets.
        base_offset: Offset of the first record that has none of its own.
        magic: 0 or 1.
        codec: none, gzip, snappy, snappy-raw or lz4; in magic 0 with the header check byte that old Java clients wrote.
        append_time_ms: The broker's time, which in a wrapper stands only outside.
        wrapper_offset: Offset of the wrapper, if it is not that of the last record.
    """
    offsets = offsets_of(records, base_offset)
    kind = Attribute.LOG_APPEND_TIME if append_time_ms is not None and magic == 1 else 0
    if codec == "none":
        times = [record.timestamp_ms if append_time_ms is None else append_time_ms for record in records]
        return b"".join(
            _message(offset, magic, kind, time, record.key, record.value)
            for record, offset, time in zip(records, offsets, times, strict=True)
        )
    inner = b"".join(
        _message(offset if magic == 0 else offset - offsets[0], magic, 0, record.timestamp_ms, record.key, record.value)
        for record, offset in zip(records, offsets, strict=True)
    )
    compressed = compress(codec, inner, has_old_lz4_header=magic == 0)
    time = max(record.timestamp_ms for record in records) if append_time_ms is None else append_time_ms
    attributes = kind | Codec[codec.split("-")[0].upper()]
    wrapper = offsets[-1] if wrapper_offset is None else wrapper_offset
    return _message(wrapper, magic, attributes, time, None, compressed)


def _message(
    offset: int, magic: int, attributes: int, timestamp_ms: int, key: bytes | None, value: bytes | None
) -> bytes:
    summed = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp_ms) if magic == 1 else b"")
    for field in (key, value):
        summed += struct.pack(">i", -1 if field is None else len(field)) + (field or b"")
    return struct.pack(">qiI", offset, 4 + len(summed), zlib.crc32(summed)) + summed
