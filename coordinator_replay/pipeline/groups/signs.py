"""The last commits before a member left its group. They show how long the member was alive.

Each commit shortly before a departure is joined with the next departure. For each partition, only the last commit
before the departure is kept.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import groupby

from duckdb import DuckDBPyConnection

from coordinator_replay.analysis.reasons.signs import DEPARTURES, SIGNS_WITHIN_MS
from coordinator_replay.tables.definition import table
from coordinator_replay.times import EPOCH, LATEST_MS

MINUTE_MS = 60_000
"""Commits are selected by whole minutes."""

COMMITS = (
    table("offset_commits")
    .arrow_schema(
        ["group_id", "topic", "partition", "log_partition", "log_offset", "log_timestamp", "is_tombstone"],
    )
    .remove_metadata()
)
"""Columns of ``offset_commits`` that are read."""

_MAY_SHOW = " OR ".join(f"(kind = '{kind}' AND is_tombstone = {is_so})" for kind, is_so in DEPARTURES.items())

_DEPARTURES = f"""
CREATE TEMP TABLE departures AS
SELECT group_id, log_partition, log_offset, epoch_ms(log_timestamp) AS at_ms
FROM records WHERE log_timestamp IS NOT NULL AND ({_MAY_SHOW})
"""  # noqa: S608 - our own names

LAST_COMMITS = f"""
WITH windows AS (
    SELECT DISTINCT group_id, unnest([at_ms // {SIGNS_WITHIN_MS} - 1, at_ms // {SIGNS_WITHIN_MS}]) AS number
    FROM departures
), near AS (
    SELECT commits.* FROM commits SEMI JOIN windows ON commits.group_id = windows.group_id
        AND epoch_ms(log_timestamp) // {SIGNS_WITHIN_MS} = windows.number
    WHERE NOT is_tombstone
)
SELECT group_id, log_partition, departed_at, topic, partition, last.at_ms, last.log_offset
FROM (
    SELECT near.group_id, near.log_partition, departures.log_offset AS departed_at, topic, partition,
        max({{'at_ms': epoch_ms(log_timestamp), 'log_offset': near.log_offset}}) AS last
    FROM near ASOF JOIN departures ON near.group_id = departures.group_id
        AND near.log_partition = departures.log_partition AND near.log_offset < departures.log_offset
    WHERE departures.at_ms - epoch_ms(log_timestamp) <= {SIGNS_WITHIN_MS}
        AND epoch_ms(log_timestamp) // {MINUTE_MS} <= departures.at_ms // {MINUTE_MS}
    GROUP BY ALL
) AS by_partition
ORDER BY group_id, log_partition, departed_at, topic, partition
"""  # noqa: S608 - our own numbers
"""SQL for the last commits of each partition before each of the ``departures``.

Before the commits are sorted by offset, those far from any departure of their group are left out, to save time. For
this, times are compared in whole multiples of SIGNS_WITHIN_MS.
"""

RecordKey = tuple[str, int, int]
"""A record by group, log partition and log offset."""

LastCommit = tuple[str, int, int, int, int]
"""Topic, partition, time in milliseconds, log partition and log offset of a commit, as a replay takes it."""


def find_departures(connection: DuckDBPyConnection) -> datetime | None:
    """Make DuckDB's table ``departures``: the ``records`` that may show that a member left its group.

    Returns:
        A time shortly before the first of these records; None if there is no such record. Commits before this time are
        not needed.
    """
    connection.execute(_DEPARTURES)
    [(first,)] = connection.execute("SELECT min(at_ms) FROM departures").fetchall()
    if first is None:
        return None
    # A minute earlier, because commits are selected by whole minutes.
    before_ms = first - SIGNS_WITHIN_MS - MINUTE_MS
    return EPOCH + timedelta(milliseconds=min(max(before_ms, 0), LATEST_MS))


class LastCommits:
    """Look-up of the last commits before a record that may show that a member left its group.

    There is one last commit for each partition. A commit before several of these records is returned only for the
    first record.

    Args:
        connection: DuckDB with ``departures``, and with ``commits`` in the columns of COMMITS.
    """

    def __init__(self, connection: DuckDBPyConnection) -> None:
        self._rows = connection.sql(LAST_COMMITS).to_arrow_table()
        self._by_record = groupby(self._commits(), key=lambda commit: commit[0])
        self._next = next(self._by_record, None)

    def _commits(self) -> Iterator[tuple[RecordKey, LastCommit]]:
        for batch in self._rows.to_batches(max_chunksize=1000):
            columns = (column.to_pylist() for column in batch.columns)
            for group_id, log_partition, departed_at, topic, partition, at_ms, offset in zip(*columns, strict=True):
                yield (group_id, log_partition, departed_at), (topic, partition, at_ms, log_partition, offset)

    def before(self, record: RecordKey) -> Iterator[LastCommit] | None:
        """Return the last commit of each partition before a record, ordered by topic and partition.

        Return None if there is no commit.

        Args:
            record: a record that may show that a member left its group. It must come later in ``records_in_order``
                than the record of the last call.
        """
        while self._next is not None and self._next[0] < record:
            self._next = next(self._by_record, None)
        if self._next is None or self._next[0] != record:
            return None
        return (commit for _, commit in self._next[1])
