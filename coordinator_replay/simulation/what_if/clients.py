"""What simulated consumers of both protocols have in common.

They send what a real one would, and react to what the coordinator answers. ``simulate.Fleet`` says when to act, and
carries requests and answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coordinator_replay.simulation.coordinator.assignor.client import Partition
from coordinator_replay.simulation.what_if.libraries import JAVA

if TYPE_CHECKING:
    from coordinator_replay.simulation.what_if.simulate import Fleet

Body = Mapping[str, Any]


@dataclass(kw_only=True, eq=False)
class Consumer:
    """What both kinds of consumers have.

    Attributes:
        name: whose consumer it is: the client's name.
        arrived_ms: when it came, a time of the life.
        topics: names subscribed to.
        regex: an expression subscribed to; consumer protocol only.
        library: whose behaviour it has: ``java`` or ``librdkafka``.
        number: which one it is, by arrival in the group.
    """

    name: str
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
    arrived_ms: int = 0

    @property
    def is_calm(self) -> bool:
        """Return whether it has nothing to do but heartbeats."""
        raise NotImplementedError

    @property
    def is_joined(self) -> bool:
        """Return whether its next request is a heartbeat in its usual interval."""
        return self.is_calm

    def act(self, around: "Fleet") -> None:
        """Send what a real one would send now."""
        raise NotImplementedError

    @property
    def leaves(self) -> bool:
        """Return whether it says that it goes when it is closed."""
        raise NotImplementedError

    def leave(self, around: "Fleet") -> None:
        """Say that it goes."""
        raise NotImplementedError

    def answered(self, around: "Fleet", api: str, body: Body) -> None:
        """Take a response."""
        raise NotImplementedError

    def own(self, around: "Fleet", owned: Sequence[Partition]) -> None:
        """Own these partitions from now on, and no others."""
        self.owned = list(owned)
        around.holds(self, self.owned)
