"""The settings that a recorded life had, as far as its records show."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from coordinator_replay.analysis.reasons.vocabulary import by_frequency
from coordinator_replay.engine.model import MemberState
from coordinator_replay.simulation.what_if.operations import RecordedOperation
from coordinator_replay.simulation.what_if.settings import STRATEGIES, Settings, changed

FEW = 4
"""Fewer gaps than this say nothing about how soon members join again."""


def recorded_settings(
    operations: Sequence[RecordedOperation], rows: Mapping[str, Sequence[Mapping[str, Any]]], known: Mapping[str, str]
) -> tuple[Settings, list[str]]:
    """Return the settings that the record shows, and sentences about those that it does not."""
    protocol = "classic" if operations[0].is_classic else "consumer"
    named = {str(name) for row in rows.get("member_timeline", ()) if (name := row["assignor"]) is not None}
    strategy = _usual_strategy(operations)
    assignor = "range" if protocol == "consumer" and named == {"range"} else "uniform"
    heartbeat = measured_heartbeat(operations)
    delays = [row["metadata_delay_ms"] for row in rows.get("rebalances", ()) if row["metadata_delay_ms"] is not None]
    delay = measured_initial_delay(operations)
    settings = Settings(
        protocol=protocol,
        initial_delay_ms=delay,
        revoke_ms=measured_revocation(operations),
        strategy=strategy,
        assignor=assignor,
        heartbeat_ms=min(heartbeat, 5000 if protocol == "consumer" else 3000) if heartbeat is not None else None,
        session_ms=measured_session(operations) if protocol == "consumer" else None,
        metadata_ms=max(delays) if delays and protocol == "classic" else None,
    )
    settings = changed(settings, known)
    notes = []
    if "heartbeat.interval.ms" not in known:
        where = "Kafka's default" if settings.heartbeat_ms is None else "what the record allows at most"
        notes.append(f"Heartbeats are not on record; {settings.heartbeat():,} ms between them, {where}.")
    if protocol == "consumer" and settings.session_ms is None:
        notes.append(f"The session timeout of a consumer group is not on record; {settings.consumer_session():,} ms.")
    if protocol == "classic" and settings.initial_delay_ms is None:
        notes.append(f"group.initial.rebalance.delay.ms is not on record; {settings.initial_delay():,} ms.")
    if settings.metadata_ms is None and protocol == "classic":
        notes.append(f"metadata.max.age.ms is not on record; {settings.metadata_age():,} ms.")
    notes.append("Consumers are simulated to take over partitions and to rejoin without a delay.")
    if protocol == "classic":
        notes.append("The join phases of classic rebalances are not on record; when they began is assumed.")
    return settings, notes


def measured_heartbeat(operations: Sequence[RecordedOperation]) -> int | None:
    """Return how soon members take part in a rebalance, in ms, where enough operations show it.

    In a consumer group: the longest time from a new target to a member's first step. In a classic group the join phase
    is not on record; two generations that follow each other closely bound it: half of the second-shortest time
    between two generations with an arrival or departure.
    """
    if not operations:
        return None
    if operations[-1].is_classic:
        gaps = sorted(
            one.join_done_ms - one.before_ms
            for one in operations
            if one.join_done_ms is not None
            and one.before_ms is not None
            and one.has_arrivals_or_departures
            and one.events[-1].member_count > 1
        )
        return max(gaps[1] // 2, 1) if len(gaps) >= FEW else None
    waits = []
    target_ms: int | None = None
    stepped: set[str | None] = set()
    for one in operations:
        kinds = {str(event.kind) for event in one.events}
        if target_ms is not None:
            for event in one.events:
                if str(event.kind) in ("MEMBER_RECONCILING", "MEMBER_RECONCILED") and event.member_id not in stepped:
                    stepped.add(event.member_id)
                    waits.append(one.at_ms - target_ms)
        # A rebalance of one member is over with its target: what the member does next is no step towards it.
        if "REBALANCE_COMPLETED" in kinds:
            target_ms = None
        elif "TARGET_ASSIGNED" in kinds:
            target_ms, stepped = one.at_ms, {event.member_id for event in one.events}
    return max(*waits, 1) if len(waits) >= FEW else None


def measured_session(operations: Sequence[RecordedOperation]) -> int | None:
    """Session timeout of a consumer group in ms, where a static member that went away was removed after it."""
    away: dict[str | None, int] = {}
    sessions: list[int] = []
    for one in operations:
        for event in one.events:
            kind = str(event.kind)
            if kind == "MEMBER_AWAY":
                away[event.member_id] = one.at_ms
            elif kind == "MEMBER_LEFT" and event.member_id in away:
                sessions.append(one.at_ms - away[event.member_id])
            elif event.member_id in away:
                del away[event.member_id]
    return max(min(sessions), 1) if sessions else None


def _usual_strategy(operations: Sequence[RecordedOperation]) -> str:
    """Return the assignor that most generations of a classic group chose, of those that can be simulated."""
    chosen = by_frequency(event.changes.get("protocol") for one in operations for event in one.events)
    return next((name for name in chosen if name in STRATEGIES), "range")


def measured_initial_delay(operations: Sequence[RecordedOperation]) -> int | None:
    """``group.initial.rebalance.delay.ms``, where generation 0 was written while the group's first member joined."""
    for before, one in pairwise(operations):
        if one.is_classic and one.join_done_ms is not None and before.events[-1].member_count == 0:
            joined = sum(str(event.kind) == "MEMBER_JOINED" for event in one.events)
            is_first = before.events[-1].epoch == 0 and joined == one.events[-1].member_count
            if is_first and joined:
                return max(one.join_done_ms - before.at_ms, 0) // (1 if joined == 1 else 2)
    return None


def measured_revocation(operations: Sequence[RecordedOperation]) -> int | None:
    """Return how long members of a consumer group take to give up partitions, in ms: the mean on record."""
    asked: dict[str | None, int] = {}
    times: list[int] = []
    for one in operations:
        for event in one.events:
            since = asked.pop(event.member_id, None) if event.member_id is not None else None
            current = event.member.current if event.member is not None else None
            if since is not None and str(event.kind) in ("MEMBER_RECONCILING", "MEMBER_RECONCILED"):
                times.append(one.at_ms - since)
            if current is not None and current.state == MemberState.UNREVOKED_PARTITIONS:
                asked[event.member_id] = one.at_ms
    return round(fmean(times)) if times else None
