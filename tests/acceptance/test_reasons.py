"""What an audit hands to the replay of groups beside their records: topic changes, and commits as signs of life."""

import pytest
from deltalake import DeltaTable

from scripts.reasons.sample import Sample as Recording
from tests.acceptance.conftest import AUDITED
from tests.samples import Sample

REASON = ("cause", "join_reason", "confidence", "evidence", "alternatives", "trigger_members", "metadata_delay_ms")


def rebalances(warehouse, cluster):
    table = DeltaTable(f"{warehouse}/rebalances").to_pyarrow_table(filters=[("cluster", "=", cluster)])
    return {(row["group_id"], row["epoch"]): [row[name] for name in REASON] for row in table.to_pylist()}


@pytest.mark.parametrize("name", AUDITED)
def test_an_audit_finds_the_reasons_of_the_judged_path(audited, name):
    judged = {
        (row["group_id"], row["epoch"]): [row[column] for column in REASON]
        for row in Recording(Sample(name).folder).rebalances()
    }
    assert rebalances(audited, name) == judged
    assert judged
