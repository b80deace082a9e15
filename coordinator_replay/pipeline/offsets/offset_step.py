"""The step that derives the committed offsets of one bucket.

The step writes the tables ``offset_history`` and ``pending_offsets``. It stages removed offsets, current offsets and
sums of commits for later stages.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.analysis.expiring import ExpiryRule
from coordinator_replay.analysis.findings.evidence import Evidence
from coordinator_replay.arrow_times import TIMESTAMP
from coordinator_replay.columns import Bools, as_bools, numbers_of, some
from coordinator_replay.completeness.offsets import OffsetProofs
from coordinator_replay.int64 import LARGEST_INT64
from coordinator_replay.pipeline.bucket_files import BucketFiles, TableWriter
from coordinator_replay.pipeline.bucket_share import BucketShare
from coordinator_replay.pipeline.commit_sums import (
    COMMIT,
    PAUSE,
    PAUSES,
    IntervalSums,
    SumsRange,
    commit_sums,
    pauses,
)
from coordinator_replay.pipeline.group_moves import NO_MOVES, GroupMoves
from coordinator_replay.pipeline.interval_rows import OPEN_ROWS, REMOVED_ROWS, STAGED, Staged
from coordinator_replay.pipeline.log_partitions import PartitionStep
from coordinator_replay.pipeline.minute_states import STATES
from coordinator_replay.pipeline.offsets.causes import SURVIVORS
from coordinator_replay.pipeline.offsets.derive import Derivation, Sources
from coordinator_replay.pipeline.offsets.events import GROUP_MOVED
from coordinator_replay.pipeline.offsets.proofs import offset_proofs
from coordinator_replay.pipeline.rebalance_pauses import CommitPauses
from coordinator_replay.pipeline.topic_lives import TopicLife, TopicLives
from coordinator_replay.store.duckdb_connection import select
from coordinator_replay.store.scan import Batches, read_paths, rows_of
from coordinator_replay.store.writer import conform
from coordinator_replay.tables.definition import table
from coordinator_replay.times import microseconds

HISTORY, PENDING, REMOVED, EXPIRED = "offset_history", "pending_offsets", "removed_offsets", "expired_offsets"

SURVIVOR_ROWS = "survivors"
"""Name of staged rows with ages of current offsets, with the columns of SURVIVORS."""

_BY_AGE = pa.array(
    [str(rule) for rule in (ExpiryRule.EMPTY_SINCE, ExpiryRule.SIMPLE_GROUP, ExpiryRule.UNSUBSCRIBED_TOPIC)]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetContext:
    """Values of a run that are needed to derive the offsets of each bucket.

    Attributes:
        end: the latest timestamp of a record of the log; None if no record has a time.
        sums: the time range of the commits that this run adds up, and the thresholds of their sums. None if no record
            has a time.
        as_of: the time at which the ages of offsets are compared with the retention; None for the end of the log.
        history_every_ms: keep only the last commit of each time range of this length; None to keep all commits.
        topic_lives: the times at which topics were created and deleted, from the cluster's metadata.
    """

    end: datetime | None
    sums: SumsRange | None
    as_of: datetime | None = None
    history_every_ms: int | None = None
    topic_lives: Sequence[TopicLife] = ()


@dataclass(slots=True)
class OffsetStep:
    """The step that derives the offsets of a bucket.

    Attributes:
        share: the bucket.
        files: files of the bucket, including the files with new records and new rows about groups.
        context: values of the run that are the same for each bucket.
        partitions: the log partitions of the bucket, with the ranges of log offsets without a missing record.
        pauses: the search for commit pauses. This step passes the times between commits to it.
        moves: moves of groups into or out of the bucket's log partitions.
        proofs: for log partitions with missing records, the log offsets from which offsets are proven.
        lives: the ids of topics, with the times at which the topics were created and deleted.
        intervals: sums of the rows of ``offset_history`` that this run writes.
    """

    share: BucketShare
    files: BucketFiles
    context: OffsetContext
    partitions: PartitionStep
    pauses: CommitPauses
    moves: GroupMoves = NO_MOVES
    proofs: OffsetProofs = field(init=False)
    lives: TopicLives = field(init=False)
    last_times: Mapping[int, int] = field(init=False)
    intervals: IntervalSums = field(init=False, default_factory=IntervalSums)

    def __post_init__(self) -> None:
        """Set the proofs about offsets, the ids of topics, and the latest time of a record in each log partition."""
        self.proofs = offset_proofs(self.partitions, with_times=self.share.is_rebuild)
        self.lives = TopicLives(self.context.topic_lives)
        self.last_times = self.partitions.last_times()

    def run(self, writer: TableWriter) -> None:
        """Derive the bucket's offsets, and write the rows of ``offset_history`` and ``pending_offsets``.

        Also write the staged rows for later stages, such as sums of commits.
        """
        derivation = Derivation(self._sources(), proofs=self.proofs, lives=self.lives, moves=self.moves)
        tombstones = self._group_tombstones()
        every_ms = self.context.history_every_ms
        thinned, opened = list[pa.RecordBatch](), list[pa.RecordBatch]()
        for staged in derivation.run():
            kinds = numbers_of(staged.column("kind"))
            self._write_pending(some(staged, kinds == Staged.PENDING), writer)
            history = some(staged, kinds != Staged.PENDING)
            # An offset that was current until a move shows nothing about the pause around a rebalance in the other
            # log partition.
            is_moved = as_bools(pc.equal(staged.column("ended_by"), GROUP_MOVED))
            is_pause = (kinds == Staged.CLOSED) & ~as_bools(staged.column("is_topic_over")) & ~is_moved
            self.pauses.add(some(staged, is_pause))
            if every_ms is None:
                self._write_history(history, writer, tombstones, opened)
            else:
                thinned.append(history)
        if every_ms is not None and thinned:
            for history in _thinned(pa.Table.from_batches(thinned, STAGED), every_ms):
                self._write_history(history, writer, tombstones, opened)
        self._keep_removed(writer, tombstones)
        self._stage_open(opened, writer)
        for name, batch in self.intervals.flush():
            writer.stage(name, batch)
        if self.context.sums is not None:
            self._write_sums(self.context.sums, writer)
        for name in (HISTORY, PENDING, REMOVED, EXPIRED):
            self.files.remove(name, is_open=None if self.share.is_rebuild else True)
        if self.context.as_of is not None:
            # Expiry depends on the time at which it is evaluated, so all removed offsets are evaluated again.
            self.files.remove(REMOVED)
            self.files.remove(EXPIRED)

    def _sources(self) -> Sources:
        if self.share.is_rebuild:
            return self._all_sources()
        new = self.files.new("offset_commits")
        return replace(
            self._all_sources(),
            commits=[file.path for file in new],
            commit_rows=sum(file.rows for file in new),
            markers=[file.path for file in self.files.new("control_records")],
            quarantine=[file.path for file in self.files.new("quarantine")],
            current=[file.uri for file in self.files.old(HISTORY, is_open=True)],
            waiting=[file.uri for file in self.files.old(PENDING, is_open=True)],
        )

    def _all_sources(self) -> Sources:
        """Return the files with all commits of the bucket, and with the other rows from which offsets are derived."""
        rows = sum(file.rows or 0 for file in self.files.old("offset_commits"))
        return Sources(
            commits=self.files.uris("offset_commits"),
            commit_rows=rows + sum(file.rows for file in self.files.new("offset_commits")),
            markers=self.files.uris("control_records"),
            quarantine=self.files.uris("quarantine"),
            ownership=self.files.uris("partition_ownership"),
            timeline=self.files.uris("group_timeline"),
            rules=self.files.uris("expiry_rules"),
        )

    def _write_pending(self, rows: pa.RecordBatch, writer: TableWriter) -> None:
        if not rows.num_rows:
            return
        rows = _with_merged(rows)
        is_open = as_bools(pc.is_null(rows.column("to_offset")))
        writer.add(PENDING, some(rows, ~is_open), is_open=False)
        writer.add(PENDING, some(rows, is_open), is_open=True)

    def _write_history(
        self,
        rows: pa.RecordBatch,
        writer: TableWriter,
        tombstones: pa.Table,
        opened: list[pa.RecordBatch],
    ) -> None:
        if not rows.num_rows:
            return
        rows = _with_merged(rows)
        kinds = numbers_of(rows.column("kind"))
        self._stage_interval_sums(rows, writer)
        closed = some(rows, kinds == Staged.CLOSED)
        if self.context.sums is not None:
            writer.stage(PAUSES, conform(pauses(closed, self.context.sums.pause_ms), PAUSE))
        writer.add(HISTORY, closed, is_open=False)
        current = some(rows, kinds == Staged.OPEN)
        if current.num_rows:
            writer.add(HISTORY, current, is_open=True)
            opened.append(_readable(current))
        removed = some(rows, kinds == Staged.REMOVED)
        if removed.num_rows:
            writer.stage(
                REMOVED_ROWS,
                conform(_with_group_tombstones(removed, tombstones, self.proofs, self.last_times), STAGED),
            )

    def _stage_interval_sums(self, rows: pa.RecordBatch, writer: TableWriter) -> None:
        """Add up rows of ``offset_history`` that begin with a record of this run, and write the sums to staged files.

        Args:
            rows: rows of ``offset_history``.
            writer: takes the sums.
        """
        if self.context.sums is None:
            return
        begun = rows if self.share.is_rebuild else some(rows, _at_least(rows, self.share.ends, "from_offset"))
        if begun.num_rows:
            for name, sums in self.intervals.add(begun):
                writer.stage(name, sums)

    def _group_tombstones(self) -> pa.Table:
        """Return the log offset of the last group tombstone for each group, log partition and time.

        A group that was deleted at two times has two rows.
        """
        names = ["group_id", "log_partition", "log_timestamp", "log_offset"]
        schema = table("expiry_rules").arrow_schema(names).remove_metadata()
        tombstones = rows_of(read_paths(self.files.uris("expiry_rules"), names, pc.field("is_group_tombstone")), schema)
        keys = names[:3]
        last = tombstones.group_by(keys, use_threads=False).aggregate([("log_offset", "max")])
        return last.rename_columns([*keys, "deleted_at"])

    def _keep_removed(self, writer: TableWriter, tombstones: pa.Table) -> None:
        """Stage the removed offsets of earlier runs again, if the cause of the removal may still change."""
        if self.share.is_rebuild:
            return
        files = self.files.old(REMOVED, is_open=None if self.context.as_of is not None else True)
        names = table(REMOVED).file_schema().names
        for batch in read_paths([file.uri for file in files], names):
            if batch.num_rows:
                kept = conform(batch, STAGED, kind=int(Staged.REMOVED))
                writer.stage(
                    REMOVED_ROWS,
                    conform(_with_group_tombstones(kept, tombstones, self.proofs, self.last_times), STAGED),
                )

    def _stage_open(self, opened: Sequence[pa.RecordBatch], writer: TableWriter) -> None:
        if self.context.end is not None:
            for rows in opened:
                writer.stage(SURVIVOR_ROWS, _survivors(rows, self.context.end))
        if self.context.as_of is None:
            for rows in opened:
                writer.stage(OPEN_ROWS, conform(rows, STAGED))
            return
        for rows in self._as_of(self.context.as_of):
            writer.stage(OPEN_ROWS, rows)

    def _as_of(self, moment: datetime) -> list[pa.RecordBatch]:
        """Return the offsets that were current at a time, with columns as if the log ended at this time.

        Args:
            moment: the time.
        """
        before = self._ends_at(moment)
        derivation = Derivation(
            self._all_sources(), before=before, proofs=self.proofs, lives=self.lives, moves=self.moves
        )
        staged = derivation.run()
        current = [_readable(some(rows, numbers_of(rows.column("kind")) == Staged.OPEN)) for rows in staged]
        return [rows for rows in current if rows.num_rows]

    def _ends_at(self, moment: datetime) -> dict[int, int]:
        """Return the log offset of the first record after a time, by log partition.

        The log offset is LARGEST_INT64 if the log partition has no record after this time.
        """
        ends: dict[int, int] = {}
        later = pc.field("log_timestamp") > pa.scalar(moment, TIMESTAMP)
        for name in ("offset_commits", "group_records", "control_records"):
            for where in (None, later):
                for batch in read_paths(self.files.uris(name), ["log_partition", "log_offset"], where):
                    partitions, offsets = (numbers_of(batch.column(name)) for name in ("log_partition", "log_offset"))
                    for partition in np.unique(partitions).tolist():
                        if where is None:
                            ends.setdefault(partition, LARGEST_INT64)
                        else:
                            ends[partition] = min(ends[partition], int(offsets[partitions == partition].min()))
        return ends

    def _write_sums(self, wanted: SumsRange, writer: TableWriter) -> None:
        """Add up commits by group and by minute, and stage the sums.

        Args:
            wanted: the times of the commits to add up.
            writer: takes the sums.
        """
        states = rows_of(
            read_paths(self.files.uris("group_evidence"), STATES.names, pc.field("tag") == int(Evidence.STATE)), STATES
        )
        for name, batch in commit_sums(self._commits_since(wanted.since), states, wanted):
            writer.stage(name, batch)

    def _commits_since(self, since: datetime | None) -> Batches:
        """Return the commits that this run has read, and also all commits at or after a time.

        Args:
            since: the time; None to return all commits.
        """
        where = None
        if since is not None:
            where = pc.field("log_timestamp") >= pa.scalar(since, TIMESTAMP)
            where |= ~pc.field("log_partition").isin(pa.array(sorted(self.share.ends), pa.int32()))
            for partition, end in self.share.ends.items():
                where |= (pc.field("log_partition") == partition) & (pc.field("log_offset") >= end)
        return iter(self.moves.counting(read_paths(self.files.uris("offset_commits"), COMMIT.names, where)))


def _readable(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows without commits whose value could not be decoded, because it is not known when they expire."""
    return some(rows, as_bools(rows.column("committed_offset").is_valid()))


