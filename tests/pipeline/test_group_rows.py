"""Whole groups in tasks: the same whether their files are read there or Spark brings them."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.spark

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
GROUPS = [f"group {number}" for number in range(23)]
LIVES = pa.schema([("group_id", pa.string()), ("at", pa.int64()), ("topic", pa.string()), ("number", pa.int32())])
NAMES = pa.schema([("group_id", pa.string()), ("name", pa.string())])
STORED = pa.schema(
    [
        ("cluster", pa.string()),
        ("group_id", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("topic", pa.string()),
        ("number", pa.int32()),
    ]
)


def life(cluster, group_id, number):
    at = None if number % 3 == 0 else BEGIN + timedelta(microseconds=number)
    return {"cluster": cluster, "group_id": group_id, "at": at, "topic": "t\n\x1b é", "number": number}


LIVED = [life(cluster, group, number) for cluster in "cd" for group in GROUPS for number in range(len(group))]
NAMED = [{"group_id": group, "name": group.upper()} for group in GROUPS[::2]]


@pytest.fixture
def sources(spark, tmp_path):
    from pyspark.sql import functions as F  # noqa: N812

    from coordinator_replay.pipeline.group_rows import Files, Source

    def stored(name, rows, schema):
        half = len(rows) // 2
        for number, some in enumerate((rows[:half], rows[half:])):
            pq.write_table(pa.Table.from_pylist(some, schema), str(tmp_path / f"{name}-{number}.parquet"))
        return [str(tmp_path / f"{name}-{number}.parquet") for number in range(2)]

    lives, names = stored("lives", LIVED, STORED), stored("names", NAMED, NAMES)
    mine = spark.read.parquet(*lives).where(F.col("cluster") == "c").drop("cluster")

    def given(is_here):
        return {
            "lives": Source(LIVES, mine, Files(lives, "c") if is_here else None),
            "names": Source(NAMES, spark.read.parquet(*names), Files(names) if is_here else None),
        }

    return given


@pytest.mark.parametrize("is_here", [True, False])
@pytest.mark.parametrize("most", [7, 50_000])
def test_each_group_comes_once_and_whole(spark, sources, is_here, most):
    from coordinator_replay.pipeline.group_rows import map_groups

    def told(chunks):
        for number, chunk in enumerate(chunks):
            assert {name: table.schema for name, table in chunk.items()} == {"lives": LIVES, "names": NAMES}
            rows = [(name, row) for name, table in chunk.items() for row in table.to_pylist()]
            if rows:
                groups = [row["group_id"] for _, row in rows]
                texts = [repr((name, sorted(row.items()))) for name, row in rows]
                columns = [pa.array([number] * len(rows)), pa.array(groups), pa.array(texts)]
                yield pa.RecordBatch.from_arrays(columns, names=["chunk", "group_id", "told"])

    frame = map_groups(sources(is_here), told, "chunk BIGINT, group_id STRING, told STRING", buckets=2, most=most)
    rows = frame.selectExpr("*", "spark_partition_id() AS task").collect()
    expected = [("names", row) for row in NAMED]
    for row in LIVED:
        if row["cluster"] == "c":
            at = None if row["at"] is None else int(row["at"].timestamp()) * 1_000_000 + row["at"].microsecond
            expected.append(("lives", {**row, "at": at}))
            del expected[-1][1]["cluster"]
    assert sorted(row["told"] for row in rows) == sorted(repr((name, sorted(row.items()))) for name, row in expected)
    places = {(row["group_id"], row["task"], row["chunk"]) for row in rows}
    assert len(places) == len(GROUPS)
    assert (max(row["chunk"] for row in rows) > 0) is (most < 100)
