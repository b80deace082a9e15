"""Groups heard: what commits come to, goes on from run to run, and metrics by the minute."""

import json
from collections import Counter
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coordinator_replay.analysis.findings.evidence import Evidence
from coordinator_replay.analysis.findings.thresholds import DEFAULTS
from tests.pipeline.offset_rows import START

pytestmark = pytest.mark.spark

_COMMIT = "group_id STRING, topic STRING, partition INT, log_partition INT, log_offset BIGINT, record_bytes INT"
COMMITS = f"{_COMMIT}, is_tombstone BOOLEAN, log_timestamp TIMESTAMP"
_KEY = "group_id STRING, topic STRING, partition INT, log_partition INT, from_offset BIGINT, committed_offset BIGINT"
_MORE = "previous_offset BIGINT, group_state STRING, owner_member_id STRING, metadata STRING, valid_from TIMESTAMP"
HISTORY = f"{_KEY}, {_MORE}, commits_merged BIGINT"
CONSUMER = ("consumer", "Stable")
BEGIN = START.replace(second=0, microsecond=0)


def minute(number: float) -> datetime:
    return BEGIN + timedelta(minutes=number)


def ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def state(number: float, name: str, seq: int = 0) -> tuple[Any, ...]:
    at = ms(minute(number))
    return "group", int(Evidence.STATE), at, f"consumer/{name}", seq, ""


def rebalance(number: float, *, is_over: bool) -> tuple[Any, ...]:
    at = ms(minute(number))
    told = {"at": at, "is_over": is_over, "rebalance_id": f"r-{number}-{is_over}", "epoch": 1, "started_at": at}
    told |= {"reason_class": "MEMBER_JOINED", "topics": []}
    return "group", int(Evidence.HAPPENING), at, "rebalance", 0, json.dumps(told)


def commits(number: float, count: int, topics: int = 1) -> list[tuple[Any, ...]]:
    at = minute(number)
    return [("group", f"t-{n % topics}", 0, 3, 1000 * int(number) + n, 100, False, at) for n in range(count)]


