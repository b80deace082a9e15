"""Further evidence about a rebalance: its records look like a known fault of a Kafka release."""

from collections import Counter

from coordinator_replay.analysis.broker_faults import KAFKA_7610, KAFKA_9801, Fault
from coordinator_replay.analysis.reasons.facts import Fact, FactKind, Sentence, about
from coordinator_replay.analysis.reasons.situation import Situation
from coordinator_replay.analysis.reasons.together import together
from coordinator_replay.engine.events import EventKind
from coordinator_replay.engine.model import GroupType

CROWD = 20
"""If at least this number of members with the same client id and host joined in one generation, they look like a fault.
A single process is not likely to have this many."""


def known_faults(situation: Situation) -> list[Sentence]:
    """Return sentences on known faults that leave the same records as this classic rebalance."""
    if situation.group_type is not GroupType.CLASSIC:
        return []
    return [*_without_assignment(situation), *_crowd(situation)]


def _without_assignment(situation: Situation) -> list[Sentence]:
    """Return sentences on members for which the leader sent no assignment, and on the fault that may be the cause.

    The coordinator writes 0 bytes for a member that the leader's SyncGroup does not name. An assignment that the leader
    made empty has a version and a length.
    """
    missing = [
        member for member in situation.opening.members if member.current is not None and not member.current.has_bytes
    ]
    if not missing:
        return []
    replaced = {event.member_id for event in situation.of_kind(EventKind.MEMBER_REPLACED)}
    place = situation.place()
    facts = together([(about(FactKind.NO_ASSIGNMENT, member, place=place),)] for member in missing)
    is_static = any(member.instance_id is not None and member.member_id in replaced for member in missing)
    return [*facts, _possibly(KAFKA_9801)] if is_static else facts


def _possibly(fault: Fault) -> Sentence:
    return (Fact(FactKind.KNOWN_FAULT, new=fault.issue),)


def _crowd(situation: Situation) -> list[Sentence]:
    """Return a sentence if very many members with the same client id and host joined at the same time."""
    subscriptions = [member.subscription_or_empty for member, _ in situation.joined]
    clients = Counter(
        (subscription.client_id, subscription.client_host)
        for subscription in subscriptions
        if subscription.instance_id is None
    )
    most = max(clients.values(), default=0)
    return [_possibly(KAFKA_7610)] if most >= CROWD else []
