"""What simulate writes: at every step the log tells what the coordinator answered then."""

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coordinator_replay.engine.model import Assignment, Marker, Record, merged
from coordinator_replay.engine.replay import StateReplay
from coordinator_replay.log.segment import read_segment
from coordinator_replay.records.plain import decode_record
from coordinator_replay.simulation.coordinator import Batch, MarkerWritten
from coordinator_replay.simulation.coordinator.script import ScriptRun, as_written
from coordinator_replay.simulation.simulated_log import write_log
from tests.engine.described import GroupDescription, describe
from tests.simulation.coordinator.recorded_scripts import SCRIPTS, commands

NO_ERROR = 0

FORGETS = {"48-forgotten-group"}
"""Scripts in which the coordinator drops an Empty consumer group from memory, and writes no record of it."""


class Log:
    """Replays of the groups of a log, record by record."""

    def __init__(self) -> None:
        self.replays: dict[str, StateReplay] = {}

    def feed(self, record: Record | Marker) -> None:
        if isinstance(record, Marker):
            for replay in self.replays.values():
                replay.apply_marker(record)
            return
        group_id = record.key.get("groupId") or record.key["group"]
        self.replays.setdefault(group_id, StateReplay(group_id)).apply(record)

    def describe(self, group_id: str) -> GroupDescription | None:
        replay = self.replays.get(group_id)
        if replay is None:
            return None
        replay.finish()
        return describe(replay)


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_log_tells_at_every_step_what_the_coordinator_answered(name: str) -> None:
    run, log, fed, compared = ScriptRun(), Log(), 0, 0
    for line in commands(name):
        answer = json.loads(run.run(line))
        for written in run.written[fed:]:
            for record in as_read(written):
                log.feed(record)
        fed = len(run.written)
        for event in answer["out"]:
            compared += compare(event, run, log, forgets=name in FORGETS)
    assert compared or not any('Describe"' in line or 'OffsetFetch"' in line for line in commands(name))


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_segment_holds_what_the_coordinator_wrote(name: str, tmp_path: Path) -> None:
    run = ScriptRun()
    for line in commands(name):
        run.run(line)
    read = read_back(write_log(tmp_path / "out", run.written, run.topics.values()))
    assert read == [record for one in run.written for record in as_read(one)]
    log, coordinator = Log(), run.coordinator
    assert coordinator is not None
    for record in read:
        log.feed(record)
    for group_id in log.replays:
        assert shown(log.describe(group_id)) == shown(describe(coordinator.replay(group_id)))
        assert log.replays[group_id].offsets.stored == coordinator.replay(group_id).offsets.stored


def compare(event: dict[str, Any], run: ScriptRun, log: Log, *, forgets: bool = False) -> int:
    """Hold an answer against the log; returns how many groups it told of."""
    response = event.get("response", {})
    match event.get("api"):
        case "ConsumerGroupDescribe":
            groups = response["groups"]
            for group in groups:
                described = log.describe(group["groupId"])
                if group["errorCode"] == NO_ERROR:
                    assert described is not None
                    assert told_by_log(described, run) == told_by_coordinator(group)
                else:
                    is_forgotten = forgets and described is not None and described.state == "Empty"
                    assert described is None or described.group_type != "consumer" or is_forgotten
            return len(groups)
        case "ListGroups":
            for group in response["groups"]:
                described = log.describe(group["groupId"])
                if group["groupType"] == "consumer":
                    assert described is not None
                    assert described.state == group["groupState"]
        case "OffsetFetch":
            for group in response["groups"]:
                compare_offsets(group, log)
            return len(response["groups"])
    return 0


def compare_offsets(group: dict[str, Any], log: Log) -> None:
    replay = log.replays.get(group["groupId"])
    for topic in group["topics"]:
        for partition in topic["partitions"]:
            stored = replay.offsets.stored.get((topic["name"], partition["partitionIndex"])) if replay else None
            if partition["errorCode"] == NO_ERROR:
                assert partition["committedOffset"] == (stored.committed_offset if stored is not None else -1)


def told_by_log(group: GroupDescription, run: ScriptRun) -> dict[str, Any]:
    coordinator = run.coordinator
    assert coordinator is not None
    known = coordinator.topics.by_id

    def existing(assignment: Assignment) -> dict[str, list[int]]:
        return {topic_id: list(numbers) for topic_id, numbers in assignment.items() if topic_id in known}

    members = [
        (
            member.member_epoch,
            existing(merged(member.assigned or {}, member.pending)),
            existing(member.target.assigned if member.target is not None else {}),
        )
        for member in group.members
    ]
    return {
        "state": str(group.state),
        "epoch": group.epoch,
        "assignment epoch": group.assignment_epoch,
        "members": sorted(members, key=lambda member: json.dumps(member, sort_keys=True)),
    }


def told_by_coordinator(group: dict[str, Any]) -> dict[str, Any]:
    def by_topic(assignment: dict[str, Any]) -> dict[str, list[int]]:
        topics = sorted(assignment["topicPartitions"], key=lambda topic: str(topic["topicId"]))
        return {topic["topicId"]: sorted(topic["partitions"]) for topic in topics}

    members = [
        (member["memberEpoch"], by_topic(member["assignment"]), by_topic(member["targetAssignment"]))
        for member in group["members"]
    ]
    return {
        "state": group["groupState"],
        "epoch": group["groupEpoch"],
        "assignment epoch": group["assignmentEpoch"],
        "members": sorted(members, key=lambda member: json.dumps(member, sort_keys=True)),
    }


def shown(group: GroupDescription | None) -> GroupDescription | None:
    """A description without the members of a classic group, whose blobs are not opened here."""
    return replace(group, members=()) if group is not None and group.group_type == "classic" else group


def as_read(written: Batch | MarkerWritten) -> Iterator[Record | Marker]:
    """Records as they are read from the segment: without what was opened beside its bytes."""
    if isinstance(written, MarkerWritten):
        yield written.marker
        return
    for record in written.records:
        yield record._replace(value=as_written(record.value))


def read_back(segment: Path) -> list[Record | Marker]:
    found: list[Record | Marker] = []
    for part in read_segment(io.BytesIO(segment.read_bytes()), source="simulated", log_partition=0):
        for row in part.records.to_pylist():
            at_ms = round(row["log_timestamp"].timestamp() * 1000)
            offset, producer_id = row["log_offset"], row["producer_id"]
            if row["control_type"] is not None:
                found.append(Marker(producer_id, row["control_type"] == "COMMIT", 0, offset, at_ms))
                continue
            decoded = decode_record(row["key"], row["value"])
            version = decoded.value_version
            found.append(Record(decoded.kind, decoded.key, decoded.value, 0, offset, at_ms, 0, version, producer_id))
    return found
