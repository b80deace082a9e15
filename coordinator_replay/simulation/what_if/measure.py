"""What a life cost, from its records: the recorded and the simulated one are measured by the same fold.

What consumers alone know (when an eager one stopped working, since when a crashed one was dead) is measured in the
simulation only, and null for the record.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator_replay.analysis.group_life import GroupReplay
from coordinator_replay.analysis.reasons.topic_changes import TopicChanges
from coordinator_replay.analysis.reasons.vocabulary import by_frequency
from coordinator_replay.engine.model import Record
from coordinator_replay.simulation.what_if.measures import Measures
from coordinator_replay.simulation.what_if.pauses import Pause
from coordinator_replay.times import time_order

DEPARTURES = frozenset({"MEMBER_LEFT", "MEMBER_FENCED", "GROUP_EMPTIED", "GROUP_DELETED", "GROUP_CONVERTED"})
"""Ends of an ownership with which no member was interrupted that stayed."""

Rows = Mapping[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Lived:
    """A life's rows and who its members were.

    Attributes:
        rebalances: rows of ``rebalances`` within the time range, by time.
        rows: the last version of every row, by table.
        by_member: the client behind each member id.
        late: rebalances of a simulated life right after the time range.
        pauses: when nobody worked on a partition, as simulated consumers saw it; None for a recorded life.
    """

    rebalances: Sequence[dict[str, Any]]
    rows: Rows
    by_member: Mapping[str, str]
    pauses: Sequence[Pause] | None = None
    late: Sequence[dict[str, Any]] = ()


def rows_of(
    group_id: str, records: Iterable[Record], names: Mapping[str, str], changes: TopicChanges
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of all tables that the records make, each row in its last version."""
    # Nothing here reads the details of events, which are JSON.
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
    """Return a life between two moments."""
    latest = {row["rebalance_id"]: row for row in rows.get("rebalances", ())}
    ordered = sorted(latest.values(), key=lambda row: (moment_of(row), row["epoch"]))
    inside = [row for row in ordered if start_ms <= moment_of(row) < end_ms]
    return Lived(inside, rows, by_member, pauses, [row for row in ordered if moment_of(row) >= end_ms])


def moment_of(rebalance: Mapping[str, Any]) -> int:
    """When a rebalance began; of a classic one, when it was completed."""
    started = rebalance["started_at"]
    return time_order(started if started is not None else rebalance["completed_at"])


def measured(name: str, life: Lived, start_ms: int, end_ms: int, *, is_eager: bool) -> Measures:
    """Return what a life cost between two moments.

    Args:
        name: what to call it.
        life: its rows.
        start_ms: from then on.
        end_ms: until then, not included.
        is_eager: whether its rebalances stop every member.
    """
    rebalances = life.rebalances
    longest = max((row["unowned_ms_max"] or 0 for row in rebalances), default=0)
    total = sum(row["unowned_ms_total"] or 0 for row in rebalances)
    stopped = [_stayed(row) for row in rebalances] if is_eager else []
    # That there was none is not on record where records are missing.
    is_known = not is_eager and (total > 0 or all(row["is_exact"] for row in rebalances))
    pauses = None if life.pauses is None else [one.length_ms for one in life.pauses]
    return Measures(
        name=name,
        rebalances=len(rebalances),
        causes=by_frequency(row["cause"] for row in rebalances),
        partitions_reassigned=sum(row["partitions_reassigned"] or 0 for row in rebalances),
        unowned_ms_max=longest if is_known else None,
        unowned_ms_total=total if is_known else None,
        members_interrupted=sum(stopped) if is_eager else _interrupted(life.rows, start_ms, end_ms),
        stop_the_world=sum(one > 0 for one in stopped),
        pause_ms_max=None if pauses is None else max(pauses, default=0),
        pause_ms_total=None if pauses is None else sum(pauses),
        commit_pause_ms_max=None if pauses is not None else _longest_commit_pause(rebalances),
        stable_share=_stable_share(life.rows, start_ms, end_ms),
    )


def _longest_commit_pause(rebalances: Iterable[Mapping[str, Any]]) -> int | None:
    """Return the longest pause of commits, or None if one may be missing from the log."""
    recorded = list(rebalances)
    if any(one["is_pause_at_least"] for one in recorded):
        return None
    return max((one["commit_pause_ms"] for one in recorded if one["commit_pause_ms"] is not None), default=None)


def _stayed(row: Mapping[str, Any]) -> int:
    """Return members that were there before a rebalance and after it, as far as they are on record."""
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
