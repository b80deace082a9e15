"""One random life of a group: consumers, topics and administrators in simulated time, and the coordinator's actions.

Every consumer acts by its own timers, and gets answers after a latency. The events of the life are drawn from a mix.
"""

import base64
import heapq
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple

from coordinator_replay.engine.model import Marker, Record
from coordinator_replay.simulation.coordinator import (
    Batch,
    EpochBumped,
    Event,
    MarkerWritten,
    RebalanceStarted,
    Request,
    Response,
    Result,
    Topic,
)
from coordinator_replay.simulation.coordinator.assignor.client import Partition
from coordinator_replay.simulation.coordinator.config import FAULTS, BrokerFault
from scripts.world.client_bytes import JAVA, LIBRARIES, OLD_JAVA, Library
from scripts.world.consumers import ClassicConsumer, Consumer, ModernConsumer
from scripts.world.mixes import Mix
from scripts.world.script import AskedCoordinator

START_MS = 1_760_000_000_000
GROUP = "g"
ADMIN = ("admin", "10.9.9.9")
"""Client id and host of requests that no consumer sends."""
DAY_MS = 86_400_000
HOUR_MS = 3_600_000
MOST_CONSUMERS = 9
MOST_REBALANCES = 200
"""Number of rebalances after which a life ends. A group whose members can't join in time would rebalance for ever."""
MOST_STEPS = 40_000
"""Number of acts and timers after which a life ends. A join timer without a delay fires each millisecond."""

Act = Callable[[], None]


STATIC_SINCE = 5
"""First version of JoinGroup for static members."""


class Habits(NamedTuple):
    """Settings that all consumers of a group share.

    Attributes:
        library: client library of the classic protocol.
        assignors: partition.assignment.strategy of the classic protocol.
        protocol_type: protocol type of JoinGroup.
        session_ms: session.timeout.ms of the classic protocol.
        rebalance_ms: max.poll.interval.ms.
        commit_ms: auto.commit.interval.ms; 0 if consumers never commit.
        traffic: how likely it is that a consumer has something to commit.
        is_static: whether consumers have a group.instance.id.
        regex: regular expression to which consumers of the consumer group protocol subscribe; None for topic names.
        has_one_client_id: whether all consumers have the same client.id.
        has_one_host: whether all consumers begin on the same host.
        changes_hosts: whether a consumer that starts again does so on another host.
        join_version: version of JoinGroup.
        may_migrate: whether consumers may change their protocol.
        request_ms: request.timeout.ms for SyncGroup; 0 if consumers wait for ever, as they do in both mixes.
    """

    library: Library
    assignors: tuple[str, ...]
    protocol_type: str
    session_ms: int
    rebalance_ms: int
    commit_ms: int
    traffic: float
    is_static: bool
    regex: str | None
    has_one_client_id: bool
    has_one_host: bool
    changes_hosts: bool
    join_version: int
    may_migrate: bool = True
    request_ms: int = 0


class Sender(NamedTuple):
    """The state of a consumer when it sent a request that changed something.

    Attributes:
        ended: how the consumer's last membership had ended.
        has_been_member: whether an earlier record showed one of the consumer's member ids, or its instance id, in the
            group.
        says: reason of the request.
        is_elsewhere: whether the consumer is dynamic, and no earlier record showed it on its present host.
    """

    consumer: Consumer
    ended: str | None
    has_been_member: bool
    says: str | None
    is_elsewhere: bool


class Sent(NamedTuple):
    """A request that a consumer sent in the name of a member.

    Attributes:
        member_id: the member; "" for a new one.
        topics: the topics that the consumer subscribed to at that time.
    """

    at_ms: int
    api: str
    consumer: Consumer
    member_id: str
    body: Mapping[str, Any]
    topics: tuple[str, ...]


