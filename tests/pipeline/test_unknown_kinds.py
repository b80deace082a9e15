"""Records of kinds and layouts that not every release knows, from the dump to the findings."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coordinator_replay.api import Warehouse
from coordinator_replay.log.writer import LogEntry, write_records
from coordinator_replay.pipeline.audit import Summary
from coordinator_replay.records.plain import encode_key, encode_value
from tests.pipeline.in_process import audit
from tests.samples import DATA

__all__ = ["audit"]

START_MS = 1_790_000_000_000
KIND_24 = b"\0\x18\0\1g\0\2m1"
"""A key of the kind that follows the last one of Kafka 4.4: its group, and more."""


def dump(folder: Path, *records: tuple[bytes, bytes | None]) -> Path:
    """Write a segment of log partition 0, a record a second."""
    segment = folder / "segments" / "__consumer_offsets-0" / "00000000000000000000.log"
    segment.parent.mkdir(parents=True)
    entries = [
        LogEntry(key=key, value=value, timestamp_ms=START_MS + 1000 * offset, offset=offset)
        for offset, (key, value) in enumerate(records)
    ]
    segment.write_bytes(b"".join(write_records([entry]) for entry in entries))
    return folder / "segments"


def emptied(group: str) -> tuple[bytes, bytes]:
    value = {
        "protocolType": "consumer",
        "generation": 1,
        "protocol": None,
        "leader": None,
        "currentStateTimestamp": START_MS,
        "members": [],
    }
    return encode_key("GroupMetadata", {"group": group}), encode_value("GroupMetadata", 3, value)


def test_what_kafka_4_0_wrote_of_share_groups_is_read_to_the_last_record(tmp_path: Path, audit: Any) -> None:
    summary: Summary = audit(tmp_path / "tables", DATA / "reports" / "share-group-4.0" / "segments")
    assert not summary.quarantined
    here = Warehouse(tmp_path / "tables")
    (group,) = [group for group in here.groups() if group.group_id == "console-share-consumer"]
    assert (group.group_type, group.state) == ("share", "Stable")
    assert not here.findings(group="console-share-consumer", severity="warning")
    assert not here.findings(rules=["unreadable_records", "unknown_records"])
    (name,) = here.sql("SELECT topic FROM topics WHERE topic_id = 'AAAAAAAAAAAAAAAAAAAAZQ'")
    assert name == ("T1",)


def test_the_lists_of_a_member_of_the_preview_show_how_far_it_is(tmp_path: Path, audit: Any) -> None:
    audit(tmp_path / "tables", DATA / "reports" / "share-group-4.0" / "segments")
    members = {member.member_id: member for member in Warehouse(tmp_path / "tables").describe("g37")}
    assert members["m1"].member_state == "UNRELEASED_PARTITIONS"
    assert [(topic.topic, topic.partitions) for topic in members["m1"].current_assignment] == [("T1", (0, 1))]
    assert members["m2"].member_state == "STABLE"


@pytest.fixture
def unknown(tmp_path: Path, audit: Callable[..., Summary]) -> Warehouse:
    audit(tmp_path / "tables", dump(tmp_path, emptied("g"), (KIND_24, b"\0\0\0"), (KIND_24, None), emptied("h")))
    return Warehouse(tmp_path / "tables")


def test_a_record_of_an_unknown_kind_is_a_warning_and_filed_under_its_group(unknown: Warehouse) -> None:
    (finding,) = [
        finding for finding in unknown.findings() if finding.rule in ("unknown_records", "unreadable_records")
    ]
    assert (finding.rule, finding.severity, finding.occurrences) == ("unknown_records", "warning", 2)
    assert "kind 24" in finding.message
    assert "of 1 group: g" in finding.message
    rows = list(unknown.sql("SELECT group_id, error_class, kind, log_offset FROM quarantine ORDER BY log_offset"))
    assert rows == [("g", "UnknownRecordType", None, 1), ("g", "UnknownRecordType", None, 2)]


def test_a_record_of_an_unknown_kind_takes_no_proof_from_its_group(unknown: Warehouse) -> None:
    groups = {group.group_id: (group.state, group.is_exact) for group in unknown.groups()}
    assert groups == {"g": ("Empty", True), "h": ("Empty", True)}
    assert not unknown.describe("g").notes
