"""Simulated consumers of both protocols: they send what a real one would, and react to what the coordinator answers.

They know no time of their own: ``simulate.Fleet`` says when to act, and carries requests and answers.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from coordinator_replay.coordinator import Topics
from coordinator_replay.coordinator.client_assignors import ASSIGNORS, ClientSubscription, Partition
from coordinator_replay.coordinator.consumer_protocol import read_assignment, read_subscription, write_assignment
from coordinator_replay.records.kinds import blob
from coordinator_replay.records.scalar import encode_blob

MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS = 79, 27
FORGOTTEN = frozenset({25, 82})
"""Errors after which a consumer joins as a new member: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
LEFT_EPOCH, AWAY_EPOCH = -1, -2
COOPERATIVE = "cooperative-sticky"

Body = Mapping[str, Any]


class Surroundings(Protocol):
    """What a consumer needs of the simulation around it."""

    @property
    def topics(self) -> Topics:
        """The topics of now."""

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
        revoke_ms: how long it takes to give up partitions.
    """

    client_id: str
    host: str
    topics: tuple[str, ...]
    instance_id: str | None
    session_ms: int
    rebalance_ms: int
    revoke_ms: int
    regex: str | None = None
    member_id: str = ""
    generation: int = -1
    owned: list[Partition] = field(default_factory=list)
    is_waiting: bool = False

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

    def leave(self, around: Surroundings) -> None:
        """Close."""
        raise NotImplementedError

    def answered(self, around: Surroundings, api: str, body: Body) -> None:
        """Take a response."""
        raise NotImplementedError

    def _own(self, around: Surroundings, owned: Sequence[Partition]) -> None:
        self.owned = list(owned)
        around.holds(self, self.owned)


@dataclass(kw_only=True)
class ClassicConsumer(Consumer):
    """A consumer of the classic protocol.

    Attributes:
        seen: partitions of its topics when it assigned them as the leader.
    """

    strategy: str
    protocol: str = ""
    leads: Sequence[Body] | None = None
    is_leader: bool = False
    stage: str = "new"
    seen: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_calm(self) -> bool:
        """Whether it has nothing to do but heartbeats."""
        return self.stage == "stable"

    def act(self, around: Surroundings) -> None:
        """Send what a real one would send now."""
        if self.stage in ("new", "join"):
            self._join(around)
        elif self.stage == "sync":
            self._sync(around)
        else:
            self._send(around, "Heartbeat", {"generationId": self.generation})

    def leave(self, around: Surroundings) -> None:
        """Close: who may come back under its instance id does not leave."""
        if self.instance_id is None and self.member_id:
            around.send(self, "LeaveGroup", {"members": [{"memberId": self.member_id}]})

    def see_topics(self, around: Surroundings) -> None:
        """A leader compares the topics with those that it assigned, and joins again (``ConsumerCoordinator``)."""
        if self.is_leader and self.seen != self._partition_counts(around):
            self.rejoin(around)

    def _partition_counts(self, around: Surroundings) -> dict[str, int]:
        return {name: topic.partitions for name, topic in around.topics.by_name.items() if name in self.topics}

    def rejoin(self, around: Surroundings) -> None:
        """Join again, since what it asks for, or what there is, has changed."""
        if self.stage == "stable" and not self.is_waiting:
            self._give_up(around)

    def answered(self, around: Surroundings, api: str, body: Body) -> None:
        """Take a response."""
        error = body["errorCode"]
        if api == "Heartbeat" and not error:
            return
        if error == MEMBER_ID_REQUIRED:
            self.member_id, self.stage = body["memberId"], "join"
            around.act_after(self, 0)
        elif error in FORGOTTEN:
            self.member_id, self.stage, self.generation = "", "new", -1
            self._own(around, ())
            around.act_after(self, 0)
        elif error:
            self._give_up(around)
        elif api == "JoinGroup":
            self.member_id, self.generation = body["memberId"], body["generationId"]
            self.protocol, self.stage = body["protocolName"], "sync"
            self.is_leader = body["leader"] == self.member_id
            self.seen = self._partition_counts(around)
            self.leads = body["members"] if self.is_leader and not body["skipAssignment"] else None
            around.act_after(self, 0)
        elif api == "SyncGroup":
            self._assigned(around, body["assignment"])

    def _give_up(self, around: Surroundings) -> None:
        """Join again: an eager consumer gives up everything first."""
        had = bool(self.owned)
        self.stage = "join"
        if self.strategy != COOPERATIVE:
            self._own(around, ())
        around.act_after(self, self.revoke_ms if had and self.strategy != COOPERATIVE else 0)

    def _assigned(self, around: Surroundings, assignment: str) -> None:
        read = read_assignment(assignment).partitions if assignment else ()
        given = [(topic, number) for topic, numbers in read for number in numbers]
        gives_up = self.protocol == COOPERATIVE and not set(self.owned) <= set(given)
        self._own(around, given)
        # A cooperative consumer that gave something up joins again, so that it can be given to another one.
        self.stage = "join" if gives_up else "stable"
        if gives_up:
            around.act_after(self, self.revoke_ms)

    def _join(self, around: Surroundings) -> None:
        claims = self.owned if self.strategy == COOPERATIVE else []
        subscription = {
            "topics": list(self.topics),
            "userData": None,
            "ownedPartitions": [
                {"topic": topic, "partitions": numbers} for topic, numbers in _by_topic(claims).items()
            ],
            "generationId": self.generation if claims else -1,
            "rackId": None,
        }
        metadata = base64.b64encode(encode_blob(blob("ConsumerProtocolSubscription"), 3, subscription)).decode()
        body = {
            "sessionTimeoutMs": self.session_ms,
            "rebalanceTimeoutMs": self.rebalance_ms,
            "protocolType": "consumer",
            "protocols": [{"name": self.strategy, "metadata": metadata}],
        }
        self._send(around, "JoinGroup", body)

    def _sync(self, around: Surroundings) -> None:
        body = {
            "generationId": self.generation,
            "protocolType": "consumer",
            "protocolName": self.protocol,
            "assignments": self._assignments(around) if self.leads is not None else [],
        }
        self._send(around, "SyncGroup", body)

    def _assignments(self, around: Surroundings) -> list[dict[str, str]]:
        topics = {name: (frozenset[str](),) * topic.partitions for name, topic in around.topics.by_name.items()}
        members = {}
        for told in self.leads or ():
            read = read_subscription(told["metadata"])
            owned = tuple((topic, number) for topic, numbers in read.owned for number in numbers)
            generation = read.generation
            if self.protocol == "sticky":
                last, generation = around.last_owned(told["memberId"])
                owned = tuple(last)
            members[told["memberId"]] = ClientSubscription(
                read.topics, owned, generation, read.rack_id, told["groupInstanceId"]
            )
        return [
            {"memberId": member_id, "assignment": write_assignment(_by_topic(partitions), 3)}
            for member_id, partitions in ASSIGNORS[self.protocol](topics, members).items()
        ]

    def _send(self, around: Surroundings, api: str, body: dict[str, Any]) -> None:
        around.send(self, api, {"memberId": self.member_id, "groupInstanceId": self.instance_id, **body})


@dataclass(kw_only=True)
class ModernConsumer(Consumer):
    """A consumer of the consumer group protocol (KIP-848)."""

    assignor: str | None
    generation: int = 0
    assigned: list[Partition] | None = None
    is_sending_owned: bool = True

    @property
    def is_calm(self) -> bool:
        """Whether it has nothing to do but heartbeats."""
        return self.is_joined and not self.is_sending_owned

    @property
    def is_joined(self) -> bool:
        """Whether its next request is a heartbeat in its usual interval."""
        return self.generation > 0 and self.assigned is None

    def act(self, around: Surroundings) -> None:
        """Send what a real one would send now."""
        if self.assigned is not None:
            self._own(around, self.assigned)
            self.assigned, self.is_sending_owned = None, True
        body: dict[str, Any] = {"memberEpoch": self.generation}
        if self.generation == 0:
            self._own(around, ())
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

    def leave(self, around: Surroundings) -> None:
        """Close: who may come back under its instance id does not leave."""
        if self.generation > 0:
            self._send(around, {"memberEpoch": LEFT_EPOCH if self.instance_id is None else AWAY_EPOCH})

    def answered(self, around: Surroundings, api: str, body: Body) -> None:
        """Take a response."""
        if body["errorCode"]:
            self.generation, self.assigned = 0, None
            self._own(around, ())
            around.act_after(self, 0)
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

    def _owned_ids(self, around: Surroundings) -> list[dict[str, Any]]:
        by_name = around.topics.by_name
        return [
            {"topicId": by_name[topic].topic_id, "partitions": numbers}
            for topic, numbers in _by_topic(self.owned).items()
            if topic in by_name
        ]

    def _send(self, around: Surroundings, body: dict[str, Any]) -> None:
        around.send(
            self, "ConsumerGroupHeartbeat", {"memberId": self.member_id, "instanceId": self.instance_id, **body}
        )


def _by_topic(partitions: Sequence[Partition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(number)
    return found
