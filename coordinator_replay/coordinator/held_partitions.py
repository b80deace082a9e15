"""Partitions with the epoch in which each came to its member, as reconciliation works with them."""

from collections.abc import Mapping, Sequence
from typing import Any

from coordinator_replay.engine.model import Assignment, Current

Held = dict[str, dict[int, int]]
"""Epoch by partition number, by topic id; no topic without partitions."""


def held(partitions: Assignment, epochs: Assignment, member_epoch: int) -> Held:
    """Join partitions with their epochs; where a record did not tell those, the member's own counts."""
    return {
        topic_id: dict(zip(numbers, epochs.get(topic_id) or (member_epoch,) * len(numbers), strict=True))
        for topic_id, numbers in partitions.items()
    }


def assigned(current: Current) -> Held:
    """What a member may use."""
    return held(current.assigned or {}, current.assigned_epochs, current.epoch)


def pending(current: Current) -> Held:
    """What a member must give up."""
    return held(current.pending, current.pending_epochs, current.epoch)


def split(partitions: Held) -> tuple[Assignment, Assignment]:
    """Partitions and their epochs apart, both in ascending order of partitions."""
    numbers = {topic_id: tuple(sorted(found)) for topic_id, found in partitions.items() if found}
    epochs = {topic_id: tuple(partitions[topic_id][one] for one in found) for topic_id, found in numbers.items()}
    return numbers, epochs


def with_epochs(partitions: Assignment, epochs: Assignment, member_epoch: int) -> list[dict[str, Any]]:
    """Partitions as records have them."""
    return [
        {
            "topicId": topic_id,
            "partitions": list(numbers),
            "assignmentEpochs": list(epochs.get(topic_id) or (member_epoch,) * len(numbers)),
        }
        for topic_id, numbers in partitions.items()
    ]


def as_topics(partitions: Assignment) -> list[dict[str, Any]]:
    """Partitions as responses have them."""
    return [{"topicId": topic_id, "partitions": list(numbers)} for topic_id, numbers in partitions.items()]


Owned = Sequence[Mapping[str, Any]] | None
"""Partitions a client says it owns, ``[{topicId, partitions}]``; None where it says nothing of them."""


def owns_any(owned: Owned, of: Assignment) -> bool:
    """Tell whether a client still owns one of some partitions; one that says nothing may own them all."""
    if owned is None:
        return True
    return any(partition in of.get(topic["topicId"], ()) for topic in owned for partition in topic["partitions"])


def owns_only(owned: Owned, of: Assignment) -> bool:
    """Tell whether a client owns nothing but some partitions; of one that says nothing it is not known."""
    if owned is None:
        return False
    for topic in owned:
        if topic["topicId"] not in of or not set(topic["partitions"]) <= set(of[topic["topicId"]]):
            return False
    return True
