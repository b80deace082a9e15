"""The outcome of a life: the rows of its tables (``rows_of``), the pauses of partitions, and the costs (``measured``).

A life is what happens to a group in a time range. The same code measures the recorded life and simulated lives. A pause
is a time range in which no running consumer owns a partition. Only a simulation has pauses, because records don't show
when a consumer crashed.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from coordinator_replay.analysis.group_life import GroupReplay
from coordinator_replay.analysis.reasons.topic_changes import TopicChanges
from coordinator_replay.analysis.reasons.vocabulary import by_frequency
from coordinator_replay.engine.model import Record
from coordinator_replay.simulation.coordinator.assignor.client import Partition
from coordinator_replay.simulation.what_if.measures import Measures
from coordinator_replay.times import time_order


class Pause(NamedTuple):
    """A time range in which no client consumed a partition, after a client had consumed it."""

    partition: Partition
    since_ms: int
    until_ms: int

    @property
    def length_ms(self) -> int:
        """Return the length of the pause in milliseconds."""
        return self.until_ms - self.since_ms


class Pauses:
    """A recorder of pauses: time ranges in which no running client owned a partition.

    Args:
        start_ms: start of the time range to measure. A pause that began before this time counts from this time.

    Attributes:
        spans: the pauses so far, in the order in which they ended.
    """

    __slots__ = ("_is_over", "_owned", "_start_ms", "_stopped", "spans")

    def __init__(self, start_ms: int) -> None:
        self._owned: dict[str, frozenset[Partition]] = {}
        self._stopped: dict[Partition, int] = {}
        self._start_ms = start_ms
        self.spans: list[Pause] = []
        self._is_over = False

    def holds(self, name: str, owned: Iterable[Partition], at_ms: int) -> None:
        """Note the partitions that a client owns from now on. After a call of ``end``, do nothing."""
        if self._is_over:
            return
        before, now = self._owned.get(name, frozenset()), frozenset(owned)
        self._owned[name] = now
        for partition in sorted(before - now):
            self._stopped[partition] = at_ms
        for partition in sorted(now - before):
            self._count(partition, at_ms)

    def end(self, at_ms: int, wanted: Collection[str]) -> None:
        """End the pauses that last until the end of the simulated time.

        If no client owns a partition at this time, these pauses are dropped.

        Args:
            at_ms: the end of the simulated time.
            wanted: topics that a client subscribes to. Pauses in other topics are dropped.
        """
        self._is_over = True
        if any(self._owned.values()):
            for partition in sorted(self._stopped):
                if partition[0] in wanted:
                    self._count(partition, at_ms)

    def _count(self, partition: Partition, at_ms: int) -> None:
        since = self._stopped.pop(partition, None)
        if since is not None and at_ms >= self._start_ms:
            self.spans.append(Pause(partition, max(since, self._start_ms), at_ms))


DEPARTURES = frozenset({"MEMBER_LEFT", "MEMBER_FENCED", "GROUP_EMPTIED", "GROUP_DELETED", "GROUP_CONVERTED"})
"""Events (``released_by``) that end an ownership without interrupting a member that stays."""

Rows = Mapping[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Lived:
    """The rows of a recorded or simulated group, and the clients of its members.

    Attributes:
        rebalances: rows of the table ``rebalances`` within the time range, in the order of time.
        rows: the last version of every row, by table.
        by_member: name of a client, by member id.
        late: rebalances that began at the end of the time range or later.
        pauses: time ranges in which no running consumer owned a partition; None for a recorded life.
    """

    rebalances: Sequence[dict[str, Any]]
    rows: Rows
    by_member: Mapping[str, str]
    pauses: Sequence[Pause] | None = None
    late: Sequence[dict[str, Any]] = ()


def rows_of(
    group_id: str, records: Iterable[Record], names: Mapping[str, str], changes: TopicChanges
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows that an audit would make from these records, by table.

    Only the last version of each row is returned.
    """
    # Details of events, which are JSON, are not needed here.
    replay = GroupReplay("what-if", group_id, names, changes, encode=lambda _: "")
    tables: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        if not record.kind.endswith("OffsetCommit"):
            for table, row in replay.feed(record):
                tables.setdefault(table, []).append(row)
    for table, row in replay.finish():
        tables.setdefault(table, []).append(row)
    return tables


