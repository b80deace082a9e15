"""What Spark hands to the replay of groups beside their records: topic changes, and commits as signs of life."""

from pathlib import Path

import pytest

from coordinator_replay.pipeline.audit import Options, run_audit
from scripts.reasons.sample import Sample as Recording
from tests.samples import Sample

pytestmark = pytest.mark.spark

REASON = ("cause", "join_reason", "confidence", "evidence", "alternatives", "trigger_members", "metadata_delay_ms")


def rebalances(spark, warehouse):
    rows = spark.read.format("delta").load(f"{warehouse}/rebalances").collect()
    return {(row["group_id"], row["epoch"]): [row[name] for name in REASON] for row in rows}


@pytest.mark.parametrize("name", ["group-lifecycles", "java-clients"])
def test_an_audit_finds_the_reasons_of_the_judged_path(spark, tmp_path, name):
    sample = Sample(name)
    warehouse = str(tmp_path / "warehouse")
    metadata = str(Path(sample.folder) / "cluster-metadata")
    run_audit(spark, Options(inputs=[sample.segments], warehouse=warehouse, cluster_metadata=metadata))
    judged = {
        (row["group_id"], row["epoch"]): [row[name] for name in REASON] for row in Recording(sample.folder).rebalances()
    }
    assert rebalances(spark, warehouse) == judged
    assert any(delay is not None for *_, delay in judged.values())
