"""Writes millions of records as batches of magic 2, for large dumps of the benchmark.

The batches are like a coordinator's: with create times, without compression, and with a producer only if a transaction
commits offsets.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from coordinator_replay.compiled import compiled, inlined
from coordinator_replay.log.layout import BATCH_CRC_START, BATCH_OVERHEAD

# Largest sizes of a record's length, attributes, two deltas, two lengths and number of headers.
_RECORD_OVERHEAD = 5 + 1 + 10 + 5 + 5 + 5 + 1


@inlined
def _put_int(out: Any, at: Any, number: Any, size: Any) -> Any:
    for byte in range(size):
        out[at + byte] = (np.int64(number) >> (8 * (size - 1 - byte))) & 0xFF
    return at + size


@inlined
def _put_varint(out: Any, at: Any, number: Any) -> Any:
    """Write a number whose zigzag form fits into 63 bits, and return the position after the number.

    If ``out`` is empty, only compute the position.
    """
    rest = (np.int64(number) << 1) ^ (np.int64(number) >> 63)
    while rest >= 128:
        if len(out):
            out[at] = (rest & 127) | 128
        rest >>= 7
        at += 1
    if len(out):
        out[at] = rest
    return at + 1


@inlined
def _put_bytes(out: Any, at: Any, data: Any, start: Any, size: Any) -> Any:
    at = _put_varint(out, at, size)
    target = np.uint64(at)  # unsigned positions: see record_batch
    source = np.uint64(start)
    for step in range(np.uint64(max(size, 0))):
        out[target + step] = data[source + step]
    return at + max(size, 0)


@compiled
def encode(
    out: Any,
    nothing: Any,
    spans: Any,
    batches: Any,
    timestamps: Any,
    sizes: Any,
    keys: Any,
    key_starts: Any,
    values: Any,
    value_starts: Any,
    base_offset: Any,
    leader_epoch: Any,
) -> Any:
    """Write all batches, without their checksums.

    Args:
        out: uint8 array, large enough.
        nothing: empty uint8 array, with which the sizes of numbers are computed.
        spans: int64 matrix to fill: start and end of each batch in ``out``.
        batches: int64 matrix: the number of records, the producer id, and 1 for a control batch, of each batch.
        timestamps: int64 array, milliseconds.
        sizes: int64 matrix: size of each record's key and value, -1 for null.
        keys: uint8 array with the bytes of all keys.
        key_starts: begin of each key in ``keys``.
        values: uint8 array with the bytes of all values.
        value_starts: begin of each value in ``values``.
        base_offset: offset of the first record.
        leader_epoch: partition leader epoch.

    Returns:
        The number of bytes written.
    """
    at = 0
    row = 0
    for batch in range(batches.shape[1]):
        start = at
        first = row
        latest = timestamps[first]
        at += 61
        for row in range(first, first + batches[0, batch]):
            time = timestamps[row]
            latest = max(latest, time)
            length = _put_varint(nothing, 2, time - timestamps[first])  # attributes, number of headers
            length = _put_varint(nothing, length, row - first)
            length = _put_varint(nothing, length, sizes[0, row]) + max(sizes[0, row], 0)
            length = _put_varint(nothing, length, sizes[1, row]) + max(sizes[1, row], 0)
            at = _put_int(out, _put_varint(out, at, length), 0, 1)
            at = _put_varint(out, _put_varint(out, at, time - timestamps[first]), row - first)
            at = _put_bytes(out, at, keys, key_starts[row], sizes[0, row])
            at = _put_bytes(out, at, values, value_starts[row], sizes[1, row])
            at = _put_int(out, at, 0, 1)
        row = first + batches[0, batch]
        producer = batches[1, batch]
        head = _put_int(out, start, base_offset + first, 8)
        head = _put_int(out, head, at - start - 12, 4)
        head = _put_int(out, head, leader_epoch, 4)
        head = _put_int(out, head, 2, 1)
        attributes = (16 if producer >= 0 else 0) + (32 if batches[2, batch] else 0)
        head = _put_int(out, head + 4, attributes, 2)
        head = _put_int(out, head, batches[0, batch] - 1, 4)
        head = _put_int(out, head, timestamps[first], 8)
        head = _put_int(out, head, latest, 8)
        head = _put_int(out, head, producer, 8)
        head = _put_int(out, head, 0 if producer >= 0 else -1, 2)
        head = _put_int(out, head, 0, 4)
        _put_int(out, head, batches[0, batch], 4)
        spans[0, batch] = start
        spans[1, batch] = at
    return at


def write_batches(
    keys: pa.BinaryArray,
    values: pa.BinaryArray,
    timestamps: np.ndarray,
    batch_sizes: np.ndarray,
    base_offset: int,
    leader_epoch: int,
    producer_ids: np.ndarray | None = None,
    are_control: np.ndarray | None = None,
) -> bytes:
    """Return records as uncompressed batches, with offsets without gaps.

    Args:
        keys: the keys, which may be null.
        values: the values; null for a tombstone.
        timestamps: create time of each record in milliseconds.
        batch_sizes: number of records of each batch, at least one; the sum is the number of all records.
        base_offset: offset of the first record.
        leader_epoch: partition leader epoch of all batches.
        producer_ids: producer of each batch, -1 for none; a batch with a producer is part of a transaction.
        are_control: whether each batch is a control batch, whose only record is a marker (KIP-98).
    """
    if int(batch_sizes.sum()) != len(keys) or (len(batch_sizes) and int(batch_sizes.min()) < 1):
        raise ValueError("the sizes of the batches do not add up to the number of records")
    key_data, key_starts, key_sizes = _bytes_of(keys)
    value_data, value_starts, value_sizes = _bytes_of(values)
    producers = np.full(len(batch_sizes), -1) if producer_ids is None else producer_ids
    control = np.zeros(len(batch_sizes)) if are_control is None else are_control
    sizes = np.stack([key_sizes, value_sizes])
    capacity = int(np.maximum(sizes, 0).sum()) + _RECORD_OVERHEAD * len(keys) + BATCH_OVERHEAD * len(batch_sizes)
    out = np.empty(capacity, np.uint8)
    spans = np.empty((2, len(batch_sizes)), np.int64)
    written = encode(
        out,
        np.empty(0, np.uint8),
        spans,
        np.stack([batch_sizes, producers, control]).astype(np.int64, order="C"),
        np.ascontiguousarray(timestamps, np.int64),
        sizes,
        key_data,
        key_starts,
        value_data,
        value_starts,
        base_offset,
        leader_epoch,
    )
    _put_checksums(out, spans)
    return out[:written].tobytes()


def _put_checksums(out: np.ndarray, spans: np.ndarray) -> None:
    view = out.data
    checksums = [crc32c(view[start + BATCH_CRC_START : stop]) for start, stop in zip(*spans.tolist(), strict=True)]
    places = spans[0][:, np.newaxis] + np.arange(BATCH_CRC_START - 4, BATCH_CRC_START)
    out[places] = np.array(checksums, ">u4").view(np.uint8).reshape(-1, 4)


def _bytes_of(array: pa.BinaryArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the bytes of a binary array, and the begin and the size of each element. The size of null is -1."""
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    present = array.is_valid().to_numpy(zero_copy_only=False)
    plain = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    return plain, ends[:-1].copy(), np.where(present, np.diff(ends), -1)
