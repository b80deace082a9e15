"""Changes of the coordinator of a partition of ``__consumer_offsets``: one for each leader epoch.

The controller's records have the leader and the time of each election. The batches of the log have the leader epoch.
Brokers' logs say which broker loaded the partition, and for how long. An audit may have only some of these sources.
Each row names the sources of its facts.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from coordinator_replay.analysis.broker_logs.lines import SLACK_MS

CLUSTER_METADATA, BROKER_LOG, RECORDS = "cluster_metadata", "broker_log", "records"
"""Sources of a change; the leader is taken from the first source that has it."""

NO_LEADER = -1

_ELECTED = ("COORDINATOR_ELECTED", "LOADING_SCHEDULED")
_LOADED, _UNLOADED = "LOADING_FINISHED", "UNLOADING_FINISHED"
EVENTS = frozenset({*_ELECTED, _LOADED, _UNLOADED})
"""Kinds of lines of brokers' logs about a change."""


Key = tuple[int, int]
"""A log partition and a leader epoch."""

FirstRecord = tuple[int, int | None]
"""Offset and time, in milliseconds, of the first record of a leader epoch."""


class LeaderChange(NamedTuple):
    """A change of the leader of a log partition, from the controller's records.

    Attributes:
        leader: id of the broker; -1 if there is no leader.
        at_ms: time of the election; None if only a snapshot of the cluster metadata has the leader.
        is_unclean: whether the broker was elected although it was not in sync.
    """

    log_partition: int
    leader_epoch: int
    leader: int
    at_ms: int | None
    is_unclean: bool


