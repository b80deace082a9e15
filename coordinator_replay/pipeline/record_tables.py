"""The tables of records: what a run read, as it was decoded, each record once whatever run brought it."""

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.pipeline.ledger import Run
from coordinator_replay.pipeline.positions import behind
from coordinator_replay.pipeline.staged_records import Staged, write_tables
from coordinator_replay.pipeline.tally import CONTROL
from coordinator_replay.pipeline.warehouse import TABLES_AT_ONCE, Warehouse

RECORD_TABLES = {
    "offset_commits": "commit",
    "group_records": "record",
    "quarantine": "quarantine",
    "control_records": None,
}
"""The tables that hold records, each with the struct of a staged row that is its row; control records have none."""

_STRUCTS = tuple(struct for struct in RECORD_TABLES.values() if struct)

_PLACE = ("log_partition", "log_offset")
_DAMAGED_PLACE = (*_PLACE, "source")


def write_staged(
    warehouse: Warehouse, run: Run, staged: Staged, moved: Mapping[int, int], names: Collection[str]
) -> None:
    """Write records as files, past Spark, to tables that hold none of them.

    Args:
        warehouse: has the tables; they take files.
        run: is told what was written.
        staged: the records, no position twice.
        moved: what is added to their ``missing_before``, by log partition.
        names: the tables.
    """
    kinds = {RECORD_TABLES[name] or CONTROL: name for name in names}
    parts = {kind: warehouse.own_part(name) for kind, name in kinds.items()}
    files = write_tables(warehouse.spark, staged, parts, run.cluster, moved)
    with ThreadPoolExecutor(TABLES_AT_ONCE) as pool:
        versions = list(pool.map(lambda kind: warehouse.add_files(kinds[kind], files.get(kind, [])), kinds))
    for (kind, name), version in zip(kinds.items(), versions, strict=True):
        rows = sum(file.rows for file in files.get(kind, []))
        run.table_versions[name] = version
        run.count_written(name, found=rows, written=rows)


def write_records(
    warehouse: Warehouse, run: Run, records: DataFrame, found: Mapping[str, int], names: Collection[str]
) -> None:
    """Append to each table of records what it does not hold yet.

    Args:
        warehouse: has the tables.
        run: is told what was written.
        records: settled rows, no position twice.
        found: how many there are by what they are, as ``Count.what`` has it.
        names: the tables.
    """

    def write(name: str, struct: str | None) -> None:
        counted = found.get(struct or CONTROL, 0)
        if not counted:
            run.table_versions[name] = warehouse.version(name)
            return
        rows = _not_held(warehouse, run, name, _rows(records, struct, run.cluster))
        written, run.table_versions[name] = warehouse.append(name, rows, run.run_id)
        run.count_written(name, found=counted, written=written)

    with ThreadPoolExecutor(TABLES_AT_ONCE) as pool:
        for done in [pool.submit(write, name, RECORD_TABLES[name]) for name in names]:
            done.result()


def _rows(records: DataFrame, struct: str | None, cluster: str) -> DataFrame:
    """The rows of one table."""
    mine = records.where(F.col(struct).isNotNull() if struct else F.col("control_type").isNotNull())
    carried = (column for column in mine.columns if column not in (*_STRUCTS, "leader_epoch", "file_id"))
    inner = (f"{struct}.*",) if struct else ()
    return mine.select(F.lit(cluster).alias("cluster"), *carried, *inner)


def _not_held(warehouse: Warehouse, run: Run, name: str, rows: DataFrame) -> DataFrame:
    """Rows that a table does not hold yet; judged by the table itself, so that a killed run can be run again."""
    if warehouse.is_new(name):
        return rows
    held = warehouse.read(name).where(F.col("cluster") == run.cluster)
    if name == "quarantine":
        same = (F.col(f"new.{key}").eqNullSafe(F.col(f"old.{key}")) for key in _DAMAGED_PLACE)
        old = held.select(*_DAMAGED_PLACE).alias("old")
        return rows.alias("new").join(old, reduce(Column.__and__, same), "left_anti")
    # Delta passes over files that end before this run begins.
    return rows.join(held.where(behind(run.from_offsets)).select(*_PLACE), list(_PLACE), "left_anti")
