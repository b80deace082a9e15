"""Settings that can be tried, and alternatives.

``SETTINGS`` has all settings with their allowed values. ``Settings`` has the values of one simulation. An
``Alternative`` has the values that a question changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from coordinator_replay.answer_columns import column
from coordinator_replay.errors import UsageError
from coordinator_replay.simulation.what_if.libraries import LIBRARIES

COOPERATIVE = "cooperative-sticky"
STRATEGIES = ("range", "roundrobin", "sticky", COOPERATIVE)
PROTOCOLS = ("classic", "consumer")
PER_CLIENT, NO_INSTANCE = "per-client", "none"

METADATA_MS, INITIAL_DELAY_MS = 300_000, 3_000
"""Kafka's defaults of ``metadata.max.age.ms`` and ``group.initial.rebalance.delay.ms``."""


class Setting(NamedTuple):
    """A setting that can be tried.

    Attributes:
        name: Kafka's name.
        field: the setting's field in ``Settings``.
        values: the allowed words; empty for a whole number.
        lowest: the lowest allowed number.
        meaning: effect of the setting.
    """

    name: str
    field: str
    values: tuple[str, ...]
    lowest: int
    meaning: str


SETTINGS: Sequence[Setting] = (
    Setting("group.protocol", "protocol", PROTOCOLS, 0, "classic, or consumer for KIP-848"),
    Setting("partition.assignment.strategy", "strategy", STRATEGIES, 0, "assignor of clients; classic protocol only"),
    Setting("group.remote.assignor", "assignor", ("uniform", "range"), 0, "assignor of the coordinator; consumer only"),
    Setting(
        "group.instance.id",
        "instance",
        (PER_CLIENT, NO_INSTANCE),
        0,
        "per-client: every client is a static member; none: no client is",
    ),
    Setting("session.timeout.ms", "session_ms", (), 1, "of a consumer group: group.consumer.session.timeout.ms"),
    Setting(
        "heartbeat.interval.ms", "heartbeat_ms", (), 1, "of a consumer group: group.consumer.heartbeat.interval.ms"
    ),
    Setting("max.poll.interval.ms", "rebalance_ms", (), 1, "the time that a member has to revoke, or to join again"),
    Setting("metadata.max.age.ms", "metadata_ms", (), 1, "how soon a classic consumer sees that a topic changed"),
    Setting("group.initial.rebalance.delay.ms", "initial_delay_ms", (), 0, "wait for more members; classic only"),
    Setting(
        "group.consumer.assignment.interval.ms",
        "assignment_ms",
        (),
        0,
        "shortest time between two target assignments; consumer only",
    ),
    Setting(
        "client.library", "library", LIBRARIES, 0, "client library whose behaviour is simulated; classic protocol only"
    ),
)
"""All settings of Kafka and of clients that can be tried."""

