"""Replay as DataFrames: the rows of an audit's tables, from records of any origin."""

import json

import pyarrow as pa
import pytest
from chispa import assert_df_equality
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.errors import InputError
from coordinator_replay.spark import replay_group, replay_groups, replay_in_pandas, replay_input, replay_schema
from coordinator_replay.spark.replay import TABLES, table_schema
from tests.nightly import rest_at_night
from tests.samples import Sample

pytestmark = pytest.mark.spark

SAMPLES = ["group-lifecycles", "transactions", "old-format-none"]
"""Complete ones: what a compacted log still proves an audit knows by what its files cover, which records don't tell."""


def log_of(session, name):
    return session.read.format("consumer_offsets").load(Sample(name).segments)


def exported(session, name):
    """A copy of the topic as a consumer sees it, decoded in SQL."""
    session.read.parquet(str(Sample(name).folder / "parquet")).createOrReplaceTempView("exported")
    return session.sql(
        "SELECT partition AS log_partition, offset AS log_offset, timestamp AS log_timestamp, r.* FROM "
        "(SELECT partition, offset, timestamp, decode_record(key, value) AS r FROM exported)"
    )


def shown(rows):
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in rows)


def names_of(warehouse):
    topics = DeltaTable(f"{warehouse}/topics").to_pyarrow_table().to_pylist()
    return {topic["topic_id"]: topic["topic"] for topic in topics if topic["topic_id"]}


def audited(warehouse, table):
    """Return an audit's rows as a replay has them: only an audit knows whether commits paused for longer."""
    rows = DeltaTable(f"{warehouse}/{table}").to_pyarrow_table().select(table_schema(table).names)
    known = "is_pause_at_least"
    if known not in rows.column_names:
        return rows
    return rows.set_column(rows.column_names.index(known), known, pa.nulls(len(rows), pa.bool_()))


@pytest.fixture(scope="module")
def warehouse_of(audited_once):
    """The warehouse of a sample's audit, which a test doesn't change."""
    return lambda name: audited_once(Sample(name).segments).warehouse


@pytest.mark.parametrize("name", SAMPLES)
def test_the_rows_are_those_of_an_audit(session, warehouse_of, name):
    warehouse = warehouse_of(name)
    replay = replay_groups(log_of(session, name), topic_names=names_of(warehouse)).persist()
    for table in TABLES:
        expected = audited(warehouse, table).to_pylist()
        assert shown(getattr(replay, table).toArrow().to_pylist()) == shown(expected)
    replay.unpersist()


def test_a_copy_of_the_topic_gives_the_same_events(session):
    columns = ["group_id", "seq", "event", "to_state", "epoch", "member_id"]
    ours = replay_groups(exported(session, "group-lifecycles")).group_timeline.select(*columns)
    theirs = replay_groups(log_of(session, "group-lifecycles")).group_timeline.select(*columns)
    assert_df_equality(ours, theirs, ignore_row_order=True)


def test_the_number_of_tasks_changes_nothing(session):
    log = log_of(session, "group-lifecycles")
    one, many = (replay_groups(log, tasks=tasks).rebalances for tasks in (1, 7))
    assert many.rdd.getNumPartitions() == 7
    assert_df_equality(one, many, ignore_row_order=True)


@pytest.mark.parametrize("table", rest_at_night(TABLES, ["member_timeline", "rebalances"]))
def test_a_grouped_map_of_ones_own_gives_the_rows_of_an_audit(session, warehouse_of, table):
    warehouse = warehouse_of("group-lifecycles")
    by_group = replay_input(log_of(session, "group-lifecycles")).groupBy("group_id")
    ours = by_group.applyInPandas(replay_in_pandas(table, topic_names=names_of(warehouse)), replay_schema(table))
    rows = audited(warehouse, table).cast(table_schema(table))
    expected = session.createDataFrame(rows, replay_schema(table))
    assert_df_equality(ours, expected, ignore_row_order=True, ignore_nullable=True)


def test_one_group_is_replayed_here_as_in_tasks(session):
    log = log_of(session, "group-lifecycles")
    rows = list(replay_group(log, "shop-billing"))
    replay = replay_groups(log.where("group_id = 'shop-billing'"))
    for table in TABLES:
        assert sum(name == table for name, _ in rows) == getattr(replay, table).count()
    events = [row["event"] for name, row in rows if name == "group_timeline"]
    assert events[0] == "GROUP_CREATED"
    with pytest.raises(InputError, match="the DataFrame has no record of group 'shop-bill'"):
        list(replay_group(log, "shop-bill"))


def test_bad_input_is_told_in_a_sentence(session):
    log = log_of(session, "group-lifecycles")
    with pytest.raises(InputError, match=r"lacks kind, key_json: wanted are decoded records .* found"):
        replay_groups(log.drop("kind", "key_json"))
    with pytest.raises(InputError, match="column log_timestamp is of type long; wanted is timestamp"):
        replay_groups(log.withColumn("log_timestamp", F.unix_millis("log_timestamp")))
    twice = replay_groups(log.unionByName(log))
    with pytest.raises(PySparkException, match="comes twice; drop duplicates by log_partition and log_offset first"):
        twice.rebalances.count()
