"""Rebalances with their causes, sorted by the time at which they began."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from coordinator_replay.analysis.reasons.vocabulary import Cause
from coordinator_replay.answer_columns import column, select_list, stored_columns
from coordinator_replay.errors import UsageError
from coordinator_replay.query.groups import check_group
from coordinator_replay.query.similar import did_you_mean
from coordinator_replay.query.tables import Tables
from coordinator_replay.tables.views import views
from coordinator_replay.times import duration, duration_within, later

_CAUSES = "SELECT DISTINCT cause FROM rebalances WHERE cluster = $cluster AND cause IS NOT NULL ORDER BY cause"


_MAX_POLL_INTERVAL_MS = 300_000
"""Default of max.poll.interval.ms: the longest time that a member may take to join."""

SHORT_WAIT_MS = 100
"""Longest wait that answers don't show: the member may only have waited for its next heartbeat or poll."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """A row of the view ``timed_rebalances``.

    The fields that are not described here are columns of table ``rebalances`` (see ``schemas/tables/rebalances.json``).

    Attributes:
        began_by: the latest time at which the rebalance can have begun: its start, or for a classic group the end of
            the join phase.
        is_end_open: whether the rebalance may have been over before ``completed_at``.
        is_pause_at_least: whether commits may have paused for longer, because commits are missing from the log.
        completed_offset: log offset of the record that completed the rebalance; None while it is in progress.
            ``completed_at`` is also None if neither this record nor an earlier record of the group has a time.
        is_in_progress: whether the rebalance was in progress at the end of the log.
        in_progress_to: the time up to which records show the rebalance in progress; None if ``is_in_progress`` is
            True, or if no record has this time.
        reasons: the reasons that the coordinator logged, in order; None without a broker's log.
        facts: the facts that the sentences of ``evidence`` state, see docs/reasons-table.md.
        client_reasons: the reasons that clients gave (KIP-800).
        matched_by: ``cause`` if the cause is among the causes asked for, ``alternative`` if only an alternative is
            among them. None if the question names no causes.
    """

    started_at: datetime | None = column("STARTED-AT", 4)
    completed_at: datetime | None = column("COMPLETED-AT", 1)
    duration_ms: int | None
    duration_ms_min: int | None = column("AT-LEAST-MS", 2)
    duration_ms_max: int | None = column("AT-MOST-MS", 4)
    commit_pause_ms: int | None = column("COMMIT-PAUSE-MS", 2)
    group_id: str = column("GROUP", 1, is_id=True)
    group_type: str
    epoch: int | None = column("EPOCH", 3)
    attempts: int | None
    cause: str | None = column("CAUSE", 1)
    confidence: str | None = column("CONFIDENCE", 2)
    join_reason: str | None
    members_before: int | None = column("MEMBERS-BEFORE", 4)
    members_after: int | None = column("#MEMBERS", 3)
    partitions_reassigned: int | None = column("REASSIGNED", 3)
    partitions_added: int | None = column("NEWLY-ASSIGNED", 5)
    partitions_total: int | None
    unowned_ms_max: int | None = column("UNOWNED-MS-MAX", 6)
    unowned_ms_total: int | None
    held_up_by: str | None = column("HELD-UP-BY", 6, 10, is_id=True)
    held_up_ms: int | None = column("HELD-UP-MS", 6)
    metadata_delay_ms: int | None = column("METADATA-DELAY-MS", 6)
    trigger_members: list[str] | None
    members_joined: list[str] | None
    members_left: list[str] | None
    alternatives: list[str] | None = column("ALTERNATIVES", 4, 12)
    is_exact: bool | None
    began_by: datetime | None = column(sql="coalesce(started_at, began_by, completed_at)")
    is_end_open: bool = column(sql="coalesce(is_end_open, false)")
    is_pause_at_least: bool = column(rank=3, bound="PAUSE-AT-LEAST", sql="coalesce(is_pause_at_least, false)")
    rebalance_id: str
    evidence: list[str] | None
    facts: list[dict[str, Any]] | None
    reasons: list[str] | None
    client_reasons: list[str] | None
    completed_offset: int | None
    is_in_progress: bool
    in_progress_to: datetime | None
    matched_by: str | None = column(default=None)

    @property
    def shown_at(self) -> datetime | None:
        """Return the time that answers show for the rebalance: its start, or its end if the start is not on record.

        Return None if neither the start nor the end is on record.
        """
        return self.started_at or self.completed_at

    @property
    def is_over(self) -> bool:
        """Return whether the rebalance has ended, so that every member has its assignment."""
        return self.completed_at is not None or self.completed_offset is not None

    @property
    def number(self) -> str:
        """Return the generation or epoch that the rebalance led to, in words.

        Return an empty text if no record shows the number yet.
        """
        if self.epoch is None:
            return ""
        return f"{'generation' if self.group_type == 'classic' else 'epoch'} {self.epoch}"

    @property
    def lacks_records(self) -> bool:
        """Return whether records about the rebalance are missing.

        If only a broker's log shows the rebalance, no record is missing: the rebalance has not left records yet.
        """
        return self.is_exact is False and self.epoch is not None

    @property
    def is_end_missing(self) -> bool:
        """Return whether the rebalance may be over without a record of its end, because records are missing."""
        return not self.is_over and not self.is_in_progress

    @property
    def is_end_untimed(self) -> bool:
        """Return whether the rebalance may have been over at any time, because no record has a time of it."""
        return self.in_progress_to is None and not self.is_in_progress

    @property
    def open_end(self) -> str:
        """Return "not over", or "end not on record" if the record of the rebalance's end is missing."""
        return "end not on record" if self.is_end_missing else "not over"

    @property
    def exactness_note(self) -> str | None:
        """Return a note if the rebalance is not exact. Otherwise return None."""
        if self.lacks_records:
            return "not exact: records are missing from the log"
        return None if self.is_exact is not False else "not exact: no record shows it yet, only the log of a broker"

    @property
    def began_after(self) -> datetime | None:
        """Return the earliest time at which the rebalance can have begun; None if the log does not show this time."""
        if self.started_at is not None or self.completed_at is None or self.duration_ms_max is None:
            return self.started_at
        return later(self.completed_at, -self.duration_ms_max)

    @property
    def limit_ms(self) -> int | None:
        """Return the upper bound of the duration in milliseconds.

        Return None if there is no bound, or if the bound is not below the default of max.poll.interval.ms.
        """
        is_bound = self.duration_ms_max is not None and self.duration_ms_max < _MAX_POLL_INTERVAL_MS
        return self.duration_ms_max if is_bound else None

    @property
    def duration_text(self) -> str | None:
        """Return in words how long the rebalance took, such as ``415 ms``, or ``9 ms to 2.9 s`` for bounds.

        Return None if the rebalance is not over, or if the log shows neither the duration nor a bound.
        """
        if not self.is_over:
            return None
        if self.duration_ms is not None:
            return duration(self.duration_ms)
        return duration_within(self.duration_ms_min, self.limit_ms)

    def goes_on_after(self, time: datetime) -> bool:
        """Return whether the rebalance was certainly still in progress at a point in time after its start.

        A rebalance whose end may be missing from the log, or may have come before ``completed_at``, does not count.
        """
        return self.is_in_progress or (self.in_progress_to is not None and self.in_progress_to > time)

    @property
    def is_cause_open(self) -> bool:
        """Return whether the cause may be one that ``alternatives`` does not have."""
        return Cause.UNKNOWN in (self.cause or Cause.UNKNOWN, *(self.alternatives or ()))

    def match(self, causes: Sequence[str]) -> str | None:
        """Return the text ``cause`` if the rebalance's cause is one of the given causes.

        Otherwise return the text ``alternative`` if an alternative cause is one of them, else None.
        """
        wanted = {cause_name(cause) for cause in causes}
        if self.cause in wanted:
            return "cause"
        return None if wanted.isdisjoint(self.alternatives or ()) else "alternative"


