"""Commits, markers and tombstones of a bucket to the intervals in which each offset held.

Commits are followed in log order, so many at a time: each stretch goes on from the offsets that held and the commits
that waited where the one before it ended, just as a run goes on from the open rows that the last run left. So a bucket
of any size takes no more memory than a stretch and what holds at one moment.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from coordinator_replay.pipeline.columns import are_among, as_bools, numbers_of
from coordinator_replay.pipeline.offsets import events
from coordinator_replay.pipeline.offsets.interval_pass import find_offset_intervals
from coordinator_replay.pipeline.offsets.interval_rows import Staged
from coordinator_replay.pipeline.offsets.intervals import Event
from coordinator_replay.pipeline.offsets.proofs import NOTHING_MISSING, OffsetProofs
from coordinator_replay.store.scan import Batches, read_paths
from coordinator_replay.store.writer import some

STRETCH_ROWS = 1_500_000
"""How many commits are followed at a time."""

_TEXTS = ("group_id", "topic")
_NO_EVENTS: pa.Table = events.UNSORTED.empty_table()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Files that tell about the offsets of a bucket, as paths or URIs.

    Attributes:
        commits: rows of ``offset_commits``: those that no earlier run has followed.
        commit_rows: how many these are.
        markers: rows of ``control_records`` likewise.
        held: open rows of ``offset_history``: what held where the commits begin.
        waiting: open rows of ``pending_offsets``: what waited for a marker there.
        ownership: all rows of ``partition_ownership``.
        timeline: all rows of ``group_timeline``.
        rules: all rows of ``expiry_rules``.
    """

    commits: Sequence[str]
    commit_rows: int
    markers: Sequence[str]
    held: Sequence[str] = ()
    waiting: Sequence[str] = ()
    ownership: Sequence[str] = ()
    timeline: Sequence[str] = ()
    rules: Sequence[str] = ()


class Stretch(NamedTuple):
    """A stretch of log partitions.

    Attributes:
        ranges: log partition, first offset, end (not included).
        but: the stretch also holds all of any other log partition than these; None for no such.
    """

    ranges: Sequence[tuple[int, int, int]]
    but: Sequence[int] | None = None

    def has(self, log_partition: int, offset: int) -> bool:
        """Whether a position lies in it."""
        if any(one == log_partition and start <= offset < end for one, start, end in self.ranges):
            return True
        return self.but is not None and log_partition not in self.but

    def where(self) -> ds.Expression:
        """The condition of records that lie in it."""
        found = None if self.but is None else ~pc.field("log_partition").isin(list(self.but))
        for partition, start, end in self.ranges:
            one = (
                (pc.field("log_partition") == partition)
                & (pc.field("log_offset") >= start)
                & (pc.field("log_offset") < end)
            )
            found = one if found is None else found | one
        assert found is not None  # noqa: S101 - a stretch has ranges
        return found


def stretches(sources: Sources, most: int = STRETCH_ROWS) -> list[Stretch | None]:
    """The log of a bucket in stretches of about so many commits; one None stands for all of it.

    Args:
        sources: what to follow.
        most: how many commits a stretch has.
    """
    if sources.commit_rows <= most:
        return [None]
    found = [
        (numbers_of(batch.column("log_partition")), numbers_of(batch.column("log_offset")))
        for batch in read_paths(sources.commits, ["log_partition", "log_offset"])
    ]
    partitions, offsets = (np.concatenate(columns) for columns in zip(*found, strict=True))
    order = np.lexsort([offsets, partitions])
    partitions, offsets = partitions[order], offsets[order]
    made: list[Stretch | None] = []
    starts = {int(one): 0 for one in np.unique(partitions)}
    for at in range(0, len(order), most):
        end = min(at + most, len(order))
        ranges = []
        for partition in np.unique(partitions[at:end]).tolist():
            is_over = end == len(order) or partitions[end] != partition
            until = np.iinfo(np.int64).max if is_over else int(offsets[end])
            ranges.append((partition, starts[partition], until))
            starts[partition] = until
        # Where nothing was committed there may still be markers of commits that wait.
        made.append(Stretch(ranges, sorted(starts) if end == len(order) else None))
    return made


@dataclass(slots=True)
class Context:
    """What is known of groups and of their partitions, for lookups: batches of events."""

    batches: list[pa.RecordBatch] = field(default_factory=list)

    @classmethod
    def read(cls, sources: Sources) -> "Context":
        """Read all of it."""
        kinds = (
            (sources.ownership, events.OWNER, _TEXTS, events.owners),
            (sources.timeline, events.STATE, _TEXTS[:1], events.states),
            (sources.rules, events.RULE, _TEXTS[:1], events.rules),
        )
        return cls(
            [
                shape(batch)
                for uris, columns, texts, shape in kinds
                for batch in read_paths(uris, columns, dictionaries=texts)
            ]
        )

    def of_groups(self, groups: pa.Array, before: int | None) -> Iterator[pa.RecordBatch]:
        """What is known of some groups, up to an offset of their log partition."""
        for batch in self.batches:
            is_wanted = are_among(batch.column("group_id"), groups)
            if before is not None:
                is_wanted &= numbers_of(batch.column("at_offset")) < before
            if is_wanted.any():
                yield some(batch, is_wanted)


