"""Exports through a consumer: what of a copy a consumer sees, as a file."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pyarrow.parquet as pq

from tests.cleaner.recorded_log import RecordedLog

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


def write_export(folder: Path, life: RecordedLog, since: Mapping[str, int] = MappingProxyType({})) -> Path:
    """What a consumer read from start to end at once, as Spark's Kafka source has it: no control records.

    Args:
        folder: where to.
        life: the log.
        since: from which offset on it read, by partition folder; from the beginning where none is given.
    """
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
        if record.offset >= since.get(name, 0)
    ]
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, _COLUMNS), folder / "part-0.parquet")
    return folder
