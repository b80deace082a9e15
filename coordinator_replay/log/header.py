"""Headers of the entries of a segment: record batches (magic 2) and messages (magic 0 and 1).

All entries begin in the same way: offset int64, size int32 (of the bytes that follow), four bytes that depend on the
format, magic int8. So ``hop`` can go from header to header, and find all entries without reading a record. It writes
the fields to a matrix of int64, with one row for each ``HeaderField`` and one column for each entry.

Source of the layout: DefaultRecordBatch, AbstractLegacyRecordBatch, LegacyRecord.
"""

import struct
from enum import IntEnum
from typing import Any

import numpy as np

from coordinator_replay.compiled import compiled, inlined
from coordinator_replay.log.layout import BATCH_OVERHEAD, LOG_OVERHEAD, MESSAGE_OVERHEAD, OFFSET_LIMIT, SHORTEST_HEADER

_BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")


class Stop(IntEnum):
    """Reasons why ``hop``, which reads header after header, stopped."""

    LIMIT = 0
    """The requested number of entries was read."""
    NEEDS_BYTES = 1
    """The next entry is not complete in the given bytes."""
    OTHER_FORMAT = 2
    """The next entry has the other family of formats (batches / messages)."""
    NO_HEADER = 3
    """The next bytes can't be the header of an entry."""


@inlined
def _number(data: Any, at: Any, size: Any) -> Any:
    """Return the big-endian number in the ``size`` bytes from ``at`` on.

    A number of eight bytes is read as signed, a shorter number as unsigned.
    """
    # Unsigned positions spare the check for negative indices, which count from the end.
    place, number = np.uint64(at), np.uint64(0)
    for step in range(np.uint64(size)):
        number = number << np.uint64(8) | np.uint64(data[place + step])
    return np.int64(number)


@inlined
def _int16(data: Any, at: Any) -> Any:
    number = _number(data, at, 2)
    return number - ((number >> 15) << 16)


@inlined
def _int32(data: Any, at: Any) -> Any:
    number = _number(data, at, 4)
    return number - ((number >> 31) << 32)


@compiled
def hop(data: Any, position: Any, end: Any, headers: Any, limit: Any) -> Any:
    """Write the headers of the entries between two positions to ``headers``.

    Stop at an entry that is not complete, has no valid header, or is a batch after messages or a message after batches.

    Args:
        data: uint8 array.
        position: position of the first entry.
        end: position after the last byte.
        headers: int64 matrix to fill: a row for each ``HeaderField``, and a column for each entry.
        limit: largest number of entries to find.

    Returns:
        The number of entries, and the ``Stop`` that tells why the hop ended.
    """
    count = 0
    family: Any = -1
    while count < limit:
        if end - position < 17:
            return count, 1
        magic = np.int64(data[position + 16])
        size = _int32(data, position + 8) + 12
        offset = _number(data, position, 8)
        shortest = 61 if magic == 2 else 34 if magic == 1 else 26
        if magic > 2 or size < shortest or offset < 0 or offset >= 1 << 56:
            return count, 3
        if size > end - position:
            return count, 1
        if family < 0:
            family = magic >> 1
        elif family != magic >> 1:
            return count, 2
        headers[0, count] = position
        headers[1, count] = size
        headers[2, count] = offset
        headers[3, count] = magic
        if magic == 2:
            headers[4, count] = _number(data, position + 17, 4)
            headers[5, count] = _int16(data, position + 21)
            headers[6, count] = _int32(data, position + 12)
            headers[7, count] = _int32(data, position + 23)
            headers[8, count] = _number(data, position + 27, 8)
            headers[9, count] = _number(data, position + 35, 8)
            headers[10, count] = _number(data, position + 43, 8)
            headers[11, count] = _int16(data, position + 51)
            headers[12, count] = _int32(data, position + 57)
        else:
            headers[4, count] = _number(data, position + 12, 4)
            headers[5, count] = np.int64(data[position + 17])
            headers[6:13, count] = 0
        count += 1
        position += size
    return count, 0


def is_plausible(view: memoryview, position: int) -> bool:
    """Return whether the bytes at a position may be the header of an entry.

    The search for the next entry after damage uses this check. A header that is cut off by the end of the bytes counts
    as plausible.
    """
    left = len(view) - position
    if left < SHORTEST_HEADER:
        return True
    offset, size = struct.unpack_from(">qi", view, position)
    if not 0 <= offset < OFFSET_LIMIT:
        return False
    match view[position + 16]:
        case 0 | 1 as magic:
            return size + LOG_OVERHEAD >= MESSAGE_OVERHEAD[magic] and (
                left < MESSAGE_OVERHEAD[magic] or _is_plausible_message(view, position, size, magic)
            )
        case 2:
            return size + LOG_OVERHEAD >= BATCH_OVERHEAD and (
                left < BATCH_OVERHEAD or _is_plausible_batch(view, position)
            )
        case _:
            return False


def _is_plausible_message(view: memoryview, position: int, size: int, magic: int) -> bool:
    """Return whether the lengths of a message's key and value fit the size of the message.

    Random data rarely pass this check.

    Args:
        view: the bytes that may have the message.
        position: position at which the message may begin.
        size: the size that the message claims.
        magic: the magic that the message claims.
    """
    key_at = position + (18 if magic == 0 else 26)
    key_bytes: int = struct.unpack_from(">i", view, key_at)[0]
    value_bytes = size + LOG_OVERHEAD - MESSAGE_OVERHEAD[magic] - max(key_bytes, 0)
    if view[position + 17] >= 0x10 or key_bytes < -1 or value_bytes < 0:
        return False
    value_at = key_at + 4 + max(key_bytes, 0)
    if value_at + 4 > len(view):
        return True
    claimed: int = struct.unpack_from(">i", view, value_at)[0]
    return claimed == value_bytes or (claimed == -1 and value_bytes == 0)


def _is_plausible_batch(view: memoryview, position: int) -> bool:
    fields = _BATCH_HEADER.unpack_from(view, position)
    attributes, last_offset_delta, count = fields[5], fields[6], fields[12]
    return bool(0 <= attributes < 0x80 and last_offset_delta >= 0 and count >= 0)


def plausible_positions(data: np.ndarray, start: int, stop: int, size_limit: int) -> list[int]:
    """Return the positions from ``start`` to before ``stop`` at which an entry may begin, in order.

    Positions are left out if an entry there would have more than ``size_limit`` bytes. A coarse filter runs over all
    positions at once, then ``is_plausible`` checks the remaining positions.
    """
    # Single bytes are checked first: they rule out nearly every position, and zeros are common.
    window = data[start : min(stop, len(data) - SHORTEST_HEADER + 1) + SHORTEST_HEADER - 1]
    span = len(window) - SHORTEST_HEADER + 1
    if span <= 0 or not window.any():
        return []
    size_bytes = [window[byte : byte + span] for byte in range(8, LOG_OVERHEAD)]
    has_size = (size_bytes[0] | size_bytes[1] | size_bytes[2] | size_bytes[3]) != 0
    candidates = np.flatnonzero((window[16:] <= 2) & (window[:span] == 0) & (size_bytes[0] < 0x80) & has_size)
    sizes = np.zeros(len(candidates), np.int64)
    for column in size_bytes:
        sizes = (sizes << 8) | column[candidates]
    candidates = (
        candidates[(sizes + LOG_OVERHEAD >= MESSAGE_OVERHEAD[0]) & (sizes + LOG_OVERHEAD <= size_limit)] + start
    )
    view = data.data
    return [position for position in candidates.tolist() if is_plausible(view, position)]
