"""The fold of a night: groups with news go on from their states in one job, whose tasks read the tables' files.

A night brings few records to many groups. Spark finds them, their states and the commits before departures with a plan
each, a shuffle each and a file each; a task that takes its groups out of the files themselves is done before the first
of these begins. It only goes on: where a group has to begin anew, the night is left to ``replay_groups``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import starmap
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.analysis.group_life import VERSION
from coordinator_replay.analysis.reasons.signs import DEPARTURES
from coordinator_replay.pipeline.commit_shares import EVERYWHERE, MOST_TASKS, commits_of, may_be_since
from coordinator_replay.pipeline.data_files import WRITTEN, DataFile, DataFiles, Part, aside, files_of, written_rows
from coordinator_replay.pipeline.delta_log import HeldFile
from coordinator_replay.pipeline.extremes import files_in
from coordinator_replay.pipeline.group_state import SNAPSHOT, START
from coordinator_replay.pipeline.positions import Stretch, beyond, lies_in
from coordinator_replay.pipeline.replay import STATE_TABLE, Fed, Fold, Given, few_collections
from coordinator_replay.pipeline.sign_shares import COMMIT, last_before
from coordinator_replay.pipeline.signs import signs_before
from coordinator_replay.pipeline.sums import numbers_of
from coordinator_replay.pipeline.task_rows import BY_NUMBER, checksums, per_task, rows_where
from coordinator_replay.pipeline.warehouse import Warehouse
from coordinator_replay.tables.definition import table

TOUCHED = pa.schema([("group_id", pa.string()), ("from_offset", pa.int64()), ("is_first", pa.bool_())])
"""A group that was replayed: from where on (START for its first record), and whether it never was before."""

_TOUCHED, _ANEW, _FIRST = "touched", "anew", "first"
MOST_RECORDS = 1_000_000
"""How many records a night has at most that is folded so: tasks hold those of all their groups."""

_MOST_GROUPS = 200_000
_BATCH_ROWS = 50_000


def _of_table(name: str, *columns: str) -> pa.Schema:
    """Some columns of a table, groups by number."""
    types = table(name).arrow_schema()
    return pa.schema([(one, BY_NUMBER if one == "group_id" else types.field(one).type) for one in columns])


_RECORD = _of_table(
    "group_records",
    *("group_id", "log_partition", "log_offset", "log_timestamp", "kind", "key_json", "value_json", "value_version"),
    *("missing_before", "record_bytes", "is_tombstone"),
)
_STATE = _of_table(STATE_TABLE, "group_id", "log_partition", "to_offset", "snapshot_version", SNAPSHOT)
_FED = pa.schema(
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
        ("record_bytes", pa.int64()),
        ("is_record", pa.bool_()),
    ]
)
_ORDER = [(name, "ascending") for name in ("group_id", "log_partition", "log_offset", "is_record")]


class Gone(NamedTuple):
    """What a night's fold came to.

    Attributes:
        files: what was written, by table.
        touched: files in TOUCHED.
        has_first: whether some groups were never replayed before.
    """

    files: dict[str, list[DataFile]]
    touched: list[DataFile]
    has_first: bool


@dataclass(frozen=True, slots=True)
class Night:
    """The files that a night's fold reads.

    Attributes:
        cluster: whose groups.
        states: those of ``group_state``.
        records: those of ``group_records`` that may hold any that the groups' replay has not seen.
        news: where these records stand.
        commits: those of ``offset_commits``.
        tasks: how many tasks share the groups.
    """

    cluster: str
    states: Sequence[str]
    records: Sequence[str]
    news: Sequence[Stretch]
    commits: Sequence[HeldFile]
    tasks: int

    def rows(self, paths: Sequence[str], schema: pa.Schema, number: int, which: Any = None) -> pa.Table:
        """Rows of the cluster about a task's groups: those for which a condition holds, or all."""
        is_mine = pc.field("cluster") == self.cluster
        wanted = is_mine if which is None else is_mine & which
        found = []
        for rows in rows_where(paths, schema.names, wanted, texts=["group_id"]):
            is_of_task = pa.array(checksums(rows.column("group_id")) % self.tasks == number)
            found.append(rows.filter(is_of_task).cast(schema))
        return pa.Table.from_batches(found, schema).unify_dictionaries().combine_chunks()

    def unseen(self, number: int) -> pa.Table:
        """Records of a task's groups that stand where no run has replayed them, as far as their positions tell."""
        return self.rows(self.records, _RECORD, number, lies_in(pc.field, self.news))

    def signs(self, records: pa.Table) -> pa.Table:
        """The last commits before each record that may show a departure: rows to feed."""
        may_show = [
            pc.and_(pc.equal(records.column("kind"), kind), pc.equal(records.column("is_tombstone"), by_tombstone))
            for kind, by_tombstone in DEPARTURES.items()
        ]
        is_timed = records.column("log_timestamp").is_valid()
        told = records.filter(pc.and_(reduce(pc.or_, may_show), is_timed))
        if not told.num_rows:
            return _FED.empty_table()
        at_ms = pa.array(np.floor_divide(numbers_of(_whole(told.column("log_timestamp"))), 1000))
        since = signs_before(pc.min(at_ms).as_py())
        paths = [file.path for file in self.commits if may_be_since(file, since)]
        commits = commits_of(EVERYWHERE._replace(paths=paths, since=since), self.cluster, COMMIT)
        departures = told.select(["group_id", "log_partition", "log_offset"]).append_column("at_ms", at_ms)
        plain = departures.set_column(0, "group_id", departures.column("group_id").cast(pa.string()))
        return pa.Table.from_batches(map(_as_fed, last_before(commits, plain)), _FED)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()


