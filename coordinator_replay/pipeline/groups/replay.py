"""The replay: it feeds each group's records to the engine in log order, and makes the rows of the tables.

The replay is plain Python over sorted rows: an audit runs it bucket by bucket, a notebook may run it for a single
group. Rows are a stream, so a group of any size takes no more memory than the group's state.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, NamedTuple

import orjson

from coordinator_replay.analysis.findings.evidence import Evidence, evidence_row
from coordinator_replay.analysis.findings.evidence_rows import LargeRecord
from coordinator_replay.analysis.findings.thresholds import DEFAULTS, Thresholds
from coordinator_replay.analysis.group_life import SNAPSHOT_VERSION, GroupReplay
from coordinator_replay.analysis.reasons.topic_changes import TopicChanges
from coordinator_replay.analysis.rows import Row, Scope
from coordinator_replay.completeness.groups import Break, GroupProofs
from coordinator_replay.engine.model import Record
from coordinator_replay.int64 import LARGEST_INT64
from coordinator_replay.pipeline.group_moves import NO_MOVES, SEQ_OF_MOVE, GroupMove, GroupMoves
from coordinator_replay.pipeline.groups.input_rows import InputRow
from coordinator_replay.pipeline.groups.signs import LastCommits
from coordinator_replay.pipeline.guard import GroupGuard
from coordinator_replay.times import latest_ms

GROUP_TABLES = (
    "group_timeline",
    "member_timeline",
    "partition_ownership",
    "rebalances",
    "expiry_rules",
    "group_evidence",
)
"""The tables that a replay fills."""

STATE_TABLE = "group_state"
"""The table of snapshots, which a replay fills as well."""

NO_SNAPSHOT = 0
"""``snapshot_version`` of a row that has no snapshot, because a step for the group failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayContext:
    """Values that the replay of each group needs in addition to the records of the group.

    Attributes:
        cluster: the cluster's name.
        run_id: id of the run.
        topic_names: topic name by id, as far as it is known.
        topic_changes: the times at which a topic was created, changed or deleted, by topic name, as far as they are
            known.
        limits: the thresholds of findings.
        is_rebuild: whether groups are replayed from their first record. If not, they continue from snapshots.
    """

    cluster: str
    run_id: str = ""
    is_rebuild: bool = True
    topic_names: Mapping[str, str] = field(default_factory=dict)
    topic_changes: TopicChanges = field(default_factory=dict)
    limits: Thresholds = DEFAULTS


GroupKey = tuple[str, int]
"""A group by id and log partition."""

_GROUP_OF = attrgetter("group_id", "log_partition")
"""Function that returns the GroupKey of a row."""


class GroupSnapshot(NamedTuple):
    """State of a group, from which the replay continues.

    Attributes:
        state: the state as JSON.
        to_offset: the log offset after the last record that the state includes.
    """

    state: str
    to_offset: int


NO_PROOFS = GroupProofs()


