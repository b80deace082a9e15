"""The codecs, in every form that clients write, and within their limits."""

import struct
import zlib

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.log.compression import (
    LZ4_FRAME_MAGIC,
    Codec,
    DecompressionError,
    decompress,
    lz4_header_check,
    with_true_lz4_header,
)
from tests.log.writer import compress

FORMS = [
    (Codec.GZIP, "gzip"),
    (Codec.SNAPPY, "snappy"),
    (Codec.SNAPPY, "snappy-raw"),
    (Codec.LZ4, "lz4"),
    (Codec.ZSTD, "zstd"),
]
PLAIN = b"group topic partition " * 20_000


@pytest.mark.parametrize(("codec", "form"), FORMS)
@given(plain=st.binary(max_size=300))
def test_what_was_compressed_comes_back(codec: Codec, form: str, plain: bytes) -> None:
    assert bytes(decompress(codec, memoryview(compress(form, plain)))) == plain


@pytest.mark.parametrize(("codec", "form"), FORMS)
def test_the_limit_is_the_largest_size_that_comes_back(codec: Codec, form: str) -> None:
    packed = memoryview(compress(form, PLAIN))
    assert bytes(decompress(codec, packed, len(PLAIN))) == PLAIN
    with pytest.raises(DecompressionError):
        decompress(codec, packed, len(PLAIN) - 1)


@pytest.mark.parametrize(("codec", "form"), FORMS)
def test_a_block_cut_anywhere_is_refused(codec: Codec, form: str) -> None:
    plain = bytes(range(256)) * 3
    packed = memoryview(compress(form, plain))
    # A snappy stream may end after any of its blocks, here after its header: nothing says how many there are.
    first = 17 if form == "snappy" else 1
    for length in range(first, len(packed)):
        with pytest.raises(DecompressionError):
            decompress(codec, packed[:length])


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
@given(garbage=st.binary(max_size=200), flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255))))
def test_damaged_blocks_end_in_the_one_error_or_in_bytes(
    codec: Codec, garbage: bytes, flips: list[tuple[int, int]]
) -> None:
    changed = bytearray(compress(codec.name.lower(), b"some bytes, " * 9 + garbage))
    for place, change in flips:
        changed[place % len(changed)] ^= change
    for block in (garbage, bytes(changed)):
        try:
            plain = decompress(codec, memoryview(block), 10_000)
        except DecompressionError:
            continue
        assert len(plain) <= 10_000


def test_gzip_members_are_joined_and_what_follows_them_is_ignored() -> None:
    packed = compress("gzip", b"one ") + compress("gzip", b"two")
    assert bytes(decompress(Codec.GZIP, memoryview(packed + b"\0\0 trailer"))) == b"one two"


def test_snappy_streams_are_joined() -> None:
    packed = compress("snappy", b"one ") + compress("snappy", b"two")
    assert bytes(decompress(Codec.SNAPPY, memoryview(packed))) == b"one two"


def test_the_header_check_of_old_java_clients_is_put_right_and_other_headers_are_left_alone() -> None:
    good = compress("lz4", PLAIN)
    old = bytearray(good)
    old[6] = 0x1A  # what Java's clients wrote in magic 0 for a frame of independent blocks of 64 KiB
    with pytest.raises(cramjam.DecompressionError):
        cramjam.lz4.decompress(bytes(old))
    assert bytes(with_true_lz4_header(memoryview(bytes(old)))) == good
    assert bytes(with_true_lz4_header(memoryview(good))) == good
    assert bytes(decompress(Codec.LZ4, memoryview(bytes(old)))) == PLAIN
    old[6] = 0x1B
    with pytest.raises(DecompressionError):
        decompress(Codec.LZ4, memoryview(bytes(old)))


def test_frames_with_linked_blocks_and_checksums_are_read() -> None:
    packed = bytes(cramjam.lz4.compress(PLAIN))
    assert packed[4] & 0x34 == 0x14
    assert bytes(decompress(Codec.LZ4, memoryview(packed))) == PLAIN


@pytest.mark.parametrize("summed_from", [0, 4])
def test_frames_with_a_content_size_are_read_with_either_header_check(summed_from: int) -> None:
    head = LZ4_FRAME_MAGIC + bytes([0x68, 0x40]) + struct.pack("<Q", len(PLAIN))
    packed = head + bytes([lz4_header_check(head[summed_from:])]) + compress("lz4", PLAIN)[7:]
    assert bytes(decompress(Codec.LZ4, memoryview(packed))) == PLAIN


def test_a_snappy_block_that_claims_more_than_it_can_hold_is_refused_before_memory_is_taken() -> None:
    claim = bytes([0xFF, 0xFF, 0xFF, 0x7F]) + b"\0a"
    with pytest.raises(DecompressionError, match="claims"):
        decompress(Codec.SNAPPY, memoryview(claim))
    with pytest.raises(DecompressionError, match="claims"):
        decompress(Codec.SNAPPY, memoryview(compress("snappy", b"")[:16] + struct.pack(">i", 2**31 - 1)))


def test_gzip_with_a_wrong_sum_is_refused() -> None:
    packed = bytearray(compress("gzip", PLAIN))
    packed[-5] ^= 1
    assert zlib.crc32(PLAIN) != int.from_bytes(packed[-8:-4], "little")
    with pytest.raises(DecompressionError):
        decompress(Codec.GZIP, memoryview(bytes(packed)))