TIMED_REBALANCES = f"({views()['timed_rebalances'].sql}) AS timed_rebalances"
"""SQL for the view ``timed_rebalances``, to stand behind FROM: table ``rebalances`` with two more columns."""

TOUCHES_RANGE = """coalesce(in_progress_to >= $start, is_in_progress OR $start IS NULL)
      AND coalesce(coalesce(started_at, completed_at) < $end, true)"""
"""SQL condition on rows of the view ``timed_rebalances`` that certainly touch a time range."""

REBALANCES = f"""
    SELECT {select_list(Rebalance)}
    FROM {TIMED_REBALANCES}
    WHERE cluster = $cluster {{of_groups}}
      AND {TOUCHES_RANGE}
    ORDER BY coalesce(started_at, completed_at) NULLS FIRST, group_id, completed_offset, epoch
"""  # noqa: S608 - put together from constants
"""SQL for the rebalances that touch a time range, sorted by the time at which they began."""

COLUMNS = tuple(column.name for column in stored_columns(Rebalance))
"""Columns of the view ``timed_rebalances`` from which a ``Rebalance`` is read, in the order of its fields."""


def rebalances_of(
    warehouse: Tables,
    group: str | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
    *,
    causes: Sequence[str] = (),
) -> list[Rebalance]:
    """Return the rebalances that touch a time range, sorted by the time at which they began.

    Args:
        warehouse: the tables to read.
        group: only rebalances of this group; None for all groups.
        start: leave out rebalances that were over before this time; None for no lower bound.
        end: leave out rebalances that began at this time or later; None for no upper bound.
        causes: only rebalances with one of these causes, as cause or as alternative; empty for all rebalances. Names
            are in upper or lower case.

    Raises:
        UsageError: the tables don't know the group, have no record of that time range, or know no such cause.
    """
    check_causes(causes)
    warehouse.check_range(start, end)
    rebalances = warehouse.answers(Rebalance, REBALANCES, group=group, start=start, end=end)
    if not rebalances and group is not None:
        check_group(warehouse, group)
    if not causes:
        return rebalances
    return [
        replace(rebalance, matched_by=how) for rebalance in rebalances if (how := rebalance.match(causes)) is not None
    ]


