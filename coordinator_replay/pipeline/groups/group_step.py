"""The groups of one bucket: groups with new records continue from their snapshots, or all groups are replayed again.

A run adds rows that no later record changes, and replaces the bucket's open rows. Open rows of groups without new
records are copied.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyConnection

from coordinator_replay.analysis.group_life import SNAPSHOT_VERSION
from coordinator_replay.analysis.rows import Row
from coordinator_replay.columns import as_bools
from coordinator_replay.completeness.groups import GroupProofs
from coordinator_replay.garbage import few_collections
from coordinator_replay.pipeline.bucket_files import BucketFiles, TableWriter
from coordinator_replay.pipeline.group_moves import NO_MOVES, GroupMoves
from coordinator_replay.pipeline.groups.input_rows import (
    QUARANTINED,
    RECORDS,
    group_records,
    groups_of,
    records_in_order,
    unreadable_records,
)
from coordinator_replay.pipeline.groups.proofs import group_proofs, last_proofs
from coordinator_replay.pipeline.groups.replay import (
    GROUP_TABLES,
    NO_SNAPSHOT,
    STATE_TABLE,
    GroupKey,
    GroupSnapshot,
    ReplayContext,
    replay_groups,
)
from coordinator_replay.pipeline.groups.signs import COMMITS, LastCommits, find_departures
from coordinator_replay.pipeline.log_partitions import PartitionStep
from coordinator_replay.pipeline.rebalance_pauses import REBALANCE_ROWS, as_recorded
from coordinator_replay.pipeline.rebalance_pauses import TABLE as REBALANCES
from coordinator_replay.store.scan import read_paths, reader_of
from coordinator_replay.store.writer import conform
from coordinator_replay.tables.definition import table

_REBALANCES = table(REBALANCES).file_schema().remove_metadata()
_RECORDS, _QUARANTINE, _COMMITS = "group_records", "quarantine", "offset_commits"
_STATE_COLUMNS = ("group_id", "log_partition", "snapshot", "to_offset")
_TOPICS_OF_MEMBERS = ("assigned", "target", "pending_revocation")
_CHUNK_ROWS = 1_000
"""Number of rows that are passed to the writer together."""


def _snapshots(
    files: BucketFiles, groups: Collection[str], partitions: Collection[int]
) -> dict[GroupKey, GroupSnapshot]:
    """Return the snapshots of the given groups, and of all groups of the given log partitions."""
    snapshots: dict[GroupKey, GroupSnapshot] = {}
    wanted = pc.field("group_id").isin(pa.array(sorted(groups), pa.string()))
    wanted |= pc.field("log_partition").isin(pa.array(sorted(partitions), pa.int32()))
    for batch in read_paths([file.uri for file in files.old(STATE_TABLE)], _STATE_COLUMNS, wanted):
        for row in batch.to_pylist():
            snapshots[row["group_id"], row["log_partition"]] = GroupSnapshot(row["snapshot"], row["to_offset"])
    return snapshots


def groups_not_to_continue(files: BucketFiles, names: Mapping[str, str], renamed: Collection[str]) -> list[str]:
    """Return why some groups of a bucket can't continue from their snapshots; an empty list if all groups can.

    Args:
        files: the bucket's files.
        names: topic name by id.
        renamed: ids of topics whose names are new or have changed since the last run.
    """
    versions: set[int] = set()
    for batch in read_paths([file.uri for file in files.old(STATE_TABLE)], ["snapshot_version"]):
        versions.update(pc.unique(batch.column("snapshot_version")).to_pylist())
    reasons = []
    if NO_SNAPSHOT in versions:
        reasons.append("a group could not be evaluated by the last run, and is tried again")
    if versions - {NO_SNAPSHOT, SNAPSHOT_VERSION}:
        reasons.append("snapshots of its groups are of another release")
    if _names_are_old(files, names, renamed):
        reasons.append("names of topics have changed in its rows")
    return reasons


def _names_are_old(files: BucketFiles, names: Mapping[str, str], renamed: Collection[str]) -> bool:
    """Return whether the bucket has rows about a topic whose name is new or has changed.

    Args:
        files: the bucket's files.
        names: topic name by id.
        renamed: ids of topics whose names are new or have changed since the last run.
    """
    if not renamed:
        return False
    ids = pa.array(sorted(renamed), pa.string())
    for rows in _shown_topics(files):
        of_renamed = rows.filter(pc.is_in(rows.column("topic_id"), value_set=ids))
        shown = of_renamed.group_by(of_renamed.column_names).aggregate([])
        if any(names.get(row["topic_id"]) != row["topic"] for row in shown.to_pylist()):
            return True
    return False


def _shown_topics(files: BucketFiles) -> Iterator[pa.Table]:
    """Yield the ids and names of all topics in the bucket's rows about owners, assignments and target assignments."""
    texts = ["topic_id", "topic"]
    for batch in read_paths([file.uri for file in files.old("partition_ownership")], texts, dictionaries=texts):
        yield pa.table({name: batch.column(name).cast(pa.string()) for name in texts})
    for batch in read_paths([file.uri for file in files.old("member_timeline")], _TOPICS_OF_MEMBERS):
        for column in batch.columns:
            topics = pc.list_flatten(column)
            yield pa.table({name: pc.struct_field(topics, name) for name in texts})


