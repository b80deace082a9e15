"""The compiled loop that turns commits, markers and tombstones of many keys into intervals of current offsets.

It has the same rules as ``engine.offsets``, over columns of numbers: a row is an index, and everything else about it
stays in Arrow. The state of a key (group, topic, partition, log partition) is the stored row and the rows that wait for
a marker. The context for look-ups comes before a key's own events: states and expiry rules at the group's beginning,
owners at the beginning of a group's topic and partition.
"""

from enum import IntEnum
from typing import Any

import numpy as np

from coordinator_replay.compiled import compiled, inlined
from coordinator_replay.int64 import LARGEST_INT64


class OffsetEvent(IntEnum):
    """Kinds of rows; a key's context comes before its events."""

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
    """Rows of the matrix of events.

    If a commit waits for a marker, AT is the offset at which its transaction first touched the key. UNTIL is the log
    offset of an ownership's end. LOST_AT is the log offset from which a commit is not proven to be current: records
    begin to be missing there, and a newer dump lacks the commit's record. LARGEST_INT64 means none.
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


class Begin(IntEnum):
    """Levels that begin at a row; each includes the levels before it."""

    NOTHING = 0
    KEY = 1
    CONSUMED = 2
    GROUP = 3


class Lookup(IntEnum):
    """Rows of the matrix of look-ups at commits: indices of OWNER and STATE rows, NOWHERE or NO_STATES.

    FIRST is the offset of the first record of the commit's key: the commit itself, or a commit that waits for a marker.
    It is NOWHERE if an offset was in force before.
    """

    OWNER = 0
    STATE = 1
    FIRST = 2


class Interval(IntEnum):
    """Rows of the matrix of intervals; the rows after END are about expiry at the interval's end."""

    ROW = 0
    NEXT = 1
    END = 2
    IS_PROTECTED = 3
    RULE = 4
    LAST_OWNER = 5
    LAST_STATE = 6


class End(IntEnum):
    """Ends of intervals."""

    OPEN = 0
    COMMIT = 1
    TOMBSTONE = 2
    LOST = 3


class Wait(IntEnum):
    """Rows of the matrix of pending commits."""

    ROW = 0
    BY = 1
    HOW = 2
    SINCE = 3
    SINCE_OFFSET = 4


class PendingEnd(IntEnum):
    """Ends of pending commits."""

    OPEN = 0
    COMMIT = 1
    ABORT = 2
    TOMBSTONE = 3
    REPLACED = 4
    SUPERSEDED = 5
    LOST = 6


class _At(IntEnum):
    """Indices of the loop's memory."""

    STORED = 0
    WAITING = 1
    STATES = 2
    STATES_END = 3
    RULES = 4
    RULES_END = 5
    OWNERS = 6
    OWNERS_END = 7
    INTERVALS = 8
    WAITS = 9
    IS_SEEN = 10


PLACES = len(_At)
"""Size of the loop's memory."""
_STATES, _RULES, _OWNERS = int(_At.STATES), int(_At.RULES), int(_At.OWNERS)
NOWHERE = -1
"""No such row."""
NO_STATES = -2
"""The group has no states at all."""
UNKNOWN = np.iinfo(np.int64).min
"""The time of a record without one."""


@inlined
def _last_at(events: Any, by: Any, then_by: Any, start: Any, end: Any, first: Any, second: Any) -> Any:
    """Return the last row of a range, sorted by two fields, that is at or before two values.

    ``start - 1`` if none is.
    """
    low, high = start, end
    while low < high:
        middle = (low + high) // 2
        value = events[by, middle]
        if value < first or (value == first and events[then_by, middle] <= second):
            low = middle + 1
        else:
            high = middle
    return low - 1


@inlined
def _owner(events: Any, memory: Any, offset: Any) -> Any:
    """Return the last row at or before a log offset that names an owner; NOWHERE if none does."""
    start = memory[_At.OWNERS]
    row = _last_at(events, EventField.AT_OFFSET, EventField.UNTIL, start, memory[_At.OWNERS_END], offset, LARGEST_INT64)
    return row if row >= start else NOWHERE


