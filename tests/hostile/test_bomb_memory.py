"""What a process that reads bombs holds in memory: at most a gibibyte, as docs/security.md says."""

import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import cramjam
import pytest

from coordinator_replay.records.damage import LARGEST_RECORD_BYTES
from tests.hostile.test_hostile import compressed_batch
from tests.log.writer import LogEntry, write_batch

pytestmark = pytest.mark.skipif(not hasattr(os, "wait4"), reason="asks the system for a child's memory")

MOST_KB = 1 << 20
BELOW = (128 << 20) - 4096
OVER = 600 << 20
AT_MS = 1_700_000_000_000

READ = """
import sys
from pathlib import Path
from coordinator_replay.log.dump import DumpFile
from coordinator_replay.pipeline.read.decode import FileShare, decode_files
file = Path(sys.argv[1])
share = FileShare(file=DumpFile(str(file), 0, file.stat().st_size), skip=(), audited={})
found = decode_files([share], folder=sys.argv[2], buckets=8)
assert found.tally.end() is not None
"""
"""The stage of an audit that reads segments, as a worker runs it."""


def zlib_bomb(size: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)) + packer.flush()


CODECS: dict[str, tuple[int, Callable[[int], bytes]]] = {
    "gzip": (1, zlib_bomb),
    "snappy": (2, lambda size: bytes(cramjam.snappy.compress_raw(bytes(size)))),
    "lz4": (3, lambda size: bytes(cramjam.lz4.compress(bytes(size)))),
    "zstd": (4, lambda size: bytes(cramjam.zstd.compress(bytes(size)))),
}


def peak_kb(*command: str) -> int:
    """What a process holds at most; it must end well."""
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert running.stderr is not None
    told = running.stderr.read()
    _, status, used = os.wait4(running.pid, 0)
    running.returncode = os.waitstatus_to_exitcode(status)
    running.stderr.close()
    assert running.returncode == 0, told.decode()
    return used.ru_maxrss


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def classic_group(members: int) -> bytes:
    """The value of a classic group with so many members, each as short as can be."""
    head = struct.pack(">h", 3) + text("consumer") + struct.pack(">i", 1) + text("range") + text("m0")
    nothing = struct.pack(">hiiii", -1, 1, 1, 0, 0)
    one = (text(f"m{number}") + nothing[:2] + text("c") + text("h") + nothing[2:] for number in range(members))
    return head + struct.pack(">qi", AT_MS, members) + b"".join(one)


GROUP_KEY = struct.pack(">h", 2) + text("g")
COMMIT_KEY = b"\x00\x01\x00\x01g\x00\x01t"
MEMBERS_IN_A_MEBIBYTE = (1 << 20) // 35


def well_formed_bombs(name: str) -> list[LogEntry]:
    """Records that make a batch of some 120 MiB of a few kilobytes."""
    alien, tiny = b"\x00\x63aa", classic_group(1)
    if name == "a record of no kind that is known":
        pairs = [(alien, bytes(120 << 20))]
    elif name == "a group of millions of members":
        pairs = [(GROUP_KEY, classic_group(100 * MEMBERS_IN_A_MEBIBYTE))]
    elif name == "groups just below the largest record":
        value = classic_group((LARGEST_RECORD_BYTES >> 20) * MEMBERS_IN_A_MEBIBYTE)
        assert 0.9 * LARGEST_RECORD_BYTES < len(value) <= LARGEST_RECORD_BYTES
        pairs = [(GROUP_KEY, value)] * (120 // (LARGEST_RECORD_BYTES >> 20))
    elif name == "small groups":
        pairs = [(GROUP_KEY, tiny)] * ((120 << 20) // (len(tiny) + 20))
    else:
        pairs = [(COMMIT_KEY + struct.pack(">i", number), None) for number in range((120 << 20) // 24)]
    return [LogEntry(key=key, value=value, timestamp_ms=AT_MS) for key, value in pairs]


def write_well_formed(name: str, file: Path) -> None:
    file.write_bytes(write_batch(well_formed_bombs(name), base_offset=0, codec="zstd"))


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "a record of no kind that is known",
        "a group of millions of members",
        "groups just below the largest record",
        "small groups",
        "tombstones",
    ],
)
@pytest.mark.parametrize("reader", ["decode", "stage"])
def test_well_formed_bombs_take_no_more_than_a_gibibyte(tmp_path: Path, name: str, reader: str):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    file = folder / f"{0:020}.log"
    # In a process of its own: a process that is started counts what the one that starts it holds.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as other:
        other.submit(write_well_formed, name, file).result()
    check_peak(tmp_path, file, reader, name)


def check_peak(dump: Path, file: Path, reader: str, name: str) -> None:
    if reader == "decode":
        peak = peak_kb(sys.executable, "-P", "-m", "coordinator_replay", "decode", str(dump))
    else:
        peak = peak_kb(sys.executable, "-P", "-c", READ, str(file), str(dump / "decoded"))
    print(f"{reader} {name}: peak {peak >> 10} MiB")
    assert peak < MOST_KB


@pytest.mark.long
@pytest.mark.parametrize("size", [BELOW, OVER], ids=["below the limit", "over the limit"])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("reader", ["decode", "stage"])
def test_bombs_take_no_more_than_a_gibibyte(tmp_path: Path, codec: str, size: int, reader: str):
    number, packed = CODECS[codec]
    bomb = compressed_batch(number, packed(size))
    key = b"\x00\x01\x00\x01g\x00\x01t" + bytes(4)
    good = [write_batch([LogEntry(key=key, value=None, timestamp_ms=1)], base_offset=at) for at in range(5)]
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    file = folder / f"{0:020}.log"
    file.write_bytes(b"".join(one + bomb for one in good[:4]) + good[4])
    check_peak(tmp_path, file, reader, f"{codec} {size >> 20} MiB")
