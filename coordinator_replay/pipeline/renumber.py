"""What a gap that is closed later does to records behind it: fewer are missing before them than was thought."""

from collections.abc import Collection
from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.pipeline.settle import DAMAGE
from coordinator_replay.pipeline.warehouse import Warehouse

_NUMBERED = ("offset_commits", "group_records", "control_records")
"""The tables whose rows carry ``missing_before``."""

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
    quarantined = warehouse.read("quarantine").where(mine & F.col("log_offset").isNotNull())
    held.append(quarantined.where(~F.col("error_class").isin(DAMAGE)).select(*_POSITION))
    every = reduce(DataFrame.unionByName, held)
    in_log = Window.partitionBy("log_partition").orderBy("log_offset")
    missing = (F.col("log_offset") - F.row_number().over(in_log) + 1).cast("bigint")
    every.withColumn("missing_before", missing).write.parquet(staging)
    counted = warehouse.spark.read.parquet(staging)
    for name in _NUMBERED:
        warehouse.update(name, counted, _POSITION, "missing_before", cluster)
