"""The settings that a recorded life had, as far as its records show."""

from collections.abc import Mapping, Sequence
from typing import Any

from coordinator_replay.whatif.operations import (
    RecordedOperation,
    chosen_protocols,
    measured_heartbeat,
    measured_initial_delay,
    measured_revocation,
    measured_session,
)
from coordinator_replay.whatif.settings import STRATEGIES, Settings, changed


def recorded_settings(
    operations: Sequence[RecordedOperation], rows: Mapping[str, Sequence[Mapping[str, Any]]], known: Mapping[str, str]
) -> tuple[Settings, list[str]]:
    """The settings that the record shows, and sentences about those that it does not."""
    protocol = "classic" if operations[0].is_classic else "consumer"
    named = {str(name) for row in rows.get("member_timeline", ()) if (name := row["assignor"]) is not None}
    strategy = next((name for name in chosen_protocols(operations) if name in STRATEGIES), "range")
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
