"""Simulated consumers of the classic protocol: they join, lead, sync, beat, give partitions up, leave and crash."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from coordinator_replay.coordinator import Batch, Coordinator, Request, Response, Result
from coordinator_replay.coordinator.client_assignors import ASSIGNORS, ClientSubscription, Partition
from coordinator_replay.coordinator.consumer_protocol import read_assignment, read_subscription, write_assignment
from coordinator_replay.engine import Record
from coordinator_replay.records.kinds import blob
from coordinator_replay.records.scalar import encode_blob

MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS = 79, 27
FORGOTTEN = {25, 82}
"""Errors after which a consumer joins as a new member."""


@dataclass
class ClassicConsumer:
    """One consumer; ``act`` sends what a real one would send next."""

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


class Fleet:
    """Consumers of one group, and the coordinator they talk to."""

    def __init__(self, coordinator: Coordinator, group_id: str = "g") -> None:
        self.coordinator = coordinator
        self.group_id = group_id
        self.consumers: list[ClassicConsumer] = []
        self.records: list[Record] = []
        self._senders: dict[int, tuple[ClassicConsumer, str]] = {}
        self._sent = 0

    def act(self, consumer: ClassicConsumer) -> None:
        """Send what the consumer would send now, unless it waits for an answer."""
        if consumer.is_waiting:
            return
        if consumer.stage in ("new", "join"):
            self._join(consumer)
        elif consumer.stage == "sync":
            self._sync(consumer)
        else:
            self._send(consumer, "Heartbeat", {"generationId": consumer.generation})

    def leave(self, consumer: ClassicConsumer) -> None:
        """The consumer closes: a dynamic member says so, a static one just goes."""
        self.consumers.remove(consumer)
        if consumer.instance_id is None and consumer.member_id:
            self._send(consumer, "LeaveGroup", {"members": [{"memberId": consumer.member_id}]}, names_member=False)

    def advance(self, milliseconds: int) -> None:
        self._take(self.coordinator.advance(self.coordinator.now_ms + milliseconds))

    def reload(self) -> None:
        """The partition gets a new leader."""
        self._take(self.coordinator.reload())

    def settle(self, rounds: int = 200) -> None:
        """Let consumers act and time pass until all are stable and heartbeats change nothing."""
        calm = 0
        for _ in range(rounds):
            for consumer in list(self.consumers):
                self.act(consumer)
            self.advance(1000)
            calm = calm + 1 if all(consumer.is_stable for consumer in self.consumers) else 0
            if calm == 15:
                return
        raise AssertionError(f"no rest after {rounds} s: {self.consumers}")

    def _join(self, consumer: ClassicConsumer) -> None:
        if consumer.assignors[0] != "cooperative-sticky":
            consumer.owned = []
        subscription = {
            "topics": list(consumer.topics),
            "userData": None,
            "ownedPartitions": [{"topic": topic, "partitions": [number]} for topic, number in consumer.owned],
            "generationId": consumer.generation if consumer.owned else -1,
            "rackId": None,
        }
        metadata = base64.b64encode(encode_blob(blob("ConsumerProtocolSubscription"), 3, subscription)).decode()
        body = {
            "sessionTimeoutMs": 10_000,
            "rebalanceTimeoutMs": 30_000,
            "protocolType": "consumer",
            "protocols": [{"name": name, "metadata": metadata} for name in consumer.assignors],
        }
        self._send(consumer, "JoinGroup", body)

    def _sync(self, consumer: ClassicConsumer) -> None:
        body = {
            "generationId": consumer.generation,
            "protocolType": "consumer",
            "protocolName": consumer.protocol,
            "assignments": self._assignments(consumer) if consumer.leads is not None else [],
        }
        self._send(consumer, "SyncGroup", body)

    def _assignments(self, leader: ClassicConsumer) -> list[dict[str, str]]:
        topics = {name: (frozenset(),) * topic.partitions for name, topic in self.coordinator.topics.by_name.items()}
        members = {}
        for told in leader.leads or ():
            read = read_subscription(told["metadata"])
            owned = tuple((topic, number) for topic, numbers in read.owned for number in numbers)
            members[told["memberId"]] = ClientSubscription(
                read.topics, owned, read.generation, read.rack_id, told["groupInstanceId"]
            )
        assignment = ASSIGNORS[leader.protocol](topics, members)
        return [
            {"memberId": member_id, "assignment": write_assignment(_by_topic(partitions), 3)}
            for member_id, partitions in assignment.items()
        ]

    def _send(self, consumer: ClassicConsumer, api: str, body: dict[str, Any], *, names_member: bool = True) -> None:
        if names_member:
            body = {"memberId": consumer.member_id, "groupInstanceId": consumer.instance_id, **body}
        self._sent += 1
        self._senders[self._sent] = (consumer, api)
        consumer.is_waiting = True
        request = Request(api, {"groupId": self.group_id, **body}, client_id=consumer.name, correlation_id=self._sent)
        self._take(self.coordinator.handle(request, self.coordinator.now_ms))

    def _take(self, results: Iterable[Result]) -> None:
        for result in results:
            if isinstance(result, Batch):
                self.records += result.records
            elif isinstance(result, Response) and result.correlation_id in self._senders:
                consumer, api = self._senders.pop(result.correlation_id)
                consumer.is_waiting = False
                _answered(consumer, api, result.body)


def _answered(consumer: ClassicConsumer, api: str, body: dict[str, Any]) -> None:
    error = body["errorCode"]
    if error == MEMBER_ID_REQUIRED:
        consumer.member_id, consumer.stage = body["memberId"], "join"
    elif error in FORGOTTEN:
        consumer.member_id, consumer.stage, consumer.owned, consumer.generation = "", "new", [], -1
    elif error:
        consumer.stage = "join"
    elif api == "JoinGroup":
        consumer.member_id, consumer.generation = body["memberId"], body["generationId"]
        consumer.protocol, consumer.stage = body["protocolName"], "sync"
        consumer.leads = body["members"] if body["leader"] == consumer.member_id else None
        if body["skipAssignment"]:
            consumer.leads = None
    elif api == "SyncGroup":
        _take_assignment(consumer, body["assignment"])


def _take_assignment(consumer: ClassicConsumer, assignment: str) -> None:
    read = read_assignment(assignment).partitions if assignment else ()
    given = [(topic, number) for topic, numbers in read for number in numbers]
    gives_up = consumer.protocol == "cooperative-sticky" and not set(consumer.owned) <= set(given)
    consumer.owned = given
    # A cooperative consumer that gave something up joins again, so that it can be given to another one.
    consumer.stage = "join" if gives_up else "stable"


def _by_topic(partitions: list[Partition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(number)
    return found
