"""Dumps are untrusted: lengths, counts, nesting, bombs and names that mean harm end in a row or a note."""

import io
import json
import resource
import struct
import zlib
from pathlib import Path
from typing import Any

import cramjam
import pytest
from click.testing import CliRunner
from crc32c import crc32c

from coordinator_replay.cli.main import main
from coordinator_replay.log.dump import find_dump
from coordinator_replay.log.segment import read_segment
from coordinator_replay.pipeline import lines
from coordinator_replay.pipeline.lines import decode_lines, read_without_spark
from coordinator_replay.records.decoder import decode_records
from tests.hostile.mutants import log_records
from tests.log.writer import LogEntry, write_batch
from tests.nightly import rest_at_night

HOSTILE_NAMES = [
    "\x1b[2J\x1b]0;owned\x07",
    "<script>alert(1)</script>",
    "=cmd|' /C calc'!A0",
    "'; DROP TABLE group_timeline; --",
    "../../../etc/passwd",
    "a\r\nb\tc\x00d",
    "\u202egnp.exe",
    "${jndi:ldap://x}{{7*7}}[red]",
    "x" * 30_000,
    "",
]


def peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def string(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def commit_key(group: str, topic: str = "shop") -> bytes:
    return b"\x00\x01" + string(group) + string(topic) + struct.pack(">i", 0)


def commit_value(metadata: str = "") -> bytes:
    return struct.pack(">hqi", 3, 42, -1) + string(metadata) + struct.pack(">q", 1000)


def compressed_batch(codec: int, payload: bytes) -> bytes:
    """A batch with a right checksum around whatever is said to be its records."""
    batch = bytearray(write_batch([LogEntry(key=b"k", value=b"v")], base_offset=0))[:61] + payload
    batch[8:12] = struct.pack(">i", len(batch) - 12)
    batch[21:23] = struct.pack(">h", codec)
    batch[17:21] = struct.pack(">I", crc32c(bytes(batch[21:])))
    return bytes(batch)


def zeros_gzip(size: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)) + packer.flush()


def snappy_claim(size: int) -> bytes:
    claim = bytearray()
    while size > 0x7F:
        claim.append((size & 0x7F) | 0x80)
        size >>= 7
    return bytes((*claim, size)) + b"\x00\x41" * 10


BOMBS = {
    "gzip": (1, lambda: zeros_gzip(600 << 20)),
    "snappy": (2, lambda: snappy_claim((1 << 32) - 1)),
    "lz4": (3, lambda: bytes(cramjam.lz4.compress(bytes(300 << 20)))),
    "zstd": (4, lambda: bytes(cramjam.zstd.compress(bytes(600 << 20)))),
}


@pytest.mark.parametrize("name", rest_at_night(sorted(BOMBS), ["lz4", "zstd", "snappy"]))
def test_a_decompression_bomb_is_damage_and_its_neighbours_stay(name: str):
    codec, make = BOMBS[name]
    bomb = compressed_batch(codec, make())
    good = write_batch([LogEntry(key=b"good", value=b"v")], base_offset=7)
    before = peak_kb()
    rows = [
        row
        for part in read_segment(io.BytesIO(good + bomb + good), source="b", log_partition=0, max_plain_bytes=16 << 20)
        for row in part.records.to_pylist()
    ]
    assert [row["key"] for row in rows if row["error_class"] is None] == [b"good", b"good"]
    assert len([row for row in rows if row["error_class"] is not None]) == 1
    assert peak_kb() - before < 120_000


@pytest.mark.parametrize(
    "value",
    [
        struct.pack(">h", 3) + string("consumer") + struct.pack(">iiqi", 1, -1, 0, 2**31 - 1),
        b"\x00\x03" + b"\x7f\xff" + b"x" * 10,
        b"\x00\x03" + b"\xff\xff\xff\xff",
        b"\x00\x63" + bytes(100),
    ],
    ids=["two milliard members", "a string longer than the record", "nothing but nulls", "a version nobody knows"],
)
def test_hostile_counts_and_lengths_are_quarantined(value: bytes):
    before = peak_kb()
    decoded = decode_records(log_records([(b"\x00\x02" + string("g"), value)] * 100))
    assert decoded.quarantine.num_rows == 100
    assert peak_kb() - before < 50_000


