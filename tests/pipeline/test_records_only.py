"""Runs that store records alone: each record once, with its place, whatever is given again, missing or damaged."""

import shutil
from pathlib import Path
from typing import Any

from coordinator_replay.pipeline.ledger import Run
from tests.pipeline.in_process import audit_here
from tests.pipeline.kafkas_decode import check_against_kafka, rows_of
from tests.samples import Sample


def audit(warehouse: Path | str, cluster: str, *inputs: Path | str, **options: Any) -> Run:
    """Audit dumps; the ledger of the run adds up."""
    run = audit_here(warehouse, *inputs, cluster=cluster, records_only=True, **options).run
    accounted = run.records_decoded + run.records_quarantined + run.control_records
    assert run.records_read == accounted + run.duplicates_dropped + run.already_audited
    return run


def versions(run):
    return {name: version for name, version in run.table_versions.items() if name != "audit_runs"}


def test_a_second_run_over_the_same_input_adds_nothing(tmp_path):
    sample = Sample("kafka-3.9")
    first = audit(str(tmp_path), "c", sample.segments)
    second = audit(str(tmp_path), "c", sample.segments)
    assert second.records_read == 0
    assert any(note.startswith("nothing new") for note in second.notes)
    assert versions(second) == versions(first)
    assert (second.from_offsets, second.to_offsets) == (first.from_offsets, first.to_offsets)
    again = audit(str(tmp_path), "c", sample.segments, full=True)
    assert again.records_read == again.already_audited == first.records_read
    assert versions(again) == versions(first)
    third = audit(str(tmp_path), "c", str(sample.folder / "parquet"))
    assert third.already_audited == third.records_read == first.records_decoded


def test_copies_of_a_partition_count_once_and_the_higher_leader_epoch_wins(tmp_path):
    sample = Sample("transactions")
    for broker in ("broker-1", "broker-2"):
        shutil.copytree(sample.segments, tmp_path / broker)
    changed = tmp_path / "broker-2" / "__consumer_offsets-0" / "00000000000000000000.log"
    raw = bytearray(changed.read_bytes())
    raw[12:16] = (7).to_bytes(4)  # the leader epoch of the first batch, which the checksum leaves out
    changed.write_bytes(raw)
    warehouse = str(tmp_path / "warehouse")
    run = audit(warehouse, "c", str(tmp_path / "broker-1"), str(tmp_path / "broker-2"))
    assert run.duplicates_dropped == len(sample.decoded)
    check_against_kafka(warehouse, "c", sample.decoded)


def test_deleted_segments_are_left_aside_or_bring_back_what_compaction_dropped(tmp_path):
    sample = Sample("compacted")
    plain = audit(str(tmp_path / "a"), "c", sample.segments)
    everything = audit(str(tmp_path / "b"), "c", sample.segments, include_deleted=True)
    assert any(".log.deleted" in note for note in plain.notes)
    assert everything.records_decoded > plain.records_decoded
    assert everything.duplicates_dropped > 0


def test_damage_is_quarantined_with_its_place_and_neighbours_survive(tmp_path):
    sample = Sample("java-clients")
    dump = tmp_path / "dump"
    shutil.copytree(sample.segments, dump)
    file = dump / "__consumer_offsets-1" / "00000000000000000000.log"
    raw = bytearray(file.read_bytes())
    raw[80] ^= 0xFF
    file.write_bytes(raw + b"torn")
    warehouse = str(tmp_path / "warehouse")
    run = audit(warehouse, "c", str(dump))
    assert run.records_quarantined == 1
    assert any("__consumer_offsets-1" in note for note in run.notes)
    (row,) = rows_of(warehouse, "quarantine", "c")
    assert row["error_class"] == "ChecksumMismatch"
    assert row["source"] == f"{file}@0"
    assert bytes(row["value"]) == bytes(raw[: len(row["value"])])
    again = audit(warehouse, "c", str(dump))
    assert again.records_quarantined == 0


def test_missing_before_rises_just_where_offsets_are_missing(tmp_path):
    audit(str(tmp_path), "gaps", Sample("compacted").segments)
    held = [row for table in ("offset_commits", "group_records") for row in rows_of(tmp_path, table, "gaps")]
    present = {(record["partition"], record["offset"]) for record in Sample("compacted").decoded}
    for row in held:
        partition, offset = row["log_partition"], row["log_offset"]
        assert row["missing_before"] == sum((partition, lower) not in present for lower in range(offset))
