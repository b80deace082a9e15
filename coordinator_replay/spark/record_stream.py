"""Decoded records as Spark brings them to a task, sorted, as the replay of groups takes them.

Commits are nearly all of a log, and a replay needs few of them: the last one of each partition shortly before a record
that may show a departure. So commits are looked at batch by batch, in columns, and only those become Python values.
"""

from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import starmap

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.analysis.reasons.signs import DEPARTURES, SIGNS_WITHIN_MS
from coordinator_replay.errors import InputError
from coordinator_replay.pipeline.columns import numbers_of
from coordinator_replay.pipeline.groups.input_rows import InputRow
from coordinator_replay.pipeline.groups.signs import MINUTE_MS, LastCommit, RecordKey

STREAM = pa.schema(
    [
        ("group_id", pa.string()),
        ("log_partition", pa.int32()),
        ("log_offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("kind", pa.string()),
        ("key_json", pa.string()),
        ("value_json", pa.string()),
        ("value_version", pa.int16()),
        ("missing_before", pa.int64()),
        ("record_bytes", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("is_commit", pa.bool_()),
    ]
)
"""The columns of a task's rows: those of ``InputRow``, and topic and partition of commits."""

Bools = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]

Commits = dict[tuple[str, int], tuple[int, int]]
"""Time and log offset of the last commit, by topic and partition."""

GroupKey = tuple[str, int]
"""A group by id and log partition."""


class RecordStream:
    """The rows of a task, in order of group, log partition and log offset.

    It is what the replay pulls records from, and what it asks for the commits before the record it pulled last.

    Args:
        batches: rows in STREAM.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches
        self._group: GroupKey | None = None
        self._offset = -1
        self._waiting: Commits = {}
        self._pulled: RecordKey | None = None
        self._before: Commits = {}

    def before(self, record: RecordKey) -> Iterator[LastCommit] | None:
        """The last commits before the record that was pulled last, ordered by topic and partition."""
        if record != self._pulled or not self._before:
            return None
        commits = sorted(self._before.items())
        return ((topic, partition, at, record[1], offset) for (topic, partition), (at, offset) in commits)

    def __iter__(self) -> Iterator[InputRow]:
        """The records, without the commits.

        Raises:
            InputError: a record comes twice, or records come in another order.
        """
        for batch in self._batches:
            if batch.num_rows:
                yield from self._records(batch)

    def _records(self, batch: pa.RecordBatch) -> Iterator[InputRow]:
        runs = self._runs(batch)
        is_commit = _bools(batch.column("is_commit"))
        [places] = np.nonzero(~is_commit)
        rows = batch.take(pa.array(places))
        shows = _may_show_departure(rows)
        before = self._commits(batch, runs, np.flatnonzero(is_commit), places[shows])
        columns = (rows.column(name).to_pylist() for name in InputRow._fields)
        for place, is_departure, row in zip(
            places.tolist(), shows.tolist(), starmap(InputRow, zip(*columns, strict=True)), strict=True
        ):
            if is_departure:
                self._pulled = (row.group_id, row.log_partition, row.log_offset)
                self._before = before.pop(place, {})
            yield row

    def _runs(self, batch: pa.RecordBatch) -> Numbers:
        """A number for each row by its group, 0 for that of the batch before; checks the order."""
        group_ids, logs = batch.column("group_id"), _numbers(batch.column("log_partition"))
        offsets = _numbers(batch.column("log_offset"))
        changes = np.ones(batch.num_rows, np.bool_)
        changes[1:] = _bools(pc.not_equal(group_ids[1:], group_ids[:-1])) | (logs[1:] != logs[:-1])
        changes[0] = (group_ids[0].as_py(), int(logs[0])) != self._group
        previous = np.append(self._offset, offsets[:-1])
        [wrong] = np.nonzero(~changes & (offsets <= previous))
        if len(wrong):
            at = int(wrong[0])
            raise _disorder(group_ids[at].as_py(), int(logs[at]), int(offsets[at]), int(previous[at]))
        self._group, self._offset = (group_ids[-1].as_py(), int(logs[-1])), int(offsets[-1])
        if changes[0]:
            self._waiting = {}
        runs: Numbers = np.cumsum(changes)
        return runs - int(changes[0])

    def _commits(
        self, batch: pa.RecordBatch, runs: Numbers, commits: Numbers, departures: Numbers
    ) -> dict[int, Commits]:
        """The last commits before each departure, by its place in the batch; keeps those behind the last one."""
        found: dict[int, Commits] = {}
        times = numbers_of(batch.column("timestamp_ms"), -1)
        if len(departures) and runs[departures[0]] == 0:
            first = int(departures[0])
            found[first] = self._near(int(times[first]))
            self._waiting = {}
        following = np.append(departures, -1)[np.searchsorted(departures, commits)]
        follows = (following >= 0) & (runs[following] == runs[commits])
        near = follows & _is_near(times[commits], times[following])
        for place, key, last in _last_commits(batch, commits[near], following[near]):
            found.setdefault(place, {})[key] = last
        if (len(departures) and runs[departures[-1]] == runs[-1]) or runs[-1] != 0:
            self._waiting = {}
        behind = ~follows & (runs[commits] == runs[-1]) & (times[commits] >= 0)
        for _, key, last in _last_commits(batch, commits[behind], np.zeros(int(behind.sum()), np.int64)):
            self._waiting[key] = max(last, self._waiting.get(key, last))
        return found

    def _near(self, departure_ms: int) -> Commits:
        """The waiting commits that are near a departure."""
        times = np.array([at for at, _ in self._waiting.values()], np.int64)
        near = _is_near(times, np.full(len(times), departure_ms))
        return {key: last for (key, last), is_near in zip(self._waiting.items(), near.tolist(), strict=True) if is_near}


def _last_commits(
    batch: pa.RecordBatch, commits: Numbers, before: Numbers
) -> Iterator[tuple[int, tuple[str, int], tuple[int, int]]]:
    """The last of some commits by what they come before, topic and partition."""
    if not len(commits):
        return
    rows = batch.select(["topic", "partition", "timestamp_ms", "log_offset"]).take(pa.array(commits))
    table = pa.Table.from_batches([rows]).append_column("before", pa.array(before))
    in_order = table.sort_by([("timestamp_ms", "ascending"), ("log_offset", "ascending")])
    last = in_order.group_by(["before", "topic", "partition"], use_threads=False).aggregate(
        [("timestamp_ms", "last"), ("log_offset", "last")]
    )
    names = ("before", "topic", "partition", "timestamp_ms_last", "log_offset_last")
    for place, topic, partition, at, offset in zip(*(last.column(name).to_pylist() for name in names), strict=True):
        yield place, (topic, partition), (at, offset)


def _is_near(commit_ms: Numbers, departure_ms: Numbers) -> Bools:
    """Whether commits are signs of life of members that a record may have removed."""
    minutes = commit_ms // MINUTE_MS <= departure_ms // MINUTE_MS
    near: Bools = (commit_ms >= 0) & (departure_ms - commit_ms <= SIGNS_WITHIN_MS) & minutes
    return near


def _may_show_departure(records: pa.RecordBatch) -> Bools:
    is_tombstone = pc.is_null(records.column("value_json"))
    kinds = [
        pc.and_(pc.equal(records.column("kind"), kind), pc.equal(is_tombstone, by_tombstone))
        for kind, by_tombstone in DEPARTURES.items()
    ]
    return _bools(reduce(pc.or_, kinds)) & (numbers_of(records.column("timestamp_ms"), -1) >= 0)


def _disorder(group_id: str, log_partition: int, offset: int, previous: int) -> InputError:
    if offset == previous:
        return InputError(
            f"group {group_id!r}: the record at offset {offset} of log partition {log_partition} comes twice; drop "
            f"duplicates by log_partition and log_offset first"
        )
    return InputError(
        f"records of group {group_id!r} are not in log order: offset {offset} comes after {previous} in log partition "
        f"{log_partition}; sort them by group_id, log_partition and log_offset"
    )


def _bools(column: pa.Array) -> Bools:
    bools: Bools = column.fill_null(False).to_numpy(zero_copy_only=False)
    return bools


def _numbers(column: pa.Array) -> Numbers:
    numbers: Numbers = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers
