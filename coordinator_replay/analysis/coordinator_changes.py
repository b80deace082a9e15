"""Changes of the coordinator of a partition of ``__consumer_offsets``: one for each leader epoch.

The controller's records have the leader and the time of each election, the batches of the log the leader epoch that
they were written under, and the brokers' logs who loaded the partition, and for how long. Each may be missing: a change
has what there is, and says where it is from.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, NamedTuple

from coordinator_replay.analysis.broker_words import SLACK_MS

CLUSTER_METADATA, BROKER_LOG, RECORDS = "cluster_metadata", "broker_log", "records"
"""Where a change is from; who led the partition since comes from the first of these that has it."""

NO_LEADER = -1

_ELECTED = ("COORDINATOR_ELECTED", "LOADING_SCHEDULED")
_LOADED, _UNLOADED = "LOADING_FINISHED", "UNLOADING_FINISHED"
EVENTS = frozenset({*_ELECTED, _LOADED, _UNLOADED})
"""Kinds of lines of brokers' logs that say something about a change."""


class LeaderChange(NamedTuple):
    """A leader that the controller has made.

    Attributes:
        leader: id of the broker; -1 for none.
        at_ms: when; None where only a snapshot has it.
        is_unclean: whether it was elected though it was not in sync.
    """

    log_partition: int
    leader_epoch: int
    leader: int
    at_ms: int | None
    is_unclean: bool