def _as_fed(last: pa.RecordBatch) -> pa.RecordBatch:
    """Commits in the columns of LAST as ``signs_of_life`` tells them: a row for each record that they come before."""
    before: dict[tuple[str, int, int], list[tuple[str, int, int, int]]] = {}
    for group_id, log_partition, of, *commit in zip(*(column.to_pylist() for column in last.columns), strict=True):
        before.setdefault((group_id, log_partition, of), []).append(tuple(commit))
    names = ("topic", "partition", "at_ms", "offset")
    rows = [
        {
            "group_id": group_id,
            "log_partition": log_partition,
            "log_offset": of,
            "value_json": orjson.dumps([dict(zip(names, one, strict=True)) for one in sorted(commits)]).decode(),
            "is_record": False,
        }
        for (group_id, log_partition, of), commits in before.items()
    ]
    return pa.RecordBatch.from_pylist(rows, schema=_FED)


class _News:
    """What a task's groups have that their replay has not seen, and where each goes on."""

    def __init__(self, records: pa.Table, states: pa.Table) -> None:
        known = _whole(states.column("group_id")).cast(pa.string())
        place = pc.index_in(_whole(records.column("group_id")).cast(pa.string()), value_set=known)
        at = numbers_of(place, -1)
        partitions, to, versions = (
            np.append(numbers_of(_whole(states.column(name))), -1)[at]
            for name in ("log_partition", "to_offset", "snapshot_version")
        )
        log, offsets = (numbers_of(_whole(records.column(name))) for name in ("log_partition", "log_offset"))
        stays = (at >= 0) & (log == partitions) & (versions == VERSION)
        is_unseen = ~stays | (offsets >= to)
        self.records = records.filter(pa.array(is_unseen))
        self.begins_anew = bool(((at >= 0) & ~stays).any())
        self.is_first = at[is_unseen] < 0

    def touched(self) -> pa.Table:
        """The groups, in TOUCHED."""
        ids = _whole(self.records.column("group_id")).cast(pa.string())
        told = pa.table({"group_id": ids, "at": self.records.column("log_offset"), "is_first": pa.array(self.is_first)})
        first = told.group_by("group_id", use_threads=False).aggregate([("at", "min"), ("is_first", "min")])
        is_first = _whole(first.column("is_first_min"))
        begins = pc.if_else(is_first, pa.scalar(START, pa.int64()), _whole(first.column("at_min")))
        return pa.table([first.column("group_id"), begins, is_first], schema=TOUCHED)

    def fed(self) -> pa.Table:
        """The records as rows to feed."""
        records = self.records
        at = numbers_of(_whole(records.column("log_timestamp")), -1000)
        given = {
            "group_id": records.column("group_id").cast(pa.string()),
            "timestamp_ms": pa.array(np.floor_divide(at, 1000)),
            "missing_before": records.column("missing_before").fill_null(0),
            "record_bytes": records.column("record_bytes").cast(pa.int64()).fill_null(0),
            "is_record": pa.array(np.ones(records.num_rows, np.bool_)),
        }
        return pa.table([given[name] if name in given else records.column(name) for name in _FED.names], _FED)


