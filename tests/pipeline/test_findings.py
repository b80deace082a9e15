"""Evidence about groups: minutes, metrics and totals, gathered by Spark."""

import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.analysis.findings.evidence import Evidence
from coordinator_replay.analysis.findings.thresholds import DEFAULTS

pytestmark = pytest.mark.spark

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_COMMIT = "group_id STRING, topic STRING, partition INT, log_partition INT, log_offset BIGINT, record_bytes INT"
COMMITS = f"{_COMMIT}, is_tombstone BOOLEAN, log_timestamp TIMESTAMP"
EVIDENCE = "group_id STRING, tag INT, at BIGINT, name STRING, seq BIGINT, told STRING"
CAUSES = "group_id STRING, ended_by STRING, tombstone_at TIMESTAMP"
CONSUMER = ("consumer", "Stable")


def minute(number: float) -> datetime:
    return BEGIN + timedelta(minutes=number)


def ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def state(number: float, name: str, seq: int = 0) -> tuple[Any, ...]:
    at = ms(minute(number))
    return "group", int(Evidence.STATE), at, f"consumer/{name}", seq, ""


def rebalance(number: float, *, is_over: bool) -> tuple[Any, ...]:
    at = ms(minute(number))
    told = {"at": at, "is_over": is_over, "rebalance_id": "r", "epoch": 1, "started_at": at}
    return "group", int(Evidence.HAPPENING), at, "rebalance", 0, json.dumps(told)


def commits(number: float, count: int, topics: int = 1) -> list[tuple[Any, ...]]:
    at = minute(number)
    return [("group", f"t-{n % topics}", 0, 3, 1000 * int(number) + n, 100, False, at) for n in range(count)]


@pytest.fixture
def counted(spark, tmp_path_factory):
    """Rows of group_metrics for what happened: (minute, type, state) to (groups, and counts that are not 0)."""
    from coordinator_replay.pipeline.group_metrics import (
        COUNTERS,
        SIMPLE,
        Told,
        group_kinds,
        group_metrics,
        minute_sums,
    )
    from coordinator_replay.pipeline.group_sums import Commits, sum_groups

    def count(happenings=(), committed=(), causes=(), held=(), split=-1, earlier=None, again=None):
        rows, evidence = (
            spark.createDataFrame(list(committed), COMMITS),
            spark.createDataFrame(list(happenings), EVIDENCE),
        )
        until = minute(split)
        kinds = group_kinds(evidence)
        times = {"until": until, "since": until, "simple": SIMPLE, "hot": 1}
        folder = str(tmp_path_factory.mktemp("sums"))
        sums = sum_groups(Commits(rows), kinds, **times, staging=folder)
        begun = (
            rows.where("NOT is_tombstone")
            .groupBy("group_id")
            .agg(F.min(F.unix_millis("log_timestamp")).alias("first_at"))
        )
        told = Told(
            commits=sums.minutes,
            kinds=kinds,
            begun=begun,
            evidence=evidence,
            causes=spark.createDataFrame(list(causes), CAUSES),
            held=spark.createDataFrame([(one,) for one in held], "group_id STRING"),
            earlier=None if earlier is None else earlier.where(F.col("bucket") < F.lit(until)),
        )
        metrics = group_metrics(minute_sums(told), "test")
        if again is not None:
            # What a run adds to the minutes that an earlier one counted comes to the same.
            assert count(happenings, committed, causes, held, split=again, earlier=metrics) == told_by(metrics)
        return told_by(metrics)

    def told_by(metrics):
        rows = metrics.collect()
        assert {row["cluster"] for row in rows} <= {"test"}
        return {
            (round((ms(row["bucket"].replace(tzinfo=UTC)) - ms(BEGIN)) / 60_000), row["group_type"], row["state"]): (
                row["group_count"],
                {name: row[name] for name in COUNTERS if row[name]},
            )
            for row in rows
        }

    return count


