"""The state Unknown in pictures of a group.

The state of a group is Unknown in three cases:

- before the group's first record, if the group may have existed (``unknown_past``)
- after a hole (a time range in which records are missing), until the group's next record (``unknown_after_holes``)
- if the state on record is Empty or Dead, but the log does not prove this state (``with_unknown``)
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise

from coordinator_replay.completeness.past import LogPartition
from coordinator_replay.engine.model import GroupState
from coordinator_replay.query.groups import UNKNOWN
from coordinator_replay.query.tables import Tables
from coordinator_replay.report.life import FirstRecords, RecordAfterHole, StateBand


def unknown_past(
    warehouse: Tables,
    log_partition: int | None,
    first: FirstRecords,
    states: Sequence[StateBand],
    start: datetime,
    end: datetime,
) -> Sequence[StateBand]:
    """Return a state Unknown for each time range before a group's first record in which the group may have existed.

    Return an empty list if the log proves that the group did not exist, or if the start of the group's first state is
    unknown.

    Args:
        warehouse: the tables to read.
        log_partition: the group's log partition; None if unknown.
        first: time and log offset of the group's first record, and of its first record that is not an offset commit.
        states: the states on record.
        start: start of the shown time range.
        end: end of the shown time range.
    """
    partition = None if log_partition is None else warehouse.completeness.partitions.get(log_partition)
    own = [states[0].since] if states else []
    until = min(at for at in (*own, first.at, end) if at is not None)
    if partition is None or partition.is_whole or start >= until or None in own:
        return []
    return list(_unknown_bands(lambda at: _is_unknown_before(first, partition, at), partition, start, until))


def unknown_after_holes(
    warehouse: Tables,
    log_partition: int | None,
    after_holes: Sequence[RecordAfterHole],
    states: Sequence[StateBand],
    end: datetime,
) -> Iterator[StateBand]:
    """Yield the states of a group, and replace state Dead by Unknown where records are missing.

    After a hole (a time range without records), a group may have existed although its state on record is Dead. For such
    times, the state is Unknown.

    Args:
        warehouse: the tables to read.
        log_partition: the group's log partition; None if unknown.
        after_holes: for each hole, the group's first record after the hole.
        states: the states on record, in order of time.
        end: end of the time range that the picture shows.
    """
    partition = None if log_partition is None else warehouse.completeness.partitions.get(log_partition)
    by_time = {record.since: record for record in after_holes}
    for band in states:
        record = by_time.get(band.since) if band.since is not None and band.state == GroupState.DEAD else None
        if partition is None or record is None:
            yield band
        else:
            yield from _divided(band, record, partition, end)


def _divided(band: StateBand, record: RecordAfterHole, partition: LogPartition, end: datetime) -> Iterator[StateBand]:
    """Divide a state Dead into times with state Dead and times with state Unknown.

    The state is Unknown when the group may have existed, because records are missing.
    """
    since = record.since
    until = min(at for at in (band.until, record.at, end) if at is not None)
    if since < until:
        for unknown in _unknown_bands(lambda at: _is_unknown_after(record, partition, at), partition, since, until):
            if unknown.since is not None and since < unknown.since:
                yield band._replace(since=since, until=unknown.since)
            # The group's type stays as it is on record, so that a page of a classic group has generations.
            yield unknown._replace(group_type=band.group_type)
            since = unknown.until or until
    if band.until is None or since < band.until:
        yield band._replace(since=since)


def with_unknown(band: StateBand) -> StateBand:
    """Replace a state Empty or Dead by Unknown if the log does not prove the state. Return other states unchanged."""
    is_unknown = not band.is_exact and band.state in (GroupState.EMPTY, GroupState.DEAD)
    return band._replace(state=UNKNOWN) if is_unknown else band


def _unknown_bands(
    is_unknown: Callable[[datetime], bool], partition: LogPartition, start: datetime, until: datetime
) -> Iterator[StateBand]:
    since: datetime | None = None
    for at, end in pairwise(_moments(partition, start, until)):
        if is_unknown(at):
            since = at if since is None else since
            if end < until:
                continue
            yield _band(since, end)
        elif since is not None:
            yield _band(since, at)
            since = None


def _moments(partition: LogPartition, start: datetime, until: datetime) -> Sequence[datetime]:
    """Return the times in a time range at which ranges of the log without missing records begin or end.

    The first of the returned times is ``start``, the last is ``until``.
    """
    changes = {
        at
        for span in partition.ranges
        for at in (span.from_timestamp, span.to_timestamp, span.exact_from_timestamp)
        if at is not None and start < at < until
    }
    return [start, *sorted(changes), until]


def _is_unknown_before(first: FirstRecords, partition: LogPartition, at: datetime) -> bool:
    return not first.is_begin_exact or not partition.proves_absence(at, first.offset)


def _is_unknown_after(record: RecordAfterHole, partition: LogPartition, at: datetime) -> bool:
    proven_from = partition.proven_from(at)
    if proven_from is None or not partition.proves_absence(at, record.offset):
        return True
    return record.begin_open_offset is not None and record.begin_open_offset < partition.proven_to(proven_from)


def _band(since: datetime, until: datetime) -> StateBand:
    return StateBand(UNKNOWN, UNKNOWN, since, until, None, None, None, None, is_exact=False, is_logged=False)
