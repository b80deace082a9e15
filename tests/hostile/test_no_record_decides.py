"""What a few records of one group say changes nothing of what is said about others."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator_replay.records.plain import encode_key, encode_value
from coordinator_replay.times import LATEST_MS
from tests.hostile.recordings import encoded, recorded_lives, renamed, write_log
from tests.log.writer import LogEntry, write_batch
from tests.nightly import rest_at_night
from tests.pipeline.in_process import audit, content, contents
from tests.samples import Sample

__all__ = ["audit"]

NOW_MS = 1_795_250_150_000
"""A moment in the life of the sample at which offsets hold and offsets expire."""

TEN_YEARS_MS = 3650 * 86_400_000

FAR = [NOW_MS + 7_200_000, LATEST_MS]
"""Times that the log is not at."""


def commit(group: str, topic: str, at_ms: int, own_ms: int | None) -> LogEntry:
    """A commit that names a time of its own; a tombstone where that is None."""
    key = encode_key("OffsetCommit", {"group": group, "topic": topic, "partition": 0})
    value = None
    if own_ms is not None:
        told = {"offset": 1, "metadata": "", "commitTimestamp": own_ms, "expireTimestamp": -1, "leaderEpoch": -1}
        value = encode_value("OffsetCommit", 1, told)
    return LogEntry(key=key, value=value, timestamp_ms=at_ms)


FORGED = {
    "a commit of long ago": [commit("h-0", "own", NOW_MS, NOW_MS - TEN_YEARS_MS)],
    "commits of 1970": [commit(f"h-{n}", "own", NOW_MS, 1 + n) for n in range(5)],
    "tombstones of commits of long ago": [
        commit(f"h-{n}", "own", at_ms, own_ms)
        for n in range(3)
        for at_ms, own_ms in ((NOW_MS, NOW_MS - TEN_YEARS_MS), (NOW_MS + n, None))
    ],
    "one group's records of long ago": [
        commit("h-0", "kept", NOW_MS - TEN_YEARS_MS, NOW_MS - TEN_YEARS_MS),
        *(commit("h-0", f"own-{n}", NOW_MS - TEN_YEARS_MS, NOW_MS - TEN_YEARS_MS) for n in range(3)),
        *(commit("h-0", f"own-{n}", NOW_MS, None) for n in range(3)),
    ],
    "tombstones of others' topics": [
        one
        for seconds in range(0, 130, 5)
        for topic in ("shop.stale", "shop.simple")
        for one in (
            commit("h-0", topic, NOW_MS - 100_000 + seconds * 1000, NOW_MS - 100_000 + seconds * 1000),
            commit("h-0", topic, NOW_MS - 100_000 + seconds * 1000 + 1, None),
        )
    ],
}


def of_others(tables: dict[str, list[str]]) -> dict[str, list[str]]:
    """Rows of tables but those of the groups and the log partition that were added, and of all groups together."""
    return {
        name: [row for row in rows if '"group_id": "h-' not in row]
        for name, rows in tables.items()
        if name not in ("group_metrics", "log_partitions", "log_copies", "coordinator_changes")
    }


@pytest.mark.parametrize("name", rest_at_night(FORGED, ["tombstones of others' topics"]))
def test_causes_of_others_stay(name, audit, tmp_path):
    alone = audit(tmp_path / "alone", Sample("expiration").segments)
    shutil.copytree(Sample("expiration").segments, tmp_path / "dump")
    write_log(tmp_path / "dump", FORGED[name], log_partition=49)
    done = audit(tmp_path / "warehouse", tmp_path / "dump")
    assert "offset retention: 1 minutes, inferred from observed expirations" in alone.run.notes
    assert "offset retention: 1 minutes, inferred from observed expirations" in done.run.notes
    assert done.run.log_end == alone.run.log_end
    expected = of_others(contents(tmp_path / "alone"))
    found = of_others(contents(tmp_path / "warehouse"))
    assert sum('"EXPIRED"' in row for row in expected["expired_offsets"]) == 14
    for table, rows in expected.items():
        assert found[table] == rows, table


TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
NAMES = ("nnn", "zzz", "aaa", "mmm")


def names_a_topic(name: str) -> LogEntry:
    topic = {"topicId": TOPIC_ID, "topicName": name, "numPartitions": 1, "partitionMetadata": []}
    return LogEntry(
        key=encode_key("ConsumerGroupPartitionMetadata", {"groupId": f"calls it {name}"}),
        value=encode_value("ConsumerGroupPartitionMetadata", 0, {"topics": [topic]}),
        timestamp_ms=NOW_MS,
    )


def write_night(folder: Path, offset: int, log_partition: int, *records: LogEntry) -> Path:
    """A night of one log partition: some records, or the one that names the topic."""
    place = folder / f"__consumer_offsets-{log_partition}"
    place.mkdir(parents=True)
    batch = write_batch(records or [names_a_topic(NAMES[offset])], base_offset=offset)
    (place / f"{offset:020}.log").write_bytes(batch)
    return folder


@pytest.mark.parametrize("order", rest_at_night([(0, 1, 2, 3), (3, 2, 1, 0), (2, 3, 0, 1)], [(2, 3, 0, 1)]), ids=str)
def test_the_last_record_of_the_log_names_a_topic_in_every_slicing(order, audit, tmp_path):
    nights = [write_night(tmp_path / f"night-{offset}", offset, offset % 2) for offset in range(len(NAMES))]
    audit(tmp_path / "whole", *nights)
    for offset in order:
        audit(tmp_path / "nightly", nights[offset])
    [topic] = [json.loads(row) for row in content(tmp_path / "nightly", "topics")]
    assert (topic["topic"], topic["log_partition"], topic["log_offset"]) == ("mmm", 1, 3)
    assert content(tmp_path / "whole", "topics") == content(tmp_path / "nightly", "topics")
    audit(tmp_path / "nightly", *nights, full=True)
    assert content(tmp_path / "whole", "topics") == content(tmp_path / "nightly", "topics")


def a_member_with_a_target() -> Iterator[LogEntry]:
    """A member that never owns what it is to own."""
    member = {"groupId": "g", "memberId": "m"}
    target = {"topicPartitions": [{"topicId": TOPIC_ID, "partitions": [0]}]}
    metadata: dict[str, Any] = dict.fromkeys(("instanceId", "rackId", "subscribedTopicRegex", "serverAssignor"))
    metadata |= {"clientId": "c", "clientHost": "/10.0.0.9", "subscribedTopicNames": ["mmm"]}
    metadata |= {"rebalanceTimeoutMs": 1, "classicMemberMetadata": None}
    assignment = {"memberEpoch": 1, "previousMemberEpoch": 0, "state": 1}
    assignment |= {"assignedPartitions": [], "partitionsPendingRevocation": []}
    for kind, key, value in (
        ("ConsumerGroupMemberMetadata", member, metadata),
        ("ConsumerGroupMetadata", {"groupId": "g"}, {"epoch": 1, "metadataHash": 1}),
        ("ConsumerGroupTargetAssignmentMember", member, target),
        ("ConsumerGroupTargetAssignmentMetadata", {"groupId": "g"}, {"assignmentEpoch": 1}),
        ("ConsumerGroupCurrentMemberAssignment", member, assignment),
    ):
        yield LogEntry(key=encode_key(kind, key), value=encode_value(kind, 0, value), timestamp_ms=NOW_MS)


@pytest.mark.long
def test_a_topic_that_nobody_owned_is_named_in_nights_as_in_one_run(audit, tmp_path):
    nights = [
        write_night(tmp_path / "night-0", 0, 0, *a_member_with_a_target()),
        *(write_night(tmp_path / f"night-{offset}", offset, 1) for offset in (2, 3)),
    ]
    audit(tmp_path / "whole", *nights)
    for night in nights:
        audit(tmp_path / "nightly", night)
    [member] = [row["target"] for row in map(json.loads, content(tmp_path / "nightly", "member_timeline"))]
    assert [topic["topic"] for topic in member] == ["mmm"]
    for table, rows in contents(tmp_path / "whole").items():
        assert content(tmp_path / "nightly", table) == rows, table


def a_life_that_goes_on() -> list[LogEntry]:
    """A recorded group with rebalances, whose offsets are committed again a minute after its last record."""
    life = next(one for one in recorded_lives() if len(one) == 15 and one[0].record.kind == "GroupMetadata")
    entries = [*encoded(renamed(life, "g"))]
    commits = [entry for one, entry in zip(life, entries, strict=True) if one.record.kind == "OffsetCommit"]
    later = entries[-1].timestamp_ms + 60_000
    return [*entries, *(LogEntry(key=one.key, value=one.value, timestamp_ms=later) for one in commits)]


def deleted(life: list[LogEntry]) -> list[LogEntry]:
    """A life that a deletion ends, though its offsets are committed again a minute later."""
    at = next(place for place in range(len(life)) if life[place].timestamp_ms == life[-1].timestamp_ms)
    tombstone = LogEntry(
        key=encode_key("GroupMetadata", {"group": "g"}), value=None, timestamp_ms=life[at - 1].timestamp_ms + 1
    )
    return [*life[:at], tombstone, *life[at:]]


def audited_whole_and_in_nights(entries, cut, audit, tmp_path):
    """Audit entries at once and in two nights; the rows of the former by table."""
    nights = [
        write_night(tmp_path / "night-1", 0, 0, *entries[:cut]),
        write_night(tmp_path / "night-2", cut, 0, *entries[cut:]),
    ]
    audit(tmp_path / "whole", *nights)
    for night in nights:
        audit(tmp_path / "nightly", night)
    return contents(tmp_path / "whole")


@pytest.mark.parametrize("cut", rest_at_night([2, 16], [16]))
@pytest.mark.parametrize("at_ms", rest_at_night(FAR, [FAR[0]]), ids=["two hours later", "the last time"])
def test_a_time_that_the_log_is_not_at_ends_no_pause_of_others(at_ms, cut, audit, tmp_path):
    entries = [commit("far", "own", at_ms, NOW_MS), *a_life_that_goes_on()]
    expected = audited_whole_and_in_nights(entries, cut, audit, tmp_path)
    assert any(json.loads(row)["commit_pause_ms"] > 60_000 for row in expected["rebalances"])
    for table, rows in expected.items():
        assert content(tmp_path / "nightly", table) == rows, table


@pytest.mark.long
@pytest.mark.parametrize("at_ms", FAR, ids=["two hours later", "the last time"])
def test_a_time_that_the_log_is_not_at_closes_no_rebalance_of_others(at_ms, audit, tmp_path):
    entries = a_life_that_goes_on()
    for name, other_ms in (("far", at_ms), ("near", entries[-1].timestamp_ms)):
        audit(
            tmp_path / name,
            write_night(tmp_path / f"{name}-dump", 0, 0, commit("far", "own", other_ms, NOW_MS), *entries),
        )
    expected = content(tmp_path / "near", "rebalances")
    assert any(json.loads(row)["is_open"] for row in expected)
    assert content(tmp_path / "far", "rebalances") == expected


@pytest.mark.long
@pytest.mark.parametrize("cut", rest_at_night([2, 15, 16], [16]))
def test_a_rebalance_of_a_deleted_group_is_closed_and_has_the_pause_that_one_run_gives(cut, audit, tmp_path):
    entries = deleted(a_life_that_goes_on())
    expected = audited_whole_and_in_nights(entries, cut, audit, tmp_path)
    rebalances = [json.loads(row) for row in expected["rebalances"]]
    assert any(row["settled_at_offset"] is not None for row in rebalances)
    assert all(row["is_open"] == (row["settled_at_offset"] is None) for row in rebalances)
    assert any(row["commit_pause_ms"] > 60_000 for row in rebalances)
    for table, rows in expected.items():
        assert content(tmp_path / "nightly", table) == rows, table
