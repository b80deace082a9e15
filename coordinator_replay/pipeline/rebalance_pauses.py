"""Commit pauses around rebalances. They show how long consumers stopped, whatever their protocol.

For each partition, take the times between two commits that overlap the rebalance. The longest of these times is the
commit pause. Only partitions that the rebalance gave to a member count. If the rebalance gave no partition to a member,
all partitions count. If commits may be missing, the commit pause is a lower bound.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.analysis.broker_logs.words import BY_RECORDS, LOG_COLUMNS, by_records
from coordinator_replay.analysis.expiration import GROUP_KINDS
from coordinator_replay.analysis.ownership import RECORDS_MISSING
from coordinator_replay.arrow_times import TIMESTAMP
from coordinator_replay.columns import (
    Bools,
    Numbers,
    are_among,
    as_bools,
    distinct,
    ms_of,
    numbers_of,
    plain_rows,
    some,
)
from coordinator_replay.completeness.spans import ExactSpan
from coordinator_replay.pipeline.bucket_files import BucketFiles, TableWriter
from coordinator_replay.pipeline.by_group import extremes
from coordinator_replay.store.scan import read_paths, read_table, rows_of
from coordinator_replay.store.snapshot import TableFile
from coordinator_replay.store.writer import batch_of, conform
from coordinator_replay.tables.definition import table
from coordinator_replay.times import LATEST_MS, milliseconds, moment_of_ms

TABLE = "rebalances"

_RECORDS = ("group_records", "offset_commits")
"""The tables with the records of groups."""

REBALANCE_ROWS = "rebalance_rows"
"""Name of staged rows of ``rebalances`` without their pause."""

AWAITING_LOGS = {True: "open_rebalances", False: "final_rebalances"}
"""Names of staged rows of ``rebalances`` without the additions of brokers' logs, by whether they are open."""

WITHIN_MS = 3_600_000
"""A commit shows the pause of a rebalance only if it comes at most this long after the end of the rebalance."""

_SCHEMA = table(TABLE).file_schema().remove_metadata()
_NONE, _NOT_COMPUTED = -1, -2
_COMMIT = "COMMIT"
_INTERVAL = ("group_id", "topic", "partition", "valid_from", "valid_to", "ended_by", "is_exact", "is_proven")
"""The columns of ``offset_history`` that a pause is computed from."""


@dataclass(frozen=True, slots=True)
class EarlierPauses:
    """Commit pauses that earlier runs have computed, one for each rebalance in ``CommitPauses.rows``.

    Attributes:
        longest_ms: the commit pause in milliseconds; -1 if there was none, -2 if no earlier run has computed it.
        are_at_least: whether the commit pause may have been longer.
    """

    longest_ms: Numbers
    are_at_least: Bools


@dataclass(frozen=True, slots=True)
class _Taken:
    """Partitions that rebalances gave to members.

    Attributes:
        topics: names of the topics.
        keys: sorted numbers. Each number stands for a rebalance and a partition that it gave to a member, see
            ``numbers``.
        has_any: for each rebalance, whether the rebalance gave a partition to a member.
    """

    topics: pa.Array
    keys: Numbers
    has_any: Bools

    def numbers(self, rebalances: Numbers, topics: Numbers, partitions: Numbers) -> Numbers:
        """Return, for each row, a number that stands for its rebalance, topic and partition together.

        Rows with the same number have the same rebalance, topic and partition.

        Args:
            rebalances: row numbers of rebalances.
            topics: indexes into the attribute ``topics``.
            partitions: numbers of the partitions.
        """
        return (rebalances * (len(self.topics) + 1) + topics) * (1 << 20) + partitions


def as_recorded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows of ``rebalances`` without the facts that come from brokers' logs."""
    marks = [batch.column(name) for name in (*LOG_COLUMNS, BY_RECORDS) if name in batch.schema.names]
    if all(mark.null_count == batch.num_rows for mark in marks):
        return batch
    return batch_of([by_records(row) for row in plain_rows(batch)], _SCHEMA)


