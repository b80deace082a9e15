"""The script of a simulation: which clients came, went and came back, and when topics changed.

A client gets a new member id each time it starts. So a client is recognized by its instance id, or by its client id and
host if it has no instance id. Facts that are not in the log are assumed. ``Life.assumptions`` has a sentence for each
assumption.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from coordinator_replay.analysis.reasons.topic_changes import TopicChanges
from coordinator_replay.engine.model import Subscription
from coordinator_replay.simulation.coordinator import Topic
from coordinator_replay.simulation.what_if.record import Recorded, RecordedOperation, assigned_partitions
from coordinator_replay.simulation.what_if.settings import Settings

CLOSED, CRASHED = "closed", "crashed"

COMMITTED = 0.8
"""Share of clients that are assumed to have stopped at their last commit, because a closing consumer commits."""

RESTART_MS = 300
"""Shortest time that a restarted client is away."""


class Window(NamedTuple):
    """Time range in which a client may have departed, if the log does not show when and how.

    Attributes:
        earliest_ms: the earliest time at which the client may have departed.
        latest_ms: the latest time at which the client may have departed.
        may_have_stayed: whether it is possible that the client did not depart at all.
        is_restart: whether the client was back directly after ``latest_ms``.
        is_committed: whether the client committed an offset directly before ``earliest_ms``.
        rollout_ms: the start of the deployment that replaced the client; None without a deployment.
    """

    earliest_ms: int
    latest_ms: int
    may_have_stayed: bool = False
    is_restart: bool = False
    is_committed: bool = False
    rollout_ms: int | None = None

    def at(self, share: float) -> int:
        """Return a time at which the client may have departed.

        Args:
            share: a number from 0 to 1: the probability that the client had departed by the returned time.
        """
        length_ms = self.latest_ms - self.earliest_ms
        if self.is_committed:
            share = max(share - COMMITTED, 0) / (1 - COMMITTED)
        if not share or not self.is_restart:
            return self.earliest_ms + round(share * length_ms)
        away_ms: float = RESTART_MS * (max(length_ms, 1) / RESTART_MS) ** (1 - share)
        return self.latest_ms - round(min(away_ms, length_ms))


class Ending(NamedTuple):
    """Another possible departure of a client, if the log doesn't show whether it left or its session timed out.

    Attributes:
        departed_ms: the time at which the client was closed or died in this case.
        how: ``closed`` or ``crashed``.
        is_unlikely: whether this departure is much less likely than the departure in ``Visit``.
    """

    departed_ms: int
    how: str
    is_unlikely: bool = False


@dataclass(frozen=True, slots=True)
class Visit:
    """The time that a client spends in the group, from its arrival to its departure.

    Attributes:
        arrived_ms: the time at which the client started to join.
        member_id: the member id that the client had; empty for a client that is not on record.
        subscriptions: pairs of a time and the subscription that the client had from this time on.
        departed_ms: the time at which the client was closed or died; None if the client stayed to the end.
        how: ``closed`` or ``crashed``.
        window: possible times of the departure, if ``departed_ms`` is only assumed; otherwise None.
        later_ms: by how many milliseconds at most the client may have arrived after ``arrived_ms``.
        other_ending: a second possible departure; None if only one departure is possible.
        arrival: possible times of the arrival, if ``arrived_ms`` is only assumed; otherwise None.
        alive_ms: the time of the last rebalance in which the client took part; 0 if it took part in none.
    """

    arrived_ms: int
    member_id: str
    subscriptions: tuple[tuple[int, Subscription], ...]
    departed_ms: int | None = None
    how: str = CLOSED
    window: Window | None = None
    later_ms: int = 0
    other_ending: Ending | None = None
    arrival: Window | None = None
    alive_ms: int = 0


@dataclass(frozen=True, slots=True)
class ClientLife:
    """One client of the recorded group.

    Attributes:
        visits: the times in which the client was a member of the group, oldest first.
        library: the client's Kafka library, a constant of ``libraries``; None if the library is not on record.
    """

    name: str
    client_id: str
    host: str
    instance_id: str | None
    visits: tuple[Visit, ...]
    library: str | None = None


@dataclass(frozen=True, slots=True)
class Life:
    """Script of a group's life between two times.

    Attributes:
        settings: settings of the group, as far as the log shows them.
        clients: clients that were in the group between these times.
        topics: pairs of a time and the topics that exist from this time on. The time of the first pair is ``start_ms``.
        assumptions: assumptions about facts that the log does not show, in sentences.
        unseen: how much of the time range join phases spent waiting for static members that had left, as a number from
            0 to 1. Members that came and went during such a wait left no records.
    """

    group_id: str
    start_ms: int
    end_ms: int
    settings: Settings
    clients: tuple[ClientLife, ...]
    topics: tuple[tuple[int, tuple[Topic, ...]], ...]
    assumptions: tuple[str, ...]
    unseen: float = 0.0

    @property
    def by_member(self) -> Mapping[str, str]:
        """Return the name of the client of each member id."""
        return {visit.member_id: client.name for client in self.clients for visit in client.visits}


def matches(regex: str, topic: str) -> bool:
    """Return whether a member's expression matches a topic. An expression that Python can't read matches no topic."""
    try:
        return re.fullmatch(regex, topic) is not None
    except re.error:
        return False


def topic_images(
    names: Mapping[str, str],
    counts: Mapping[str, int],
    changes: TopicChanges,
    wanted: Iterable[str],
    start_ms: int,
    end_ms: int,
) -> tuple[tuple[int, tuple[Topic, ...]], ...]:
    """Return pairs of a time and the topics that exist from this time on.

    The time of the first pair is ``start_ms``. Another pair follows for each time at which a topic changed. Topics
    without partitions are left out.

    Args:
        names: topic name by id.
        counts: partitions by topic, for topics whose changes are not known.
        changes: times at which topics changed.
        wanted: names of topics to include.
        start_ms: the time of the first pair. Its topics have all earlier changes.
        end_ms: the time after which changes are left out.
    """
    ids = {name: topic_id for topic_id, name in names.items()}
    chosen = sorted(set(wanted))
    moments = sorted(
        {change.at_ms for name in chosen for change in changes.get(name, ()) if start_ms < change.at_ms <= end_ms}
    )
    images = []
    for at_ms in (start_ms, *moments):
        image = []
        for number, name in enumerate(chosen):
            earlier = [change for change in changes.get(name, ()) if change.at_ms <= at_ms]
            count = earlier[-1].partition_count if earlier else (0 if changes.get(name) else counts.get(name, 0))
            if count:
                image.append(Topic(name, ids.get(name) or f"simulated-topic{number:06d}A", count))
        images.append((at_ms, tuple(image)))
    return tuple(images)


def topics_read(clients: Sequence[ClientLife], recorded: Recorded) -> set[str]:
    """Return the topics that clients subscribe to by name, and the known topics that their regexes match."""
    subscriptions = [
        subscription for client in clients for visit in client.visits for _, subscription in visit.subscriptions
    ]
    names = {name for subscription in subscriptions for name in subscription.topics or ()}
    all_names = {*recorded.names.values(), *recorded.counts}
    for regex in {subscription.regex for subscription in subscriptions if subscription.regex}:
        names |= {name for name in all_names if matches(regex, name)}
    return names


def topic_changes(
    wanted: Iterable[str], operations: Sequence[RecordedOperation], recorded: Recorded, notes: list[str]
) -> tuple[Mapping[str, str], TopicChanges]:
    """Return topic names by id, and the changes of topics by name.

    If the metadata of a topic is not on record, its changes are taken from the assignments of the group's members. Add
    a sentence on each such topic to ``notes``.
    """
    missing = {name for name in wanted if name not in recorded.changes and name not in recorded.counts}
    if not missing:
        return recorded.names, recorded.changes
    grown = assigned_partitions(operations)
    names = dict(recorded.names)
    unnamed = [key for key in grown if key not in names and key not in missing]
    if len(missing) == 1 and len(unnamed) == 1:
        names[unnamed[0]] = next(iter(missing))
    changes = dict(recorded.changes)
    for key, steps in grown.items():
        name = names.get(key, key)
        if name in missing:
            changes[name] = steps
    for name in sorted(missing):
        if name in changes:
            notes.append(
                f"The metadata of topic {name} is not on record: it is simulated with the assigned partitions."
            )
        else:
            notes.append(f"Nothing is known of topic {name}: it is left out.")
    return names, changes
