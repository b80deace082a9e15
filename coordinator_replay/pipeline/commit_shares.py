"""Plain commits, read where their task runs: the files of the table itself, without a shuffle.

Nearly all of a log are plain commits, and what a shuffle does to them (through the JVM, sorted there row by row, and
over to Python) takes four times as long as what is then done with them. Where the table's files lie on this machine,
each task reads those that can hold its share of the commits, and brings it in order itself. All commits of a group are
in one log partition, so a task is given a few of these, or a part of one that holds too many.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, pairwise
from math import ceil
from tempfile import TemporaryDirectory
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from coordinator_replay.pipeline.commit_intervals import Event
from coordinator_replay.pipeline.data_files import conform, some
from coordinator_replay.pipeline.delta_log import HeldFile
from coordinator_replay.pipeline.offset_events import EVENTS
from coordinator_replay.pipeline.sums import Bools, Numbers, numbers_of, packed
from coordinator_replay.pipeline.task_rows import BY_NUMBER, TEXT_BY_NUMBER, are_among, checksums, codes_of, open_file
from coordinator_replay.pipeline.warehouse import Warehouse

SORTED_BY = pa.schema([("first", pa.int64()), ("second", pa.int64())])
"""Two columns beside EVENTS, to sort the events of a key by."""

MOST_TASKS = 16
"""Where more tasks than this run at once, a shuffle is soon done."""

MOST_SORTED = 4_000_000
"""A share of more events than this is sorted on disk: one key may have any number of commits."""

SHARE_ROWS = 1_200_000
"""How many commits a share has at most whose task keeps all of them."""

SHARED = pa.schema(
    [(field.name, BY_NUMBER if field.name in TEXT_BY_NUMBER else field.type) for field in (*EVENTS, *SORTED_BY)]
)
"""Events as tasks have them before they are in order."""

_OWN = pa.schema([("cluster", pa.string()), ("is_tombstone", pa.bool_()), ("record_bytes", pa.int32())])
_TYPES = {field.name: field.type for field in (*SHARED, *_OWN)}
_READ = (
    *("cluster", "group_id", "topic", "partition", "log_partition", "log_offset", "log_timestamp", "missing_before"),
    *("producer_id", "producer_epoch", "committed_offset", "leader_epoch", "metadata"),
    *("commit_timestamp", "expire_timestamp", "is_tombstone"),
)
_LEAST_SHARE_ROWS = 25_000
_OVER = 0.25
"""By how much a share may be larger: one more for what little is left would read all files again."""
_MOST_PARTITIONS = 10_000
_MOST_READS = 10
_BATCH_ROWS = 50_000
_SORT_MEMORY = "1GB"


class Share(NamedTuple):
    """What one task takes.

    Attributes:
        paths: the files that can hold any of it.
        low: its first log partition.
        high: its last one.
        number: which part it takes of the partitions that groups commit there.
        parts: how many parts there are.
        since: commits from before that may be left out; None where none may.
    """

    paths: Sequence[str]
    low: int
    high: int
    number: int
    parts: int
    since: datetime | None = None


EVERYWHERE = Share([], 0, 2**31 - 1, 0, 1)
"""All log partitions, and no commits."""

Covers = Callable[[pa.RecordBatch], Bools]

Others = Callable[[Share], Iterator[pa.RecordBatch]]
"""From a share to events of commits that are not plain, those of other shares among them: batches in SHARED."""

Context = Callable[[pa.Array], Iterator[pa.RecordBatch]]
"""From ids of groups to what is known of them: batches in SHARED, in no order."""


def shares_of(
    warehouse: Warehouse, since: datetime | None = None, *, most_rows: int = SHARE_ROWS
) -> list[Share] | None:
    """The commits of a warehouse in shares; None where tasks can't read their files, or each would read too many.

    Args:
        warehouse: holds them.
        since: files whose commits are all older are left out.
        most_rows: how many commits a share has at most, as far as the files tell.
    """
    held = warehouse.held("offset_commits")
    if held is None:
        return None
    tasks = int(warehouse.spark.sparkContext.defaultParallelism)
    files = held if since is None else [_since(file, since) for file in held if may_be_since(file, since)]
    shares = plan_shares(files, tasks, most_rows) if tasks <= MOST_TASKS else None
    return None if shares is None else [share._replace(since=since) for share in shares or [EVERYWHERE]]


def may_be_since(file: HeldFile, since: datetime) -> bool:
    """Whether a file of commits may hold some that are not from before a moment, or of no known time."""
    newest = file.highest.get("log_timestamp")
    return newest is None or newest >= since or file.nulls.get("log_timestamp") != 0


def _since(file: HeldFile, since: datetime) -> HeldFile:
    """A file with about as many rows as it may hold since a moment, as if they came evenly: the others are not read."""
    oldest, newest = (bounds.get("log_timestamp") for bounds in (file.lowest, file.highest))
    if file.rows is None or oldest is None or newest is None or oldest >= since:
        return file
    return file._replace(rows=ceil(file.rows * ((newest - since) / (newest - oldest))))


def plan_shares(files: Sequence[HeldFile], tasks: int, most_rows: int = SHARE_ROWS) -> list[Share] | None:
    """Divide the commits of a table among tasks.

    Args:
        files: the table's.
        tasks: how many can run at once; no more than that many are made of few commits.
        most_rows: how many commits a share has at most, as far as the files tell.

    Returns:
        the shares, which between them have every log partition, that without commits too: what held there goes on;
        none where there are no files; None where these do not tell enough, or lie so that the shares would read them
        too often.
    """
    rows: dict[int, float] = {}
    for file in files:
        low, high = file.lowest.get("log_partition"), file.highest.get("log_partition")
        if file.rows is None or low is None or high is None or file.nulls.get("log_partition") != 0:
            return None
        if high - low >= _MOST_PARTITIONS:
            return None
        for partition in range(low, high + 1):
            rows[partition] = rows.get(partition, 0) + file.rows / (high - low + 1)
    total = sum(rows.values())
    target = min(max(total / max(tasks, 1), _LEAST_SHARE_ROWS), most_rows)
    shares: list[Share] = []
    reads = 0
    for low, high, held in _everywhere(list(_runs(rows, target))):
        mine = [file for file in files if file.lowest["log_partition"] <= high and file.highest["log_partition"] >= low]
        parts = max(ceil(held / target - _OVER), 1)
        reads += parts * sum(file.rows or 0 for file in mine)
        paths = [file.path for file in mine]
        shares += [Share(paths, low, high, number, parts) for number in range(parts)]
    return None if reads > _MOST_READS * total else shares


def _everywhere(runs: Sequence[tuple[int, int, float]]) -> Iterator[tuple[int, int, float]]:
    """The same runs, each as far as the next one, and with all that lies before and behind them."""
    firsts = [EVERYWHERE.low, *(low for low, _, _ in runs[1:]), EVERYWHERE.high + 1]
    for (_, _, held), (low, behind) in zip(runs, pairwise(firsts), strict=False):
        yield low, behind - 1, held


def _runs(rows: Mapping[int, float], target: float) -> Iterator[tuple[int, int, float]]:
    """Neighbouring log partitions, as many as make up a share: the first, the last, and how many commits they hold."""
    run: list[int] = []
    held = 0.0
    for partition in sorted(rows):
        if run and held + rows[partition] > target:
            yield run[0], run[-1], held
            run, held = [], 0.0
        run.append(partition)
        held += rows[partition]
    if run:
        yield run[0], run[-1], held


def _is_in_part(rows: pa.RecordBatch, share: Share, *, whole_groups: bool = False) -> Bools:
    """Whether the partition that a row is about, or its group, belongs to a share's part."""
    if share.parts == 1:
        return np.ones(rows.num_rows, np.bool_)
    place = checksums(rows.column("group_id"))
    if not whole_groups:
        place = place + checksums(rows.column("topic")) + numbers_of(rows.column("partition"), 0)
    taken: Bools = place % share.parts == share.number
    return taken


