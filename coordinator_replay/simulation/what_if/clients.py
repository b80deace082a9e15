"""Simulated consumers of both protocols, with the behaviour of Java's client or of librdkafka.

A simulated consumer sends the requests of a real consumer and reacts to the responses. The simulation (``run.Fleet``)
decides when a consumer acts, and passes its requests to the coordinator. For a consumer, the simulation is a
``Connection``.

A consumer of librdkafka differs from a consumer of Java in three ways:

* It joins at most once a second.
* It rejoins when it sees that a topic has changed, even if it is not the leader.
* It closes without LeaveGroup if it is cooperative and has no partitions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from coordinator_replay.engine.model import AWAY_EPOCH, LEFT_EPOCH
from coordinator_replay.records.blobs import read_assignment, read_subscription, write_assignment, write_subscription
from coordinator_replay.simulation.coordinator import Topics
from coordinator_replay.simulation.coordinator.assignor.client import ASSIGNORS, ClientSubscription, Partition
from coordinator_replay.simulation.coordinator.assignor.client.subscription import by_topic
from coordinator_replay.simulation.coordinator.errors import CODES
from coordinator_replay.simulation.what_if.libraries import JAVA, JOIN_INTERVAL_MS, LIBRDKAFKA
from coordinator_replay.simulation.what_if.settings import COOPERATIVE

Body = Mapping[str, Any]


class Connection(Protocol):
    """A consumer's access to the coordinator, and to the clock of its run."""

    @property
    def now_ms(self) -> int:
        """Return the time of the simulation."""

    @property
    def topics(self) -> Topics:
        """Return the present topics."""

    def send(self, consumer: "Consumer", api: str, body: dict[str, Any]) -> None:
        """Send a request of a consumer."""

    def act_after(self, consumer: "Consumer", delay_ms: int) -> None:
        """Let a consumer act after a delay."""

    def holds(self, consumer: "Consumer", owned: Sequence[Partition]) -> None:
        """Take note of the partitions that a consumer owns from now on."""

    def last_owned(self, member_id: str) -> tuple[Sequence[Partition], int]:
        """Return the partitions that a member owned last, and the generation in which the member got them."""


@dataclass(kw_only=True, eq=False)
class Consumer:
    """A simulated consumer of either protocol.

    Attributes:
        name: name of the consumer's client.
        arrived_ms: the time at which the consumer started.
        topics: names of topics that the consumer subscribes to.
        regex: regular expression that the consumer subscribes to; only under KIP-848.
        library: the client library that the consumer imitates: ``java`` or ``librdkafka``.
        number: serial number of the consumer; the first to arrive in the group has the lowest.
        generation: the consumer's generation, or its member epoch under KIP-848.
        owned: partitions that the consumer owns.
        is_waiting: whether the consumer's last request has no answer yet.
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
        """Return whether the consumer only has to send heartbeats for now."""
        raise NotImplementedError

    @property
    def is_joined(self) -> bool:
        """Return whether the consumer's next request is a regular heartbeat."""
        return self.is_calm

    def act(self, around: Connection) -> None:
        """Send the request that a real consumer would send now."""
        raise NotImplementedError

    @property
    def leaves(self) -> bool:
        """Return whether the consumer, when it is closed, tells the coordinator that it leaves."""
        raise NotImplementedError

    def leave(self, around: Connection) -> None:
        """Tell the coordinator that the consumer leaves."""
        raise NotImplementedError

    def answered(self, around: Connection, api: str, body: Body) -> None:
        """React to a response.

        Args:
            around: the consumer's connection.
            api: the name of the request.
            body: the response.
        """
        raise NotImplementedError

    def own(self, around: Connection, owned: Sequence[Partition]) -> None:
        """Take ownership of these partitions from now on, and of no others."""
        self.owned = list(owned)
        around.holds(self, self.owned)


FORGOTTEN = frozenset({CODES["UNKNOWN_MEMBER_ID"], CODES["FENCED_INSTANCE_ID"]})
"""Errors after which a consumer joins as a new member."""


