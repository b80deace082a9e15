"""The simulated consumer that arrives with a visit, under the settings to be tried."""

from collections.abc import Iterable
from typing import Any

from coordinator_replay.engine.model import Subscription
from coordinator_replay.simulation.what_if.classic_client import ClassicConsumer
from coordinator_replay.simulation.what_if.clients import Consumer
from coordinator_replay.simulation.what_if.libraries import JAVA, LIBRDKAFKA
from coordinator_replay.simulation.what_if.life_topics import matches
from coordinator_replay.simulation.what_if.modern_client import ModernConsumer
from coordinator_replay.simulation.what_if.script import ClientLife, Visit
from coordinator_replay.simulation.what_if.settings import NO_INSTANCE, PER_CLIENT, Settings
from coordinator_replay.simulation.what_if.timing import Timing

SESSION_MS, REBALANCE_MS = 45_000, 300_000
"""Kafka's defaults of ``session.timeout.ms`` and ``max.poll.interval.ms``."""


def consumer_of(
    client: ClientLife, visit: Visit, settings: Settings, timing: Timing, *, number: int, topic_names: Iterable[str]
) -> Consumer:
    """Return the consumer that a client starts with a visit.

    Args:
        client: who comes.
        visit: when, and what it asks for.
        settings: to be tried.
        timing: of what no record has.
        number: how many consumers the client has started, this one included: part of the member id under KIP-848.
        topic_names: all topics of now; a classic consumer resolves an expression itself.
    """
    subscription = visit.subscriptions[0][1]
    instance_id = client.instance_id
    if settings.instance == PER_CLIENT:
        instance_id = instance_id or client.name
    elif settings.instance == NO_INSTANCE:
        instance_id = None
    recorded_ms = subscription.loaded_rebalance_ms if subscription.loaded_rebalance_ms > 0 else REBALANCE_MS
    shared: dict[str, Any] = {
        "name": client.name,
        "client_id": client.client_id,
        "host": client.host,
        "instance_id": instance_id,
        "rebalance_ms": settings.rebalance_ms or recorded_ms,
        "library": settings.library or client.library or JAVA,
    }
    if settings.protocol == "consumer":
        return ModernConsumer(
            **shared,
            topics=subscription.topics or (),
            session_ms=settings.consumer_session(),
            assignor=settings.assignor,
            regex=subscription.regex,
            member_id=f"{client.name}-{number}",
            revoke_ms=timing.revocation_ms(settings.revoke_ms, shared["library"]),
            is_restarted=timing.is_restarted or shared["library"] != LIBRDKAFKA,
        )
    return ClassicConsumer(
        **shared,
        topics=topics_matched(subscription, topic_names),
        session_ms=settings.session_ms or subscription.session_timeout_ms or SESSION_MS,
        strategy=settings.strategy,
        wake_ms=timing.wake_ms,
    )


def topics_matched(subscription: Subscription, topic_names: Iterable[str]) -> tuple[str, ...]:
    """Return topics that a classic consumer subscribes to: it resolves an expression itself."""
    names = list(subscription.topics or ())
    if subscription.regex:
        names += [name for name in sorted(topic_names) if matches(subscription.regex, name)]
    return tuple(dict.fromkeys(names))
