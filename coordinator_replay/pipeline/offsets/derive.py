"""Derivation of the time ranges in which each offset was current, from commits, transaction markers and tombstones.

The log of a bucket is processed in chunks, in the order of log offsets. Each chunk continues from the current offsets
and pending commits at the end of the chunk before it. The first chunk continues from the open rows of the last run. So
memory must hold only a chunk, and the offsets that are current at one time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from coordinator_replay.columns import are_among, as_bools, numbers_of, some
from coordinator_replay.completeness.offsets import NOTHING_MISSING, OffsetProofs
from coordinator_replay.int64 import LARGEST_INT64
from coordinator_replay.pipeline.group_moves import NO_MOVES, GroupMoves
from coordinator_replay.pipeline.interval_rows import Staged
from coordinator_replay.pipeline.offsets import events
from coordinator_replay.pipeline.offsets.interval_pass import find_offset_intervals
from coordinator_replay.pipeline.offsets.intervals import OffsetEvent
from coordinator_replay.pipeline.topic_lives import NO_LIVES, TopicLives
from coordinator_replay.store.scan import Batches, read_paths

CHUNK_ROWS = 1_500_000
"""Number of commits in a chunk."""

_TEXTS = ("group_id", "topic")
_NO_EVENTS: pa.Table = events.UNSORTED.empty_table()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Files from which the offsets of a bucket are derived, as paths or URIs.

    Attributes:
        commits: rows of ``offset_commits`` that no earlier run has processed.
        commit_rows: number of these rows.
        markers: rows of ``control_records`` that no earlier run has processed.
        quarantine: rows of ``quarantine`` that no earlier run has processed.
        current: open rows of ``offset_history``: offsets that were current at the first of these commits.
        waiting: open rows of ``pending_offsets``: commits that waited for a marker at the first of these commits.
        ownership: all rows of ``partition_ownership``.
        timeline: all rows of ``group_timeline``.
        rules: all rows of ``expiry_rules``.
    """

    commits: Sequence[str]
    commit_rows: int
    markers: Sequence[str]
    quarantine: Sequence[str] = ()
    current: Sequence[str] = ()
    waiting: Sequence[str] = ()
    ownership: Sequence[str] = ()
    timeline: Sequence[str] = ()
    rules: Sequence[str] = ()


class Chunk(NamedTuple):
    """A part of a bucket's log that is processed at one time.

    Attributes:
        ranges: the ranges of log offsets in the chunk, as tuples of log partition, first log offset, end (not
            included).
        but: None if the chunk has only ``ranges``. If it is a list, the chunk also has all records of each log
            partition that is not in the list.
    """

    ranges: Sequence[tuple[int, int, int]]
    but: Sequence[int] | None = None

    def has(self, log_partition: int, offset: int) -> bool:
        """Return whether a log offset lies in the chunk."""
        if any(partition == log_partition and start <= offset < end for partition, start, end in self.ranges):
            return True
        return self.but is not None and log_partition not in self.but

    def where(self) -> ds.Expression:
        """Return a filter for records in the chunk."""
        condition = None if self.but is None else ~pc.field("log_partition").isin(list(self.but))
        for partition, start, end in self.ranges:
            gap = (
                (pc.field("log_partition") == partition)
                & (pc.field("log_offset") >= start)
                & (pc.field("log_offset") < end)
            )
            condition = gap if condition is None else condition | gap
        assert condition is not None  # noqa: S101 - a chunk has ranges
        return condition


def chunks(sources: Sources, most: int = CHUNK_ROWS) -> list[Chunk | None]:
    """Return the log of a bucket in chunks of a limited number of commits.

    If one chunk is enough, return a list with None, which stands for the whole log.

    Args:
        sources: the files from which the offsets of the bucket are derived.
        most: largest number of commits in a chunk.
    """
    if sources.commit_rows <= most:
        return [None]
    places = [
        (numbers_of(batch.column("log_partition")), numbers_of(batch.column("log_offset")))
        for batch in read_paths(sources.commits, ["log_partition", "log_offset"])
    ]
    partitions, offsets = (np.concatenate(columns) for columns in zip(*places, strict=True))
    order = np.lexsort([offsets, partitions])
    partitions, offsets = partitions[order], offsets[order]
    parts: list[Chunk | None] = []
    starts = {int(partition): 0 for partition in np.unique(partitions)}
    for at in range(0, len(order), most):
        end = min(at + most, len(order))
        ranges = []
        for partition in np.unique(partitions[at:end]).tolist():
            is_over = end == len(order) or partitions[end] != partition
            until = LARGEST_INT64 if is_over else int(offsets[end])
            ranges.append((partition, starts[partition], until))
            starts[partition] = until
        # A log partition without commits may still have markers of waiting commits.
        parts.append(Chunk(ranges, sorted(starts) if end == len(order) else None))
    return parts