@inlined
def _state(events: Any, memory: Any, offset: Any) -> Any:
    """Return the last row at or before a log offset that names the group's state; NO_STATES if the group has none."""
    start, end = memory[_At.STATES], memory[_At.STATES_END]
    if start == end:
        return NO_STATES
    row = _last_at(events, EventField.AT_OFFSET, EventField.LOG_OFFSET, start, end, offset, LARGEST_INT64)
    return row if row >= start else NOWHERE


@inlined
def _first(events: Any, memory: Any, waiting: Any, row: Any) -> Any:
    """Return the position of the first record of a key without an offset in force: a commit, or a pending one."""
    if memory[_At.IS_SEEN]:
        return NOWHERE
    first = min(events[EventField.LOG_OFFSET, row], events[EventField.AT_OFFSET, row])
    for place in range(memory[_At.WAITING]):
        first = min(first, waiting[2, place])
    return first


@inlined
def _look_up(events: Any, lookups: Any, memory: Any, waiting: Any, row: Any) -> Any:
    """Look up the owner of the partition and the group's state at a commit's own record."""
    offset = events[EventField.LOG_OFFSET, row]
    owner = _owner(events, memory, offset)
    if owner != NOWHERE and events[EventField.UNTIL, owner] <= offset:
        owner = NOWHERE
    lookups[Lookup.OWNER, row] = owner
    lookups[Lookup.STATE, row] = _state(events, memory, offset)
    lookups[Lookup.FIRST, row] = _first(events, memory, waiting, row)


@inlined
def _end(events: Any, memory: Any, intervals: Any, by: Any, end: Any) -> Any:
    """End the stored offset, if there is one; for a tombstone and at the end, with facts on expiry."""
    row = memory[_At.STORED]
    if row == NOWHERE:
        return
    memory[_At.STORED] = NOWHERE
    n = memory[_At.INTERVALS]
    memory[_At.INTERVALS] = n + 1
    intervals[Interval.ROW, n] = row
    intervals[Interval.NEXT, n] = by
    intervals[Interval.END, n] = end
    if end == End.TOMBSTONE or end == End.OPEN:
        intervals[Interval.IS_PROTECTED, n] = memory[_At.WAITING] > 0
        _note_expiry(events, memory, intervals, n, row, by)


@inlined
def _note_expiry(events: Any, memory: Any, intervals: Any, n: Any, row: Any, by: Any) -> Any:
    """Note the rule in force, the last owner and the state at a tombstone, or at the end."""
    partition = events[EventField.LOG_PARTITION, row]
    offset = events[EventField.AT_OFFSET, by] if by != NOWHERE else LARGEST_INT64
    start, end = memory[_At.RULES], memory[_At.RULES_END]
    rule = _last_at(events, EventField.LOG_PARTITION, EventField.AT_OFFSET, start, end, partition, offset)
    has_rule = rule >= start and events[EventField.LOG_PARTITION, rule] == partition
    intervals[Interval.RULE, n] = rule if has_rule else NOWHERE
    intervals[Interval.LAST_OWNER, n] = _owner(events, memory, offset)
    intervals[Interval.LAST_STATE, n] = _state(events, memory, offset)


@inlined
def _settle(memory: Any, waiting: Any, waits: Any, place: Any, by: Any, how: Any) -> Any:
    """Note how the commit that waits in a place ended."""
    n = memory[_At.WAITS]
    memory[_At.WAITS] = n + 1
    waits[Wait.ROW, n] = waiting[0, place]
    waits[Wait.BY, n] = by
    waits[Wait.HOW, n] = how
    waits[Wait.SINCE, n] = waiting[1, place]
    waits[Wait.SINCE_OFFSET, n] = waiting[2, place]


@inlined
def _settle_all(memory: Any, waiting: Any, waits: Any, by: Any, how: Any) -> Any:
    for place in range(memory[_At.WAITING]):
        _settle(memory, waiting, waits, place, by, how)
    memory[_At.WAITING] = 0


