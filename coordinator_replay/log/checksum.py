"""Checksums of entries: CRC-32C over record batches, CRC-32 over the messages of older formats.

The library sums gigabytes a second, but a call from Python costs as much as 500 bytes do, and most batches of this
topic are smaller. So a compiled loop sums batch after batch, with the processor's own instruction where it has one;
elsewhere it sums small batches only, eight bytes a step ("slicing by 8": Kounavis and Berry, A Systematic Approach to
Building High Performance Software-based CRC Generators, 2005).
"""

import zlib
from typing import Any

import numpy as np
from crc32c import crc32c

from coordinator_replay.compiled import compiled, crc32c_instruction, inlined
from coordinator_replay.words import word_at

BATCH_CRC_START = 21
"""A record batch is summed from its attributes to its end; leader epoch and base offset are the broker's to change."""
MESSAGE_CRC_START = 16
"""A message of magic 0 or 1 is summed from its magic byte to its end."""

_SMALL_BYTES = 4096


def _tables() -> np.ndarray:
    """Row n: what a byte does to the sum when n bytes follow it."""
    tables = np.zeros((8, 256), np.int64)
    tables[0] = np.arange(256)
    for _ in range(8):
        tables[0] = (tables[0] >> 1) ^ np.where(tables[0] & 1, 0x82F63B78, 0)
    for row in range(1, 8):
        tables[row] = (tables[row - 1] >> 8) ^ tables[0][tables[row - 1] & 0xFF]
    return tables


_TABLES = _tables()
_STEP = crc32c_instruction()


@compiled
def first_mismatch(data: Any, starts: Any, ends: Any, checksums: Any, longest: Any, tables: Any) -> Any:
    """The first stretch of at most ``longest`` bytes whose CRC-32C is another; the number of stretches if none is."""
    for index in range(len(starts)):
        at = starts[index]
        end = ends[index]
        if end - at > longest:
            continue
        crc = np.int64(0xFFFFFFFF)
        while end - at >= 8:
            low = np.uint64(at)
            for byte in range(4):
                crc ^= np.int64(data[low + np.uint64(byte)]) << (8 * byte)
            crc = (
                tables[7, np.uint64(crc & 0xFF)]
                ^ tables[6, np.uint64((crc >> 8) & 0xFF)]
                ^ tables[5, np.uint64((crc >> 16) & 0xFF)]
                ^ tables[4, np.uint64(crc >> 24)]
                ^ tables[3, data[low + np.uint64(4)]]
                ^ tables[2, data[low + np.uint64(5)]]
                ^ tables[1, data[low + np.uint64(6)]]
                ^ tables[0, data[low + np.uint64(7)]]
            )
            at += 8
        while at < end:
            crc = (crc >> 8) ^ tables[0, np.uint64((crc ^ np.int64(data[at])) & 0xFF)]
            at += 1
        if crc ^ 0xFFFFFFFF != checksums[index]:
            return index
    return len(starts)


@inlined
def _agrees(crc: Any, data: Any, at: Any, end: Any, checksum: Any, tables: Any) -> Any:
    """Whether a sum, with the last few bytes added to it, is the one that was wanted."""
    rest = np.int64(crc)
    for place in range(at, end):
        rest = (rest >> 8) ^ tables[0, np.uint64((rest ^ np.int64(data[place])) & 0xFF)]
    return rest ^ 0xFFFFFFFF == checksum


@inlined
def _first_wrong(data: Any, starts: Any, ends: Any, checksums: Any, tables: Any, index: Any, stop: Any) -> Any:
    """The first stretch from ``index`` on whose CRC-32C is another; ``stop`` if there is none before that."""
    while index < stop:
        at, end = np.uint64(starts[index]), np.uint64(ends[index])
        crc = np.uint64(0xFFFFFFFF)
        for _ in range((end - at) >> np.uint64(3)):
            crc = _STEP(crc, word_at(data, at))
            at += np.uint64(8)
        if not _agrees(crc, data, at, end, checksums[index], tables):
            return index
        index += 1
    return stop


@compiled
def first_mismatch_by_instruction(data: Any, starts: Any, ends: Any, checksums: Any, tables: Any) -> Any:
    """The first stretch whose CRC-32C is another; the number of stretches if none is.

    A step has to wait for the one before, for three times as long as the instruction itself takes; so the stretches of
    either half take turns.
    """
    eight, three = np.uint64(8), np.uint64(3)
    count = len(starts)
    half = count >> 1
    front, back = 0, half
    if half > 0:
        at, other_at = np.uint64(starts[front]), np.uint64(starts[back])
        left, other_left = (np.uint64(ends[front]) - at) >> three, (np.uint64(ends[back]) - other_at) >> three
        crc = other_crc = np.uint64(0xFFFFFFFF)
        while True:
            steps = min(left, other_left)
            for _ in range(steps):
                crc, other_crc = _STEP(crc, word_at(data, at)), _STEP(other_crc, word_at(data, other_at))
                at += eight
                other_at += eight
            left -= steps
            other_left -= steps
            if left == 0:
                if not _agrees(crc, data, at, np.uint64(ends[front]), checksums[front], tables):
                    return front
                front += 1
                if front == half:
                    break
                at, crc = np.uint64(starts[front]), np.uint64(0xFFFFFFFF)
                left = (np.uint64(ends[front]) - at) >> three
            if other_left == 0:
                if not _agrees(other_crc, data, other_at, np.uint64(ends[back]), checksums[back], tables):
                    break
                back += 1
                if back == count:
                    break
                other_at, other_crc = np.uint64(starts[back]), np.uint64(0xFFFFFFFF)
                other_left = (np.uint64(ends[back]) - other_at) >> three
    front = _first_wrong(data, starts, ends, checksums, tables, front, half)
    return front if front < half else _first_wrong(data, starts, ends, checksums, tables, back, count)


def entry_checksum(entry: memoryview, magic: int) -> int:
    """The checksum that an entry of this magic ought to carry; ``entry`` runs from its offset field to its end."""
    if magic == 2:
        return crc32c(entry[BATCH_CRC_START:])
    return zlib.crc32(entry[MESSAGE_CRC_START:])


def count_intact_batches(data: np.ndarray, starts: np.ndarray, ends: np.ndarray, checksums: np.ndarray) -> int:
    """How many record batches, from the first on, carry the right checksum."""
    summed = starts + BATCH_CRC_START
    if _STEP is not None:
        return int(first_mismatch_by_instruction(data, summed, ends, checksums, _TABLES))
    intact = int(first_mismatch(data, summed, ends, checksums, _SMALL_BYTES, _TABLES))
    view = data.data
    large = np.flatnonzero(ends[:intact] - summed[:intact] > _SMALL_BYTES)
    columns = (large, summed[large], ends[large], checksums[large])
    for index, start, end, checksum in zip(*(column.tolist() for column in columns), strict=True):
        if crc32c(view[start:end]) != checksum:
            return int(index)
    return intact


def count_intact_messages(data: np.ndarray, starts: np.ndarray, ends: np.ndarray, checksums: np.ndarray) -> int:
    """How many messages of magic 0 and 1, from the first on, carry the right checksum."""
    view = data.data
    columns = (starts + MESSAGE_CRC_START, ends, checksums)
    for index, (start, end, checksum) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        if zlib.crc32(view[start:end]) != checksum:
            return index
    return len(starts)
