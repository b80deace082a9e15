"""The table ``log_partitions``: for each log partition, its last record and the ranges without missing records."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from coordinator_replay.columns import NONE, numbers_of, plain_rows
from coordinator_replay.completeness.ranges import CompleteRange, are_longer, gaps_behind
from coordinator_replay.completeness.spans import ExactSpan, spans_of
from coordinator_replay.pipeline.bucket_files import BucketFiles, TableWriter
from coordinator_replay.pipeline.bucket_share import BucketShare
from coordinator_replay.pipeline.stored_copies import COPIES, BucketCompleteness, copy_rows
from coordinator_replay.store.scan import read_paths
from coordinator_replay.tables.definition import table
from coordinator_replay.times import latest_ms, microseconds, milliseconds, moment_of_ms

TABLE = "log_partitions"

_RECORDS = ("offset_commits", "group_records", "control_records", "quarantine")
_PLACE = ("log_partition", "log_offset", "log_timestamp")

_NOTHING_MISSING = {"complete_ranges": [{"from_offset": 0, "to_offset": 0, "exact_from_offset": 0}]}
"""The part of a row which says that every offset from 0 on was read."""

Needed = tuple[int, int]
"""A log partition and an offset."""


class _Times(NamedTuple):
    """Timestamps of the records before and after a log offset, in microseconds.

    Attributes:
        before_us: the latest time of the records below the log offset; None if no such record has a time.
        at_us: the time of the first record at or after the log offset, but never earlier than ``before_us``. None if
            there is no such record, or if this record has no time.
    """

    before_us: int | None = None
    at_us: int | None = None

    @property
    def before_ms(self) -> int | None:
        """Return ``before_us`` in milliseconds."""
        return None if self.before_us is None else self.before_us // 1000

    @property
    def at_ms(self) -> int | None:
        """Return ``at_us`` in milliseconds."""
        return None if self.at_us is None else self.at_us // 1000


def times_around(files: BucketFiles, needed: Iterable[Needed]) -> dict[Needed, _Times]:
    """Return the times of the records before and after each log offset.

    Args:
        files: files of the bucket.
        needed: pairs of log partition and log offset.
    """
    times_of = {partition: _Times() for partition in needed}
    if not times_of:
        return times_of
    records = read_paths((uri for name in _RECORDS for uri in files.uris(name)), _PLACE)
    columns = [[numbers_of(batch.column(name), NONE) for name in _PLACE] for batch in records]
    if not columns:
        return times_of
    partitions, offsets, at = map(np.concatenate, zip(*columns, strict=True))
    for partition, offset in times_of:
        is_own = partitions == partition
        below, behind = is_own & (offsets < offset) & (offsets != NONE), is_own & (offsets >= offset)
        before_us = int(at[below].max(initial=NONE))
        at_us = int(at[behind][offsets[behind].argmin()]) if behind.any() else NONE
        times_of[partition, offset] = _Times(
            None if before_us == NONE else before_us, None if at_us == NONE else max(before_us, at_us)
        )
    return times_of


@dataclass(slots=True)
class PartitionStep:
    """Proofs about the log partitions of a bucket, and their rows in table ``log_partitions``.

    Attributes:
        share: the bucket.
        files: files of the bucket, including the files with the new records.
        completeness: the ranges of log offsets in which no record is missing.
        positions: number of log offsets with a record, for each log partition that this run read.
        old: the rows of ``log_partitions`` that earlier runs wrote, by log partition. Times in these rows are
            milliseconds, except in lists.
    """

    share: BucketShare
    files: BucketFiles
    completeness: BucketCompleteness
    positions: Mapping[int, int]
    old: dict[int, dict[str, Any]] = field(init=False)
    _times: dict[Needed, _Times] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Set ``old`` to the rows of the table ``log_partitions`` that earlier runs wrote for the bucket."""
        uris = [file.uri for file in self.files.old(TABLE)]
        batches = read_paths(uris, table(TABLE).file_schema().names)
        self.old = {row["log_partition"]: row for batch in batches for row in plain_rows(batch)}

    def changed(self) -> list[int]:
        """Return log partitions for which the proofs of earlier runs have changed.

        These are log partitions in which new records changed the ranges without a missing record. If the new records
        only made the last range longer, or made new ranges after it, the log partition is left out.
        """
        return [
            partition
            for partition, ranges in self.completeness.ranges.items()
            if not self._is_longer(self.old.get(partition, _NOTHING_MISSING), ranges) and not self.new_gaps(partition)
        ]

    def new_gaps(self, partition: int) -> list[tuple[int, CompleteRange]]:
        """Return the complete ranges of a log partition that follow a gap after the last record of earlier runs.

        A complete range is a range of log offsets in which no record is missing. Each range comes with its index in the
        list of all ranges. Return an empty list if the complete ranges of earlier runs have changed.
        """
        ranges, old = self.completeness.ranges[partition], self.old.get(partition)
        if old is None or not old["complete_ranges"]:
            return []
        before = ranges_of(old["complete_ranges"])
        return [(number, ranges[number]) for number in gaps_behind(before, old["end_offset"], ranges)]

    @staticmethod
    def _is_longer(old: Mapping[str, Any], ranges: Sequence[CompleteRange]) -> bool:
        return are_longer(ranges_of(old["complete_ranges"]), ranges)

    def reached_ms(self) -> int:
        """Return the latest time of a record of the bucket that earlier runs have read, in milliseconds.

        Return 0 if no earlier run has read the bucket.
        """
        return max((row["end_timestamp"] or 0 for row in self.old.values()), default=0)

    def last_times(self) -> dict[int, int]:
        """Return the latest time of a record that any run has read, by log partition, in microseconds."""
        times = {partition: (row["end_timestamp"] or 0) * 1000 for partition, row in self.old.items()}
        for partition, last in self.share.last.items():
            times[partition] = max(times.get(partition, 0), microseconds(last))
        return times

    def times(self) -> Mapping[Needed, _Times]:
        """Return the times of the records before and after certain log offsets.

        These are the log offsets ``begins_at``, ``from_offset``, ``exact_from_offset`` and ``to_offset`` of the ranges
        in which no record is missing.
        """
        if self._times is None:
            needed = {
                (partition, offset)
                for partition, ranges in self.completeness.ranges.items()
                for span in ranges
                for offset in (span.begins_at, span.from_offset, span.exact_from_offset, span.to_offset)
                if offset is not None
            }
            self._times = times_around(self.files, needed)
        return self._times

    def complete_ms(self, partition: int) -> int | None:
        """Return the time since which no record of a log partition is missing, in milliseconds.

        Return None if no record has a time.
        """
        ranges, old = self.completeness.ranges[partition], self.old.get(partition)
        if old is not None and self._is_longer(old, ranges):
            since = old["complete_ranges"][-1]["from_timestamp"]
            if since is not None:
                return milliseconds(since)
        around = self.times()[partition, ranges[-1].from_offset]
        return latest_ms(around.at_ms, around.before_ms)

    def exact_spans(self) -> list[ExactSpan]:
        """Return the time ranges in which no record is missing, for each log partition that lacks some records."""
        return [
            span
            for partition in self.completeness.open_partitions()
            for span in spans_of(partition, ranges_of(self._of_partition(partition)["complete_ranges"]))
        ]

    def write(self, writer: TableWriter) -> None:
        """Write the rows of ``log_copies`` about the new copies, and the rows of ``log_partitions`` if they changed."""
        for copy in self.completeness.new:
            writer.add(COPIES, copy_rows(copy))
        rows = list(self._rows())
        if rows == [self.old[partition] for partition in sorted(self.old)]:
            return
        self.files.remove(TABLE)
        writer.add_rows(TABLE, rows)

    def _rows(self) -> Iterator[dict[str, Any]]:
        for partition in sorted({*self.old, *self.completeness.ranges}):
            log = self.share.logs.get(partition)
            divisor = {"hash_divisor": self.share.divisors.get(partition, 0)}
            yield self._of_partition(partition) | ({} if log is None else log.columns()) | divisor

    def _of_partition(self, partition: int) -> dict[str, Any]:
        ranges = self.completeness.ranges.get(partition)
        old = self.old.get(partition)
        if ranges is None:
            return old or {}
        if old is None or partition in self.share.lost_from or not self._is_longer(old, ranges):
            return self._row(partition, ranges, old or {})
        if _ended_where_exact(old, ranges):
            return self._row(partition, ranges, old)
        return self._longer(old, ranges[-1].to_offset)

    def _longer(self, row: dict[str, Any], to_offset: int) -> dict[str, Any]:
        """Return the row of a log partition, updated for new records that follow its last record without a gap.

        Args:
            row: the row that an earlier run wrote.
            to_offset: the log offset after the last new record.
        """
        partition = row["log_partition"]
        last = self.share.last.get(partition)
        end_ms = latest_ms(row["end_timestamp"], None if last is None else milliseconds(last))
        *others, last = row["complete_ranges"]
        changed = {"end_offset": to_offset, "end_timestamp": end_ms, **self._counts(partition, to_offset, row)}
        return (
            row
            | changed
            | {"complete_ranges": [*others, last | {"to_offset": to_offset, "to_timestamp": moment_of_ms(end_ms)}]}
        )

    def _counts(self, partition: int, end: int, row: Mapping[str, Any]) -> dict[str, Any]:
        records = self.positions.get(partition, row.get("records") or 0)
        return {"records": records, "missing_offsets": max(0, end - records)}

    def _row(self, partition: int, ranges: Sequence[CompleteRange], old: Mapping[str, Any]) -> dict[str, Any]:
        last = ranges[-1]
        times = self.times()
        first = min(int(span.own_copy.starts[0]) for span in ranges)
        is_complete = last.exact_from_offset is not None and last.exact_from_offset < last.to_offset
        exact_from = last.exact_from_offset if is_complete else None
        if last.is_whole:
            exact_from = 0
        return {
            **old,
            "log_partition": partition,
            "first_offset": first,
            "end_offset": last.to_offset,
            "end_timestamp": times[partition, last.to_offset].before_ms,
            "complete_ranges": [
                {
                    "from_offset": span.from_offset,
                    "to_offset": span.to_offset,
                    "from_timestamp": moment_of_ms(times[partition, span.from_offset].at_ms),
                    "to_timestamp": moment_of_ms(times[partition, span.to_offset].before_ms),
                    "exact_from_offset": span.exact_from_offset,
                    "exact_from_timestamp": None
                    if span.exact_from_offset is None
                    else moment_of_ms(times[partition, span.exact_from_offset].at_ms),
                }
                for span in ranges
            ],
            "complete_from_offset": exact_from,
            "complete_since": None if exact_from is None else times[partition, exact_from].at_ms,
            **self._counts(partition, last.to_offset, old),
            "gaps": [
                {"log_partition": partition, "from_offset": span.begins_at, "to_offset": span.from_offset}
                for span in ranges
                if span.is_gap
            ],
        }


