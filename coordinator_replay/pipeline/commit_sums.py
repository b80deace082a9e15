"""Sums of offset commits, by group, minute and partition.

The task of a bucket adds up the bucket's commits. Later stages get only the sums.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.analysis.findings.thresholds import MINUTE_MS
from coordinator_replay.analysis.findings.totals import FEWEST_COMMITS
from coordinator_replay.arrow_times import TIMESTAMP
from coordinator_replay.columns import NONE, Numbers, numbers_of, packed
from coordinator_replay.int64 import LARGEST_INT64
from coordinator_replay.pipeline.minute_states import MINUTE_STATES, SIMPLE
from coordinator_replay.store.duckdb_connection import select
from coordinator_replay.store.scan import reader_of
from coordinator_replay.store.writer import conform
from coordinator_replay.tables.definition import table
from coordinator_replay.times import milliseconds

_AT_ONCE = 250_000

COMMIT = (
    table("offset_commits")
    .arrow_schema(
        [
            *("group_id", "topic", "partition", "log_partition", "log_offset", "log_timestamp"),
            *("record_bytes", "is_tombstone", "producer_id"),
        ]
    )
    .remove_metadata()
)
"""Columns of ``offset_commits`` that are read for sums by group and by minute."""

MINUTES = pa.schema([("minute", pa.int64()), ("kind", pa.int32()), ("commits", pa.int64())])
"""Number of commits of all groups, by minute and kind. ``minute`` counts from 1970. ``kind`` is the type and state of a
group at the end of the minute, see ``minute_states``."""

PARTITION_SUMS, REWIND_SUMS, LOSS_SUMS = "partition_sums", "rewinds", "position_losses"
"""Names of staged files with sums of rows of the history."""

_INTERVAL = [
    *("group_id", "topic", "partition", "log_partition", "from_offset", "committed_offset", "previous_offset"),
    *("commits_merged", "valid_from", "leader_epoch", "is_transactional", "owner_member_id", "group_state", "ended_by"),
    *("topic_id", "replaced_offset"),
]

PAUSES = "pauses"
"""Name of staged rows of offsets that no commit replaced for a long time, with the columns of PAUSE."""

_PAUSE = table("offset_history").arrow_schema(
    [
        *("group_id", "topic", "partition", "log_partition", "record_offset", "from_offset", "committed_offset"),
        *("owner_member_id", "valid_from", "valid_to", "to_offset", "ended_by", "commit_timestamp"),
        "expire_timestamp",
    ]
)
PAUSE = pa.schema([*_PAUSE, ("is_topic_over", pa.bool_())])
"""Columns of PAUSES. ``is_topic_over`` is as in STAGED. It is null for a row from a table, because no commit replaced
the offset of such a row."""

GROUP_SUMS, MINUTE_SUMS = "group_sums", "minute_sums"
"""Names of staged files with sums of commits; MINUTE_SUMS has the columns of MINUTES."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SumsRange:
    """The time range of the commits that a run adds up, and the thresholds of their sums.

    Attributes:
        since: the time from which this run adds up commits; None for all commits. The tables have the sums of earlier
            commits.
        until: the sums of minutes before this time are final. The next run adds up commits from this time on.
        hot: a minute of a group is hot if it has at least this many commits for each committed partition, on average.
        pause_ms: the shortest time without a commit that counts as a pause.
        patience: a pause before ``until`` must also last this many times the mean time between the group's earlier
            commits; 0 if this mean is not known.
    """

    since: datetime | None
    until: datetime
    hot: int
    pause_ms: int
    patience: int