def rebalances_at(warehouse: Tables, group: str | None, at: datetime, *, causes: Sequence[str] = ()) -> list[Rebalance]:
    """Return the rebalances in progress at a point in time, or else the last rebalance before that time.

    A classic rebalance leaves no record until it ends. So if the next rebalance may have begun before the point in
    time, return it, too.

    Args:
        warehouse: the tables to read.
        group: only rebalances of this group; None for all groups. With None, rebalances that may not have begun are
            left out, and all others are sorted by the time at which they began.
        at: the point in time.
        causes: see ``rebalances_of``.

    Raises:
        UsageError: see ``rebalances_of``.
    """
    rebalances = rebalances_of(warehouse, group, causes=causes)
    begun = [rebalance for rebalance in rebalances if (by := rebalance.began_by) is None or by <= at]
    if group is None:
        return [rebalance for rebalance in begun if rebalance.goes_on_after(at)] or begun[-1:]
    later = (rebalance for rebalance in rebalances if rebalance.began_by is not None and rebalance.began_by > at)
    perhaps = [rebalance for rebalance in later if (after := rebalance.began_after) is not None and after <= at]
    # An epoch that a later one replaced is in progress until the later one is over.
    earlier = [rebalance for rebalance in begun[:-1] if rebalance.goes_on_after(at)]
    return [*earlier, *begun[-1:], *perhaps[:1]]


def cause_name(typed: str) -> str:
    """Return the name of a cause as it is spelled in the tables.

    >>> cause_name("session-timeout")
    'SESSION_TIMEOUT'
    """
    return typed.strip().upper().replace("-", "_")


def recorded_causes(warehouse: Tables) -> list[str]:
    """Return the names of all causes that rebalances of the cluster have, each once, sorted."""
    return [cause for (cause,) in warehouse.rows(_CAUSES)]


def check_causes(causes: Sequence[str]) -> None:
    """Check that all names are causes that a rebalance can have.

    Raises:
        UsageError: a name is not a value of ``rebalances.cause``.
    """
    names = [str(cause) for cause in Cause]
    for cause in causes:
        if cause_name(cause) not in names:
            alike = [name for name in names if cause_name(cause) in name]
            hint = (
                f"did you mean {' or '.join(alike)}?"
                if len(alike) > 1
                else did_you_mean(cause_name(cause), names, f"there are {', '.join(names)}")
            )
            raise UsageError(f"there is no cause {cause}: {hint}")