def _with_merged(rows: pa.RecordBatch) -> pa.RecordBatch:
    place = rows.schema.get_field_index("commits_merged")
    return rows.set_column(place, "commits_merged", rows.column("commits_merged").fill_null(0))


def _at_least(rows: pa.RecordBatch, ends: Mapping[int, int], column: str) -> Bools:
    """Return, for each row, whether the value of a column reaches a limit.

    Args:
        rows: the rows.
        ends: the limit by log partition. True is returned for rows of a log partition without a limit.
        column: the name of the column.
    """
    partitions, places = (numbers_of(rows.column(name), -1) for name in ("log_partition", column))
    is_after = np.ones(rows.num_rows, np.bool_)
    for partition, end in ends.items():
        is_after &= (partitions != partition) | (places >= end)
    return is_after


def _with_group_tombstones(
    removed: pa.RecordBatch, tombstones: pa.Table, proofs: OffsetProofs, last_times: Mapping[int, int]
) -> pa.RecordBatch:
    """Return removed offsets with a column ``has_group_tombstone``.

    The value is true if a tombstone of the group follows the offset's tombstone with the same record time. The value is
    null if such a tombstone may exist but is not in the dump.

    Args:
        removed: removed offsets.
        tombstones: tombstones of groups, see ``_group_tombstones``.
        proofs: for each log partition, the log offsets from which no record is missing.
        last_times: the latest time of a record that was read, by log partition, in microseconds.
    """
    # Records with the same time belong to one operation of the coordinator. The group's tombstone may be missing
    # because the cleaner removed it, or because an export ends in the middle of the operation. A segment never ends
    # there.
    rows = pa.table(
        {
            "group_id": removed.column("group_id").cast(pa.string()),
            "log_partition": removed.column("log_partition"),
            "log_timestamp": removed.column("valid_to"),
            "at": removed.column("to_offset"),
            "row": pa.array(np.arange(removed.num_rows)),
        }
    )
    keys = ["group_id", "log_partition", "log_timestamp"]
    joined = rows.join(tombstones, keys, join_type="inner", use_threads=False)
    follows = joined.filter(pc.greater(joined.column("deleted_at"), joined.column("at"))).column("row")
    has = np.zeros(removed.num_rows, np.bool_)
    has[follows.to_numpy()] = True
    partitions, offsets = (numbers_of(removed.column(name), -1) for name in ("log_partition", "to_offset"))
    is_cut = _at_least(removed, last_times, "valid_to") & ~as_bools(removed.column("is_proven"))
    is_unknown = ~has & (proofs.are_unproven(partitions, offsets + 1) | is_cut)
    place = removed.schema.get_field_index("has_group_tombstone")
    return removed.set_column(place, "has_group_tombstone", pa.array(has, mask=is_unknown))