class _GroupRun:
    """The replay of one group.

    Attributes:
        key: the group and its log partition.
        at: log offset of the group's last record so far.
        breaks: the places after ``at`` at which records of the log partition are missing (``Break``).
        left: the group's move to another log partition; None if the group stays.
        complete: the log offset and time from which the group is proven. None if the group is proven already or never
            will be.
        guard: keeps an error about the group from ending the run.
    """

    __slots__ = ("at", "breaks", "complete", "context", "guard", "key", "left", "life", "proofs")

    def __init__(
        self,
        key: GroupKey,
        first_offset: int,
        snapshot: GroupSnapshot | None,
        context: ReplayContext,
        proofs: GroupProofs,
        moves: GroupMoves,
    ) -> None:
        settings = context.topic_names, context.topic_changes, context.limits
        self.key = key
        self.context = context
        self.at = -1
        self.guard = GroupGuard("replaying its records")
        if snapshot is None:
            self.life = GroupReplay(context.cluster, key[0], *settings)
        else:
            self.life = GroupReplay.restore(orjson.loads(snapshot.state), *settings)
            self.at = snapshot.to_offset - 1
        self.proofs = proofs
        self.left = moves.ends.get(key)
        came = moves.begins.get(key)
        self.complete: tuple[int, int | None] | None = None
        self.breaks: list[Break] = [] if snapshot is None else list(proofs.new.get(key[1], ()))
        if snapshot is None and came is not None:
            self.life.number_from(came.number * SEQ_OF_MOVE)
            self.life.replay.is_contested = came.overlaps_until is not None
        if snapshot is None and (begins := _begins_open(self._begins(first_offset), came)):
            beginning, *self.breaks = begins
            self.life.replay.is_cleaned = not beginning.is_gap
            self._prove_from(beginning)
        if self.left is not None:
            # Records missing after the move don't concern the group.
            self.breaks = [gap for gap in self.breaks if snapshot is None and gap.offset < self.left.end_offset]

    def _begins(self, first_offset: int) -> list[Break]:
        """Return the places (``Break``) at which records are missing, from the last one before ``first_offset`` on.

        Args:
            first_offset: the log offset of the group's first record.
        """
        if not self.context.is_rebuild:
            return self.proofs.after(self.key[1], first_offset)
        breaks = self.proofs.breaks(*self.key)
        passed = sum(gap.offset <= first_offset for gap in breaks)
        return breaks[max(passed - 1, 0) :]

    def _prove_from(self, gap: Break) -> None:
        self.life.replay.prove_from(LARGEST_INT64 if gap.proven_from is None else gap.proven_from)
        # A group that nothing proves gets no time: a nightly run would not know the time that a rebuild finds.
        self.life.proven_ms = None if gap.proven_from is None else gap.proven_ms
        self.complete = None if gap.proven_from is None else (gap.proven_from, gap.proven_ms)

    def _pass(self, gap: Break) -> Iterator[Row]:
        """Yield the rows of the group that result because records of the log partition are missing.

        Args:
            gap: the place in the log partition where records are missing.
        """
        yield from self._find_complete(gap.offset)
        place = self.key[1], gap.offset, gap.at_ms
        if gap.is_gap:
            rows = self.life.lose_track(*place)
        else:
            own = self.proofs.confirmed.get((*self.key, gap.number), ())
            rows = self.life.interrupt(*place, own)
            self.life.replay.is_cleaned = True
        self._prove_from(gap)
        yield from rows

    def _find_complete(self, before: int) -> Iterator[Row]:
        """Yield the rows that result because the group is proven from a certain log offset on.

        Args:
            before: a log offset. Do nothing if the group is proven only from a higher log offset on.
        """
        if self.complete is None or self.complete[0] > before:
            return
        (offset, at_ms), self.complete = self.complete, None
        # A copy that has since turned out to be from several moments proves nothing.
        if self.life.replay.proven_from != LARGEST_INT64:
            yield from self.life.find_complete(self.key[1], offset, at_ms)

    def _advance(self, row: InputRow, record: Record) -> Iterator[Row]:
        """Yield the rows that result before the next record is replayed.

        There are such rows if records are missing before the next record, or if the group is proven from there on.

        Args:
            row: the next record of the group, as it was read.
            record: the next record, decoded.
        """
        # An operation of the coordinator is replayed as a whole, even if the group becomes proven within it.
        while self.breaks and self.breaks[0].offset <= row.log_offset:
            yield from self._pass(self.breaks.pop(0))
        if self.complete is not None and not self.life.replay.continues(record):
            yield from self._find_complete(row.log_offset)

    def feed(self, row: InputRow, signs: LastCommits | None) -> list[Row]:
        """Replay the group's next record, and return the rows that result.

        If an earlier record of the group could not be replayed, return no rows.

        Raises:
            RuntimeError: records are not in the order of log offsets. This is a fault of the program, not of the log.
        """
        if row.log_offset <= self.at:
            raise RuntimeError(
                f"records of group {row.group_id!r} are not in log order: offset {row.log_offset} after {self.at} in "
                f"log partition {row.log_partition}"
            )
        self.at = row.log_offset
        # Not guarded: a record that can't be read here was written by a broken decoder.
        record = row.record()
        rows: list[Row] = []
        if self.guard.failure is not None:
            return rows
        self.guard.place = row.log_partition, row.log_offset
        commits = None if signs is None else signs.before((row.group_id, row.log_partition, row.log_offset))
        with self.guard:
            if self.breaks or self.complete is not None:
                rows += self._advance(row, record)
            if commits is not None:
                self.life.heed_commits(row.log_offset, commits)
            rows += self.life.feed(record)
        return rows

    def finish(self) -> list[Row]:
        """Return the last rows of the group: its row of ``group_state``, and its open rows.

        If a record could not be replayed, return a row of ``group_state`` without a snapshot, and the error as
        evidence of a finding.
        """
        rows: list[Row] = []
        if self.guard.failure is None:
            with self.guard:
                for gap in self.breaks:
                    rows += self._pass(gap)
                rows += self._find_complete(LARGEST_INT64 if self.left is None else self.left.end_offset)
                if self.left is not None:
                    left = self.left
                    rows += self.life.move(self.key[1], left.end_offset, left.moved_at, left.to_log_partition)
                rows.append(self._state(_json(self.life.snapshot())))
                rows += self.life.finish()
        if self.guard.failure is not None:
            scope = Scope(self.context.cluster, self.key[0])
            name, row = evidence_row(scope, Evidence.FAILURE, self.guard.failure.evidence())
            rows = [self._state(None), (name, {**row, "settled_at_offset": None})]
        return rows

    def _state(self, snapshot: str | None) -> Row:
        """Return the row of the group in ``group_state``.

        Args:
            snapshot: the state from which the next run continues; None if the next run shall replay all records.
        """
        group = self.life.replay.group
        state = {
            "group_id": self.key[0],
            "group_type": None if group is None else str(group.group_type),
            "log_partition": self.key[1],
            "to_offset": self.at + 1,
            "snapshot_version": SNAPSHOT_VERSION if snapshot is not None else NO_SNAPSHOT,
            "snapshot": snapshot,
            "run_id": self.context.run_id,
        }
        return STATE_TABLE, state


