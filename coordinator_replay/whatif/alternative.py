"""What is to be tried instead of what was."""

from collections.abc import Mapping
from dataclasses import dataclass

from coordinator_replay.whatif.settings import SETTINGS


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Settings to try.

    Attributes:
        values: by Kafka's names.
        without_restarts: clients that came back had never gone.
        members: so many clients; as on record if None.
    """

    values: Mapping[str, str]
    without_restarts: bool = False
    members: int | None = None

    @property
    def name(self) -> str:
        """What it is called in an answer."""
        parts = [f"{name}={value}" for name, value in self.values.items()]
        parts += ["without restarts"] if self.without_restarts else []
        parts += [f"{self.members} members"] if self.members is not None else []
        return ", ".join(parts) or "recorded settings"


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedSetting:
    """A setting that can be tried.

    Attributes:
        name: Kafka's name.
        values: the words it takes, or ``a number``.
        meaning: what it changes.
    """

    name: str
    values: str
    meaning: str


def tried_settings() -> list[TriedSetting]:
    """Every setting that can be tried."""
    return [
        TriedSetting(name=one.name, values=", ".join(one.values) or "a number", meaning=one.meaning) for one in SETTINGS
    ]
