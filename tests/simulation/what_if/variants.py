"""A warehouse of the recorded variants, written without a JVM: the tables that a what-if reads."""

import json
from datetime import datetime
from pathlib import Path

from coordinator_replay.query.tables import Tables
from coordinator_replay.simulation.recorded_groups import recorded_of
from coordinator_replay.simulation.what_if.outcome import rows_of
from coordinator_replay.times import EPOCH, later
from scripts.reasons.sample import Sample
from tests.query.small_warehouse import Row, write_rows, write_tables

VARIANTS = Path(__file__).parents[2] / "data" / "variants"


def record_rows() -> list[Row]:
    """The rows of ``group_records``."""
    return [row_of(line) for line in Sample(VARIANTS).records() if "kind" in line and "topic" not in line]


def write_variants(folder: Path, records: list[Row] | None = None) -> Path:
    """Write the warehouse, of other rows of ``group_records`` where they are given."""
    records = record_rows() if records is None else records
    first = min(row["log_timestamp"] for row in records)
    run = {"run_id": "1", "cluster": "default", "status": "done", "started_at": first}
    write_tables(folder, group_records=records, audit_runs=[run])
    groups = sorted({row["group_id"] for row in records})
    write_rows(folder, "rebalances", [row for group in groups for row in rebalances_of(folder, group)])
    return folder


def rebalances_of(folder: Path, group: str) -> list[Row]:
    """The rows of ``rebalances`` that the group's records make."""
    recorded = recorded_of(Tables(str(folder)), group)
    made = rows_of(group, recorded.records, recorded.names, recorded.changes).get("rebalances", [])
    last = {row["rebalance_id"]: row | {"cluster": "default"} for row in made}
    return [
        row | {name: None if row[name] is None else later(EPOCH, row[name]) for name in ("started_at", "completed_at")}
        for row in last.values()
    ]


def row_of(line: Row) -> Row:
    value = line["value_json"]
    names = ("group_id", "kind", "value_version", "log_partition", "log_offset", "missing_before")
    return {
        **{name: line[name] for name in names},
        "cluster": "default",
        "key_json": json.dumps(line["key_json"]),
        "value_json": None if value is None else json.dumps(value),
        "is_tombstone": value is None,
        "log_timestamp": datetime.fromisoformat(line["log_timestamp"]),
    }
