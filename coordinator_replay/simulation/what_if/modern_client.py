"""A simulated consumer of the consumer group protocol (KIP-848)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coordinator_replay.engine.model import AWAY_EPOCH, LEFT_EPOCH
from coordinator_replay.simulation.coordinator.assignor.client import Partition
from coordinator_replay.simulation.coordinator.assignor.client.subscription import by_topic
from coordinator_replay.simulation.coordinator.errors import CODES
from coordinator_replay.simulation.what_if.clients import Body, Consumer

if TYPE_CHECKING:
    from coordinator_replay.simulation.what_if.simulate import Fleet

RETRY_MS = 100
"""``retry.backoff.ms`` of Kafka's clients."""


@dataclass(kw_only=True, eq=False)
class ModernConsumer(Consumer):
    """A consumer of the consumer group protocol (KIP-848).

    Attributes:
        revoke_ms: how long it takes to give up partitions.
        is_restarted: whether it is started again after a fatal error.
        is_stuck: it has had a fatal error, and does nothing more.
    """

    assignor: str | None
    revoke_ms: int = 0
    is_restarted: bool = True
    is_stuck: bool = False
    generation: int = 0
    assigned: list[Partition] | None = None
    is_sending_owned: bool = True

    @property
    def is_calm(self) -> bool:
        """Return whether it has nothing to do but heartbeats."""
        return self.is_stuck or (self.is_joined and not self.is_sending_owned)

    @property
    def is_joined(self) -> bool:
        """Return whether its next request is a heartbeat in its usual interval."""
        return self.generation > 0 and self.assigned is None

    def act(self, around: "Fleet") -> None:
        """Send what a real one would send now."""
        if self.assigned is not None:
            self.own(around, self.assigned)
            self.assigned, self.is_sending_owned = None, True
        body: dict[str, Any] = {"memberEpoch": self.generation}
        if self.generation == 0:
            self.own(around, ())
            body |= {
                "rebalanceTimeoutMs": self.rebalance_ms,
                "subscribedTopicNames": list(self.topics),
                "serverAssignor": self.assignor,
                "topicPartitions": [],
            }
            if self.regex is not None:
                body["subscribedTopicRegex"] = self.regex
        elif self.is_sending_owned:
            body["topicPartitions"] = self._owned_ids(around)
        self.is_sending_owned = False
        self._send(around, body)

    @property
    def leaves(self) -> bool:
        """Return whether it says that it goes when it is closed."""
        return self.generation > 0

    def leave(self, around: "Fleet") -> None:
        """Close: who may come back under its instance id does not leave for good."""
        self._send(around, {"memberEpoch": LEFT_EPOCH if self.instance_id is None else AWAY_EPOCH})

    def answered(self, around: "Fleet", api: str, body: Body) -> None:
        """Take a response."""
        if body["errorCode"]:
            self.generation, self.assigned = 0, None
            self.own(around, ())
            # The member before it did not say that it goes: nobody gets its instance id until its session is over.
            is_taken = body["errorCode"] == CODES["UNRELEASED_INSTANCE_ID"]
            self.is_stuck = is_taken and not self.is_restarted
            if not self.is_stuck:
                around.act_after(self, RETRY_MS if is_taken else 0)
            return
        self.generation = max(body["memberEpoch"], 0)
        if body["assignment"] is None:
            return
        by_id = around.topics.by_id
        self.assigned = [
            (by_id[topic["topicId"]].name, number)
            for topic in body["assignment"]["topicPartitions"]
            if topic["topicId"] in by_id
            for number in topic["partitions"]
        ]
        # What a consumer has given up, or taken, it says at once and not only with its next heartbeat.
        gives_up = not set(self.owned) <= set(self.assigned)
        around.act_after(self, self.revoke_ms if gives_up else 0)

    def _owned_ids(self, around: "Fleet") -> list[dict[str, Any]]:
        by_name = around.topics.by_name
        return [
            {"topicId": by_name[topic].topic_id, "partitions": numbers}
            for topic, numbers in by_topic(self.owned).items()
            if topic in by_name
        ]

    def _send(self, around: "Fleet", body: dict[str, Any]) -> None:
        around.send(
            self, "ConsumerGroupHeartbeat", {"memberId": self.member_id, "instanceId": self.instance_id, **body}
        )
