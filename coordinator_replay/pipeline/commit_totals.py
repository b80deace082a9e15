"""What commits come to, by group and by partition, kept from run to run so that findings need not add up all history.

What is told of a commit is final once no later run derives it anew. So the table holds what everything before a moment
comes to, and a run that begins behind that moment adds the rest; one that begins before it adds up all of it.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Self

import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.pandas.types import from_arrow_schema

from coordinator_replay.pipeline.commit_sums import HISTORY, HISTORY_PARTS, history_sums
from coordinator_replay.pipeline.data_files import WRITTEN_SCHEMA, DataFile, Part, aside, files_of, read_files
from coordinator_replay.pipeline.task_rows import TaskRows, rows_where
from coordinator_replay.pipeline.warehouse import Warehouse

TABLE = "commit_totals"

LATELY = timedelta(minutes=10)
"""What ended so shortly before the newest record is not final yet: records of the next run that bear an earlier time
than the newest one have it derived anew."""


def kept_until(end: datetime) -> datetime:
    """The moment before which what commits come to is kept for the next run: a whole minute.

    Args:
        end: timestamp of the last record.
    """
    lately = end - LATELY
    whole = lately.replace(second=0, microsecond=0)
    return whole if whole == lately else whole + timedelta(minutes=1)


def totals_since(warehouse: Warehouse, cluster: str, since_us: int | None) -> datetime | None:
    """The moment before which the table's totals count; None where they don't.

    Args:
        warehouse: holds the table.
        cluster: whose totals.
        since_us: no record from where this run begins on has an earlier time, in microseconds.
    """
    if warehouse.is_new(TABLE):
        return None
    until = _until(warehouse, cluster)
    if until is None or (since_us is not None and since_us < until * 1_000_000):
        return None
    return datetime.fromtimestamp(until, UTC)


def _until(warehouse: Warehouse, cluster: str) -> int | None:
    """The moment that all of a cluster's totals end at, in seconds."""
    held = warehouse.held(TABLE)
    if held is None:
        rows = warehouse.read(TABLE).where(F.col("cluster") == cluster)
        # Spark's own moments are of no time zone here: an hour that a clock goes through twice would be told wrong.
        first = rows.select(F.unix_seconds("until").alias("until")).first()
        return None if first is None else int(first["until"])
    files = rows_where([file.path for file in held], ["until"], pc.field("cluster") == cluster)
    told = next((rows.column("until")[0].as_py() for rows in files if rows.num_rows), None)
    return None if told is None else int(told.timestamp())


class HistorySums(NamedTuple):
    """What rows of the history come to, several rows of a partition where several tasks have seen it.

    Attributes:
        partitions: rows in PARTITIONS.
        rewinds: rows in REWINDS.
    """

    partitions: DataFrame
    rewinds: DataFrame

    @classmethod
    def of(cls, spark: SparkSession, written: Mapping[str, Sequence[DataFile]]) -> Self:
        """Read them from where tasks wrote them, by part."""
        return cls(
            *(
                read_files(spark, written.get(name, []), from_arrow_schema(schema, prefer_timestamp_ntz=False))
                for name, schema in HISTORY_PARTS.items()
            )
        )


def history_parts(staging: str) -> dict[str, Part]:
    """Where tasks write what rows of the history come to."""
    return {name: aside(f"{staging}/history/{name}", schema) for name, schema in HISTORY_PARTS.items()}


def sum_history(history: TaskRows, until: datetime, staging: str) -> HistorySums:
    """Add up rows of ``offset_history``, task by task.

    Args:
        history: the rows.
        until: which commits are over: those from before this moment.
        staging: a folder for what is needed more than once.
    """
    add_up = history_sums(history_parts(staging), until)
    return HistorySums.of(history.frame.sparkSession, files_of(history.map(HISTORY, add_up, WRITTEN_SCHEMA)))
