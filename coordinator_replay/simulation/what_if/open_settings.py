"""Settings of an alternative that are neither given nor on record, and the shortest that they can be.

A group's records under one protocol have nothing of intervals that another protocol has. Kafka's default is simulated
then; a second life with the shortest values shows how much depends on it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from coordinator_replay.simulation.what_if.libraries import LIBRDKAFKA
from coordinator_replay.simulation.what_if.script import ClientLife, Life
from coordinator_replay.simulation.what_if.settings import BY_NAME, Settings


class _Open(NamedTuple):
    """A setting that may not be on record.

    Attributes:
        name: Kafka's name.
        value: what is simulated.
        shortest_ms: the least that it can be in practice.
        is_classic: only the classic protocol has it.
        is_of_topics: it matters only where topics change.
        is_of_members: classic members have it on record.
    """

    name: str
    value: Callable[[Settings], int]
    shortest_ms: int
    is_classic: bool = False
    is_of_topics: bool = False
    is_of_members: bool = False


_OPEN: Sequence[_Open] = (
    # Nobody beats more often than ten times in a second.
    _Open("heartbeat.interval.ms", Settings.heartbeat, 100),
    _Open("group.initial.rebalance.delay.ms", Settings.initial_delay, 0, is_classic=True),
    # As if every change of a topic were seen at once.
    _Open("metadata.max.age.ms", Settings.metadata_age, 0, is_classic=True, is_of_topics=True),
    # Brokers allow no shorter ones, unless group.min.session.timeout.ms is set.
    _Open("session.timeout.ms", Settings.consumer_session, 6_000, is_classic=True, is_of_members=True),
)


def _open_in(settings: Settings, life: Life) -> list[_Open]:
    do_topics_change = any(at_ms >= life.start_ms for at_ms, _ in life.topics[1:])
    return [
        one
        for one in _OPEN
        if getattr(settings, BY_NAME[one.name].field) is None
        and (settings.protocol == "classic" or not one.is_classic)
        and (do_topics_change or not one.is_of_topics)
        and (life.settings.protocol != "classic" or not one.is_of_members)
    ]


def shortest(settings: Settings, life: Life) -> Settings | None:
    """Return the settings with the shortest values for those not on record; None if all that matter are known."""
    changes: dict[str, Any] = {BY_NAME[one.name].field: one.shortest_ms for one in _open_in(settings, life)}
    return replace(settings, **changes) if changes else None


def with_librdkafka(settings: Settings, clients: Sequence[ClientLife]) -> tuple[ClientLife, ...] | None:
    """Return clients whose library is not on record as librdkafka's; None where that makes no difference."""
    is_recorded = settings.library is not None or all(client.library is not None for client in clients)
    if settings.protocol != "classic" or is_recorded:
        return None
    return tuple(replace(client, library=client.library or LIBRDKAFKA) for client in clients)


def open_settings_sentences(alternatives: Sequence[Settings], life: Life) -> Iterable[str]:
    """Yield a sentence for each setting that is not on record.

    Args:
        alternatives: the settings of each alternative.
        life: the life that they are tried on.
    """
    sentences = (
        f"{one.name} of the {settings.protocol} protocol is neither given nor on record: "
        f"{one.value(settings):,} ms, Kafka's default; ranges reach down to {one.shortest_ms:,} ms."
        for settings in alternatives
        for one in _open_in(settings, life)
    )
    yield from dict.fromkeys(sentences)
    changed = [one for one in alternatives if one.protocol != life.settings.protocol]
    for settings in {one.protocol: one for one in changed}.values():
        yield (
            f"Records of the {life.settings.protocol} protocol don't have the assignor of the other one: unless given "
            f"it is {settings.strategy if settings.protocol == 'classic' else settings.assignor}."
        )
    if any(one.protocol == "consumer" and one.session_ms is None for one in changed):
        yield "The session timeout of a consumer group is neither given nor on record: 45,000 ms, Kafka's default."
