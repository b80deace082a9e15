"""Configuration of the coordinator, by the brokers' own names.

Defaults and bounds are from Kafka 4.3 (``GroupCoordinatorConfig``, ``GroupConfig``). Settings that have no effect here
are accepted: threads, buffers, replication, share and streams groups.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from coordinator_replay.errors import UsageError

MAX_INT = 2**31 - 1
MIGRATION_POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")
SERVER_ASSIGNORS = ("uniform", "range")
CLIENT_ASSIGNORS = "group.consumer.client.assignors"
"""Our own setting: the client-side assignment of KIP-848's draft, which no release of Kafka has."""
FAULTS = "coordinator.faults"
"""Our own setting: faults of earlier releases that the coordinator imitates."""


class BrokerFault(StrEnum):
    """A fault of earlier releases, which Kafka 4.3 does not have."""

    JOIN_WITHOUT_TIMEOUT = "KAFKA-8653"
    """Kafka 2.3.0: version 0 of JoinGroup has a rebalance timeout of -1, which counts as 0."""
    STATIC_JOIN_BEFORE_SYNC = "KAFKA-9801"
    """Kafka 2.3.0 to 2.4.1: a static member that comes back while the leader assigns begins no rebalance."""
    EXPIRY_IN_REBALANCE = "KAFKA-13636"
    """Kafka 2.4.0 to 3.1.0: offsets can expire while a group with members is not Stable."""


class NumberConfig(NamedTuple):
    """The default and the lowest value of a setting whose value is a number."""

    default: int
    lowest: int = -MAX_INT


NUMBERS: Mapping[str, NumberConfig] = {
    "group.consumer.assignment.interval.ms": NumberConfig(1000, 0),
    "group.consumer.heartbeat.interval.ms": NumberConfig(5000, 1),
    "group.consumer.max.assignment.interval.ms": NumberConfig(15000, 0),
    "group.consumer.max.heartbeat.interval.ms": NumberConfig(15000, 1),
    "group.consumer.max.session.timeout.ms": NumberConfig(60000, 1),
    "group.consumer.max.size": NumberConfig(MAX_INT, 1),
    "group.consumer.min.assignment.interval.ms": NumberConfig(0, 0),
    "group.consumer.min.heartbeat.interval.ms": NumberConfig(5000, 1),
    "group.consumer.min.session.timeout.ms": NumberConfig(45000, 1),
    "group.consumer.regex.refresh.interval.ms": NumberConfig(600000, 10000),
    "group.consumer.session.timeout.ms": NumberConfig(45000, 1),
    "group.initial.rebalance.delay.ms": NumberConfig(3000),
    "group.max.session.timeout.ms": NumberConfig(1800000),
    "group.max.size": NumberConfig(MAX_INT, 1),
    "group.min.session.timeout.ms": NumberConfig(6000),
    "offset.metadata.max.bytes": NumberConfig(4096),
    "offsets.retention.check.interval.ms": NumberConfig(600000, 1),
    "offsets.retention.minutes": NumberConfig(10080, 1),
}
"""Settings with a whole number as value."""

GROUP_NUMBERS: Mapping[str, str] = {
    "consumer.assignment.interval.ms": "group.consumer.assignment.interval.ms",
    "consumer.heartbeat.interval.ms": "group.consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms": "group.consumer.session.timeout.ms",
}
"""Settings of a single group, each with the broker's setting that it replaces."""

WITHOUT_EFFECT = ("group.coordinator.", "group.share.", "group.streams.", "share.", "streams.", "offsets.")
"""Prefixes of the names of settings that are accepted without effect."""


