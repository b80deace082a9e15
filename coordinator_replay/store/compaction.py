"""Compaction: small files of a table become large ones, with rows in the order that questions need.

Files with the same cluster, bucket and ``is_open`` are merged and sorted. Then a question about one group reads one
part of a file. Large files stay as they are.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import duckdb
import pyarrow as pa

from coordinator_replay.errors import WarehouseError
from coordinator_replay.store.duckdb_connection import connected
from coordinator_replay.store.duckdb_files import file_names, quoted
from coordinator_replay.store.layout import partition_text
from coordinator_replay.store.scan import BATCH_ROWS
from coordinator_replay.store.snapshot import TableFile
from coordinator_replay.store.writer import DataFile, FileWriter, Purge, conform, table_part
from coordinator_replay.tables.definition import Table

LARGE_FILE = 64 << 20
"""A file of at least this size is not rewritten again."""

_TOGETHER = 2 * LARGE_FILE
"""Largest number of bytes that are sorted together."""


MOST_SMALL_FILES = 30
"""Largest number of small files with the same partition values before upkeep is due: a month of nightly files."""


def groups_of_small(files: Iterable[TableFile]) -> Iterator[list[TableFile]]:
    """Yield lists of files. The files of a list can be merged into one file.

    A list has at least two small files with the same values of the partition columns. Together they have at most
    ``_TOGETHER`` bytes.

    Args:
        files: the files of a table.
    """
    by_values: dict[tuple[object, ...], list[TableFile]] = {}
    for file in files:
        if file.size < LARGE_FILE:
            by_values.setdefault((file.cluster, file.bucket, file.is_open), []).append(file)
    for small in by_values.values():
        together: list[TableFile] = []
        for file in sorted(small, key=lambda file: file.size):
            if together and sum(member.size for member in together) + file.size > _TOGETHER:
                yield from [together] if len(together) > 1 else []
                together = []
            together.append(file)
        yield from [together] if len(together) > 1 else []


def upkeep_note(files: Iterable[TableFile], added: Iterable[DataFile]) -> str | None:
    """Return a note that tells the user to run ``maintain``; None if no table has too many small files.

    Only files with the same values of the partition columns can be merged, and so only they are counted together.

    Args:
        files: the files of all tables.
        added: files that a run adds to the tables.
    """
    sizes = [(file.table, frozenset(file.partition_values().items()), file.size) for file in files]
    counts = Counter(
        (table, frozenset((name, partition_text(value)) for name, value in values))
        for table, values, size in sizes
        if size < LARGE_FILE
    )
    counts.update(
        (file.table, frozenset(file.partition)) for file in added if file.table is not None and file.size < LARGE_FILE
    )
    if not counts:
        return None
    (table, values), most = max(counts.items(), key=lambda item: (item[1], item[0][0]))
    if most <= MOST_SMALL_FILES:
        return None
    bucket = dict(values).get("bucket")
    where = table if bucket is None else f"bucket {bucket} of {table}"
    return f"upkeep is due: {where} has {most} small files, which maintain merges"


def rewrite(table: Table, folder: str, files: Sequence[TableFile], purge: Purge | None = None) -> list[DataFile]:
    """Write the rows of some files to new files, sorted by the table's clustering columns and keys.

    Args:
        table: the table of the files.
        folder: the table's folder.
        files: files with the same values of the partition columns.
        purge: which old rows to leave out (``maintain --keep``); None to keep all rows.

    Returns:
        The new files.

    Raises:
        WarehouseError: a file is missing or damaged.
    """
    schema = table.file_schema().remove_metadata()
    writer, part = FileWriter(), table_part(table, folder, files[0].partition_values(), purge)
    with connected(threads=None) as connection:
        try:
            for batch in _sorted(connection, table, schema, files):
                writer.add(part, conform(batch, schema))
        except duckdb.Error as problem:
            reason = str(problem).splitlines()[0]
            raise WarehouseError(f"{folder} can't be compacted: {reason}") from problem
    return writer.close()


def _sorted(
    connection: duckdb.DuckDBPyConnection, table: Table, schema: pa.Schema, files: Sequence[TableFile]
) -> Iterator[pa.RecordBatch]:
    names = ", ".join(map(quoted, file_names(connection, (file.uri for file in files))))
    columns = dict.fromkeys(name for name in (*table.clustering, *table.keys) if name in schema.names)
    order = ", ".join(f'"{name}" NULLS FIRST' for name in columns)
    rows = connection.sql(
        f"SELECT * FROM read_parquet([{names}], union_by_name=true, hive_partitioning=false) "  # noqa: S608 - quoted
        f"ORDER BY {order}"
    )
    yield from rows.to_arrow_reader(BATCH_ROWS)