def _survivors(rows: pa.RecordBatch, end: datetime) -> pa.RecordBatch:
    """Return the age of the oldest offset that each group still has, with the columns of SURVIVORS.

    Offsets that can't expire by age are ignored.

    Args:
        rows: offsets that are current at the end of the log.
        end: the end of the log.
    """
    # The age of an offset counts from the latest of three times: its own time, the time of its record, and the time
    # since which its expiry rule applies.
    is_by_age = pc.and_(pc.is_in(rows.column("rule"), value_set=_BY_AGE), pc.is_null(rows.column("expire_timestamp")))
    rows = rows.filter(pc.and_(is_by_age, pc.invert(rows.column("is_protected"))).fill_null(False))
    times = ("base_timestamp", "rule_since", "valid_from")
    since = pc.max_element_wise(*(rows.column(name).cast(TIMESTAMP).cast(pa.int64()) for name in times))
    ages = np.floor_divide(microseconds(end) - numbers_of(since), 1000)
    columns = {"group_id": rows.column("group_id").cast(pa.string()), "at_risk_ms": pa.array(ages)}
    oldest = pa.table(columns).group_by("group_id", use_threads=False).aggregate([("at_risk_ms", "max")])
    batches = oldest.combine_chunks().to_batches()
    return pa.RecordBatch.from_arrays(batches[0].columns if batches else [[], []], schema=SURVIVORS)


