"""From staged rows to records as the log held them: each position once, and how much is missing before it.

``missing_before`` of a record is the number of lower offsets of its log partition at which no record stood in the
input. Between two records of a group it rises just where something may have been lost.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.log.schema import DamageClass

DAMAGE = [*DamageClass, "MalformedLine"]
"""Error classes of stretches that are no records: they have no position of their own."""

KINDS = ("commit", "record", "quarantine")
"""The structs of a staged row that become rows of a table."""


def coverage(staged: DataFrame) -> DataFrame:
    """What each file covers: log_partition, file_id, first_offset, last_offset, records, missing, goes_back."""
    rows = staged.where(F.col("coverage.first_offset").isNotNull())
    return rows.select(
        "log_partition",
        "file_id",
        *(f"coverage.{name}" for name in ("first_offset", "last_offset", "records")),
        F.col("coverage.missing").alias("missing"),
        F.col("coverage.goes_back").alias("goes_back"),
    )


def reader_notes(staged: DataFrame) -> DataFrame:
    """What the reader had to say about files: source, note."""
    return staged.where(F.col("coverage.note").isNotNull()).select("coverage.source", "coverage.note")


def _by_offset(frame: DataFrame) -> DataFrame:
    """Coverage with the end of everything before it in its partition."""
    order = Window.partitionBy("log_partition").orderBy("first_offset", "last_offset", "file_id")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    return frame.withColumn("ended_before", F.max("last_offset").over(before)).withColumn(
        "records_before", F.coalesce(F.sum("records").over(before), F.lit(0))
    )


def overlaps(covered: DataFrame) -> DataFrame:
    """Files that share offsets with another one, or with themselves: copies of a partition, or damage."""
    return _by_offset(covered).where((F.col("first_offset") <= F.col("ended_before")) | F.col("goes_back"))


def gaps(covered: DataFrame) -> DataFrame:
    """Stretches between files that no file covers: log_partition, from_offset, to_offset (not included)."""
    return (
        _by_offset(covered)
        .where(F.col("first_offset") > F.col("ended_before") + 1)
        .select(
            "log_partition",
            (F.col("ended_before") + 1).alias("from_offset"),
            F.col("first_offset").alias("to_offset"),
        )
    )


def log_records(staged: DataFrame) -> DataFrame:
    """Staged rows that are records: all but those about coverage."""
    return staged.where(F.col("coverage").isNull())


def settle_apart(staged: DataFrame) -> DataFrame:
    """Records of files that do not overlap: only ``missing_before`` has to be carried from file to file."""
    base = _by_offset(coverage(staged)).select(
        "file_id", (F.col("first_offset") - F.col("records_before")).alias("base")
    )
    return (
        log_records(staged)
        .join(F.broadcast(base), "file_id", "left")
        .withColumn("missing_before", F.col("missing_before") + F.col("base"))
        .drop("base", "coverage")
    )


def settle_copies(staged: DataFrame) -> DataFrame:
    """Records of files or tables that may hold one position more than once.

    Of several copies the one with the highest leader epoch survives: it is the history that the partition's replicas
    agreed on. Damaged stretches are not positions and are all kept.
    """
    records = log_records(staged).drop("coverage")
    is_damage = F.coalesce(F.col("quarantine.error_class").isin(DAMAGE), F.lit(False))
    is_position = F.col("log_offset").isNotNull() & ~is_damage
    same_offset = Window.partitionBy("log_partition", "log_offset")
    best = same_offset.orderBy(F.col("leader_epoch").desc_nulls_last(), "file_id")
    survivors = records.where(is_position).withColumn("copy", F.row_number().over(best)).where("copy = 1").drop("copy")
    in_log = Window.partitionBy("log_partition").orderBy("log_offset")
    placed = survivors.withColumn("missing_before", F.col("log_offset") - F.row_number().over(in_log) + 1)
    return placed.unionByName(records.where(~is_position))
