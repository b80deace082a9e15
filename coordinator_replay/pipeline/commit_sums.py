"""Commits added up by group, minute and partition: nothing of a commit leaves its task but its share of a sum."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.analysis.findings.thresholds import MINUTE_MS
from coordinator_replay.arrow_times import TIMESTAMP
from coordinator_replay.pipeline.minute_states import MINUTE_STATES, SIMPLE
from coordinator_replay.store.duckdb_connection import connected, select
from coordinator_replay.store.scan import reader_of
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
"""What is read of ``offset_commits`` for sums by group and by minute."""

MINUTES = pa.schema([("minute", pa.int64()), ("kind", pa.int32()), ("commits", pa.int64())])
"""Commits of all groups in a minute since 1970, by what these groups were at its end."""

PARTITION_SUMS, REWIND_SUMS = "partition_sums", "rewinds"
"""What rows of the history come to, by the name of their staged files."""

_INTERVAL = [
    *("group_id", "topic", "partition", "log_partition", "from_offset", "committed_offset", "previous_offset"),
    *("commits_merged", "valid_from", "leader_epoch", "is_transactional", "owner_member_id", "group_state", "ended_by"),
]

PAUSES = "pauses"
"""Staged rows of the history, of a partition that was not committed again for long; in PAUSE."""

PAUSE = table("offset_history").arrow_schema(
    [
        *("group_id", "topic", "partition", "log_partition", "record_offset", "from_offset", "committed_offset"),
        *("owner_member_id", "valid_from", "valid_to", "to_offset", "ended_by", "commit_timestamp"),
        "expire_timestamp",
    ]
)

GROUP_SUMS, MINUTE_SUMS = "group_sums", "minute_sums"
"""What commits come to, by the name of their staged files; the latter are rows in MINUTES."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SumsRange:
    """Which commits the sums of this run are about.

    Commits that earlier runs have followed, in minutes before ``since``, are in the tables' sums already.

    Attributes:
        since: the time from which on all commits are added up again; None adds all of them up.
        until: minutes before this time are over: later runs need not add them up again.
        hot: so many commits of each partition in a minute are too many.
        pause_ms: for how long no commit is a pause.
    """

    since: datetime | None
    until: datetime
    hot: int
    pause_ms: int


_MINUTES = f"""
CREATE TEMP TABLE minutes AS
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
    (sum(commits) // count(*))::BIGINT AS commits_each
FROM of_partitions GROUP BY group_id, minute
"""  # noqa: S608 - our own numbers
"""Commits of each group and minute; tombstones, and commits without a time, don't count."""

_BY_GROUP = f"""
WITH dated AS (
    SELECT *, minute * {MINUTE_MS} < $until AS is_over, lag(last_at) OVER so_far AS before_at,
        sum(commits) OVER so_far - commits AS commits_before,
        coalesce(first_at - before_at >= $pause, true) AS is_after_pause
    FROM minutes WINDOW so_far AS (PARTITION BY group_id, minute * {MINUTE_MS} < $until ORDER BY minute)
)
SELECT is_over, group_id, max(log_partition) AS log_partition,
    sum(commits)::BIGINT AS commits, sum(bytes)::BIGINT AS bytes, sum(unproven)::BIGINT AS unproven,
    min(first_at) AS first_at, max(last_at) AS last_at, max(last_offset) AS last_offset,
    max(commits_each)::BIGINT AS most_a_minute, count(*) FILTER (commits_each >= $hot) AS hot_minutes,
    min(first_at) FILTER (commits_each >= $hot) AS hot_from, max(last_at) FILTER (commits_each >= $hot) AS hot_to,
    [[one[1], one[2], (one[4] - one[3])::BIGINT] FOR one IN list_zip(
        list(first_at ORDER BY minute) FILTER (is_after_pause),
        list_append((list(before_at ORDER BY minute) FILTER (is_after_pause))[2:], max(last_at)),
        list(commits_before ORDER BY minute) FILTER (is_after_pause),
        list_append((list(commits_before ORDER BY minute) FILTER (is_after_pause))[2:], sum(commits))
    )] AS active
FROM dated GROUP BY ALL
"""  # noqa: S608 - our own numbers
"""Commits of a group: how many, how many bytes, of how many the input doesn't show whether they were made in a
transaction, the first and last time in milliseconds, in how many minutes there were too many for each of its
partitions that were committed then, and the ranges of time between which it paused, with how many each has."""

_BY_KIND = f"""
WITH states AS ({MINUTE_STATES})
SELECT minutes.minute, coalesce(kind, {SIMPLE}) AS kind, sum(commits)::BIGINT AS commits
FROM minutes ASOF LEFT JOIN states ON minutes.group_id = states.group_id AND minutes.minute >= states.minute
GROUP BY ALL
"""  # noqa: S608 - our own names and numbers

