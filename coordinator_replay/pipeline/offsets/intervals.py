"""The compiled loop that turns commits, markers and tombstones of many keys into intervals of current offsets.

A key is a group, topic, partition and log partition. The loop applies the rules of ``engine.offsets`` to columns of
numbers, with one event in each row. In this module, the word *row* means the index of an event in these columns. For
each key, the loop keeps the row of the current offset (``stored``) and the rows of commits that wait for a marker.
"""

# The code is short because the first audit on a machine compiles it, and the compiler copies a function into each of
# its calls.

from enum import IntEnum
from typing import Any

import numpy as np

from coordinator_replay.compiled import compiled, inlined


class OffsetEvent(IntEnum):
    """Kinds of events.

    Kinds STATE to OWNER describe the group of a key. These events come before the other events of the key.

    Attributes:
        STATE: a state of the group.
        RULE: an expiry rule of the group's offsets.
        GROUP_TOMBSTONE: a tombstone of the group.
        OWNER: an ownership of the partition.
        OPEN_OFFSET: an offset that was already current at the first record of this run or chunk.
        WAITING: a transactional commit that already waited for its marker at the first record of this run or chunk.
        PLAIN: a commit without a transaction.
        TOMBSTONE: a tombstone of the offset.
        OPENED: a transactional commit. From now on it waits for its transaction marker.
        COMMITTED: the marker has committed a waiting commit.
        ABORTED: the marker has aborted a waiting commit.
        LOST: records are missing from here on, or the group moved to another log partition.
    """

    STATE = 0
    RULE = 1
    GROUP_TOMBSTONE = 2
    OWNER = 3
    OPEN_OFFSET = 4
    WAITING = 5
    PLAIN = 6
    TOMBSTONE = 7
    OPENED = 8
    COMMITTED = 9
    ABORTED = 10
    LOST = 11


class EventField(IntEnum):
    """Rows of the matrix of events, which has a column for each event.

    Attributes:
        KIND: the ``OffsetEvent``.
        AT_OFFSET: the log offset at which the event takes effect. For a commit that waits for a marker, the log offset
            of the key's first commit in the same transaction.
        AT_TIME: the time at AT_OFFSET.
        LOG_PARTITION: log partition of the event's record.
        LOG_OFFSET: log offset of the event's record.
        LOG_TIME: timestamp of the event's record.
        PRODUCER: producer id of a commit.
        UNTIL: the log offset at which the ownership of a partition ends.
        LOST_AT: the log offset from which on a commit is no longer proven to be current, because records are missing.
            LARGEST_INT64 if there is no such log offset.
    """

    KIND = 0
    AT_OFFSET = 1
    AT_TIME = 2
    LOG_PARTITION = 3
    LOG_OFFSET = 4
    LOG_TIME = 5
    PRODUCER = 6
    UNTIL = 7
    LOST_AT = 8


class End(IntEnum):
    """Reasons why an offset is no longer current, or why a commit no longer waits for a marker.

    Attributes:
        OPEN: the offset is still current, or the commit still waits.
        COMMIT: another offset became current. For a waiting commit: its marker committed it, and its offset became
            current.
        TOMBSTONE: a tombstone removed the offset, or the waiting commit.
        LOST: records are missing, or the group moved to another log partition.
        ABORT: the marker aborted the waiting commit.
        REPLACED: a later commit of the same producer replaced the waiting commit.
        SUPERSEDED: a marker committed the waiting commit, but a later commit was current already.
    """

    OPEN = 0
    COMMIT = 1
    TOMBSTONE = 2
    LOST = 3
    ABORT = 4
    REPLACED = 5
    SUPERSEDED = 6


