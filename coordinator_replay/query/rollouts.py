"""Rollouts: series of restarts of a group's members in quick succession, with their costs.

The saved query ``rollouts`` finds rollouts. Only this query defines what a rollout is.
"""

from dataclasses import dataclass
from datetime import datetime

from coordinator_replay.answer_columns import column, row_of, select_list
from coordinator_replay.int64 import LARGEST_INT64
from coordinator_replay.listing import counted
from coordinator_replay.query.saved import saved_query
from coordinator_replay.query.sql import run_sql
from coordinator_replay.query.tables import Tables
from coordinator_replay.times import moment_text

QUERY = "rollouts"

COUNTED = (
    "Counted are rebalances in which one of the restarted members left or joined, and the cooperative follow-ups of "
    "these rebalances."
)
"""What the costs of a rollout are, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """A rollout: a series of restarts of a group's members.

    Attributes:
        first_at: the time at which the first member left or joined.
        last_at: the time at which the last member joined.
        restarts: number of members that restarted.
        rebalances: number of rebalances that the restarts caused.
        unowned_ms_total: milliseconds that partitions had no owner in these rebalances, summed over partitions; None if
            these times are not on record.
        commit_pause_ms_total: the commit pause around each of these rebalances, summed over the rebalances; None if no
            pause is on record.
        clients: number of client ids of the members that joined.
        hosts: number of hosts of the members that joined.
        some_clients: client id of the members that joined. If there are several client ids, the first and the last in
            alphabetical order.
        is_at_least: whether ``unowned_ms_total`` is a lower bound, because records are missing, or because a classic
            join phase leaves no record.
        is_pause_at_least: whether ``commit_pause_ms_total`` is a lower bound, because records are missing.
        is_count_at_least: whether ``rebalances`` is a lower bound, because records are missing.
    """

    group_id: str = column("GROUP", 1, is_id=True)
    first_at: datetime | None = column("FROM", 1)
    last_at: datetime | None = column("TO", 2)
    restarts: int = column("RESTARTS", 1)
    rebalances: int = column("REBALANCES", 1)
    unowned_ms_total: int | None = column("UNOWNED-MS", 1)
    commit_pause_ms_total: int | None = column("COMMIT-PAUSE-MS", 1)
    clients: int = column("CLIENTS", 5)
    hosts: int = column("HOSTS", 5)
    some_clients: str | None = column("CLIENT-ID", 3, 12)
    is_at_least: bool = column(rank=2, bound="AT-LEAST")
    is_pause_at_least: bool = column(rank=2, bound="PAUSE-AT-LEAST")
    is_count_at_least: bool = column(rank=2, bound="COUNT-AT-LEAST")

    @property
    def costs(self) -> str:
        """Return a text with the costs of the rollout."""
        least = "at least " if self.is_at_least else ""
        parts = [f"{'at least ' * self.is_count_at_least}{counted(self.rebalances, 'rebalance')}"]
        if not self.rebalances:
            return "no rebalance on record" if self.is_count_at_least else "no rebalance"
        # A lower bound of 0 says nothing.
        if self.unowned_ms_total or (self.unowned_ms_total == 0 and not self.is_at_least):
            parts.append(f"{least}{self.unowned_ms_total / 1000:,.1f} partition-seconds without an owner")
        if self.commit_pause_ms_total is not None:
            parts.append(f"commits paused for {'at least ' * self.is_pause_at_least}{self.commit_pause_ms_total:,} ms")
        return ", ".join(parts)

    @property
    def sentence(self) -> str:
        """Return a sentence that describes the rollout: its time, its restarts and its costs."""
        when = "" if self.first_at is None else f" from {moment_text(self.first_at)}"
        until = "" if self.last_at is None else f" to {moment_text(self.last_at)}"
        return f"{self.group_id}: {counted(self.restarts, 'restart')}{when}{until}, {self.costs}."


def rollouts_of(
    warehouse: Tables, start: datetime | None = None, end: datetime | None = None, group: str | None = None
) -> list[Rollout]:
    """Return the rollouts in a time range. The rollout in which partitions had no owner for the longest time is first.

    Args:
        warehouse: the tables to read.
        start: leave out rollouts that ended before this time; None for no lower bound.
        end: leave out rollouts that began at this time or later; None for no upper bound.
        group: only rollouts of this group; None for all groups.

    Raises:
        UsageError: the tables have no record of that time range.
    """
    warehouse.check_range(start, end)
    query = saved_query(QUERY)
    asked = query.defaults(warehouse) | {"from": start, "to": end, "group": group, "most": LARGEST_INT64}
    sql = f"SELECT {select_list(Rollout)} FROM ({query.sql}) AS rollouts"  # noqa: S608 - our own statement
    bounds = {"cluster": warehouse.cluster} | ({} if group is None else {"group_id": group})
    return [row_of(Rollout, row) for row in run_sql(warehouse, sql, asked, bounds=bounds)[1]]
