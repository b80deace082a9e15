"""From staged rows to records as the log held them: each position once, and how much is missing before it.

``missing_before`` of a record is the number of lower offsets of its log partition at which no record stood in the
input. Between two records of a group it rises just where something may have been lost.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.log.schema import DamageClass

DAMAGE = [*DamageClass, "MalformedLine"]
"""Error classes of stretches that are no records: they have no position of their own."""


@dataclass(frozen=True, slots=True, order=True)
class Extent:
    """The offsets that one file covers, both ends included.

    ``records`` counts control records too, and those passed over as audited before: ``skipped`` of them.
    """

    log_partition: int
    first_offset: int
    last_offset: int
    file_id: int
    records: int
    goes_back: bool
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Extents:
    """The extents of all files of a run: as many as there are files, and the driver has listed those anyway."""

    files: tuple[Extent, ...]

    def _with_ends(self) -> Iterator[tuple[Extent, int | None, int]]:
        """Each extent in order, with the last offset and the number of records before it in its partition."""
        partition, ended, records = None, None, 0
        for extent in sorted(self.files):
            if extent.log_partition != partition:
                partition, ended, records = extent.log_partition, None, 0
            yield extent, ended, records
            ended = extent.last_offset if ended is None else max(ended, extent.last_offset)
            records += extent.records

    def have_copies(self) -> bool:
        """Whether some offset may stand in the files more than once: copies of a partition, or damage."""
        return any(
            extent.goes_back or (ended is not None and extent.first_offset <= ended)
            for extent, ended, _ in self._with_ends()
        )

    def gaps(self) -> list[tuple[int, int, int]]:
        """Stretches between files that no file covers: log_partition, from, to (not included)."""
        return [
            (extent.log_partition, ended + 1, extent.first_offset)
            for extent, ended, _ in self._with_ends()
            if ended is not None and extent.first_offset > ended + 1
        ]

    def missing_before(self, moved: Mapping[int, int] = MappingProxyType({})) -> dict[int, int]:
        """For each file the number of offsets before it at which no record stood, if there are no copies.

        Args:
            moved: what is added to that, by log partition.
        """
        return {
            extent.file_id: extent.first_offset - records + moved.get(extent.log_partition, 0)
            for extent, _, records in self._with_ends()
        }


def settle_apart(records: DataFrame, extents: Extents) -> DataFrame:
    """Records of files that do not overlap: only ``missing_before`` has to be carried from file to file."""
    missing = extents.missing_before()
    if not any(missing.values()):
        return records
    rows = list(missing.items())
    carried = F.broadcast(records.sparkSession.createDataFrame(rows, "file_id INT, carried BIGINT"))
    return (
        records.join(carried, "file_id", "left")
        .withColumn("missing_before", F.col("missing_before") + F.coalesce("carried", F.lit(0)))
        .drop("carried")
    )


def move_missing(records: DataFrame, moved: Mapping[int, int], ends: Mapping[int, int]) -> DataFrame:
    """Add to ``missing_before`` of records that stand where earlier runs ended, or behind.

    Args:
        records: settled.
        moved: what to add, by log partition.
        ends: where earlier runs ended, by log partition.
    """
    if not moved:
        return records
    shift = F.lit(0)
    for partition, more in moved.items():
        is_later = (F.col("log_partition") == partition) & (F.col("log_offset") >= ends[partition])
        shift = F.when(is_later, F.lit(more)).otherwise(shift)
    return records.withColumn("missing_before", F.col("missing_before") + shift)


def settle_copies(records: DataFrame) -> DataFrame:
    """Records of files or tables that may hold one position more than once.

    Of several copies the one with the highest leader epoch survives: it is the history that the partition's replicas
    agreed on. Damaged stretches are not positions and are all kept.
    """
    is_damage = F.coalesce(F.col("quarantine.error_class").isin(DAMAGE), F.lit(False))
    is_position = F.col("log_offset").isNotNull() & ~is_damage
    same_offset = Window.partitionBy("log_partition", "log_offset")
    best = same_offset.orderBy(F.col("leader_epoch").desc_nulls_last(), "file_id")
    survivors = records.where(is_position).withColumn("copy", F.row_number().over(best)).where("copy = 1").drop("copy")
    in_log = Window.partitionBy("log_partition").orderBy("log_offset")
    placed = survivors.withColumn("missing_before", F.col("log_offset") - F.row_number().over(in_log) + 1)
    return placed.unionByName(records.where(~is_position))
