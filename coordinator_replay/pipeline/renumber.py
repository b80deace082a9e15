"""How ``missing_before`` goes on from the tables, and what a gap that is closed later does to records behind it."""

from collections.abc import Collection, Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.pipeline.data_files import keep
from coordinator_replay.pipeline.extremes import RECORDS, extremes_of
from coordinator_replay.pipeline.positions import Stretch, lies_in
from coordinator_replay.pipeline.settle import DAMAGE
from coordinator_replay.pipeline.warehouse import Warehouse

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
    held = [warehouse.read(name).where(mine).select(*_POSITION) for name in RECORDS]
    held.append(_quarantined(warehouse).where(mine).select(*_POSITION).distinct())
    every = reduce(DataFrame.unionByName, held)
    in_log = Window.partitionBy("log_partition").orderBy("log_offset")
    missing = (F.col("log_offset") - F.row_number().over(in_log) + 1).cast("bigint")
    counted = keep(every.withColumn("missing_before", missing), staging)
    for name in RECORDS:
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
    # The last record stands near the end nearly always: files of older ones are not opened for it.
    near = [Stretch(partition, max(end - _NEAR, 0), end) for partition, end in ends.items()]
    tops = extremes_of(warehouse, cluster, RECORDS, near)
    tops |= extremes_of(warehouse, cluster, RECORDS, [Stretch(p, 0, ends[p]) for p in ends.keys() - tops.keys()])
    # Where nothing stands between that record and the end, it is missing: all but what is in quarantine.
    after = [(partition, top.high + 1, ends[partition]) for partition, top in tops.items()]
    between = [Stretch(*one) for one in after if one[1] < one[2]]
    quarantined = _quarantined_within(warehouse, cluster, between) if between else {}
    return {
        partition: tops[partition].missing + end - at - quarantined.get(partition, 0) for partition, at, end in after
    }


def _quarantined_within(warehouse: Warehouse, cluster: str, stretches: Sequence[Stretch]) -> dict[int, int]:
    """How many positions in some stretches are in quarantine, by log partition."""
    known = _quarantined(warehouse).where((F.col("cluster") == cluster) & lies_in(F.col, stretches))
    counts = known.groupBy("log_partition").agg(F.countDistinct("log_offset")).collect()
    return {row[0]: row[1] for row in counts}


def _quarantined(warehouse: Warehouse) -> DataFrame:
    """Records in quarantine that have a position; they do not say what is missing before them."""
    rows = warehouse.read("quarantine")
    return rows.where(F.col("log_offset").isNotNull() & ~F.col("error_class").isin(DAMAGE))
