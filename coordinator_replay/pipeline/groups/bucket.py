"""The groups of one bucket: those with new records go on from their snapshots, or all begin anew.

A run adds rows that no later record changes and exchanges the bucket's open ones: those of groups without new records
are copied.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.analysis.group_life import VERSION
from coordinator_replay.pipeline.bucket_files import BucketFiles, TableWriter
from coordinator_replay.pipeline.columns import as_bools
from coordinator_replay.pipeline.groups.input_rows import RECORD_COLUMNS, input_rows, sort_records
from coordinator_replay.pipeline.groups.proofs import group_proofs, last_proofs
from coordinator_replay.pipeline.groups.replay import (
    GROUP_TABLES,
    NO_SNAPSHOT,
    STATE_TABLE,
    GroupKey,
    OutputRow,
    ReplayContext,
    few_collections,
    replay_groups,
)
from coordinator_replay.pipeline.groups.signs import (
    COMMIT,
    DEPARTURE,
    LastCommits,
    departures,
    record_columns,
    signs_since,
)
from coordinator_replay.pipeline.log_partitions import PartitionStep
from coordinator_replay.pipeline.offsets.pauses import REBALANCE_ROWS
from coordinator_replay.pipeline.offsets.pauses import TABLE as REBALANCES
from coordinator_replay.store.scan import in_schema, read_paths
from coordinator_replay.store.writer import batch_of
from coordinator_replay.tables.definition import table

_CHUNK_ROWS = 10_000
_REBALANCES = table(REBALANCES).file_schema().remove_metadata()
_RECORDS, _COMMITS = "group_records", "offset_commits"
_RECORD_SCHEMA = table(_RECORDS).arrow_schema(list(RECORD_COLUMNS)).remove_metadata()
_STATE_COLUMNS = ("group_id", "log_partition", "snapshot_version", "snapshot")


@dataclass(frozen=True, slots=True)
class _States:
    """What the tables know of the groups that have new records.

    Attributes:
        snapshots: the states that they go on from.
        is_old: whether some snapshot is of another release.
    """

    snapshots: Mapping[GroupKey, str]
    is_old: bool


def _ids(uris: Iterable[str]) -> set[str]:
    """The groups that rows of some files are about."""
    found: set[str] = set()
    for batch in read_paths(uris, ["group_id"], dictionaries=["group_id"]):
        column = batch.column("group_id")
        found.update(column.dictionary.take(column.indices.unique().drop_null()).to_pylist())
    return found


def _states(files: BucketFiles, groups: Collection[str]) -> _States:
    snapshots: dict[GroupKey, str] = {}
    is_old = False
    wanted = pc.field("group_id").isin(pa.array(sorted(groups), pa.string()))
    for batch in read_paths([file.uri for file in files.old(STATE_TABLE)], _STATE_COLUMNS, wanted):
        is_old |= pc.any(pc.not_equal(batch.column("snapshot_version"), VERSION)).as_py() is True
        keys = zip(*(batch.column(name).to_pylist() for name in ("group_id", "log_partition")), strict=True)
        snapshots.update(zip(keys, batch.column("snapshot").to_pylist(), strict=True))
    return _States(snapshots, is_old)


def _has_failed(files: BucketFiles) -> bool:
    """Whether an earlier run could not replay some group of the bucket."""
    failed = pc.field("snapshot_version") == NO_SNAPSHOT
    uris = [file.uri for file in files.old(STATE_TABLE)]
    return any(batch.num_rows for batch in read_paths(uris, ["group_id"], failed))


def _names_are_old(files: BucketFiles, names: Mapping[str, str], renamed: Collection[str]) -> bool:
    """Whether rows of the bucket lack the name of a topic that is known now, or give another.

    Args:
        files: the bucket's.
        names: topic name by id.
        renamed: ids whose name was learned, or changed, since the last run.
    """
    if not renamed:
        return False
    ids = pa.array(sorted(renamed), pa.string())
    uris = [file.uri for file in files.old("partition_ownership")]
    texts = ["topic_id", "topic"]
    for batch in read_paths(uris, texts, dictionaries=texts):
        rows = batch.filter(pc.is_in(batch.column("topic_id"), value_set=ids))
        shown = pa.table({name: rows.column(name).cast(pa.string()) for name in texts}).group_by(texts).aggregate([])
        if any(names.get(row["topic_id"]) != row["topic"] for row in shown.to_pylist()):
            return True
    return False


class GroupStep:
    """Replays the groups of a bucket.

    Args:
        files: the bucket's; records that are new stand in it already.
        context: what is known beside the records.
        renamed: ids of topics whose name was learned, or changed, since the last run.
        partitions: what is proven of the bucket's log partitions.
    """

    def __init__(
        self, files: BucketFiles, context: ReplayContext, renamed: Collection[str], partitions: PartitionStep
    ) -> None:
        self.files = files
        self.partitions = partitions
        self.context = context
        self.renamed = renamed

    def must_begin_anew(self) -> bool:
        """Whether the bucket can't go on from where its tables end.

        So it is where snapshots are of another release, where a group failed and is tried again, and where rows would
        now name other topics.
        """
        groups = _ids(file.path for file in self.files.new(_RECORDS))
        return (
            _states(self.files, groups).is_old
            or _has_failed(self.files)
            or _names_are_old(self.files, self.context.topic_names, self.renamed)
        )

    def go_on(self, writer: TableWriter) -> int:
        """Replay groups with new records from their snapshots; returns how many rebalances are new."""
        uris = [file.path for file in self.files.new(_RECORDS)]
        groups = _ids(uris)
        self._copy_rebalances(groups, writer)
        self.files.remove(REBALANCES, is_open=True)
        if not groups:
            return 0
        states = _states(self.files, groups)
        self._replay(uris, writer, states.snapshots, is_rebuild=False)
        self._copy_others(groups, writer)
        for name in GROUP_TABLES:
            self.files.remove(name, is_open=True)
        self.files.remove(STATE_TABLE)
        return len(groups)

    def begin_anew(self, writer: TableWriter) -> None:
        """Replay all groups of the bucket from their first record."""
        for name in (*GROUP_TABLES, STATE_TABLE):
            self.files.remove(name)
        self._replay(self.files.uris(_RECORDS), writer, {}, is_rebuild=True)

    def log_partitions(self) -> dict[str, int]:
        """The log partition of each group of the bucket."""
        found: dict[str, int] = {}
        for batch in read_paths(self.files.uris(STATE_TABLE), ["group_id", "log_partition"]):
            found.update(zip(*(batch.column(name).to_pylist() for name in batch.schema.names), strict=True))
        return found

    def _replay(
        self, uris: Sequence[str], writer: TableWriter, snapshots: Mapping[GroupKey, str], *, is_rebuild: bool
    ) -> None:
        records = (in_schema(batch, _RECORD_SCHEMA) for batch in read_paths(uris, RECORD_COLUMNS))
        rows = input_rows(sort_records(records, _RECORD_SCHEMA))
        with few_collections():
            context = replace(self.context, is_rebuild=is_rebuild)
            proofs = group_proofs(self.partitions, uris) if is_rebuild else last_proofs(self.partitions)
            found = replay_groups(rows, context, snapshots=snapshots, signs=self._signs(uris), proofs=proofs)
            _write(found, writer)

    def _signs(self, uris: Sequence[str]) -> LastCommits | None:
        """The last commits before records that may show a departure."""
        found = pa.Table.from_batches(map(departures, read_paths(uris, record_columns())), DEPARTURE)
        since = signs_since(found)
        if since is None:
            return None
        near = (pc.field("log_timestamp") >= pa.scalar(since, pa.timestamp("us", tz="UTC"))) | pc.field(
            "log_timestamp"
        ).is_null()
        commits = read_paths(self.files.uris(_COMMITS), COMMIT, near, ["group_id", "topic"])
        return LastCommits(found, commits)

    def _copy_rebalances(self, groups: Collection[str], writer: TableWriter) -> None:
        """Hand on rebalances of all other groups that are not over; the others are told with their pause."""
        known = pa.array(sorted(groups), pa.string())
        uris = [file.uri for file in self.files.old(REBALANCES, is_open=True)]
        is_going_on = pc.field("settled_at_offset").is_null()
        for batch in read_paths(uris, _REBALANCES.names, is_going_on):
            is_other = ~as_bools(pc.is_in(batch.column("group_id"), value_set=known))
            writer.stage(REBALANCE_ROWS, in_schema(batch.filter(pa.array(is_other)), _REBALANCES))

    def _copy_others(self, groups: Collection[str], writer: TableWriter) -> None:
        """Copy the state and the open rows of all other groups."""
        known = pa.array(sorted(groups), pa.string())
        for name in (*(name for name in GROUP_TABLES if name != REBALANCES), STATE_TABLE):
            is_open = None if name == STATE_TABLE else True
            uris = [file.uri for file in self.files.old(name, is_open)]
            for batch in read_paths(uris, table(name).file_schema().names):
                is_other = ~as_bools(pc.is_in(batch.column("group_id"), value_set=known))
                writer.add(name, batch.filter(pa.array(is_other)), is_open=is_open)


def _write(rows: Iterator[OutputRow], writer: TableWriter) -> None:
    waiting: dict[tuple[str, bool], list[Mapping[str, Any]]] = defaultdict(list)
    for name, is_open, row in rows:
        kept = waiting[name, is_open]
        kept.append(row)
        if len(kept) >= _CHUNK_ROWS:
            _add(writer, name, kept, is_open=is_open)
            waiting[name, is_open] = []
    for (name, is_open), kept in waiting.items():
        _add(writer, name, kept, is_open=is_open)


def _add(writer: TableWriter, name: str, rows: Sequence[Mapping[str, Any]], *, is_open: bool) -> None:
    """Write rows; rebalances are written with their pause, when the commits around them were followed."""
    if name == REBALANCES:
        writer.stage(REBALANCE_ROWS, batch_of(rows, _REBALANCES))
    else:
        writer.add_rows(name, rows, is_open=is_open)
