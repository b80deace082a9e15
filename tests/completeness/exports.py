"""Exports through a consumer: what of a copy a consumer sees, and audits of it in this process."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coordinator_replay.log.dump import Dump
from coordinator_replay.log.schema import LOG_RECORD
from coordinator_replay.pipeline import audit as audit_module
from tests.cleaner.lives import Life

_COLUMNS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
)


def write_export(folder: Path, life: Life) -> Path:
    """What a consumer read from start to end at once, as Spark's Kafka source has it: no control records."""
    rows = [
        {
            "key": record.key,
            "value": record.value,
            "topic": "__consumer_offsets",
            "partition": int(name.rpartition("-")[2]),
            "offset": record.offset,
            "timestamp": datetime.fromtimestamp(record.timestamp_ms / 1000, UTC),
            "timestampType": 0,
        }
        for name, one in life.partitions.items()
        for batch in one.log.batches
        if not batch.is_control
        for record in batch.records
    ]
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, _COLUMNS), folder / "part-0.parquet")
    return folder


def _read(_spark: Any, dump: Dump) -> list[pa.RecordBatch]:
    found = []
    for path in dump.paths:
        for file in sorted(Path(path).rglob("*.parquet")) if Path(path).is_dir() else [Path(path)]:
            table = pq.read_table(file)
            known = {
                "log_partition": table["partition"],
                "log_offset": table["offset"],
                "log_timestamp": table["timestamp"],
                "key": table["key"],
                "value": table["value"],
            }
            nulls = {one.name: pa.nulls(len(table), one.type) for one in LOG_RECORD}
            whole = pa.table({**nulls, **known}).select(LOG_RECORD.names).cast(LOG_RECORD)
            found += whole.combine_chunks().to_batches()
    return found


def _run(
    _spark: Any, _name: str, rows: Sequence[pa.RecordBatch], stage: Callable[[Iterator[pa.RecordBatch]], Any]
) -> list[Any]:
    return [stage(iter(rows))]


@pytest.fixture
def read_exports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exports are read in this process, too."""
    monkeypatch.setattr(audit_module, "read_tables", _read)
    monkeypatch.setattr(audit_module, "run_on_rows", _run)
