"""The pass over sorted events: batch by batch to staged rows, each an interval of an offset or a pending commit.

What decides happens in ``commit_intervals``, on numbers; the rest of a row is fetched by its index. What the last key
of a batch remembers is put in front of the next batch as rows, so memory is bounded by the batch and by what is known
of one group.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.analysis.expiration import Rule
from coordinator_replay.pipeline.commit_intervals import (
    LATEST,
    NO_STATES,
    NOWHERE,
    UNKNOWN,
    Begin,
    End,
    Event,
    Field,
    Interval,
    Settled,
    Told,
    Wait,
    find_intervals,
)
from coordinator_replay.pipeline.offset_events import EVENTS

Numbers = npt.NDArray[np.int64]


class Staged(IntEnum):
    """What a staged row is."""

    CLOSED = 0
    OPEN = 1
    REMOVED = 2
    PENDING = 3


_MOMENT = pa.timestamp("us", tz="UTC")
HISTORY = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("committed_offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("metadata", pa.string()),
        ("commit_timestamp", _MOMENT),
        ("valid_from", _MOMENT),
        ("valid_to", _MOMENT),
        ("from_offset", pa.int64()),
        ("to_offset", pa.int64()),
        ("log_partition", pa.int32()),
        ("ended_by", pa.string()),
        ("is_transactional", pa.bool_()),
        ("owner_member_id", pa.string()),
        ("group_state", pa.string()),
        ("expire_timestamp", _MOMENT),
        ("record_offset", pa.int64()),
        ("is_proven", pa.bool_()),
        ("previous_offset", pa.int64()),
    ]
)
"""Columns that every staged row has, named as in ``offset_history``."""

PRODUCER = pa.schema([("producer_id", pa.int64()), ("producer_epoch", pa.int16()), ("pending_since", _MOMENT)])
"""Columns of pending commits."""

JUDGED = pa.schema(
    [
        ("rule", pa.string()),
        ("base_timestamp", _MOMENT),
        ("rule_since", _MOMENT),
        ("is_protected", pa.bool_()),
        ("has_group_tombstone", pa.bool_()),
        ("last_consumed_by", pa.string()),
        ("last_state", pa.string()),
    ]
)
"""Columns of open and removed offsets: the rule in force at the end or the tombstone (with a null base, no rule lets
the offset expire), since when (null: as long as the group is known), whether a transaction on it was open, whether the
group's own tombstone follows in the same operation, the last owner, and the group's state before."""

STAGED = pa.schema([("kind", pa.int8()), *HISTORY, *PRODUCER, *JUDGED])

_ENDED_BY = {End.COMMIT: "COMMIT", End.TOMBSTONE: "TOMBSTONE"}
_SETTLED_BY = {how: how.name for how in Settled if how is not Settled.OPEN}
_NEVER = str(Rule.NEVER_WHILE_ACTIVE)
_EMPTY = "Empty"


def _numbers(column: pa.Array, nothing: int) -> Numbers:
    plain = column.cast(pa.int64()) if not pa.types.is_timestamp(column.type) else column.view(pa.int64())
    numbers: Numbers = plain.fill_null(nothing).to_numpy(zero_copy_only=False)
    return numbers


def _rows(indices: Numbers) -> pa.Array:
    """Indices to take by, null where there is no such row."""
    return pa.array(indices, pa.int64(), mask=indices < 0)


def _words(codes: Numbers, words: dict[Any, str]) -> pa.Array:
    """Words for codes; null for codes without one."""
    names = pa.array([words.get(code) for code in range(max(words) + 1)], pa.string())
    return names.take(pa.array(codes))


class _Batch:
    """A batch of events and what was found in it."""

    def __init__(self, events: pa.RecordBatch, *, is_last: bool, knows_states: bool) -> None:
        self.events = events
        self.knows_states = knows_states
        n = events.num_rows
        fields = np.empty((len(Field), n), np.int64)
        for field, name, nothing in _FIELDS:
            fields[field] = _numbers(events.column(name), nothing)
        self.fields = fields
        self.topics = events.column("topic").dictionary_encode()
        self.told = np.full((len(Told), n), NOWHERE, np.int64)
        intervals, waits = np.empty((len(Interval), n), np.int64), np.empty((len(Wait), n), np.int64)
        carried = np.empty((2, n), np.int64)
        found = find_intervals(fields, self._begins(), is_last, self.told, intervals, waits, carried)
        if found[3] != NOWHERE:
            raise RuntimeError(f"events are not in log order: {events.slice(found[3], 1).to_pylist()}")
        self.intervals, self.waits, self.carried = (
            intervals[:, : found[0]],
            waits[:, : found[1]],
            carried[:, : found[2]],
        )
        by_commit = self.intervals[Interval.END] == End.COMMIT
        self.replaced = np.full(n, NOWHERE, np.int64)
        self.replaced[self.intervals[Interval.NEXT, by_commit]] = self.intervals[Interval.ROW, by_commit]

    def _begins(self) -> npt.NDArray[np.int8]:
        """Where keys, topics with their partition, and groups begin."""
        groups = self.events.column("group_id").dictionary_encode().indices
        begins = np.zeros(self.events.num_rows, np.int8)
        levels = (
            (Begin.KEY, self.fields[Field.LOG_PARTITION]),
            (Begin.CONSUMED, _numbers(self.events.column("partition"), NOWHERE)),
            (Begin.CONSUMED, _numbers(self.topics.indices, NOWHERE)),
            (Begin.GROUP, _numbers(groups, NOWHERE)),
        )
        for level, codes in levels:
            begins[1:][codes[1:] != codes[:-1]] = level
        begins[:1] = Begin.GROUP
        return begins

    def take(self, name: str, rows: Numbers) -> pa.Array:
        """A column of events at some rows, null where a row is NOWHERE."""
        return self.events.column(name).take(_rows(rows))

    def carry(self) -> pa.RecordBatch:
        """Rows that put the next batch in mind of what the last key of this one remembers."""
        rows, since = self.carried
        kinds = self.fields[Field.KIND, rows]
        # A commit that holds since its marker is taken for granted, and what waits goes on waiting since then.
        kinds = np.where(kinds == Event.COMMITTED, Event.PLAIN, kinds)
        times = np.where(since == UNKNOWN, self.fields[Field.AT_TIME, rows], since)
        taken = self.events.take(pa.array(rows))
        changed = {
            "previous_offset": self._previous(rows),
            "kind": pa.array(kinds, pa.int8()),
            "at_timestamp": pa.array(times, pa.int64(), mask=times == UNKNOWN).cast(_MOMENT),
        }
        columns = [changed.get(name, taken.column(name)) for name in EVENTS.names]
        remembered = pa.RecordBatch.from_arrays(columns, schema=EVENTS)
        at_offset = np.where(kinds > Event.OWNER, self.fields[Field.AT_OFFSET, rows], NOWHERE)
        return remembered.take(pa.array(np.argsort(at_offset, kind="stable")))

    def _states(self, rows: Numbers) -> pa.Array:
        """The group's state at commits: Kafka makes a simple group, which is Empty, where it has no record of one."""
        if not self.knows_states:
            return pa.nulls(len(rows), pa.string())
        at = self.told[Told.STATE, rows]
        is_held = (at == rows) & (at >= 0)
        found = pc.if_else(pa.array(is_held), self.take("group_state", rows), self.take("name", at))
        is_dead = pc.equal(found, "Dead").fill_null(False).to_numpy(zero_copy_only=False)
        nothing_is_missing = _numbers(self.events.column("missing_before"), NOWHERE)[rows] == 0
        is_empty = (at == NO_STATES) | is_dead | ((at == NOWHERE) & nothing_is_missing)
        return pc.if_else(pa.array(is_empty), _EMPTY, found)

    def _previous(self, rows: Numbers) -> pa.Array:
        """The offset that a commit replaced."""
        return pc.coalesce(self.take("committed_offset", self.replaced[rows]), self.take("previous_offset", rows))

    def _told(self, rows: Numbers) -> dict[str, pa.Array]:
        """What a commit says, who owned its partition, and its group's state."""
        told = {name: self.take(name, rows) for name in HISTORY.names if name in _AS_WRITTEN}
        producers = self.take("producer_id", rows)
        return told | {
            "is_transactional": pc.not_equal(producers, -1),
            "owner_member_id": self.take("name", self.told[Told.OWNER, rows]),
            "group_state": self._states(rows),
            "record_offset": self.take("log_offset", rows),
        }

    def history(self) -> Iterator[pa.RecordBatch]:
        """Staged rows of intervals: those that a commit ended, then the others with what decides about expiry."""
        by_commit = self.intervals[Interval.END] == End.COMMIT
        closed, others = self.intervals[:, by_commit], self.intervals[:, ~by_commit]
        for intervals in (closed, others):
            rows, ends, following = intervals[Interval.ROW], intervals[Interval.END], intervals[Interval.NEXT]
            producer_follows = pc.is_valid(self.take("producer_id", following)).to_numpy(zero_copy_only=False)
            producers = pc.is_valid(self.take("producer_id", rows)).to_numpy(zero_copy_only=False)
            columns = self._told(rows) | {
                "kind": pa.array(_STAGED_BY_END[ends], pa.int8()),
                "valid_from": self.take("at_timestamp", rows),
                "valid_to": self.take("at_timestamp", following),
                "from_offset": self.take("at_offset", rows),
                "to_offset": self.take("at_offset", following),
                "ended_by": _words(ends, _ENDED_BY),
                "previous_offset": self._previous(rows),
                "is_proven": pa.array(producers & ((ends != End.COMMIT) | producer_follows)),
            }
            yield _staged(columns if intervals is closed else columns | self._judged(intervals))

    def _judged(self, intervals: Numbers) -> dict[str, pa.Array]:
        """What decides about expiry, of intervals that no commit ended."""
        rows, rules = intervals[Interval.ROW], intervals[Interval.RULE]
        by_group = pc.coalesce(self.take("name", rules), str(Rule.SIMPLE_GROUP))
        never = pc.or_(pa.array(self._is_spared(rows, rules)), pc.equal(by_group, _NEVER))
        is_explicit = pc.is_valid(self.take("expire_timestamp", rows))
        named = pc.if_else(is_explicit, str(Rule.EXPLICIT_EXPIRE_TIMESTAMP), by_group)
        base = pc.coalesce(self.take("commit_timestamp", rules), self.take("commit_timestamp", rows))
        by_rules = pc.if_else(pa.array(rules == NOWHERE), _EMPTY, self.take("group_state", rules))
        state = self.take("name", intervals[Interval.LAST_STATE])
        is_alive = pc.not_equal(state, "Dead")
        return {
            "rule": pc.if_else(never, _NEVER, named),
            "base_timestamp": pc.if_else(never, None, base),
            "rule_since": self.take("at_timestamp", rules),
            "is_protected": pa.array(intervals[Interval.IS_PROTECTED] == 1),
            "has_group_tombstone": pa.array(intervals[Interval.HAS_GROUP_TOMBSTONE] == 1),
            "last_consumed_by": self.take("name", intervals[Interval.LAST_OWNER]),
            "last_state": pc.coalesce(pc.if_else(is_alive, state, None), by_rules),
        }

    def _is_spared(self, rows: Numbers, rules: Numbers) -> npt.NDArray[np.bool_]:
        """Whether a member subscribes to the topic of an offset, by the rule in force."""
        known, places = np.unique(rules, return_inverse=True)
        spared = self.take("spared_topics", known)
        codes = _numbers(pc.index_in(pc.list_flatten(spared), self.topics.dictionary), NOWHERE)
        topics = len(self.topics.dictionary)
        pairs = pc.list_parent_indices(spared).to_numpy() * topics + codes
        mine = places * topics + _numbers(self.topics.indices, NOWHERE)[rows]
        return np.isin(mine, pairs[codes != NOWHERE])

    def pending(self) -> pa.RecordBatch:
        """Staged rows of commits that waited for a marker."""
        rows, by = self.waits[Wait.ROW], self.waits[Wait.BY]
        since = self.waits[Wait.SINCE]
        n = len(rows)
        return _staged(
            self._told(rows)
            | {
                "kind": pa.array(np.full(n, Staged.PENDING, np.int8)),
                "valid_from": self.take("log_timestamp", rows),
                "valid_to": self.take("at_timestamp", by),
                "from_offset": self.take("log_offset", rows),
                "to_offset": self.take("at_offset", by),
                "ended_by": _words(self.waits[Wait.HOW], _SETTLED_BY),
                "is_proven": pa.array(np.ones(n, np.bool_)),
                "producer_id": self.take("producer_id", rows),
                "producer_epoch": self.take("producer_epoch", rows),
                "pending_since": pa.array(since, pa.int64(), mask=since == UNKNOWN).cast(_MOMENT),
            }
        )


