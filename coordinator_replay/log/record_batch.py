"""Records of magic 2 batches: one compiled scan over the bytes of many batches at once.

A record is: length varint, attributes int8, timestamp delta varlong, offset delta varint, key length varint, key,
value length varint, value, header count varint, headers. Varints are zigzag; a length of -1 is null. Source:
DefaultRecord, ByteUtils.

The scan trusts no number. A batch is accepted only as a whole. It must have as many records as its header says. The
last record must end where the batch ends, and offsets must rise within the batch's range. Otherwise the batch is
malformed and none of its records is kept. Java's reader is less strict (it lets offsets repeat), but no broker has ever
stored such a batch.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from coordinator_replay.compiled import called, compiled, inlined
from coordinator_replay.log.rows import Records

SHORTEST_RECORD = 7
"""Bytes of a record with neither key, value nor headers: a batch can't hold more records than this allows."""


@called
def _long_varint(data: Any, position: Any, end: Any, last_shift: Any) -> Any:
    """Read a zigzag number of any length. See ``_varint`` for the arguments and results."""
    value = np.int64(0)
    shift = np.int64(0)
    while 0 <= position < end:
        byte = np.int64(data[np.uint64(position)])
        position += 1
        value |= (byte & 0x7F) << shift
        if shift == last_shift and byte > (15 if last_shift == 28 else 1):
            break
        if byte < 128:
            return ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1), position
        shift += 7
    return np.int64(0), np.int64(-1)


@inlined
def _varint(data: Any, position: Any, end: Any, last_shift: Any) -> Any:
    """Read a zigzag number of at most 32 bits (``last_shift`` 28) or 64 bits (63).

    Return the number, and the position after its last byte. This position is -1 if the number is malformed.

    Nearly all numbers have one or two bytes.
    """
    if 0 <= position < end:
        low = np.int64(data[np.uint64(position)])
        if low < 128:
            return (low >> 1) ^ -(low & 1), position + 1
        if position + 1 < end:
            high = np.int64(data[np.uint64(position + 1)])
            if high < 128:
                return ((low & 0x7F | high << 7) >> 1) ^ -(low & 1), position + 2
    return _long_varint(data, position, end, last_shift)


@inlined
def _after(length: Any, position: Any, end: Any) -> Any:
    """Return the position after some bytes of the given length (-1 for null); -1 if the length is not possible."""
    if position < 0 or length < -1 or length > end - position:
        return np.int64(-1)
    return position + max(length, 0)


@called
def _after_headers(data: Any, position: Any, stop: Any, count: Any) -> Any:
    """Return the position at which ``count`` headers end; -1 if one of them is malformed."""
    for _ in range(count):
        name_length, position = _long_varint(data, position, stop, 28)
        position = _after(name_length, position, stop)
        value_length, position = _long_varint(data, position, stop, 28)
        position = _after(value_length, position, stop)
        if name_length < 0 or position < 0:
            return np.int64(-1)
    return position


@inlined
def _record(data: Any, position: Any, end: Any) -> Any:
    """Read one record.

    Return seven numbers: the timestamp delta, the offset delta, end and length of the key, end and length of the value,
    and the end of the record. The end of the record is -1 if the record is malformed.
    """
    length, position = _varint(data, position, end, 28)
    stop = position + length
    if position < 0 or length < 1 or stop > end:
        stop = np.int64(-1)
    timestamp_delta, position = _varint(data, position + 1, stop, 63)
    offset_delta, position = _varint(data, position, stop, 28)
    key_length, position = _varint(data, position, stop, 28)
    key_stop = _after(key_length, position, stop)
    value_length, position = _varint(data, key_stop, stop, 28)
    value_stop = _after(value_length, position, stop)
    headers, position = _varint(data, value_stop, stop, 28)
    if headers > 0:
        position = _after_headers(data, position, stop, headers)
    if headers < 0 or position != stop:
        stop = np.int64(-1)
    return timestamp_delta, offset_delta, key_stop, key_length, value_stop, value_length, stop


@inlined
def _copy(data: Any, source: Any, target: Any, at: Any, size: Any) -> None:
    """Copy bytes from one array to another.

    All numbers are unsigned, which makes the loop ten times as fast.
    """
    for step in range(size):
        target[at + step] = data[source + step]


