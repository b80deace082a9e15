"""What is to be tried instead of what was."""

from collections.abc import Mapping
from dataclasses import dataclass

from coordinator_replay.answer_columns import column
from coordinator_replay.errors import UsageError
from coordinator_replay.simulation.what_if.settings import SETTINGS

WITHOUT_RESTARTS, MEMBERS = "without-restarts", "members"
"""Changes of a life that are no settings of Kafka, by their names, which are none of Kafka's."""

MOST_MEMBERS = 10_000
"""Members that a simulated group may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Settings to try.

    Attributes:
        values: by Kafka's names.
        without_restarts: no restarts: a client that left and came back stays in the group.
        members: so many clients; as on record if None.
    """

    values: Mapping[str, str]
    without_restarts: bool = False
    members: int | None = None

    @property
    def name(self) -> str:
        """Return what it is called in an answer."""
        parts = [f"{name}={value}" for name, value in self.values.items()]
        parts += ["without restarts"] if self.without_restarts else []
        parts += [f"{self.members} members"] if self.members is not None else []
        return ", ".join(parts) or "recorded settings"


def alternative_of(
    values: Mapping[str, str | int | bool], *, without_restarts: bool = False, members: int | None = None
) -> Alternative:
    """Return what is to be tried, out of names and values.

    Args:
        values: by Kafka's names; ``without-restarts`` and ``members`` may stand among them.
        without_restarts: as if it stood among them.
        members: the same.

    Raises:
        UsageError: the number of members is not one.
    """
    texts = {name: str(value) for name, value in values.items()}
    wish = texts.pop(WITHOUT_RESTARTS, "true" if without_restarts else "false").lower()
    if wish not in ("true", "false"):
        raise UsageError(f"{WITHOUT_RESTARTS} is {wish!r}; it must be true or false")
    count = texts.pop(MEMBERS, None if members is None else str(members))
    if count is not None and not (count.isdecimal() and 1 <= int(count) <= MOST_MEMBERS):
        raise UsageError(f"{MEMBERS} is {count!r}; it must be a whole number from 1 to {MOST_MEMBERS:,}")
    return Alternative(values=texts, without_restarts=wish == "true", members=None if count is None else int(count))


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedSetting:
    """A setting that can be tried.

    Attributes:
        name: Kafka's name.
        values: the words it takes, or ``a number``.
        meaning: what it changes.
    """

    name: str = column("SETTING", 1)
    values: str = column("VALUES", 2)
    meaning: str = column("WHAT IT CHANGES", 3, 20)


def tried_settings() -> list[TriedSetting]:
    """Return every setting that can be tried."""
    return [
        *(
            TriedSetting(name=one.name, values=", ".join(one.values) or "a number", meaning=one.meaning)
            for one in SETTINGS
        ),
        TriedSetting(
            name=WITHOUT_RESTARTS,
            values="true, false",
            meaning="no restarts: a client that left and came back stays in the group",
        ),
        TriedSetting(name=MEMBERS, values="a number", meaning="number of clients; added ones behave like the first"),
    ]