_BY_PARTITION = """
SELECT true AS is_over, group_id, topic, partition, log_partition, commits, first_at, last_at, metadata_bytes,
    with_leader_epoch, newest.from_offset, newest.committed_offset, newest.is_lost, empty_count, empty_first_at,
    into_empty.from_offset AS empty_from_offset, into_empty.valid_from AS empty_valid_from,
    into_empty.committed_offset AS empty_committed_offset, into_empty.previous_offset AS empty_previous_offset
FROM (
    SELECT group_id, topic, partition, max(log_partition) AS log_partition, sum(commits_merged + 1)::BIGINT AS commits,
        min(epoch_ms(valid_from)) AS first_at, max(epoch_ms(valid_from)) AS last_at,
        max(metadata_bytes)::BIGINT AS metadata_bytes, count(leader_epoch) AS with_leader_epoch,
        arg_max({
            'from_offset': from_offset, 'committed_offset': committed_offset,
            'is_lost': coalesce(ended_by = 'RECORDS_MISSING', false) OR committed_offset IS NULL
        }, {'at': from_offset, 'in': history.log_partition}) AS newest,
        count(committed_offset) FILTER (group_state = 'Empty') AS empty_count,
        min(epoch_ms(valid_from)) FILTER (group_state = 'Empty' AND committed_offset IS NOT NULL) AS empty_first_at,
        arg_max({
            'from_offset': from_offset, 'valid_from': epoch_ms(valid_from), 'committed_offset': committed_offset,
            'previous_offset': previous_offset
        }, {'at': from_offset, 'in': history.log_partition})
            FILTER (group_state = 'Empty' AND committed_offset IS NOT NULL) AS into_empty
    FROM history GROUP BY group_id, topic, partition
) AS by_partition
"""
"""Commits of a partition, as far as one task has seen them at once: sums, first and last times in milliseconds, and
offsets of the newest one, and whether records begin to be missing in which it ended; the same of those into an Empty
group."""

_REWINDS = """
SELECT true AS is_over, group_id, topic, partition, log_partition, epoch_ms(valid_from) AS valid_from, from_offset,
    committed_offset, previous_offset, leader_epoch, is_transactional, owner_member_id, group_state
FROM history WHERE committed_offset < previous_offset
"""
"""Commits below the one before."""


def commit_sums(
    commits: Iterable[pa.RecordBatch], evidence: pa.Table, wanted: SumsRange
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """What commits come to, of a bucket: it has whole groups.

    Args:
        commits: at least the columns of COMMIT.
        evidence: rows of ``group_evidence`` of the same groups, in STATES.
        wanted: which minutes are over, and what is too many and a pause.

    Yields:
        GROUP_SUMS and MINUTE_SUMS.
    """
    asked = {"hot": wanted.hot, "until": milliseconds(wanted.until), "pause": wanted.pause_ms}
    with connected() as connection:
        connection.register("commits", reader_of(commits, COMMIT))
        connection.register("evidence", evidence)
        connection.execute(_MINUTES)
        for name, sql, parameters in ((GROUP_SUMS, _BY_GROUP, asked), (MINUTE_SUMS, _BY_KIND, {})):
            for batch in connection.sql(sql, params=parameters).to_arrow_table().to_batches():
                yield name, batch


class IntervalSums:
    """Adds rows of ``offset_history`` up by partition, many at a time: a statement costs as much as thousands of them.

    Of a commit's metadata only the length waits.
    """

    def __init__(self) -> None:
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def add(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Take rows of the history.

        Yields:
            PARTITION_SUMS and REWIND_SUMS, once enough rows wait.
        """
        lengths = pc.binary_length(rows.column("metadata"))
        self._waiting.append(rows.select(_INTERVAL).append_column("metadata_bytes", lengths))
        self._rows += rows.num_rows
        if self._rows >= _AT_ONCE:
            yield from self.flush()

    def flush(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """What the rows that wait come to: PARTITION_SUMS and REWIND_SUMS."""
        if self._waiting:
            history = pa.Table.from_batches(self._waiting)
            self._waiting, self._rows = [], 0
            for name, sql in ((PARTITION_SUMS, _BY_PARTITION), (REWIND_SUMS, _REWINDS)):
                for batch in select(sql, {}, history=history).to_batches():
                    yield name, batch


def pauses(rows: pa.RecordBatch, pause_ms: int, end: datetime | None = None) -> pa.RecordBatch:
    """Rows of the history that lasted for long, in PAUSE: those with an owner, and proven in the whole interval.

    Args:
        rows: of the history.
        pause_ms: what is long.
        end: the end of the log; None leaves out what lasts until then.
    """
    begin, ended = (rows.column(name).cast(TIMESTAMP) for name in ("valid_from", "valid_to"))
    if end is not None:
        ended = ended.fill_null(pa.scalar(end, TIMESTAMP))
    is_long = pc.greater_equal(pc.subtract(ended.cast(pa.int64()), begin.cast(pa.int64())), pause_ms * 1000)
    is_wanted = pc.and_(pc.and_(is_long, rows.column("is_exact")), pc.is_valid(rows.column("owner_member_id")))
    return rows.filter(pc.fill_null(is_wanted, False)).select(PAUSE.names)