def test_a_group_stands_where_it_is_at_the_end_of_the_minute(counted):
    assert counted([state(0, "Assigning"), state(0.5, "Stable", 1), state(1.1, "Reconciling", 2)]) == {
        (0, *CONSUMER): (1, {}),
        (1, "consumer", "Reconciling"): (1, {}),
    }


def test_of_two_states_in_one_moment_the_later_one_counts(counted):
    assert counted([state(0, "Assigning", 0), state(0, "Stable", 1)]) == {(0, *CONSUMER): (1, {})}


def test_what_happens_in_a_minute_is_counted_under_the_state_that_still_holds(counted):
    happened = [state(0, "Stable"), rebalance(1, is_over=True), rebalance(1, is_over=False)]
    causes = [("group", "EXPIRED", minute(1)), ("group", "GROUP_DELETED", minute(1)), ("group", "EXPIRED", minute(1))]
    counts = {"rebalance_count": 1, "offset_commits": 7, "expired_offsets": 2, "deleted_offsets": 1}
    assert counted(happened, commits(1, 7), causes, again=2) == {(0, *CONSUMER): (1, {}), (1, *CONSUMER): (1, counts)}


def test_a_deleted_group_is_nowhere_and_one_made_anew_is_back(counted):
    assert counted([state(0, "Stable"), state(1, "Dead", 1), state(2, "Stable", 2)]) == {
        (0, *CONSUMER): (1, {}),
        (2, *CONSUMER): (1, {}),
    }


def test_a_group_of_offsets_alone_is_an_empty_classic_one_until_its_last_offset_is_gone(counted):
    committed = [*commits(0, 1), *commits(3, 1)]
    gone = [("group", "DELETED", minute(4)), ("group", "DELETED", minute(5))]
    simple = ("classic", "Empty")
    some = {"offset_commits": 1}
    there = {(0, *simple): (1, some), (3, *simple): (1, some), (4, *simple): (1, {"deleted_offsets": 1})}
    assert counted((), committed, gone) == {**there, (5, *simple): (0, {"deleted_offsets": 1})}
    assert counted((), committed, gone[:1], held=["group"], again=2) == there


def test_tombstones_and_records_without_a_time_are_in_no_minute(counted):
    at = minute(0)
    rows = [("group", "t", 0, 3, 1, 100, True, at), ("group", "t", 0, 3, 2, 100, False, None)]
    assert counted((), rows) == {}


class Tables:
    """A warehouse of rows given by name; a table without rows is new."""

    def __init__(self, spark, **rows):
        self.spark = spark
        self.rows = rows

    def is_new(self, name):
        return name not in self.rows

    def read(self, name):
        from coordinator_replay.pipeline.warehouse import spark_type
        from coordinator_replay.tables.definition import table

        return self.rows.get(name, self.spark.createDataFrame([], spark_type(table(name))))


def test_commits_of_a_group_come_to_totals_and_hot_minutes(spark, tmp_path):
    from coordinator_replay.pipeline.commit_totals import sum_history, total
    from coordinator_replay.pipeline.findings import READ, evidence
    from coordinator_replay.pipeline.group_sums import Commits, sum_groups
    from coordinator_replay.pipeline.task_rows import TaskRows

    limit = DEFAULTS.hot_commits_per_minute
    hot, calm = commits(5, 2 * limit, topics=2), commits(9, 2 * limit - 1, topics=2)
    rows = [*commits(0, 1), *hot, *calm]
    warehouse = Tables(spark)
    moments = {"since": None, "until": minute(3)}
    no_states = spark.createDataFrame([], "group_id STRING, minute BIGINT, kind INT")
    given = {"hot": limit, "simple": 1, "staging": str(tmp_path)}
    sums = sum_groups(Commits(spark.createDataFrame(rows, COMMITS)), no_states, **moments, **given)
    totals = total(
        warehouse,
        "c",
        groups=sums.groups,
        history=sum_history(TaskRows(warehouse.read("offset_history")), minute(3), str(tmp_path)),
        **moments,
        staging=str(tmp_path),
    )
    tables = {name: warehouse.read(name) for name in READ}
    held = warehouse.read("offset_history")
    (row,) = evidence(tables, totals, held, None, end=minute(10), limits=DEFAULTS).collect()
    assert (row["group_id"], row["tag"], row["name"]) == ("group", int(Evidence.HAPPENING), "commits")
    assert json.loads(row["told"]) == {
        "log_partition": 3,
        "commits": 4 * limit,
        "bytes": 400 * limit,
        "first_at": ms(minute(0)),
        "last_at": ms(minute(9)),
        "last_offset": 9000 + 2 * limit - 2,
        "most_a_minute": limit,
        "hot_minutes": 1,
        "hot_from": ms(minute(5)),
        "hot_to": ms(minute(5)),
    }


