"""The comparison of a group's recorded rebalances with the rebalances of a simulation under the recorded settings.

A simulated rebalance matches a recorded rebalance if three conditions hold: the same clients joined and left, the group
had the same number of members afterwards, and the two rebalances are at most ``NEAR_MS`` apart.

Many clients join and leave in quick succession in a deployment, in any order. So a rebalance that matches no other
is compared once more. Then a client may stand for another client that joined or left within ``NEAR_MS`` of the
rebalance: only the number of joins and the number of departures must be equal.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from coordinator_replay.errors import UsageError
from coordinator_replay.listing import counted, counted_as
from coordinator_replay.simulation.what_if.measures import Measures
from coordinator_replay.simulation.what_if.outcome import Lived, lived, measured, moment_of, rows_of
from coordinator_replay.simulation.what_if.record import Recorded
from coordinator_replay.simulation.what_if.run import TooLong, simulate
from coordinator_replay.simulation.what_if.script import ClientLife, Life
from coordinator_replay.simulation.what_if.settings import Alternative, Settings
from coordinator_replay.simulation.what_if.timing import LIKELIEST, Timing
from coordinator_replay.simulation.what_if.variants import with_members, without_restarts
from coordinator_replay.times import time_order

DEPARTURES = frozenset({"LEAVE_OR_TIMEOUT", "MEMBER_LEAVE", "SESSION_TIMEOUT"})
"""Causes of departures. The simulation knows the true cause of a departure, even if its records do not show it."""


class LivedAgain(NamedTuple):
    """The result of one simulation of a group.

    Attributes:
        lived: the rows of the simulated group, and the clients of its members.
        measures: the costs, such as the number of rebalances.
        steps: number of steps that the simulation took.
    """

    lived: Lived
    measures: Measures
    steps: int


def live_again(
    life: Life,
    recorded: Recorded,
    settings: Settings,
    clients: Sequence[ClientLife],
    name: str,
    timing: Timing = LIKELIEST,
) -> LivedAgain:
    """Simulate a group with the given clients and settings, and measure the result.

    Args:
        life: the script of the group's life.
        recorded: the recorded group.
        settings: the settings to try.
        clients: the clients to simulate.
        name: name of the result.
        timing: the timing of the clients, which no record shows.

    Raises:
        UsageError: the simulation takes more than ``run.MOST_STEPS`` steps.
    """
    try:
        result = simulate(life, settings, clients, timing)
    except TooLong:
        raise UsageError(
            f"the life of group {life.group_id!r} has too many events to be simulated at once: give a time range"
        ) from None
    names = {topic.topic_id: topic.name for _, image in life.topics for topic in image}
    rows = rows_of(life.group_id, result.records, names, recorded.changes)
    for row in rows.get("rebalances", ()):
        if row["cause"] in DEPARTURES:
            # The simulation knows causes that its records don't show.
            row["cause"] = "MEMBER_LEAVE" if result.left.issuperset(row["members_left"]) else "SESSION_TIMEOUT"
    span = (life.start_ms, life.end_ms)
    again = lived(rows, result.by_member, *span, pauses=result.pauses.spans)
    return LivedAgain(again, measured(name, again, *span, is_eager=settings.is_eager()), result.steps)


def clients_of(life: Life, alternative: Alternative) -> Sequence[ClientLife]:
    """Return the clients that an alternative simulates.

    These are the recorded clients. The alternative may leave out their restarts, or change how many clients there are.
    """
    clients = without_restarts(life.clients) if alternative.without_restarts else life.clients
    return clients if alternative.members is None else with_members(clients, alternative.members)


_Rebalance = Mapping[str, Any]
_Pair = tuple[_Rebalance, _Rebalance]

LOWEST = 0.7
"""Lowest share of matched rebalances (``Fidelity.share``) at which alternatives are predicted."""

NEAR_MS = 10_000
"""Rebalances farther apart than this do not match. Nearer ones may match, since timeouts and intervals differ by
seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """Measures of how well a simulation with the recorded settings reproduces the recorded life.

    Attributes:
        recorded: number of rebalances on record.
        simulated: number of rebalances in the simulation.
        matched: number of rebalances on record that match a simulated rebalance.
        same_targets: number of matched rebalances after which each client owned as many partitions in the simulation as
            on record.
        share: ``matched`` divided by the number of all rebalances, recorded or simulated. A matched pair counts as one.
            0 if there are no rebalances.
        recorded_unowned_ms: time in ms in which partitions had no owner on record, summed over partitions; null if the
            records do not show it.
        simulated_unowned_ms: the same time in the simulation; null if its records do not show it.
        misses: a sentence for each rebalance without a match.
        unmatched: one or two sentences that count the rebalances without a match by cause; empty if there are none.
    """

    recorded: int
    simulated: int
    matched: int
    same_targets: int
    share: float
    recorded_unowned_ms: int | None
    simulated_unowned_ms: int | None
    misses: tuple[str, ...]
    unmatched: str

    @property
    def is_empty(self) -> bool:
        """Return whether no rebalance is on record that a simulation could reproduce."""
        return self.recorded == 0

    @property
    def is_enough(self) -> bool:
        """Return whether the simulation reproduces the recorded life well enough for predictions."""
        return self.share >= LOWEST

    def __str__(self) -> str:
        if self.is_empty:
            return (
                f"With the recorded settings the simulation has {counted(self.simulated, 'rebalance')}; there is no "
                "recorded one to compare with."
            )
        text = (
            f"With the recorded settings the simulation reproduces {self.matched} of {self.recorded} rebalances with "
            f"the same members ({self.simulated} were simulated). Each client gets as many partitions as "
            f"recorded in {self.same_targets} of these {self.matched}."
        )
        if self.recorded_unowned_ms is not None and self.simulated_unowned_ms is not None:
            text += (
                f" Time without owner: {self.recorded_unowned_ms:,} ms recorded, "
                f"{self.simulated_unowned_ms:,} ms simulated."
            )
        return text