@dataclass(kw_only=True, eq=False)
class ClassicConsumer(Consumer):
    """A consumer of the classic protocol.

    Attributes:
        wake_ms: number of milliseconds that a librdkafka consumer waits before it joins again, in addition to the usual
            wait. A negative number shortens the wait.
        seen: partition count of each topic in the metadata that the consumer has.
        joined_ms: the time at which the consumer sent its last JoinGroup; None if the next JoinGroup needs no wait.
        stage: the next request: ``new`` or ``join`` for JoinGroup, ``sync`` for SyncGroup, ``stable`` for Heartbeat.
        leads: the members of the group, if the consumer is the leader and must compute the assignment; otherwise None.
    """

    strategy: str
    wake_ms: int = 0
    protocol: str = ""
    leads: Sequence[Body] | None = None
    is_leader: bool = False
    stage: str = "new"
    seen: Mapping[str, int] | None = None
    joined_ms: int | None = None

    @property
    def is_calm(self) -> bool:
        """Return whether the consumer only has to send heartbeats for now."""
        return self.stage == "stable"

    def act(self, around: Connection) -> None:
        """Send the request that a real consumer would send now."""
        if self.stage in ("new", "join"):
            self._join(around)
        elif self.stage == "sync":
            self._sync(around)
        else:
            self._send(around, "Heartbeat", {"generationId": self.generation})

    @property
    def leaves(self) -> bool:
        """Return whether the consumer sends LeaveGroup when it is closed.

        The result is False for a static member, and for a cooperative consumer of librdkafka without partitions.
        """
        # librdkafka sends LeaveGroup when it revokes partitions (``rd_kafka_cgrp_revoke_all_rejoin``). A cooperative
        # consumer without partitions revokes none, so it sends nothing, and its session times out.
        if self.library == LIBRDKAFKA and self.strategy == COOPERATIVE and self.generation >= 0 and not self.owned:
            return False
        return self.instance_id is None and bool(self.member_id)

    def leave(self, around: Connection) -> None:
        """Send LeaveGroup."""
        around.send(self, "LeaveGroup", {"members": [{"memberId": self.member_id}]})

    def metadata_renewed_ms(self, now_ms: int, age_ms: int) -> int:
        """Return the next time at which the consumer renews its metadata.

        For a consumer of Java, this is the latest possible time: ``age_ms`` after ``now_ms``. A consumer of librdkafka
        renews its metadata at a fixed interval, counted from its start.

        Args:
            now_ms: the present time of the recorded life.
            age_ms: ``metadata.max.age.ms``; 0 if it is known that the consumer sees new topics at once.
        """
        if self.library != LIBRDKAFKA or age_ms == 0:
            return now_ms + age_ms
        return now_ms + age_ms - (now_ms - self.arrived_ms) % age_ms

    def see_topics(self, around: Connection) -> None:
        """Renew the metadata, and join again if topics have changed.

        Only the leader joins again in Java (``ConsumerCoordinator``), and every member in librdkafka
        (``rd_kafka_cgrp_metadata_update_check``).
        """
        if self.seen is None or self.seen == (counts := self._partition_counts(around)):
            return
        if self.library == LIBRDKAFKA:
            self.seen = counts
            self.rejoin(around)
        elif self.is_leader:
            self.rejoin(around)

    def _partition_counts(self, around: Connection) -> dict[str, int]:
        return {name: topic.partitions for name, topic in around.topics.by_name.items() if name in self.topics}

    def rejoin(self, around: Connection) -> None:
        """Join again, because the consumer's subscription or topics have changed.

        A consumer that takes part in a rebalance already, or waits for a response, does nothing.
        """
        if self.stage == "stable" and not self.is_waiting:
            self._give_up(around)

    def answered(self, around: Connection, api: str, body: Body) -> None:
        """React to the response to a request."""
        error = body["errorCode"]
        if api == "Heartbeat" and not error:
            return
        if error == CODES["MEMBER_ID_REQUIRED"]:
            self.member_id, self.stage, self.joined_ms = body["memberId"], "join", None
            around.act_after(self, 0)
        elif error in FORGOTTEN:
            self.member_id, self.stage, self.generation, self.joined_ms = "", "new", -1, None
            self.own(around, ())
            around.act_after(self, 0)
        elif error:
            self._give_up(around)
        elif api == "JoinGroup":
            self.member_id, self.generation = body["memberId"], body["generationId"]
            self.protocol, self.stage = body["protocolName"], "sync"
            self.is_leader = body["leader"] == self.member_id
            if self.library == JAVA or self.is_leader or self.seen is None:
                self.seen = self._partition_counts(around)
            self.leads = body["members"] if self.is_leader and not body["skipAssignment"] else None
            around.act_after(self, 0)
        elif api == "SyncGroup":
            self._assigned(around, body["assignment"])

    def _give_up(self, around: Connection) -> None:
        """Join again.

        An eager consumer gives up all partitions first.
        """
        self.stage = "join"
        if self.strategy == COOPERATIVE:
            around.act_after(self, self._join_wait_ms(around))
            return
        self.joined_ms = None
        self.own(around, ())
        around.act_after(self, 0)

    def _join_wait_ms(self, around: Connection) -> int:
        """Return how long librdkafka waits before the consumer joins again; 0 for Java."""
        if self.library != LIBRDKAFKA or self.joined_ms is None:
            return 0
        wait_ms = self.joined_ms + JOIN_INTERVAL_MS - around.now_ms
        return max(wait_ms + self.wake_ms, 0) if wait_ms > 0 else 0

    def _assigned(self, around: Connection, assignment: str) -> None:
        read = read_assignment(assignment).partitions if assignment else ()
        assigned = [(topic, number) for topic, numbers in read for number in numbers]
        gives_up = self.protocol == COOPERATIVE and not set(self.owned) <= set(assigned)
        self.own(around, assigned)
        # A cooperative consumer that gave up partitions joins again, so that others can get them.
        self.stage = "join" if gives_up else "stable"
        if gives_up:
            self.joined_ms = None
            around.act_after(self, 0)

    def _join(self, around: Connection) -> None:
        claims = self.owned if self.strategy == COOPERATIVE else []
        subscription = {
            "topics": list(self.topics),
            "userData": None,
            "ownedPartitions": [{"topic": topic, "partitions": numbers} for topic, numbers in by_topic(claims).items()],
            "generationId": self.generation if claims else -1,
            "rackId": None,
        }
        metadata = write_subscription(subscription)
        body = {
            "sessionTimeoutMs": self.session_ms,
            "rebalanceTimeoutMs": self.rebalance_ms,
            "protocolType": "consumer",
            "protocols": [{"name": self.strategy, "metadata": metadata}],
        }
        self.joined_ms = around.now_ms
        self._send(around, "JoinGroup", body)

    def _sync(self, around: Connection) -> None:
        body = {
            "generationId": self.generation,
            "protocolType": "consumer",
            "protocolName": self.protocol,
            "assignments": self._assignments(around) if self.leads is not None else [],
        }
        self._send(around, "SyncGroup", body)

    def _assignments(self, around: Connection) -> list[dict[str, str]]:
        topics = {name: (frozenset[str](),) * topic.partitions for name, topic in around.topics.by_name.items()}
        members = {}
        for candidate in self.leads or ():
            read = read_subscription(candidate["metadata"])
            owned = tuple((topic, number) for topic, numbers in read.owned for number in numbers)
            generation = read.generation
            if self.protocol == "sticky":
                last, generation = around.last_owned(candidate["memberId"])
                owned = tuple(last)
            members[candidate["memberId"]] = ClientSubscription(
                read.topics, owned, generation, read.rack_id, candidate["groupInstanceId"]
            )
        return [
            {"memberId": member_id, "assignment": write_assignment(by_topic(partitions), 3)}
            for member_id, partitions in ASSIGNORS[self.protocol](topics, members).items()
        ]

    def _send(self, around: Connection, api: str, body: dict[str, Any]) -> None:
        around.send(self, api, {"memberId": self.member_id, "groupInstanceId": self.instance_id, **body})