def lived(
    rows: Rows, by_member: Mapping[str, str], start_ms: int, end_ms: int, pauses: Sequence[Pause] | None = None
) -> Lived:
    """Return the rows of a group, with its rebalances in a time range and its later rebalances.

    Args:
        rows: rows of the group, by table.
        by_member: name of a client, by member id.
        start_ms: the start of the time range.
        end_ms: the end of the time range, not included.
        pauses: time ranges in which no running consumer owned a partition; None if they are not known.
    """
    latest = {row["rebalance_id"]: row for row in rows.get("rebalances", ())}
    ordered = sorted(latest.values(), key=lambda row: (moment_of(row), row["epoch"]))
    inside = [row for row in ordered if start_ms <= moment_of(row) < end_ms]
    return Lived(inside, rows, by_member, pauses, [row for row in ordered if moment_of(row) >= end_ms])


def moment_of(rebalance: Mapping[str, Any]) -> int:
    """Return the time at which a rebalance began.

    If this time is not on record, as in a classic group, return the time at which the rebalance was completed.
    """
    started = rebalance["started_at"]
    return time_order(started if started is not None else rebalance["completed_at"])


def measured(name: str, life: Lived, start_ms: int, end_ms: int, *, is_eager: bool) -> Measures:
    """Return the costs of a recorded or simulated group in a time range.

    Args:
        name: name of the result.
        life: the rows of the group.
        start_ms: the start of the time range.
        end_ms: the end of the time range, not included.
        is_eager: whether every member revokes all partitions in each rebalance.
    """
    rebalances = life.rebalances
    longest = max((row["unowned_ms_max"] or 0 for row in rebalances), default=0)
    total = sum(row["unowned_ms_total"] or 0 for row in rebalances)
    stopped = [_stayed(row) for row in rebalances] if is_eager else []
    # If records are missing, a total of 0 does not prove that no partition was without an owner.
    is_known = not is_eager and (total > 0 or all(row["is_exact"] for row in rebalances))
    pauses = None if life.pauses is None else [pause.length_ms for pause in life.pauses]
    return Measures(
        name=name,
        rebalances=len(rebalances),
        causes=by_frequency(row["cause"] for row in rebalances),
        partitions_reassigned=sum(row["partitions_reassigned"] or 0 for row in rebalances),
        unowned_ms_max=longest if is_known else None,
        unowned_ms_total=total if is_known else None,
        members_interrupted=sum(stopped) if is_eager else _interrupted(life.rows, start_ms, end_ms),
        stop_the_world=sum(count > 0 for count in stopped),
        pause_ms_max=None if pauses is None else max(pauses, default=0),
        pause_ms_total=None if pauses is None else sum(pauses),
        commit_pause_ms_max=None if pauses is not None else _longest_commit_pause(rebalances),
        stable_share=_stable_share(life.rows, start_ms, end_ms),
    )


def _longest_commit_pause(rebalances: Iterable[Mapping[str, Any]]) -> int | None:
    """Return the longest commit pause around a rebalance, in milliseconds.

    Return None if no commit pause was measured, or if a commit pause may have been longer than the log shows.
    """
    recorded = list(rebalances)
    if any(rebalance["is_pause_at_least"] for rebalance in recorded):
        return None
    return max(
        (rebalance["commit_pause_ms"] for rebalance in recorded if rebalance["commit_pause_ms"] is not None),
        default=None,
    )


def _stayed(row: Mapping[str, Any]) -> int:
    """Return the number of members on record both before and after a rebalance."""
    stayed: int = min(row["members_after"] - len(row["members_joined"]), row["members_before"] or 0)
    return max(stayed, 0)


def _interrupted(rows: Rows, start_ms: int, end_ms: int) -> int:
    ended = {
        (row["member_id"], row["owned_to"])
        for row in rows.get("partition_ownership", ())
        if row["owned_to"] is not None
        and start_ms <= row["owned_to"] < end_ms
        and str(row["released_by"]) not in DEPARTURES
    }
    return len(ended)


def _stable_share(rows: Rows, start_ms: int, end_ms: int) -> float | None:
    if end_ms <= start_ms:
        return None
    stable_ms, since, state, group_type = 0, start_ms, "", ""
    for row in rows.get("group_timeline", ()):
        at_ms = min(max(time_order(row["log_timestamp"]), start_ms), end_ms)
        if at_ms > since and group_type == "classic":
            return None
        stable_ms += at_ms - since if state == "Stable" else 0
        since, state, group_type = at_ms, str(row["to_state"]), str(row["group_type"])
    if group_type == "classic" and end_ms > since:
        return None
    stable_ms += end_ms - since if state == "Stable" else 0
    return round(stable_ms / (end_ms - start_ms), 4)
