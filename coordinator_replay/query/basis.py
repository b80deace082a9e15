"""The basis of an answer: the cluster, the end of its log, and the time since which the log is complete."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from coordinator_replay.completeness.past import CompleteSince, shown_second, shown_since
from coordinator_replay.query.completeness import log_partitions_of
from coordinator_replay.query.group_moves import moves_line, moves_of
from coordinator_replay.query.tables import Tables

_UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "min": timedelta(minutes=1), "s": timedelta(seconds=1)}


def _age(moment: datetime, now: datetime) -> str:
    """Return how long ago a time was, in the largest unit that fits.

    Return an empty text for a time in the future, which is possible if clocks differ.
    """
    age = now - moment
    return next((f" ({age // unit} {name} ago)" for name, unit in _UNITS.items() if age >= unit), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """The basis of an answer: the log that the answer comes from, and how complete this log is.

    Attributes:
        cluster: the cluster that the user asks about.
        log_end: the latest timestamp in the cluster's log; None if no record has a timestamp.
        complete_since: the time from which on no record is missing in the log partitions of the answer. None if no
            record is missing at all, or if records are missing up to the end of the log.
        is_complete: whether the log has every record that the answer needs. An answer about a time range needs all
            records from the start of the range on. An answer about a point in time needs the records that prove the
            state at this time.
        of_one_group: whether the answer is about one group.
        moved: a clause that says which groups moved to another log partition; empty if no group moved.
        log_begin: the first timestamp in the log, if the user asked about an earlier time; None otherwise.
    """

    cluster: str
    log_end: datetime | None
    complete_since: datetime | None
    is_complete: bool
    of_one_group: bool = False
    moved: str = ""
    log_begin: datetime | None = None

    def __str__(self) -> str:
        return self.line()

    def line(self, now: datetime | None = None) -> str:
        """Return the basis as text in one line.

        Args:
            now: the time at which the log's age is computed; None to leave out the age.
        """
        begin = "" if self.log_begin is None else f" from {shown_second(self.log_begin)}"
        end = "log without times" if self.log_end is None else f"log{begin} up to {shown_second(self.log_end)}"
        age = "" if now is None or self.log_end is None else _age(self.log_end, now)
        return f"cluster {self.cluster}, {end}{age}{self._past()}{self.moved}"

    def _past(self) -> str:
        if self.is_complete:
            return ""
        past = "its past" if self.of_one_group else "the past"
        since = "" if self.complete_since is None else shown_since(self.complete_since, self.log_end)
        return f"; {past} before {since or 'the end of the log'} is incomplete"


def basis_at(warehouse: Tables, at: datetime, *, group: str | None = None) -> Basis:
    """Return the basis of an answer about a point in time.

    Args:
        warehouse: the tables to read.
        at: the point in time.
        group: the group that the answer is about; None if it is about all groups.
    """
    history = warehouse.completeness
    chosen = _chosen(warehouse, group)
    is_complete = history.is_whole or all(partition.is_complete_at(at) for partition in history.some(chosen))
    is_complete &= not any(move.is_open_at(at) for move in moves_of(warehouse.moves, group))
    return _basis(warehouse, history.since(chosen), group, None, is_complete=is_complete)


def basis_from(warehouse: Tables, start: datetime | None = None, *, group: str | None = None) -> Basis:
    """Return the basis of an answer about a time range.

    Args:
        warehouse: the tables to read.
        start: start of the time range; None for the start of the log.
        group: the group that the answer is about; None if it is about all groups.
    """
    since = warehouse.completeness.since(_chosen(warehouse, group))
    return _basis(warehouse, since, group, start, is_complete=_has_all_from(warehouse, since, group, start))


def basis_of_group(warehouse: Tables, start: datetime | None, group: str, log_partition: int | None) -> Basis:
    """Return the basis of an answer about one group and a time range.

    Args:
        warehouse: the tables to read.
        start: start of the time range; None for the start of the log.
        group: id of the group.
        log_partition: the group's log partition; None for all log partitions.
    """
    since = warehouse.completeness.since(None if log_partition is None else [log_partition])
    return _basis(warehouse, since, group, start, is_complete=_has_all_from(warehouse, since, group, start))


def _chosen(warehouse: Tables, group: str | None) -> list[int] | None:
    """Return the numbers of the log partitions that an answer is made from; None for all log partitions."""
    if group is None or warehouse.completeness.is_whole:
        return None
    return log_partitions_of(warehouse, group)


def _has_all_from(warehouse: Tables, since: CompleteSince, group: str | None, start: datetime | None) -> bool:
    """Return whether the log has every record from ``start`` on: of a group, or of all groups if ``group`` is None.

    Return False if a group was still moving from one log partition to another at ``start``.
    """
    last = _open_until(warehouse, group)
    return since.has_all_from(start) and (last is None or (start is not None and start > last))


def _open_until(warehouse: Tables, group: str | None) -> datetime | None:
    """Return the latest time at which a group had records in its old and in its new log partition.

    Return None if no group moved to another log partition, or if the old log partition got no records after the move.

    Args:
        warehouse: the tables to read.
        group: the group; None for all groups.
    """
    return max((move.overlaps_until for move in moves_of(warehouse.moves, group) if move.overlaps_until), default=None)


def _log_begin(warehouse: Tables, start: datetime | None) -> datetime | None:
    """Return the first timestamp in the log if a time range begins earlier; None otherwise."""
    if start is None or warehouse.completeness.log_end is None:
        return None
    first = warehouse.coverage.first
    return first if start < first else None


def _basis(
    warehouse: Tables, since: CompleteSince, group: str | None, start: datetime | None, *, is_complete: bool
) -> Basis:
    complete_since = since.since
    if since.is_whole or complete_since is not None:
        open_until = _open_until(warehouse, group)
        complete_since = max((offset for offset in (complete_since, open_until) if offset is not None), default=None)
    return Basis(
        cluster=warehouse.cluster,
        log_end=warehouse.completeness.log_end,
        complete_since=complete_since,
        is_complete=is_complete,
        of_one_group=group is not None,
        moved=moves_line(warehouse.moves, group),
        log_begin=_log_begin(warehouse, start),
    )
