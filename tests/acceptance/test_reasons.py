"""What Spark hands to the replay of groups beside their records: topic changes, and commits as signs of life."""

import pytest

from scripts.reasons.sample import Sample as Recording
from tests.acceptance.conftest import AUDITED
from tests.samples import Sample

pytestmark = pytest.mark.spark

REASON = ("cause", "join_reason", "confidence", "evidence", "alternatives", "trigger_members", "metadata_delay_ms")


def rebalances(spark, warehouse, cluster):
    rows = spark.read.format("delta").load(f"{warehouse}/rebalances").where(f"cluster = '{cluster}'").collect()
    return {(row["group_id"], row["epoch"]): [row[name] for name in REASON] for row in rows}


@pytest.mark.parametrize("name", AUDITED)
def test_an_audit_finds_the_reasons_of_the_judged_path(spark, audited, name):
    judged = {
        (row["group_id"], row["epoch"]): [row[column] for column in REASON]
        for row in Recording(Sample(name).folder).rebalances()
    }
    assert rebalances(spark, audited, name) == judged
    assert judged
