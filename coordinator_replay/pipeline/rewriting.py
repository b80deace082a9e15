"""Files of tables on this machine, written anew without rows that others come in place of."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
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
from coordinator_replay.pipeline.delta_log import HeldFile
from coordinator_replay.pipeline.sums import Bools, as_bools
from coordinator_replay.pipeline.task_rows import dealt, open_file, per_task
from coordinator_replay.pipeline.warehouse import Warehouse

_BATCH_ROWS = 50_000
_TASK_ROWS = 500_000
_SETTLED = "settled_at_offset"
_FINAL, _OPEN = "final", "open"

Goes = Callable[[pa.RecordBatch], Bools]
"""Tells of each row of a batch whether others come in its place."""


class Rewritten(NamedTuple):
    """What a table loses.

    Attributes:
        name: the table.
        part: where the rows that stay go.
        paths: the files that are written anew.
        going: called once by its task, tells which rows go.
    """

    name: str
    part: Part
    paths: Sequence[str]
    going: Callable[[], Goes]


@dataclass(frozen=True, slots=True)
class GroupsGo:
    """Rows of some groups go.

    Attributes:
        groups: files with the ids of the groups: group_id.
        cluster: whose groups.
        only_open: whether rows stay that are final: those with ``settled_at_offset``.
    """

    groups: Sequence[str]
    cluster: str
    only_open: bool

    def __call__(self) -> Goes:
        """Read the ids; tells which rows go."""
        ids = pa.concat_tables(pq.read_table(path, columns=["group_id"]) for path in self.groups)
        known = ids.column("group_id").combine_chunks().cast(pa.string())

        def goes(rows: pa.RecordBatch) -> Bools:
            is_mine = pc.equal(rows.column("cluster"), self.cluster)
            told = pc.and_(is_mine, pc.is_in(rows.column("group_id"), value_set=known))
            if self.only_open:
                told = pc.and_(told, pc.is_null(rows.column(_SETTLED)))
            return as_bools(told)

        return goes


def _are_open(rows: pa.RecordBatch) -> Bools:
    """Which rows are not final, as far as the table tells."""
    if _SETTLED not in rows.schema.names:
        return np.zeros(rows.num_rows, np.bool_)
    return as_bools(rows.column(_SETTLED).is_null())


def rewritten(spark: SparkSession, tables: Sequence[Rewritten]) -> dict[str, list[DataFile]]:
    """Write files anew without rows that go: an action.

    Final rows get files of their own, which no later run has to write anew.

    Args:
        spark: the session.
        tables: what each table loses.

    Returns:
        what stays, by table.
    """

    def each(mine: Sequence[Rewritten]) -> Iterator[pa.RecordBatch]:
        for table in mine:
            goes, files = table.going(), DataFiles({_FINAL: table.part, _OPEN: table.part})
            for path in table.paths:
                with open_file(path, ()) as file:
                    for rows in file.iter_batches(_BATCH_ROWS):
                        stay = conform(some(rows, ~goes(rows)), table.part.schema)
                        is_open = _are_open(stay)
                        for part, told in ((_FINAL, some(stay, ~is_open)), (_OPEN, some(stay, is_open))):
                            if told.num_rows:
                                files.add(part, told)
            yield from written_rows(replace(file, part=table.name) for file in files.close())

    work = [table for table in tables if table.paths]
    return files_of(per_task(spark, dealt(spark, work), each, WRITTEN)) if work else {}


class Replacing(NamedTuple):
    """Which rows of a table others come in place of.

    Attributes:
        condition: what holds for them, in SQL.
        goes: the same of a batch.
        may_hold: whether a file of the table may hold any.
    """

    condition: str
    goes: Goes
    may_hold: Callable[[HeldFile], bool]


def put_files_where(
    warehouse: Warehouse, name: str, files: Sequence[DataFile], cluster: str, replacing: Replacing
) -> int:
    """Put what files of a part hold in place of other rows, in one commit; returns the version.

    Files that lie in the table's folder join it as they are.

    Args:
        warehouse: holds the table.
        name: the table.
        files: what workers wrote; the condition holds for all of it.
        cluster: whose rows.
        replacing: which rows go.
    """
    held = warehouse.held(name)
    if held is None or not warehouse.are_in_place(name, files):
        return warehouse.replace_where(name, warehouse.rows(name, files), cluster, replacing.condition)
    old = [file for file in held if replacing.may_hold(file)]
    paths, goes = [file.path for file in old], replacing.goes

    def going() -> Goes:
        return lambda rows: as_bools(pc.equal(rows.column("cluster"), cluster)) & goes(rows)

    # Few rows are written by few tasks; but upkeep may have put all of a table where some of them go.
    tasks = min(len(old), max(sum(file.rows or _TASK_ROWS for file in old) // _TASK_ROWS, 1))
    part = warehouse.own_part(name)
    stay = rewritten(warehouse.spark, [Rewritten(name, part, paths[task::tasks], going) for task in range(tasks)])
    return warehouse.swap(name, [*files, *stay.get(name, [])], paths)
