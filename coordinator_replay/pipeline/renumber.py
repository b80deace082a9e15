"""How ``missing_before`` goes on from the tables, and what a gap that is closed later does to records behind it."""

from collections.abc import Collection, Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.pipeline.data_files import keep
from coordinator_replay.pipeline.positions import within
from coordinator_replay.pipeline.settle import DAMAGE
from coordinator_replay.pipeline.warehouse import Warehouse

_NUMBERED = ("offset_commits", "group_records", "control_records")
"""The tables whose rows carry ``missing_before``."""

_NEAR = 100_000
"""How many offsets before an end are looked through first."""

_POSITION = ("log_partition", "log_offset")


def renumber(warehouse: Warehouse, cluster: str, log_partitions: Collection[int], staging: str) -> None:
    """Count anew, in all tables, what is missing before each record of some log partitions.

    Args:
        warehouse: its tables hold all records.
        cluster: whose records.
        log_partitions: those that got records below others that stood in the tables already.
        staging: a folder for what is needed more than once.
    """
    mine = (F.col("cluster") == cluster) & F.col("log_partition").isin(sorted(log_partitions))
    held = [warehouse.read(name).where(mine).select(*_POSITION) for name in _NUMBERED]
    held.append(_quarantined(warehouse).where(mine).select(*_POSITION).distinct())
    every = reduce(DataFrame.unionByName, held)
    in_log = Window.partitionBy("log_partition").orderBy("log_offset")
    missing = (F.col("log_offset") - F.row_number().over(in_log) + 1).cast("bigint")
    counted = keep(every.withColumn("missing_before", missing), staging)
    for name in _NUMBERED:
        warehouse.update(name, counted, _POSITION, "missing_before", cluster)


def missing_before_end(warehouse: Warehouse, cluster: str, ends: Mapping[int, int]) -> dict[int, int]:
    """How much is missing before the end of what earlier runs have read, as the tables count it.

    Args:
        warehouse: holds the records that earlier runs have read.
        cluster: whose.
        ends: the offset after the last one read, by log partition. What stands behind it is a killed run's, which this
            run has read again.

    Returns:
        by log partition; without those of which the tables hold no record that says how much is missing before it.
    """
    mine = F.col("cluster") == cluster
    # The last record stands near the end nearly always: files of older ones are not opened for it.
    tops = _tops(warehouse, mine & within((partition, end - _NEAR, end) for partition, end in ends.items()))
    others = [(partition, 0, end) for partition, end in ends.items() if partition not in tops]
    tops |= _tops(warehouse, mine & within(others)) if others else {}
    # Where nothing stands between that record and the end, it is missing: all but what is in quarantine.
    after = {partition: top["log_offset"] + 1 for partition, top in tops.items()}
    known = _quarantined(warehouse).where(mine & within((one, at, ends[one]) for one, at in after.items()))
    counts = known.groupBy("log_partition").agg(F.countDistinct("log_offset")).collect()
    quarantined = {row[0]: row[1] for row in counts}
    return {
        partition: top["missing_before"] + ends[partition] - top["log_offset"] - 1 - quarantined.get(partition, 0)
        for partition, top in tops.items()
    }


def _tops(warehouse: Warehouse, condition: Column) -> dict[int, Row]:
    """The last record that a condition holds for, by log partition: log_offset and missing_before."""
    rows = [warehouse.read(name).where(condition).select(*_POSITION, "missing_before") for name in _NUMBERED]
    newest = F.max(F.struct("log_offset", "missing_before")).alias("newest")
    return dict(map(tuple, reduce(DataFrame.unionByName, rows).groupBy("log_partition").agg(newest).collect()))


def _quarantined(warehouse: Warehouse) -> DataFrame:
    """Records in quarantine that have a position; they do not say what is missing before them."""
    rows = warehouse.read("quarantine")
    return rows.where(F.col("log_offset").isNotNull() & ~F.col("error_class").isin(DAMAGE))
