"""The loop over sorted events that finds the time ranges in which offsets were current, and the pending commits.

The loop works on one batch of events after the other. ``find_intervals`` works on columns of numbers and returns
indexes of events. This module fetches the other columns by these indexes. If a key has events in two batches, events
with the state of the key are put before the second batch.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.analysis.expiring import ExpiryRule
from coordinator_replay.arrow_times import TIMESTAMP
from coordinator_replay.columns import Bools, Numbers, as_bools, numbers_of
from coordinator_replay.completeness.offsets import NOTHING_MISSING, OffsetProofs
from coordinator_replay.int64 import LARGEST_INT64
from coordinator_replay.pipeline.interval_rows import HISTORY, STAGED, Staged
from coordinator_replay.pipeline.offsets.events import EVENTS, UNKNOWN_STATE
from coordinator_replay.pipeline.offsets.intervals import (
    NOWHERE,
    UNKNOWN,
    End,
    EventField,
    OffsetEvent,
    Outcome,
    find_intervals,
)
from coordinator_replay.pipeline.offsets.lookups import Context

_ENDED_BY = {how: how.name for how in End if how not in (End.OPEN, End.LOST)}
_NEVER = str(ExpiryRule.NEVER_WHILE_ACTIVE)
_EMPTY = "Empty"


def _rows(indices: Numbers) -> pa.Array:
    """Return indices of events for pyarrow's ``take``, with null in place of NOWHERE."""
    is_nowhere = indices < 0
    return pa.array(indices, pa.int64(), mask=is_nowhere if is_nowhere.any() else None)


def _words(codes: Numbers, words: dict[Any, str]) -> pa.Array:
    """Return the text for each code; null for a code that is not in ``words``."""
    names = pa.array([words.get(code) for code in range(int(max(*words, codes.max(initial=0))) + 1)], pa.string())
    return names.take(pa.array(codes))


