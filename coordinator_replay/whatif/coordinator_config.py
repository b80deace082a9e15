"""The settings of the simulated coordinator."""

from coordinator_replay.coordinator import Config
from coordinator_replay.whatif.settings import Settings

TIMER_MS = 10
"""So long a broker's timer takes at least: who joins at the same time as the first member is in its generation."""


def config_of(settings: Settings) -> Config:
    """The coordinator's settings. Bounds of brokers give way: a simulated broker may allow any value."""
    session = settings.consumer_session()
    numbers = {"session.timeout.ms": session, "heartbeat.interval.ms": min(settings.heartbeat(), session)}
    bounds = {f"group.consumer.{end}.{name}": value for name, value in numbers.items() for end in ("min", "max")}
    return Config(
        {
            **bounds,
            **{f"group.consumer.{name}": value for name, value in numbers.items()},
            "group.consumer.max.assignment.interval.ms": max(settings.assignment_ms, 15_000),
            "group.consumer.assignment.interval.ms": settings.assignment_ms,
            "group.initial.rebalance.delay.ms": max(settings.initial_delay(), TIMER_MS),
            "group.min.session.timeout.ms": 1,
            "group.max.session.timeout.ms": 2**31 - 1,
        }
    )
