"""The first and last records in some stretches of the log: small questions, which a night asks of large tables.

Where the tables' files lie on this machine, one job answers them, whose tasks look into the few files that can hold
such records; a plan of Spark's over three tables takes as long as much larger steps do.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.pandas.types import from_arrow_schema

from coordinator_replay.pipeline.delta_log import HeldFile
from coordinator_replay.pipeline.positions import Stretch, lies_in
from coordinator_replay.pipeline.sums import numbers_of
from coordinator_replay.pipeline.task_rows import dealt, per_task, rows_where
from coordinator_replay.pipeline.warehouse import Warehouse

RECORDS = ("offset_commits", "group_records", "control_records")
"""The tables whose rows say what is missing before them."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_READ = ("log_partition", "log_offset", "missing_before", "log_timestamp")
_EXTREMES = pa.schema(
    [(name, pa.int64()) for name in ("log_partition", "low", "high", "missing", "earliest", "latest")]
)
_MOMENT = pa.timestamp("us", tz="UTC")


def moment_of(at_us: int) -> datetime:
    """A time in microseconds as a moment."""
    return _EPOCH + timedelta(microseconds=at_us)


@dataclass(slots=True)
class Extremes:
    """What records of one log partition reach to.

    Attributes:
        low: the lowest offset.
        high: the highest.
        missing: the ``missing_before`` of the highest.
        earliest: the earliest time, in microseconds; None where no record has one.
        latest: the latest.
    """

    low: int
    high: int
    missing: int
    earliest: int | None
    latest: int | None

    def both(self, other: "Extremes") -> "Extremes":
        """Those of all records that these are of, and others of the same log partition."""
        times = [one for both in (self, other) for one in (both.earliest, both.latest) if one is not None]
        last = max(self, other, key=lambda one: one.high)
        low, high = min(self.low, other.low), max(self.high, other.high)
        return Extremes(low, high, last.missing, min(times, default=None), max(times, default=None))


def _is_named(file: HeldFile, stretches: Sequence[Stretch]) -> bool:
    """Whether all log partitions of a file are named by some stretches."""
    named = {one.log_partition for one in stretches}
    low, high = file.lowest.get("log_partition"), file.highest.get("log_partition")
    if low is None or high is None or high - low >= len(named):
        return False
    return named.issuperset(range(low, high + 1))


def _may_hold(file: HeldFile, stretch: Stretch, cluster: str) -> bool:
    """Whether a file may hold records of a stretch, by what the table's log says of it."""

    def spans(column: str, low: Any, high: Any) -> bool:
        lowest, highest = file.lowest.get(column), file.highest.get(column)
        is_below = high is not None and lowest is not None and lowest > high
        return not (is_below or (low is not None and highest is not None and highest < low))

    partition, last = stretch.log_partition, None if stretch.end is None else stretch.end - 1
    return (
        spans("cluster", cluster, cluster)
        and spans("log_partition", partition, partition)
        and spans("log_offset", stretch.first, last)
        and spans("log_timestamp", stretch.since, None)
    )


def files_in(files: Sequence[HeldFile], cluster: str, stretches: Sequence[Stretch]) -> list[HeldFile]:
    """Those files of a table that may hold records of some stretches.

    Args:
        files: the table's.
        cluster: whose records.
        stretches: where they lie.
    """
    named = [one for one in stretches if one.log_partition is not None]
    return [
        file
        for file in files
        if any(_may_hold(file, one, cluster) for one in (named if _is_named(file, named) else stretches))
    ]


def _of_rows(rows: pa.RecordBatch) -> Iterator[dict[str, int | None]]:
    """The extremes of a batch, by log partition: a row of _EXTREMES each."""
    partitions, offsets = (numbers_of(rows.column(name)) for name in ("log_partition", "log_offset"))
    at = rows.column("log_timestamp").cast(_MOMENT).cast(pa.int64())
    for partition in np.unique(partitions).tolist():
        [mine] = np.nonzero(partitions == partition)
        last = mine[np.argmax(offsets[mine])].item()
        times = pc.min_max(at.take(pa.array(mine))).as_py()
        yield {
            "log_partition": partition,
            "low": offsets[mine].min().item(),
            "high": offsets[last].item(),
            "missing": rows.column("missing_before")[last].as_py(),
            "earliest": times["min"],
            "latest": times["max"],
        }


def _by_files(warehouse: Warehouse, paths: Sequence[str], cluster: str, stretches: Sequence[Stretch]) -> DataFrame:
    """The extremes of each batch of some files, in _EXTREMES."""
    stretches = list(stretches)

    def each(mine: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = (pc.field("cluster") == cluster) & lies_in(pc.field, stretches)
        told = [row for batch in rows_where(mine, _READ, wanted) for row in _of_rows(batch)]
        yield pa.RecordBatch.from_pylist(told, schema=_EXTREMES)

    return per_task(warehouse.spark, dealt(warehouse.spark, paths), each, from_arrow_schema(_EXTREMES))


def _by_spark(warehouse: Warehouse, names: Sequence[str], cluster: str, stretches: Sequence[Stretch]) -> DataFrame:
    """The extremes of each log partition, in _EXTREMES."""
    wanted = (F.col("cluster") == cluster) & lies_in(F.col, stretches)
    rows = reduce(DataFrame.unionByName, (warehouse.read(name).where(wanted).select(*_READ) for name in names))
    last = F.max(F.struct("log_offset", "missing_before")).alias("last")
    at = F.unix_micros("log_timestamp")
    bounds = (F.min("log_offset").alias("low"), last, F.min(at).alias("earliest"), F.max(at).alias("latest"))
    told = rows.groupBy("log_partition").agg(*bounds)
    high, missing = F.col("last.log_offset").alias("high"), F.col("last.missing_before").alias("missing")
    return told.select("log_partition", "low", high, missing, "earliest", "latest")


def extremes_of(
    warehouse: Warehouse, cluster: str, names: Sequence[str], stretches: Sequence[Stretch]
) -> dict[int, Extremes]:
    """The extremes of the records that lie in some stretches, by log partition: an action.

    Args:
        warehouse: holds the tables.
        cluster: whose records.
        names: of the tables, some of RECORDS.
        stretches: where to look.

    Returns:
        without log partitions in which no record lies there.
    """
    if not stretches:
        return {}
    held = [warehouse.held(name) for name in names]
    if any(files is None for files in held):
        rows = _by_spark(warehouse, names, cluster, stretches).collect()
    else:
        every = [file for files in held for file in files or ()]
        paths = [file.path for file in files_in(every, cluster, stretches)]
        rows = _by_files(warehouse, paths, cluster, stretches).collect() if paths else []
    found: dict[int, Extremes] = {}
    for row in rows:
        told = Extremes(*(row[field.name] for field in fields(Extremes)))
        mine = found.get(row["log_partition"])
        found[row["log_partition"]] = told if mine is None else mine.both(told)
    return found