def test_names_that_mean_harm_are_data_and_nothing_else():
    pairs = [(commit_key(name, name), commit_value(name)) for name in HOSTILE_NAMES]
    found = [json.loads(line) for line in decode_lines(log_records(pairs)).to_pylist()]
    assert [one["group_id"] for one in found] == HOSTILE_NAMES
    assert [one["metadata"] for one in found] == HOSTILE_NAMES


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 200_000,
        b'{"a":' * 50_000,
        b'{"partition": 1e400, "offset": 1}',
        b'{"partition": 1000000000000000000000, "offset": 1}',
        b'{"partition": -1, "offset": 1}',
        b'{"partition": 1, "offset": ' + b"9" * 5000 + b"}",
        b'{"partition": 1, "offset": 1, "key": ["a"]}',
        b"\xff\xfe" * 100,
    ],
    ids=["deep array", "deep object", "infinite", "too large", "negative", "endless", "of another type", "no text"],
)
def test_a_hostile_line_is_quarantined_and_its_neighbours_stay(tmp_path: Path, line: bytes):
    good = b'{"topic":"__consumer_offsets","partition":1,"offset":%d,"ts":1,"key":"AAEAAWcAAXQAAAAA","payload":null}'
    (tmp_path / "dump.jsonl").write_bytes(b"\n".join([good % 1, line, good % 2]) + b"\n")
    dump = find_dump([str(tmp_path / "dump.jsonl")])
    (records,) = read_without_spark(dump, [])
    decoded = decode_records(records)
    assert decoded.commits.column("group_id").to_pylist() == ["g", "g"]
    assert decoded.quarantine.column("error_class").to_pylist() == ["MalformedLine"]


def test_a_time_that_no_calendar_has_is_no_time(tmp_path: Path):
    text = '{"partition":1,"offset":1,"ts":%d,"key":"AAEAAWcAAXQAAAAA","payload":null}\n'
    (tmp_path / "dump.jsonl").write_text("".join(text % ts for ts in (2**63 - 1, 10**17, -1, 1000)))
    (records,) = read_without_spark(find_dump([str(tmp_path / "dump.jsonl")]), [])
    assert [moment is None for moment in records.column("log_timestamp").to_pylist()] == [True, True, True, False]


def test_a_line_without_end_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lines, "_LONGEST_LINE", 1 << 20)
    good = b'{"partition":1,"offset":1,"key":"AAEAAWcAAXQAAAAA","payload":null}\n'
    (tmp_path / "dump.jsonl").write_bytes(good + b"x" * (5 << 20) + b"\n" + good)
    records = [
        row for batch in read_without_spark(find_dump([str(tmp_path / "dump.jsonl")]), []) for row in batch.to_pylist()
    ]
    assert records[0]["error_class"] is None
    assert max(len(row["value"] or b"") for row in records) <= 3 << 20


def test_names_of_folders_and_files_lead_nowhere(tmp_path: Path):
    dump = tmp_path / "dump"
    for name in ("__consumer_offsets-0", "__consumer_offsets-..", "__consumer_offsets-99999999999", "other-0"):
        (dump / name).mkdir(parents=True)
        (dump / name / f"{0:020}.log").write_bytes(write_batch([LogEntry(key=b"k", value=b"v")], base_offset=0))
    (dump / "__consumer_offsets-0" / f"{5:020}.log").symlink_to("/etc/passwd")
    found = find_dump([str(dump)])
    assert all(str(dump) in file.uri for file in found.segments)
    assert all(0 <= file.log_partition <= 2**31 - 1 for file in found.segments)


@pytest.mark.parametrize("command", ["decode"])
def test_no_control_character_reaches_a_terminal(tmp_path: Path, command: str):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    entries = [LogEntry(key=commit_key(name, name), value=commit_value(name)) for name in HOSTILE_NAMES]
    (folder / f"{0:020}.log").write_bytes(write_batch(entries, base_offset=0))
    result: Any = CliRunner().invoke(main, [command, str(tmp_path)])
    assert result.exit_code == 0
    assert not {character for character in result.output if ord(character) < 0x20} - {"\n"}