@dataclass(frozen=True, slots=True)
class GroupStep:
    """The step that replays the groups of a bucket.

    Attributes:
        files: the bucket's files, including the files with the new records.
        context: values of the run that the replay of each group needs.
        partitions: the log partitions of the bucket, with the ranges of log offsets without a missing record.
        moves: moves of groups into or out of the bucket's log partitions.
    """

    files: BucketFiles
    context: ReplayContext
    partitions: PartitionStep
    moves: GroupMoves = NO_MOVES

    def resume(self, writer: TableWriter) -> None:
        """Replay groups with new records from their snapshots, and copy the open rows of all other groups.

        If this run found a gap in a log partition, all groups of the log partition are replayed.
        """
        new = ([file.path for file in self.files.new(name)] for name in (_RECORDS, _QUARANTINE))
        with self._records(*new) as records:
            groups, proofs = groups_of(records), last_proofs(self.partitions)
            snapshots = _snapshots(self.files, groups, proofs.new)
            groups = sorted({*groups, *(group_id for group_id, _ in snapshots)})
            self._copy_rebalances(groups, writer)
            self.files.remove(REBALANCES, is_open=True)
            if not groups:
                return
            context = replace(self.context, is_rebuild=False)
            self._replay(records, context, proofs, writer, snapshots)
        self._copy_others(groups, writer)
        for name in GROUP_TABLES:
            self.files.remove(name, is_open=True)
        self.files.remove(STATE_TABLE)

    def rebuild(self, writer: TableWriter) -> None:
        """Replay all groups of the bucket from their first record."""
        for name in (*GROUP_TABLES, STATE_TABLE):
            self.files.remove(name)
        with self._records(self.files.uris(_RECORDS), self.files.uris(_QUARANTINE)) as records:
            context = replace(self.context, is_rebuild=True)
            self._replay(records, context, group_proofs(self.partitions, records), writer, {})

    def _records(self, records: Iterable[str], quarantine: Iterable[str]) -> AbstractContextManager[DuckDBPyConnection]:
        unreadable = unreadable_records(read_paths(quarantine, QUARANTINED))
        return group_records(self.moves.counting(chain(read_paths(records, RECORDS.names), unreadable)))

    def _replay(
        self,
        records: DuckDBPyConnection,
        context: ReplayContext,
        proofs: GroupProofs,
        writer: TableWriter,
        snapshots: Mapping[GroupKey, GroupSnapshot],
    ) -> None:
        signs = self._signs(records)
        with few_collections():
            rows = records_in_order(records)
            replayed = replay_groups(rows, context, snapshots=snapshots, signs=signs, proofs=proofs, moves=self.moves)
            write_rows(replayed, writer)

    def _signs(self, records: DuckDBPyConnection) -> LastCommits | None:
        """Return the last commits before members left their groups; None if no record may show that a member left."""
        since = find_departures(records)
        if since is None:
            return None
        at = pc.field("log_timestamp")
        near = (at >= pa.scalar(since, pa.timestamp("us", tz="UTC"))) | at.is_null()
        commits = read_paths(self.files.uris(_COMMITS), COMMITS.names, near)
        records.register("commits", reader_of(commits, COMMITS))
        return LastCommits(records)

    def _copy_rebalances(self, groups: Collection[str], writer: TableWriter) -> None:
        """Copy the rebalances that are in progress to a staged file, for groups that this run does not replay.

        Args:
            groups: the groups that this run replays.
            writer: takes the rows.
        """
        # ``PauseStep`` takes care of rebalances that have ended. Rebalances without an epoch are known only from lines
        # of a broker's log, and another stage makes them again from these lines.
        replayed = pa.array(sorted(groups), pa.string())
        uris = [file.uri for file in self.files.old(REBALANCES, is_open=True)]
        may_change = pc.field("settled_at_offset").is_null() & pc.field("epoch").is_valid()
        for batch in read_paths(uris, _REBALANCES.names, may_change):
            is_other = ~as_bools(pc.is_in(batch.column("group_id"), value_set=replayed))
            others = conform(batch.filter(pa.array(is_other)), _REBALANCES)
            writer.stage(REBALANCE_ROWS, as_recorded(others))

    def _copy_others(self, groups: Collection[str], writer: TableWriter) -> None:
        """Copy the state and the open rows of all groups except ``groups``."""
        replayed = pa.array(sorted(groups), pa.string())
        for name in (*(name for name in GROUP_TABLES if name != REBALANCES), STATE_TABLE):
            is_open = None if name == STATE_TABLE else True
            uris = [file.uri for file in self.files.old(name, is_open)]
            for batch in read_paths(uris, table(name).file_schema().names):
                is_other = ~as_bools(pc.is_in(batch.column("group_id"), value_set=replayed))
                writer.add(name, batch.filter(pa.array(is_other)), is_open=is_open)


def write_rows(rows: Iterator[Row], writer: TableWriter) -> None:
    """Write the rows of a replay. Rows that a later record may change are written as open.

    Rebalances are only staged. A later step writes them with their commit pause.
    """
    while some := list(islice(rows, _CHUNK_ROWS)):
        parts: dict[tuple[str, bool], list[Mapping[str, Any]]] = defaultdict(list)
        for name, row in some:
            parts[name, name != STATE_TABLE and row["settled_at_offset"] is None].append(row)
        for (name, is_open), of_part in parts.items():
            if name == REBALANCES:
                writer.stage_rows(REBALANCE_ROWS, of_part, _REBALANCES)
            else:
                writer.add_rows(name, of_part, is_open=is_open)
