"""What the documents say to a Spark session of one's own, said to one."""

import pytest

from tests.docs.test_site import DOCS, code_blocks
from tests.samples import Sample

pytestmark = [pytest.mark.spark, pytest.mark.long]
PAGE = DOCS / "python-and-spark.md"


def test_a_dump_is_read_and_replayed_as_the_page_says(spark, capsys):
    named = {"spark": spark}
    for code in code_blocks(PAGE, "python"):
        if "Warehouse(" not in code:
            exec(code.replace("/dumps/broker-1", Sample("group-lifecycles").segments), named)
    shown = capsys.readouterr().out
    assert "OffsetCommit" in shown
    assert "MEMBER_JOIN" in shown


def test_a_copy_of_the_topic_is_decoded_as_the_page_says(spark):
    from coordinator_replay.spark import register

    register(spark)
    spark.read.parquet(str(Sample("group-lifecycles").folder / "parquet")).createOrReplaceTempView("consumer_offsets")
    (statement,) = code_blocks(PAGE, "sql")
    rows = spark.sql(statement.replace("lake.consumer_offsets", "consumer_offsets")).collect()
    assert {row["group_id"] for row in rows} >= {"shop-billing", "shop-migrate"}
