"""Files of tables on this machine, written anew without what groups with news replace; one task a table."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from coordinator_replay.pipeline.data_files import (
    WRITTEN,
    DataFile,
    DataFiles,
    Part,
    conform,
    files_of,
    some,
    written_rows,
)
from coordinator_replay.pipeline.task_rows import open_file, per_task

_BATCH_ROWS = 50_000


class Replaced(NamedTuple):
    """What a table loses.

    Attributes:
        name: the table.
        part: where the rows that stay go.
        paths: the files that are written anew.
        only_open: whether rows stay that are final: those with ``settled_at_offset``.
    """

    name: str
    part: Part
    paths: Sequence[str]
    only_open: bool


def _goes(rows: pa.RecordBatch, cluster: str, groups: pa.Array, *, only_open: bool) -> npt.NDArray[np.bool_]:
    """Which rows something new comes in place of."""
    goes = pc.and_(pc.equal(rows.column("cluster"), cluster), pc.is_in(rows.column("group_id"), value_set=groups))
    if only_open:
        goes = pc.and_(goes, pc.is_null(rows.column("settled_at_offset")))
    told: npt.NDArray[np.bool_] = goes.fill_null(False).to_numpy(zero_copy_only=False)
    return told


def without_groups(
    spark: SparkSession, tables: Sequence[Replaced], groups: Sequence[str], cluster: str
) -> dict[str, list[DataFile]]:
    """Write files anew without rows of some groups: an action.

    Args:
        spark: the session.
        tables: what each table loses.
        groups: files with the ids of the groups: group_id.
        cluster: whose groups.

    Returns:
        what stays, by table.
    """

    def each(table: Replaced) -> Iterator[pa.RecordBatch]:
        ids = pa.concat_tables(pq.read_table(path, columns=["group_id"]) for path in groups)
        known = ids.column("group_id").combine_chunks().cast(pa.string())
        files = DataFiles({table.name: table.part})
        for path in table.paths:
            with open_file(path, ()) as file:
                for rows in file.iter_batches(_BATCH_ROWS):
                    stay = some(rows, ~_goes(rows, cluster, known, only_open=table.only_open))
                    if stay.num_rows:
                        files.add(table.name, conform(stay, table.part.schema))
        yield from written_rows(files.close())

    return files_of(per_task(spark, tables, each, WRITTEN))
