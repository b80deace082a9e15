"""Tables that an older release has made are given what is new in the contract."""

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema

from coordinator_replay.store.layout import STATS_PROPERTY, UPKEEP_PROPERTY, stats_columns
from coordinator_replay.tables.definition import Table


def missing_columns(opened: DeltaTable, table: Table) -> list[str]:
    """Columns of the contract that a table lacks, in the contract's order."""
    there = {field.name for field in opened.schema().fields}
    return [column.name for column in table.columns if column.name not in there]


def evolve(opened: DeltaTable, table: Table) -> None:
    """Give a table the columns that are new in the contract, with their comments, and say which have bounds.

    Args:
        opened: the table; it is at its newest version afterwards.
        table: its definition.
    """
    names = missing_columns(opened, table)
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
