"""Offsets of the recorded dumps, judged by what the broker answered at its quiet checkpoints."""

import pytest

from coordinator_replay.pipeline.offsets import offset_history, pending_offsets
from tests.pipeline.offset_rows import (
    APART,
    SAMPLES,
    derive,
    dicts,
    exported_records,
    kept,
    log_partitions,
    sample_records,
)
from tests.samples import Sample, lines

pytestmark = pytest.mark.spark

JUDGED = [name for name in SAMPLES if name != "compacted"]


@pytest.fixture(scope="module")
def told(spark, tmp_path_factory):
    """History and pending commits of each sample."""
    staged = kept(spark, derive(sample_records(spark)), tmp_path_factory.mktemp("offsets") / "staged")
    tables = [dicts(offset_history(staged, "c")), dicts(pending_offsets(staged, "c"))]
    return {
        name: [
            [row for row in rows if log_partitions(name)[0] <= row["log_partition"] <= log_partitions(name)[1]]
            for rows in tables
        ]
        for name in SAMPLES
    }


def holds(row, ends):
    end = ends[str(row["log_partition"] % APART)]
    return row["from_offset"] < end and (row["to_offset"] is None or row["to_offset"] >= end)


def checkpoints(name):
    return [point for point in lines(Sample(name).folder / "checkpoints.jsonl") if point["quiet"]]


def at_checkpoint(rows, point):
    offsets = {}
    for row in rows:
        if holds(row, point["endOffsets"]):
            key = (row["group_id"], f"{row['topic']}-{row['partition']}")
            assert key not in offsets
            offsets[key] = {
                "offset": row["committed_offset"],
                "metadata": row["metadata"],
                "leaderEpoch": row["leader_epoch"],
            }
    return offsets


def answered(point):
    return {
        (group["groupId"], key): {name: offset[name] for name in ("offset", "metadata", "leaderEpoch")}
        for group in point["groups"]
        for key, offset in (group.get("offsets") or {}).items()
    }


@pytest.mark.parametrize("name", JUDGED)
def test_history_gives_the_brokers_offsets_at_every_quiet_checkpoint(told, name):
    points = checkpoints(name)
    assert points
    for point in points:
        assert at_checkpoint(told[name][0], point) == answered(point)


def test_compacted_log_gives_the_brokers_offsets_at_the_last_quiet_checkpoint(told):
    point = checkpoints("compacted")[-1]
    assert at_checkpoint(told["compacted"][0], point) == answered(point)


def test_unstable_partitions_are_those_with_an_offset_and_a_pending_commit(told):
    history, pending = told["transactions"]
    seen = 0
    for point in checkpoints("transactions"):
        stored = at_checkpoint(history, point)
        waiting = {
            (row["group_id"], f"{row['topic']}-{row['partition']}")
            for row in pending
            if holds(row, point["endOffsets"])
        }
        withheld = {(group["groupId"], key) for group in point["groups"] for key in group["unstable"]}
        assert waiting & set(stored) == withheld
        seen += len(withheld)
    assert seen


def test_commits_settled_by_markers_say_how(told):
    _, pending = told["transactions"]
    ends = {row["ended_by"] for row in pending}
    assert {"COMMIT", "ABORT", "SKIPPED", None} <= ends
    assert all((row["to_offset"] is None) == (row["ended_by"] is None) for row in pending)


def test_export_through_a_consumer_proves_nothing_about_transactions(spark, tmp_path):
    records = exported_records(spark, "transactions", tmp_path / "records")
    staged = derive(records)
    rows = dicts(offset_history(staged, "c"))
    assert rows
    assert not any(row["is_proven"] for row in rows)
    assert {row["is_transactional"] for row in rows} == {None}
    assert dicts(pending_offsets(staged, "c")) == []


def test_segments_prove_what_they_tell(told):
    assert all(row["is_proven"] for rows, _ in told.values() for row in rows)
