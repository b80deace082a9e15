"""Runs a program over many rows of bytes, one after the other, into columns.

The rules:

* Each row has one status. A row that fails keeps its error, leaves nothing in any column, and does not touch its
  neighbours: what it had written so far is taken back.
* Every read checks that the bytes are there. A count is never trusted further than one element at a time, and a
  negative one means null (the generated ``read`` methods of Kafka's messages do the same).
* A column entry is a pair: ``first`` is the value, the start of the bytes or the count; ``second`` is the length of
  bytes, and below zero says why there is no value: -1 null, -2 a tagged field that is not there.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from coordinator_replay.compiled import compiled, inlined, spliced
from coordinator_replay.records.damage import ErrorClass
from coordinator_replay.records.program import Program
from coordinator_replay.words import number_at

NULL = -1
ABSENT = -2

STATUS: tuple[ErrorClass | None, ...] = (
    None,
    ErrorClass.BUFFER_UNDERFLOW,
    ErrorClass.UNEXPECTED_NULL,
    ErrorClass.VARINT_TOO_LONG,
    ErrorClass.TRAILING_BYTES,
    ErrorClass.BAD_TAGGED_FIELD,
    ErrorClass.INVALID_UNICODE,
)
"""Error class of each status a row can end with; 0 is none."""

_UNDERFLOW, _NULL, _VARINT, _TRAILING, _TAG, _UNICODE = 1, 2, 3, 4, 5, 6
_DEPTH = 32
_FEW_ROWS = 20_000

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Columns:
    """What a program made of some rows.

    Attributes:
        status: of each row, an index into ``STATUS``.
    """

    status: Int32s
    first: tuple[Int64s, ...]
    second: tuple[Int32s, ...]


@inlined
def _is_utf8(data: Bytes, start: Any, end: Any) -> Any:  # noqa: C901 - the table of legal sequences, as tests
    # Unsigned positions spare the question whether one counts from the end, and let the loop run on many bytes at once.
    high = np.uint8(0)
    origin = np.uint64(start)
    for step in range(np.uint64(end - start)):
        high |= data[origin + step]
    if high < 0x80:
        return True
    i = start
    while i < end:
        byte = data[i]
        if byte < 0x80:
            i += 1
            continue
        if 0xC2 <= byte <= 0xDF:
            more = 1
        elif 0xE0 <= byte <= 0xEF:
            more = 2
        elif 0xF0 <= byte <= 0xF4:
            more = 3
        else:
            return False
        if i + more >= end:
            return False
        second = data[i + 1]
        # Overlong forms, surrogates and code points above U+10FFFF.
        if (
            (byte == 0xE0 and second < 0xA0)
            or (byte == 0xED and second > 0x9F)
            or (byte == 0xF0 and second < 0x90)
            or (byte == 0xF4 and second > 0x8F)
        ):
            return False
        for k in range(1, more + 1):
            if data[i + k] & 0xC0 != 0x80:
                return False
        i += more + 1
    return True


@inlined
def _uvarint(data: Bytes, pos: Any, end: Any) -> Any:
    """(value, next position, status) of an unsigned varint."""
    value = np.int64(0)
    for shift in range(0, 35, 7):
        if pos >= end:
            return value, pos, _UNDERFLOW
        byte = np.int64(data[pos])
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos, 0
    return value, pos, _VARINT


@spliced
def _integer(data: Bytes, pos: Any, size: Any, signed: Any) -> Any:
    value = np.uint64(0)
    origin = np.uint64(pos)
    if size == 8:
        return np.int64(number_at(data, origin))
    if size == 4:
        for step in range(np.uint64(4)):
            value = value << np.uint64(8) | np.uint64(data[origin + step])
        number = np.int64(value)
        return np.int64(number - ((number >> 31) << 32))
    if size == 2:
        number = np.int64(data[origin]) << 8 | np.int64(data[origin + np.uint64(1)])
        return np.int64(number - ((number >> 15) << 16)) if signed == 1 else np.int64(number)
    number = np.int64(data[origin])
    return np.int64(number - ((number >> 7) << 8))


@spliced
def _count(data: Bytes, pos: Any, end: Any, form: Any) -> Any:
    """(length or count, next position, status); negative means null."""
    if form == 2 or form == 4:
        value, pos, status = _uvarint(data, pos, end)
        if form == 2:
            return value - 1, pos, status
        return (np.int64(1) if value > 0 else np.int64(-1)), pos, status
    size = 2 if form == 0 else 4 if form == 1 else 1
    if pos + size > end:
        return np.int64(0), pos, _UNDERFLOW
    value = _integer(data, pos, size, 1)
    if form == 3:
        value = np.int64(1) if value >= 0 else np.int64(-1)
    return value, pos + size, 0


@inlined
def _copy_all(target: Int64s, source: Int64s) -> None:
    for k in range(np.uint64(len(target))):
        target[k] = source[k]


@compiled
def _run(  # noqa: C901 - one interpreter loop; splitting it would pass a dozen arrays around
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    ops: Int32s,
    tags: Int32s,
    limit: Int64s,
    used: Int64s,
    first: Int64s,
    second: Int32s,
    status: Int32s,
    saved: Int64s,
    frames: Int64s,
    row: Any,
) -> Any:
    """Run rows from ``row`` on; returns the first row that was not run because a column is full, or their number."""
    frame_pc, frame_left, frame_end, frame_seen, frame_unknown = frames[0], frames[1], frames[2], frames[3], frames[4]
    while row < len(starts):
        _copy_all(saved, used)
        pos, end = starts[row], ends[row]
        pc, depth, error = 0, -1, 0
        while True:
            here = np.uint64(pc)
            op, column = ops[here, 0], np.uint64(ops[here, 1])
            # Outside of lists a column gets at most one entry a row, and has room for that.
            if depth >= 0 and 1 <= op <= 4 and used[column] >= limit[column]:
                _copy_all(used, saved)
                return row
            if op == 1:  # INTEGER
                size = ops[here, 2]
                if pos + size > end:
                    error = _UNDERFLOW
                    break
                at = np.uint64(used[column])
                first[at] = _integer(data, pos, size, ops[here, 3])
                second[at] = 0
                used[column] += 1
                pos += size
                pc += 1
            elif op == 3:  # BYTES
                length, pos, error = _count(data, pos, end, ops[here, 2])
                if error != 0:
                    break
                at = np.uint64(used[column])
                if length < 0:
                    if ops[here, 3] == 0:
                        error = _NULL
                        break
                    first[at] = pos
                    second[at] = -1
                else:
                    if length > end - pos:
                        error = _UNDERFLOW
                        break
                    if ops[here, 4] == 1 and not _is_utf8(data, pos, pos + int(length)):
                        error = _UNICODE
                        break
                    first[at] = pos
                    second[at] = length
                    pos += length
                used[column] += 1
                pc += 1
            elif op == 2:  # UUID
                if pos + 16 > end:
                    error = _UNDERFLOW
                    break
                at = np.uint64(used[column])
                first[at] = pos
                second[at] = 16
                used[column] += 1
                pos += 16
                pc += 1
            elif op == 4:  # LIST
                count, pos, error = _count(data, pos, end, ops[here, 2])
                if error != 0:
                    break
                at = np.uint64(used[column])
                second[at] = 0
                if count < 0:
                    if ops[here, 3] == 0:
                        error = _NULL
                        break
                    second[at] = -1
                    count = np.int64(0)
                if count > end - pos:
                    error = _UNDERFLOW
                    break
                first[at] = count
                used[column] += 1
                if count == 0:
                    pc = ops[here, 4]
                else:
                    depth += 1
                    frame_pc[depth] = pc + 1
                    frame_left[depth] = count
                    pc += 1
            elif op == 5:  # LIST_END
                frame_left[depth] -= 1
                if frame_left[depth] > 0:
                    pc = frame_pc[depth]
                else:
                    depth -= 1
                    pc += 1
            elif op == 6:  # TAGS
                count, pos, error = _uvarint(data, pos, end)
                if error != 0:
                    break
                depth += 1
                frame_pc[depth] = pc
                frame_left[depth] = count
                frame_seen[depth] = 0
                frame_unknown[depth] = 0
                pc += 1
            elif op == 7:  # TAGS_NEXT
                opening = frame_pc[depth]
                unknown = ops[opening, 1]
                table, known = ops[opening, 2], ops[opening, 3]
                if frame_left[depth] == 0:
                    full = used[unknown] >= limit[unknown]
                    for k in range(known):
                        target = tags[table + k, 2]
                        if frame_seen[depth] & (1 << k) == 0 and used[target] >= limit[target]:
                            full = True
                    if full:
                        _copy_all(used, saved)
                        return row
                    for k in range(known):
                        if frame_seen[depth] & (1 << k) == 0:
                            target = tags[table + k, 2]
                            at = used[target]
                            # The position keeps the starts of a column in rising order.
                            first[at] = pos
                            second[at] = -2
                            used[target] += 1
                    at = used[unknown]
                    first[at] = frame_unknown[depth]
                    second[at] = 0
                    used[unknown] += 1
                    depth -= 1
                    pc = ops[opening, 4]
                    continue
                frame_left[depth] -= 1
                tag, pos, error = _uvarint(data, pos, end)
                if error != 0:
                    break
                size, pos, error = _uvarint(data, pos, end)
                if error != 0:
                    break
                if size > end - pos:
                    error = _UNDERFLOW
                    break
                found = -1
                for k in range(known):
                    if tags[table + k, 0] == tag:
                        found = k
                if found >= 0:
                    if frame_seen[depth] & (1 << found) != 0:
                        error = _TAG
                        break
                    frame_seen[depth] |= 1 << found
                    frame_end[depth] = pos + size
                    pc = tags[table + found, 1]
                else:
                    if used[unknown + 1] >= limit[unknown + 1] or used[unknown + 2] >= limit[unknown + 2]:
                        _copy_all(used, saved)
                        return row
                    at = used[unknown + 1]
                    first[at] = tag
                    second[at] = 0
                    used[unknown + 1] += 1
                    at = used[unknown + 2]
                    first[at] = pos
                    second[at] = size
                    used[unknown + 2] += 1
                    frame_unknown[depth] += 1
                    pos += size
            elif op == 8:  # TAG_END
                if pos != frame_end[depth]:
                    error = _TAG
                    break
                pc = ops[pc, 2]
            else:  # END
                if pos != end:
                    error = _TRAILING
                break
        if error != 0:
            _copy_all(used, saved)
            status[row] = error
        row += 1
    return row


def run(program: Program, data: Bytes, starts: Int64s, ends: Int64s) -> Columns:
    """Run a program over rows of bytes.

    Args:
        program: a compiled struct.
        data: the bytes of all rows.
        starts: where each row starts in ``data``; rows stand in rising order and do not overlap.
        ends: where each row ends.
    """
    rows = len(starts)
    status = np.zeros(rows, np.int32)
    # Room for some elements of arrays too, where that costs little: growing means to move everything.
    capacity = np.full(program.columns, max(rows, 64) * (4 if rows < _FEW_ROWS else 1), np.int64)
    limit = np.cumsum(capacity)
    used = limit - capacity
    first = np.empty(int(limit[-1]), np.int64)
    second = np.empty(int(limit[-1]), np.int32)
    scratch = np.empty_like(used), np.zeros((5, _DEPTH), np.int64)
    row = 0
    while True:
        row = _run(data, starts, ends, program.ops, program.tags, limit, used, first, second, status, *scratch, row)
        if row >= rows:
            break
        first, second, limit, used = _grow(first, second, limit, used)
    begins = np.concatenate([[0], limit[:-1]])
    return Columns(
        status=status,
        first=tuple(first[at:end] for at, end in zip(begins, used, strict=True)),
        second=tuple(second[at:end] for at, end in zip(begins, used, strict=True)),
    )


def _grow(first: Int64s, second: Int32s, limit: Int64s, used: Int64s) -> tuple[Int64s, Int32s, Int64s, Int64s]:
    """Double every column; what is used moves along."""
    begins = np.concatenate([[0], limit[:-1]])
    new_limit, new_used = limit * 2, begins + used
    new_first = np.empty(int(new_limit[-1]), np.int64)
    new_second = np.empty(int(new_limit[-1]), np.int32)
    for old, end, new, new_end in zip(begins, used, begins * 2, new_used, strict=True):
        new_first[new:new_end] = first[old:end]
        new_second[new:new_end] = second[old:end]
    return new_first, new_second, new_limit, new_used
