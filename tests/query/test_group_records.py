"""What the newest records of a group say: tasks by subtopology, the topology, and what NotReady waits for."""

from pathlib import Path

import pytest

from coordinator_replay.query.group_records import GroupRecords, GroupTopology, newest_records, not_ready_note
from coordinator_replay.query.tables import Tables
from tests.query.small_warehouse import write_small_warehouse

TASKS = {
    "activeTasks": [{"subtopologyId": "1", "partitions": [3, 0, 1, 2]}, {"subtopologyId": "0", "partitions": [5]}],
    "standbyTasks": [{"subtopologyId": "1", "partitions": [7]}],
    "warmupTasks": [],
}
TOPOLOGY = GroupTopology(epoch=1, validated_epoch=0, source_topics=("orders",), internal_topics=("app-repartition",))


def test_tasks_are_shown_by_subtopology_as_ranges():
    fields = GroupRecords({("StreamsGroupCurrentMemberAssignment", "m"): TASKS}).member_fields("m")
    assert [str(one) for one in fields["active_tasks"]] == ["0:5", "1:0-3"]
    assert [str(one) for one in fields["standby_tasks"]] == ["1:7"]
    assert (fields["warmup_tasks"], fields["target_standby_tasks"], fields["is_upgraded"]) == ((), None, None)


def test_internal_topics_are_those_that_the_coordinator_makes():
    value = {
        "epoch": 2,
        "subtopologies": [
            {
                "subtopologyId": "0",
                "sourceTopics": ["orders"],
                "repartitionSinkTopics": ["app-repartition"],
                "repartitionSourceTopics": [],
                "stateChangelogTopics": [{"name": "app-changelog"}],
            },
            {"subtopologyId": "1", "repartitionSourceTopics": [{"name": "app-repartition"}]},
        ],
    }
    records = GroupRecords(
        {("StreamsGroupTopology", ""): value, ("StreamsGroupMetadata", ""): {"validatedTopologyEpoch": 1}}
    )
    assert records.topology == GroupTopology(
        epoch=2,
        validated_epoch=1,
        source_topics=("orders",),
        internal_topics=("app-changelog", "app-repartition"),
    )
    assert records.group_fields()["topology_epoch"] == 2


@pytest.mark.parametrize(
    ("topology", "sentence"),
    [
        (None, "the log has no topology"),
        (TOPOLOGY, "topology epoch 0 as the validated one, and the group is at 1"),
        (TOPOLOGY, "source topics orders and the internal topics app-repartition; which of them were missing is not"),
    ],
)
def test_without_the_cluster_metadata_no_topic_is_said_to_be_missing(tmp_path: Path, topology, sentence: str):
    note = not_ready_note(Tables(str(write_small_warehouse(tmp_path))), topology)
    assert sentence in note


def test_a_group_without_records_has_none(tmp_path: Path):
    assert newest_records(Tables(str(write_small_warehouse(tmp_path))), "nobody", None).values == {}