class Life:
    """A group's life.

    Attributes:
        written: all records and markers that the coordinator wrote, in order.
        truth: the coordinator's messages to its observer.
        senders: the sender of the request that caused a message of ``truth``, by the number of the message.
        owner_of: consumer by member id.
        sent: requests of consumers, in order.
        results: the records of ``written`` in batches, and the markers.
        topics: all topics that have existed.
        group: the group's id.
        retention_minutes: offsets.retention.minutes.
        fault: the fault of the life's broker; None if it has none.
        habits: settings of consumers that start from now on.
    """

    def __init__(
        self, seed: int, mix: Mix, group: str = GROUP, settings: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        """Begin a life without consumers.

        Args:
            seed: seed of all that is drawn.
            mix: how often each event comes, and the shape of the group.
            group: the group's id.
            settings: settings of the broker that replace the drawn ones.
        """
        self.random = Random(f"{mix.name}-{seed}")  # noqa: S311
        self.mix = mix
        self.group = group
        self.written: list[Record | Marker] = []
        self.truth: list[Event] = []
        self.senders: dict[int, Sender] = {}
        self.owner_of: dict[str, Consumer] = {}
        self.consumers: list[Consumer] = []
        self.sent: list[Sent] = []
        self.results: list[Batch | MarkerWritten] = []
        self.topics: list[Topic] = []
        self.names: dict[str, str] = {}
        self._waiting: dict[int, Callable[[Mapping[str, Any]], None]] = {}
        self._asking: dict[int, Consumer] = {}
        self._on_record: dict[str | None, str] = {}
        self._sent = self._numbers = self._rebalances = self._steps = 0
        self._queue: list[tuple[int, int, Act]] = []
        self._topics: dict[str, Topic] = {}
        self.now_ms = START_MS
        self.is_odd = self._chance(mix.odd_share)
        self.is_modern = self._chance(mix.modern_share)
        for name in ("orders", "payments", "clicks")[: self.random.randint(1, 3)]:
            self._topics[name] = self._new_topic(name)
        self.fault = self._fault(seed)
        config = self._config() | _settings(self.fault) | dict(settings)
        self.retention_minutes = int(config["offsets.retention.minutes"])
        self.coordinator = AskedCoordinator(config, self._topics.values(), now_ms=START_MS, observer=self._observe)
        self.habits = self._drawn_habits()
        if self.fault is not None:
            self._suit(self.fault)

    def _observe(self, event: Event) -> None:
        self.truth.append(event)
        self._rebalances += isinstance(event, RebalanceStarted | EpochBumped)

    # -- chances -----------------------------------------------------------------------------------------------------

    def _chance(self, share: float) -> bool:
        return self.random.random() < share

    def latency(self) -> int:
        """Return how long an answer takes."""
        return self.random.randint(1, 40)

    def pause(self, about_ms: int) -> int:
        """Return a random time of at most ``about_ms``."""
        return self.random.randint(0, max(1, about_ms))

    def uuid(self) -> str:
        """Return a member id in the form that clients make."""
        return base64.urlsafe_b64encode(uuid.UUID(int=self.random.getrandbits(128)).bytes).decode().rstrip("=")

    def has_traffic(self, consumer: Consumer) -> bool:
        """Return whether there is something to commit."""
        return consumer.library.commits_unchanged or self._chance(self.habits.traffic)

    def _config(self) -> dict[str, Any]:
        choice = self.random.choice
        config: dict[str, Any] = {
            "group.initial.rebalance.delay.ms": choice([0, 100, 3000, 3000]),
            "group.min.session.timeout.ms": 1000,
            "group.consumer.min.session.timeout.ms": 5000,
            "group.consumer.min.heartbeat.interval.ms": 1000,
            "group.consumer.assignment.interval.ms": choice([0, 1000, 1000]),
            "group.consumer.session.timeout.ms": choice([6000, 45_000]) if self.is_odd else 45_000,
            "offsets.retention.minutes": choice([1, 10, 10_080]),
        }
        if self.is_odd and self._chance(0.2):
            config["group.max.size"] = config["group.consumer.max.size"] = choice([2, 4])
        return config

    def _drawn_habits(self) -> Habits:
        choice = self.random.choice
        library = choice(LIBRARIES) if self._chance(0.6) else JAVA
        habits = Habits(
            library=library,
            assignors=choice(library.assignors),
            protocol_type=choice(["connect", "sr", ""]) if self.is_odd and self._chance(0.1) else "consumer",
            session_ms=choice([1000, 6000, 10_000, 45_000, 1_800_000]) if self.is_odd else choice([10_000, 45_000]),
            rebalance_ms=choice([0, -1, 2000, 5000, 60_000]) if self.is_odd else choice([60_000, 300_000]),
            commit_ms=choice([0, 1000, 5000, 5000, 60_000]),
            traffic=choice([0.02, 0.5, 1.0]),
            is_static=self._chance(0.3),
            regex=choice(["orders|pay.*", ".*s"]) if self._chance(0.2) else None,
            has_one_client_id=self._chance(0.3),
            has_one_host=self._chance(0.2),
            changes_hosts=self._chance(0.5),
            join_version=choice(library.join_versions),
        )
        least = STATIC_SINCE if habits.is_static else 0
        return habits._replace(
            join_version=max(least, habits.join_version), may_migrate=habits.protocol_type == "consumer"
        )

    def _fault(self, seed: int) -> BrokerFault | None:
        """Draw a fault of the broker. The fault does not change the other draws of the life."""
        random = Random(f"{self.mix.name}-{seed}-fault")  # noqa: S311
        return random.choice(list(BrokerFault)) if random.random() < self.mix.fault_share else None

    def _suit(self, fault: BrokerFault) -> None:
        """Give the group clients that a fault affects, from the time of the brokers that had the fault."""
        self.is_modern, self.habits = False, self.habits._replace(may_migrate=False)
        if fault is BrokerFault.JOIN_WITHOUT_TIMEOUT:
            self.habits = self.habits._replace(
                library=OLD_JAVA, join_version=0, is_static=False, assignors=OLD_JAVA.assignors[0]
            )
        elif fault is BrokerFault.STATIC_JOIN_BEFORE_SYNC:
            self.habits = self.habits._replace(
                library=JAVA, join_version=STATIC_SINCE, is_static=True, assignors=JAVA.assignors[1]
            )

    # -- time --------------------------------------------------------------------------------------------------------

    def after(self, delay_ms: int, act: Act) -> None:
        """Do something after a delay."""
        self._numbers += 1
        heapq.heappush(self._queue, (self.now_ms + max(0, delay_ms), self._numbers, act))

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass, and run all acts and timers that are due."""
        until_ms = self.now_ms + milliseconds
        while self._rebalances < MOST_REBALANCES and self._steps < MOST_STEPS:
            self._steps += 1
            next_ms = self._queue[0][0] if self._queue else until_ms + 1
            due_ms = self.coordinator.next_due_ms
            if due_ms is not None and due_ms <= min(next_ms, until_ms):
                self.now_ms = due_ms
                self._take(self.coordinator.advance(due_ms))
            elif next_ms <= until_ms:
                self.now_ms, _, act = heapq.heappop(self._queue)
                act()
            else:
                self.now_ms = until_ms
                return

    # -- the coordinator ---------------------------------------------------------------------------------------------

    def send(
        self,
        consumer: Consumer | None,
        api: str,
        body: Mapping[str, Any],
        answered: Callable[[Mapping[str, Any]], None],
        version: int | None = None,
    ) -> None:
        """Send a request. ``answered`` gets the answer after a latency."""
        self._sent += 1
        self._waiting[self._sent] = answered
        client_id, host = (consumer.client_id, consumer.host) if consumer is not None else ADMIN
        request = Request(api, {"groupId": self.group, **body}, version, client_id, host, self._sent)
        if consumer is not None:
            self._asking[self._sent] = consumer
            self.sent.append(Sent(self.now_ms, api, consumer, body.get("memberId", ""), body, consumer.topics))
        told = len(self.truth)
        results = self.coordinator.handle(request, self.now_ms)
        if consumer is not None and len(self.truth) > told:
            sender = self._sender(consumer, body.get("memberId"))
            self.senders.update((number, sender) for number in range(told, len(self.truth)))
        self._take(results)

    def _sender(self, consumer: Consumer, member_id: str | None) -> Sender:
        """Return the state of a consumer that sends a request with a member id."""
        hosts = [self._on_record[had] for had in (*consumer.had, member_id) if had in self._on_record]
        was_there = consumer.instance_id in self._on_record or bool(hosts)
        is_elsewhere = consumer.instance_id is None and consumer.host not in hosts
        return Sender(consumer, consumer.ended, was_there, consumer.says, is_elsewhere)

    def commit(self, consumer: Consumer) -> None:
        """Commit the positions of a consumer."""
        by_topic: dict[str, list[dict[str, Any]]] = {}
        for topic, number in consumer.owned:
            offset = {"partitionIndex": number, "committedOffset": consumer.committed, "committedMetadata": ""}
            by_topic.setdefault(topic, []).append(offset)
        body = {
            "memberId": consumer.member_id,
            "groupInstanceId": consumer.instance_id,
            "generationIdOrMemberEpoch": consumer.generation,
            "topics": [{"name": name, "partitions": partitions} for name, partitions in by_topic.items()],
        }
        version = 9 if isinstance(consumer, ModernConsumer) else 8
        self.send(consumer, "OffsetCommit", body, lambda _: None, version)

    def ask(self, api: str, body: Mapping[str, Any], version: int | None = None) -> None:
        """Send a request that no consumer sends, and whose answer nobody needs."""
        self._sent += 1
        self._take(self.coordinator.handle(Request(api, body, version, *ADMIN, self._sent), self.now_ms))

    def end_transaction(self, producer: int, *, committed: bool) -> None:
        """End the transaction of a producer."""
        self._take(self.coordinator.end_transaction(producer, 0, committed=committed, at_ms=self.now_ms))

    def _take(self, results: Sequence[Result]) -> None:
        for result in results:
            if isinstance(result, Batch):
                self.results.append(result)
                self.written += result.records
                self._on_record.update(_members_of(result.records))
                if _ends_group(result.records):
                    self._forget_members()
            elif isinstance(result, MarkerWritten):
                self.results.append(result)
                self.written.append(result.marker)
            elif isinstance(result, Response):
                self._learn_id(result)
                answered = self._waiting.pop(result.correlation_id, None)
                if answered is not None:
                    self.after(self.latency(), partial(answered, result.body))

    def _learn_id(self, response: Response) -> None:
        """Note the consumer that got a member id in an answer, even if the consumer no longer runs."""
        consumer, member_id = self._asking.pop(response.correlation_id, None), response.body.get("memberId")
        if consumer is not None and member_id:
            self.owner_of.setdefault(member_id, consumer)
            is_member = not response.body.get("errorCode") and response.body.get("memberEpoch", 1) > 0
            if is_member and member_id not in consumer.had:
                consumer.had.append(member_id)

    def _forget_members(self) -> None:
        """Note that the group is gone, so that every consumer is new to the next group of this name."""
        for consumer in self.consumers:
            consumer.had, consumer.ended = [], None
        self._on_record.clear()

    def partitions(self) -> dict[str, int]:
        """Return the number of partitions of each topic."""
        return {topic.name: topic.partitions for topic in self._topics.values()}

    def is_short(self, member_id: str) -> bool:
        """Return whether a member's library stops after the user data."""
        owner = self.owner_of.get(member_id)
        return (owner.library if owner is not None else self.habits.library).is_whole is False

    def by_id(self, partitions: Sequence[Partition]) -> list[dict[str, Any]]:
        """Return partitions by topic id, in the form of a heartbeat."""
        by_topic: dict[str, list[int]] = {}
        for topic, number in partitions:
            if topic in self._topics:
                by_topic.setdefault(self._topics[topic].topic_id, []).append(number)
        return [{"topicId": topic_id, "partitions": numbers} for topic_id, numbers in by_topic.items()]

    def by_name(self, topics: Sequence[Mapping[str, Any]]) -> list[Partition]:
        """Return the partitions in a heartbeat's answer, by topic name."""
        names = {topic.topic_id: topic.name for topic in self._topics.values()}
        return [(names[t["topicId"]], number) for t in topics if t["topicId"] in names for number in t["partitions"]]

    # -- the life ----------------------------------------------------------------------------------------------------

    def run(self, triggers: int) -> "Life":
        """Run the life: start consumers, then run this number of triggers, and return the life."""
        for _ in range(self.random.choice(self.mix.sizes)):
            self.join()
            self.pass_time(self.random.choice([0, 50, 2000]))
        self._rest()
        names, weights = zip(*self.mix.weights.items(), strict=True)
        for name in self.random.choices(names, weights, k=triggers):
            getattr(self, name)()
            if self._chance(self.mix.overlap_share):
                self.pass_time(self.random.choice([0, 20, 300, 2000, 9000]))
            else:
                self._rest()
        self._rest()
        return self

    def expire(self) -> "Life":
        """Stop all consumers, let time pass until their offsets have expired, and return the life."""
        for consumer in self._on:
            consumer.stop("crashed")
        self._queue.clear()
        self.pass_time(self.retention_minutes * 60_000 + HOUR_MS)
        return self

    def _rest(self) -> None:
        """Let time pass in which the group mostly comes to rest."""
        longest = max(self.habits.session_ms, min(self.habits.rebalance_ms, 60_000), 10_000)
        self.pass_time(self.random.choice([6000, 15_000, min(longest, 60_000) + 3000, min(longest, 120_000) * 2]))

    @property
    def _on(self) -> list[Consumer]:
        return [consumer for consumer in self.consumers if consumer.is_on]

    @property
    def _off(self) -> list[Consumer]:
        return [consumer for consumer in self.consumers if not consumer.is_on]

    def _any(self, consumers: Sequence[Consumer]) -> Consumer | None:
        return self.random.choice(consumers) if consumers else None

    def _new_consumer(self, *, is_modern: bool) -> Consumer:
        number = len(self.consumers)
        names = list(self._topics) or ["orders"]
        topics = tuple(names) if self._chance(0.7) else (self.random.choice(names),)
        client_id = "consumer" if self.habits.has_one_client_id else f"consumer-{number}"
        host = "10.0.0.1" if self.habits.has_one_host else f"10.0.0.{number + 1}"
        instance_id = f"instance-{number}" if self.habits.is_static else None
        rebalance_ms, session_ms = self.habits.rebalance_ms, self.habits.session_ms
        if is_modern:
            modern_ms = max(rebalance_ms, 2000)
            made: Consumer = ModernConsumer(
                client_id,
                host,
                topics,
                JAVA,
                instance_id=instance_id,
                rebalance_ms=modern_ms,
                session_ms=45_000,
                regex=self.habits.regex,
            )
        else:
            made = ClassicConsumer(
                client_id, host, topics, self.habits.library, self.habits.assignors, instance_id,
                rebalance_ms=rebalance_ms, session_ms=session_ms, join_version=self.habits.join_version,
                protocol_type=self.habits.protocol_type,
            )  # fmt: skip
        made.poll_ms = self.random.choice([50, 500, 3000])
        made.request_ms = self.habits.request_ms
        made.commit_ms = self.habits.commit_ms if self.habits.protocol_type == "consumer" else 0
        self.consumers.append(made)
        return made

    # -- what may happen ---------------------------------------------------------------------------------------------

    def join(self) -> None:
        """Start another consumer."""
        if len(self._on) < MOST_CONSUMERS:
            self._new_consumer(is_modern=self.is_modern).start(self)

    def leave(self) -> None:
        """Close a consumer."""
        consumer = self._any(self._on)
        if consumer is not None:
            consumer.close(self)

    def crash(self) -> None:
        """Kill a consumer."""
        consumer = self._any(self._on)
        if consumer is not None:
            consumer.stop("crashed")
            self._lose_id(consumer)

    def _lose_id(self, consumer: Consumer) -> None:
        consumer.member_id, consumer.generation = "", -1

    def _start_again(self, consumer: Consumer) -> None:
        if not consumer.is_on:
            if self.habits.changes_hosts:
                consumer.host = f"10.1.{self.random.randint(0, 255)}.{self.random.randint(1, 250)}"
            consumer.start(self)

    def _restart(self, consumer: Consumer, *, closes: bool, after_ms: int) -> None:
        if closes:
            consumer.close(self)
        else:
            consumer.stop("crashed")
        self._lose_id(consumer)
        self.after(after_ms, lambda: self._start_again(consumer))

    def restart(self) -> None:
        """Close a consumer, and start it again soon."""
        consumer = self._any(self._on)
        if consumer is not None:
            self._restart(consumer, closes=True, after_ms=self.random.choice([50, 800, 4000]))

    def restart_late(self) -> None:
        """Close a consumer, and start it again much later."""
        consumer = self._any(self._on)
        if consumer is not None:
            self._restart(consumer, closes=True, after_ms=self.random.choice([30_000, 120_000, 900_000]))

    def crash_restart(self) -> None:
        """Kill a consumer, and start it again before or after its session timeout."""
        consumer = self._any(self._on)
        if consumer is not None:
            self._restart(consumer, closes=False, after_ms=self.random.choice([500, 5000, 60_000]))

    def static_restart(self) -> None:
        """Restart a static member within its session timeout."""
        consumer = self._any([one for one in self._on if one.instance_id is not None])
        if consumer is not None:
            self._restart(consumer, closes=True, after_ms=self.pause(min(consumer.session_ms, 45_000) * 3 // 4))

    def static_late(self) -> None:
        """Restart a static member beyond its session timeout."""
        consumer = self._any([one for one in self._on if one.instance_id is not None])
        if consumer is not None:
            self._restart(consumer, closes=True, after_ms=min(consumer.session_ms, 120_000) + 5000)

    def hang(self) -> None:
        """Let a consumer stop polling for a while, within its poll interval."""
        consumer = self._any(self._on)
        if consumer is not None:
            consumer.hang(self, self.pause(max(consumer.rebalance_ms, 2000)))
            if self._chance(0.5):
                self.join()

    def hang_long(self) -> None:
        """Let a consumer stop polling for longer than its poll interval."""
        consumer = self._any(self._on)
        if consumer is not None:
            consumer.hang(self, max(consumer.rebalance_ms, 1000) + self.random.choice([1000, 20_000, 100_000]))
            if self._chance(0.3):
                self.join()

    def sync_lost(self) -> None:
        """Start a rebalance, and kill a consumer between its JoinGroup and its SyncGroup."""
        consumer = self._any(self._on)
        if consumer is not None:
            consumer.dies_at = "sync"
            self.join()

    def admin_remove(self) -> None:
        """Remove members, as an administrator's tool does."""
        classic = [one for one in self._on if one.member_id and isinstance(one, ClassicConsumer)]
        chosen = self.random.sample(classic, min(len(classic), self.random.choice([1, 1, 2])))
        members = [
            {"memberId": one.member_id, "groupInstanceId": one.instance_id, "reason": "member was removed by an admin"}
            for one in chosen
        ]
        if members:
            self.send(None, "LeaveGroup", {"members": members}, lambda _: None, 5)

    def admin_remove_static(self) -> None:
        """Remove a static member by its instance id. In most cases its process is gone."""
        consumer = self._any([one for one in self.consumers if one.instance_id is not None])
        if consumer is not None:
            if consumer.is_on and self._chance(0.7):
                consumer.stop("crashed")
                self._lose_id(consumer)
            member = {
                "memberId": "",
                "groupInstanceId": consumer.instance_id,
                "reason": "member was removed by an admin",
            }
            self.send(None, "LeaveGroup", {"members": [member]}, lambda _: None, 5)

    def unsubscribe(self) -> None:
        """Let a consumer unsubscribe from all topics, and subscribe again later."""
        consumer = self._any(self._on)
        if consumer is not None and consumer.instance_id is None:
            consumer.close(self, "the consumer unsubscribed from all topics", "unsubscribed")
            again_ms = self.random.choice([1000, 30_000])
            self.after(again_ms, lambda: None if consumer.is_on else consumer.start(self))

    def subscribe(self) -> None:
        """Change a consumer's subscription."""
        consumer = self._any([one for one in self._on if one.stage == "stable"])
        if consumer is None:
            return
        names = list(self._topics) or ["orders"]
        consumer.topics = tuple(self.random.sample(names, self.random.randint(1, len(names))))
        if isinstance(consumer, ModernConsumer):
            consumer.resubscribe(self)
        else:
            has_changed = set(consumer.topics) != set(consumer.synced_topics)
            consumer.join(self, "subscription has changed" if has_changed else "subscribed to the same topics again")

    def enforce(self) -> None:
        """Let a consumer ask for a rebalance."""
        consumer = self._any([one for one in self._on if isinstance(one, ClassicConsumer) and one.stage == "stable"])
        if consumer is not None:
            consumer.join(self, "rebalance enforced by user")

    def assignor_roll(self) -> None:
        """Give classic consumers another list of assignors, one after the other."""
        self.habits = self.habits._replace(assignors=self.random.choice(self.habits.library.assignors))
        for consumer in list(self._on):
            if isinstance(consumer, ClassicConsumer):
                consumer.assignors = self.habits.assignors
                self._restart(consumer, closes=True, after_ms=500)
                self.pass_time(self.random.choice([1000, 8000]))

    def roll(self) -> None:
        """Restart all consumers, one after the other."""
        pause_ms, down_ms = self.random.choice([1000, 8000, 30_000]), self.random.choice([300, 3000])
        for consumer in list(self._on):
            self._restart(consumer, closes=True, after_ms=down_ms)
            self.pass_time(pause_ms)

    def upgrade(self) -> None:
        """Move consumers to the consumer group protocol, one after the other."""
        self._migrate(is_modern=True)

    def downgrade(self) -> None:
        """Move consumers back to the classic protocol, one after the other."""
        self._migrate(is_modern=False)

    def _migrate(self, *, is_modern: bool) -> None:
        if not self.habits.may_migrate:
            return
        self.is_modern = is_modern
        for old in list(self._on):
            if isinstance(old, ModernConsumer) == is_modern:
                continue
            old.close(self)
            new = self._new_consumer(is_modern=is_modern)
            new.client_id, new.host, new.topics = old.client_id, old.host, old.topics
            new.instance_id, new.ended, new.had = old.instance_id, "migrated", list(old.had)
            self.pass_time(300)
            new.start(self)
            self.pass_time(self.random.choice([2000, 15_000]))
            if self._chance(0.1):
                return

    def reload(self) -> None:
        """Give the log partition another leader."""
        self._take(self.coordinator.reload())

    def delete_offsets(self) -> None:
        """Delete committed offsets of a topic."""
        topic = self._any_topic()
        if topic is not None:
            partitions = [{"partitionIndex": number} for number in range(topic.partitions)]
            body = {"topics": [{"name": topic.name, "partitions": partitions}]}
            self.send(None, "OffsetDelete", body, lambda _: None)

    def all_leave(self) -> None:
        """Close or kill all consumers, and start them again later."""
        for consumer in list(self._on):
            self._restart(consumer, closes=self._chance(0.8), after_ms=self.random.choice([20_000, 400_000]))

    def delete_group(self) -> None:
        """Delete the group. In most cases it has no members at that time."""
        if self._chance(0.8):
            for consumer in list(self._on):
                self._restart(consumer, closes=True, after_ms=120_000)
            self.pass_time(70_000)
        self.ask("DeleteGroups", {"groupsNames": [self.group]})

    def transaction(self) -> None:
        """Commit offsets in a transaction. In most cases the transaction ends, otherwise it stays open."""
        topic = self._any_topic()
        if topic is None:
            return
        producer = self.random.randint(1, 3)
        partitions = [{"partitionIndex": 0, "committedOffset": 1, "committedMetadata": ""}]
        body = {
            "transactionalId": "t", "producerId": producer, "producerEpoch": 0, "memberId": "", "generationId": -1,
            "topics": [{"name": topic.name, "partitions": partitions}],
        }  # fmt: skip
        self.send(None, "TxnOffsetCommit", body, lambda _: None)
        if self._chance(0.8):
            self.end_transaction(producer, committed=self._chance(0.7))

    def quiet(self) -> None:
        """Let a long time pass."""
        self.pass_time(self.random.choice([60_000, 300_000, 700_000]))

    # -- topics ------------------------------------------------------------------------------------------------------

    def _new_topic(self, name: str) -> Topic:
        topic = Topic(name, self.uuid(), self.random.randint(1, 6))
        self.names[topic.topic_id] = name
        self.topics.append(topic)
        return topic

    def _any_topic(self) -> Topic | None:
        return self.random.choice(list(self._topics.values())) if self._topics else None

    def _topics_changed(self, name: str) -> None:
        """Tell the coordinator at once of a changed topic. Leaders of classic groups see it at their next refresh."""
        self._take(self.coordinator.update_topics(self._topics.values(), self.now_ms))
        for consumer in self._on:
            if isinstance(consumer, ClassicConsumer) and name in consumer.topics:
                self.after(self.pause(30_000), partial(self._see, consumer, consumer.token))

    def _see(self, consumer: ClassicConsumer, token: int) -> None:
        """Let a leader that sees other topics join again."""
        if token == consumer.token and consumer.stage == "stable" and consumer.leads is not None:
            consumer.join(self, "cached metadata has changed from the metadata used for the assignment")

    def topic_grows(self) -> None:
        """Add partitions to a topic."""
        topic = self._any_topic()
        if topic is not None:
            self._topics[topic.name] = topic._replace(partitions=topic.partitions + self.random.randint(1, 3))
            self._topics_changed(topic.name)

    def topic_created(self) -> None:
        """Create a topic."""
        missing = [name for name in ("orders", "payments", "clicks", "audit") if name not in self._topics]
        if missing:
            self._topics[missing[0]] = self._new_topic(missing[0])
            self._topics_changed(missing[0])

    def topic_deleted(self) -> None:
        """Delete a topic."""
        topic = self._any_topic()
        if topic is not None and len(self._topics) > 1:
            del self._topics[topic.name]
            self._topics_changed(topic.name)

    def topic_recreated(self) -> None:
        """Delete a topic and create it again."""
        topic = self._any_topic()
        if topic is not None:
            del self._topics[topic.name]
            self._topics_changed(topic.name)
            self.pass_time(self.random.choice([0, 100, 40_000]))
            self._topics[topic.name] = self._new_topic(topic.name)
            self._topics_changed(topic.name)


def _settings(fault: BrokerFault | None) -> dict[str, Any]:
    """Return the settings of a broker with a fault. For ``EXPIRY_IN_REBALANCE``, expiry is often checked."""
    if fault is None:
        return {}
    often = {"offsets.retention.check.interval.ms": 5000} if fault is BrokerFault.EXPIRY_IN_REBALANCE else {}
    return {FAULTS: [fault], **often}


def _members_of(records: Sequence[Record]) -> Iterator[tuple[str, str]]:
    """Yield the member ids and instance ids in a batch, each with the host of the member."""
    for record in records:
        value = record.value or {}
        members = value.get("members") or () if record.kind == "GroupMetadata" else ()
        if record.kind == "ConsumerGroupMemberMetadata" and record.value is not None:
            names = {"memberId": record.key["memberId"], "groupInstanceId": value.get("instanceId")}
            members = ({**names, "clientHost": value["clientHost"]},)
        for member in members:
            for name in filter(None, (member["memberId"], member.get("groupInstanceId"))):
                yield name, member["clientHost"].removeprefix("/")


def _ends_group(records: Sequence[Record]) -> bool:
    """Return whether a batch removes the group without converting it."""
    is_group = any(record.kind in ("GroupMetadata", "ConsumerGroupMetadata") for record in records)
    return is_group and all(record.value is None for record in records)