def compare(recorded: Lived, simulated: Lived, recorded_ms: int | None, simulated_ms: int | None) -> Fidelity:
    """Compare the recorded life of a group with a simulation of the group.

    Args:
        recorded: rows of the recorded life.
        simulated: rows of the simulation.
        recorded_ms: total time in ms in which partitions had no owner in the recorded life; None if not known.
        simulated_ms: total time in ms in which partitions had no owner in the simulation; None if not known.
    """
    pairs, missed, left = _pairs(recorded, simulated)
    shares, simulated_shares = _shares(recorded), _shares(simulated)
    same_targets = sum(
        shares.get(row["completed_at"]) == simulated_shares.get(other["completed_at"]) for row, other in pairs
    )
    matched = len(pairs)
    misses = [f"Recorded only: {_sentence(row)}." for row in missed]
    # A simulated rebalance after the time range counts only if the recorded life has it shortly before the range's end.
    late = {row["rebalance_id"] for row in simulated.late}
    extra = [row for row in left if row["rebalance_id"] not in late]
    misses += [f"Simulated only: {_sentence(row)}." for row in extra]
    late_matched = len(late) - sum(row["rebalance_id"] in late for row in left)
    count = matched + len(misses)
    return Fidelity(
        recorded=len(recorded.rebalances),
        simulated=len(simulated.rebalances) + late_matched,
        matched=matched,
        same_targets=same_targets,
        share=round(matched / count, 4) if count else 0.0,
        recorded_unowned_ms=recorded_ms,
        simulated_unowned_ms=simulated_ms,
        misses=tuple(misses),
        unmatched=_unmatched(missed, extra),
    )


def _unmatched(missed: Sequence[_Rebalance], extra: Sequence[_Rebalance]) -> str:
    """Return sentences with the number of unmatched rebalances for each cause.

    If it is known why a cause is not simulated, the sentences also say why.

    Args:
        missed: rebalances only on record.
        extra: rebalances only in the simulation.

    >>> _unmatched([{"cause": "LEADER_REJOIN"}], [{"cause": "MEMBER_JOIN"}])
    'Recorded only: LEADER_REJOIN 1; no record shows why a leader joins again. Simulated only: MEMBER_JOIN 1.'
    """
    texts = []
    for what, rows in (("Recorded only", missed), ("Simulated only", extra)):
        counts = sorted(Counter(row["cause"] for row in rows).items(), key=lambda pair: (-pair[1], pair[0]))
        why = "; no record shows why a leader joins again" * (rows is missed and "LEADER_REJOIN" in dict(counts))
        if counts:
            texts.append(f"{what}: {', '.join(f'{cause} {count:,}' for cause, count in counts)}{why}.")
    return " ".join(texts)


