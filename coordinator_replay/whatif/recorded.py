"""What is on record of a group, and the script of its life out of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from coordinator_replay.analysis.reasons import TopicChanges
from coordinator_replay.engine.model import Record
from coordinator_replay.errors import UsageError
from coordinator_replay.times import moment_of_ms
from coordinator_replay.whatif.courses import in_range
from coordinator_replay.whatif.measure import rows_of
from coordinator_replay.whatif.operations import (
    Operation,
    assigned_partitions,
    chosen_protocols,
    measured_heartbeat,
    measured_initial_delay,
    measured_revocation,
    measured_session,
    operations_of,
)
from coordinator_replay.whatif.script import ClientLife, ClientLives, Life, topic_images
from coordinator_replay.whatif.settings import STRATEGIES, Settings, changed
from coordinator_replay.whatif.simulate import METADATA_MS, matches

LEAD_MS = 120_000
"""Who was there at the beginning comes so much earlier, so that the group is at rest by then."""

QUIET_MS, LONGEST_QUIET_MS = 30_000, 600_000
"""For so long a life goes on after the group's last record: where the end of the log is not known, and at most."""

NO_SIMULATION = frozenset({"share", "streams"})


@dataclass(frozen=True)
class Recorded:
    """What is on record of a group.

    Attributes:
        records: its records in log order, embedded blobs opened; offset commits are not needed.
        names: topic name by id.
        counts: partitions by topic name, as of the newest source.
        changes: when topics changed.
        judged: rows of ``rebalances``, where an audit has judged them by offset commits too; None to judge them anew.
        log_end_ms: the last record of the log, of whatever group; None where it is not known.
        last_commits: when each member committed last, by member id, where that is known.
    """

    group_id: str
    records: Sequence[Record]
    names: Mapping[str, str]
    counts: Mapping[str, int]
    changes: TopicChanges
    judged: Sequence[Mapping[str, Any]] | None = None
    log_end_ms: int | None = None
    last_commits: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Every table's rows; rebalances as the audit judged them."""
        rows = rows_of(self.group_id, self.records, self.names, self.changes)
        if self.judged is not None:
            by_id = {row["rebalance_id"]: row for row in rows.get("rebalances", ())}
            for told in self.judged:
                place = (told["epoch"], told["completed_at"])
                for row in by_id.values():
                    if (row["epoch"], row["completed_at"]) == place:
                        row |= {name: told[name] for name in ("cause", "confidence", "commit_pause_ms")}
        return rows

    @cached_property
    def operations(self) -> list[Operation]:
        """The records as operations."""
        return operations_of(self.group_id, self.records)


def life_of(
    recorded: Recorded, start_ms: int | None, end_ms: int | None, known: Mapping[str, str]
) -> tuple[Life, dict[str, list[dict[str, Any]]]]:
    """The script of a group's life, and the rows of its tables.

    Raises:
        UsageError: the group has no records, or is not one that can be simulated.
    """
    operations = recorded.operations
    if not operations:
        raise UsageError(f"group {recorded.group_id!r} has no members on record: there is no life to replay")
    types = {str(one.events[-1].group_type) for one in operations}
    if types & NO_SIMULATION:
        kind = sorted(types & NO_SIMULATION)[0]
        raise UsageError(
            f"group {recorded.group_id!r} is a {kind} group; only classic and consumer groups can be simulated"
        )
    rows = recorded.rows
    settings, notes = _recorded_settings(_with_first_protocol(operations, start_ms), rows, known)
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
        notes.append("The group's beginning is not on record: who was there with its first record is taken as settled.")
    notes += _gaps(operations, start, end)
    chosen = in_range(clients, start, end, LEAD_MS)
    if not chosen:
        raise UsageError(f"group {recorded.group_id!r} had no members in that time range: there is no life to replay")
    topics = _topics_read(chosen, recorded)
    names, changes = _topic_changes(topics, operations, recorded, notes)
    if not changes and not recorded.counts.keys() & topics:
        raise UsageError(f"nothing is known of the partitions that group {recorded.group_id!r} reads")
    if topics & changes.keys() - recorded.changes.keys():
        # The record shows what members did about a change, not the change itself.
        settings = replace(settings, metadata_ms=0)
    images = topic_images(names, recorded.counts, changes, topics, start - LEAD_MS, end)
    notes += lives.assumptions()
    notes += _protocol_changes(operations, start, end)
    if any(told.rack_id for client in chosen for visit in client.visits for _, told in visit.subscriptions):
        notes.append(
            "Members have a client.rack. Where replicas lie is not in the tables: assignors are simulated without "
            "racks."
        )
    return Life(recorded.group_id, start, end, settings, chosen, images, tuple(notes)), rows