def ranges_of(rows: Sequence[Mapping[str, Any]] | None) -> list[CompleteRange]:
    """Return the ranges of log offsets in which no record is missing.

    Args:
        rows: the value of the column ``complete_ranges`` in a row of ``log_partitions``.
    """
    return [CompleteRange(**row) for row in rows or ()]


def exact_spans(files: BucketFiles) -> list[ExactSpan]:
    """Return the time ranges in which no record is missing, for each log partition of a bucket that lacks some records.

    Args:
        files: files of the bucket, with the table ``log_partitions``.
    """
    batches = read_paths(files.uris(TABLE), ["log_partition", "complete_ranges"])
    rows = (row for batch in batches for row in batch.to_pylist())
    return [span for row in rows for span in spans_of(row["log_partition"], ranges_of(row["complete_ranges"]))]


def _ended_where_exact(row: Mapping[str, Any], ranges: Sequence[CompleteRange]) -> bool:
    """Return whether a log partition now has a time since which it is complete, and had none after the last run.

    Args:
        row: the row of the log partition that the last run wrote.
        ranges: the ranges of log offsets without a missing record, including the new records.
    """
    exact_from = ranges[-1].exact_from_offset
    return row["complete_from_offset"] is None and exact_from is not None and exact_from < ranges[-1].to_offset
