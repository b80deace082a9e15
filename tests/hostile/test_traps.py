"""Traps that other tools fell into, a test for each, by name of who fell."""

import io
import struct
from pathlib import Path
from typing import Any

import pytest

from coordinator_replay.engine.model import GroupState, Marker, Record
from coordinator_replay.engine.replay import StateReplay
from coordinator_replay.log.dump import find_dump
from coordinator_replay.log.segment import read_segment
from coordinator_replay.pipeline.lines import read_without_spark
from coordinator_replay.records.decoder import decode_records
from tests.engine.described import describe
from tests.hostile.mutants import log_records
from tests.log.writer import LogEntry, write_batch
from tests.samples import Sample

ORDERS = b"\x00\x06orders"
"""The group's name as a string of a key."""


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def decoded(key: bytes, value: bytes | None) -> dict[str, Any]:
    """What is made of one record, whatever it is."""
    made = decode_records(log_records([(key, value)]))
    (row,) = [row for batch in (made.commits, made.groups, made.quarantine) for row in batch.to_pylist()]
    return dict(row)


def test_burrow_compact_lengths_of_more_than_one_byte():
    """A compact length is a varint: from 127 characters on it takes two bytes."""
    client_id = "c" * 300
    length = len(client_id) + 1
    compact = bytes(((length & 0x7F) | 0x80, length >> 7)) + client_id.encode()
    nothing = b"\x00"
    value = b"".join(
        (
            b"\x00\x00",  # version
            nothing,  # instance id
            nothing,  # rack id
            compact,
            b"\x05/h:1",  # client host
            b"\x02\x02t",  # subscribed topics
            nothing,  # expression
            struct.pack(">i", 300_000),
            nothing,  # assignor
            nothing,  # tagged fields
        )
    )
    row = decoded(b"\x00\x05" + ORDERS + text("m"), value)
    assert row["kind"] == "ConsumerGroupMemberMetadata"
    assert client_id in row["value_json"]


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_burrow_no_version_of_a_value_is_forgotten(version: int):
    key = b"\x00\x01" + ORDERS + text("shop") + struct.pack(">i", 3)
    fields = (
        struct.pack(">q", 42) + (struct.pack(">i", 5) if version == 3 else b"") + text("") + struct.pack(">q", 1000)
    )
    if version == 1:
        fields += struct.pack(">q", 2000)
    row = decoded(key, struct.pack(">h", version) + fields)
    assert (row["committed_offset"], row["value_version"]) == (42, version)
    members = struct.pack(">i", 0)
    head = text("consumer") + struct.pack(">i", 4) + b"\xff\xff\xff\xff"
    since = struct.pack(">q", 7) if version >= 2 else b""
    group = decoded(b"\x00\x02" + ORDERS, struct.pack(">h", version) + head + since + members)
    assert (group["kind"], group["value_version"]) == ("GroupMetadata", version)


def test_kafbat_the_key_says_what_a_value_is():
    """These bytes are a whole value of either kind."""
    value = struct.pack(">h", 1) + struct.pack(">q", 3) + text("") + struct.pack(">qq", 1000, -1)
    commit = decoded(b"\x00\x01" + ORDERS + text("shop") + struct.pack(">i", 0), value)
    assert commit["committed_offset"] == 3
    other = decoded(b"\x00\x02" + ORDERS, value)
    assert "committed_offset" not in other


def test_retained_tombstones_remove_offsets():
    assert committed(commit(0, 5), commit(1, None)) is None


def test_mixed_commits_count_by_their_records_and_not_by_their_markers():
    """kafka#15183: the plain commit was made after the pending one, and before that one's marker."""
    assert committed(commit(0, 9, producer_id=7), commit(1, 5), Marker(7, True, 0, 2, 2)) == 5
    assert committed(commit(0, 5), commit(1, 9, producer_id=7), Marker(7, True, 0, 2, 2)) == 9


def commit(log_offset: int, value: int | None, producer_id: int = -1) -> Record:
    key = {"group": "orders", "topic": "shop", "partition": 0}
    fields = {"offset": value, "leaderEpoch": -1, "metadata": "", "commitTimestamp": log_offset}
    told = None if value is None else fields
    return Record("OffsetCommit", key, told, 0, log_offset, log_offset, producer_id=producer_id)


def committed(*entries: Record | Marker) -> int | None:
    replay = StateReplay("orders")
    for entry in entries:
        if isinstance(entry, Marker):
            replay.apply_marker(entry)
        else:
            replay.apply(entry)
    found = replay.offsets.stored.get(("shop", 0))
    return None if found is None else found.committed_offset


def test_offsets_may_come_before_the_groups_own_records():
    """kafka#16898: compaction removed the group's first records and kept its offsets, and a loader failed."""
    replay = StateReplay("orders")
    replay.apply(commit(3, 5))
    replay.apply(Record("ConsumerGroupMetadata", {"groupId": "orders"}, {"epoch": 4, "metadataHash": 0}, 0, 9, 9, 5))
    replay.finish()
    assert replay.state is GroupState.EMPTY
    assert replay.offsets.stored[("shop", 0)].committed_offset == 5
    assert not describe(replay).is_exact


def test_a_streams_topology_tombstone_may_come_after_the_groups():
    """kafka#23552: a loader finds no group for the late tombstone."""
    replay = StateReplay("orders")
    key = {"groupId": "orders"}
    topology = {"epoch": 1, "subtopologies": []}
    group = {"epoch": 1, "metadataHash": 0, "validatedTopologyEpoch": 1}
    for offset, (kind, value) in enumerate(
        [
            ("StreamsGroupMetadata", group),
            ("StreamsGroupTopology", topology),
            ("StreamsGroupMetadata", None),
            ("StreamsGroupTopology", None),
        ]
    ):
        replay.apply(Record(kind, key, value, 0, offset, offset))
    replay.finish()
    assert replay.state is GroupState.DEAD
    assert replay.group is None


@pytest.mark.timeout(30)
def test_two_empty_segments_do_not_make_a_reader_spin(tmp_path: Path):
    """KAFKA-9065: a loader went round for ever between two segments without records."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    for base in (0, 1, 2):
        (folder / f"{base:020}.log").write_bytes(b"")
    (folder / f"{3:020}.log").write_bytes(write_batch([LogEntry(key=b"k", value=b"v")], base_offset=3))
    empty = write_batch([], base_offset=4, last_offset=9)
    (folder / f"{4:020}.log").write_bytes(empty + write_batch([], base_offset=10, last_offset=12))
    notes: list[str] = []
    records = list(read_without_spark(find_dump([str(tmp_path)]), notes))
    assert sum(batch.num_rows for batch in records) == 1
    (last,) = read_segment(io.BytesIO(), source="empty", log_partition=0)
    assert last.coverage is not None and last.coverage.records == 0


@pytest.mark.long
@pytest.mark.spark
def test_expiry_is_not_assumed_to_take_seven_days(spark: object, tmp_path: Path):
    """The broker of this sample kept offsets for a minute; nobody tells the audit."""
    from coordinator_replay.pipeline.audit import Options, run_audit
    from coordinator_replay.query.tables import Tables

    run = run_audit(spark, Options(inputs=[Sample("expiration").segments], warehouse=str(tmp_path))).run  # type: ignore[arg-type]
    assert any("offset retention: 1 minutes, inferred" in note for note in run.notes)
    found = Tables(str(tmp_path)).rows("SELECT DISTINCT retention_ms FROM expired_offsets")
    assert found == [(60_000,)]