@inlined
def _wait(events: Any, memory: Any, waiting: Any, waits: Any, row: Any) -> Any:
    """Let a commit of a producer wait, in place of the same producer's earlier one."""
    since, since_offset = events[EventField.AT_TIME, row], events[EventField.AT_OFFSET, row]
    place = memory[_At.WAITING]
    for other in range(memory[_At.WAITING]):
        if events[EventField.PRODUCER, waiting[0, other]] == events[EventField.PRODUCER, row]:
            _settle(memory, waiting, waits, other, row, PendingEnd.REPLACED)
            place, since, since_offset = other, waiting[1, other], waiting[2, other]
    memory[_At.WAITING] = max(memory[_At.WAITING], place + 1)
    waiting[0, place] = row
    waiting[1, place] = since
    waiting[2, place] = since_offset


@inlined
def _mark(events: Any, memory: Any, waiting: Any, intervals: Any, waits: Any, row: Any) -> Any:
    """End the transaction of a commit by its marker, unless something else has ended it."""
    for place in range(memory[_At.WAITING]):
        opened = waiting[0, place]
        if events[EventField.PRODUCER, opened] != events[EventField.PRODUCER, row]:
            continue
        if events[EventField.LOG_OFFSET, opened] != events[EventField.LOG_OFFSET, row]:
            continue
        stored = memory[_At.STORED]
        how = PendingEnd.ABORT
        if events[EventField.KIND, row] == OffsetEvent.COMMITTED:
            how = PendingEnd.SUPERSEDED
            if stored == NOWHERE or events[EventField.LOG_OFFSET, row] > events[EventField.LOG_OFFSET, stored]:
                how = PendingEnd.COMMIT
                _end(events, memory, intervals, row, End.COMMIT)
                memory[_At.STORED] = row
                memory[_At.IS_SEEN] = 1
        _settle(memory, waiting, waits, place, row, how)
        last = memory[_At.WAITING] - 1
        for part in range(3):
            waiting[part, place] = waiting[part, last]
        memory[_At.WAITING] = last
        return


@inlined
def _lose(events: Any, memory: Any, waiting: Any, intervals: Any, waits: Any, row: Any) -> Any:
    """Apply the event for missing records: a newer dump lacks records that were replaced, removed or aborted."""
    at = events[EventField.AT_OFFSET, row]
    stored = memory[_At.STORED]
    if stored != NOWHERE and events[EventField.LOST_AT, stored] <= at:
        _end(events, memory, intervals, row, End.LOST)
    kept = 0
    for place in range(memory[_At.WAITING]):
        if events[EventField.LOST_AT, waiting[0, place]] <= at:
            # The earlier record is still there, so the commit never came into force: the cleaner would have removed the
            # earlier one.
            how = PendingEnd.ABORT if memory[_At.STORED] != NOWHERE else PendingEnd.LOST
            _settle(memory, waiting, waits, place, row, how)
        else:
            for part in range(3):
                waiting[part, kept] = waiting[part, place]
            kept += 1
    memory[_At.WAITING] = kept
    memory[_At.IS_SEEN] = 1 if memory[_At.STORED] != NOWHERE else 0


@inlined
def _extend_context(memory: Any, first: Any, row: Any) -> Any:
    """Let a range of context rows end after a row; ``first`` is the index of its beginning in memory."""
    if memory[first] == memory[first + 1]:
        memory[first] = row
    memory[first + 1] = row + 1


@inlined
def _take_context(events: Any, lookups: Any, memory: Any, waiting: Any, row: Any) -> Any:
    kind = events[EventField.KIND, row]
    if kind == OffsetEvent.STATE:
        _extend_context(memory, _STATES, row)
    elif kind == OffsetEvent.OWNER:
        _extend_context(memory, _OWNERS, row)
    elif kind < OffsetEvent.OWNER:
        _extend_context(memory, _RULES, row)
    else:
        lookups[Lookup.OWNER, row] = row
        lookups[Lookup.STATE, row] = row
        lookups[Lookup.FIRST, row] = _first(events, memory, waiting, row)


