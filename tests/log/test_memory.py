"""Memory is bounded by the window and the largest batch, whatever the size of the file."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.nightly import rest_at_night

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="asks Linux for the peak of memory")

REPOSITORY = Path(__file__).parents[2]

READ = """
import gzip, os, struct, sys
sys.path.insert(0, "scripts")
import numpy as np, pyarrow as pa
from benchmarks.bulk_writer import write_batches
from crc32c import crc32c
from coordinator_replay.log.segment import read_segment
from tests.log.writer import LogEntry, compress, write_batch

class Endless:
    '''The same bytes over and over.'''
    def __init__(self, data, times):
        self.data, self.left, self.rest = data, times, b""
    def readinto(self, memory):
        if not self.rest and self.left:
            self.rest, self.left = memoryview(self.data), self.left - 1
        count = min(len(memory), len(self.rest))
        memory[:count] = self.rest[:count]
        self.rest = self.rest[count:]
        return count

def resident(name):
    line = next(line for line in open("/proc/self/status") if line.startswith(name))
    return int(line.split()[1]) >> 10

def measure(file):
    '''Rows, and by how many MiB memory rose while they were read.'''
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")
    before = resident("VmRSS")
    rows = sum(part.records.num_rows for part in read_segment(file, source="a", log_partition=0))
    return rows, resident("VmHWM") - before

def batches(count, size):
    keys = pa.array([b"k" * 30] * count, pa.binary())
    values = pa.array([b"v" * size] * count, pa.binary())
    return write_batches(keys, values, np.arange(count), np.full(count // 10, 10), 0, 0)

list(read_segment(Endless(batches(1000, 70), 1), source="a", log_partition=0))
"""


def _measure(code: str) -> tuple[int, int]:
    done = subprocess.run(
        [sys.executable, "-c", READ + code], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows, mebibytes = done.stdout.split()
    return int(rows), int(mebibytes)


@pytest.mark.long
def test_a_file_of_a_gibibyte_takes_little_more_than_a_window() -> None:
    rows, mebibytes = _measure("print(*measure(Endless(batches(100_000, 70), 90)))")
    assert rows == 9_000_000
    assert mebibytes < 120


def test_a_large_gzipped_file_takes_no_more() -> None:
    rows, mebibytes = _measure("print(*measure(Endless(gzip.compress(batches(10_000, 70), 1), 300)))")
    assert rows == 3_000_000
    assert mebibytes < 120


@pytest.mark.parametrize("codec", rest_at_night(["gzip", "zstd", "lz4", "snappy"], ["gzip"]))
def test_compressed_batches_are_taken_apart_a_few_at_a_time(codec: str) -> None:
    """A window of these holds some thousand times its size."""
    code = f"""
batch = write_batch([LogEntry(key=b"k", value=bytes(1_000_000))] * 3, base_offset=0, codec={codec!r})
print(*measure(Endless(batch, 300)))
"""
    rows, mebibytes = _measure(code)
    assert rows == 900
    assert mebibytes < 150


def test_a_batch_of_millions_of_tiny_records_comes_in_slices() -> None:
    """As columns of one part they would take 100 MiB and more."""
    code = """
entries = [LogEntry(key=None, value=None, timestamp_ms=0)] * 1_000_000
batch = write_batch(entries, base_offset=0, codec="zstd")
del entries
print(*measure(Endless(batch, 1)))
"""
    rows, mebibytes = _measure(code)
    assert rows == 1_000_000
    assert mebibytes < 80


def test_a_count_that_lies_takes_no_memory() -> None:
    code = """
summed = struct.pack(">hiqqqhii", 0, 2**31 - 1, 0, 0, -1, -1, -1, 2**31 - 1) + bytes(1000)
batch = struct.pack(">qiibI", 0, 9 + len(summed), 0, 2, crc32c(summed)) + summed
print(*measure(Endless(batch, 1000)))
"""
    rows, mebibytes = _measure(code)
    assert rows == 1000
    assert mebibytes < 60


def test_damage_and_padding_of_any_length_take_no_memory() -> None:
    for code in ("Endless(bytes(1 << 20), 300)", "Endless(os.urandom(1 << 20), 100)"):
        rows, mebibytes = _measure(f"print(*measure({code}))")
        assert rows <= 1
        assert mebibytes < 120