class Outcome(IntEnum):
    """Rows of the matrix of outcomes, which has a column for each event.

    Attributes:
        END: how a commit stopped being current, or stopped waiting for its marker (``End``). NOWHERE if the commit was
            never current and never waited, and for events that are no commits.
        BY: the index of the event that caused END; NOWHERE while END is OPEN.
        SINCE: the time of the first commit of the key in the same transaction.
        SINCE_OFFSET: the log offset of this first commit.
        FIRST: for a commit whose key had no current offset before, the log offset of the first record from which the
            key may have an offset: the commit itself, or an earlier waiting commit. NOWHERE for other commits.
        IS_PROTECTED: 1 if other commits of the key waited for markers when the offset was replaced or removed (or at
            the end, if the offset is still current); otherwise 0.
    """

    END = 0
    BY = 1
    SINCE = 2
    SINCE_OFFSET = 3
    FIRST = 4
    IS_PROTECTED = 5


NOWHERE = -1
"""Number in place of a row or offset that does not exist."""
UNKNOWN = np.iinfo(np.int64).min
"""Number in place of the time of a record that has no time."""


@inlined
def _first(events: Any, outcome: Any, waiting: Any, count: Any, row: Any) -> Any:
    """Return the first log offset at which a key may have had a committed offset, although none is on record.

    This is the log offset of the event at ``row``, or of an earlier commit that still waits for its marker.
    """
    first = min(events[EventField.LOG_OFFSET, row], events[EventField.AT_OFFSET, row])
    for place in range(count):
        first = min(first, outcome[Outcome.SINCE_OFFSET, waiting[place]])
    return first


@inlined
def _end_of_current(events: Any, waiting: Any, count: Any, stored: Any, row: Any) -> Any:
    """Return why the event at ``row`` ends the current offset; NOWHERE if the offset stays current.

    For a commit or a tombstone, return COMMIT or TOMBSTONE even if no offset was current.
    """
    kind = events[EventField.KIND, row]
    if kind == OffsetEvent.PLAIN or kind == OffsetEvent.OPEN_OFFSET:
        return End.COMMIT
    if kind == OffsetEvent.TOMBSTONE:
        return End.TOMBSTONE
    if kind == OffsetEvent.LOST:
        is_lost = stored != NOWHERE and events[EventField.LOST_AT, stored] <= events[EventField.AT_OFFSET, row]
        return End.LOST if is_lost else NOWHERE
    if kind == OffsetEvent.COMMITTED:
        offset = events[EventField.LOG_OFFSET, row]
        for place in range(count):
            is_own = events[EventField.PRODUCER, waiting[place]] == events[EventField.PRODUCER, row]
            is_own = is_own and events[EventField.LOG_OFFSET, waiting[place]] == offset
            # If the current offset has a later record, the commit does not replace it.
            if is_own and (stored == NOWHERE or offset > events[EventField.LOG_OFFSET, stored]):
                return End.COMMIT
    return NOWHERE


@inlined
def _end_of_waiting(events: Any, other: Any, stored: Any, row: Any) -> Any:
    """Return why a commit no longer waits for its marker after an event; NOWHERE if it still waits.

    Args:
        events: the matrix of events.
        other: the index of the commit.
        stored: the index of the offset that is current now.
        row: the index of the event.
    """
    kind = events[EventField.KIND, row]
    if kind == OffsetEvent.TOMBSTONE:
        return End.TOMBSTONE
    if kind == OffsetEvent.LOST:
        # The transaction ended among the missing records. Nothing shows when, and whether it was committed.
        return End.LOST if events[EventField.LOST_AT, other] <= events[EventField.AT_OFFSET, row] else NOWHERE
    if kind == OffsetEvent.PLAIN or kind == OffsetEvent.OPEN_OFFSET:
        return NOWHERE
    if events[EventField.PRODUCER, other] != events[EventField.PRODUCER, row]:
        return NOWHERE
    if kind == OffsetEvent.OPENED or kind == OffsetEvent.WAITING:
        return End.REPLACED
    if events[EventField.LOG_OFFSET, other] != events[EventField.LOG_OFFSET, row]:
        return NOWHERE
    if kind == OffsetEvent.ABORTED:
        return End.ABORT
    return End.COMMIT if stored == row else End.SUPERSEDED


