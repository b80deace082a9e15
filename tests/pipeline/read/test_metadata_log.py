"""Leaders by the cluster metadata: epochs are counted from a record or a snapshot on, and never over a gap."""

from itertools import pairwise

import pytest

from coordinator_replay.analysis.coordinator_changes import LeaderChange
from coordinator_replay.pipeline.read.metadata_log import (
    OFFSETS_TOPIC,
    MetadataFile,
    TopicRecord,
    leader_changes,
    metadata_files,
    read_metadata,
)
from tests.samples import DATA


@pytest.fixture(scope="module")
def recorded() -> MetadataFile:
    [file] = metadata_files(str(DATA / "failovers" / "cluster-metadata"))
    return read_metadata(file)


def cut(whole: MetadataFile, *at: int) -> list[MetadataFile]:
    """The log in parts that begin at some offsets."""
    return [
        MetadataFile(start, end, False, [one for one in whole.records if start <= one.log_offset < end])
        for start, end in pairwise([0, *at, whole.end_offset])
    ]


def snapshot(whole: MetadataFile, at: int) -> MetadataFile:
    """A snapshot as the controller makes it: each partition with the leader and leader epoch that it has then."""
    topic = next(one for one in whole.records if one.topic == OFFSETS_TOPIC)
    last = {
        one.log_partition: one
        for one in leader_changes([MetadataFile(0, at, False, [one for one in whole.records if one.log_offset < at])])
    }
    made = [
        TopicRecord("PartitionRecord", topic.topic_id, None, number, None, place, one.leader, one.leader_epoch)
        for place, (number, one) in enumerate(sorted(last.items()), 1)
    ]
    return MetadataFile(at, at, True, [TopicRecord("TopicRecord", topic.topic_id, OFFSETS_TOPIC, None, None, 0), *made])


def offsets_of(whole: MetadataFile) -> list[int]:
    """Where leaders of the topic changed."""
    topic_id = next(one.topic_id for one in whole.records if one.topic == OFFSETS_TOPIC)
    return [one.log_offset for one in whole.records if one.topic_id == topic_id and one.leader is not None]


def timed(changes: list[LeaderChange]) -> set[LeaderChange]:
    return {one for one in changes if one.at_ms is not None}


def test_snapshots_beside_a_whole_log_change_nothing(recorded: MetadataFile) -> None:
    expected = list(leader_changes([recorded]))
    assert len(expected) == 11
    for at in offsets_of(recorded):
        for files in ([*cut(recorded, at), snapshot(recorded, at)], [snapshot(recorded, at), *cut(recorded, at + 1)]):
            assert list(leader_changes(files)) == expected


def test_a_snapshot_is_the_beginning_where_older_records_are_gone(recorded: MetadataFile) -> None:
    expected = set(leader_changes([recorded]))
    for at in offsets_of(recorded)[2:]:
        behind = cut(recorded, at)[1]
        found = list(leader_changes([behind, snapshot(recorded, at)]))
        assert timed(found) == {one for one in expected if one.at_ms is not None and one in timed(found)}
        assert {(one.log_partition, one.leader_epoch) for one in found} <= {
            (one.log_partition, one.leader_epoch) for one in expected
        }
        assert len(timed(found)) == len([one for one in behind.records if one.log_offset in offsets_of(recorded)])


def test_nothing_is_counted_over_a_gap(recorded: MetadataFile) -> None:
    expected = set(leader_changes([recorded]))
    first, second, third = offsets_of(recorded)[2:5]
    parts = cut(recorded, first, third)
    assert set(leader_changes([parts[0], parts[2]])) < expected
    # A snapshot from within the gap shows what there was, and is no beginning either.
    with_old = set(leader_changes([parts[0], parts[2], snapshot(recorded, second)]))
    assert timed(list(with_old)) < expected
