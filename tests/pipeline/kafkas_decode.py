"""Stored records, held against those that Kafka's own classes decoded from the same segments."""

import json
from pathlib import Path
from typing import Any

from deltalake import DeltaTable


def rows_of(warehouse: Path | str, table: str, cluster: str) -> list[dict[str, Any]]:
    """Return the rows that a table has of a cluster."""
    rows: list[dict[str, Any]] = DeltaTable(f"{warehouse}/{table}").to_pyarrow_table().to_pylist()
    return [row for row in rows if row["cluster"] == cluster]


def check_against_kafka(warehouse: Path | str, cluster: str, expected: list[dict[str, Any]]) -> None:
    """Hold the records that a warehouse has of a cluster against those that Kafka decoded."""
    commits, groups = (
        {(row["log_partition"], row["log_offset"]): row for row in rows_of(warehouse, table, cluster)}
        for table in ("offset_commits", "group_records")
    )
    records = [record for record in expected if "kind" in record]
    assert len(commits) + len(groups) == len(records)
    for record in records:
        position = (record["partition"], record["offset"])
        value = record.get("value")
        if record["kind"] != "OffsetCommit":
            row = groups[position]
            assert row["kind"] == record["kind"]
            assert json.loads(row["key_json"]) == record["key"]
            assert (row["value_json"] and json.loads(row["value_json"])) == value
        else:
            row = commits[position]
            found = {"group": row["group_id"], "topic": row["topic"], "partition": row["partition"]}
            assert found == record["key"]
            assert row["is_tombstone"] == (value is None)
            if value is not None:
                assert row["committed_offset"] == value["offset"]
                assert row["metadata"] == value["metadata"]
                assert row["topic_id"] == value.get("topicId")
                assert (-1 if row["leader_epoch"] is None else row["leader_epoch"]) == value.get("leaderEpoch", -1)
                assert round(row["commit_timestamp"].timestamp() * 1000) == value["commitTimestamp"]
        assert row["key_version"] == record["keyVersion"]
        assert row["value_version"] == record.get("valueVersion")
        if row["producer_id"] is not None:
            assert row["producer_id"] == record["producerId"]
            assert bool(row["is_transactional"]) == record["transactional"]
