"""Reading of Parquet files in tasks, on any file system.

Only the columns that are asked for are read. Row groups are skipped if no row in them can meet the caller's condition.
"""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.dataset as ds

from coordinator_replay.errors import WarehouseError
from coordinator_replay.filesystem import FAILURES, open_filesystem
from coordinator_replay.io_metrics import IoMetrics, count
from coordinator_replay.store.snapshot import TableFile
from coordinator_replay.store.writer import conform

BATCH_ROWS = 50_000
"""Largest number of rows of a batch."""

Batches = Iterator[pa.RecordBatch]


def read_paths(
    uris: Iterable[str],
    columns: Sequence[str] | None,
    where: ds.Expression | None = None,
    dictionaries: Sequence[str] = (),
) -> Batches:
    """Yield rows of Parquet files, file by file in the given order.

    A column that a file lacks is left out.

    Args:
        uris: the files, as paths or URIs.
        columns: the columns to read; all columns of a file if None.
        where: condition on rows. A row group is not read if its bounds prove that no row of it meets the condition.
        dictionaries: text columns to read as Arrow dictionaries.

    Raises:
        WarehouseError: a file is missing or damaged.
    """
    parquet = ds.ParquetFileFormat(dictionary_columns=list(dictionaries), coerce_int96_timestamp_unit="us")
    for uri in uris:
        filesystem, path = open_filesystem(uri)
        try:
            fragment = parquet.make_fragment(path, filesystem)
            schema = fragment.physical_schema
            names = schema.names if columns is None else [name for name in columns if name in schema.names]
            count(IoMetrics(files_read=1, bytes_read=_bytes_of(fragment, names, where)))
            for batch in fragment.to_batches(columns=names, filter=where, batch_size=BATCH_ROWS, use_threads=False):
                count(IoMetrics(records_read=batch.num_rows))
                yield batch
        except FAILURES as problem:
            raise WarehouseError(f"{uri} can't be read: {problem}") from problem


def _bytes_of(fragment: ds.ParquetFileFragment, columns: Sequence[str], where: ds.Expression | None) -> int:
    """Return the compressed size of some columns in bytes, without the row groups that a condition excludes."""
    wanted = set(columns)
    kept = fragment if where is None else fragment.subset(where)
    groups = [fragment.metadata.row_group(group.id) for group in kept.row_groups]
    chunks = (group.column(place) for group in groups for place in range(group.num_columns))
    return sum(chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema.partition(".")[0] in wanted)


def read_table(
    files: Iterable[TableFile],
    columns: Sequence[str],
    where: ds.Expression | None = None,
    dictionaries: Sequence[str] = (),
) -> Batches:
    """Yield rows of files of a table, see ``read_paths``.

    The rows lack the partition columns, because the files of a table do not have them.
    """
    return read_paths((file.uri for file in files), columns, where, dictionaries)


def rows_of(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Return batches as one table with the columns of a schema.

    Columns that a batch lacks are null.
    """
    return pa.Table.from_batches((conform(batch, schema) for batch in batches), schema)


def reader_of(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatchReader:
    """Return a reader of batches for DuckDB, with the columns of a schema. The reader can be used only once.

    Columns that a batch lacks are null.
    """
    return pa.RecordBatchReader.from_batches(schema, (conform(batch, schema) for batch in batches))