def _with_first_protocol(operations: Sequence[Operation], start_ms: int | None) -> list[Operation]:
    """The operations under the protocol that a group has at the beginning of a time range."""
    before = [one for one in operations if start_ms is not None and one.at_ms <= start_ms]
    first = before[-1] if before else operations[0]
    return [one for one in operations if one.is_classic == first.is_classic]


def _protocol_changes(operations: Sequence[Operation], start_ms: int, end_ms: int) -> Iterable[str]:
    """What to say where a group changed its protocol within a time range."""
    changes = [
        f"{'classic' if one.is_classic else 'consumer'} from {_moment(one.at_ms)} on"
        for before, one in pairwise(operations)
        if start_ms < one.at_ms < end_ms and before.is_classic != one.is_classic
    ]
    if changes:
        yield (
            f"The group changed its protocol in that time: {', '.join(changes)}. All of it is simulated with the first "
            "one; a time range between two changes gives a better answer."
        )


def _moment(at_ms: int) -> str:
    moment = moment_of_ms(at_ms)
    return "an unknown time" if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at_ms % 1000:03d}Z"


def _gaps(operations: Sequence[Operation], start_ms: int, end_ms: int) -> Iterable[str]:
    """What to say where records are missing within a time range."""
    gaps = sum(any(not event.is_exact for event in one.events) for one in operations if start_ms <= one.at_ms < end_ms)
    if gaps:
        yield f"Records are missing before {gaps} operations of that time: steps in between were not seen."


def _recorded_settings(
    operations: Sequence[Operation], rows: Mapping[str, Sequence[Mapping[str, Any]]], known: Mapping[str, str]
) -> tuple[Settings, list[str]]:
    """The settings that the record shows, and sentences about those that it does not."""
    protocol = "classic" if operations[0].is_classic else "consumer"
    named = {str(name) for row in rows.get("member_timeline", ()) if (name := row["assignor"]) is not None}
    strategy = next((name for name in chosen_protocols(operations) if name in STRATEGIES), "range")
    assignor = "range" if protocol == "consumer" and named == {"range"} else "uniform"
    heartbeat = measured_heartbeat(operations)
    delays = [row["metadata_delay_ms"] for row in rows.get("rebalances", ()) if row["metadata_delay_ms"] is not None]
    delay = measured_initial_delay(operations)
    revocation = measured_revocation(operations)
    settings = Settings(
        protocol=protocol,
        initial_delay_ms=3000 if delay is None else delay,
        revoke_ms=revocation or 0,
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
    if protocol == "classic" and delay is None and "group.initial.rebalance.delay.ms" not in known:
        notes.append(f"group.initial.rebalance.delay.ms is not on record; {settings.initial_delay_ms:,} ms.")
    if settings.metadata_ms is None and protocol == "classic":
        notes.append(f"metadata.max.age.ms is not on record; {METADATA_MS:,} ms.")
    took = "without a delay" if revocation is None else f"in {revocation:,} ms, the median on record"
    notes.append(f"Consumers are simulated to give up partitions {took}, and to take them and join again without one.")
    if protocol == "classic":
        notes.append("The join phases of classic rebalances are not on record; when they began is assumed.")
    return settings, notes


def _topics_read(clients: Sequence[ClientLife], recorded: Recorded) -> set[str]:
    """Topics that clients subscribe to by name; all that are known where one has an expression."""
    told = [one for client in clients for visit in client.visits for _, one in visit.subscriptions]
    found = {name for one in told for name in one.topics or ()}
    known = {*recorded.names.values(), *recorded.counts}
    for regex in {one.regex for one in told if one.regex}:
        found |= {name for name in known if matches(regex, name)}
    return found


def _topic_changes(
    wanted: Iterable[str], operations: Sequence[Operation], recorded: Recorded, notes: list[str]
) -> tuple[Mapping[str, str], TopicChanges]:
    """Topic names by id, and when topics changed; of topics without metadata what assignments show."""
    missing = {name for name in wanted if name not in recorded.changes and name not in recorded.counts}
    if not missing:
        return recorded.names, recorded.changes
    grown = assigned_partitions(operations)
    names = dict(recorded.names)
    unnamed = [key for key in grown if key not in names and key not in missing]
    if len(missing) == 1 and len(unnamed) == 1:
        names[unnamed[0]] = next(iter(missing))
    changes = dict(recorded.changes)
    for key, told in grown.items():
        name = names.get(key, key)
        if name in missing:
            changes[name] = told
    for name in sorted(missing):
        if name in changes:
            notes.append(
                f"The metadata of topic {name} is not at hand; its partitions are the ones that were assigned."
            )
        else:
            notes.append(f"Nothing is known of topic {name}: it is left out.")
    return names, changes