class Run:
    """One run of what findings and metrics are made of, on rows given by hand; Spark brings the groups to tasks."""

    def __init__(self, spark: Any, folder: Any, until: datetime, since: datetime | None = None) -> None:
        self.spark = spark
        self.folder = folder
        self.until = until
        self.since = since

    def source(self, name, rows):
        """Rows as a source that only Spark can read."""
        from pyspark.sql.pandas.types import from_arrow_schema

        from coordinator_replay.pipeline.group_rows import Source
        from coordinator_replay.pipeline.hearing import SCHEMAS

        frame = self.spark.createDataFrame(list(rows), from_arrow_schema(SCHEMAS[name]))
        return Source(SCHEMAS[name], frame, None)

    def read(self, files, schema):
        tables = [pq.read_table(file.path).cast(schema) for file in files]
        return pa.concat_tables([schema.empty_table(), *tables]).to_pylist()

    def hear(self, committed=(), history=(), evidence=(), causes=(), held=(), totals=()):
        """Rows of commit_totals, and steps and commits for metrics."""
        from pyspark.sql.pandas.types import from_arrow_schema

        from coordinator_replay.analysis.findings.judge import FINDINGS
        from coordinator_replay.pipeline import hearing
        from coordinator_replay.pipeline.commit_totals import sum_history
        from coordinator_replay.pipeline.data_files import aside, part_of, read_files
        from coordinator_replay.pipeline.group_metrics import STEPS
        from coordinator_replay.pipeline.group_rows import Source, map_groups
        from coordinator_replay.pipeline.group_sums import Commits, sum_groups
        from coordinator_replay.pipeline.task_rows import TaskRows, is_since
        from coordinator_replay.tables.definition import table

        told = self.source(hearing.EVIDENCE, evidence)
        rows = self.spark.createDataFrame(list(committed), COMMITS)
        limit, folder = DEFAULTS.hot_commits_per_minute, str(self.folder)
        moments = {"since": self.since, "until": self.until}
        sums = sum_groups(Commits(rows), told, hot=limit, staging=folder, **moments)
        shown = self.spark.createDataFrame(list(history), HISTORY).where(is_since("valid_from", self.since))
        summed = sum_history(TaskRows(shown), self.until, folder)
        frames = {
            hearing.GROUP_PART: sums.groups,
            hearing.PARTITION_PART: summed.partitions,
            hearing.REWIND_PART: summed.rewinds,
        }
        sources = {name: Source(hearing.SCHEMAS[name], frame, None) for name, frame in frames.items()}
        sources |= {
            hearing.EVIDENCE: told,
            hearing.CAUSES: self.source(hearing.CAUSES, causes),
            hearing.HELD: self.source(hearing.HELD, held),
            hearing.TOTALS: self.source(hearing.TOTALS, totals),
        }
        court = hearing.Court(cluster="test", end_ms=ms(minute(60)), until=self.until, limits=DEFAULTS)
        parts = {name: part_of(table(name), f"{folder}/{name}") for name in (FINDINGS, hearing.TOTALS)}
        parts[hearing.STEP_PART] = aside(f"{folder}/steps", STEPS)
        empty = {name: schema.empty_table() for name, schema in hearing.SCHEMAS.items()}

        def each(chunks):
            return hearing.hear(({**empty, **chunk} for chunk in chunks), court, parts)

        files, severities = hearing.heard(map_groups(sources, each, hearing.HEARD, buckets=2))
        found = self.read(files.get(FINDINGS, []), parts[FINDINGS].schema)
        assert severities == Counter(row["severity"] for row in found)
        steps = read_files(self.spark, files.get(hearing.STEP_PART, []), from_arrow_schema(STEPS))
        kept = self.read(files.get(hearing.TOTALS, []), parts[hearing.TOTALS].schema)
        assert {row["until"] for row in kept} <= {self.until}
        names = hearing.SCHEMAS[hearing.TOTALS].names
        return [tuple(row[name] for name in names) for row in kept], steps, sums.minutes

    def metrics(self, steps, minutes, earlier=None):
        from coordinator_replay.pipeline.data_files import files_of, part_of
        from coordinator_replay.pipeline.group_metrics import METRICS, commit_steps, earlier_steps, write_metrics
        from coordinator_replay.tables.definition import table

        part = part_of(table(METRICS), f"{self.folder}/metrics")
        every = [steps, commit_steps(minutes)]
        if earlier is not None:
            old = self.spark.createDataFrame(pa.Table.from_pylist(earlier, part.schema))
            every.append(earlier_steps(old.where(old["bucket"] < self.since)))
        return self.read(files_of(write_metrics(every, part, "test")).get(METRICS, []), part.schema)


def told_by(metrics):
    """(minute, type, state) to (groups, and counts that are not 0)."""
    from coordinator_replay.pipeline.group_metrics import COUNTERS

    assert {row["cluster"] for row in metrics} <= {"test"}
    return {
        (round((ms(row["bucket"]) - ms(BEGIN)) / 60_000), row["group_type"], row["state"]): (
            row["group_count"],
            {name: row[name] for name in COUNTERS if row[name]},
        )
        for row in metrics
    }


@pytest.fixture
def counted(spark, tmp_path_factory):
    """Rows of group_metrics for what happened; with ``again``, also as a run counts that goes on from that minute."""

    def count(evidence=(), committed=(), causes=(), held=(), again=None):
        known = {"committed": committed, "evidence": evidence, "causes": causes, "held": held}
        until = minute(-1 if again is None else again)
        run = Run(spark, tmp_path_factory.mktemp("first"), until)
        totals, steps, minutes = run.hear(**known)
        metrics = run.metrics(steps, minutes)
        if again is not None:
            later = Run(spark, tmp_path_factory.mktemp("later"), until, since=until)
            _, steps, minutes = later.hear(**known, totals=totals)
            assert told_by(later.metrics(steps, minutes, metrics)) == told_by(metrics)
        return told_by(metrics)

    return count


