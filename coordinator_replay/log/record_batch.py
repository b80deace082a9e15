"""Records of magic 2 batches: one compiled scan over the bytes of many batches at once.

A record is: length varint, attributes int8, timestamp delta varlong, offset delta varint, key length varint, key,
value length varint, value, header count varint, headers. Varints are zigzag; a length of -1 is null. Source:
DefaultRecord, ByteUtils.

The scan trusts no number. A batch counts only as a whole: its records must be as many as its header says, end
exactly where it ends and have rising offsets within its range, or else everything of it is taken back and it is named
malformed. Java's reader asks for less (it lets offsets repeat), but no broker has ever stored such a batch.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from coordinator_replay.compiled import compiled, inlined, memory, spliced
from coordinator_replay.log.schema import ControlType

SHORTEST_RECORD = 7
"""Bytes of a record with neither key, value nor headers: a batch can't hold more records than this allows."""


_CONTROL_NAMES = pa.array([ControlType.ABORT.value, ControlType.COMMIT.value, ControlType.OTHER.value], pa.string())
_CONTROL_CODES = {b"\0\0": 0, b"\0\1": 1}


@spliced
def _varint(data: Any, position: Any, end: Any, last_shift: Any) -> Any:
    """Reads a zigzag number of at most 32 (last shift 28) or 64 bits (63): the number and where it ends, -1 if bad."""
    value = np.int64(0)
    shift = np.int64(0)
    while 0 <= position < end:
        byte = np.int64(data[position])
        position += 1
        value |= (byte & 0x7F) << shift
        if shift == last_shift and byte > (15 if last_shift == 28 else 1):
            break
        if byte < 128:
            return ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1), position
        shift += 7
    return np.int64(0), np.int64(-1)


@inlined
def _sized(data: Any, position: Any, end: Any) -> Any:
    """Reads a length and steps over what it measures: the length (-1 for null) and the end, -1 if bad."""
    length, position = _varint(data, position, end, 28)
    if position < 0 or length < -1 or length > end - position:
        return length, np.int64(-1)
    return length, position + max(length, 0)


@inlined
def _record(data: Any, position: Any, end: Any) -> Any:
    """Reads one record: both deltas, end and length of key and value, end of the record, -1 if it is malformed."""
    length, position = _varint(data, position, end, 28)
    stop = position + length
    if position < 0 or length < 1 or stop > end:
        stop = np.int64(-1)
    timestamp_delta, position = _varint(data, position + 1, stop, 63)
    offset_delta, position = _varint(data, position, stop, 28)
    key_length, key_stop = _sized(data, position, stop)
    value_length, value_stop = _sized(data, key_stop, stop)
    headers, position = _varint(data, value_stop, stop, 28)
    if headers < 0:
        stop = np.int64(-1)
    for _ in range(headers):
        name_length, position = _sized(data, position, stop)
        _, position = _sized(data, position, stop)
        if name_length < 0 or position < 0:
            stop = np.int64(-1)
            break
    if position != stop:
        stop = np.int64(-1)
    return timestamp_delta, offset_delta, key_stop, key_length, value_stop, value_length, stop


@inlined
def _copy(data: Any, stop: Any, length: Any, target: Any, at: Any) -> Any:
    """Copies the ``length`` bytes before ``stop``: where the copy ends in the target.

    Unsigned positions are ten times the speed: the compiler need not ask whether they count from the array's end.
    """
    source = np.uint64(stop - length)
    destination = np.uint64(at)
    for step in range(np.uint64(length)):
        target[destination + step] = data[source + step]
    return at + length


