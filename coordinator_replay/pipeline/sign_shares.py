"""The same signs of life as ``signs`` finds, where tasks read the commits' files: no join, and no sort of commits.

Which record a commit comes before is a matter of the commit alone, and a share holds whole partitions of groups. So
each task brings its commits to the records that follow them and keeps the last of each partition.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from coordinator_replay.analysis.reasons.signs import SIGNS_WITHIN_MS
from coordinator_replay.pipeline.commit_shares import Share, commits_of
from coordinator_replay.pipeline.data_files import paths_of
from coordinator_replay.pipeline.signs import MINUTE_MS
from coordinator_replay.pipeline.sums import Numbers, numbers_of
from coordinator_replay.pipeline.task_rows import codes_of, per_task

LAST = pa.schema(
    [
        ("group_id", pa.string()),
        ("log_partition", pa.int32()),
        ("of", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("at_ms", pa.int64()),
        ("log_offset", pa.int64()),
    ]
)
"""The last commit of a partition before a record, ``of`` being the record's offset."""

SIGN_ROWS = 5_000_000
"""How many commits a share has at most: a task keeps a few columns of those that stand near a departure."""

COMMIT = ("cluster", "group_id", "topic", "partition", "log_partition", "log_offset", "log_timestamp", "is_tombstone")
"""What is read of a commit."""


class _Departures:
    """Records that may show a departure, by group and log partition, to be looked up by offset.

    A group and log partition has a number. So has an offset: how many of all records' offsets lie below it. A record's
    place is both in one, and the record that follows a commit has the first place at or behind the commit's.
    """

    def __init__(self, told: pa.Table) -> None:
        self.rows = told.combine_chunks()
        self.groups = pc.unique(self.rows.column("group_id").combine_chunks())
        group = numbers_of(pc.index_in(self.rows.column("group_id").combine_chunks(), self.groups))
        log = numbers_of(self.rows.column("log_partition").combine_chunks())
        self.logs = np.unique(log)
        self.offsets = np.unique(numbers_of(self.rows.column("log_offset").combine_chunks()))
        places = self.places(group, log, numbers_of(self.rows.column("log_offset").combine_chunks()))
        self.order = np.argsort(places, kind="stable")
        self.sorted = places[self.order]

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
        [mine] = np.nonzero((group >= 0) & np.isin(log, self.logs))
        places = self.places(group[mine], log[mine], numbers_of(commits.column("log_offset"))[mine])
        found = np.searchsorted(self.sorted, places)
        is_last = found == len(self.sorted)
        found[is_last] = 0
        width = len(self.offsets) + 1
        is_same = ~is_last & (self.sorted[found] // width == places // width)
        return mine[is_same], self.order[found[is_same]]


def _near(commits: pa.RecordBatch, departures: _Departures) -> pa.RecordBatch | None:
    """Commits of living offsets shortly before a record, in the columns of LAST but for ``of``, which is an index."""
    is_told = pc.and_(pc.invert(commits.column("is_tombstone")), pc.is_valid(commits.column("log_timestamp")))
    commits = commits.filter(is_told.fill_null(False))
    rows, records = departures.following(commits)
    at = np.floor_divide(numbers_of(commits.column("log_timestamp")), 1000)[rows]
    then = numbers_of(departures.rows.column("at_ms").combine_chunks())[records]
    is_near = (then - at <= SIGNS_WITHIN_MS) & (at // MINUTE_MS <= then // MINUTE_MS)
    if not is_near.any():
        return None
    near = commits.take(pa.array(rows[is_near]))
    return pa.RecordBatch.from_arrays(
        [
            pa.array(records[is_near]),
            near.column("topic"),
            near.column("partition"),
            pa.array(at[is_near]),
            near.column("log_offset"),
        ],
        names=["record", "topic", "partition", "at_ms", "log_offset"],
    )


def last_before(commits: Iterator[pa.RecordBatch], told: pa.Table) -> Iterator[pa.RecordBatch]:
    """The last commit of each partition before each record that may show a departure, since the one before.

    Args:
        commits: from ``commits_of``, whole partitions of groups.
        told: group_id, log_partition, log_offset and at_ms of the records.

    Yields:
        batches in LAST.
    """
    departures = _Departures(told)
    found = [near for batch in commits if (near := _near(batch, departures)) is not None]
    if not found:
        return
    every = pa.Table.from_batches(found).unify_dictionaries().combine_chunks()
    topics = every.column("topic").combine_chunks()
    keys = [
        numbers_of(every.column("record").combine_chunks()),
        numbers_of(topics.indices.fill_null(-1)),
        numbers_of(every.column("partition").combine_chunks()),
    ]
    within = [numbers_of(every.column(name).combine_chunks()) for name in ("at_ms", "log_offset")]
    order = np.lexsort([*reversed(within), *reversed(keys)])
    ends = np.ones(len(order), np.bool_)
    ends[:-1] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    last = every.take(pa.array(order[ends])).combine_chunks()
    records = departures.rows.take(last.column("record"))
    columns = {"of": records.column("log_offset")} | {
        name: records.column(name) for name in ("group_id", "log_partition")
    }
    arrays = [
        (columns[field.name] if field.name in columns else last.column(field.name)).combine_chunks().cast(field.type)
        for field in LAST
    ]
    yield pa.RecordBatch.from_arrays(arrays, schema=LAST)


def last_in_shares(spark: SparkSession, shares: Sequence[Share], cluster: str, departures: DataFrame) -> DataFrame:
    """The same by one task a share.

    Args:
        spark: the session.
        shares: from ``shares_of``.
        cluster: whose commits.
        departures: from ``departure_records``, kept as files on this machine.

    Returns:
        Rows in LAST.
    """
    paths = paths_of(departures)

    def each(share: Share) -> Iterator[pa.RecordBatch]:
        told = pa.concat_tables(pq.read_table(path) for path in paths)
        partition = told.column("log_partition")
        is_mine = pc.and_(pc.greater_equal(partition, share.low), pc.less_equal(partition, share.high))
        return last_before(commits_of(share, cluster, COMMIT), told.filter(is_mine))

    return per_task(spark, shares, each, from_arrow_schema(LAST, prefer_timestamp_ntz=False))