def test_a_group_stands_where_it_is_at_the_end_of_the_minute(counted):
    assert counted([state(0, "Assigning"), state(0.5, "Stable", 1), state(1.1, "Reconciling", 2)]) == {
        (0, *CONSUMER): (1, {}),
        (1, "consumer", "Reconciling"): (1, {}),
    }


def test_of_two_states_in_one_moment_the_later_one_counts(counted):
    assert counted([state(0, "Stable", 1), state(0, "Assigning", 0)]) == {(0, *CONSUMER): (1, {})}


def test_what_happens_in_a_minute_is_counted_under_the_state_that_still_holds(counted):
    happened = [state(0, "Stable"), rebalance(1, is_over=True), rebalance(1, is_over=False)]
    causes = [("group", end, ms(minute(1)) * 1000) for end in ("EXPIRED", "GROUP_DELETED", "EXPIRED")]
    counts = {"rebalance_count": 1, "offset_commits": 7, "expired_offsets": 2, "deleted_offsets": 1}
    assert counted(happened, commits(1, 7), causes, again=2) == {(0, *CONSUMER): (1, {}), (1, *CONSUMER): (1, counts)}


def test_a_deleted_group_is_nowhere_and_one_made_anew_is_back(counted):
    assert counted([state(0, "Stable"), state(1, "Dead", 1), state(2, "Stable", 2)]) == {
        (0, *CONSUMER): (1, {}),
        (2, *CONSUMER): (1, {}),
    }


def test_a_group_of_offsets_alone_is_an_empty_classic_one_until_its_last_offset_is_gone(counted):
    committed = [*commits(0, 1), *commits(3, 1)]
    gone = [("group", "DELETED", ms(minute(number)) * 1000) for number in (4, 5)]
    simple = ("classic", "Empty")
    some = {"offset_commits": 1}
    there = {(0, *simple): (1, some), (3, *simple): (1, some), (4, *simple): (1, {"deleted_offsets": 1})}
    assert counted((), committed, gone) == {**there, (5, *simple): (0, {"deleted_offsets": 1})}
    assert counted((), committed, gone[:1], held=[("group", "t", 0)], again=2) == there


def test_tombstones_and_records_without_a_time_are_in_no_minute(counted):
    at = minute(0)
    rows = [("group", "t", 0, 3, 1, 100, True, at), ("group", "t", 0, 3, 2, 100, False, None)]
    assert counted((), rows) == {}


def test_commits_of_a_group_come_to_totals_and_hot_minutes(spark, tmp_path):
    limit = DEFAULTS.hot_commits_per_minute
    hot, calm = commits(5, 2 * limit, topics=2), commits(9, 2 * limit - 1, topics=2)
    totals, _, _ = Run(spark, tmp_path, minute(60)).hear([*commits(0, 1), *hot, *calm])
    [(group_id, what, topic, partition, told)] = totals
    assert (group_id, what, topic, partition) == ("group", "group", None, None)
    assert json.loads(told) == {
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
    random = Random(8)
    given = {
        "history": [offset(random, number) for number in range(200)],
        "committed": [row for number in range(20) for row in commits(number, random.randrange(40), topics=2)],
    }
    kept, _, _ = Run(spark, tmp_path / "first", minute(7)).hear(**given)
    assert {row[1] for row in kept} == {"group", "partition", "rewind"}
    second, _, _ = Run(spark, tmp_path / "second", minute(12), since=minute(7)).hear(**given, totals=kept)
    whole, _, _ = Run(spark, tmp_path / "whole", minute(12)).hear(**given)
    assert sorted(map(comparable, second), key=repr) == sorted(map(comparable, whole), key=repr)


def comparable(row):
    return *row[:-1], json.loads(row[-1])