def offset(random, number):
    """A row of the history, as far as totals look at it: now and then without a time, into an Empty group, or back."""
    at = None if random.random() < 0.05 else minute(random.uniform(0, 20))
    previous, state = random.choice([None, *range(9)]), random.choice(["Empty", "Stable", None])
    key = (random.choice("gh"), random.choice("tu"), random.randrange(2), random.randrange(2))
    return (*key, number, random.randrange(9), previous, state, random.choice(["m", None]), "x" * number, at, 0)


def test_totals_that_go_on_from_a_moment_come_to_what_all_history_comes_to(spark, tmp_path):
    from coordinator_replay.pipeline.commit_totals import TABLE, sum_history, total, totals_since
    from coordinator_replay.pipeline.group_sums import Commits, sum_groups
    from coordinator_replay.pipeline.task_rows import TaskRows, is_since

    random = Random(8)
    key = "group_id STRING, topic STRING, partition INT, log_partition INT, from_offset BIGINT, committed_offset BIGINT"
    more = "previous_offset BIGINT, group_state STRING, owner_member_id STRING, metadata STRING, valid_from TIMESTAMP"
    rows = [offset(random, number) for number in range(200)]
    history = spark.createDataFrame(rows, f"{key}, {more}, commits_merged BIGINT")
    written = [row for number in range(20) for row in commits(number, random.randrange(40), topics=2)]
    commit_rows = spark.createDataFrame(written, COMMITS)
    no_states = spark.createDataFrame([], "group_id STRING, minute BIGINT, kind INT")

    def told(warehouse, name, since, until):
        staging = str(tmp_path / name)
        sums = sum_groups(
            Commits(commit_rows), no_states, hot=9, simple=1, since=since, until=until, staging=f"{staging}-sums"
        )
        return total(
            warehouse,
            "c",
            groups=sums.groups,
            history=sum_history(TaskRows(history.where(is_since("valid_from", since))), until, staging),
            since=since,
            until=until,
            staging=staging,
        )

    first = told(Tables(spark), "first", None, minute(7))
    kept = first.table.localCheckpoint()
    warehouse = Tables(spark, **{TABLE: kept})
    assert {row["what"] for row in kept.select("what").distinct().collect()} == {"group", "partition", "rewind"}
    for since_us, counts in ((ms(minute(7)) * 1000, True), (None, True), (ms(minute(7)) * 1000 - 1, False)):
        since = totals_since(warehouse, "c", since_us)
        assert (since is None) is not counts
    assert totals_since(Tables(spark), "c", None) is None
    since = totals_since(warehouse, "c", None)
    second = told(warehouse, "second", since, minute(12))
    whole = told(Tables(spark), "whole", None, minute(12))
    for name in ("groups", "partitions", "rewinds", "table"):
        assert_df_equality(getattr(second, name), getattr(whole, name), ignore_row_order=True, ignore_nullable=True)
        assert not getattr(whole, name).isEmpty()