@compiled
def scan(
    data: Any, batches: Any, deltas: Any, keys: Any, key_ends: Any, values: Any, value_ends: Any, present: Any
) -> Any:
    """Reads the records of several batches, copying keys and values one after the other.

    Args:
        data: uint8 array with the plain records of all batches.
        batches: int64 matrix, one column for each batch: start, end, how many records to read, the offset delta that
            the first must exceed, the one that the last may not, 1 if they must end where the batch ends. The scan
            overwrites the first row with where it stopped (-1 for a malformed batch) and the third with the number
            of records read.
        deltas: int64 matrix to fill: timestamp delta and offset delta of each record.
        keys: uint8 array to fill.
        key_ends: int32 array to fill: where each key ends in ``keys``, after the 0 that stands there.
        values: As ``keys``.
        value_ends: As ``key_ends``.
        present: uint8 matrix to fill: 1 where the record has a key, a value.

    Returns:
        How many records, bytes of keys and bytes of values were written.
    """
    count = 0
    key_end = 0
    value_end = 0
    for batch in range(batches.shape[1]):
        position = batches[0, batch]
        end = batches[1, batch]
        previous = batches[3, batch]
        first = count
        first_key = key_end
        first_value = value_end
        for _ in range(batches[2, batch]):
            time, delta, key_stop, key_length, value_stop, value_length, position = _record(data, position, end)
            if position < 0 or delta <= previous or delta > batches[4, batch]:
                position = np.int64(-1)
                break
            previous = delta
            deltas[0, count] = time
            deltas[1, count] = delta
            present[0, count] = key_length >= 0
            present[1, count] = value_length >= 0
            key_end = _copy(data, key_stop, max(key_length, 0), keys, key_end)
            value_end = _copy(data, value_stop, max(value_length, 0), values, value_end)
            count += 1
            key_ends[count] = key_end
            value_ends[count] = value_end
        if batches[5, batch] and position != end:
            position = np.int64(-1)
        batches[0, batch] = position
        if position < 0:
            count = first
            key_end = first_key
            value_end = first_value
        batches[2, batch] = count - first
    return count, key_end, value_end


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedRecords:
    """What a scan found: per record, and per batch how many records are of it and where its reading stopped."""

    timestamp_deltas: np.ndarray
    offset_deltas: np.ndarray
    keys: pa.BinaryArray
    values: pa.BinaryArray
    counts: np.ndarray
    stops: np.ndarray


def scan_records(
    data: np.ndarray,
    *,
    starts: np.ndarray,
    ends: np.ndarray,
    counts: np.ndarray,
    after_deltas: np.ndarray,
    last_deltas: np.ndarray,
    whole: bool = True,
) -> ScannedRecords:
    """Reads ``counts`` records of each batch into Arrow arrays; a malformed batch yields none and stops at -1.

    With ``whole`` a batch must end after that many records, or else it is malformed too.

    The caller has made sure that the counts are possible (``SHORTEST_RECORD``): they decide how much memory is taken.
    """
    must_end = np.full(len(starts), whole)
    batches = np.stack([starts, ends, counts, after_deltas, last_deltas, must_end]).astype(np.int64, order="C")
    capacity = int(counts.sum())
    size = int((ends - starts).sum())
    deltas = memory((2, capacity), np.int64)
    keys, values = memory(size, np.uint8), memory(size, np.uint8)
    key_ends, value_ends = memory(capacity + 1, np.int32), memory(capacity + 1, np.int32)
    key_ends[0] = value_ends[0] = 0
    present = memory((2, capacity), np.uint8)
    count, key_end, value_end = scan(data, batches, deltas, keys, key_ends, values, value_ends, present)
    return ScannedRecords(
        timestamp_deltas=deltas[0, :count],
        offset_deltas=deltas[1, :count],
        keys=_binary(keys[:key_end], key_ends[: count + 1], present[0, :count]),
        values=_binary(values[:value_end], value_ends[: count + 1], present[1, :count]),
        counts=batches[2],
        stops=batches[0],
    )


def control_types(keys: pa.BinaryArray, rows: np.ndarray) -> pa.StringArray:
    """What the control records in ``rows`` (a mask over ``keys``) say; null everywhere else.

    A control record's key is version int16, type int16; versions above 0 are read as 0. Source: ControlRecordType.
    """
    if not rows.any():
        return pa.nulls(len(keys), pa.string())
    codes = np.zeros(len(keys), np.int8)
    for row in np.flatnonzero(rows).tolist():
        key = keys[row].as_py() or b""
        codes[row] = _CONTROL_CODES.get(key[2:4], 2)
    return _CONTROL_NAMES.take(pa.array(codes, mask=~rows))


def _binary(data: np.ndarray, ends: np.ndarray, present: np.ndarray) -> pa.BinaryArray:
    absent = len(present) - int(present.sum())
    bitmap = pa.py_buffer(np.packbits(present, bitorder="little")) if absent else None
    buffers = [bitmap, pa.py_buffer(np.ascontiguousarray(ends)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.BinaryArray.from_buffers(pa.binary(), len(present), buffers, absent)