@compiled
def scan(
    data: Any, batches: Any, numbers: Any, keys: Any, key_ends: Any, values: Any, value_ends: Any, present: Any
) -> Any:
    """Read the records of several batches, and write their fields into arrays.

    Args:
        data: uint8 array with the plain records of all batches.
        batches: int64 matrix with one column for each batch, and these rows. 0: start. 1: end. 2: number of records to
            read. 3: offset delta that the first record must exceed. 4: offset delta that the last record must not
            exceed. 5: 1 if the records must end where the batch ends. 6: base offset. 7: base timestamp. 8: 1 if
            records have their own timestamps. 9: position in the file. The scan overwrites row 0 with the position at
            which it stopped (-1 for a malformed batch), and row 2 with the number of records read.
        numbers: int64 matrix to fill, with one column for each record, and these rows. 0: log offset. 1: timestamp.
            2: base offset of its batch. 3: position of its batch.
        keys: uint8 array to fill with the keys, one after the other.
        key_ends: int32 array to fill with the end of each key in ``keys``, after an initial 0.
        values: like ``keys``.
        value_ends: like ``key_ends``.
        present: uint8 matrix to fill, with two rows: 1 where the record has a key; 1 where it has a value.

    Returns:
        The numbers of records, bytes of keys and bytes of values that were written.
    """
    count, key_end, value_end = np.uint64(0), np.uint64(0), np.uint64(0)
    increment = np.uint64(1)
    for batch in range(batches.shape[1]):
        position = batches[0, batch]
        end = batches[1, batch]
        previous, last = batches[3, batch], batches[4, batch]
        base_offset, base_timestamp, has_own = batches[6, batch], batches[7, batch], batches[8, batch]
        first, first_key, first_value = count, key_end, value_end
        for _ in range(batches[2, batch]):
            time, delta, key_stop, key_length, value_stop, value_length, position = _record(data, position, end)
            if position < 0 or delta <= previous or delta > last:
                position = np.int64(-1)
                break
            previous = delta
            numbers[0, count] = base_offset + delta
            numbers[1, count] = base_timestamp + has_own * time
            numbers[2, count] = base_offset
            numbers[3, count] = batches[9, batch]
            present[0, count] = key_length >= 0
            present[1, count] = value_length >= 0
            key_size, value_size = np.uint64(max(key_length, 0)), np.uint64(max(value_length, 0))
            _copy(data, np.uint64(key_stop) - key_size, keys, key_end, key_size)
            _copy(data, np.uint64(value_stop) - value_size, values, value_end, value_size)
            key_end += key_size
            value_end += value_size
            count += increment
            key_ends[count] = key_end
            value_ends[count] = value_end
        if batches[5, batch] and position != end:
            position = np.int64(-1)
        batches[0, batch] = position
        if position < 0:
            count, key_end, value_end = first, first_key, first_value
        batches[2, batch] = count - first
    return count, key_end, value_end


def scan_records(data: np.ndarray, batches: np.ndarray) -> tuple[Records, np.ndarray]:
    """Return the records of batches in Arrow arrays, and the position at which the reading of each batch stopped.

    A malformed batch yields no records and stops at -1.

    The caller must check that each batch is long enough for its number of records (row 2 of ``batches``, see
    ``SHORTEST_RECORD``), because these numbers decide how much memory is reserved.

    Args:
        data: see ``scan``.
        batches: see ``scan``, which changes it.
    """
    starts, ends, wanted = batches[:3]
    capacity, size = int(wanted.sum()), int((ends - starts).sum())
    numbers = np.empty((4, capacity), np.int64)
    keys, values = np.empty(size, np.uint8), np.empty(size, np.uint8)
    key_ends, value_ends = np.empty(capacity + 1, np.int32), np.empty(capacity + 1, np.int32)
    key_ends[0] = value_ends[0] = 0
    present = np.empty((2, capacity), np.uint8)
    count, key_end, value_end = scan(data, batches, numbers, keys, key_ends, values, value_ends, present)
    offsets, timestamps, batch_offsets, batch_positions = numbers[:, :count]
    records = Records(
        offsets=offsets,
        timestamps_ms=timestamps,
        batch_offsets=batch_offsets,
        batch_positions=batch_positions,
        keys=_binary(keys[:key_end], key_ends[: count + 1], present[0, :count]),
        values=_binary(values[:value_end], value_ends[: count + 1], present[1, :count]),
        counts=batches[2],
    )
    return records, batches[0]


def _binary(data: np.ndarray, ends: np.ndarray, present: np.ndarray) -> pa.BinaryArray:
    absent = len(present) - int(present.sum())
    bitmap = pa.py_buffer(np.packbits(present, bitorder="little")) if absent else None
    buffers = [bitmap, pa.py_buffer(np.ascontiguousarray(ends)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.BinaryArray.from_buffers(pa.binary(), len(present), buffers, absent)