def _context(sources: Sources) -> list[pa.RecordBatch]:
    """Return an event for each state of a group, each expiry rule and each owner of a partition.

    ``find_offset_intervals`` looks up the state, rule and owner at each commit in these events.
    """
    kinds = (
        (sources.ownership, events.OWNER, _TEXTS, events.owners),
        (sources.timeline, events.STATE, _TEXTS[:1], events.states),
        (sources.rules, events.RULE, _TEXTS[:1], events.rules),
    )
    return [
        shape(batch) for uris, columns, texts, shape in kinds for batch in read_paths(uris, columns, dictionaries=texts)
    ]


def _groups(batches: Sequence[pa.RecordBatch]) -> pa.Array:
    names: set[str] = set()
    for batch in batches:
        column = batch.column("group_id")
        names.update(column.dictionary.take(column.indices.unique().drop_null()).to_pylist())
    return pa.array(sorted(names), pa.string())


@dataclass(slots=True)
class Derivation:
    """Derivation of the time ranges in which the offsets of a bucket were current.

    Attributes:
        sources: the files from which the time ranges are derived.
        before: the log offset before which to stop, by log partition. Other log partitions are left out. None to take
            all records of all log partitions.
        proofs: for log partitions with missing records, the log offsets from which offsets are proven.
        lives: ids of topics, for commits without an id.
        moves: moves of groups to other log partitions.
        current: offsets that are current at the beginning of the next chunk.
        waiting: commits that wait for a marker at the beginning of the next chunk.
        context: states of groups, expiry rules and owners of partitions, as events.
    """

    sources: Sources
    before: Mapping[int, int] | None = None
    proofs: OffsetProofs = NOTHING_MISSING
    lives: TopicLives = NO_LIVES
    moves: GroupMoves = NO_MOVES
    current: list[pa.RecordBatch] = field(init=False)
    waiting: list[pa.RecordBatch] = field(init=False)
    context: list[pa.RecordBatch] = field(init=False)

    def __post_init__(self) -> None:
        """Read the offsets and pending commits that are open before the first commit."""
        is_open = pc.field("to_offset").is_null()
        opened = read_paths(self.sources.current, events.OPEN_HISTORY, is_open, _TEXTS)
        self.current = list(map(events.open_offsets, opened))
        self.waiting = list(map(events.waiting_commits, read_paths(self.sources.waiting, events.WAITING, None, _TEXTS)))
        self.context = _context(self.sources)

    def run(self) -> Batches:
        """Yield the time ranges in which offsets were current, and the pending commits, with the columns of STAGED.

        Offsets that are still current and commits that still wait for a marker come at the end.
        """
        if self.before is not None:
            for partition, end in sorted(self.before.items()):
                yield from self._follow(Chunk([(partition, 0, end)]), is_last=True, before=end)
            return
        every = chunks(self.sources)
        for number, chunk in enumerate(every, 1):
            yield from self._follow(chunk, is_last=number == len(every))

    def _follow(self, chunk: Chunk | None, *, is_last: bool, before: int | None = None) -> Batches:
        rows = self._events(chunk, before)
        self.current, self.waiting = [], []
        for found in find_offset_intervals(events.in_order(rows), self.proofs):
            staged = self._with_open(found)
            if is_last:
                yield staged
                continue
            kinds = numbers_of(staged.column("kind"))
            is_open = (kinds == Staged.OPEN) | (
                (kinds == Staged.PENDING) & as_bools(pc.is_null(staged.column("to_offset")))
            )
            self._carry(some(staged, is_open & (kinds == Staged.OPEN)), some(staged, is_open & (kinds != Staged.OPEN)))
            if not is_open.all():
                yield some(staged, ~is_open)

    def _carry(self, current: pa.RecordBatch, waiting: pa.RecordBatch) -> None:
        if current.num_rows:
            self.current.append(events.open_offsets(current.select(list(events.OPEN_HISTORY))))
        if waiting.num_rows:
            self.waiting.append(events.waiting_commits(waiting.select(list(events.WAITING))))

    def _events(self, chunk: Chunk | None, before: int | None) -> list[pa.RecordBatch]:
        where = None if chunk is None else chunk.where()
        rows = [*self.current, *self.waiting]
        for commits in read_paths(self.sources.commits, events.COMMIT, where, _TEXTS):
            if commits.num_rows:
                rows.extend(events.split_commits(commits))
        for records in read_paths(self.sources.quarantine, events.QUARANTINED, where):
            rows.extend(events.split_commits(events.unreadable_commits(records)))
        rows = [self.lives.with_ids(batch) for batch in rows]
        if self.proofs.ranges:
            rows = [self.proofs.with_losses(batch) for batch in rows]
        opened = [batch for batch in rows if batch.num_rows and _waits(batch)]
        if opened:
            markers = [*read_paths(self.sources.markers, events.MARKER, where)]
            if markers:
                rows.extend(events.ended_commits(_table(opened), pa.Table.from_batches(markers)))
            rows.extend(self._without_marker(_table(opened)))
        if self.moves.ends:
            rows = [self._before_moves(batch) for batch in rows]
            rows.extend(self._moved(rows, chunk))
        rows.extend(self._lost(rows, chunk))
        groups = _groups(rows)
        return [*rows, *self._context_of(groups, before)] if len(groups) else []

    def _before_moves(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the events without events that come after the move of their group to another log partition.

        If ``lost_at`` of an event is null or above the log offset of the move, set it to the log offset of the move.
        """
        rows = some(batch, ~self.moves.are_over(batch, "at_offset", "log_offset"))
        ends = self.moves.ends_of(rows)
        place = rows.schema.get_field_index("lost_at")
        lost_at = np.minimum(numbers_of(rows.column(place), LARGEST_INT64), ends)
        return rows.set_column(
            place, rows.schema.field(place), pa.array(lost_at, pa.int64(), mask=lost_at == LARGEST_INT64)
        )

    def _moved(self, rows: Sequence[pa.RecordBatch], chunk: Chunk | None) -> list[pa.RecordBatch]:
        """Return events that end current offsets, because their group moved to another log partition.

        Args:
            rows: the events of the chunk.
            chunk: the part of the log in which the move must lie; None for any move.
        """
        return [
            events.lost_keys(
                rows,
                end.log_partition,
                end.end_offset,
                None if end.moved_at is None else end.moved_at * 1000,
                ended_by=events.GROUP_MOVED,
                group_id=end.group_id,
            )
            for end in self.moves.ends.values()
            if rows and (chunk is None or chunk.has(end.log_partition, end.end_offset))
        ]

    def _with_open(self, staged: pa.RecordBatch) -> pa.RecordBatch:
        """Return staged rows, with ``is_exact`` set to false for rows that begin while their group still moves.

        A group moves to another log partition. During the move, both log partitions may get its records.
        """
        is_open = self.moves.are_open(staged, "from_offset") if self.moves.begins else None
        if is_open is None or not is_open.any():
            return staged
        place = staged.schema.get_field_index("is_exact")
        is_exact = pc.and_(staged.column(place), pa.array(~is_open))
        return staged.set_column(place, staged.schema.field(place), is_exact)

    def _context_of(self, groups: pa.Array, before: int | None) -> Iterator[pa.RecordBatch]:
        """Yield events about the states, expiry rules and owners of some groups.

        Args:
            groups: names of the groups.
            before: a log offset. Events at this log offset or a higher one are left out. None for all events.
        """
        for batch in self.context:
            is_wanted = are_among(batch.column("group_id"), groups)
            if before is not None:
                is_wanted &= numbers_of(batch.column("at_offset")) < before
            if is_wanted.any():
                yield some(batch, is_wanted)

    def _without_marker(self, waiting: pa.Table) -> list[pa.RecordBatch]:
        """Return events of kind COMMITTED for transactional commits that were committed, though their marker is gone.

        The cleaner removes aborted commits. So a commit that the cleaner has kept was committed.

        Args:
            waiting: the commits that wait for a marker, as events.
        """
        partitions = waiting.column("log_partition").to_pylist() if self.proofs.times else []
        if not self.proofs.ranges.keys() & set(partitions):
            return []
        last: dict[tuple[int, int], int] = {}
        among = pc.field("log_partition").isin(sorted(self.proofs.ranges))
        for batch in read_paths(self.sources.markers, events.MARKER, among):
            places = (batch.column(name).to_pylist() for name in ("log_partition", "producer_id", "log_offset"))
            for partition, producer, offset in zip(*places, strict=True):
                last[partition, producer] = max(offset, last.get((partition, producer), -1))
        offsets: list[int | None] = []
        columns = (waiting.column(name).to_pylist() for name in ("producer_id", "log_offset"))
        for partition, producer, offset in zip(partitions, *columns, strict=True):
            has_marker = last.get((partition, producer), -1) > offset
            offsets.append(None if has_marker else self.proofs.committed_at(partition, offset))
        times = [
            None if offset is None else self.proofs.times.get((partition, offset))
            for partition, offset in zip(partitions, offsets, strict=True)
        ]
        return list(events.committed_without_marker(waiting, offsets, times).to_batches())

    def _lost(self, rows: Sequence[pa.RecordBatch], chunk: Chunk | None) -> list[pa.RecordBatch]:
        """Return events of kind LOST: from these events on, the current offset of a key is not known.

        There is an event for each key and each log offset of the chunk at which records begin to be missing.

        Args:
            rows: the events of the chunk.
            chunk: the part of the log; None for all of it.
        """
        if not self.proofs.times or not rows:
            return []
        return [
            events.lost_keys(rows, partition, gap.begins_at, self.proofs.times[partition, gap.begins_at])
            for partition, gap in self.proofs.breaks()
            if chunk is None or chunk.has(partition, gap.begins_at)
        ]


def _waits(batch: pa.RecordBatch) -> bool:
    """Return whether a batch has commits that wait for a marker. Such a batch has no other rows."""
    kind = batch.column("kind")[0].as_py()
    return kind in (int(OffsetEvent.OPENED), int(OffsetEvent.WAITING))


def _table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches, events.UNSORTED).unify_dictionaries() if batches else _NO_EVENTS
