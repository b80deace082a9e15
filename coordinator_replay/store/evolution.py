"""Tables that an older release has made: which of them can be used, and what they are given to follow this release."""

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema

from coordinator_replay.errors import WarehouseError
from coordinator_replay.store.layout import BUCKETS_PROPERTY, UPKEEP_PROPERTY
from coordinator_replay.tables.definition import Table
from coordinator_replay.tables.migrations import SCHEMA_VERSION, check_version, version_of


def properties_of(opened: DeltaTable) -> dict[str, str]:
    """The properties of a table."""
    return {key: value for key, value in opened.metadata().configuration.items() if value is not None}


def check_layout(opened: DeltaTable, path: str) -> None:
    """Make sure that a table is laid out as this release reads and writes it.

    Args:
        opened: the table.
        path: where it lies.

    Raises:
        WarehouseError: a newer release has made it, or one that knew no buckets.
    """
    properties = properties_of(opened)
    version = version_of(properties)
    check_version(version, path)
    if version < SCHEMA_VERSION or BUCKETS_PROPERTY not in properties:
        raise WarehouseError(
            f"{path} was written by an older release, whose layout this one does not know; audit the dump again into "
            f"a new warehouse"
        )


def missing_columns(opened: DeltaTable, table: Table) -> list[str]:
    """Columns of the contract that a table lacks, in the contract's order."""
    there = {field.name for field in opened.schema().fields}
    return [column.name for column in table.columns if column.name not in there]


def add_columns(opened: DeltaTable, table: Table) -> None:
    """Give a table the columns that are new in the contract, with their comments.

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
