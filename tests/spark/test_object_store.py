"""The data source over an S3 API: the same rows, and filters as over a folder; what a worker does, done here."""

import pyarrow as pa
from pyarrow import fs

from coordinator_replay.filesystem import open_filesystem
from coordinator_replay.spark.datasource import SegmentReader, SourceOptions
from coordinator_replay.spark.log_rows import LOG_ROW
from tests.samples import Sample

SAMPLE = Sample("group-lifecycles")


def rows_of(path: str) -> tuple[int, list[dict[str, object]]]:
    """How many partitions a path has, and their rows without the file's name."""
    reader = SegmentReader(SourceOptions(paths=(path,)), LOG_ROW)
    partitions = reader.partitions()
    batches = [batch for partition in partitions for batch in reader.read(partition)]
    rows = pa.Table.from_batches(batches).drop_columns("source").to_pylist()
    return len(partitions), sorted(rows, key=lambda row: (row["log_partition"], row["log_offset"]))


def test_segments_in_an_object_store_are_read_like_those_of_a_folder(s3: str) -> None:
    target, path = open_filesystem(s3)
    fs.copy_files(SAMPLE.segments, path, source_filesystem=fs.LocalFileSystem(), destination_filesystem=target)
    assert rows_of(s3) == rows_of(SAMPLE.segments)
