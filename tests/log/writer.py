"""Writes batches as any client or broker may write them: compressed, with headers, with every field of a header."""

import gzip
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import cramjam

from coordinator_replay.log.compression import LZ4_FRAME_MAGIC, XERIAL_MAGIC, Codec, lz4_header_check
from coordinator_replay.log.layout import Attribute
from coordinator_replay.log.writer import batch_bytes, record_bytes, sized_bytes, varint

_XERIAL_BLOCK_BYTES = 32 << 10
_LZ4_BLOCK_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """A record to be written.

    Attributes:
        offset: Its offset; None: the one after the record before it.
        headers: Name and value of each record header (magic 2 only).
    """

    key: bytes | None
    value: bytes | None
    timestamp_ms: int = -1
    offset: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def write_batch(
    records: Sequence[LogEntry],
    *,
    base_offset: int,
    last_offset: int | None = None,
    codec: str = "none",
    leader_epoch: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    append_time_ms: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """Writes one record batch of magic 2.

    Args:
        records: In order of their offsets; none for the empty batch that compaction leaves.
        base_offset: Base offset of the header.
        last_offset: Last offset of the header, if it is not that of the last record.
        codec: none, gzip, snappy, snappy-raw, lz4 or zstd.
        leader_epoch: Partition leader epoch.
        producer_id: Producer id.
        producer_epoch: Producer epoch.
        base_sequence: Base sequence.
        is_transactional: Whether the batch belongs to a transaction.
        is_control: Whether its record is a control record.
        append_time_ms: The broker's time, if the topic takes that for its records.
        delete_horizon_ms: What compaction puts in place of the base timestamp.
    """
    offsets = offsets_of(records, base_offset)
    last = last_offset if last_offset is not None else (offsets[-1] if offsets else base_offset)
    times = [record.timestamp_ms for record in records]
    base_timestamp = times[0] if times else -1
    attributes: int = Codec[codec.split("-")[0].upper()] if records else Codec.NONE
    attributes |= Attribute.TRANSACTIONAL if is_transactional else 0
    attributes |= Attribute.CONTROL if is_control else 0
    max_timestamp = max(times, default=-1)
    if append_time_ms is not None:
        attributes |= Attribute.LOG_APPEND_TIME
        max_timestamp = append_time_ms
    if delete_horizon_ms is not None:
        attributes |= Attribute.DELETE_HORIZON
        base_timestamp = delete_horizon_ms
    body = b"".join(
        _record(record, record.timestamp_ms - base_timestamp, offset - base_offset)
        for record, offset in zip(records, offsets, strict=True)
    )
    if records:
        body = compress(codec, body)
    delta, count = last - base_offset, len(records)
    fields = attributes, delta, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count
    return batch_bytes(base_offset, leader_epoch, fields, body)


def write_control(
    *,
    offset: int,
    control_type: int,
    producer_id: int,
    producer_epoch: int = 0,
    timestamp_ms: int = -1,
    version: int = 0,
) -> bytes:
    """Writes a control batch; type 0 aborts and 1 commits the producer's transaction."""
    marker = LogEntry(
        key=struct.pack(">hh", version, control_type), value=struct.pack(">hi", 0, 0), timestamp_ms=timestamp_ms
    )
    return write_batch(
        [marker],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def compress(codec: str, plain: bytes, *, has_old_lz4_header: bool = False) -> bytes:
    """The bytes in the framing that Kafka's clients use for this codec."""
    match codec:
        case "none":
            return plain
        case "gzip":
            return gzip.compress(plain, mtime=0)
        case "snappy":
            return XERIAL_MAGIC + struct.pack(">ii", 1, 1) + _xerial_blocks(plain)
        case "snappy-raw":
            return bytes(cramjam.snappy.compress_raw(plain))
        case "lz4":
            return _lz4_frame(plain, has_old_lz4_header)
        case "zstd":
            return bytes(cramjam.zstd.compress(plain))
        case _:
            raise ValueError(f"unknown codec {codec}")


def offsets_of(records: Sequence[LogEntry], base_offset: int) -> list[int]:
    """The offset of each record: its own, or the one after the record before it."""
    offsets: list[int] = []
    for record in records:
        following = offsets[-1] + 1 if offsets else base_offset
        offsets.append(following if record.offset is None else record.offset)
    return offsets


def _record(record: LogEntry, timestamp_delta: int, offset_delta: int) -> bytes:
    headers = b"".join(sized_bytes(name.encode()) + sized_bytes(value) for name, value in record.headers)
    headers = varint(len(record.headers)) + headers
    return record_bytes(record.key, record.value, timestamp_delta, offset_delta, headers)


def _xerial_blocks(plain: bytes) -> bytes:
    blocks = b""
    for start in range(0, len(plain), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(plain[start : start + _XERIAL_BLOCK_BYTES]))
        blocks += struct.pack(">i", len(block)) + block
    return blocks


def _lz4_frame(plain: bytes, has_old_header: bool) -> bytes:
    descriptor = bytes([0x60, 0x40])  # version 1, independent blocks of at most 64 KiB, no checksums, no content size
    check = lz4_header_check((LZ4_FRAME_MAGIC if has_old_header else b"") + descriptor)
    frame = LZ4_FRAME_MAGIC + descriptor + bytes([check])
    for start in range(0, len(plain), _LZ4_BLOCK_BYTES):
        block = plain[start : start + _LZ4_BLOCK_BYTES]
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            frame += struct.pack("<I", len(packed)) + packed
        else:
            frame += struct.pack("<I", len(block) | 1 << 31) + block
    return frame + bytes(4)