BY_NAME: Mapping[str, Setting] = {setting.name: setting for setting in SETTINGS} | {
    f"group.consumer.{short}": next(setting for setting in SETTINGS if setting.name == short)
    for short in ("session.timeout.ms", "heartbeat.interval.ms")
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of one simulation. None means the recorded value of each member, or Kafka's default.

    Attributes:
        instance: ``per-client`` to make every client a static member, ``none`` to make every client a dynamic member,
            None for the instance ids on record.
        rebalance_ms: ``max.poll.interval.ms``.
        metadata_ms: ``metadata.max.age.ms``: how soon a classic consumer sees that a topic changed.
        library: the library of all clients, ``java`` or ``librdkafka``; None for the library of each client on record.
        revoke_ms: how long a consumer takes to revoke partitions under KIP-848. Kafka has no such setting.
    """

    protocol: str
    strategy: str = "range"
    assignor: str = "uniform"
    instance: str | None = None
    session_ms: int | None = None
    heartbeat_ms: int | None = None
    rebalance_ms: int | None = None
    metadata_ms: int | None = None
    initial_delay_ms: int | None = None
    assignment_ms: int = 1000
    library: str | None = None
    revoke_ms: int | None = None

    def heartbeat(self) -> int:
        """Return the interval of heartbeats in ms; Kafka's default for the protocol if it is not given."""
        if self.heartbeat_ms is not None:
            return self.heartbeat_ms
        return 5000 if self.protocol == "consumer" else 3000

    def initial_delay(self) -> int:
        """Return ``group.initial.rebalance.delay.ms``; Kafka's default if it is not given."""
        return INITIAL_DELAY_MS if self.initial_delay_ms is None else self.initial_delay_ms

    def metadata_age(self) -> int:
        """Return ``metadata.max.age.ms``; Kafka's default if it is not given."""
        return METADATA_MS if self.metadata_ms is None else self.metadata_ms

    def consumer_session(self) -> int:
        """Return the session timeout of a consumer group in ms; Kafka's default if it is not given."""
        return self.session_ms if self.session_ms is not None else 45_000

    def is_eager(self) -> bool:
        """Return whether every member gives up all partitions in each rebalance."""
        return self.protocol == "classic" and self.strategy != COOPERATIVE


def changed(settings: Settings, values: Mapping[str, str]) -> Settings:
    """Return settings with some of them changed.

    If the protocol changes, the heartbeat interval and the session timeout return to Kafka's defaults, unless
    ``values`` has them.

    Args:
        settings: the settings before the change.
        values: new values by Kafka's names.

    Raises:
        UsageError: no setting has the name, or a value is not allowed.
    """
    fields: dict[str, str | int] = {}
    for name, value in values.items():
        setting = BY_NAME.get(name)
        if setting is None:
            raise UsageError(f"{name} can't be tried; what-if --list-settings shows what can")
        fields[setting.field] = _value(setting, str(value).strip())
    protocol = fields.get("protocol", settings.protocol)
    if protocol != settings.protocol:
        # Recorded intervals and timeouts belong to the recorded protocol.
        for name in ("heartbeat_ms", "session_ms"):
            fields.setdefault(name, None)  # type: ignore[arg-type]
    return replace(settings, **fields)  # type: ignore[arg-type]


def _value(setting: Setting, value: str) -> str | int:
    if setting.values:
        if value.lower() not in setting.values:
            raise UsageError(f"{setting.name} is {value!r}; it must be one of {', '.join(setting.values)}")
        return value.lower()
    if not value.isdecimal() or not setting.lowest <= int(value) < 2**31:
        raise UsageError(f"{setting.name} is {value!r}; it must be a whole number of at least {setting.lowest}")
    return int(value)


WITHOUT_RESTARTS, MEMBERS = "without-restarts", "members"
"""Names of changes of a life that are not settings of Kafka."""

MOST_MEMBERS = 10_000
"""Largest number of members of a simulated group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Changes to try together.

    Attributes:
        values: values of settings by Kafka's names.
        without_restarts: whether to simulate without restarts: a client that left and came back stays in the group.
        members: number of clients; None for the number on record.
    """

    values: Mapping[str, str]
    without_restarts: bool = False
    members: int | None = None

    @property
    def name(self) -> str:
        """Return the name of the alternative in an answer."""
        parts = [f"{name}={value}" for name, value in self.values.items()]
        parts += ["without restarts"] if self.without_restarts else []
        parts += [f"{self.members} members"] if self.members is not None else []
        return ", ".join(parts) or "recorded settings"


def texts_of(values: Mapping[str, str | int | bool]) -> dict[str, str]:
    """Return the values of settings in the form that a user types."""
    return {name: str(value) for name, value in values.items()}


def alternative_of(
    values: Mapping[str, str | int | bool], *, without_restarts: bool = False, members: int | None = None
) -> Alternative:
    """Return an alternative with the given values.

    Args:
        values: values by Kafka's names; ``without-restarts`` and ``members`` may be among them.
        without_restarts: same as ``without-restarts`` among the values.
        members: same as ``members`` among the values.

    Raises:
        UsageError: the number of members, or the value of ``without-restarts``, is invalid.
    """
    texts = texts_of(values)
    wish = texts.pop(WITHOUT_RESTARTS, "true" if without_restarts else "false").lower()
    if wish not in ("true", "false"):
        raise UsageError(f"{WITHOUT_RESTARTS} is {wish!r}; it must be true or false")
    count = texts.pop(MEMBERS, None if members is None else str(members))
    if count is not None and not (count.isdecimal() and 1 <= int(count) <= MOST_MEMBERS):
        raise UsageError(f"{MEMBERS} is {count!r}; it must be a whole number from 1 to {MOST_MEMBERS:,}")
    return Alternative(values=texts, without_restarts=wish == "true", members=None if count is None else int(count))


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedSetting:
    """A row of ``what-if --list-settings``: a setting that can be tried.

    Attributes:
        name: Kafka's name.
        values: the allowed words, or ``a number``.
        meaning: effect of the setting.
    """

    name: str = column("SETTING", 1)
    values: str = column("VALUES", 2)
    meaning: str = column("WHAT IT CHANGES", 3, 20)


def setting_names() -> list[str]:
    """Return the names of all settings that can be tried.

    The session timeout and the heartbeat interval have a second name, under which brokers know them. The list has both
    names.
    """
    return [*BY_NAME, WITHOUT_RESTARTS, MEMBERS]


def tried_settings() -> list[TriedSetting]:
    """Return every setting that can be tried."""
    return [
        *(
            TriedSetting(name=setting.name, values=", ".join(setting.values) or "a number", meaning=setting.meaning)
            for setting in SETTINGS
        ),
        TriedSetting(
            name=WITHOUT_RESTARTS,
            values="true, false",
            meaning="no restarts: a client that left and came back stays in the group",
        ),
        TriedSetting(name=MEMBERS, values="a number", meaning="number of clients; added ones behave like the first"),
    ]