_MINUTES = f"""
WITH of_partitions AS (
    SELECT group_id, epoch_ms(log_timestamp) // {MINUTE_MS} AS minute,
        max(log_partition) AS log_partition, count(*) AS commits, sum(record_bytes) AS bytes,
        count(*) - count(producer_id) AS unproven, min(epoch_ms(log_timestamp)) AS first_at,
        max(epoch_ms(log_timestamp)) AS last_at, max(log_offset) AS last_offset
    FROM commits WHERE NOT is_tombstone AND log_timestamp IS NOT NULL
    GROUP BY group_id, topic, partition, minute
)
SELECT group_id, minute, max(log_partition) AS log_partition, sum(commits)::BIGINT AS commits,
    coalesce(sum(bytes), 0)::BIGINT AS bytes, sum(unproven)::BIGINT AS unproven, min(first_at) AS first_at,
    max(last_at) AS last_at, max(last_offset) AS last_offset,
    (sum(commits) // count(*))::BIGINT AS most_a_minute
FROM of_partitions GROUP BY group_id, minute
"""  # noqa: S608 - our own numbers
"""Commits of each group and minute; tombstones, and commits without a time, don't count."""

_SUMMED: dict[str, np.ufunc] = {
    "log_partition": np.maximum,
    "commits": np.add,
    "bytes": np.add,
    "unproven": np.add,
    "first_at": np.minimum,
    "last_at": np.maximum,
    "last_offset": np.maximum,
    "most_a_minute": np.maximum,
}
"""The function that combines a column over the minutes of a group."""

_BY_PARTITION = """
SELECT true AS is_over, group_id, topic, partition, log_partition, commits, first_at, last_at, metadata_bytes,
    with_leader_epoch, newest.from_offset, newest.committed_offset, newest.is_lost, newest.topic_id, empty_count,
    empty_first_at, into_empty.from_offset AS empty_from_offset, into_empty.valid_from AS empty_valid_from,
    into_empty.committed_offset AS empty_committed_offset, into_empty.previous_offset AS empty_previous_offset,
    lowest, longest_step
FROM (
    SELECT group_id, topic, partition, max(log_partition) AS log_partition, sum(commits_merged + 1)::BIGINT AS commits,
        min(epoch_ms(valid_from)) AS first_at, max(epoch_ms(valid_from)) AS last_at,
        max(metadata_bytes)::BIGINT AS metadata_bytes, count(leader_epoch) AS with_leader_epoch,
        arg_max({
            'from_offset': from_offset, 'committed_offset': committed_offset, 'topic_id': topic_id,
            'is_lost': coalesce(ended_by = 'RECORDS_MISSING', false) OR committed_offset IS NULL
        }, {'at': from_offset, 'in': history.log_partition}) AS newest,
        count(committed_offset) FILTER (group_state = 'Empty') AS empty_count,
        min(epoch_ms(valid_from)) FILTER (group_state = 'Empty' AND committed_offset IS NOT NULL) AS empty_first_at,
        arg_max({
            'from_offset': from_offset, 'valid_from': epoch_ms(valid_from), 'committed_offset': committed_offset,
            'previous_offset': previous_offset
        }, {'at': from_offset, 'in': history.log_partition})
            FILTER (group_state = 'Empty' AND committed_offset IS NOT NULL) AS into_empty,
        min(committed_offset) FILTER (committed_offset >= 0) AS lowest,
        max([committed_offset - previous_offset, -from_offset, committed_offset, epoch_ms(valid_from)])
            FILTER (committed_offset > previous_offset AND group_state NOT IN ('Empty', 'Unknown')) AS longest_step
    FROM history GROUP BY group_id, topic, partition
) AS by_partition
"""
"""SQL for sums of rows of ``offset_history`` by partition, with times in milliseconds:

- the number of commits, and the first and last time
- the newest commit. ``is_lost`` is true if its ``ended_by`` is RECORDS_MISSING, or if its value can't be read
- the number of commits while the group was Empty, and the first and newest of them
- the lowest committed offset
- the longest step ahead from one commit to the next, as a list of four values: the step's length, and the log offset,
  the committed offset and the time of the later commit. The log offset is negated, so that the maximum finds the first
  of several longest steps.
"""

_REWINDS = """
SELECT true AS is_over, group_id, topic, partition, log_partition, epoch_ms(valid_from) AS valid_from, from_offset,
    committed_offset, previous_offset, leader_epoch, is_transactional, owner_member_id, group_state
FROM history WHERE committed_offset < previous_offset
"""
"""SQL for commits of an offset below the offset that was committed before."""