def _snapshots(states: pa.Table, touched: pa.Table) -> pa.Table:
    """The states that groups go on from, as rows to feed, each before the group's first one."""
    ids = states.column("group_id").cast(pa.string())
    mine = states.filter(pc.is_in(ids, value_set=_whole(touched.column("group_id"))))
    n = mine.num_rows
    given = {
        "group_id": mine.column("group_id").cast(pa.string()),
        "log_partition": pa.repeat(pa.scalar(START, pa.int32()), n),
        "log_offset": pa.repeat(pa.scalar(START, pa.int64()), n),
        "kind": pa.repeat(SNAPSHOT, n),
        "value_json": mine.column(SNAPSHOT),
        "is_record": pa.repeat(False, n),
    }
    return pa.table([given.get(field.name, pa.nulls(n, field.type)) for field in _FED], _FED)


def _fold(night: Night, number: int, given: Given, parts: Mapping[str, Part], touched: Part) -> Iterator[DataFile]:
    """Fold a task's groups; the files that were written."""
    unseen = night.unseen(number)
    if not unseen.num_rows:
        return
    states = night.rows(night.states, _STATE, number)
    news = _News(unseen, states)
    if news.begins_anew:
        yield DataFile(_ANEW, "", 0, 0, "")
        return
    groups = news.touched()
    if not groups.num_rows:
        return
    every = pa.concat_tables([news.fed(), night.signs(news.records), _snapshots(states, groups)]).sort_by(_ORDER)
    fold = Fold(given, parts)
    with few_collections():
        for batch in every.to_batches(_BATCH_ROWS):
            for row in starmap(Fed, zip(*(column.to_pylist() for column in batch.columns), strict=True)):
                fold.feed(row)
        yield from fold.finish()
    files = DataFiles({_TOUCHED: touched})
    for batch in groups.to_batches():
        files.add(_TOUCHED, batch)
    yield from files.close()
    if pc.any(groups.column("is_first")).as_py():
        yield DataFile(_FIRST, "", 0, 0, "")


def night_of(warehouse: Warehouse, cluster: str, ends: Mapping[int, int]) -> Night | None:
    """The files that a night's fold reads; None where it is none, or where only Spark can read them.

    Args:
        warehouse: holds the tables; all that stands before the ends was replayed, and no state is a killed run's.
        cluster: whose groups.
        ends: the first offset that was not replayed yet, by log partition.
    """
    states, records, commits = (warehouse.held(name) for name in (STATE_TABLE, "group_records", "offset_commits"))
    tasks = int(warehouse.spark.sparkContext.defaultParallelism)
    if states is None or records is None or commits is None or tasks > MOST_TASKS:
        return None
    if sum(_MOST_GROUPS + 1 if file.rows is None else file.rows for file in states) > _MOST_GROUPS:
        return None
    news = beyond(ends)
    paths = [file.path for file in files_in(records, cluster, news)]
    return Night(cluster, [file.path for file in states], paths, news, commits, tasks)


def fold_night(
    warehouse: Warehouse, night: Night, given: Given, parts: Mapping[str, Part], staging: str
) -> Gone | None:
    """Let the groups that have news go on from their states, and write what comes of it: an action.

    Args:
        warehouse: holds the tables.
        night: from ``night_of``.
        given: what every group's replay is given.
        parts: where the rows of GROUP_TABLES and STATE_TABLE go.
        staging: a folder for what is needed more than once.

    Returns:
        None where a group has to begin anew: then nothing of what was written counts.
    """
    parts, touched = dict(parts), aside(f"{staging}/touched", TOUCHED)

    def each(number: int) -> Iterator[pa.RecordBatch]:
        return written_rows(_fold(night, number, given, parts, touched))

    files = files_of(per_task(warehouse.spark, range(night.tasks), each, WRITTEN))
    if _ANEW in files:
        return None
    has_first = files.pop(_FIRST, None) is not None
    return Gone(files, files.pop(_TOUCHED, []), has_first)
