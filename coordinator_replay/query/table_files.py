"""SELECT statements with which DuckDB reads the files of a Delta table.

Delta's log lists the files of a table, with statistics of their columns. So DuckDB need not read files that can't have
rows of a group. DuckDB reads Parquet files itself, which takes a quarter of the time and memory of an Arrow dataset.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import duckdb
from deltalake import DeltaTable

from coordinator_replay.errors import WarehouseError
from coordinator_replay.store.duckdb_files import quoted
from coordinator_replay.store.snapshot import Snapshot, TableFile

_DUCKDB_TYPES = {
    "string": "VARCHAR",
    "binary": "BLOB",
    "boolean": "BOOLEAN",
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "timestamp": "TIMESTAMPTZ",
    "timestamp_ntz": "TIMESTAMP",
}


class Engine(NamedTuple):
    """A DuckDB that can read the files of tables.

    Attributes:
        connection: connection of this DuckDB.
        name_files: function that takes paths or URIs of files, and returns the names under which DuckDB can open these
            files.
    """

    connection: duckdb.DuckDBPyConnection
    name_files: Callable[[Iterable[str]], list[str]]


_PLAIN_READER = 1
"""Reader version of Delta tables that can be read from their files alone: each file has only rows of the table, and
columns with the names of the table."""


def _duckdb_type(delta: Any) -> str:
    """Convert a type of a Delta schema to the name of this type in DuckDB's SQL."""
    if isinstance(delta, str):
        return delta.upper() if delta.startswith("decimal") else _DUCKDB_TYPES[delta]
    if delta["type"] == "array":
        return f"{_duckdb_type(delta['elementType'])}[]"
    if delta["type"] == "map":
        return f"MAP({_duckdb_type(delta['keyType'])}, {_duckdb_type(delta['valueType'])})"
    fields = ", ".join(f'"{field["name"]}" {_duckdb_type(field["type"])}' for field in delta["fields"])
    return f"STRUCT({fields})"


def _may_match(file: TableFile, bounds: Mapping[str, str]) -> bool:
    """Return whether a file may have rows with the given values, as far as its statistics show.

    Args:
        file: the file.
        bounds: the given values, by column.
    """
    # Texts in statistics may have been shortened, but they are still bounds of the file's values.
    lowest, highest = {"cluster": file.cluster, **file.lowest}, {"cluster": file.cluster, **file.highest}
    return all(lowest.get(column, value) <= value <= highest.get(column, value) for column, value in bounds.items())


def _of_each(column: str, values: Sequence[Any], type_: str) -> str:
    """Return an SQL expression for the value of a Delta partition column, which is not stored in the files.

    Args:
        column: name of the partition column.
        values: value of this column for each file.
        type_: the type of the column in DuckDB's SQL.
    """
    texts = ["NULL" if value is None else quoted(str(value)) for value in values]
    if len(set(texts)) == 1:
        return f'CAST({texts[0]} AS {type_}) AS "{column}"'
    return f'CAST([{", ".join(texts)}] AS {type_}[])[CAST(file_index AS BIGINT) + 1] AS "{column}"'


def select_files(
    name_files: Callable[[Iterable[str]], list[str]], table: DeltaTable, snapshot: Snapshot, bounds: Mapping[str, str]
) -> str:
    """Return a SELECT over the files of a table, in the columns and types of its Delta schema.

    Args:
        name_files: function that takes URIs of files, and returns the names under which DuckDB can open these files.
        table: the table, opened with its Delta log.
        snapshot: the files of the same table.
        bounds: the values to look for, by column, such as the id of a group. Files without these values are left out,
            as far as their statistics show it. The SELECT returns all rows of the other files.

    Raises:
        WarehouseError: the table uses features of Delta that can't be read from its files alone.
    """
    if table.protocol().min_reader_version != _PLAIN_READER:
        raise WarehouseError(
            f"{snapshot.uri} was given features of Delta (deletion vectors, renamed columns) that questions can't read "
            f"without Spark; drop the features, or audit into a new warehouse"
        )
    types = {field["name"]: _duckdb_type(field["type"]) for field in json.loads(table.schema().to_json())["fields"]}
    # An empty SELECT declares the columns, so a column that no file has yet is null. If there are no files, the
    # statement is only this SELECT.
    typed = ", ".join(f'CAST(NULL AS {type_}) AS "{name}"' for name, type_ in types.items())
    empty = f"SELECT {typed} WHERE false"
    files = [file for file in snapshot.every if _may_match(file, bounds)]
    if not files:
        return empty
    partitions = [
        _of_each(column, [getattr(file, column) for file in files], types[column])
        for column in table.metadata().partition_columns
    ]
    names = ", ".join(map(quoted, name_files(file.uri for file in files)))
    return (
        f"{empty} UNION ALL BY NAME "  # noqa: S608 - file names come from Delta's log, quoted
        f"SELECT {', '.join(['*', *partitions])} "
        f"FROM read_parquet([{names}], union_by_name=true, hive_partitioning=false)"
    )