RETRY_MS = 100
"""``retry.backoff.ms`` of Kafka's clients."""


@dataclass(kw_only=True, eq=False)
class ModernConsumer(Consumer):
    """A consumer of the consumer group protocol (KIP-848).

    Attributes:
        revoke_ms: how long the consumer takes to give up partitions.
        is_restarted: whether the consumer is started again after a fatal error.
        is_stuck: whether the consumer has had a fatal error, and does nothing more.
        assigned: partitions of the last assignment that the consumer has not taken over yet; None if there are none.
        is_sending_owned: whether the next heartbeat names the partitions that the consumer owns.
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
        """Return whether the consumer only has to send heartbeats for now."""
        return self.is_stuck or (self.is_joined and not self.is_sending_owned)

    @property
    def is_joined(self) -> bool:
        """Return whether the consumer's next request is a regular heartbeat."""
        return self.generation > 0 and self.assigned is None

    def act(self, around: Connection) -> None:
        """Send the request that a real consumer would send now."""
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
        """Return whether the consumer, when it is closed, tells the coordinator that it leaves."""
        return self.generation > 0

    def leave(self, around: Connection) -> None:
        """Tell the coordinator that the consumer leaves.

        A static member leaves only for a restart: it sends member epoch -2.
        """
        self._send(around, {"memberEpoch": LEFT_EPOCH if self.instance_id is None else AWAY_EPOCH})

    def answered(self, around: Connection, api: str, body: Body) -> None:
        """React to the response to a request."""
        if body["errorCode"]:
            self.generation, self.assigned = 0, None
            self.own(around, ())
            # The earlier member did not leave. Nobody else gets its instance id until its session is over.
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
        # A consumer does not wait for its next heartbeat: it reports at once which partitions it gave up or took.
        gives_up = not set(self.owned) <= set(self.assigned)
        around.act_after(self, self.revoke_ms if gives_up else 0)

    def _owned_ids(self, around: Connection) -> list[dict[str, Any]]:
        by_name = around.topics.by_name
        return [
            {"topicId": by_name[topic].topic_id, "partitions": numbers}
            for topic, numbers in by_topic(self.owned).items()
            if topic in by_name
        ]

    def _send(self, around: Connection, body: dict[str, Any]) -> None:
        around.send(
            self, "ConsumerGroupHeartbeat", {"memberId": self.member_id, "instanceId": self.instance_id, **body}
        )