class _Batch:
    """A batch of offset events, and the rows of ``offset_history`` and pending commits that follow from them."""

    def __init__(self, events: pa.RecordBatch, proofs: OffsetProofs, *, is_last: bool) -> None:
        self.events = events
        self.proofs = proofs
        n = events.num_rows
        fields = np.empty((len(EventField), n), np.int64)
        for field, name, nothing in _FIELDS:
            fields[field] = numbers_of(events.column(name), nothing)
        self.fields = fields
        groups = numbers_of(events.column("group_id").dictionary_encode().indices, NOWHERE)
        # A group that moved counts as a separate group in each log partition, but their events follow each other.
        is_next = np.zeros(n, np.bool_)
        for codes in (groups, fields[EventField.LOG_PARTITION]):
            is_next[1:] |= codes[1:] != codes[:-1]
        self.groups = np.cumsum(is_next)
        self.topics = events.column("topic").dictionary_encode()
        self.is_readable = as_bools(events.column("committed_offset").is_valid())
        begins = self._begins()
        self.keys: Numbers = np.cumsum(begins)
        self._check_order()
        self.outcome, waiting = np.full((len(Outcome), n), NOWHERE, np.int64), np.empty(n + 1, np.int64)
        current, count = find_intervals(fields, begins, self.outcome, waiting)
        self.waiting = waiting[:count]
        self.current = np.full(1 if current != NOWHERE else 0, current, np.int64)
        is_ended = self.outcome[Outcome.END] != NOWHERE
        if not is_last:
            # The next batch continues with these rows.
            is_ended[self.current] = is_ended[self.waiting] = False
        waits = (fields[EventField.KIND] == OffsetEvent.OPENED) | (fields[EventField.KIND] == OffsetEvent.WAITING)
        self.intervals, self.waits = np.flatnonzero(is_ended & ~waits), np.flatnonzero(is_ended & waits)
        by_commit = self.intervals[self.outcome[Outcome.END, self.intervals] == End.COMMIT]
        self.replaced = np.full(n, NOWHERE, np.int64)
        self.replaced[self.outcome[Outcome.BY, by_commit]] = by_commit

    def _begins(self) -> Bools:
        """Return, for each event, whether it is the first event of its group, topic and partition."""
        begins = np.ones(self.events.num_rows, np.bool_)
        partitions, topics = self.events.column("partition"), self.topics.indices
        begins[1:] = self.groups[1:] != self.groups[:-1]
        for codes in (numbers_of(partitions, NOWHERE), numbers_of(topics, NOWHERE)):
            begins[1:] |= codes[1:] != codes[:-1]
        return begins

    def _check_order(self) -> None:
        """Make sure that the events of each key come in the order of the log.

        Raises:
            RuntimeError: the events of a key are in another order.
        """
        at, is_event = self.fields[EventField.AT_OFFSET], self.fields[EventField.KIND] > OffsetEvent.OWNER
        is_behind = (at[1:] >= at[:-1]) | (self.keys[1:] != self.keys[:-1]) | ~is_event[:-1]
        if not is_behind.all():
            row = int(np.argmin(is_behind)) + 1
            raise RuntimeError(f"events are not in log order: {self.events.slice(row, 1).to_pylist()}")

    @cached_property
    def _state_rows(self) -> Context:
        is_state = self.fields[EventField.KIND] == OffsetEvent.STATE
        return Context(self.groups, self.fields[EventField.AT_OFFSET], is_state)

    @cached_property
    def _rule_rows(self) -> Context:
        is_rule = np.isin(self.fields[EventField.KIND], (OffsetEvent.RULE, OffsetEvent.GROUP_TOMBSTONE))
        return Context(self.groups, self.fields[EventField.AT_OFFSET], is_rule)

    @cached_property
    def _owner_rows(self) -> Context:
        is_owner = self.fields[EventField.KIND] == OffsetEvent.OWNER
        return Context(self.keys, self.fields[EventField.AT_OFFSET], is_owner)

    def _are_looked_up(self, rows: Numbers) -> Bools:
        """Return, for each commit, whether its row lacks the owner of the partition and the state of the group.

        A commit that an earlier run left open has them in its row.
        """
        are_new: Bools = self.fields[EventField.KIND, rows] > OffsetEvent.WAITING
        return are_new

    def _owners(self, rows: Numbers) -> Numbers:
        """Return, for each commit, the index of the row with the member that owned the partition at the commit.

        The column ``name`` of this row has the member. The index is NOWHERE if the partition had no owner.

        Args:
            rows: indexes of the commits.
        """
        # The row of a commit that an earlier run left open has the owner itself.
        offsets = self.fields[EventField.LOG_OFFSET, rows]
        owners = self._owner_rows.last_at(self.keys[rows], offsets)
        is_over = self.fields[EventField.UNTIL, owners] <= offsets
        return np.where(self._are_looked_up(rows), np.where(is_over, NOWHERE, owners), rows)

    def take(self, name: str, at: pa.Array) -> pa.Array:
        """Return the values of a column of events at some rows. ``at`` are row numbers as ``_rows`` returns them."""
        return self.events.column(name).take(at)

    def carry(self) -> pa.RecordBatch:
        """Return events to put before the next batch. The last key of this batch may have more events there.

        The events are the states and owners of the key, its current offset, and its commits that wait for a marker.
        """
        rows = np.concatenate([self.current, self.waiting])
        kinds = self.fields[EventField.KIND, rows]
        # A commit becomes a plain commit when its marker has committed it; a waiting commit keeps its beginning.
        kinds = np.where(kinds == OffsetEvent.COMMITTED, OffsetEvent.PLAIN, kinds)
        times, offsets = self.outcome[Outcome.SINCE, rows], self.outcome[Outcome.SINCE_OFFSET, rows]
        taken = self.events.take(pa.array(rows))
        changed = {
            "previous_offset": self._previous(rows),
            "replaced_offset": self._replaced_offsets(rows),
            "kind": pa.array(kinds, pa.int8()),
            "at_offset": pa.array(offsets),
            "at_timestamp": pa.array(times, pa.int64(), mask=times == UNKNOWN).cast(TIMESTAMP),
            "is_begin_open": self._are_begins_open(rows),
        }
        columns = [changed.get(name, taken.column(name)) for name in EVENTS.names]
        remembered = pa.RecordBatch.from_arrays(columns, schema=EVENTS)
        in_order = remembered.take(pa.array(np.argsort(offsets, kind="stable")))
        return pa.concat_batches([self.events.take(pa.array(self._last_context())), in_order])

    def _last_context(self) -> Numbers:
        """Return the indexes of the states, expiry rules and owners that belong to the last key of the batch.

        The next batch may have more commits of this key, and needs these rows.
        """
        kinds, is_of_group = self.fields[EventField.KIND], self.groups == self.groups[-1]
        is_of_key = (kinds < OffsetEvent.OWNER) | (self.keys == self.keys[-1])
        [rows] = np.nonzero(is_of_group & is_of_key & (kinds <= OffsetEvent.OWNER))
        return rows

    def _states(self, rows: Numbers) -> pa.Array:
        """Return, for each commit, the state of its group at the commit.

        The state is Unknown if no record shows it. The state is Empty if the log proves that there was no group before
        the commit.

        Args:
            rows: indexes of the commits.
        """
        is_new = self._are_looked_up(rows)
        at = self._state_rows.last_at(self.groups[rows], self.fields[EventField.LOG_OFFSET, rows])
        states = self.take("name", _rows(at))
        if not is_new.all():
            states = pc.if_else(pa.array(is_new), states, self.take("group_state", _rows(rows)))
        is_empty = pc.equal(states, "Dead").fill_null(False).to_numpy(zero_copy_only=False)
        is_unseen = is_new & (at == NOWHERE)
        if not is_unseen.any():
            return pc.if_else(pa.array(is_empty), _EMPTY, states)
        is_absent = self._are_absent(self.fields[EventField.LOG_OFFSET, rows], rows)
        states = pc.if_else(pa.array(is_unseen & ~is_absent), UNKNOWN_STATE, states)
        return pc.if_else(pa.array(is_empty | (is_unseen & is_absent)), _EMPTY, states)

    def _are_absent(self, offsets: Numbers, rows: Numbers) -> npt.NDArray[np.bool_]:
        """Return, for each row, whether its group is proven not to have existed at a log offset.

        Args:
            offsets: a log offset for each row.
            rows: indexes of the rows.
        """
        first, is_begin_open = self._first_states
        return self.proofs.are_absent(
            self.fields[EventField.LOG_PARTITION, rows], offsets, first[rows], are_begins_open=is_begin_open[rows]
        )

    @cached_property
    def _first_states(self) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """Return where the recorded states of each row's group begin, as two arrays with a value for each row.

        Returns:
            The log offset of the group's first recorded state, or LARGEST_INT64 if no state is recorded. Then, whether
            the group may have existed before this log offset.
        """
        codes = self.groups
        first = np.full(int(codes.max(initial=0)) + 1, LARGEST_INT64, np.int64)
        is_state = self.fields[EventField.KIND] == OffsetEvent.STATE
        begins, lost_at = self.fields[EventField.AT_OFFSET, is_state], self.fields[EventField.LOST_AT, is_state]
        np.minimum.at(first, codes[is_state], begins)
        is_begin_open = np.zeros(len(first), np.bool_)
        is_begin_open[codes[is_state][(begins == first[codes[is_state]]) & (lost_at == begins)]] = True
        return first[codes], is_begin_open[codes]

    def _are_begins_open(self, rows: Numbers) -> pa.Array:
        """Return, for each commit, whether the log may have lost an earlier commit of the same key."""
        # The cleaner removes a commit once its key has a later record, even if the later record is a commit that still
        # waits for its marker.
        first, partitions = self.outcome[Outcome.FIRST, rows], self.fields[EventField.LOG_PARTITION, rows]
        is_open = (first != NOWHERE) & self.proofs.are_unproven(partitions, first)
        is_open |= self._hides_previous[rows]
        return pc.coalesce(self.take("is_begin_open", _rows(rows)), pa.array(is_open))

    @cached_property
    def _hides_previous(self) -> npt.NDArray[np.bool_]:
        """Return, for each commit, whether it is unknown which offset the commit replaced.

        It is unknown in three cases:

        - Commits may be missing between the commit and the previous commit that the tables have.
        - The previous commit comes from an export, and so may have been aborted. The commit itself does not.
        - The previous commit can't be read.
        """
        partitions, at = self.fields[EventField.LOG_PARTITION], self.fields[EventField.AT_OFFSET]
        is_hidden: npt.NDArray[np.bool_] = self.proofs.have_gap(partitions, at[self.replaced], at)
        is_hidden |= ~self.is_readable[self.replaced]
        is_shown = as_bools(pc.is_valid(self.events.column("producer_id")))
        is_hidden |= is_shown & ~is_shown[self.replaced]
        is_hidden &= self.replaced != NOWHERE
        return is_hidden

    def _are_exact(self, rows: Numbers, following: Numbers) -> pa.Array:
        """Return, for each offset, whether the log proves it for the whole time in which it was current.

        Args:
            rows: indexes of the commits of these offsets.
            following: indexes of the events with which the offsets ended.
        """
        # The cleaner removes a commit only if it finds a later record of its key. So an offset is proven if no gap lies
        # between its record and its end. For a transactional commit, there must be no gap between its record and its
        # marker either: such a gap could hide an earlier marker, which ended the transaction.
        begins, partitions = self.fields[EventField.LOG_OFFSET, rows], self.fields[EventField.LOG_PARTITION, rows]
        ends = np.where(following == NOWHERE, LARGEST_INT64, self.fields[EventField.AT_OFFSET, following])
        return pa.array(self.is_readable[rows] & ~self.proofs.have_gap(partitions, begins, ends))

    def _replaced_offsets(self, rows: Numbers) -> pa.Array:
        """Return the column ``replaced_offset`` of commits: the offset that the commit replaced; null if it is unknown.

        Unlike ``previous_offset``, the value is not null if the two offsets can't be compared.
        """
        shown = np.where(self._hides_previous[rows], NOWHERE, self.replaced[rows])
        return pc.coalesce(self.take("committed_offset", _rows(shown)), self.take("replaced_offset", _rows(rows)))

    def _previous(self, rows: Numbers) -> pa.Array:
        """Return the column ``previous_offset`` of commits: the offset that the commit replaced.

        The value is null if the replaced offset is unknown, or can't be compared with the offset of the commit.
        """
        is_hidden = self._hides_previous[rows] | ~self._are_comparable[rows]
        compared = self.take("committed_offset", _rows(np.where(is_hidden, NOWHERE, self.replaced[rows])))
        return pc.coalesce(compared, self.take("previous_offset", _rows(rows)))

    @cached_property
    def _are_of_other_topics(self) -> Bools:
        """Return, for each commit with a topic id, whether the commit that it replaced has another topic id or none.

        The value is False for events that are not such a commit.
        """
        ids = self.events.column("topic_id").dictionary_encode()
        codes = numbers_of(ids.indices, NOWHERE)
        is_other: Bools = (self.replaced != NOWHERE) & (codes != NOWHERE) & (codes != codes[self.replaced])
        return is_other

    @cached_property
    def _are_comparable(self) -> Bools:
        """Return, for each commit, whether its offset can be compared with the offset that it replaced.

        Negative offsets can't be compared. Offsets can't be compared if the topic was deleted and created in between.
        """
        offsets = numbers_of(self.events.column("committed_offset"), -1)
        return (offsets >= 0) & (offsets[self.replaced] >= 0) & ~self._are_of_other_topics

    def _commit_columns(self, rows: Numbers) -> dict[str, pa.Array]:
        """Return columns of commits: the fields of their records, the partition's owner, and the group's state."""
        at = _rows(rows)
        as_written = {name: self.take(name, at) for name in HISTORY.names if name in _AS_WRITTEN}
        return as_written | {
            "is_transactional": pc.not_equal(self.take("producer_id", at), -1),
            "owner_member_id": self.take("name", _rows(self._owners(rows))),
            "group_state": self._states(rows),
            "record_offset": self.take("log_offset", at),
            "is_begin_open": self._are_begins_open(rows),
        }

    def history(self) -> Iterator[pa.RecordBatch]:
        """Yield rows for ``offset_history``, in two batches.

        The second batch has the offsets that a tombstone removed and the offsets that are still current, with the
        columns about expiry. The first batch has all other offsets.
        """
        is_closed = np.isin(self.outcome[Outcome.END, self.intervals], (End.COMMIT, End.LOST))
        closed, others = self.intervals[is_closed], self.intervals[~is_closed]
        for intervals in (closed, others):
            ends, ended_by = self.outcome[Outcome.END, intervals], self.outcome[Outcome.BY, intervals]
            rows, following = _rows(intervals), _rows(ended_by)
            end_is_proven = pc.or_(pa.array(ends != End.COMMIT), pc.is_valid(self.take("producer_id", following)))
            columns = self._commit_columns(intervals) | {
                "kind": pa.array(_STAGED_BY_END[ends], pa.int8()),
                "valid_from": self.take("at_timestamp", rows),
                "valid_to": self.take("at_timestamp", following),
                "from_offset": self.take("at_offset", rows),
                "to_offset": self.take("at_offset", following),
                "ended_by": self._ended_by(ends, _ENDED_BY, ends == End.LOST, following),
                "previous_offset": self._previous(intervals),
                "replaced_offset": self._replaced_offsets(intervals),
                "is_topic_over": pa.array((ends == End.COMMIT) & self._are_of_other_topics[ended_by]),
                "is_exact": self._are_exact(intervals, ended_by),
                "is_proven": pc.and_(pc.is_valid(self.take("producer_id", rows)), end_is_proven),
            }
            yield _staged(columns if intervals is closed else columns | self._expiry_columns(intervals))

    def _expiry_columns(self, intervals: Numbers) -> dict[str, pa.Array]:
        """Return the columns from which later stages compute when an offset expires, or why it was removed.

        Args:
            intervals: indexes of offsets that are still current or that a tombstone removed.
        """
        following = self.outcome[Outcome.BY, intervals]
        ends = np.where(following == NOWHERE, LARGEST_INT64, self.fields[EventField.AT_OFFSET, following])
        rules_at_end = self._rule_rows.last_at(self.groups[intervals], ends)
        rows, rules = _rows(intervals), _rows(rules_at_end)
        is_spared = self._is_spared(intervals, rules_at_end)
        by_group = pc.coalesce(self.take("name", rules), str(ExpiryRule.SIMPLE_GROUP))
        never = pc.or_(pa.array(is_spared), pc.equal(by_group, _NEVER))
        is_explicit = pc.is_valid(self.take("expire_timestamp", rows))
        named = pc.if_else(is_explicit, str(ExpiryRule.EXPLICIT_EXPIRE_TIMESTAMP), by_group)
        base = pc.coalesce(self.take("commit_timestamp", rules), self.take("commit_timestamp", rows))
        by_rules = pc.if_else(pc.is_null(rules), _EMPTY, self.take("group_state", rules))
        state = self._last_states(intervals, ends)
        is_alive = pc.not_equal(state, "Dead")
        last_owners = self._owner_rows.last_at(self.keys[intervals], ends)
        return {
            "rule": pc.if_else(never, _NEVER, named),
            "base_timestamp": pc.if_else(never, None, base),
            "rule_since": self.take("at_timestamp", rules),
            "is_protected": pa.array(self.outcome[Outcome.IS_PROTECTED, intervals] == 1),
            "last_owner_member_id": self.take("name", _rows(last_owners)),
            "last_state": pc.coalesce(pc.if_else(is_alive, state, None), by_rules),
        }

    def _last_states(self, rows: Numbers, ends: Numbers) -> pa.Array:
        """Return, for each offset, the state of its group when the offset was no longer current.

        The state is Unknown if no record shows the state.

        Args:
            rows: indexes of the offsets.
            ends: the log offset at which each offset was no longer current.
        """
        at = self._state_rows.last_at(self.groups[rows], ends)
        is_unknown = (at == NOWHERE) & ~self._are_absent(np.minimum(ends, LARGEST_INT64 - 1), rows)
        return pc.if_else(pa.array(is_unknown), UNKNOWN_STATE, self.take("name", _rows(at)))

    def _is_spared(self, rows: Numbers, rules: Numbers) -> npt.NDArray[np.bool_]:
        """Return, for each offset, whether it can't expire because a member of its group subscribes to its topic.

        Args:
            rows: indexes of the offsets.
            rules: indexes of the expiry rules for these offsets.
        """
        unique_rules, places = np.unique(rules, return_inverse=True)
        spared = self.take("spared_topics", _rows(unique_rules))
        codes = numbers_of(pc.index_in(pc.list_flatten(spared), self.topics.dictionary), NOWHERE)
        topics = len(self.topics.dictionary)
        pairs = pc.list_parent_indices(spared).to_numpy() * topics + codes
        of_offsets = places * topics + numbers_of(self.topics.indices, NOWHERE)[rows]
        return np.isin(of_offsets, pairs[codes != NOWHERE])

    def _ended_by(self, codes: Numbers, words: dict[Any, str], is_lost: Bools, by: pa.Array) -> pa.Array:
        """Return the column ``ended_by``: the reason why each offset was no longer current.

        Args:
            codes: the reason as a number of ``End``, for each offset.
            words: the texts of the reasons, by this number.
            is_lost: for each offset, whether the event with which it ended has the reason in its column ``name``.
            by: for each offset, the index of the event with which it ended.
        """
        ended = _words(codes, words)
        return pc.if_else(pa.array(is_lost), self.take("name", by), ended) if is_lost.any() else ended

    def pending(self) -> pa.RecordBatch:
        """Return rows for ``pending_offsets``: the commits that waited or still wait for their transaction marker."""
        how, ended_by, since, since_offset = self.outcome[: Outcome.SINCE_OFFSET + 1, self.waits]
        rows, by = _rows(self.waits), _rows(ended_by)
        n = len(rows)
        return _staged(
            self._commit_columns(self.waits)
            | {
                "kind": pa.array(np.full(n, Staged.PENDING, np.int8)),
                "valid_from": self.take("log_timestamp", rows),
                "valid_to": self.take("at_timestamp", by),
                "from_offset": self.take("log_offset", rows),
                "to_offset": self.take("at_offset", by),
                "ended_by": self._ended_by(how, _ENDED_BY, how == End.LOST, by),
                "is_proven": pa.array(np.ones(n, np.bool_)),
                "is_exact": self._are_exact(self.waits, ended_by),
                "producer_id": self.take("producer_id", rows),
                "producer_epoch": self.take("producer_epoch", rows),
                "pending_since": pa.array(since, pa.int64(), mask=since == UNKNOWN).cast(TIMESTAMP),
                "pending_since_offset": pa.array(since_offset),
            }
        )


