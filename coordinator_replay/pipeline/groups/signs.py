"""Commits as signs of life: the last ones before a record that may show that a member has left.

Commits are nearly all of a log, and few of them stand near a departure. Which record a commit comes before is a matter
of the commit alone, so batches of commits are brought to the records that follow them, and the last of each partition
is kept.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.analysis.reasons.signs import DEPARTURES, SIGNS_WITHIN_MS
from coordinator_replay.pipeline.columns import Numbers, codes_of, distinct, numbers_of
from coordinator_replay.times import LATEST_MS

MINUTE_MS = 60_000
"""Commits are picked by whole minutes."""

COMMIT = ("group_id", "topic", "partition", "log_partition", "log_offset", "log_timestamp", "is_tombstone")
"""What is read of ``offset_commits``."""

DEPARTURE = pa.schema(
    [("group_id", pa.string()), ("log_partition", pa.int32()), ("log_offset", pa.int64()), ("at_ms", pa.int64())]
)
"""A record that may show a departure."""

_RECORD = ("group_id", "log_partition", "log_offset", "log_timestamp", "kind", "is_tombstone")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

RecordKey = tuple[str, int, int]
"""A record by group, log partition and log offset."""

LastCommit = tuple[str, int, int, int, int]
"""Topic, partition, time in milliseconds, log partition and log offset of a commit, as a group's replay takes it."""


def departures(records: pa.RecordBatch) -> pa.RecordBatch:
    """Those records that may show a departure, in DEPARTURE.

    Args:
        records: rows of ``group_records``, at least the columns of ``record_columns``.
    """
    may_show = [
        pc.and_(pc.equal(records.column("kind"), kind), pc.equal(records.column("is_tombstone"), by_tombstone))
        for kind, by_tombstone in DEPARTURES.items()
    ]
    rows = records.filter(pc.and_(reduce(pc.or_, may_show), records.column("log_timestamp").is_valid()))
    at_ms = pa.array(np.floor_divide(numbers_of(rows.column("log_timestamp")), 1000))
    columns = [rows.column(name) for name in ("group_id", "log_partition", "log_offset")]
    return pa.RecordBatch.from_arrays([*columns, at_ms], schema=DEPARTURE)


def record_columns() -> tuple[str, ...]:
    """What ``departures`` reads of ``group_records``."""
    return _RECORD


def signs_since(departed: pa.Table) -> datetime | None:
    """The time before which no commit is a sign of life; None where there is no departure.

    Args:
        departed: rows in DEPARTURE.
    """
    first = pc.min(departed.column("at_ms")).as_py()
    if first is None:
        return None
    # A whole minute before: that is how commits are picked.
    before_ms = first - SIGNS_WITHIN_MS - MINUTE_MS
    return _EPOCH + timedelta(milliseconds=min(max(before_ms, 0), LATEST_MS))