def _begins_open(begins: Sequence[Break], came: GroupMove | None) -> list[Break]:
    """Return the places (``Break``) at which records of a group are missing, if the group may have moved.

    If brokers wrote to both log partitions during the move, the group is proven only after the move.

    Args:
        begins: the places at which records of the log partition are missing.
        came: the move of the group into this log partition; None if the group did not move.
    """
    if came is None or came.overlaps_until is None:
        return list(begins)
    first = begins[0] if begins else Break(0, None, is_gap=True, proven_from=0, proven_ms=None, number=0)
    proven = [offset for offset in (first.proven_from, came.exact_from_offset) if offset is not None]
    proven_from = max(proven) if len(proven) == 2 else None
    proven_ms = latest_ms(first.proven_ms, came.exact_from_timestamp)
    return [first._replace(is_gap=True, proven_from=proven_from, proven_ms=proven_ms), *begins[1:]]


def replay_groups(
    rows: Iterable[InputRow],
    context: ReplayContext,
    *,
    snapshots: Mapping[GroupKey, GroupSnapshot] | None = None,
    signs: LastCommits | None = None,
    proofs: GroupProofs = NO_PROOFS,
    moves: GroupMoves = NO_MOVES,
) -> Iterator[Row]:
    """Replay groups and yield the rows that result.

    Args:
        rows: the groups' records, sorted by group, log partition and log offset. Records that a snapshot of their
            group includes already are left out.
        context: values that are the same for all groups.
        snapshots: the stored states from which groups continue. A group without a snapshot begins at its first record.
        signs: the last commit for each partition before a member left; None to replay without them.
        proofs: for groups with missing records, the log offsets from which the groups are proven.
        moves: moves of groups to other log partitions. ``rows`` must not have records that a log partition got after
            their group had left it.

    Raises:
        RuntimeError: records of a group are not in log order.
        SnapshotError: a snapshot has another version, or is damaged.
    """
    by_group = dict(snapshots or {})
    large = context.limits.record_max_bytes * context.limits.size_percent // 100
    for key, of_group in groupby(rows, key=_GROUP_OF):
        first = next(of_group)
        group = _GroupRun(key, first.log_offset, by_group.pop(key, None), context, proofs, moves)
        for row in chain((first,), of_group):
            yield from group.feed(row, signs)
            if row.record_bytes >= large:
                yield _large_record(row, context.cluster)
        yield from group.finish()
    for key, snapshot in sorted(by_group.items()):
        yield from _GroupRun(key, snapshot.to_offset, snapshot, context, proofs, moves).finish()


def _json(snapshot: Mapping[str, Any]) -> str:
    """Return a snapshot as text.

    Keys of the snapshot may be numbers.
    """
    try:
        return orjson.dumps(snapshot, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:
        # A hostile log can have numbers above 64 bits, which only the standard library can write.
        return json.dumps(snapshot, separators=(",", ":"))


def _large_record(row: InputRow, cluster: str) -> Row:
    about: LargeRecord = {
        "kind": row.kind,
        "record_bytes": row.record_bytes,
        "timestamp_ms": row.timestamp_ms,
        "log_partition": row.log_partition,
        "log_offset": row.log_offset,
    }
    table, made = evidence_row(Scope(cluster, row.group_id), Evidence.LARGE_RECORD, about, at=row.log_offset)
    return table, {**made, "settled_at_offset": row.log_offset}