class CoordinatorLine(NamedTuple):
    """A line of a broker's log about a log partition, see table ``broker_log``."""

    log_partition: int
    leader_epoch: int
    logged_ms: int
    event: str
    broker: int
    duration_ms: int | None

    @property
    def began_ms(self) -> int:
        """Return when the reported loading or unloading began."""
        return self.logged_ms - (self.duration_ms or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorChange:
    """A row of table ``coordinator_changes``. Times are in milliseconds since 1970.

    Fields that are not described here are as in the table.

    Attributes:
        elected_at: time of the election. If it is not on record, the time of a line of the new leader's log, or of the
            first record of the leader epoch.
        is_exact: whether ``elected_at`` is the time of the election.
        broker: the new leader; NO_LEADER if the partition has no leader, None if no source names it.
        unloaded_at: time at which the previous leader had finished unloading the partition from its memory.
    """

    log_partition: int
    leader_epoch: int
    elected_at: int | None = None
    is_exact: bool = False
    broker: int | None = None
    is_unclean: bool | None = None
    loaded_at: int | None = None
    loading_ms: int | None = None
    unloaded_at: int | None = None
    first_log_offset: int | None = None
    first_log_timestamp: int | None = None
    sources: Sequence[str] = ()

    def of(self, source: str) -> bool:
        """Return whether a source has facts of the change."""
        return source in self.sources


def coordinator_changes(
    earlier: Iterable[CoordinatorChange],
    batches: Mapping[Key, FirstRecord],
    elections: Iterable[LeaderChange],
    lines: Iterable[CoordinatorLine],
    lost_from: Mapping[int, int],
    ends_ms: Mapping[int, int],
) -> list[CoordinatorChange]:
    """Return all changes on record, by log partition and leader epoch.

    The result does not depend on the order in which runs read the sources.

    Args:
        earlier: the changes in the table.
        batches: the first records of leader epochs.
        elections: elections in the controller's records.
        lines: all lines of brokers' logs about changes.
        lost_from: the first log offset that was lost at an election, by log partition.
        ends_ms: the latest time of a record, in milliseconds, by log partition.
    """
    elected: dict[Key, LeaderChange] = {}
    firsts: dict[Key, FirstRecord] = dict(batches)
    rows = list(earlier)
    for election in (*elections, *filter(None, map(_election, rows))):
        key = election.log_partition, election.leader_epoch
        elected[key] = min(elected.get(key, election), election, key=_precedence)
    for row in rows:
        # A row also has facts from brokers' logs. They are derived again, because all lines are given.
        lost = lost_from.get(row.log_partition)
        if row.first_log_offset is not None and (lost is None or row.first_log_offset < lost):
            key, first = (row.log_partition, row.leader_epoch), (row.first_log_offset, row.first_log_timestamp)
            firsts[key] = min(firsts.get(key, first), first, key=itemgetter(0))
    recorded: dict[int, dict[int, int | None]] = defaultdict(dict)
    for log_partition, epoch in {**elected, **firsts}:
        recorded[log_partition][epoch] = firsts.get((log_partition, epoch), (None, None))[1]
    logged: dict[Key, list[CoordinatorLine]] = defaultdict(list)
    for line in lines:
        if _agrees(line, recorded[line.log_partition], ends_ms.get(line.log_partition, 0)):
            logged[line.log_partition, line.leader_epoch].append(line)
    ordered: list[CoordinatorChange] = []
    for _, keys in groupby(sorted({*elected, *firsts, *logged}), key=itemgetter(0)):
        before: int | None = None
        for key in keys:
            by_records = _by_records(key, elected.get(key), firsts.get(key))
            change = _with_lines(by_records, sorted(logged.get(key, ())), before)
            if change.sources:
                ordered.append(change)
                before = change.broker if change.broker not in (None, NO_LEADER) else before
    return ordered


def _agrees(line: CoordinatorLine, recorded: Mapping[int, int | None], end_ms: int) -> bool:
    """Return whether a line of a broker's log can be true, given the records of its log partition.

    The time of the line must fit the order of leader epochs in the log. If the log has records after the time of the
    line, one of them must have the leader epoch in the line or a higher one.

    Args:
        line: the line to check.
        recorded: for each leader epoch, the time of its first record; None if only the controller's records have it.
        end_ms: the time of the last record.
    """
    firsts = [(epoch, at) for epoch, at in recorded.items() if at is not None]
    is_over = any(epoch >= line.leader_epoch and at < line.began_ms - SLACK_MS for epoch, at in firsts)
    is_ahead = any(epoch < line.leader_epoch and at > line.began_ms + SLACK_MS for epoch, at in firsts)
    is_unknown = bool(firsts) and line.leader_epoch > max(recorded)
    return not (is_over or is_ahead or (is_unknown and end_ms > line.began_ms + SLACK_MS))


def _precedence(election: LeaderChange) -> tuple[bool, int, int]:
    """Return a key that sorts the elections of one leader epoch by time, elections without a time last.

    If only a snapshot of the cluster metadata shows an election, the election has no time.
    """
    return election.at_ms is None, election.at_ms or 0, election.leader


def _election(row: CoordinatorChange) -> LeaderChange | None:
    """Return the election in a row of the table ``coordinator_changes``.

    Return None if the row does not come from the controller's records.
    """
    if not row.of(CLUSTER_METADATA) or row.broker is None:
        return None
    at_ms = None if row.is_unclean is None else row.elected_at
    return LeaderChange(row.log_partition, row.leader_epoch, row.broker, at_ms, bool(row.is_unclean))


def _by_records(key: Key, elected: LeaderChange | None, first: FirstRecord | None) -> CoordinatorChange:
    """Return a change of the coordinator as the records show it.

    Args:
        key: log partition and leader epoch.
        elected: the election, from the controller's records; None if they lack it.
        first: the first record of the leader epoch in the log partition; None if it is not on record.
    """
    has_time = elected is not None and elected.at_ms is not None
    offset, at_ms = (None, None) if first is None else first
    return CoordinatorChange(
        log_partition=key[0],
        leader_epoch=key[1],
        elected_at=elected.at_ms if elected is not None and has_time else at_ms,
        is_exact=has_time,
        broker=None if elected is None else elected.leader,
        is_unclean=elected.is_unclean if elected is not None and has_time else None,
        first_log_offset=offset,
        first_log_timestamp=at_ms,
        sources=tuple(name for name, source in ((CLUSTER_METADATA, elected), (RECORDS, first)) if source is not None),
    )


def _with_lines(change: CoordinatorChange, lines: Sequence[CoordinatorLine], before: int | None) -> CoordinatorChange:
    """Return a change of the coordinator, with the facts of brokers' logs added.

    Args:
        change: the change as the records alone show it.
        lines: lines about the change's leader epoch, by time.
        before: the broker that led the partition before the change.
    """
    brokers = {line.broker for line in lines if line.event != _UNLOADED}
    if change.broker is not None:
        brokers &= {change.broker}
    unloaded = _first(lines, (_UNLOADED,), {before} if before is not None else set())
    if len(brokers) != 1:
        # If two brokers log that they lead the partition, one line is wrong.
        return change if unloaded is None else _and_log(replace(change, unloaded_at=unloaded.logged_ms))
    elected, loaded = _first(lines, _ELECTED, brokers), _first(lines, (_LOADED,), brokers)
    since = elected or loaded
    return _and_log(
        replace(
            change,
            elected_at=since.logged_ms if since is not None and not change.is_exact else change.elected_at,
            is_exact=change.is_exact or elected is not None,
            broker=min(brokers),
            loaded_at=None if loaded is None else loaded.logged_ms,
            loading_ms=None if loaded is None else loaded.duration_ms,
            unloaded_at=None if unloaded is None else unloaded.logged_ms,
        )
    )


def _first(
    lines: Iterable[CoordinatorLine], events: Collection[str], brokers: Collection[int | None]
) -> CoordinatorLine | None:
    return next((line for line in lines if line.event in events and line.broker in brokers), None)


def _and_log(change: CoordinatorChange) -> CoordinatorChange:
    return replace(change, sources=tuple(sorted({*change.sources, BROKER_LOG}, key=_SOURCES.index)))


_SOURCES = (CLUSTER_METADATA, BROKER_LOG, RECORDS)


def row_of(change: CoordinatorChange) -> dict[str, Any]:
    """Return a change as a row of the table."""
    return {**{name: getattr(change, name) for name in COLUMNS}, "sources": list(change.sources)}


COLUMNS: Sequence[str] = tuple(CoordinatorChange.__dataclass_fields__)
"""The columns of the table, except the cluster."""
