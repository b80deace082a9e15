"""Stored copies of log partitions (table ``log_copies``), and the ranges of log offsets without a missing record."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field

import numpy as np
import pyarrow as pa

from coordinator_replay.completeness.copies import Copy, CopyBounds
from coordinator_replay.completeness.history import history_of
from coordinator_replay.completeness.ranges import CompleteRange
from coordinator_replay.store.scan import read_paths, rows_of
from coordinator_replay.store.writer import conform
from coordinator_replay.tables.definition import table

COPIES = "log_copies"
"""The table of copies."""

_BOUNDS = ("log_partition", "copy", "is_export", "covered_from_offset", "cleaned_to_offset", "end_offset")
"""The columns for the fields of ``CopyBounds``, without its last field."""
_RANGES = ("from_offset", "to_offset", "is_gap_before")
_SCHEMA = table(COPIES).arrow_schema(["run_id", *_BOUNDS, *_RANGES]).remove_metadata()


def copy_rows(copy: Copy) -> pa.RecordBatch:
    """Convert a copy of a log partition to rows of ``log_copies``. The rows lack the column ``cluster``."""
    about = dict(zip(_BOUNDS, astuple(copy.bounds), strict=False)) | {"run_id": copy.run_id}
    ranges = pa.record_batch([copy.starts, copy.stops, copy.gap_before], _RANGES)
    return conform(ranges, _SCHEMA, **about)


def read_copies(uris: Iterable[str]) -> dict[int, list[Copy]]:
    """Return the copies that earlier runs have read, by log partition.

    Args:
        uris: files of ``log_copies``.
    """
    rows = rows_of(read_paths(uris, _SCHEMA.names), _SCHEMA)
    about = ["run_id", *_BOUNDS]
    # One thread keeps the order.
    by_copy = rows.group_by(about, use_threads=False).aggregate([(name, "list") for name in _RANGES]).combine_chunks()
    ranges = zip(*(by_copy.column(f"{name}_list").combine_chunks() for name in _RANGES), strict=True)
    copies: dict[int, list[Copy]] = {}
    for row, of_copy in zip(by_copy.select(about).to_pylist(), ranges, strict=True):
        run_id, *bounds = row.values()
        starts, *others = (column.values.to_numpy(zero_copy_only=False) for column in of_copy)
        order = np.argsort(starts, kind="stable")
        copy = Copy(run_id, CopyBounds(*bounds), starts[order], *(other[order] for other in others))
        copies.setdefault(copy.bounds.log_partition, []).append(copy)
    return copies


@dataclass(slots=True)
class BucketCompleteness:
    """The ranges of log offsets of a bucket in which no record is missing, and the new copies of log partitions.

    Attributes:
        ranges: the ranges by log partition.
        new: the copies that this run has read.
    """

    ranges: Mapping[int, Sequence[CompleteRange]]
    new: Sequence[Copy] = field(default_factory=list)

    def open_partitions(self) -> Iterator[int]:
        """Yield log partitions with missing records."""
        for partition, ranges in self.ranges.items():
            if len(ranges) != 1 or not ranges[0].is_whole:
                yield partition


def completeness(earlier: Mapping[int, Sequence[Copy]], new: Sequence[Copy]) -> BucketCompleteness:
    """Return the ranges of log offsets in which no record is missing, by log partition.

    A record is missing only if it is missing in all copies of the log partition.

    Args:
        earlier: the copies that earlier runs have read, by log partition.
        new: the copies that this run has read.
    """
    every: dict[int, list[Copy]] = {partition: list(copies) for partition, copies in earlier.items()}
    for copy in new:
        every.setdefault(copy.bounds.log_partition, []).append(copy)
    return BucketCompleteness({partition: history_of(copies) for partition, copies in sorted(every.items())}, new)
