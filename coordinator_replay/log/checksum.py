"""Checksums of entries: CRC-32C over record batches, CRC-32 over the messages of older formats."""

import zlib

import numpy as np
from crc32c import crc32c

from coordinator_replay.log.layout import BATCH_CRC_START, MESSAGE_CRC_START


def entry_checksum(entry: memoryview, magic: int) -> int:
    """Return the checksum that an entry of this magic should have. ``entry`` begins with the offset field."""
    if magic == 2:
        return crc32c(entry[BATCH_CRC_START:])
    return zlib.crc32(entry[MESSAGE_CRC_START:])


def count_intact(data: np.ndarray, starts: np.ndarray, ends: np.ndarray, checksums: np.ndarray, magic: int) -> int:
    """Return the number of entries before the first entry with a wrong checksum.

    Args:
        data: the bytes that have the entries.
        starts: position at which each entry begins.
        ends: position at which each entry ends.
        checksums: the checksum in the header of each entry.
        magic: 2 if all entries are record batches; 0 or 1 if all are messages.
    """
    view = data.data
    skipped, checksum_of = (BATCH_CRC_START, crc32c) if magic == 2 else (MESSAGE_CRC_START, zlib.crc32)
    columns = ((starts + skipped).tolist(), ends.tolist(), checksums.tolist())
    for index, (start, end, checksum) in enumerate(zip(*columns, strict=True)):
        if checksum_of(view[start:end]) != checksum:
            return index
    return len(starts)