@inlined
def _end_stored(events: Any, outcome: Any, waiting: Any, count: Any, stored: Any, row: Any) -> Any:
    """Apply an event to the current offset of a key. If the event ends the offset, write this to ``outcome``.

    Returns:
        The index of the offset that is current after the event (NOWHERE if there is none), and whether the event
        changed the current offset.
    """
    end = _end_of_current(events, waiting, count, stored, row)
    if end == NOWHERE:
        return stored, False
    if stored != NOWHERE:
        outcome[Outcome.END, stored], outcome[Outcome.BY, stored] = end, row
        outcome[Outcome.IS_PROTECTED, stored] = count > 0
    return (row if end == End.COMMIT else NOWHERE), True


@inlined
def _end_waiting(events: Any, outcome: Any, waiting: Any, count: Any, stored: Any, row: Any) -> Any:
    """Apply an event of a key to the key's commits that wait for their transaction markers.

    If a commit no longer waits after the event, write this to ``outcome`` and remove the commit from ``waiting``.

    Returns:
        The number of commits that still wait. Then, the time and log offset of the first commit of the key in the
        event's transaction.
    """
    since, since_offset = events[EventField.AT_TIME, row], events[EventField.AT_OFFSET, row]
    kept = 0
    for place in range(count):
        other = waiting[place]
        end = _end_of_waiting(events, other, stored, row)
        if end == NOWHERE:
            waiting[kept] = other
            kept += 1
            continue
        outcome[Outcome.END, other], outcome[Outcome.BY, other] = end, row
        if end == End.REPLACED:
            since, since_offset = outcome[Outcome.SINCE, other], outcome[Outcome.SINCE_OFFSET, other]
    return kept, since, since_offset


@compiled
def find_intervals(events: Any, begins: Any, outcome: Any, waiting: Any) -> Any:
    """Process the events of all keys, and fill ``outcome`` and ``waiting``.

    Args:
        events: int64 matrix with a row for each ``EventField`` and a column for each event.
        begins: for each event, whether it is the first of its key.
        outcome: int64 matrix to fill, with a row for each ``Outcome`` and a column for each event. The caller sets row
            END to NOWHERE for all events.
        waiting: working memory with room for the indexes of all events. Afterwards, its first entries are the indexes
            of commits that still wait for a transaction marker after the last event.

    Returns:
        The index of the event whose offset is current after the last event, and the number of commits that still wait.
        The index is NOWHERE if no offset is current.
    """
    stored, count, is_seen = NOWHERE, 0, False
    for row in range(events.shape[1]):
        if begins[row]:
            if stored != NOWHERE:
                outcome[Outcome.IS_PROTECTED, stored] = count > 0
            stored, count, is_seen = NOWHERE, 0, False
        kind = events[EventField.KIND, row]
        if kind <= OffsetEvent.OWNER:
            continue
        first = NOWHERE if is_seen else _first(events, outcome, waiting, count, row)
        stored, has_decided = _end_stored(events, outcome, waiting, count, stored, row)
        count, since, since_offset = _end_waiting(events, outcome, waiting, count, stored, row)
        waits = kind == OffsetEvent.OPENED or kind == OffsetEvent.WAITING
        if waits:
            waiting[count] = row
            count += 1
        if waits or stored == row:
            outcome[Outcome.END, row], outcome[Outcome.BY, row], outcome[Outcome.FIRST, row] = End.OPEN, NOWHERE, first
            outcome[Outcome.SINCE, row], outcome[Outcome.SINCE_OFFSET, row] = since, since_offset
        if has_decided or kind == OffsetEvent.LOST:
            is_seen = kind == OffsetEvent.TOMBSTONE or stored != NOWHERE
    if stored != NOWHERE:
        outcome[Outcome.IS_PROTECTED, stored] = count > 0
    return stored, count
