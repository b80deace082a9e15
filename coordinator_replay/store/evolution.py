"""Updates of a table that an older release has made: new columns, and the list of columns with statistics.

The statistics are in Delta's log: each file's lowest and highest value of a column.
"""

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema

from coordinator_replay.errors import WarehouseError
from coordinator_replay.store.layout import STATS_PROPERTY, UPKEEP_PROPERTY, stats_columns
from coordinator_replay.tables.definition import Table


def missing_columns(opened: DeltaTable, table: Table, path: str) -> list[str]:
    """Return columns of the definition that a table lacks, in the order of the definition.

    Raises:
        WarehouseError: a missing column must not be null, so it can't be added to the table.
    """
    there = {field.name for field in opened.schema().fields}
    lacking = [column for column in table.columns if column.name not in there]
    if required := [column.name for column in lacking if column.is_required]:
        raise WarehouseError(
            f"{path} was written by an older release, whose rows have no {required[0]}; audit the dump again into a "
            f"new warehouse"
        )
    return [column.name for column in lacking]


def evolve(opened: DeltaTable, table: Table, path: str) -> None:
    """Add columns that the definition has and the table lacks, with their comments. Update its ``STATS_PROPERTY``.

    Args:
        opened: the table; afterwards, this object is at the table's newest version.
        table: the table's definition.
        path: the table's folder.

    Raises:
        WarehouseError: rows of the older release lack a required value.
    """
    names = missing_columns(opened, table, path)
    if names:
        fields = Schema.from_arrow(pa.schema(table.arrow_schema(names))).fields
        opened.alter.add_columns(
            fields, commit_properties=CommitProperties(custom_metadata={UPKEEP_PROPERTY: "columns"})
        )
    wanted = stats_columns(table)
    if opened.metadata().configuration.get(STATS_PROPERTY) != wanted:
        opened.alter.set_table_properties(
            {STATS_PROPERTY: wanted},
            commit_properties=CommitProperties(custom_metadata={UPKEEP_PROPERTY: "properties"}),
        )