class _Departures:
    """Records that may show a departure, to be looked up by the commits before them.

    A group and log partition has a number. So has an offset: how many of all records' offsets lie below it. A record's
    place is both in one, and the record that follows a commit has the first place at or after the commit's.
    """

    def __init__(self, departed: pa.Table) -> None:
        self.rows = departed.combine_chunks()
        ids = self.rows.column("group_id").combine_chunks()
        self.groups = pc.unique(ids)
        group = numbers_of(pc.index_in(ids, self.groups))
        log = self._numbers("log_partition")
        self.logs = np.unique(log)
        self.offsets = distinct(self._numbers("log_offset"))
        places = self.places(group, log, self._numbers("log_offset"))
        self.order = np.argsort(places, kind="stable")
        self.sorted = places[self.order]
        self.at_ms = self._numbers("at_ms")

    def _numbers(self, name: str) -> Numbers:
        return numbers_of(self.rows.column(name).combine_chunks())

    def places(self, group: Numbers, log: Numbers, offsets: Numbers) -> Numbers:
        """Where records at some offsets would stand."""
        owner = group * len(self.logs) + np.searchsorted(self.logs, log)
        place: Numbers = owner * (len(self.offsets) + 1) + np.searchsorted(self.offsets, offsets)
        return place

    def following(self, commits: pa.RecordBatch) -> tuple[Numbers, Numbers]:
        """Commits that a record of their group follows: their indices, and those of the records."""
        column = commits.column("group_id")
        by_name = numbers_of(pc.index_in(column.dictionary, self.groups).fill_null(-1))
        group = np.append(by_name, -1)[codes_of(column)]
        log = numbers_of(commits.column("log_partition"))
        [own] = np.nonzero((group >= 0) & np.isin(log, self.logs))
        places = self.places(group[own], log[own], numbers_of(commits.column("log_offset"))[own])
        following = np.searchsorted(self.sorted, places)
        is_last = following == len(self.sorted)
        following[is_last] = 0
        width = len(self.offsets) + 1
        is_same = ~is_last & (self.sorted[following] // width == places // width)
        return own[is_same], self.order[following[is_same]]


def _near(commits: pa.RecordBatch, lookup: _Departures) -> pa.RecordBatch | None:
    """Commits shortly before a record, with the number of that record."""
    is_commit = pc.and_(pc.invert(commits.column("is_tombstone")), pc.is_valid(commits.column("log_timestamp")))
    commits = commits.filter(is_commit.fill_null(False))
    rows, records = lookup.following(commits)
    at = np.floor_divide(numbers_of(commits.column("log_timestamp")), 1000)[rows]
    then = lookup.at_ms[records]
    is_near = (then - at <= SIGNS_WITHIN_MS) & (at // MINUTE_MS <= then // MINUTE_MS)
    if not is_near.any():
        return None
    near = commits.take(pa.array(rows[is_near]))
    columns = [near.column(name) for name in ("topic", "partition", "log_offset")]
    return pa.RecordBatch.from_arrays(
        [pa.array(records[is_near]), pa.array(at[is_near]), *columns],
        names=["record", "at_ms", "topic", "partition", "log_offset"],
    )


class LastCommits:
    """The last commit of each partition before each record that may show a departure, since the one before.

    Args:
        departed: rows in DEPARTURE.
        commits: batches in COMMIT, group_id and topic as dictionaries.
    """

    def __init__(self, departed: pa.Table, commits: Iterable[pa.RecordBatch]) -> None:
        lookup = _Departures(departed)
        near = [batch for rows in commits if rows.num_rows and (batch := _near(rows, lookup)) is not None]
        self.rows = _last(pa.Table.from_batches(near)) if near else None
        self.starts: Mapping[RecordKey, tuple[int, int]] = {}
        if self.rows is not None:
            self.starts = dict(_ranges(self.rows, lookup))

    def before(self, record: RecordKey) -> Iterator[LastCommit] | None:
        """The last commits before a record, ordered by topic and partition; None where there are none."""
        place = self.starts.get(record)
        if place is None or self.rows is None:
            return None
        rows = self.rows.slice(place[0], place[1] - place[0])
        columns = (rows.column(name).to_pylist() for name in ("topic", "partition", "at_ms", "log_offset"))
        log_partition = record[1]
        return ((topic, number, at, log_partition, offset) for topic, number, at, offset in zip(*columns, strict=True))


def _last(near: pa.Table) -> pa.Table:
    """The last row of each record, topic and partition, sorted by these."""
    near = near.unify_dictionaries().combine_chunks()
    topics = near.column("topic").combine_chunks()
    ranks = np.append(np.argsort(pc.sort_indices(topics.dictionary).to_numpy()), -1)
    keys = [
        numbers_of(near.column("record").combine_chunks()),
        ranks[codes_of(topics)],
        numbers_of(near.column("partition").combine_chunks()),
    ]
    within = [numbers_of(near.column(name).combine_chunks()) for name in ("at_ms", "log_offset")]
    order = np.lexsort([*reversed(within), *reversed(keys)])
    ends = np.ones(len(order), np.bool_)
    ends[:-1] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    return near.take(pa.array(order[ends])).combine_chunks()


def _ranges(rows: pa.Table, lookup: _Departures) -> Iterator[tuple[RecordKey, tuple[int, int]]]:
    """Where the rows of each record stand."""
    records = numbers_of(rows.column("record").combine_chunks())
    starts = np.flatnonzero(np.append(True, records[1:] != records[:-1]))
    ends = np.append(starts[1:], len(records))
    about = lookup.rows.take(pa.array(records[starts]))
    keys = (about.column(name).to_pylist() for name in ("group_id", "log_partition", "log_offset"))
    for key, start, end in zip(zip(*keys, strict=True), starts.tolist(), ends.tolist(), strict=True):
        yield key, (start, end)
