"""What reading and decoding a dump left: files of staged rows, what the dump covers, and what there is to say of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from coordinator_replay.log.dump import open_filesystem
from coordinator_replay.pipeline.data_files import (
    WRITTEN,
    DataFile,
    DataFiles,
    Part,
    conform,
    file_of,
    files_of,
    read_files,
    written_rows,
)
from coordinator_replay.pipeline.decode import BATCH_EPOCH, KINDS, STAGED
from coordinator_replay.pipeline.settle import Extent, Extents
from coordinator_replay.pipeline.tally import Tally

_ROWS_AT_ONCE = 50_000
_BYTES_A_TASK = 64 << 20


@dataclass(slots=True)
class Staged:
    """Staged rows of a run.

    Attributes:
        files: each file of rows with the number of the dump's file that they came from.
        extents: what the dump's files cover.
        notes: what the reader had to say.
        tally: counts of all rows, copies included.
    """

    files: list[tuple[DataFile, int]] = field(default_factory=list)
    extents: Extents = field(default_factory=lambda: Extents(()))
    notes: list[str] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)

    @property
    def rows(self) -> int:
        """How many records there are, copies included."""
        return sum(file.rows for file, _ in self.files)


def staged_by(told: DataFrame) -> Staged:
    """Read and decode the dump: an action; what comes back is as much as there are files and notes.

    Args:
        told: from ``stage_segments`` or ``stage_rows``.
    """
    staged, extents = Staged(), []
    # Not one by one: toLocalIterator would run a task only when the one before it is done.
    for row in told.collect():
        if row["path"] is not None:
            staged.files.append((file_of(row), row["file_id"]))
        elif row["tally"] is not None:
            staged.tally.take(row["tally"])
        elif row["note"] is not None:
            staged.notes.append(f"{row['source']}: {row['note']}")
        else:
            extents.append(
                Extent(
                    log_partition=row["log_partition"],
                    first_offset=row["first_offset"],
                    last_offset=row["last_offset"],
                    file_id=row["file_id"],
                    records=row["records"],
                    goes_back=row["goes_back"],
                    skipped=row["skipped"],
                )
            )
    staged.extents = Extents(tuple(extents))
    return staged


def records_type() -> StructType:
    """The Spark schema of ``as_records``."""
    carried = [field for field in STAGED["control"] if field.name != BATCH_EPOCH]
    structs = [pa.field(kind, pa.struct(list(columns))) for kind, columns in KINDS.items() if columns.names]
    whole = pa.schema([*carried, pa.field("leader_epoch", pa.int32()), *structs])
    return from_arrow_schema(whole, prefer_timestamp_ntz=False)


def as_records(spark: SparkSession, staged: Staged) -> DataFrame:
    """All staged rows: what every row has at the top, and a struct for each kind, of which at most one is not null."""
    carried = [F.col(name) for name in STAGED["control"].names if name != BATCH_EPOCH]
    epoch = F.col(BATCH_EPOCH).alias("leader_epoch")
    rows: DataFrame | None = None
    for kind in KINDS:
        mine = [file for file, _ in staged.files if file.part == kind]
        of_kind = read_files(spark, mine, from_arrow_schema(STAGED[kind], prefer_timestamp_ntz=False))
        structs = [
            _struct(fields, is_there=other == kind).alias(other) for other, fields in KINDS.items() if fields.names
        ]
        selected = of_kind.select(*carried, epoch, *structs)
        rows = selected if rows is None else rows.unionByName(selected)
    assert rows is not None  # noqa: S101 - there are kinds
    return rows


def _struct(fields: pa.Schema, *, is_there: bool) -> Column:
    type_ = from_arrow_schema(fields, prefer_timestamp_ntz=False)
    return F.struct(*fields.names) if is_there else F.lit(None).cast(type_)


def _shares(files: Sequence[tuple[DataFile, int]], at_least: int) -> list[list[int]]:
    """Places of files, shared out to tasks: as even as they can be in turns, few enough that their files are large."""
    total = sum(file.bytes for file, _ in files)
    count = min(len(files), max(at_least, total // _BYTES_A_TASK))
    by_size = sorted(range(len(files)), key=lambda place: -files[place][0].bytes)
    return [by_size[first::count] for first in range(count)]


def write_tables(
    spark: SparkSession, staged: Staged, parts: Mapping[str, Part], cluster: str, moved: Mapping[int, int]
) -> dict[str, list[DataFile]]:
    """Write staged rows as rows of their tables, file by file; nothing crosses to the JVM but the files' names.

    Args:
        spark: the session.
        staged: rows of files that do not overlap.
        parts: the table of each kind, in its own folder; rows of other kinds are left out.
        cluster: the name of the cluster.
        moved: what is added to ``missing_before``, by log partition.

    Returns:
        the files of each kind.
    """
    files, missing = [file for file in staged.files if file[0].part in parts], staged.extents.missing_before(moved)
    if not files:
        return {}
    shares = _shares(files, spark.sparkContext.defaultParallelism)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            written = DataFiles(parts)
            for place in (place for share in batch.column(0).to_pylist() for place in shares[share]):
                file, file_id = files[place]
                schema = parts[file.part].schema
                for rows in _rows_of(file.path):
                    before = pc.add(rows.column("missing_before"), missing.get(file_id, 0))
                    written.add(file.part, conform(rows, schema, cluster=cluster, missing_before=before))
            yield from written_rows(written.close())

    tasks = spark.range(0, len(shares), 1, max(len(shares), 1))
    return files_of(tasks.mapInArrow(write, WRITTEN))


def _rows_of(uri: str) -> Iterator[pa.RecordBatch]:
    filesystem, path = open_filesystem(uri)
    with filesystem.open_input_file(path) as file:
        yield from pq.ParquetFile(file).iter_batches(_ROWS_AT_ONCE)