_FIELDS = (
    (Field.KIND, "kind", 0),
    (Field.AT_OFFSET, "at_offset", NOWHERE),
    (Field.AT_TIME, "at_timestamp", UNKNOWN),
    (Field.LOG_PARTITION, "log_partition", NOWHERE),
    (Field.LOG_OFFSET, "log_offset", NOWHERE),
    (Field.LOG_TIME, "log_timestamp", UNKNOWN),
    (Field.PRODUCER, "producer_id", NOWHERE),
    (Field.UNTIL, "expire_timestamp", LATEST),
)
_AS_WRITTEN = frozenset(EVENTS.names) - {"group_state", "previous_offset"}
_STAGED_BY_END = np.array([Staged.OPEN, Staged.CLOSED, Staged.REMOVED], np.int8)


def _staged(columns: dict[str, pa.Array]) -> pa.RecordBatch:
    n = len(columns["kind"])
    arrays = [columns[field.name] if field.name in columns else pa.nulls(n, field.type) for field in STAGED]
    return pa.RecordBatch.from_arrays(arrays, schema=STAGED)


def _with_last(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """Batches that have rows, each with whether it is the last one."""
    before: pa.RecordBatch | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        if before is not None:
            yield before, False
        before = batch
    if before is not None:
        yield before, True


def stage_offsets(batches: Iterator[pa.RecordBatch], *, knows_states: bool) -> Iterator[pa.RecordBatch]:
    """Turn sorted events into staged rows.

    Args:
        batches: in EVENTS, whole keys in order.
        knows_states: whether the groups' states are among the events; otherwise nothing is said of them.

    Yields:
        batches in STAGED.

    Raises:
        RuntimeError: events do not come in order; the plan of the job is broken, not the log.
    """
    carried: list[pa.RecordBatch] = []
    for batch, is_last in _with_last(batches):
        events = pa.RecordBatch.from_arrays(batch.columns, schema=EVENTS)
        found = _Batch(pa.concat_batches([*carried, events]), is_last=is_last, knows_states=knows_states)
        carried = [found.carry()]
        yield from (rows for rows in (*found.history(), found.pending()) if rows.num_rows)
