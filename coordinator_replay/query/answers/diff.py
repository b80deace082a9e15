"""Answers about changes between two times, or differences between two clusters."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from coordinator_replay.errors import UsageError
from coordinator_replay.query.answers.answered import Answered
from coordinator_replay.query.basis import basis_at, basis_from
from coordinator_replay.query.diff import Change, Side, changes_between
from coordinator_replay.query.tables import END, Tables
from coordinator_replay.times import moment_text


@dataclass(frozen=True, slots=True)
class Comparison:
    """Differences between two times, or two clusters.

    Attributes:
        changes: the differences.
        sides: a text that names the two times or clusters.
        between: the two times; None if two clusters are compared.
    """

    changes: Sequence[Change]
    sides: str
    between: tuple[datetime, datetime] | None = None


def diff(first: Side, last: Side) -> Answered[Comparison]:
    """Return the changes of all groups of a cluster between two points in time.

    Args:
        first: the cluster at the first point in time. A time before the beginning of the log is replaced by the
            beginning of the log, and a note says so.
        last: the cluster at the second point in time.

    Raises:
        UsageError: the second time is before the first time, or the tables do not cover one of these times.
    """
    warehouse = last.warehouse
    begin, early = warehouse.coverage.first, None
    # If the user named an audit, no other time can take its place: the audit's run tells which findings are new.
    if first.run is None and first.at is not None and first.at < begin <= last.moment:
        early = f"The log begins only at {moment_text(begin)}: the changes are those since then."
        first = Side(first.warehouse, begin)
    # If both times lie after the last record, they have the same note.
    late = dict.fromkeys((warehouse.check_moment(first.at), warehouse.check_moment(last.at)))
    if last.moment < first.moment:
        raise UsageError(
            f"{moment_text(last.moment)} lies before {moment_text(first.moment)}: give the earlier time first"
        )
    changes = changes_between(first, last)
    end = warehouse.coverage.last
    since, until = first.at or end, last.at or end
    sides = f"Cluster {warehouse.cluster}, {moment_text(since)} to {moment_text(until)}"
    return Answered(
        content=Comparison(changes, sides, (since, until)),
        notes=[_no_change_note(changes), early, *late],
        basis=basis_from(warehouse, first.at),
    )


def diff_with(warehouse: Tables, other: str, at: datetime | None) -> Answered[Comparison]:
    """Return the differences between a cluster and another cluster of the same warehouse.

    Args:
        warehouse: the tables to read.
        other: name of the other cluster; its values are in the columns ``after``.
        at: the point in time; None for the end of each cluster's log.
    """
    tables = Tables(warehouse.uri, other, warehouse.zone)
    # A cluster that is not in the warehouse is an error; it is not treated as empty.
    tables.check_range(None, None)
    notes = dict.fromkeys((warehouse.check_moment(at), tables.check_moment(at)))
    changes = changes_between(Side(warehouse, at), Side(tables, at))
    words = f"removed: only {warehouse.cluster} has it; added: only {other} has it." if changes else None
    remarks = [str(basis_at(tables, at or END)), words, _no_change_note(changes), *notes]
    tables.close()
    when = "at the end of each log" if at is None else moment_text(at)
    return Answered(
        content=Comparison(changes, f"Clusters {warehouse.cluster} and {other}, {when}"),
        notes=remarks,
        basis=basis_at(warehouse, at or END),
    )


def _no_change_note(changes: Sequence[Change]) -> str | None:
    return None if changes else "No difference on record."
