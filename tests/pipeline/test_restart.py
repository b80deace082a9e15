"""Deriving offsets from where the tables end, beginning with what held there, gives what deriving all at once gives."""

from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.pipeline.offsets import offset_history, pending_offsets
from coordinator_replay.pipeline.restart import Restart, groups_anew, restart_at, unfinished_groups, waiting_commits
from tests.pipeline.offset_reference import random_steps
from tests.pipeline.offset_rows import POSITION, as_records, commit, derive, dicts, in_ms, kept, marker, ms
from tests.pipeline.test_offsets import ownership, timeline, written

pytestmark = pytest.mark.spark


def told(df):
    return {repr(sorted(row.items())) for row in dicts(in_ms(df))}


def in_two_parts(records, restart, folder, **known):
    """History and pending commits, derived up to a restart and then from there."""
    spark = records.sparkSession
    before = kept(spark, derive(records.where(f"NOT ({restart.covers()})"), **known), folder / "before")
    history, pending = offset_history(before, "c"), pending_offsets(before, "c")
    commits = records.where("commit IS NOT NULL").select(*POSITION, "commit.*")
    waiting = waiting_commits(commits, pending, restart)
    later = derive(records.where(restart.covers()), held=restart.held(history), waiting=waiting, **known)
    after = kept(spark, later, folder / "after")
    stays = f"NOT ({restart.replaces()})"
    return (
        history.where(stays).unionByName(offset_history(after, "c")),
        pending.where(stays).unionByName(pending_offsets(after, "c")),
    )


@settings(max_examples=2, phases=[Phase.explicit, Phase.reuse, Phase.generate], deadline=None)
@given(seed=st.integers(0, 2**32))
def test_wherever_a_log_is_cut_both_parts_come_to_the_whole(spark, tmp_path_factory, seed):
    random = Random(seed)
    folder = tmp_path_factory.mktemp("cut")
    batch = [list(random_steps(random)) for _ in range(150)]
    rows = [row for i, steps in enumerate(batch) for row in written(i, steps)]
    records = kept(spark, as_records(spark, rows), folder / "records")
    known = {
        "ownership": ownership(spark, (0, "m1", 2, 7), (0, "m2", 9, None)),
        "timeline": timeline(spark, ("g", 0, "Stable", 1, 1), ("g", 1, "Empty", 7, 7), ("g", 2, "Stable", 9, 9)),
    }
    offsets = {i: random.randint(0, len(steps)) for i, steps in enumerate(batch)}
    restart = Restart(offsets, since_us=ms(min(offsets.values())) * 1000)
    history, pending = in_two_parts(records, restart, folder, **known)
    whole = kept(spark, derive(records, **known), folder / "whole")
    assert told(history) == told(offset_history(whole, "c"))
    assert told(pending) == told(pending_offsets(whole, "c"))
    assert restart.held(pending).count()


def test_a_restart_knows_what_lies_behind_it(spark):
    restart = Restart({0: 10, 3: 5}, frozenset({"it's"}))
    rows = [(0, 9, "g"), (0, 10, "g"), (3, 4, "g"), (3, 5, "g"), (7, 0, "g"), (0, 1, "it's")]
    df = spark.createDataFrame(rows, "log_partition INT, log_offset BIGINT, group_id STRING")
    covered = {tuple(row) for row in df.where(restart.covers()).collect()}
    assert covered == {(0, 10, "g"), (3, 5, "g"), (7, 0, "g"), (0, 1, "it's")}
    none = Restart({})
    assert df.where(none.covers()).count() == len(rows)


@pytest.mark.parametrize("since_us", [None, 5_000_000])
def test_a_batch_tells_what_sql_tells_of_rows_that_are_replaced(spark, since_us):
    restart = Restart({0: 10, 3: 5}, frozenset({"it's"}), since_us)
    ends, times = (None, 4, 5, 9, 10, 11), (None, 4, 5, 6)
    rows = [
        (number, group, partition, end, time)
        for number, (group, partition, end, time) in enumerate(product(("g", "it's"), (0, 3, 7), ends, times))
    ]
    columns = "number INT, group_id STRING, log_partition INT, to_offset BIGINT, valid_to BIGINT"
    df = spark.createDataFrame(rows, columns).withColumn("valid_to", F.timestamp_seconds("valid_to"))
    replaced = {row["number"] for row in df.where(restart.replaces()).collect()}
    [batch] = df.toArrow().combine_chunks().to_batches()
    assert set(np.flatnonzero(restart.are_replaced(batch)).tolist()) == replaced
    assert 0 < len(replaced) < len(rows)


@pytest.fixture
def tables(spark):
    """A warehouse of rows given by name."""

    class Tables:
        def __init__(self, **rows):
            self.rows = rows

        def read(self, name):
            return self.rows[name].withColumn("cluster", F.lit("c"))

        def held(self, name):
            return None

    return Tables


def test_it_begins_before_records_that_bear_a_time_of_new_ones(spark, tables):
    records = as_records(
        spark,
        [
            *(commit((0, n), seconds, ("g", "t", 0), n) for n, seconds in enumerate([1, 2, 5, 5, 6])),
            *(commit((1, n), n, ("h", "t", 0), n) for n in range(3)),
            marker((0, 5), 5, 1, "COMMIT"),
        ],
    )
    warehouse = tables(
        offset_commits=records.where("commit IS NOT NULL"),
        group_records=records.where("FALSE"),
        control_records=records.where("control_type IS NOT NULL"),
    )
    told = (({0: 4, 1: 3}, {0: 2, 1: 3}), ({0: 6, 1: 3}, {0: 6, 1: 3}), ({0: 2}, {0: 2}), ({0: 6}, {0: 6}))
    seconds = {0: [1, 2, 5, 5, 6, 5], 1: [0, 1, 2]}
    for ends, begins in told:
        restart = restart_at(warehouse, "c", ends)
        assert restart.offsets == begins
        # Of a log partition that no run has read, all records are new.
        behind = [at for partition, times in seconds.items() for at in times[begins.get(partition, 0) :]]
        assert restart.since_us == min((ms(at) * 1000 for at in behind), default=None)


def test_groups_told_anew_and_those_of_a_run_that_did_not_end_are_derived_from_their_beginning(spark, tables):
    state = spark.createDataFrame([("a", "2026"), ("b", "2027"), ("c", "2028")], "group_id STRING, run_id STRING")
    rows = [("x", 0), ("x", 0), ("y", 7), ("now", 0), ("lost", 0), ("lost", 7)]
    commits = spark.createDataFrame(rows, "group_id STRING, missing_before BIGINT")
    warehouse = tables(group_state=state, offset_commits=commits)
    unfinished = unfinished_groups(warehouse, "c", "2026")
    assert unfinished == {"b", "c"}
    again = [("x", False), ("none", False), ("now", True), ("lost", True), ("new", True)]
    replayed = spark.createDataFrame(again, "group_id STRING, is_first BOOLEAN")
    assert groups_anew(warehouse, "c", replayed, unfinished) == {"b", "c", "x", "lost"}
    assert groups_anew(warehouse, "c", None, frozenset()) == frozenset()


def test_too_many_groups_to_be_named_are_all_of_them(spark, tables):
    many = spark.range(1001).selectExpr("CAST(id AS STRING) AS group_id", "'2027' AS run_id", "id AS missing_before")
    warehouse = tables(group_state=many, offset_commits=many)
    assert unfinished_groups(warehouse, "c", "2026") is None
    assert groups_anew(warehouse, "c", many.withColumn("is_first", F.lit(False)), frozenset()) is None
