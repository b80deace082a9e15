"""What simulated consumers of both protocols have in common, and what they need of the simulation around them.

They send what a real one would, and react to what the coordinator answers. ``simulate.Fleet`` says when to act, and
carries requests and answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from coordinator_replay.coordinator import Topics
from coordinator_replay.coordinator.assignor.client import Partition
from coordinator_replay.whatif.libraries import JAVA

Body = Mapping[str, Any]


class Surroundings(Protocol):
    """What a consumer needs of the simulation around it."""

    @property
    def topics(self) -> Topics:
        """The topics of now."""

    @property
    def now_ms(self) -> int:
        """The time of the simulation."""

    def send(self, consumer: "Consumer", api: str, body: dict[str, Any]) -> None:
        """Send a request."""

    def act_after(self, consumer: "Consumer", delay_ms: int) -> None:
        """Let the consumer act so much later."""

    def holds(self, consumer: "Consumer", owned: Sequence[Partition]) -> None:
        """Take note of what the consumer owns from now on."""

    def last_owned(self, member_id: str) -> tuple[Sequence[Partition], int]:
        """What a member owned last, and in which generation: what ``sticky`` carries in its user data."""


@dataclass(kw_only=True)
class Consumer:
    """What both kinds of consumers have.

    Attributes:
        topics: names subscribed to.
        regex: an expression subscribed to; consumer protocol only.
        library: whose behaviour it has: ``java`` or ``librdkafka``.
        number: which one it is, by arrival in the group.
    """

    client_id: str
    host: str
    topics: tuple[str, ...]
    instance_id: str | None
    session_ms: int
    rebalance_ms: int
    library: str = JAVA
    regex: str | None = None
    member_id: str = ""
    generation: int = -1
    owned: list[Partition] = field(default_factory=list)
    is_waiting: bool = False
    number: int = 0

    @property
    def is_calm(self) -> bool:
        """Whether it has nothing to do but heartbeats."""
        raise NotImplementedError

    @property
    def is_joined(self) -> bool:
        """Whether its next request is a heartbeat in its usual interval."""
        return self.is_calm

    def act(self, around: Surroundings) -> None:
        """Send what a real one would send now."""
        raise NotImplementedError

    @property
    def leaves(self) -> bool:
        """Whether it says that it goes when it is closed."""
        raise NotImplementedError

    def leave(self, around: Surroundings) -> None:
        """Say that it goes."""
        raise NotImplementedError

    def answered(self, around: Surroundings, api: str, body: Body) -> None:
        """Take a response."""
        raise NotImplementedError

    def own(self, around: Surroundings, owned: Sequence[Partition]) -> None:
        """Own these partitions from now on, and no others."""
        self.owned = list(owned)
        around.holds(self, self.owned)


def by_topic(partitions: Sequence[Partition]) -> dict[str, list[int]]:
    """The numbers of partitions by topic, in the order in which they stand."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return by_topic
