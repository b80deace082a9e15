"""Decompression of record batches and message sets.

Snappy and LZ4 come in two forms. Both forms are accepted in every magic:

- Snappy: Java clients write snappy-java's stream of blocks (the "xerial" framing). Other clients write one raw block.
- LZ4: old Java clients (magic 0) wrote a wrong header checksum into a frame, because they included the frame's magic
  number (KAFKA-3160). Other clients write the right checksum.

A batch of a few bytes may decompress to gigabytes. So ``decompress`` returns no more bytes than a limit. LZ4 and zstd
write into memory that is reserved first. Reserved memory costs nothing until bytes are written to it.
"""

import struct
import zlib
from enum import IntEnum
from types import ModuleType

import cramjam
import numpy as np
import xxhash

DEFAULT_LIMIT_BYTES = 128 << 20

XERIAL_MAGIC = b"\x82SNAPPY\x00"
LZ4_FRAME_MAGIC = b"\x04\x22\x4d\x18"
_XERIAL_HEADER_BYTES = 16
_FIRST_GUESS_BYTES = 1 << 16


class Codec(IntEnum):
    """Bits 0 to 2 of the attributes of a batch or message."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class DecompressionError(Exception):
    """An error: compressed bytes are damaged, or decompress to more than the limit.

    Code outside the package ``log`` never sees this error.
    """


def decompress(codec: Codec, compressed: memoryview, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> memoryview:
    """Return the plain bytes of one compressed block of records.

    Raises:
        DecompressionError: the bytes are damaged or cut, or decompress to more than ``limit_bytes``.
    """
    try:
        match codec:
            case Codec.NONE:
                return compressed
            case Codec.GZIP:
                return _gunzip(compressed, limit_bytes)
            case Codec.SNAPPY:
                return _unsnap(compressed, limit_bytes)
            case Codec.LZ4:
                # No input byte of LZ4 stands for more than 255 bytes of output.
                fixed = with_true_lz4_header(compressed)
                return _expand(cramjam.lz4, fixed, min(limit_bytes, 255 * len(fixed) + 64))
            case Codec.ZSTD:
                return _expand(cramjam.zstd, compressed, limit_bytes)
    except (cramjam.DecompressionError, zlib.error, struct.error) as error:
        raise DecompressionError(f"{codec.name.lower()}: {error}") from error


def with_true_lz4_header(compressed: memoryview) -> memoryview:
    """Return an LZ4 frame with the correct header check byte.

    Only the wrong byte that old Java clients wrote is corrected. All other bytes are returned as they are.
    """
    frame = bytes(compressed[:19])
    if len(frame) < 7 or frame[:4] != LZ4_FRAME_MAGIC:
        return compressed
    flags = frame[4]
    check_at = 6 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    if len(frame) <= check_at or frame[check_at] != lz4_header_check(frame[:check_at]):
        return compressed
    true_check = lz4_header_check(frame[4:check_at])
    return memoryview(frame[:check_at] + bytes([true_check]) + compressed[check_at + 1 :])


def lz4_header_check(descriptor: bytes) -> int:
    """Return the check byte of an LZ4 frame header."""
    return (xxhash.xxh32_intdigest(descriptor) >> 8) & 0xFF


def _gunzip(compressed: memoryview, limit_bytes: int) -> memoryview:
    plain = bytearray()
    rest: bytes | memoryview = compressed
    while True:
        member = zlib.decompressobj(wbits=31)
        plain += member.decompress(rest, limit_bytes + 1 - len(plain))
        if len(plain) > limit_bytes:
            raise DecompressionError(f"gzip: more than {limit_bytes} bytes")
        if not member.eof:
            raise DecompressionError("gzip: the stream is cut short")
        rest = member.unused_data
        if rest[:2] != b"\x1f\x8b":  # Like Java, ignore bytes after a member that don't begin another member.
            return memoryview(plain)


def _unsnap(compressed: memoryview, limit_bytes: int) -> memoryview:
    if compressed[:8] != XERIAL_MAGIC:
        return memoryview(_unsnap_block(compressed, limit_bytes))
    plain = bytearray()
    position = 0
    while position < len(compressed):
        if compressed[position : position + 8] == XERIAL_MAGIC:  # several streams follow each other
            position += _XERIAL_HEADER_BYTES
            continue
        (size,) = struct.unpack_from(">i", compressed, position)
        position += 4
        if not 0 < size <= len(compressed) - position:
            raise DecompressionError(f"snappy: a block claims {size} bytes, {len(compressed) - position} are there")
        plain += _unsnap_block(compressed[position : position + size], limit_bytes - len(plain))
        position += size
    return memoryview(plain)


def _unsnap_block(block: memoryview, limit_bytes: int) -> bytes:
    claimed = cramjam.snappy.decompress_raw_len(block)
    # Three bytes of input stand for at most 64 of output, so a larger claim is a lie; check before memory is reserved.
    if claimed > min(limit_bytes, 22 * len(block)):
        raise DecompressionError(f"snappy: a block of {len(block)} bytes claims {claimed}, the limit is {limit_bytes}")
    return bytes(cramjam.snappy.decompress_raw(block))


def _expand(codec: ModuleType, compressed: memoryview, limit_bytes: int) -> memoryview:
    """Return decompressed bytes.

    The memory for the bytes has a guessed size. If the guess is too small, which is rare, try again with
    ``limit_bytes``.
    """
    guess = min(limit_bytes, max(_FIRST_GUESS_BYTES, 16 * len(compressed)))
    for room in sorted({guess, limit_bytes}):
        plain = np.empty(room, np.uint8)
        try:
            written = codec.decompress_into(compressed, plain)
        except cramjam.DecompressionError:
            if room == limit_bytes:
                raise
        else:
            # A small result must not keep the large memory block alive: many results wait at the same time.
            return plain.data[:written] if 2 * written > room else memoryview(plain[:written].tobytes())
    raise AssertionError("the loop ends in a return or an error")