_LOSSES = """
SELECT true AS is_over, group_id, topic, partition, log_partition, epoch_ms(valid_from) AS valid_from, from_offset,
    committed_offset, replaced_offset, owner_member_id
FROM history WHERE committed_offset < 0
"""
"""SQL for commits of a negative offset."""

_SUMS = {PARTITION_SUMS: _BY_PARTITION, REWIND_SUMS: _REWINDS, LOSS_SUMS: _LOSSES}


def commit_sums(
    commits: Iterable[pa.RecordBatch], evidence: pa.Table, wanted: SumsRange
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the sums of a bucket's commits.

    Args:
        commits: the commits, with at least the columns of COMMIT.
        evidence: the states of the same groups: rows of ``group_evidence`` with the columns of STATES.
        wanted: the time range of the commits to add up, and the thresholds of the sums.

    Yields:
        A kind of sums (GROUP_SUMS or MINUTE_SUMS), and rows with these sums.
    """
    minutes = select(_MINUTES, {}, commits=reader_of(commits, COMMIT))
    if minutes.num_rows:
        sums = _MinuteSums(minutes, select(MINUTE_STATES, {}, evidence=evidence))
        yield GROUP_SUMS, sums.by_group(wanted)
        yield MINUTE_SUMS, sums.by_kind()


def _lists(values: pa.Array, begins: Numbers) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(np.append(begins, len(values)), pa.int32()), values)


class _MinuteSums:
    """Numbers of commits of each group in each minute, with the state of the group. Sorted by group and minute.

    Args:
        minutes: the numbers of commits, with the columns of ``_MINUTES``.
        states: states of groups at the end of each minute, with the columns of MINUTE_STATES.
    """

    def __init__(self, minutes: pa.Table, states: pa.Table) -> None:
        ids = minutes.column("group_id").combine_chunks().dictionary_encode()
        of_states = pc.index_in(states.column("group_id").combine_chunks(), ids.dictionary)
        groups = np.concatenate([numbers_of(of_states, -1), numbers_of(ids.indices)])
        at = np.concatenate([numbers_of(rows.column("minute").combine_chunks()) for rows in (states, minutes)])
        # A state that a group entered in a minute comes before the commits of that minute.
        order = np.argsort(packed([groups, at, np.arange(len(at)) >= len(states)]))
        is_minute = order >= len(states)
        last_state = order[np.maximum.accumulate(np.where(is_minute, 0, np.arange(len(order))))][is_minute]
        rows = order[is_minute]
        has_state = (last_state < len(states)) & (groups[last_state] == groups[rows])
        kinds = np.append(numbers_of(states.column("kind").combine_chunks()), SIMPLE)
        self.kinds = kinds[np.where(has_state, last_state, len(states))]
        self.groups, self.minutes = groups[rows], at[rows]
        self.ids = ids.dictionary
        taken = pa.array(rows - len(states))
        self.sums = {name: numbers_of(minutes.column(name).combine_chunks().take(taken)) for name in _SUMMED}

    def by_group(self, wanted: SumsRange) -> pa.RecordBatch:
        """Return sums of commits by group.

        A group has up to two rows: one for the minutes before ``wanted.until``, one for later minutes. A row has these
        sums:

        - the number of commits, the sum of their bytes, and their first and last time in milliseconds
        - the number of commits for which the log does not show whether they are transactional
        - the number of hot minutes: minutes with at least ``wanted.hot`` commits for each committed partition, on
          average
        - the time ranges in which the group committed without a pause, each with its number of commits
        """
        is_over = self.minutes * MINUTE_MS < milliseconds(wanted.until)
        first_at, last_at, commits = (self.sums[name] for name in ("first_at", "last_at", "commits"))
        begins = np.ones(len(is_over), np.bool_)
        begins[1:] = (self.groups[1:] != self.groups[:-1]) | (is_over[1:] != is_over[:-1])
        [keys] = np.nonzero(begins)
        begun, before = keys[np.cumsum(begins) - 1], np.cumsum(commits) - commits
        before -= before[begun]
        is_shown = is_over & (before >= FEWEST_COMMITS)
        usual_ms = (last_at[:-1] - first_at[begun[1:]]) // np.maximum(before[1:] - 1, 1) * is_shown[1:]
        pause_ms = np.maximum(wanted.pause_ms, wanted.patience * usual_ms.astype(np.float64))
        is_after_pause = begins.copy()
        is_after_pause[1:] |= first_at[1:] - last_at[:-1] >= pause_ms
        [ranges] = np.nonzero(is_after_pause)
        range_ends = np.append(ranges[1:], len(is_over)) - 1
        active = np.stack([first_at[ranges], last_at[range_ends], np.add.reduceat(commits, ranges)], axis=1)
        is_hot = self.sums["most_a_minute"] >= wanted.hot
        hot_minutes = np.add.reduceat(is_hot.astype(np.int64), keys)
        hot_from = np.minimum.reduceat(np.where(is_hot, first_at, LARGEST_INT64), keys)
        hot_to = np.maximum.reduceat(np.where(is_hot, last_at, NONE), keys)
        return pa.record_batch(
            {
                "is_over": pa.array(is_over[keys]),
                "group_id": self.ids.take(pa.array(self.groups[keys])),
                **{name: pa.array(how.reduceat(self.sums[name], keys)) for name, how in _SUMMED.items()},
                "hot_minutes": pa.array(hot_minutes),
                "hot_from": pa.array(hot_from, mask=hot_minutes == 0),
                "hot_to": pa.array(hot_to, mask=hot_minutes == 0),
                "active": _lists(_lists(active.ravel(), np.arange(0, active.size, 3)), np.searchsorted(ranges, keys)),
            }
        )

    def by_kind(self) -> pa.RecordBatch:
        """Return the number of commits by minute and kind of group, with the columns of MINUTES."""
        rows = pa.table([self.minutes, self.kinds, self.sums["commits"]], MINUTES)
        by_kind = rows.group_by(MINUTES.names[:2], use_threads=False).aggregate([("commits", "sum")])
        [batch] = by_kind.rename_columns(MINUTES.names).combine_chunks().to_batches()
        return batch


class IntervalSums:
    """A collector of rows of ``offset_history``, which adds up many rows at a time, by partition."""

    # Starting an SQL statement takes as long as the work on thousands of rows. To save memory, a collected row has only
    # the length of its commit's metadata.

    def __init__(self) -> None:
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def add(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Collect rows of ``offset_history``. When there are enough of them, yield their sums.

        Yields:
            A kind of sums (a key of ``_SUMS``), and rows with these sums.
        """
        lengths = pc.binary_length(rows.column("metadata"))
        self._waiting.append(rows.select(_INTERVAL).append_column("metadata_bytes", lengths))
        self._rows += rows.num_rows
        if self._rows >= _AT_ONCE:
            yield from self.flush()

    def flush(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the sums of the rows that ``add`` has collected. See ``add``."""
        if self._waiting:
            history = pa.Table.from_batches(self._waiting)
            self._waiting, self._rows = [], 0
            for name, sql in _SUMS.items():
                for batch in select(sql, {}, history=history).to_batches():
                    yield name, batch


def pauses(rows: pa.RecordBatch, pause_ms: int, end: datetime | None = None) -> pa.RecordBatch:
    """Return the offsets that stayed current for at least ``pause_ms``, with the columns of ``PAUSE``.

    Leave out offsets that are not exact, and offsets of partitions without an owner.

    Args:
        rows: rows of ``offset_history``.
        pause_ms: the shortest time, in milliseconds.
        end: the end of the log; None to leave out offsets that are current at the end of the log.
    """
    begin, ended = (rows.column(name).cast(TIMESTAMP) for name in ("valid_from", "valid_to"))
    if end is not None:
        ended = ended.fill_null(pa.scalar(end, TIMESTAMP))
    is_long = pc.greater_equal(pc.subtract(ended.cast(pa.int64()), begin.cast(pa.int64())), pause_ms * 1000)
    is_wanted = pc.and_(pc.and_(is_long, rows.column("is_exact")), pc.is_valid(rows.column("owner_member_id")))
    return conform(rows.filter(pc.fill_null(is_wanted, False)), PAUSE)
