"""The last commits before records that may show a departure: both ways to find them, against a plain search."""

from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coordinator_replay.analysis.reasons.signs import SIGNS_WITHIN_MS
from coordinator_replay.pipeline.commit_shares import Share
from coordinator_replay.pipeline.sign_shares import LAST, last_in_shares
from coordinator_replay.pipeline.signs import MINUTE_MS, last_before_departures
from coordinator_replay.tables.definition import table
from tests.pipeline.offset_rows import ms

COMMITS = table("offset_commits").arrow_schema().remove_metadata()
DEPARTURES = pa.schema(
    [("group_id", pa.string()), ("log_partition", pa.int32()), ("log_offset", pa.int64()), ("at_ms", pa.int64())]
)


def log_of(random):
    """A log in which times mostly rise, by up to some minutes a record, of several groups and log partitions."""
    commits, departures = [], []
    at_ms = ms(0)
    for offset in range(random.randrange(120)):
        at_ms += random.choice([0, 1, 500, MINUTE_MS, 4 * MINUTE_MS, -2 * MINUTE_MS])
        group, partition = f"g{random.randrange(3)}", random.randrange(2)
        place = {"group_id": group, "log_partition": partition, "log_offset": offset}
        if random.random() < 0.2:
            departures.append({**place, "at_ms": at_ms})
        else:
            moment = None if random.random() < 0.05 else at_ms
            row = {"cluster": random.choice("ccd"), "is_tombstone": random.random() < 0.1, "log_timestamp": moment}
            commits.append({**place, **row, "topic": f"t{random.randrange(2)}", "partition": random.randrange(2)})
    return commits, departures


def last_by_search(commits, departures):
    found = {}
    for one in commits:
        if one["is_tombstone"] or one["log_timestamp"] is None or one["cluster"] != "c":
            continue
        place = one["group_id"], one["log_partition"]
        later = [
            each
            for each in departures
            if (each["group_id"], each["log_partition"]) == place and each["log_offset"] > one["log_offset"]
        ]
        if not later:
            continue
        record = min(later, key=lambda each: each["log_offset"])
        at_ms, then = one["log_timestamp"], record["at_ms"]
        if then - at_ms <= SIGNS_WITHIN_MS and at_ms // MINUTE_MS <= then // MINUTE_MS:
            key = (*place, record["log_offset"], one["topic"], one["partition"])
            found[key] = max(found.get(key, (at_ms, one["log_offset"])), (at_ms, one["log_offset"]))
    return sorted((*key, *last) for key, last in found.items())


def as_commits(commits):
    times = pa.array([one["log_timestamp"] for one in commits], pa.int64()).cast(pa.timestamp("ms", tz="UTC"))
    rows = pa.Table.from_pylist([one | {"log_timestamp": None} for one in commits], COMMITS)
    place = COMMITS.get_field_index("log_timestamp")
    return rows.set_column(place, COMMITS.field(place), times.cast(COMMITS.field(place).type))


@pytest.mark.spark
@pytest.mark.parametrize("seed", [1, 2])
def test_both_ways_find_the_same_commits(spark, tmp_path, seed):
    random = Random(seed)
    commits, departures = [], []
    for number in range(30):
        # Logs of their own, so that one job looks at many.
        for rows, more in zip((commits, departures), log_of(random), strict=True):
            rows += [one | {"log_partition": one["log_partition"] + 2 * number} for one in more]
    expected = last_by_search(commits, departures)
    assert len(expected) > 100
    path, folder = str(tmp_path / "commits.parquet"), str(tmp_path / "departures")
    pq.write_table(as_commits(commits), path, row_group_size=500)
    spark.createDataFrame(pa.Table.from_pylist(departures, DEPARTURES)).write.parquet(folder)
    kept = spark.read.parquet(folder)
    rows = spark.read.parquet(path).where("cluster = 'c'")
    assert sorted(map(tuple, last_before_departures(rows, kept).select(*LAST.names).collect())) == expected
    shares = [Share([path], *span, number, 2) for span in ((0, 20), (21, 99)) for number in range(2)]
    assert sorted(map(tuple, last_in_shares(spark, shares, "c", kept).collect())) == expected
