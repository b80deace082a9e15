"""Lives of groups, step by step: consumers start, act, commit, leave, crash, restart and migrate; time passes."""

from collections.abc import Callable
from typing import Any

from coordinator_replay.simulation.coordinator import Topic
from tests.simulation.coordinator.simulated_consumers import ClassicConsumer, Consumer, Fleet, ModernConsumer

TOPICS = [Topic("foo", "A" * 21 + "A", 5), Topic("bar", "A" * 21 + "Q", 2), Topic("one", "A" * 21 + "g", 1)]

Step = tuple[Any, ...]
Maker = Callable[[str, tuple[str, ...], str | None, bool], Consumer]


def _classic(*assignors: str) -> Maker:
    return lambda name, topics, instance_id, _: ClassicConsumer(name, topics, assignors, instance_id)


def _modern(name: str, topics: tuple[str, ...], instance_id: str | None, _: bool) -> Consumer:
    return ModernConsumer(name, topics, instance_id)


def _mixed(name: str, topics: tuple[str, ...], instance_id: str | None, is_modern: bool) -> Consumer:
    """A consumer of either protocol."""
    make = _modern if is_modern else _classic("cooperative-sticky", "range")
    return make(name, topics, instance_id, is_modern)


MAKERS = {
    "range": _classic("range"),
    "roundrobin": _classic("roundrobin", "range"),
    "sticky": _classic("sticky"),
    "cooperative-sticky": _classic("cooperative-sticky"),
    "modern": _modern,
    "mixed": _mixed,
}


def do(fleet: Fleet, number: int, step: Step, make: Maker) -> None:
    """Do a step of a life; a consumer that starts is named by the step's number."""
    kind, *details = step
    consumers = fleet.consumers
    if kind == "start":
        topics, instance_id, is_modern = details
        if instance_id is None or all(consumer.instance_id != instance_id for consumer in consumers):
            consumers.append(make(f"c{number}", topics, instance_id, is_modern))
            fleet.act(consumers[-1])
    elif kind == "time":
        fleet.advance(details[0])
    elif kind == "round":
        for consumer in list(consumers):
            fleet.act(consumer)
        fleet.advance(1000)
    elif kind == "reload":
        fleet.reload()
    elif consumers:
        _do_to(fleet, consumers[details[0] % len(consumers)], number, kind, make)


def _do_to(fleet: Fleet, consumer: Consumer, number: int, kind: str, make: Maker) -> None:
    if kind == "act":
        fleet.act(consumer)
    elif kind == "commit":
        fleet.commit(consumer)
    elif kind == "crash":
        fleet.consumers.remove(consumer)
    else:
        fleet.leave(consumer)
        if kind in ("restart", "migrate"):
            # In groups of one protocol a migration is a restart.
            is_modern = isinstance(consumer, ModernConsumer) != (kind == "migrate")
            fleet.consumers.append(make(f"c{number}", consumer.topics, consumer.instance_id, is_modern))
            fleet.act(fleet.consumers[-1])