def _groups(batches: Sequence[pa.RecordBatch]) -> pa.Array:
    names: set[str] = set()
    for batch in batches:
        column = batch.column("group_id")
        names.update(column.dictionary.take(column.indices.unique().drop_null()).to_pylist())
    return pa.array(sorted(names), pa.string())


class Derivation:
    """Follows the commits of a bucket.

    Args:
        sources: the files.
        on_commits: is shown each batch of commits that is read, with ``extra`` columns.
        extra: columns of ``offset_commits`` to read beside those that are needed.
        before: as if the log ended before these offsets, by log partition; None for its real end.
        proofs: what is proven of log partitions of which records are missing.
    """

    def __init__(
        self,
        sources: Sources,
        *,
        on_commits: Callable[[pa.RecordBatch], None] | None = None,
        extra: Sequence[str] = (),
        before: Mapping[int, int] | None = None,
        proofs: OffsetProofs = NOTHING_MISSING,
    ) -> None:
        self.sources = sources
        self.proofs = proofs
        self.on_commits = on_commits
        self.columns = [*events.COMMIT, *extra]
        self.before = before
        self.held = [
            events.held_offsets(batch)
            for batch in read_paths(sources.held, events.HELD, pc.field("to_offset").is_null(), _TEXTS)
        ]
        self.waiting = [
            events.waiting_commits(batch) for batch in read_paths(sources.waiting, events.WAITING, None, _TEXTS)
        ]
        self.context = Context.read(sources)

    def run(self) -> Batches:
        """Follow all of it: batches in STAGED, those of kind OPEN and open ones of kind PENDING at the end alone."""
        if self.before is not None:
            for partition, end in sorted(self.before.items()):
                yield from self._follow(Stretch([(partition, 0, end)]), is_last=True, before=end)
            return
        every = stretches(self.sources)
        for number, stretch in enumerate(every, 1):
            yield from self._follow(stretch, is_last=number == len(every))

    def _follow(self, stretch: Stretch | None, *, is_last: bool, before: int | None = None) -> Batches:
        found = self._events(stretch, before)
        self.held, self.waiting = [], []
        for staged in find_offset_intervals(events.in_order(found), self.proofs):
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

    def _carry(self, held: pa.RecordBatch, waiting: pa.RecordBatch) -> None:
        if held.num_rows:
            self.held.append(events.held_offsets(held.select(list(events.HELD))))
        if waiting.num_rows:
            self.waiting.append(events.waiting_commits(waiting.select(list(events.WAITING))))

    def _events(self, stretch: Stretch | None, before: int | None) -> list[pa.RecordBatch]:
        where = None if stretch is None else stretch.where()
        found = [*self.held, *self.waiting]
        for commits in read_paths(self.sources.commits, self.columns, where, _TEXTS):
            if self.on_commits is not None:
                self.on_commits(commits)
            if commits.num_rows:
                found.extend(events.split_commits(commits.select(list(events.COMMIT))))
        if self.proofs.ranges:
            found = [self.proofs.with_losses(batch) for batch in found]
        opened = [batch for batch in found if batch.num_rows and _waits(batch)]
        if opened:
            markers = [*read_paths(self.sources.markers, events.MARKER, where)]
            if markers:
                found.extend(events.ended_commits(_table(opened), pa.Table.from_batches(markers)))
            found.extend(self._without_marker(_table(opened)))
        found.extend(self._lost(found, stretch))
        groups = _groups(found)
        return [*found, *self.context.of_groups(groups, before)] if len(groups) else []

    def _without_marker(self, waiting: pa.Table) -> list[pa.RecordBatch]:
        """Commits whose marker no dump has, and which the cleaner would not have left if they were not committed."""
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

    def _lost(self, found: Sequence[pa.RecordBatch], stretch: Stretch | None) -> list[pa.RecordBatch]:
        """Where records begin to be missing within a stretch, for each key that had one before."""
        if not self.proofs.times or not found:
            return []
        return [
            events.lost_keys(found, partition, one.begins_at, self.proofs.times[partition, one.begins_at])
            for partition, one in self.proofs.breaks()
            if stretch is None or stretch.has(partition, one.begins_at)
        ]


def _waits(batch: pa.RecordBatch) -> bool:
    """Whether a batch holds commits that wait for a marker; all rows of a batch are of one sort."""
    kind = batch.column("kind")[0].as_py()
    return kind in (int(Event.OPENED), int(Event.WAITING))


def _table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches, events.UNSORTED).unify_dictionaries() if batches else _NO_EVENTS