@inlined
def _apply(events: Any, memory: Any, waiting: Any, intervals: Any, waits: Any, row: Any) -> Any:
    kind = events[EventField.KIND, row]
    if kind == OffsetEvent.LOST:
        _lose(events, memory, waiting, intervals, waits, row)
        return
    if kind == OffsetEvent.PLAIN or kind == OffsetEvent.OPEN_OFFSET:
        _end(events, memory, intervals, row, End.COMMIT)
        memory[_At.STORED] = row
    elif kind == OffsetEvent.TOMBSTONE:
        _end(events, memory, intervals, row, End.TOMBSTONE)
        _settle_all(memory, waiting, waits, row, PendingEnd.TOMBSTONE)
    elif kind == OffsetEvent.OPENED or kind == OffsetEvent.WAITING:
        _wait(events, memory, waiting, waits, row)
    elif kind > OffsetEvent.OPENED:
        _mark(events, memory, waiting, intervals, waits, row)
    if kind == OffsetEvent.PLAIN or kind == OffsetEvent.OPEN_OFFSET or kind == OffsetEvent.TOMBSTONE:
        memory[_At.IS_SEEN] = 1


@inlined
def _close(events: Any, memory: Any, waiting: Any, intervals: Any, waits: Any) -> Any:
    """End a key; its stored offset and waiting commits stay open."""
    _end(events, memory, intervals, NOWHERE, End.OPEN)
    _settle_all(memory, waiting, waits, NOWHERE, PendingEnd.OPEN)


@inlined
def _carry(memory: Any, waiting: Any, carried: Any) -> Any:
    """Write down the state of the last key: its context, the stored row, the waiting rows and since when they wait."""
    n = 0
    for first in (_STATES, _RULES, _OWNERS):
        for row in range(memory[first], memory[first + 1]):
            carried[0, n], carried[1, n], carried[2, n] = row, UNKNOWN, NOWHERE
            n += 1
    if memory[_At.STORED] != NOWHERE:
        carried[0, n], carried[1, n], carried[2, n] = memory[_At.STORED], UNKNOWN, NOWHERE
        n += 1
    for place in range(memory[_At.WAITING]):
        for part in range(3):
            carried[part, n] = waiting[part, place]
        n += 1
    return n


@compiled
def find_intervals(
    events: Any,
    begins: Any,
    is_last: Any,
    lookups: Any,
    intervals: Any,
    waits: Any,
    carried: Any,
    memory: Any,
    waiting: Any,
) -> Any:
    """Follow the events of all keys.

    Args:
        events: int64 matrix of ``EventField`` by row.
        begins: ``Begin`` of each row.
        is_last: whether the last key ends with the last row.
        lookups: to be filled, ``Lookup`` by row.
        intervals: to be filled, ``Interval`` by interval; as long as there are rows.
        waits: to be filled, ``Wait`` by pending commit; as long as there are rows.
        carried: to be filled with the rows of the last key's state, and since when waiting rows wait.
        memory: ``PLACES`` zeros to work with.
        waiting: as ``carried`` with room for one more, to work with.

    Returns:
        The numbers of intervals, pending commits and carried rows, and the first row that is out of order.
    """
    n = events.shape[1]
    memory[_At.STORED] = NOWHERE
    for row in range(n):
        if begins[row] != Begin.NOTHING:
            _close(events, memory, waiting, intervals, waits)
            memory[_At.IS_SEEN] = 0
            if begins[row] == Begin.GROUP:
                memory[_At.STATES] = memory[_At.STATES_END] = row
                memory[_At.RULES] = memory[_At.RULES_END] = row
            if begins[row] >= Begin.CONSUMED:
                memory[_At.OWNERS] = memory[_At.OWNERS_END] = row
        elif events[EventField.KIND, row - 1] > OffsetEvent.OWNER and (
            events[EventField.AT_OFFSET, row] < events[EventField.AT_OFFSET, row - 1]
        ):
            return 0, 0, 0, row
        if events[EventField.KIND, row] <= OffsetEvent.WAITING:
            _take_context(events, lookups, memory, waiting, row)
        else:
            _look_up(events, lookups, memory, waiting, row)
        _apply(events, memory, waiting, intervals, waits, row)
    kept = 0
    if is_last:
        _close(events, memory, waiting, intervals, waits)
    else:
        kept = _carry(memory, waiting, carried)
    return memory[_At.INTERVALS], memory[_At.WAITS], kept, NOWHERE
