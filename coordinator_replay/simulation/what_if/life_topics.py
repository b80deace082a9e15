"""The topics of a life: which ones its clients read, and how many partitions they had when."""

import re
from collections.abc import Iterable, Mapping, Sequence

from coordinator_replay.analysis.reasons.topic_changes import TopicChanges
from coordinator_replay.simulation.coordinator import Topic
from coordinator_replay.simulation.what_if.operations import RecordedOperation, assigned_partitions
from coordinator_replay.simulation.what_if.recorded import Recorded
from coordinator_replay.simulation.what_if.script import ClientLife


def matches(regex: str, topic: str) -> bool:
    """Return whether an expression that a member subscribes to means a topic; one that Python can't read means none."""
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
    """Return the topics at each moment at which one of them changed.

    Args:
        names: topic name by id.
        counts: partitions by topic, for topics whose changes are not known.
        changes: when topics changed.
        wanted: names of topics to include.
        start_ms: changes until then are the first image.
        end_ms: changes after it are left out.
    """
    ids = {name: topic_id for topic_id, name in names.items()}
    chosen = sorted(set(wanted))
    moments = sorted({one.at_ms for name in chosen for one in changes.get(name, ()) if start_ms < one.at_ms <= end_ms})
    images = []
    for at_ms in (start_ms, *moments):
        image = []
        for number, name in enumerate(chosen):
            earlier = [one for one in changes.get(name, ()) if one.at_ms <= at_ms]
            count = earlier[-1].partition_count if earlier else (0 if changes.get(name) else counts.get(name, 0))
            if count:
                image.append(Topic(name, ids.get(name) or f"simulated-topic{number:06d}A", count))
        images.append((at_ms, tuple(image)))
    return tuple(images)


def topics_read(clients: Sequence[ClientLife], recorded: Recorded) -> set[str]:
    """Return topics that clients subscribe to by name; all that are known where one has an expression."""
    subscriptions = [one for client in clients for visit in client.visits for _, one in visit.subscriptions]
    names = {name for one in subscriptions for name in one.topics or ()}
    all_names = {*recorded.names.values(), *recorded.counts}
    for regex in {one.regex for one in subscriptions if one.regex}:
        names |= {name for name in all_names if matches(regex, name)}
    return names


def topic_changes(
    wanted: Iterable[str], operations: Sequence[RecordedOperation], recorded: Recorded, notes: list[str]
) -> tuple[Mapping[str, str], TopicChanges]:
    """Return topic names by id, and when topics changed; of topics without metadata what assignments show."""
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
