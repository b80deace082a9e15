"""The script of a group's life, out of what is on record of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from coordinator_replay.errors import UsageError
from coordinator_replay.simulation.what_if.client_lives import ClientLives
from coordinator_replay.simulation.what_if.courses import in_range
from coordinator_replay.simulation.what_if.life_topics import topic_changes, topic_images, topics_read
from coordinator_replay.simulation.what_if.operations import RecordedOperation
from coordinator_replay.simulation.what_if.recorded import Recorded
from coordinator_replay.simulation.what_if.recorded_settings import recorded_settings
from coordinator_replay.simulation.what_if.rollouts import unseen
from coordinator_replay.simulation.what_if.script import Life
from coordinator_replay.times import time_text

LEAD_MS = 120_000
"""Who was there at the beginning comes so much earlier, so that the group is at rest by then."""

QUIET_MS, LONGEST_QUIET_MS = 30_000, 600_000
"""For so long a life goes on after the group's last record: where the end of the log is not known, and at most."""

NO_SIMULATION = frozenset({"share", "streams"})


def life_of(
    recorded: Recorded, start_ms: int | None, end_ms: int | None, known: Mapping[str, str]
) -> tuple[Life, dict[str, list[dict[str, Any]]]]:
    """Return the script of a group's life, and the rows of its tables.

    Raises:
        UsageError: the group has no records, or is not one that can be simulated.
    """
    operations = recorded.operations
    if not operations:
        raise UsageError(f"group {recorded.group_id!r} has no members on record: there is nothing to replay")
    types = {str(one.events[-1].group_type) for one in operations}
    if types & NO_SIMULATION:
        kind = sorted(types & NO_SIMULATION)[0]
        raise UsageError(
            f"group {recorded.group_id!r} is a {kind} group; only classic and consumer groups can be simulated"
        )
    rows = recorded.rows
    settings, notes = recorded_settings(_with_first_protocol(operations, start_ms), rows, known)
    reasons = {
        str(member_id): (str(row["cause"]), str(row["confidence"]))
        for row in rows.get("rebalances", ())
        for member_id in row["members_left"]
    }
    lives = ClientLives(settings, reasons, recorded.last_commits)
    for one in operations:
        lives.take(one)
    last_ms = operations[-1].at_ms
    log_end_ms = min(recorded.log_end_ms or last_ms + QUIET_MS, last_ms + LONGEST_QUIET_MS) + 1
    clients = lives.finish(log_end_ms)
    first = operations[0]
    is_whole = any(str(event.kind) == "GROUP_CREATED" for event in first.events)
    begins = min((visit.arrived_ms for client in clients for visit in client.visits), default=first.at_ms)
    earliest = min(begins, first.at_ms) if is_whole else first.at_ms + 1
    start = max(start_ms, earliest) if start_ms is not None else earliest
    end = log_end_ms if end_ms is None else min(log_end_ms, end_ms)
    if end <= start:
        raise UsageError(f"group {recorded.group_id!r} has no records in that time range")
    if not is_whole:
        notes.append(
            "The start of the group is not on record: the members of its first record are taken as its initial members."
        )
    notes += _gaps(operations, start, end)
    chosen = in_range(clients, start, end, LEAD_MS)
    if not chosen:
        raise UsageError(f"group {recorded.group_id!r} had no members in that time range: there is nothing to replay")
    topics = topics_read(chosen, recorded)
    names, changes = topic_changes(topics, operations, recorded, notes)
    if not changes and not recorded.counts.keys() & topics:
        raise UsageError(f"nothing is known of the partitions that group {recorded.group_id!r} reads")
    if topics & changes.keys() - recorded.changes.keys():
        # The record shows what members did about a change, not the change itself.
        settings = replace(settings, metadata_ms=0)
    images = topic_images(names, recorded.counts, changes, topics, start - LEAD_MS, end)
    notes += lives.assumptions()
    notes += _protocol_changes(operations, start, end)
    if any(one.rack_id for client in chosen for visit in client.visits for _, one in visit.subscriptions):
        notes.append(
            "Members have a client.rack. Where replicas lie is not in the tables: assignors are simulated without "
            "racks."
        )
    share = unseen(lives.phases, start, end)
    notes += _unseen_sentence(share)
    return Life(recorded.group_id, start, end, settings, chosen, images, tuple(notes), share), rows


def _unseen_sentence(share: float) -> Iterable[str]:
    if share:
        yield (
            f"In {share:.0%} of the time join phases waited for static members: who came and went meanwhile left no "
            "record. Ranges reach farther up for them."
        )


def _with_first_protocol(operations: Sequence[RecordedOperation], start_ms: int | None) -> list[RecordedOperation]:
    """Return the operations under the protocol that a group has at the beginning of a time range."""
    before = [one for one in operations if start_ms is not None and one.at_ms <= start_ms]
    first = before[-1] if before else operations[0]
    return [one for one in operations if one.is_classic == first.is_classic]


def _protocol_changes(operations: Sequence[RecordedOperation], start_ms: int, end_ms: int) -> Iterable[str]:
    """Yield what to say where a group changed its protocol within a time range."""
    changes = [
        f"{'classic' if one.is_classic else 'consumer'} from {time_text(one.at_ms)} on"
        for before, one in pairwise(operations)
        if start_ms < one.at_ms < end_ms and before.is_classic != one.is_classic
    ]
    if changes:
        yield (
            f"The group changed its protocol in that time: {', '.join(changes)}. All of it is simulated with the first "
            "one; a time range between two changes gives a better answer."
        )


def _gaps(operations: Sequence[RecordedOperation], start_ms: int, end_ms: int) -> Iterable[str]:
    """Yield what to say where records are missing within a time range."""
    gaps = sum(any(not event.is_exact for event in one.events) for one in operations if start_ms <= one.at_ms < end_ms)
    if gaps:
        where = f"{gaps} operation{'' if gaps == 1 else 's'} of that time"
        yield f"Records are missing before {where}: steps in between were not seen."
