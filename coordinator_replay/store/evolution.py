"""Tables that an older release has made are given what is new in the contract."""

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema

from coordinator_replay.errors import WarehouseError
from coordinator_replay.store.layout import STATS_PROPERTY, UPKEEP_PROPERTY, stats_columns
from coordinator_replay.tables.definition import Table


def missing_columns(opened: DeltaTable, table: Table, path: str) -> list[str]:
    """Return columns of the contract that a table lacks, in the contract's order.

    Raises:
        WarehouseError: every row has a value in one of them, and rows of the older release would have none.
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
    """Give a table the columns that are new in the contract, with their comments, and say which have bounds.

    Args:
        opened: the table; it is at its newest version afterwards.
        table: its definition.
        path: where it lies.

    Raises:
        WarehouseError: an older release has made it, whose rows would lack what each row has.
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