def _pairs(recorded: Lived, simulated: Lived) -> tuple[list[_Pair], list[_Rebalance], list[_Rebalance]]:
    """Return pairs of matching rebalances, then rebalances only on record, then rebalances only in the simulation."""
    pairs: list[_Pair] = []
    missed: list[_Rebalance] = list(recorded.rebalances)
    left: list[_Rebalance] = [*simulated.rebalances, *simulated.late]
    # Rebalances with the same clients are matched first. Then clients that joined or left near both rebalances are only
    # counted, because a deployment may have exchanged them.
    for may_be_exchanged in (False, True):
        remaining, unmatched = [], list(left)
        for row in missed:
            exchanged: set[str] = set()
            if may_be_exchanged:
                exchanged = _clients_near(row, missed, recorded) & _clients_near(row, unmatched, simulated)
            wanted = _mark(row, recorded.by_member, exchanged)
            place = next(
                (
                    place
                    for place, other in enumerate(left)
                    if _are_near(row, other) and _mark(other, simulated.by_member, exchanged) == wanted
                ),
                None,
            )
            if place is None:
                remaining.append(row)
            else:
                pairs.append((row, left.pop(place)))
        missed = remaining
    return pairs, missed, left


def _are_near(row: _Rebalance, other: _Rebalance) -> bool:
    return abs(moment_of(other) - moment_of(row)) <= NEAR_MS


def _clients_near(row: _Rebalance, rows: Iterable[_Rebalance], life: Lived) -> set[str]:
    """Return the clients that joined or left at most ``NEAR_MS`` before or after a rebalance."""
    return {
        life.by_member.get(member_id, member_id)
        for other in rows
        if _are_near(row, other)
        for member_id in (*other["members_joined"], *other["members_left"])
    }


def _mark(row: _Rebalance, by_member: Mapping[str, str], exchanged: Container[str]) -> tuple[Any, ...]:
    """Return three values to compare rebalances: the number of members afterwards, who joined, and who left.

    Args:
        row: row of the rebalance.
        by_member: name of a client, by member id.
        exchanged: clients whose names are not compared: only their number is compared.
    """

    def names(member_ids: Iterable[str]) -> list[str]:
        clients = (by_member.get(member_id, member_id) for member_id in member_ids)
        return sorted("" if client in exchanged else client for client in clients)

    return row["members_after"], names(row["members_joined"]), names(row["members_left"])


def _sentence(row: _Rebalance) -> str:
    number = "generation" if row["group_type"] == "classic" else "epoch"
    on_record = "" if row["is_exact"] else "on record "
    members = f"{on_record}{counted_as(row['members_before'])} to {row['members_after']} members"
    return f"{number} {row['epoch']}, {row['cause']}, {members}"


def _shares(life: Lived) -> dict[int, list[tuple[str, int]]]:
    """Return, for each rebalance, pairs of a client and the number of partitions that it owned after the rebalance.

    The keys are the times at which the rebalances were completed.
    """
    moments = sorted({row["completed_at"] for row in life.rebalances if row["completed_at"] is not None})
    changes: list[tuple[int, int, str]] = []
    for row in life.rows.get("partition_ownership", ()):
        name = life.by_member.get(row["member_id"], row["member_id"])
        changes.append((time_order(row["owned_from"]), 1, name))
        if row["to_offset"] is not None:
            changes.append((time_order(row["owned_to"]), -1, name))
    changes.sort()
    owned: Counter[str] = Counter()
    counts, place = {}, 0
    for at_ms in moments:
        while place < len(changes) and changes[place][0] <= at_ms:
            owned[changes[place][2]] += changes[place][1]
            place += 1
        counts[at_ms] = sorted((name, count) for name, count in owned.items() if count)
    return counts