def _is_in_log(rows: pa.RecordBatch, share: Share) -> Bools:
    """Whether a row is of one of a share's log partitions."""
    partitions = numbers_of(rows.column("log_partition"), -1)
    taken: Bools = (partitions >= share.low) & (partitions <= share.high)
    return taken


def typed(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows in the types of EVENTS, which Parquet does not tell to the full, with groups and topics by number.

    Columns that EVENTS has not stay as they are.
    """
    columns = [
        column.dictionary_encode() if name in TEXT_BY_NUMBER and not pa.types.is_dictionary(column.type) else column
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
    ]
    names = rows.schema.names
    told = [column.cast(_TYPES.get(name, column.type)) for name, column in zip(names, columns, strict=True)]
    return pa.RecordBatch.from_arrays(told, names=names)


def _may_be_of(group: pq.RowGroupMetaData, places: Sequence[int], share: Share) -> bool:
    """Whether a row group may hold rows of a share, by what it tells of log partitions and times.

    Args:
        group: the row group.
        places: of its columns: log_partition and, if there is one, log_timestamp.
        share: what is wanted.
    """
    told = [group.column(place).statistics for place in places]
    partition, *times = (one if one is not None and one.has_min_max and one.null_count == 0 else None for one in told)
    is_elsewhere = partition is not None and (partition.max < share.low or partition.min > share.high)
    is_old = share.since is not None and any(one is not None and one.max < share.since for one in times)
    return not (is_elsewhere or is_old)


def _batches(path: str, columns: Sequence[str], share: Share) -> Iterator[pa.RecordBatch]:
    """What a file holds, but for row groups that tell that all of theirs is elsewhere, or from before."""
    with open_file(path) as file:
        names = file.schema_arrow.names
        places = [names.index(name) for name in ("log_partition", "log_timestamp") if name in columns]
        groups = (file.metadata.row_group(number) for number in range(file.num_row_groups))
        wanted = [number for number, group in enumerate(groups) if _may_be_of(group, places, share)]
        if wanted:
            yield from map(typed, file.iter_batches(_BATCH_ROWS, row_groups=wanted, columns=list(columns)))


def _as_events(commits: pa.RecordBatch) -> pa.RecordBatch:
    """Plain commits and tombstones in the columns of EVENTS and SORTED_BY."""
    is_tombstone = commits.column("is_tombstone").fill_null(False)
    kinds = pa.scalar(int(Event.TOMBSTONE), pa.int8()), pa.scalar(int(Event.PLAIN), pa.int8())
    offsets = commits.column("log_offset")
    given = {"at_offset": offsets, "at_timestamp": commits.column("log_timestamp"), "first": offsets, "second": offsets}
    return conform(commits, SHARED, kind=pc.if_else(is_tombstone, *kinds), **given)


def commits_of(
    share: Share, cluster: str, columns: Sequence[str], *, whole_groups: bool = False
) -> Iterator[pa.RecordBatch]:
    """A share's commits in the order of their files, groups and topics by number.

    Some of those that may be left out are among them.

    Args:
        share: from ``plan_shares``.
        cluster: whose commits.
        columns: of ``offset_commits``; cluster, group_id, topic, partition and log_partition among them.
        whole_groups: let a part be one of the groups, not of their partitions.
    """
    for path in share.paths:
        for rows in _batches(path, columns, share):
            mine = pc.equal(rows.column("cluster"), cluster).to_numpy(zero_copy_only=False)
            taken = mine & _is_in_log(rows, share) & _is_in_part(rows, share, whole_groups=whole_groups)
            if taken.any():
                yield some(rows, taken)


def _plain_commits(share: Share, cluster: str, are_covered: Covers | None) -> Iterator[pa.RecordBatch]:
    """A share's commits that wait for no marker, see ``waits_for_marker``, and tombstones."""
    for commits in commits_of(share, cluster, _READ):
        rows = commits if are_covered is None else some(commits, are_covered(commits))
        is_commit = pc.invert(rows.column("is_tombstone").fill_null(False))
        waits = pc.and_(pc.not_equal(rows.column("producer_id"), -1), is_commit).fill_null(False)
        plain = ~waits.to_numpy(zero_copy_only=False)
        if plain.any():
            yield _as_events(some(rows, plain))


def kept_others(paths: Sequence[str]) -> Others:
    """Events of commits that are not plain, out of files in EVENTS and SORTED_BY.

    Args:
        paths: where these lie.
    """

    def events(share: Share) -> Iterator[pa.RecordBatch]:
        for path in paths:
            # What began before, and ends in the share, counts.
            yield from _batches(path, SHARED.names, share._replace(since=None))

    return events


def _others(others: Others, share: Share) -> Iterator[pa.RecordBatch]:
    """A share's other commits."""
    for rows in others(share):
        taken = _is_in_log(rows, share) & _is_in_part(rows, share)
        if taken.any():
            yield some(rows, taken)


def kept_context(paths: Sequence[str]) -> Context:
    """What is known of groups, out of files in EVENTS and SORTED_BY.

    Args:
        paths: where these lie.
    """

    def events(groups: pa.Array) -> Iterator[pa.RecordBatch]:
        for path in paths:
            with open_file(path) as file:
                for rows in map(typed, file.iter_batches(_BATCH_ROWS, columns=SHARED.names)):
                    yield some(rows, are_among(rows.column("group_id"), groups))

    return events


def _context(context: Context, share: Share, groups: pa.Array) -> Iterator[pa.RecordBatch]:
    """What is known of groups, and of those of their partitions that are of the share."""
    for rows in context(groups):
        is_of_group = rows.column("topic").is_null().to_numpy(zero_copy_only=False)
        taken = is_of_group | _is_in_part(rows, share)
        if taken.any():
            yield some(rows, taken)


def _ranks(column: pa.DictionaryArray) -> Numbers:
    """Numbers in the order of the values, null first."""
    ranks = np.zeros(len(column.dictionary) + 1, np.int64)
    ranks[pc.sort_indices(column.dictionary).to_numpy()] = np.arange(1, len(column.dictionary) + 1)
    return ranks[codes_of(column)]


def _in_order(events: pa.Table) -> Numbers:
    """Indices that sort events by key, then by what they are sorted by within it; null comes first."""
    columns = {name: events.column(name).chunk(0) for name in events.column_names}
    keys = [_ranks(columns[name]) for name in TEXT_BY_NUMBER]
    for name in ("partition", "log_partition"):
        known = numbers_of(columns[name].drop_null())
        keys.append(numbers_of(columns[name], int(known.min()) - 1 if len(known) else 0))
    order = _within_keys(numbers_of(columns["kind"]), [numbers_of(columns[name]) for name in SORTED_BY.names])
    for code in reversed(packed(keys)):
        order = order[np.argsort(code[order], kind="stable")]
    return order


def _within_keys(kinds: Numbers, within: Sequence[Numbers]) -> Numbers:
    """Indices that sort events of the same key; most commits are in order as their files have them."""
    order: list[Numbers] = []
    is_commit = kinds > Event.OWNER
    # What is known of a group or a partition never has the key of a commit.
    for [rows] in (np.nonzero(~is_commit), np.nonzero(is_commit)):
        first, second = (one[rows] for one in within)
        is_behind = (first[1:] > first[:-1]) | ((first[1:] == first[:-1]) & (second[1:] >= second[:-1]))
        order.append(rows if is_behind.all() else rows[np.lexsort([second, first])])
    return np.concatenate(order)


def _sorted_here(batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    events = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    order = _in_order(events)
    for at in range(0, len(order), _BATCH_ROWS):
        [rows] = events.take(pa.array(order[at : at + _BATCH_ROWS])).combine_chunks().to_batches()
        yield conform(rows, EVENTS)


def _sorted_on_disk(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with (
        TemporaryDirectory() as folder,
        duckdb.connect(config={"memory_limit": _SORT_MEMORY, "threads": 1, "temp_directory": folder}) as connection,
    ):
        connection.register("events", pa.RecordBatchReader.from_batches(schema, batches))
        keys = ("group_id", "topic", "partition", "log_partition", *SORTED_BY.names)
        order = ", ".join(f'"{name}" NULLS FIRST' for name in keys)
        found = connection.sql(f"SELECT * FROM events ORDER BY {order}")  # noqa: S608 - names of our own
        yield from (conform(rows, EVENTS) for rows in found.to_arrow_reader(_BATCH_ROWS))


def _events(
    share: Share, cluster: str, others: Others, context: Context, are_covered: Covers | None
) -> Iterator[pa.RecordBatch]:
    """All events of a share, in no order; of groups that commit nothing in it there are none."""
    groups: set[str] = set()
    for rows in chain(_plain_commits(share, cluster, are_covered), _others(others, share)):
        group = rows.column("group_id")
        groups.update(group.dictionary.take(group.indices.unique().drop_null()).to_pylist())
        yield rows
    if groups:
        yield from _context(context, share, pa.array(sorted(groups), pa.string()))


def share_of_events(
    share: Share,
    cluster: str,
    others: Others,
    context: Context,
    *,
    are_covered: Covers | None = None,
    most: int = MOST_SORTED,
) -> Iterator[pa.RecordBatch]:
    """All events of a share, in order: batches in EVENTS.

    Args:
        share: from ``plan_shares``.
        cluster: whose commits.
        others: tells all events of commits that are not plain.
        context: tells what is known of groups and their partitions.
        are_covered: tells which plain commits of a batch count; None counts all.
        most: from how many events on they are sorted on disk.
    """
    events = _events(share, cluster, others, context, are_covered)
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in events:
        held.append(batch)
        rows += batch.num_rows
        if rows > most:
            yield from _sorted_on_disk(batch.schema, chain(held, events))
            return
    if held:
        yield from _sorted_here(held)
