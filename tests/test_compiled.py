"""The compiled functions, wherever numba may or may not keep what it compiled, against the same ones as written."""

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay import compiled
from coordinator_replay.log import record_batch
from coordinator_replay.log.checksum import count_intact, entry_checksum
from coordinator_replay.log.record_batch import scan_records

REPOSITORY = Path(__file__).parents[1]
SEGMENT = "tests/data/group-lifecycles/segments/__consumer_offsets-0/00000000000000000000.log"
READ = (
    "from coordinator_replay.log.segment import read_segment;"
    f"rows = sum(p.records.num_rows for p in read_segment(open({SEGMENT!r}, 'rb'), source='', log_partition=0));"
    "assert rows == 217, rows"
)


def _run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_compiled_code_is_kept_where_there_is_a_folder_for_it(tmp_path: Path) -> None:
    _run(READ, NUMBA_CACHE_DIR=str(tmp_path))
    assert {path.name.split("-")[0] for path in tmp_path.rglob("*.nbi")} == {"header.hop", "record_batch.scan"}
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb*")}
    _run(READ, NUMBA_CACHE_DIR=str(tmp_path))
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb*")} == kept


def test_segments_are_read_where_compiled_code_can_be_kept_nowhere(tmp_path: Path) -> None:
    """A file where the folder should be: also the superuser can't write there."""
    (tmp_path / "file").touch()
    nowhere = "import numba.core.config as c; c.CACHE_LOCATOR_CLASSES = 'UserProvidedCacheLocator';"
    _run(nowhere + READ, NUMBA_CACHE_DIR=str(tmp_path / "file" / "folder"))


def test_compiled_code_leaves_no_sequence_on_a_terminal() -> None:
    reader, terminal = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", f"{READ}; print('read')"], cwd=REPOSITORY, stdout=terminal, check=False
    )
    os.close(terminal)
    assert (done.returncode, os.read(reader, 4096)) == (0, b"read\r\n")
    os.close(reader)


def test_a_cache_that_fails_at_the_first_call_does_not_stop_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def double(number: int) -> int:
        return 2 * number

    def with_full_disk(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numba.core.caching.FunctionCache.save_overload", with_full_disk)
    monkeypatch.setattr("numba.core.caching.FunctionCache.load_overload", lambda *_: None)
    assert compiled.compiled(double)(21) == 42


BODIES = st.lists(st.tuples(st.binary(max_size=60), st.integers(0, 5), st.integers(-1, 9)), max_size=5)


@given(BODIES, st.booleans())
def test_compiled_and_plain_scan_agree_on_any_bytes(bodies: list[tuple[bytes, int, int]], whole: bool) -> None:
    data = np.frombuffer(bytearray(b"".join(body for body, _, _ in bodies)), np.uint8)
    ends = np.cumsum([len(body) for body, _, _ in bodies], dtype=np.int64)
    counts = np.array([min(count, len(body) // 7) for body, count, _ in bodies], np.int64)
    several = np.arange(len(bodies))
    lasts, own = np.array([last for _, _, last in bodies], np.int64), several % 2 == 0
    starts = ends - [len(body) for body, _, _ in bodies]
    limits = [starts, ends, counts, several * 0 - 1, lasts, np.full(len(bodies), whole)]
    batches = np.stack([*limits, several * 1000, several * -77, own, several * 61]).astype(np.int64)
    fast, fast_stops = scan_records(data, batches.copy())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_batch, "scan", record_batch.scan.__wrapped__)  # type: ignore[attr-defined]
        for name in ("_varint", "_long_varint", "_after", "_after_headers", "_record", "_copy"):
            patch.setattr(record_batch, name, getattr(record_batch, name).py_func)
        plain, plain_stops = scan_records(data, batches.copy())
    assert fast_stops.tolist() == plain_stops.tolist()
    assert fast.counts.tolist() == plain.counts.tolist()
    for name in ("offsets", "timestamps_ms", "batch_offsets", "batch_positions"):
        assert getattr(fast, name).tolist() == getattr(plain, name).tolist()
    assert (fast.keys, fast.values) == (plain.keys, plain.values)


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from([28, 63]))
def test_varints_of_either_width_are_read_and_wider_ones_refused(number: int, last_shift: int) -> None:
    rest = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while rest >= 0x80:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    data = np.frombuffer(encoded, np.uint8)
    fits = last_shift == 63 or -(2**31) <= number < 2**31
    expected = (number, len(data)) if fits else (0, -1)
    assert record_batch._varint(data, 0, len(data), last_shift) == expected
    plain = record_batch._varint.py_func  # type: ignore[attr-defined]
    assert plain(data, 0, len(data), last_shift) == expected
    assert record_batch._varint(data, 0, len(data) - 1, last_shift) == (0, -1)


@given(st.lists(st.binary(max_size=1500), min_size=1, max_size=6), st.sampled_from([1, 2]), st.data())
def test_entries_are_intact_up_to_the_first_wrong_sum(bodies: list[bytes], magic: int, data: st.DataObject) -> None:
    entries = [bytes(21) + body for body in bodies]
    ends = np.cumsum([len(entry) for entry in entries], dtype=np.int64)
    starts = ends - [len(entry) for entry in entries]
    checksums = np.array([entry_checksum(memoryview(entry), magic) for entry in entries])
    array = np.frombuffer(bytearray(b"".join(entries)), np.uint8)
    assert count_intact(array, starts, ends, checksums, magic) == len(entries)
    wrong = data.draw(st.sets(st.integers(0, len(entries) - 1), min_size=1, max_size=3))
    for index in wrong:
        checksums[index] ^= 1 << data.draw(st.integers(0, 31))
    assert count_intact(array, starts, ends, checksums, magic) == min(wrong)