class CommitPauses:
    """Search for the commit pause around each rebalance of a bucket.

    Args:
        rebalances: rows of ``rebalances``.
        ownership: rows of ``partition_ownership`` of the groups in ``rebalances``: group_id, topic, partition,
            owned_from.
        spans: the time ranges in which no record is missing, for each log partition that lacks some records.
        earlier: pauses that earlier runs have computed; None if earlier runs have computed none.
    """

    def __init__(
        self,
        rebalances: pa.Table,
        ownership: Iterator[pa.RecordBatch],
        spans: Iterable[ExactSpan] = (),
        earlier: EarlierPauses | None = None,
    ) -> None:
        self.rows = rebalances
        count = rebalances.num_rows
        nothing = EarlierPauses(np.full(count, _NONE, np.int64), np.zeros(count, np.bool_))
        self.earlier = nothing if earlier is None else earlier
        self.groups = pc.unique(rebalances.column("group_id").combine_chunks())
        started, completed = (ms_of(rebalances.column(name)) for name in ("started_at", "completed_at"))
        # The join phase of a classic rebalance leaves no record, so its end is taken as the beginning.
        started = np.where(started < 0, completed, started)
        codes = numbers_of(pc.index_in(rebalances.column("group_id").combine_chunks(), self.groups))
        [timed] = np.nonzero((started >= 0) & (completed >= 0))
        order = timed[np.lexsort([completed[timed], started[timed], codes[timed]])]
        self.order = order
        self.codes, self.started, self.completed = codes[order], started[order], completed[order]
        self.width = int(max(self.completed.max(initial=0), self.started.max(initial=0))) + 2
        self.starts = self.codes * self.width + self.started
        # Ends rise within a group, except in odd logs; a running maximum finds all rebalances that may overlap.
        self.ends = np.maximum.accumulate(self.codes * self.width + self.completed) if len(order) else self.starts
        self.longest = {name: np.full(len(order), _NONE, np.int64) for name in ("taken", "any")}
        self.is_cut = {name: np.zeros(len(order), np.bool_) for name in self.longest}
        self.is_outside = self._are_outside([*spans])
        self.taken = self._taken(ownership)

    def _are_outside(self, spans: Sequence[ExactSpan]) -> Bools:
        """Return, for each rebalance, whether offset commits around the rebalance may be missing.

        Args:
            spans: the time ranges in which no record is missing, for each log partition that lacks some records.
        """
        partitions = numbers_of(self.rows.column("log_partition").combine_chunks(), -1)[self.order]
        is_outside = np.isin(partitions, [span.log_partition for span in spans])
        for span in spans:
            is_own = partitions == span.log_partition
            is_outside &= ~(is_own & (self.started > span.after_ms) & (self.completed <= span.to_ms))
        return is_outside

    def _overlapping(self, groups: pa.Array, begins: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
        """Return all pairs of a row and a rebalance of the same group whose times overlap.

        The times also overlap if the row begins when the rebalance ends, or ends when the rebalance begins.

        Args:
            groups: the group of each row.
            begins: the beginning of each row, in milliseconds.
            ends: the end of each row, in milliseconds.

        Returns:
            The row of each pair, and the rebalance of each pair, as indices.
        """
        codes = numbers_of(pc.index_in(groups, self.groups).fill_null(-1))
        [relevant] = np.nonzero((codes >= 0) & (begins >= 0) & (ends >= 0))
        low = np.searchsorted(
            self.ends, codes[relevant] * self.width + np.minimum(begins[relevant], self.width - 1), side="left"
        )
        high = np.searchsorted(
            self.starts, codes[relevant] * self.width + np.minimum(ends[relevant], self.width - 1), side="right"
        )
        counts = np.maximum(high - low, 0)
        rows = np.repeat(relevant, counts)
        firsts = np.repeat(low, counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        rebalances = firsts + within
        fits = (
            (self.codes[rebalances] == codes[rows])
            & (self.started[rebalances] <= ends[rows])
            & (self.completed[rebalances] >= begins[rows])
        )
        return rows[fits], rebalances[fits]

    def _taken(self, ownership: Iterator[pa.RecordBatch]) -> _Taken:
        """Return partitions that a member began to own during a rebalance."""
        taken_rows: list[tuple[Numbers, pa.Array, Numbers]] = []
        for batch in ownership:
            at = ms_of(batch.column("owned_from"))
            rows, rebalances = self._overlapping(batch.column("group_id"), at, at)
            if len(rows):
                taken = batch.take(pa.array(rows))
                taken_rows.append((rebalances, taken.column("topic"), numbers_of(taken.column("partition"), 0)))
        has_any = np.zeros(len(self.order), np.bool_)
        if not taken_rows:
            return _Taken(pa.array([], pa.string()), np.zeros(0, np.int64), has_any)
        rebalances = np.concatenate([row[0] for row in taken_rows])
        names = pa.concat_arrays([row[1].cast(pa.string()) for row in taken_rows])
        has_any[rebalances] = True
        topics = pc.unique(names.drop_null())
        taken = _Taken(topics, np.zeros(0, np.int64), has_any)
        codes = numbers_of(pc.index_in(names, topics), len(topics))
        keys = taken.numbers(rebalances, codes, np.concatenate([row[2] for row in taken_rows]))
        return _Taken(topics, distinct(keys), has_any)

    def add(self, history: pa.RecordBatch) -> None:
        """Update the commit pause of each rebalance from rows of ``offset_history``.

        A row lasts from one commit to the next. A row counts for a rebalance if their times overlap, and the row ends
        at most ``WITHIN_MS`` after the rebalance.

        Args:
            history: rows of ``offset_history`` that ended with a commit or because records are missing.
        """
        if not len(self.order) or not history.num_rows:
            return
        begins, ends = (ms_of(history.column(name)) for name in ("valid_from", "valid_to"))
        rows, rebalances = self._overlapping(history.column("group_id"), begins, ends)
        is_near = ends[rows] <= self.completed[rebalances] + WITHIN_MS
        rows, rebalances = rows[is_near], rebalances[is_near]
        if not len(rows):
            return
        # A row that is not exact shows no pause.
        lengths = np.where(as_bools(history.column("is_exact")), ends - begins, _NONE)[rows]
        is_cut = ~_are_whole(history)[rows]
        np.maximum.at(self.longest["any"], rebalances, lengths)
        self.is_cut["any"][rebalances[is_cut]] = True
        intervals = history.take(pa.array(rows))
        topics = numbers_of(pc.index_in(intervals.column("topic"), self.taken.topics), len(self.taken.topics))
        keys = self.taken.numbers(rebalances, topics, numbers_of(intervals.column("partition"), 0))
        is_taken = np.isin(keys, self.taken.keys)
        np.maximum.at(self.longest["taken"], rebalances[is_taken], lengths[is_taken])
        self.is_cut["taken"][rebalances[is_taken & is_cut]] = True

    def pauses(self) -> tuple[pa.Array, pa.Array]:
        """Return the commit pause of each rebalance in ``rows``, and whether this pause is a lower bound.

        The pause is in milliseconds; null if it is unknown.
        """
        longest = np.where(self.taken.has_any, self.longest["taken"], self.longest["any"])
        every = self.earlier.longest_ms.copy()
        every[self.order] = np.maximum(longest, every[self.order])
        # If the end of a rebalance is not known, its pause is not known either.
        is_open = as_bools(self.rows.column("is_end_open"))
        every[is_open] = _NONE
        is_cut = np.where(self.taken.has_any, self.is_cut["taken"], self.is_cut["any"])
        is_timed = np.zeros(len(every), np.bool_)
        is_timed[self.order] = True
        are_at_least = is_open | self.earlier.are_at_least | (~is_timed & ~as_bools(self.rows.column("is_exact")))
        are_at_least[self.order] |= is_cut | self.is_outside
        return pa.array(every, pa.int64(), mask=every < 0), pa.array(are_at_least)


def _are_whole(history: pa.RecordBatch) -> Bools:
    """Return, for each row of ``offset_history``, whether it lasted from one commit to the very next commit.

    False if commits between the two may be missing or left out.
    """
    is_ended = are_among(history.column("ended_by"), pa.array([_COMMIT]))
    return is_ended & as_bools(history.column("is_exact")) & as_bools(history.column("is_proven"))


class PauseStep:
    """The step that writes the rebalances of a bucket, each with its commit pause.

    A rebalance is written as a closed row if two conditions are true. Otherwise it is written as an open row.

    - The rebalance is over.
    - The group was deleted, or has a record so long after the rebalance that no later commit can change the pause.

    Args:
        files: the bucket's files, including the files with new records and new rebalances.
        reached_ms: the latest time of a record that earlier runs have read, over all log partitions of the bucket.
        spans: the time ranges in which no record is missing, for each log partition that lacks some records.
    """

    # A later commit changes a closed row only in two cases: the time of a record was ahead of the times of the records
    # after it, or a deleted group was created again within an hour.

    def __init__(self, files: BucketFiles, reached_ms: int, spans: Sequence[ExactSpan] = ()) -> None:
        self.files = files
        self.reached_ms = reached_ms
        new = pa.Table.from_batches(self._new(), _SCHEMA)
        self.new_count = self.open_count = new.num_rows
        if files.is_rebuild or not (files.old(TABLE) or files.old("offset_history")):
            whole = new.combine_chunks()
            self.pauses = CommitPauses(whole, self._ownership(whole), spans)
            return
        begins_ms = self._begins_ms()
        closed = self._closed_too_early(begins_ms)
        files.removed += closed
        still_open = pa.Table.from_batches(self._over(files.old(TABLE, is_open=True)), _SCHEMA)
        self.open_count += still_open.num_rows
        of_closed = pa.Table.from_batches(self._over(closed), _SCHEMA)
        whole = pa.concat_tables([new, still_open, of_closed]).combine_chunks()
        earlier = self._earlier(whole, [*files.old(TABLE, is_open=True), *closed], begins_ms)
        self.pauses = CommitPauses(whole, self._ownership(whole), spans, earlier)
        for batch in self._intervals_before(whole.filter(pa.array(earlier.longest_ms == _NOT_COMPUTED)), reached_ms):
            self.pauses.add(batch)

    def _begins_ms(self) -> int:
        """Return the earliest time of a new record, in milliseconds; LATEST_MS if no new record has a time."""
        uris = [file.path for name in _RECORDS for file in self.files.new(name)]
        first = [pc.min(batch.column("log_timestamp")).as_py() for batch in read_paths(uris, ["log_timestamp"])]
        return min((milliseconds(time) for time in first if time is not None), default=LATEST_MS)

    def _closed_too_early(self, begins_ms: int) -> list[TableFile]:
        """Return files with closed rows of ``rebalances`` whose commit pause new commits may change.

        A new commit may change the pause if its time is at most ``WITHIN_MS`` after the end of the rebalance.

        Args:
            begins_ms: the earliest time of a new record.
        """
        since = moment_of_ms(max(0, begins_ms - WITHIN_MS))
        is_near = pc.field("completed_at") >= pa.scalar(since, TIMESTAMP)
        near = [
            (file, batch)
            for file in self.files.old(TABLE, is_open=False)
            if file.highest.get("completed_at", since) >= since
            for batch in read_paths([file.uri], ["group_id", "completed_at"], is_near)
            if batch.num_rows
        ]
        commits = [file.path for file in self.files.new("offset_commits")]
        first = extremes(commits, "log_timestamp", "min", pc.field("log_timestamp").is_valid()) if near else {}
        files = {
            file.uri: file
            for file, batch in near
            for group, completed in zip(
                batch.column("group_id").to_pylist(), ms_of(batch.column("completed_at")), strict=True
            )
            if group in first and first[group] <= completed + WITHIN_MS
        }
        return list(files.values())

    @staticmethod
    def _earlier(rebalances: pa.Table, files: Iterable[TableFile], begins_ms: int) -> EarlierPauses:
        """Return, for each rebalance, the commit pause that an earlier run computed.

        The pause is ``_NOT_COMPUTED`` if new records may change it.

        Args:
            rebalances: the rebalances of this run.
            files: files of the table ``rebalances`` from earlier runs.
            begins_ms: the earliest time of a new record.
        """
        names = ["rebalance_id", "started_at", "completed_at", "commit_pause_ms", "is_pause_at_least"]
        schema = pa.schema([_SCHEMA.field(name) for name in names])
        old = rows_of(read_table(files, names), schema)
        places = pc.index_in(rebalances.column("rebalance_id"), old.column("rebalance_id").combine_chunks())
        then = old.take(places)
        is_same = as_bools(places.is_valid()) & (ms_of(rebalances.column("completed_at")) < begins_ms)
        started, completed = ms_of(rebalances.column("started_at")), ms_of(rebalances.column("completed_at"))
        # If no record shows the beginning, the row of the table may have the beginning from a broker's log.
        is_same &= (ms_of(then.column("started_at")) == started) | (started < 0)
        is_same &= ms_of(then.column("completed_at")) == completed
        earlier_ms = numbers_of(then.column("commit_pause_ms").combine_chunks(), _NONE)
        are_at_least = as_bools(then.column("is_pause_at_least").combine_chunks())
        return EarlierPauses(np.where(is_same, earlier_ms, _NOT_COMPUTED), is_same & are_at_least)

    def _intervals_before(self, rebalances: pa.Table, reached_ms: int) -> Iterator[pa.RecordBatch]:
        """Return the rows of ``offset_history`` from earlier runs whose times may overlap a rebalance of this run.

        Rows that stand for several commits (``--history-every``) are left out.

        Args:
            rebalances: the rebalances of this run.
            reached_ms: the latest time of a record that earlier runs have read.
        """
        started = ms_of(pc.coalesce(rebalances.column("started_at"), rebalances.column("completed_at")))
        early = rebalances.filter(pa.array((started >= 0) & (started <= reached_ms)))
        if not early.num_rows:
            return iter(())
        first = pc.min(pc.coalesce(early.column("started_at"), early.column("completed_at")))
        wanted = (
            pc.field("group_id").isin(pc.unique(early.column("group_id").combine_chunks()))
            & (pc.field("valid_to") >= first)
            & pc.field("ended_by").isin([_COMMIT, RECORDS_MISSING])
            & (pc.field("commits_merged") == 0)
        )
        uris = [file.uri for file in self.files.old("offset_history", is_open=False)]
        return read_paths(uris, [*_INTERVAL], wanted)

    def _new(self) -> Iterator[pa.RecordBatch]:
        uris = [file.path for file in self.files.staged.get(REBALANCE_ROWS, [])]
        return (conform(batch, _SCHEMA) for batch in read_paths(uris, _SCHEMA.names))

    @staticmethod
    def _over(files: Iterable[TableFile]) -> Iterator[pa.RecordBatch]:
        """Yield the rebalances of earlier runs that are no longer in progress."""
        is_over = pc.field("settled_at_offset").is_valid()
        return (as_recorded(conform(batch, _SCHEMA)) for batch in read_table(files, _SCHEMA.names, is_over))

    def _ownership(self, rebalances: pa.Table) -> Iterator[pa.RecordBatch]:
        first = pc.min(pc.coalesce(rebalances.column("started_at"), rebalances.column("completed_at"))).as_py()
        if first is None:
            return iter(())
        since = pc.field("owned_from") >= pa.scalar(first, TIMESTAMP)
        names = ["group_id", "topic", "partition", "owned_from"]
        return read_paths(self.files.uris("partition_ownership"), names, since)

    def _are_final(self) -> Bools:
        """Return, for each rebalance, whether no later commit can change its commit pause.

        The commit pause is final if the rebalance is over and one of these is true: the group was deleted later, or has
        a record more than ``WITHIN_MS`` after the end of the rebalance.
        """
        rows = self.pauses.rows
        groups: list[Any] = rows.column("group_id").to_pylist()
        until = ms_of(rows.column("completed_at")) + WITHIN_MS
        are_over = as_bools(rows.column("settled_at_offset").is_valid())

        def have_later(uris: list[str], where: pc.Expression) -> Bools:
            last = extremes(uris, "log_timestamp", "max", where)
            return until < np.array([last.get(group, 0) for group in groups], np.int64)

        deleted = self._deleted()
        deleted_at = np.array([deleted.get(group, -1) for group in groups], np.int64)
        are_final = deleted_at >= numbers_of(rows.column("settled_at_offset").combine_chunks())
        are_final |= have_later(self._uris(*_RECORDS), pc.field("log_timestamp").is_valid())
        are_final &= are_over
        # Rows of closed files that are written again stay closed.
        places = np.arange(len(groups))
        are_final |= places >= self.open_count
        # The record that makes a row of this run final may be one that an earlier run has read.
        unsure = are_over & ~are_final & (places < self.new_count) & (until < self.reached_ms)
        if unsure.any() and not self.files.is_rebuild:
            since = pc.field("log_timestamp") > pa.scalar(moment_of_ms(int(until[unsure].min())), TIMESTAMP)
            of_groups = pc.field("group_id").isin(pc.unique(rows.column("group_id").filter(pa.array(unsure))))
            every = [uri for name in _RECORDS for uri in self.files.uris(name)]
            are_final |= unsure & have_later(every, since & of_groups)
        return are_final

    def _uris(self, *tables: str) -> list[str]:
        """Return the files of some tables: all files if the run rebuilds the bucket, otherwise only the new files.

        Args:
            tables: names of tables.
        """
        if self.files.is_rebuild:
            return [uri for name in tables for uri in self.files.uris(name)]
        return [file.path for name in tables for file in self.files.new(name)]

    def _deleted(self) -> dict[str, int]:
        """Return the log offset of the last tombstone of each group that has one."""
        are_tombstones = pc.field("is_tombstone") & pc.field("kind").isin(list(GROUP_KINDS))
        return extremes(self._uris("group_records"), "log_offset", "max", are_tombstones)

    def write(self, writer: TableWriter, *, awaits_logs: bool) -> None:
        """Write the rebalances with their pauses.

        Args:
            writer: takes the rows.
            awaits_logs: whether a later stage adds lines of brokers' logs to the rebalances. If so, write the rows to
                staged files. If not, write them to the table.
        """
        rows = self.pauses.rows
        if not rows.num_rows:
            return
        are_final = self._are_final()
        whole = rows
        for name, values in zip(("commit_pause_ms", "is_pause_at_least"), self.pauses.pauses(), strict=True):
            whole = whole.set_column(_SCHEMA.get_field_index(name), name, values)
        [batch] = whole.combine_chunks().to_batches()
        for is_open, chosen in ((False, are_final), (True, ~are_final)):
            if awaits_logs:
                writer.stage(AWAITING_LOGS[is_open], some(batch, chosen))
            else:
                writer.add(TABLE, some(batch, chosen), is_open=is_open)
