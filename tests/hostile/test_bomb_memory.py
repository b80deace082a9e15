"""What a process that reads bombs holds in memory: at most a gibibyte, as docs/security.md says."""

import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import cramjam
import pytest

from coordinator_replay.log.writer import LogEntry, write_batch
from tests.hostile.test_hostile import compressed_batch

pytestmark = pytest.mark.skipif(not hasattr(os, "wait4"), reason="asks the system for a child's memory")

MOST_KB = 1 << 20
BELOW = (128 << 20) - 4096
OVER = 600 << 20

READ = """
import sys
from pathlib import Path
from coordinator_replay.log.dump import DumpFile
from coordinator_replay.pipeline.read.decode import FileShare, decode_file
file = Path(sys.argv[1])
share = FileShare(
    file=DumpFile(str(file), 0, file.stat().st_size), skip=(), known={}, buckets=8, folder=sys.argv[2]
)
found = decode_file(share)
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
    if reader == "decode":
        peak = peak_kb(sys.executable, "-P", "-m", "coordinator_replay", "decode", str(tmp_path))
    else:
        peak = peak_kb(sys.executable, "-P", "-c", READ, str(file), str(tmp_path / "decoded"))
    print(f"{reader} {codec} {size >> 20} MiB: peak {peak >> 10} MiB")
    assert peak < MOST_KB