_FIELDS = (
    (EventField.KIND, "kind", 0),
    (EventField.AT_OFFSET, "at_offset", NOWHERE),
    (EventField.AT_TIME, "at_timestamp", UNKNOWN),
    (EventField.LOG_PARTITION, "log_partition", NOWHERE),
    (EventField.LOG_OFFSET, "log_offset", NOWHERE),
    (EventField.LOG_TIME, "log_timestamp", UNKNOWN),
    (EventField.PRODUCER, "producer_id", NOWHERE),
    (EventField.UNTIL, "until_offset", LARGEST_INT64),
    (EventField.LOST_AT, "lost_at", LARGEST_INT64),
)
_AS_WRITTEN = frozenset(EVENTS.names) - {"group_state", "previous_offset", "replaced_offset", "is_begin_open"}
_STAGED_BY_END = np.array([Staged.OPEN, Staged.CLOSED, Staged.REMOVED, Staged.CLOSED], np.int8)


def _staged(columns: dict[str, pa.Array]) -> pa.RecordBatch:
    n = len(columns["kind"])
    arrays = [columns[field.name] if field.name in columns else pa.nulls(n, field.type) for field in STAGED]
    return pa.RecordBatch.from_arrays(arrays, schema=STAGED)


def _with_last(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """Yield each batch that has rows, and whether this batch is the last one."""
    before: pa.RecordBatch | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        if before is not None:
            yield before, False
        before = batch
    if before is not None:
        yield before, True


def find_offset_intervals(
    batches: Iterator[pa.RecordBatch], proofs: OffsetProofs = NOTHING_MISSING
) -> Iterator[pa.RecordBatch]:
    """Yield the time ranges in which offsets were current, and the pending commits.

    Args:
        batches: events with the columns of EVENTS, in the order of ``in_order``.
        proofs: for log partitions with missing records, the log offsets from which offsets are proven.

    Yields:
        Batches with the columns of STAGED.

    Raises:
        RuntimeError: the events of a key are not sorted; this is a fault of the program, not of the log.
    """
    carried: list[pa.RecordBatch] = []
    for batch, is_last in _with_last(batches):
        events = pa.RecordBatch.from_arrays(batch.columns, schema=EVENTS)
        followed = _Batch(pa.concat_batches([*carried, events]), proofs, is_last=is_last)
        carried = [followed.carry()]
        yield from (rows for rows in (*followed.history(), followed.pending()) if rows.num_rows)