class CoordinatorLine(NamedTuple):
    """A line of a broker's log about a partition, see table ``broker_log``."""

    log_partition: int
    leader_epoch: int
    logged_ms: int
    event: str
    broker: int
    duration_ms: int | None

    @property
    def began_ms(self) -> int:
        """When what it says the end of began."""
        return self.logged_ms - (self.duration_ms or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorChange:
    """A row of table ``coordinator_changes``; times in milliseconds since 1970."""

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
        """Whether it is from a source."""
        return source in self.sources


def coordinator_changes(
    earlier: Iterable[CoordinatorChange],
    batches: Mapping[tuple[int, int], tuple[int, int | None]],
    elections: Iterable[LeaderChange],
    lines: Iterable[CoordinatorLine],
    lost_from: Mapping[int, int],
    ends_ms: Mapping[int, int],
) -> list[CoordinatorChange]:
    """All changes on record, in order: the same for the same sources, in whatever order runs have read them.

    Args:
        earlier: as the table has them.
        batches: offset and time, in milliseconds, of the first record by log partition and leader epoch.
        elections: of the controller's records.
        lines: all that the brokers' logs have.
        lost_from: the first offset that was lost at an election, by log partition.
        ends_ms: the latest time of a record, in milliseconds, by log partition.
    """
    changes: dict[tuple[int, int], CoordinatorChange] = {}

    def take(change: CoordinatorChange) -> None:
        key = change.log_partition, change.leader_epoch
        changes[key] = change if key not in changes else _merged(changes[key], change)

    for one in earlier:
        for part in _parts(one, lost_from):
            take(part)
    for election in elections:
        take(_elected(election))
    for (log_partition, epoch), (offset, at_ms) in batches.items():
        take(_written(log_partition, epoch, offset, at_ms))
    of_change = _agreeing(lines, changes, ends_ms)
    ordered: list[CoordinatorChange] = []
    for _, keys in groupby(sorted({*changes, *of_change}), key=lambda key: key[0]):
        before: int | None = None
        for key in keys:
            by_records = changes.get(key, CoordinatorChange(log_partition=key[0], leader_epoch=key[1]))
            change = _with_lines(by_records, sorted(of_change.get(key, ())), before)
            if change.sources:
                ordered.append(change)
                before = change.broker if change.broker not in (None, NO_LEADER) else before
    return ordered


def _agreeing(
    lines: Iterable[CoordinatorLine], changes: Mapping[tuple[int, int], CoordinatorChange], ends_ms: Mapping[int, int]
) -> Mapping[tuple[int, int], list[CoordinatorLine]]:
    """Lines that no record contradicts, by log partition and leader epoch."""
    recorded: dict[int, dict[int, int | None]] = defaultdict(dict)
    for (log_partition, epoch), one in changes.items():
        recorded[log_partition][epoch] = one.first_log_timestamp
    of_change: dict[tuple[int, int], list[CoordinatorLine]] = defaultdict(list)
    for line in lines:
        if _agrees(line, recorded[line.log_partition], ends_ms.get(line.log_partition, 0)):
            of_change[line.log_partition, line.leader_epoch].append(line)
    return of_change


def _agrees(line: CoordinatorLine, recorded: Mapping[int, int | None], end_ms: int) -> bool:
    """Whether the records of its log partition leave a line possible.

    A leader epoch begins before its own first record and those of later epochs, and after those of earlier ones. Once
    it has begun, no leader of an earlier epoch writes: where the log goes on, a record of it, or the controller's, is
    there.

    Args:
        line: the line.
        recorded: the time of the first record by leader epoch; None where only the controller's records have the epoch.
        end_ms: the time of the last record.
    """
    firsts = [(epoch, at) for epoch, at in recorded.items() if at is not None]
    is_over = any(epoch >= line.leader_epoch and at < line.began_ms - SLACK_MS for epoch, at in firsts)
    is_ahead = any(epoch < line.leader_epoch and at > line.began_ms + SLACK_MS for epoch, at in firsts)
    is_unknown = bool(firsts) and line.leader_epoch > max(recorded)
    return not (is_over or is_ahead or (is_unknown and end_ms > line.began_ms + SLACK_MS))


def _elected(election: LeaderChange) -> CoordinatorChange:
    return CoordinatorChange(
        log_partition=election.log_partition,
        leader_epoch=election.leader_epoch,
        elected_at=election.at_ms,
        is_exact=election.at_ms is not None,
        broker=election.leader,
        is_unclean=election.is_unclean if election.at_ms is not None else None,
        sources=(CLUSTER_METADATA,),
    )


def _written(log_partition: int, epoch: int, offset: int, at_ms: int | None) -> CoordinatorChange:
    return CoordinatorChange(
        log_partition=log_partition,
        leader_epoch=epoch,
        elected_at=at_ms,
        first_log_offset=offset,
        first_log_timestamp=at_ms,
        sources=(RECORDS,),
    )


def _parts(row: CoordinatorChange, lost_from: Mapping[int, int]) -> Iterator[CoordinatorChange]:
    """What records say of a change, by source; what brokers' logs say is read again."""
    if row.of(CLUSTER_METADATA) and row.broker is not None:
        has_time = row.is_unclean is not None
        at_ms = row.elected_at if has_time else None
        yield _elected(LeaderChange(row.log_partition, row.leader_epoch, row.broker, at_ms, bool(row.is_unclean)))
    if row.first_log_offset is not None:
        lost = lost_from.get(row.log_partition)
        if lost is None or row.first_log_offset < lost:
            yield _written(row.log_partition, row.leader_epoch, row.first_log_offset, row.first_log_timestamp)


def _merged(one: CoordinatorChange, other: CoordinatorChange) -> CoordinatorChange:
    """A change by two sources, or by one source twice."""
    elections = [each for each in (one, other) if each.of(CLUSTER_METADATA)]
    written = [each for each in (one, other) if each.first_log_offset is not None]
    # An election with a time is from the controller's record of it, one without from a snapshot.
    elected = min(elections, key=lambda each: (not each.is_exact, each.elected_at or 0, each.broker or 0), default=None)
    first = min(written, key=lambda each: each.first_log_offset or 0, default=None)
    merged = elected or first or one
    if first is None or elected is None:
        return merged
    return replace(
        merged,
        elected_at=merged.elected_at if merged.is_exact else first.elected_at,
        first_log_offset=first.first_log_offset,
        first_log_timestamp=first.first_log_timestamp,
        sources=(CLUSTER_METADATA, RECORDS),
    )


def _with_lines(change: CoordinatorChange, lines: Sequence[CoordinatorLine], before: int | None) -> CoordinatorChange:
    """A change with what brokers have logged of it.

    Args:
        change: by records alone.
        lines: of its leader epoch, by time.
        before: the broker that led the partition before.
    """
    brokers = {line.broker for line in lines if line.event != _UNLOADED}
    if change.broker is not None:
        brokers &= {change.broker}
    unloaded = _first(lines, (_UNLOADED,), {before} if before is not None else set())
    if len(brokers) != 1:
        # Of two brokers that say they have it, one is wrong.
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
    """A change as a row of the table."""
    return {**{name: getattr(change, name) for name in COLUMNS}, "sources": list(change.sources)}


COLUMNS: Sequence[str] = tuple(CoordinatorChange.__dataclass_fields__)
"""The columns of the table but for the cluster."""
