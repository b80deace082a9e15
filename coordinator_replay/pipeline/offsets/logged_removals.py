"""Removals of offsets that brokers' logs name, joined with the tombstones in the tables.

See ``analysis.broker_logs.removals``.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from coordinator_replay.analysis.broker_logs.lines import SLACK_MS, GroupLogLine
from coordinator_replay.analysis.broker_logs.removals import (
    EVENTS,
    LoggedRemoval,
    Named,
    Removal,
    Removed,
    Tombstones,
    Write,
    logged_removals,
    read_removals,
)
from coordinator_replay.columns import plain_rows
from coordinator_replay.store.scan import read_paths
from coordinator_replay.times import moment_of_ms

_WRITTEN = ["log_partition", "log_timestamp"]
_NAMED = [*_WRITTEN, "group_id", "topic", "partition"]
_COLUMNS = (*(name for name in GroupLogLine._fields if name != "at_ms"), "log_partition", "logged_at")


def removals_of(
    lines: Sequence[str], removed: pa.Table, commits: Sequence[str], group_records: Sequence[str]
) -> list[LoggedRemoval]:
    """Return the removals of offsets that brokers' logs name, each with the tombstones that the removal wrote.

    Args:
        lines: files of ``broker_log``. Only lines near the times of the removed offsets are read.
        removed: removed offsets, with the columns of STAGED.
        commits: files of ``offset_commits``.
        group_records: files of ``group_records``.
    """
    bounds = pc.min_max(removed.column("valid_to"))
    since, until = bounds["min"], bounds["max"]
    if not lines or not since.is_valid:
        return []
    slack = pa.scalar(SLACK_MS * 1000, pa.duration("us"))
    where = ds.field("event").isin(pa.array(sorted(EVENTS)))
    where &= (ds.field("logged_at") >= pc.subtract(since, slack)) & (ds.field("logged_at") <= pc.add(until, slack))
    read = [
        (row.pop("log_partition"), GroupLogLine(at_ms=row.pop("logged_at"), **row))
        for batch in read_paths(lines, _COLUMNS, where)
        for row in plain_rows(batch)
    ]
    removals = read_removals(read)
    placed = [removal for removal in removals if removal.log_partition is not None]
    unplaced = [removal for removal in removals if removal.log_partition is None]
    return logged_removals(removals, _writes(placed, commits, group_records), _named(unplaced, commits))


def _tombstones_near(removals: Sequence[Removed]) -> ds.Expression:
    times = [removal.at_ms for removal in removals]
    since, until = moment_of_ms(max(min(times) - SLACK_MS, 0)), moment_of_ms(max(times) + SLACK_MS)
    return ds.field("is_tombstone") & (ds.field("log_timestamp") >= since) & (ds.field("log_timestamp") <= until)


def _writes(
    removals: Sequence[Removed], commits: Sequence[str], group_records: Sequence[str]
) -> Mapping[Write, Tombstones]:
    """Count the tombstones that the coordinator wrote at the times of lines in brokers' logs.

    A write is all records of a log partition with the same time. For each write, count tombstones of offsets and other
    tombstones separately.
    """
    writes: dict[Write, Tombstones] = defaultdict(Tombstones)
    if not removals:
        return writes
    where = _tombstones_near(removals)
    # All tombstones count, including those whose commit is not on record.
    for batch in read_paths(commits, _WRITTEN, where):
        for write, count in _counted(batch):
            writes[write].offsets += count
    for batch in read_paths(group_records, _WRITTEN, where):
        for write, count in _counted(batch):
            writes[write].others += count
    return writes


def _named(removals: Sequence[Removed], commits: Sequence[str]) -> Named:
    """Find tombstones of offsets that lines of a broker's log name.

    A line names groups, partitions or single offsets. A write is the log partition and the time of a batch of records.

    Returns:
        For each name in the lines, the number of its tombstones in each write.
    """
    named: dict[tuple[Removal, str], dict[Write, int]] = defaultdict(lambda: defaultdict(int))
    wanted = {(removal.removal, name) for removal in removals for name in removal.names}
    if not wanted:
        return named
    groups = [name for removal, name in wanted if removal is Removal.GROUPS]
    partitions = [name.rpartition("/")[2] for removal, name in wanted if removal is not Removal.GROUPS]
    where = ds.field("group_id").isin(pa.array(groups, pa.string()))
    where |= ds.field("topic").isin(pa.array([partition.rpartition("-")[0] for partition in partitions], pa.string()))
    for batch in read_paths(commits, _NAMED, _tombstones_near(removals) & where):
        for row in plain_rows(batch):
            group, partition = row["group_id"], f"{row['topic']}-{row['partition']}"
            keys = {(Removal.GROUPS, group), (Removal.TOPICS, partition), (Removal.OFFSETS, f"{group}/{partition}")}
            for key in keys & wanted:
                named[key][Write(row["log_partition"], row["log_timestamp"])] += 1
    return named


def _counted(rows: pa.RecordBatch) -> Iterator[tuple[Write, int]]:
    sums = pa.Table.from_batches([rows]).group_by(_WRITTEN, use_threads=False).aggregate([([], "count_all")])
    for row in (row for batch in sums.to_batches() for row in plain_rows(batch)):
        if row["log_partition"] is not None:
            yield Write(row["log_partition"], row["log_timestamp"]), row["count_all"]
