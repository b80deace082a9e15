"""Consumers of both protocols over time: heartbeats, polls, commits, and effects of closing, hanging and crashing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coordinator_replay.records.blobs import read_assignment, read_subscription, write_assignment
from coordinator_replay.simulation.coordinator.assignor.client import (
    ASSIGNORS,
    AssignorError,
    ClientSubscription,
    Partition,
)
from scripts.world.client_bytes import JAVA, Library, subscription

if TYPE_CHECKING:
    from scripts.world.life import Life

Body = Mapping[str, Any]

NOT_COORDINATOR, INCONSISTENT_PROTOCOL, UNKNOWN_MEMBER, INVALID_SESSION = 16, 23, 25, 26
MEMBER_ID_REQUIRED, GROUP_FULL, FENCED = 79, 81, 82
LEFT_EPOCH, AWAY_EPOCH = -1, -2
RETRY_MS = 1000

LEFT_BY_POLL_TIMEOUT = "poll timeout"


@dataclass(eq=False)
class Consumer:
    """A process that consumes.

    Attributes:
        client_id: client.id.
        host: address of the process.
        topics: the topics that the consumer subscribes to.
        library: the client library.
        instance_id: group.instance.id.
        poll_ms: time between two polls.
        rebalance_ms: max.poll.interval.ms, which is sent as the rebalance timeout.
        session_ms: session.timeout.ms of the classic protocol.
        commit_ms: auto.commit.interval.ms; 0 if the consumer never commits.
        request_ms: request.timeout.ms for SyncGroup; 0 if the consumer waits for ever.
        rack: client.rack.
        member_id: member id, "" for none.
        generation: generation or member epoch, -1 for none.
        is_stuck: whether the consumer does not poll.
        says: reason of the last JoinGroup, even if the library does not send reasons.
        synced_topics: the topics that the consumer subscribed to in its last generation.
        ended: how the last membership ended; None if there was none.
    """

    client_id: str
    host: str
    topics: tuple[str, ...]
    library: Library = JAVA
    assignors: tuple[str, ...] = ("range",)
    instance_id: str | None = None
    poll_ms: int = 500
    rebalance_ms: int = 60_000
    session_ms: int = 10_000
    commit_ms: int = 5_000
    request_ms: int = 0
    rack: str | None = None
    join_version: int = 5
    protocol_type: str = "consumer"
    member_id: str = ""
    generation: int = -1
    stage: str = "off"
    is_stuck: bool = False
    ended: str | None = None
    had: list[str] = field(default_factory=list)
    owned: list[Partition] = field(default_factory=list)
    token: int = 0
    committed: int = 0
    dies_at: str | None = None
    says: str | None = None
    synced_topics: tuple[str, ...] = ()

    @property
    def is_on(self) -> bool:
        """Return whether the process runs, and is a member or tries to join."""
        return self.stage != "off"

    def start(self, life: "Life", reason: str | None = None) -> None:
        """Begin to consume."""
        self.token += 1
        self.is_stuck = False
        self.stage = "joining"
        self.join(life, reason)
        token = self.token
        life.after(self.heartbeat_ms, lambda: self._beats(life, token))
        if self.commit_ms:
            life.after(self.commit_ms, lambda: self._commits(life, token))

    def stop(self, how: str) -> None:
        """Stop the process without LeaveGroup."""
        self.token += 1
        self.stage = "off"
        self.ended = how
        self.owned = []

    @property
    def heartbeat_ms(self) -> int:
        """Return heartbeat.interval.ms: a third of the session timeout, at least 300 and at most 3,000 ms."""
        return max(300, min(3000, self.session_ms // 3))

    def join(self, life: "Life", reason: str | None = None) -> None:
        """Join the group, or join again."""
        raise NotImplementedError

    def beat(self, life: "Life") -> None:
        """Send a heartbeat."""
        raise NotImplementedError

    def close(self, life: "Life", why: str = "the consumer is being closed", how: str = "closed") -> None:
        """Close the consumer. Tell the coordinator if a consumer of this kind does so."""
        raise NotImplementedError

    def hang(self, life: "Life", for_ms: int) -> None:
        """Stop polling for a while. After max.poll.interval.ms the consumer leaves by itself, and comes back later."""
        token, is_late = self.token, for_ms > self.rebalance_ms
        self.is_stuck = True

        def leave() -> None:
            if token == self.token and self.is_on and self.leaves_when_late:
                self.close(life, "consumer poll timeout has expired.", LEFT_BY_POLL_TIMEOUT)

        def poll() -> None:
            if token == self.token:
                self.is_stuck = False
                self.polled(life)

        def come_back() -> None:
            if not self.is_on and self.ended == LEFT_BY_POLL_TIMEOUT:
                self.start(life, "consumer pro-actively leaving the group")

        if is_late and self.leaves_when_late:
            life.after(self.rebalance_ms, leave)
            life.after(for_ms, come_back)
        else:
            life.after(for_ms, poll)

    @property
    def leaves_when_late(self) -> bool:
        """Return whether the consumer leaves when it has not polled for max.poll.interval.ms."""
        return self.library.leaves

    def polled(self, life: "Life") -> None:
        """React to the first poll after the consumer did not poll for a while."""

    def _beats(self, life: "Life", token: int) -> None:
        if token != self.token or not self.is_on:
            return
        self.beat(life)
        life.after(self.heartbeat_ms, lambda: self._beats(life, token))

    def _commits(self, life: "Life", token: int) -> None:
        if token != self.token or not self.is_on:
            return
        if self.stage == "stable" and self.owned and not self.is_stuck and life.has_traffic(self):
            self.committed += 1
            life.commit(self)
        life.after(self.commit_ms, lambda: self._commits(life, token))


@dataclass(eq=False)
class ClassicConsumer(Consumer):
    """A consumer of the classic protocol."""

    protocol: str = ""
    leads: list[Mapping[str, Any]] | None = None

    def join(self, life: "Life", reason: str | None = None) -> None:
        """Send JoinGroup. An eager consumer gives up all partitions first."""
        if self.assignors[0] != "cooperative-sticky":
            self.owned = []
        by_topic: dict[str, list[int]] = {}
        for topic, number in self.owned:
            by_topic.setdefault(topic, []).append(number)
        metadata = subscription(self.library, self.topics, by_topic, self.generation if self.owned else -1, self.rack)
        body: dict[str, Any] = {
            "memberId": self.member_id,
            "groupInstanceId": self.instance_id,
            "sessionTimeoutMs": self.session_ms,
            "rebalanceTimeoutMs": self.rebalance_ms,
            "protocolType": self.protocol_type,
            "protocols": [{"name": name, "metadata": metadata} for name in self.assignors],
        }
        if self.library.gives_reasons and self.join_version >= 8:
            body["reason"] = reason
        self.stage, self.says, token = "joining", reason, self.token
        life.send(self, "JoinGroup", body, lambda answer: self._joined(life, answer, token, reason), self.join_version)

    def _joined(self, life: "Life", body: Body, token: int, reason: str | None) -> None:
        if token != self.token:
            return
        error = body["errorCode"]
        if error == MEMBER_ID_REQUIRED:
            self.member_id = body["memberId"]
            life.after(life.latency(), lambda: self._if(token, lambda: self.join(life, reason)))
        elif error in (UNKNOWN_MEMBER, FENCED):
            self._forget()
            life.after(RETRY_MS, lambda: self._if(token, lambda: self.join(life, reason)))
        elif error in (INCONSISTENT_PROTOCOL, INVALID_SESSION, GROUP_FULL):
            self.stop("refused")
            if error == GROUP_FULL:
                self.member_id = ""
        elif error:
            life.after(RETRY_MS, lambda: self._if(token, lambda: self.join(life, reason)))
        else:
            self.member_id, self.generation, self.protocol = (
                body["memberId"],
                body["generationId"],
                body["protocolName"],
            )
            life.owner_of[self.member_id] = self
            self.leads = (
                body["members"] if body["leader"] == self.member_id and not body.get("skipAssignment") else None
            )
            self.stage = "syncing"
            if self.dies_at == "sync":
                self.dies_at = None
                self.stop("crashed")
                return
            life.after(life.latency(), lambda: self._if(token, lambda: self._sync(life)))

    def _sync(self, life: "Life") -> None:
        try:
            assignments = self._assignments(life) if self.leads is not None else []
        except AssignorError:
            # ``poll`` throws the assignor's error, and the application closes its consumer.
            self.close(life)
            return
        body = {
            "memberId": self.member_id,
            "groupInstanceId": self.instance_id,
            "generationId": self.generation,
            "protocolType": self.protocol_type,
            "protocolName": self.protocol,
            "assignments": assignments,
        }
        token, generation = self.token, self.generation
        life.send(self, "SyncGroup", body, lambda answer: self._synced(life, answer, token))
        if self.request_ms:
            life.after(self.request_ms, lambda: self._if(token, lambda: self._give_up(life, generation)))

    def _give_up(self, life: "Life", generation: int) -> None:
        """Join again if the SyncGroup of a generation has no answer: a member that was removed gets none."""
        if self.stage == "syncing" and self.generation == generation:
            self.join(life, "rebalance failed")

    def _synced(self, life: "Life", body: Body, token: int) -> None:
        if token != self.token:
            return
        error = body["errorCode"]
        if error:
            if error in (UNKNOWN_MEMBER, FENCED):
                self._forget()
            life.after(life.pause(RETRY_MS), lambda: self._if(token, lambda: self.join(life, "rebalance failed")))
            return
        given: list[Partition] = []
        if body["assignment"] and self.protocol_type == "consumer":
            read = read_assignment(body["assignment"]).partitions
            given = [(topic, number) for topic, numbers in read for number in numbers]
        gives_up = self.protocol == "cooperative-sticky" and not set(self.owned) <= set(given)
        self.owned, self.stage, self.synced_topics = given, "stable", self.topics
        if gives_up:
            reason = "need to revoke partitions and re-join"
            life.after(life.latency(), lambda: self._if(token, lambda: self.join(life, reason)))

    def _assignments(self, life: "Life") -> list[dict[str, str]]:
        if self.protocol_type != "consumer" or self.protocol not in ASSIGNORS:
            return [{"memberId": member["memberId"], "assignment": "AAAA"} for member in self.leads or ()]
        topics = {name: (frozenset[str](),) * count for name, count in life.partitions().items()}
        members = {}
        for told in self.leads or ():
            is_short = len(told["metadata"]) > 0 and life.is_short(told["memberId"])
            read = read_subscription(told["metadata"], 0 if is_short else None)
            owned = tuple((topic, number) for topic, numbers in read.owned for number in numbers)
            members[told["memberId"]] = ClientSubscription(
                read.topics, owned, read.generation, read.rack_id, told.get("groupInstanceId")
            )
        assigned = ASSIGNORS[self.protocol](topics, members)
        blobs = []
        for member_id, partitions in assigned.items():
            by_topic: dict[str, list[int]] = {}
            for topic, number in partitions:
                by_topic.setdefault(topic, []).append(number)
            blobs.append({"memberId": member_id, "assignment": write_assignment(by_topic, self.library.version)})
        return blobs

    def beat(self, life: "Life") -> None:
        """Send a heartbeat if the member is stable. If the group rebalances, join again at the next poll."""
        if self.stage != "stable":
            return
        body = {"memberId": self.member_id, "groupInstanceId": self.instance_id, "generationId": self.generation}
        token = self.token
        life.send(self, "Heartbeat", body, lambda answer: self._beaten(life, answer, token))

    def _beaten(self, life: "Life", body: Body, token: int) -> None:
        error = body["errorCode"]
        if token != self.token or self.stage != "stable" or not error:
            return
        if error in (UNKNOWN_MEMBER, FENCED):
            self._forget()
        if not self.is_stuck:
            life.after(life.pause(self.poll_ms), lambda: self._rejoin(life, token, "group is already rebalancing"))

    def _rejoin(self, life: "Life", token: int, reason: str) -> None:
        if token == self.token and self.stage == "stable" and not self.is_stuck:
            self.join(life, reason)

    def polled(self, life: "Life") -> None:
        """Send a heartbeat, to find out about a rebalance in the meantime."""
        self.beat(life)

    def close(self, life: "Life", why: str = "the consumer is being closed", how: str = "closed") -> None:
        """Close the consumer. Send LeaveGroup if the library does and the member is dynamic."""
        if self.instance_id is None and self.member_id and self.library.leaves:
            member: dict[str, Any] = {"memberId": self.member_id}
            version = 5 if self.library.gives_reasons and self.join_version >= 8 else 1
            if version == 5:
                body: dict[str, Any] = {"members": [{**member, "reason": why}]}
            else:
                body = member
            life.send(self, "LeaveGroup", body, lambda _: None, version)
            self.stop(how)
            self._forget()
        else:
            self.stop("crashed")
            if self.instance_id is None or how == "closed":
                self._forget()

    def _forget(self) -> None:
        self.member_id, self.generation, self.owned = "", -1, []

    def _if(self, token: int, then: Any) -> None:
        if token == self.token and self.is_on:
            then()


@dataclass(eq=False)
class ModernConsumer(Consumer):
    """A consumer of the consumer group protocol (KIP-848)."""

    regex: str | None = None
    server_assignor: str | None = None
    target: list[Partition] = field(default_factory=list)

    def join(self, life: "Life", reason: str | None = None) -> None:
        """Send a first heartbeat with all fields."""
        self.stage, self.generation, self.owned, self.target = "joining", 0, [], []
        self.member_id = self.member_id or life.uuid()
        life.owner_of[self.member_id] = self
        self._send(life, self._all_fields())

    def _all_fields(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "memberEpoch": self.generation,
            "rebalanceTimeoutMs": self.rebalance_ms,
            "topicPartitions": [],
            "serverAssignor": self.server_assignor,
            "subscribedTopicNames": list(self.topics),
        }
        if self.rack is not None:
            body["rackId"] = self.rack
        if self.regex is not None:
            return {**body, "subscribedTopicNames": [], "subscribedTopicRegex": self.regex}
        return body

    def resubscribe(self, life: "Life") -> None:
        """Send another subscription."""
        if self.stage == "stable":
            changed = {"subscribedTopicNames": list(self.topics), "subscribedTopicRegex": ""}
            self.regex = None
            self._send(life, {"memberEpoch": self.generation, **changed})

    def beat(self, life: "Life") -> None:
        """Send a heartbeat. A consumer that polls takes its assignment, and reports its partitions."""
        if self.stage != "stable":
            return
        if self.is_stuck or self.owned == self.target:
            self._send(life, {"memberEpoch": self.generation})
        else:
            self.owned = list(self.target)
            self._send(life, {"memberEpoch": self.generation, "topicPartitions": life.by_id(self.owned)})

    def _send(self, life: "Life", body: dict[str, Any]) -> None:
        token = self.token
        whole = {"memberId": self.member_id, "instanceId": self.instance_id, **body}
        life.send(self, "ConsumerGroupHeartbeat", whole, lambda answer: self._answered(life, answer, token), 1)

    def _answered(self, life: "Life", body: Body, token: int) -> None:
        if token != self.token or not self.is_on:
            return
        error = body["errorCode"]
        if error in (UNKNOWN_MEMBER, 110, NOT_COORDINATOR, 69):
            life.after(RETRY_MS, lambda: self._if_on(token, lambda: self.join(life)))
        elif error == 111:
            life.after(5000, lambda: self._if_on(token, lambda: self.join(life)))
        elif error:
            self.stop("refused")
        else:
            self.stage, self.generation = "stable", body["memberEpoch"]
            if body["assignment"] is not None:
                self.target = life.by_name(body["assignment"]["topicPartitions"])
                if not self.is_stuck:
                    life.after(life.pause(self.poll_ms), lambda: self._if_on(token, lambda: self._take(life)))

    def _take(self, life: "Life") -> None:
        if not self.is_stuck and self.owned != self.target:
            self.beat(life)

    def polled(self, life: "Life") -> None:
        """Take partitions that were assigned in the meantime."""
        self._take(life)

    def close(self, life: "Life", why: str = "the consumer is being closed", how: str = "closed") -> None:
        """Close the consumer. A dynamic member leaves for good, a static member for a restart."""
        if self.member_id and self.generation > 0:
            epoch = LEFT_EPOCH if self.instance_id is None else AWAY_EPOCH
            body = {"memberId": self.member_id, "instanceId": self.instance_id, "memberEpoch": epoch}
            life.send(self, "ConsumerGroupHeartbeat", body, lambda _: None, 1)
        self.stop(how)
        if how == "closed":
            self.member_id = ""

    @property
    def heartbeat_ms(self) -> int:
        """Return the heartbeat interval, which the broker decides."""
        return 5000

    def _if_on(self, token: int, then: Any) -> None:
        if token == self.token and self.is_on:
            then()