_NAMES = ", ".join(f'"{name}"' for name in STAGED.names if name not in ("valid_to", "to_offset", "commits_merged"))

_THINNED = f"""
WITH in_order AS (
    SELECT *, row_number() OVER key AS place,
        coalesce(lag(ended_by) OVER key = 'COMMIT', false)
        AND NOT coalesce(committed_offset < previous_offset, false)
        AND NOT (replaced_offset IS NOT NULL AND previous_offset IS NULL)
        AND coalesce(ended_by = 'COMMIT', false)
        AND coalesce(epoch_ms(valid_from) // $every = epoch_ms(valid_to) // $every, false)
        AS is_left_out
    FROM history
    WINDOW key AS (PARTITION BY log_partition, group_id, topic, partition ORDER BY from_offset)
), kept AS (
    SELECT *, lead(valid_from) OVER key AS next_from, lead(from_offset) OVER key AS next_offset,
        coalesce(lag(place) OVER key, 0) AS place_before
    FROM in_order WHERE NOT is_left_out
    WINDOW key AS (PARTITION BY log_partition, group_id, topic, partition ORDER BY from_offset)
)
SELECT {_NAMES},
    CASE WHEN ended_by = 'COMMIT' THEN next_from ELSE valid_to END AS valid_to,
    CASE WHEN ended_by = 'COMMIT' THEN next_offset ELSE to_offset END AS to_offset,
    place - place_before - 1 AS commits_merged
FROM kept
"""  # noqa: S608 - names of our own


def _thinned(history: pa.Table, every_ms: int) -> Iterator[pa.RecordBatch]:
    """Yield the history with only the last commit of each time range, see ``--history-every``.

    Each kept row lasts until the next kept row begins, and its ``commits_merged`` counts the commits left out. Some
    commits are always kept: the first commit after a time without an offset, the last commit before a tombstone, and
    commits that set the offset back.

    Args:
        history: rows of the history, with the columns of STAGED.
        every_ms: the length of the time ranges. They begin at multiples of this length since 1970, UTC.
    """
    kept = select(_THINNED, {"every": every_ms}, history=history)
    return (batch for batch in rows_of(kept.to_batches(), STAGED).to_batches() if batch.num_rows)
