"""Counting where records are decoded says what counting them one by one says, and so does counting in Spark."""

from collections import Counter

import pytest

from coordinator_replay.log.dump import find_dump
from coordinator_replay.pipeline.decode import stage_segments
from coordinator_replay.pipeline.staged_records import as_records, staged_by
from coordinator_replay.pipeline.tally import Tally, tally_of
from tests.samples import Sample

pytestmark = pytest.mark.spark


def summed(tally):
    """By log partition, kind and whether it is known: how many, the lowest and the highest offset."""
    found = {}
    for count in tally.counts:
        key = (count.log_partition, count.what, count.kind, count.is_known)
        records, low, high = found.get(key, (0, count.low, count.high))
        found[key] = (records + count.records, min(low, count.low), max(high, count.high))
    return found


@pytest.mark.parametrize("name", ["transactions", "group-lifecycles"])
def test_workers_and_spark_count_what_kafka_decodes(spark, tmp_path, name):
    sample = Sample(name)
    known = {0: [(3, 9), (12, 14)]}
    told = stage_segments(spark, find_dump([sample.segments]).segments, str(tmp_path), known=known)
    staged = staged_by(told)
    expected = Counter()
    for record in sample.decoded:
        is_known = record["partition"] == 0 and any(a <= record["offset"] < b for a, b in known[0])
        kind = record.get("kind")
        what = "control" if kind is None else "commit" if "OffsetCommit" in kind else "record"
        expected[(record["partition"], what, kind, is_known)] += 1
    found = summed(staged.tally)
    assert {key: records for key, (records, _, _) in found.items()} == expected
    assert all(low in range(3, 14) and high in range(3, 14) for key, (_, low, high) in found.items() if key[3])
    in_spark = tally_of(as_records(spark, staged), known)
    # Through Spark, nobody looks.
    assert in_spark.may_wait
    assert summed(in_spark) == found
    assert in_spark.end() == staged.tally.end()
    assert (
        in_spark.names
        == staged.tally.names
        == {
            record["value"]["topicId"]: record["key"]["topic"]
            for record in sample.decoded
            if "OffsetCommit" in record.get("kind", "") and (record.get("value") or {}).get("topicId")
        }
    )


@pytest.mark.parametrize(("name", "waits"), [("transactions", True), ("expiration", False)])
def test_workers_tell_whether_a_commit_may_wait_for_a_marker(spark, tmp_path, name, waits):
    sample = Sample(name)
    commits = [record for record in sample.decoded if "OffsetCommit" in record.get("kind", "")]
    assert any(record["producerId"] != -1 for record in commits) == waits
    staged = staged_by(stage_segments(spark, find_dump([sample.segments]).segments, str(tmp_path)))
    assert staged.tally.may_wait == waits


def test_what_is_missing_before_a_file_is_added_to_what_is_missing_within_it():
    tally = Tally()
    tally.take('{"counts": [[0, 4, "commit", "OffsetCommit", false, 2, 7, 9, 1, null]], "names": {}, "may_wait": true}')
    [count] = tally.shifted({4: 5}).counts
    assert (count.missing, count.records, tally.shifted({}).end()) == (6, 2, None)
    assert tally.shifted({}).may_wait


def test_of_two_names_for_one_topic_the_same_one_stays_whatever_comes_first():
    for names in (["a", "b"], ["b", "a"]):
        tally = Tally()
        for name in names:
            tally.name([("id", name)])
        assert tally.names == {"id": "b"}
