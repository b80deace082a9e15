"""Commits added up by group, minute and partition: nothing of a commit leaves its task but its share of a sum."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.analysis.findings.thresholds import MINUTE_MS
from coordinator_replay.pipeline.columns import NONE, Numbers, Sums, array_of, batch_of_columns, numbers_of
from coordinator_replay.pipeline.findings.cells import Cells
from coordinator_replay.pipeline.findings.minute_states import MinuteStates
from coordinator_replay.times import milliseconds

_AT_ONCE = 250_000

COMMIT = (
    *("group_id", "topic", "partition", "log_partition", "log_offset", "log_timestamp"),
    *("record_bytes", "is_tombstone", "producer_id"),
)
"""What is read of ``offset_commits`` for sums by group and by minute."""

_COUNTED = [
    ("log_partition", pa.int32()),
    ("commits", pa.int64()),
    ("bytes", pa.int64()),
    ("unproven", pa.int64()),
    ("first_at", pa.int64()),
    ("last_at", pa.int64()),
    ("last_offset", pa.int64()),
]
GROUPS = pa.schema(
    [
        ("is_over", pa.bool_()),
        ("group_id", pa.string()),
        *_COUNTED,
        ("most_a_minute", pa.int64()),
        ("hot_minutes", pa.int64()),
        ("hot_from", pa.int64()),
        ("hot_to", pa.int64()),
    ]
)
"""Commits of a group: how many, how many bytes, of how many the input doesn't show whether they were made in a
transaction, the first and last time in milliseconds, and in how many minutes there were too many for each of its
partitions that were committed then."""

MINUTES = pa.schema([("minute", pa.int64()), ("kind", pa.int32()), ("commits", pa.int64())])
"""Commits of all groups in a minute since 1970, by what these groups were at its end."""

_CELL = pa.schema(
    [
        ("group_id", pa.dictionary(pa.int32(), pa.string())),
        ("topic", pa.dictionary(pa.int32(), pa.string())),
        ("partition", pa.int32()),
        ("minute", pa.int64()),
        *_COUNTED,
    ]
)

_KEY = [("is_over", pa.bool_()), ("group_id", pa.string()), ("topic", pa.string()), ("partition", pa.int32())]
PARTITIONS = pa.schema(
    [
        *_KEY,
        ("log_partition", pa.int32()),
        ("commits", pa.int64()),
        ("first_at", pa.int64()),
        ("last_at", pa.int64()),
        ("metadata_bytes", pa.int64()),
        ("with_leader_epoch", pa.int64()),
        ("from_offset", pa.int64()),
        ("committed_offset", pa.int64()),
        ("is_lost", pa.bool_()),
        ("empty_count", pa.int64()),
        ("empty_first_at", pa.int64()),
        ("empty_from_offset", pa.int64()),
        ("empty_valid_from", pa.int64()),
        ("empty_committed_offset", pa.int64()),
        ("empty_previous_offset", pa.int64()),
    ]
)
"""Commits of a partition, as far as one task has seen them at once: sums, first and last times in milliseconds, and
offsets of the newest one, and whether records begin to be missing in which it ended; the same of those into an Empty
group."""

REWINDS = pa.schema(
    [
        *_KEY,
        ("log_partition", pa.int32()),
        ("valid_from", pa.int64()),
        ("from_offset", pa.int64()),
        ("committed_offset", pa.int64()),
        ("previous_offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("is_transactional", pa.bool_()),
        ("owner_member_id", pa.string()),
        ("group_state", pa.string()),
    ]
)
"""Commits below the one before."""

PARTITION_SUMS, REWIND_SUMS = "partition_sums", "rewinds"
"""What rows of the history come to, by the name of their staged files."""


def _ms(column: pa.Array) -> Numbers:
    """Moments in milliseconds since 1970; NONE for none."""
    micros = numbers_of(column.cast(pa.timestamp("us", tz="UTC")), NONE)
    millis: Numbers = np.where(micros == NONE, NONE, np.floor_divide(micros, 1000))
    return millis


def _coded(column: pa.Array) -> pa.DictionaryArray:
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _joined(batches: Sequence[pa.RecordBatch]) -> dict[str, pa.Array]:
    table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    return {name: table.column(name).combine_chunks() for name in table.column_names}


def _as_cells(commits: pa.RecordBatch) -> pa.RecordBatch:
    """Commits as sums of one each; tombstones, and commits without a time, do not count."""
    is_counted = pc.and_(pc.invert(commits.column("is_tombstone")), pc.is_valid(commits.column("log_timestamp")))
    rows = commits.filter(is_counted.fill_null(False))
    at = _ms(rows.column("log_timestamp"))
    cells = [
        _coded(rows.column("group_id")),
        _coded(rows.column("topic")),
        rows.column("partition"),
        np.floor_divide(at, MINUTE_MS),
        rows.column("log_partition"),
        np.ones(len(at), np.int64),
        numbers_of(rows.column("record_bytes")),
        pc.is_null(rows.column("producer_id")).cast(pa.int64()),
        at,
        at,
        rows.column("log_offset"),
    ]
    return batch_of_columns(cells, _CELL)


def _added_up(cells: dict[str, pa.Array]) -> pa.RecordBatch:
    """One cell for each partition and minute."""
    keys = [numbers_of(cells[name].indices) for name in ("group_id", "topic")]
    sums = Cells([*keys, numbers_of(cells["partition"]), numbers_of(cells["minute"])])
    columns = [
        *(sums.first(cells[name]) for name in ("group_id", "topic", "partition", "minute")),
        sums.most(numbers_of(cells["log_partition"], NONE)),
        *(sums.sums(numbers_of(cells[name])) for name in ("commits", "bytes", "unproven")),
        sums.least(numbers_of(cells["first_at"])),
        *(sums.most(numbers_of(cells[name])) for name in ("last_at", "last_offset")),
    ]
    return batch_of_columns(columns, _CELL)


class MinuteSums:
    """Commits of each group and minute, from cells of whole groups; a row is one of these."""

    def __init__(self, cells: dict[str, pa.Array]) -> None:
        groups = cells["group_id"]
        sums = Cells([numbers_of(groups.indices), numbers_of(cells["minute"])])
        self.names = groups.dictionary
        self.groups = numbers_of(sums.first(groups).indices)
        self.minutes = numbers_of(sums.first(cells["minute"]))
        self.log_partitions = sums.most(numbers_of(cells["log_partition"], NONE))
        self.commits = sums.sums(numbers_of(cells["commits"]))
        self.bytes = sums.sums(numbers_of(cells["bytes"]))
        self.unproven = sums.sums(numbers_of(cells["unproven"]))
        self.first_at = sums.least(numbers_of(cells["first_at"]))
        self.last_at = sums.most(numbers_of(cells["last_at"]))
        self.last_offset = sums.most(numbers_of(cells["last_offset"]))
        # A cell is one partition.
        self.each = self.commits // sums.counts()

    def by_group(self, hot: int, until: datetime) -> pa.RecordBatch:
        """Rows in GROUPS.

        Args:
            hot: so many commits of each partition in a minute are too many.
            until: which minutes are over: those from before this moment.
        """
        until_ms = milliseconds(until)
        is_over = self.minutes * MINUTE_MS < until_ms
        is_hot = self.each >= hot
        sums = Cells([self.groups, is_over.astype(np.int64)])
        columns = [
            sums.first(pa.array(is_over)),
            self.names.take(sums.first(pa.array(self.groups))),
            sums.most(self.log_partitions),
            sums.sums(self.commits),
            sums.sums(self.bytes),
            sums.sums(self.unproven),
            sums.least(self.first_at),
            sums.most(self.last_at),
            sums.most(self.last_offset),
            sums.most(self.each),
            sums.sums(is_hot.astype(np.int64)),
            sums.least(np.where(is_hot, self.first_at, NONE)),
            sums.most(np.where(is_hot, self.last_at, NONE)),
        ]
        return batch_of_columns(columns, GROUPS)

    def by_kind(self, evidence: pa.Table) -> pa.RecordBatch:
        """Rows in MINUTES.

        Args:
            evidence: rows of ``group_evidence`` of the same groups, in STATES.
        """
        kinds = MinuteStates(self.names, evidence).kinds_at(self.groups, self.minutes)
        sums = Cells([self.minutes, kinds])
        return batch_of_columns(
            [sums.first(pa.array(self.minutes)), sums.first(pa.array(kinds)), sums.sums(self.commits)], MINUTES
        )


class CommitSums:
    """Adds commits of whole groups up by partition and minute, then by group and by kind of group.

    A bucket holds whole groups, and of its commits only these sums stay in memory.
    """

    def __init__(self) -> None:
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._cells: list[pa.RecordBatch] = []

    def add(self, commits: pa.RecordBatch) -> None:
        """Add commits.

        Args:
            commits: at least the columns of COMMIT.
        """
        cells = _as_cells(commits)
        self._waiting.append(cells)
        self._rows += cells.num_rows
        if self._rows >= _AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._cells.append(_added_up(_joined(self._waiting)))
        self._waiting, self._rows = [], 0

    def minutes(self) -> "MinuteSums | None":
        """The sums by group and minute; None where no commit was added."""
        self._flush()
        if not self._cells:
            return None
        whole = [_added_up(_joined(self._cells))] if len(self._cells) > 1 else self._cells
        return MinuteSums(_joined(whole))


def _partition_sums(rows: Mapping[str, pa.Array]) -> pa.RecordBatch:
    groups, topics = _coded(rows["group_id"]), _coded(rows["topic"])
    at, offsets = _ms(rows["valid_from"]), numbers_of(rows["from_offset"])
    keys = [numbers_of(one.indices) for one in (groups, topics)]
    sums = Sums([*keys, numbers_of(rows["partition"])], offsets)
    is_empty = _is_empty(rows["group_state"])
    # The newest of a key is its last row; the newest into an Empty group stands where the last such row is.
    places = np.empty(len(offsets), np.int64)
    places[sums.order] = np.arange(len(offsets))
    newest = sums.most(np.where(is_empty, places, NONE))
    has_any = newest != NONE
    at_newest = sums.order[np.where(has_any, newest, 0)]

    def of_newest(numbers: Numbers) -> Numbers:
        return np.where(has_any, numbers[at_newest], NONE)

    # A client may commit any 64 bits, those of NONE too.
    rows_of_newest, rows_of_last = pa.array(at_newest, mask=~has_any), pa.array(sums.order[sums.lasts])
    columns = [
        pa.repeat(True, len(sums.starts)),
        sums.first(groups),
        sums.first(topics),
        sums.first(rows["partition"]),
        sums.most(numbers_of(rows["log_partition"], NONE)),
        sums.sums(numbers_of(rows["commits_merged"]) + 1),
        sums.least(at),
        sums.most(at),
        sums.most(numbers_of(pc.binary_length(rows["metadata"]), NONE)),
        sums.sums(pc.is_valid(rows["leader_epoch"]).to_numpy(zero_copy_only=False).astype(np.int64)),
        sums.last(offsets),
        rows["committed_offset"].take(rows_of_last),
        pc.equal(rows["ended_by"], "RECORDS_MISSING").fill_null(False).take(rows_of_last),
        sums.sums(is_empty.astype(np.int64)),
        sums.least(np.where(is_empty, at, NONE)),
        of_newest(offsets),
        of_newest(at),
        rows["committed_offset"].take(rows_of_newest),
        rows["previous_offset"].take(rows_of_newest),
    ]
    return batch_of_columns(columns, PARTITIONS)


def _is_empty(states: pa.Array) -> npt.NDArray[np.bool_]:
    is_empty: npt.NDArray[np.bool_] = pc.equal(states, "Empty").fill_null(False).to_numpy(zero_copy_only=False)
    return is_empty


def _rewinds(rows: Mapping[str, pa.Array]) -> pa.RecordBatch:
    goes_back = pc.less(rows["committed_offset"], rows["previous_offset"]).fill_null(False)
    at = pa.array(np.flatnonzero(goes_back.to_numpy(zero_copy_only=False)))
    n = len(rows["valid_from"])
    columns = {**rows, "is_over": pa.repeat(True, n), "valid_from": array_of(_ms(rows["valid_from"]), pa.int64())}
    return pa.RecordBatch.from_arrays([columns[one.name].take(at).cast(one.type) for one in REWINDS], schema=REWINDS)


def interval_sums(rows: Mapping[str, pa.Array]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """What rows of ``offset_history`` come to: rows in PARTITIONS for PARTITION_SUMS, in REWINDS for REWIND_SUMS.

    Args:
        rows: columns of the history by name, at least one row.
    """
    for name, batch in ((PARTITION_SUMS, _partition_sums(rows)), (REWIND_SUMS, _rewinds(rows))):
        if batch.num_rows:
            yield name, batch
