"""Simulated consumers of both protocols: they join, are assigned, give partitions up, leave and crash."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coordinator_replay.engine.model import Record
from coordinator_replay.records.blobs import read_assignment, read_subscription, write_assignment, write_subscription
from coordinator_replay.simulation.coordinator import Batch, Coordinator, Request, Response, Result
from coordinator_replay.simulation.coordinator.assignor.client import ASSIGNORS, ClientSubscription, Partition
from tests.simulation.coordinator.mixed_groups import Conversions

UNKNOWN_SERVER_ERROR, MEMBER_ID_REQUIRED = -1, 79
PAUSE_ROUNDS = 40
"""How many seconds a consumer waits after an error it knows nothing of; longer than a rebalance timeout."""
FORGOTTEN = {25, 82}
"""Errors after which a consumer joins as a new member."""
LEFT_EPOCH, AWAY_EPOCH = -1, -2
CALM_ROUNDS = 50
"""Seconds without any change after which a group counts as at rest: longer than every session."""

Body = Mapping[str, Any]


@dataclass
class ClassicConsumer:
    """A consumer of the classic protocol."""

    name: str
    topics: tuple[str, ...]
    assignors: tuple[str, ...] = ("range",)
    instance_id: str | None = None
    member_id: str = ""
    generation: int = -1
    protocol: str = ""
    leads: list[dict[str, Any]] | None = None
    owned: list[Partition] = field(default_factory=list)
    stage: str = "new"
    is_waiting: bool = False

    @property
    def is_stable(self) -> bool:
        return self.stage == "stable" and not self.is_waiting

    def act(self, fleet: "Fleet") -> None:
        """Send what a real one would send now."""
        if self.stage in ("new", "join"):
            self._join(fleet)
        elif self.stage == "sync":
            self._sync(fleet)
        else:
            self._send(fleet, "Heartbeat", {"generationId": self.generation})

    def leave(self, fleet: "Fleet") -> None:
        """Close: a dynamic member says so, a static one just goes."""
        if self.instance_id is None and self.member_id:
            fleet.send(self, "LeaveGroup", {"members": [{"memberId": self.member_id}]})

    def answered(self, fleet: "Fleet", api: str, body: Body) -> None:
        """Take a response."""
        error = body["errorCode"]
        if error == MEMBER_ID_REQUIRED:
            self.member_id, self.stage = body["memberId"], "join"
        elif error in FORGOTTEN:
            self.member_id, self.stage, self.owned, self.generation = "", "new", [], -1
        elif error:
            self.stage = "join"
        elif api == "JoinGroup":
            self.member_id, self.generation = body["memberId"], body["generationId"]
            self.protocol, self.stage = body["protocolName"], "sync"
            leads = body["leader"] == self.member_id and not body["skipAssignment"]
            self.leads = body["members"] if leads else None
        elif api == "SyncGroup":
            self._assigned(body["assignment"])

    def _assigned(self, assignment: str) -> None:
        read = read_assignment(assignment).partitions if assignment else ()
        given = [(topic, number) for topic, numbers in read for number in numbers]
        gives_up = self.protocol == "cooperative-sticky" and not set(self.owned) <= set(given)
        self.owned = given
        # A cooperative consumer that gave something up joins again, so that it can be given to another one.
        self.stage = "join" if gives_up else "stable"

    def _join(self, fleet: "Fleet") -> None:
        if self.assignors[0] != "cooperative-sticky":
            self.owned = []
        subscription = {
            "topics": list(self.topics),
            "userData": None,
            "ownedPartitions": [{"topic": topic, "partitions": [number]} for topic, number in self.owned],
            "generationId": self.generation if self.owned else -1,
            "rackId": None,
        }
        metadata = write_subscription(subscription)
        body = {
            "sessionTimeoutMs": 10_000,
            "rebalanceTimeoutMs": 30_000,
            "protocolType": "consumer",
            "protocols": [{"name": name, "metadata": metadata} for name in self.assignors],
        }
        self._send(fleet, "JoinGroup", body)

    def _sync(self, fleet: "Fleet") -> None:
        body = {
            "generationId": self.generation,
            "protocolType": "consumer",
            "protocolName": self.protocol,
            "assignments": self._assignments(fleet) if self.leads is not None else [],
        }
        self._send(fleet, "SyncGroup", body)

    def _assignments(self, fleet: "Fleet") -> list[dict[str, str]]:
        topics = {name: (frozenset(),) * topic.partitions for name, topic in fleet.coordinator.topics.by_name.items()}
        members = {}
        for told in self.leads or ():
            read = read_subscription(told["metadata"])
            owned = tuple((topic, number) for topic, numbers in read.owned for number in numbers)
            members[told["memberId"]] = ClientSubscription(
                read.topics, owned, read.generation, read.rack_id, told["groupInstanceId"]
            )
        return [
            {"memberId": member_id, "assignment": write_assignment(_by_topic(partitions), 3)}
            for member_id, partitions in ASSIGNORS[self.protocol](topics, members).items()
        ]

    def _send(self, fleet: "Fleet", api: str, body: dict[str, Any]) -> None:
        fleet.send(self, api, {"memberId": self.member_id, "groupInstanceId": self.instance_id, **body})


@dataclass
class ModernConsumer:
    """A consumer of the consumer group protocol (KIP-848)."""

    name: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    member_id: str = ""
    generation: int = 0
    owned: list[Partition] = field(default_factory=list)
    is_waiting: bool = False
    pause: int = 0

    def __post_init__(self) -> None:
        self.member_id = self.member_id or f"{self.name}-id"

    @property
    def is_stable(self) -> bool:
        return self.generation > 0 and not self.is_waiting

    def act(self, fleet: "Fleet") -> None:
        """Beat: the first time with all there is to say, later with what it owns."""
        if self.pause:
            self.pause -= 1
            return
        body: dict[str, Any] = {"memberEpoch": self.generation}
        if self.generation == 0:
            self.owned = []
            body |= {"rebalanceTimeoutMs": 30_000, "subscribedTopicNames": list(self.topics)}
        self._send(fleet, {**body, "topicPartitions": self._owned_ids(fleet)})

    def leave(self, fleet: "Fleet") -> None:
        """Close: a static member may come back, and says so."""
        if self.generation > 0:
            self._send(fleet, {"memberEpoch": LEFT_EPOCH if self.instance_id is None else AWAY_EPOCH})

    def answered(self, fleet: "Fleet", _: str, body: Body) -> None:
        """Take a response: an assignment is taken at once, and with it all given up that is not in it."""
        if body["errorCode"]:
            self.generation, self.owned = 0, []
            # A classic group in its first join phase can't be converted; its parked joins are answered all the same.
            self.pause = PAUSE_ROUNDS if body["errorCode"] == UNKNOWN_SERVER_ERROR else 0
            return
        self.generation = max(body["memberEpoch"], 0)
        if body["assignment"] is not None:
            by_id = fleet.coordinator.topics.by_id
            self.owned = [
                (by_id[topic["topicId"]].name, number)
                for topic in body["assignment"]["topicPartitions"]
                for number in topic["partitions"]
            ]

    def _owned_ids(self, fleet: "Fleet") -> list[dict[str, Any]]:
        by_name = fleet.coordinator.topics.by_name
        return [
            {"topicId": by_name[topic].topic_id, "partitions": numbers}
            for topic, numbers in _by_topic(self.owned).items()
        ]

    def _send(self, fleet: "Fleet", body: dict[str, Any]) -> None:
        fleet.send(self, "ConsumerGroupHeartbeat", {"memberId": self.member_id, "instanceId": self.instance_id, **body})


Consumer = ClassicConsumer | ModernConsumer


class Fleet:
    """Consumers of one group, and the coordinator they talk to."""

    def __init__(self, coordinator: Coordinator, group_id: str = "g") -> None:
        self.coordinator = coordinator
        self.group_id = group_id
        self.consumers: list[Consumer] = []
        self.records: list[Record] = []
        self.conversions = Conversions()
        self._senders: dict[int, tuple[Consumer, str]] = {}
        self._sent = 0

    def act(self, consumer: Consumer) -> None:
        """Let a consumer send what it would send now, unless it waits for an answer."""
        if not consumer.is_waiting:
            consumer.act(self)

    def leave(self, consumer: Consumer) -> None:
        """A consumer closes."""
        self.consumers.remove(consumer)
        consumer.leave(self)

    def commit(self, consumer: Consumer) -> None:
        """Commit an offset of the first partition that a consumer owns."""
        if not consumer.owned:
            return
        topic, partition = consumer.owned[0]
        committed = {"partitionIndex": partition, "committedOffset": self.coordinator.end_offset}
        body = {
            "groupId": self.group_id,
            "memberId": consumer.member_id,
            "groupInstanceId": consumer.instance_id,
            "generationIdOrMemberEpoch": consumer.generation,
            "topics": [{"name": topic, "partitions": [committed]}],
        }
        self._take(self.coordinator.handle(Request("OffsetCommit", body), self.coordinator.now_ms))

    def advance(self, milliseconds: int) -> None:
        self._take(self.coordinator.advance(self.coordinator.now_ms + milliseconds))

    def reload(self) -> None:
        """The partition gets a new leader."""
        self._take(self.coordinator.reload())

    def settle(self, rounds: int = 400) -> None:
        """Let consumers act and time pass until all are stable and nothing changes or is written any more."""
        calm, before = 0, None
        for _ in range(rounds):
            for consumer in list(self.consumers):
                self.act(consumer)
            self.advance(1000)
            consumers = [(one.member_id, one.generation, sorted(one.owned)) for one in self.consumers]
            now = (self.coordinator.end_offset, consumers)
            calm = calm + 1 if now == before and all(one.is_stable for one in self.consumers) else 0
            before = now
            if calm == CALM_ROUNDS:
                return
        raise AssertionError(f"no rest after {rounds} s: {self.consumers}")

    def send(self, consumer: Consumer, api: str, body: dict[str, Any]) -> None:
        """Send a request of a consumer."""
        self._sent += 1
        self._senders[self._sent] = (consumer, api)
        consumer.is_waiting = True
        request = Request(api, {"groupId": self.group_id, **body}, client_id=consumer.name, correlation_id=self._sent)
        self._take(self.coordinator.handle(request, self.coordinator.now_ms))

    def _take(self, results: Iterable[Result]) -> None:
        for result in results:
            if isinstance(result, Batch):
                self.records += result.records
                self.conversions.written(result.records, self.coordinator.topics.by_id.values(), self.consumers)
            elif isinstance(result, Response) and result.correlation_id in self._senders:
                consumer, api = self._senders.pop(result.correlation_id)
                consumer.is_waiting = False
                if api == "SyncGroup" and not result.body["errorCode"]:
                    self.conversions.assigned(consumer.member_id)
                consumer.answered(self, api, result.body)


def _by_topic(partitions: list[Partition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(number)
    return found