class Config:
    """The settings of one coordinator and of its groups."""

    __slots__ = ("_groups", "_numbers", "assignors", "client_assignors", "faults", "migration_policy")

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        """Set the given settings; all others have Kafka's defaults.

        Numbers may be given as text, and lists as text with commas.

        Raises:
            UsageError: a setting is unknown, or its value is not allowed.
        """
        self._numbers = {name: setting.default for name, setting in NUMBERS.items()}
        self._groups: dict[str, dict[str, int]] = {}
        self.assignors: tuple[str, ...] = SERVER_ASSIGNORS
        self.migration_policy = MIGRATION_POLICIES[0]
        self.client_assignors = False
        self.faults: frozenset[BrokerFault] = frozenset()
        for name, value in (settings or {}).items():
            self._set(name, value)
        self._check_bounds()

    def number(self, name: str) -> int:
        """Return the value of a setting of ``NUMBERS``."""
        return self._numbers[name]

    def group_number(self, group_id: str, name: str) -> int:
        """Return a group's value of a setting of ``GROUP_NUMBERS``.

        If the group has no value, return the broker's.
        """
        own = self._groups.get(group_id)
        if own is not None and name in own:
            return own[name]
        return self._numbers[GROUP_NUMBERS[name]]

    def set_group(self, group_id: str, settings: Mapping[str, Any]) -> None:
        """Give a group its own settings, which replace all settings that the group had.

        Raises:
            UsageError: a setting is unknown or its value is not a number; the group's settings stay as they were.
        """
        own = {}
        for name, value in settings.items():
            if name in GROUP_NUMBERS:
                own[name] = self._clamped(name, _number(name, value))
            elif not name.startswith(WITHOUT_EFFECT):
                raise UsageError(f"unknown group setting {name!r}; there are {', '.join(sorted(GROUP_NUMBERS))}")
        self._groups[group_id] = own

    def _clamped(self, name: str, value: int) -> int:
        """Return a group's value, raised or lowered to the broker's bounds, as brokers do."""
        broker = GROUP_NUMBERS[name].removeprefix("group.consumer.")
        low, high = (self._numbers[f"group.consumer.{end}.{broker}"] for end in ("min", "max"))
        return min(max(value, low), high)

    def _set(self, name: str, value: Any) -> None:
        if name in NUMBERS:
            number = _number(name, value)
            if number < NUMBERS[name].lowest:
                raise UsageError(f"{name} is {number}; it must be at least {NUMBERS[name].lowest}")
            self._numbers[name] = number
        elif name == "group.consumer.assignors":
            self.assignors = _assignors(value)
        elif name == "group.consumer.migration.policy":
            policy = str(value).lower()
            if policy not in MIGRATION_POLICIES:
                raise UsageError(f"{name} is {value!r}; it must be one of {', '.join(MIGRATION_POLICIES)}")
            self.migration_policy = policy
        elif name == CLIENT_ASSIGNORS:
            self.client_assignors = value is True or str(value).lower() == "true"
        elif name == FAULTS:
            self.faults = _faults(value)
        elif not name.startswith(WITHOUT_EFFECT):
            raise UsageError(f"unknown setting {name!r}")

    def _check_bounds(self) -> None:
        for name in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"):
            low, value, high = (self._numbers[f"group.consumer.{end}{name}"] for end in ("min.", "", "max."))
            if not low <= value <= high:
                raise UsageError(f"group.consumer.{name} is {value}; it must be between {low} and {high}")

    @property
    def has_sync_timer(self) -> bool:
        """Return whether the coordinator removes members that send no SyncGroup, as brokers do since Kafka 2.8.1."""
        return self.faults.isdisjoint({BrokerFault.JOIN_WITHOUT_TIMEOUT, BrokerFault.STATIC_JOIN_BEFORE_SYNC})

    @property
    def allows_upgrade(self) -> bool:
        """Return whether classic groups may become consumer groups."""
        return self.migration_policy in ("bidirectional", "upgrade")

    @property
    def allows_downgrade(self) -> bool:
        """Return whether consumer groups may become classic groups."""
        return self.migration_policy in ("bidirectional", "downgrade")


def _number(name: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        return int(str(value))
    except ValueError:
        raise UsageError(f"{name} is {value!r}; it must be a whole number") from None


def _listed(value: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(value.split(",")) if isinstance(value, str) else tuple(value)


def _faults(value: str | Sequence[str]) -> frozenset[BrokerFault]:
    names = [name for name in _listed(value) if name]
    if unknown := [name for name in names if name not in set(BrokerFault)]:
        raise UsageError(f"{FAULTS} has {', '.join(unknown)}; there are {', '.join(BrokerFault)}")
    return frozenset(map(BrokerFault, names))


def _assignors(value: str | Sequence[str]) -> tuple[str, ...]:
    names = _listed(value)
    unknown = [name for name in names if name not in SERVER_ASSIGNORS]
    if unknown or not names or len(set(names)) != len(names):
        raise UsageError(
            f"group.consumer.assignors is {list(names)}; each of {', '.join(SERVER_ASSIGNORS)} may be named once"
        )
    return names
