"""A warehouse of the recorded variants, written without a JVM: the tables that a what-if reads."""

import json
from datetime import datetime
from pathlib import Path

from coordinator_replay.tables.definition import tables
from scripts.reasons.sample import Sample
from tests.query.small_warehouse import Row, write_rows

VARIANTS = Path(__file__).parents[1] / "data" / "variants"


def record_rows() -> list[Row]:
    """The rows of ``group_records``."""
    return [row_of(line) for line in Sample(VARIANTS).records() if "kind" in line and "topic" not in line]


def write_variants(folder: Path, records: list[Row] | None = None) -> Path:
    """Write the warehouse, of other rows of ``group_records`` where they are given."""
    records = record_rows() if records is None else records
    first = min(row["log_timestamp"] for row in records)
    rows = {
        "group_records": records,
        "audit_runs": [{"run_id": "1", "cluster": "default", "status": "done", "started_at": first}],
        "topics": [],
    }
    for name in tables():
        write_rows(folder, name, rows.get(name, []))
    return folder


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
