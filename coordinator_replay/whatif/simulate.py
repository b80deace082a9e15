"""A life lived by simulated consumers against our own coordinator.

Heartbeats that change nothing are left out: while a group is at rest, a consumer beats only as often as its session
asks for, and again on its own interval as soon as anything happens. The times of what is sent stay multiples of its
interval, so that a rebalance is noticed when it would have been.

Long rests are left out altogether: the simulation has a clock of its own, which stands still for as long. What comes
out of it is told by the time of the life.
"""

import heapq
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from coordinator_replay.coordinator import Batch, Config, Coordinator, Request, Response, Result, Topic, Topics
from coordinator_replay.coordinator.client_assignors import Partition
from coordinator_replay.engine.model import Record, Subscription
from coordinator_replay.whatif.clients import ClassicConsumer, Consumer, ModernConsumer
from coordinator_replay.whatif.pauses import Pauses
from coordinator_replay.whatif.script import CLOSED, ClientLife, Life, Visit
from coordinator_replay.whatif.settings import NO_INSTANCE, PER_CLIENT, Settings

LATENCY_MS = 1
"""From the coordinator's answer to a consumer's next step."""

METADATA_MS = 300_000
"""``metadata.max.age.ms`` of Kafka's consumers."""

SESSION_MS, REBALANCE_MS = 45_000, 300_000
REST_MS = 15_000
"""So much of a rest is simulated before the next event; no interval of a coordinator at rest is longer."""

TAIL_MS = 10_000
"""The simulation goes on for so long after the end of the life: what comes a moment later than on record came too."""

MOST_STEPS = 3_000_000
"""Steps after which a simulation is given up; a life that long is asked for in parts."""


def matches(regex: str, topic: str) -> bool:
    """Whether an expression that a member subscribes to means a topic; one that Python can't read means none."""
    try:
        return re.fullmatch(regex, topic) is not None
    except re.error:
        return False


def config_of(settings: Settings) -> Config:
    """The coordinator's settings. Bounds of brokers give way: a simulated broker may allow any value."""
    session = settings.consumer_session()
    numbers = {"session.timeout.ms": session, "heartbeat.interval.ms": min(settings.heartbeat(), session)}
    bounds = {f"group.consumer.{end}.{name}": value for name, value in numbers.items() for end in ("min", "max")}
    return Config(
        {
            **bounds,
            **{f"group.consumer.{name}": value for name, value in numbers.items()},
            "group.consumer.max.assignment.interval.ms": max(settings.assignment_ms, 15_000),
            "group.consumer.assignment.interval.ms": settings.assignment_ms,
            "group.initial.rebalance.delay.ms": settings.initial_delay_ms,
            "group.min.session.timeout.ms": 1,
            "group.max.session.timeout.ms": 2**31 - 1,
        }
    )


class TooLong(Exception):  # noqa: N818 - it says that a limit was reached
    """The simulation takes more steps than it may."""


@dataclass
class Simulated:
    """What came of a simulation.

    Attributes:
        records: what the coordinator wrote.
        by_member: the client behind each member id.
        left: ids of members that said that they leave.
        pauses: for how long partitions stood still, as the consumers saw it.
    """

    records: list[Record] = field(default_factory=list)
    by_member: dict[str, str] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)
    pauses: Pauses = field(default_factory=Pauses)


class Fleet:
    """Consumers of one group, the coordinator, and time."""

    def __init__(self, life: Life, settings: Settings, clients: Sequence[ClientLife]) -> None:
        self.settings = settings
        self.group_id = life.group_id
        self.result = Simulated()
        first, *self._later = life.topics
        self.now_ms = min([life.start_ms, *(visit.arrived_ms for one in clients for visit in one.visits)]) - 1
        self.coordinator = Coordinator(config_of(settings), first[1], now_ms=self.now_ms)
        self.result.pauses.begin(life.start_ms)
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._script: list[tuple[int, int, Callable[[], None]]] = []
        self._left_out_ms = 0
        self._unsettled_until = self.now_ms
        self._count = 0
        self._senders: dict[int, tuple[Consumer, str]] = {}
        self._alive: dict[int, Consumer] = {}
        self._names: dict[int, str] = {}
        self._beats: dict[int, tuple[int, int, int]] = {}
        # Everybody beats once after something happened; in a consumer group once more than the coordinator may put
        # off a target assignment, which it computes when a heartbeat comes.
        self._restless_ms = settings.heartbeat() + (settings.assignment_ms if settings.protocol == "consumer" else 0)
        self._restless_until = self.now_ms
        self._last_owned: dict[str, tuple[Sequence[Partition], int]] = {}
        for at_ms, image in self._later:
            self._happen(at_ms, self._topics_changed(image))
        for client in clients:
            for visit in client.visits:
                self._happen(visit.arrived_ms, self._arrival(client, visit))

    @property
    def topics(self) -> Topics:
        """The topics of now."""
        return self.coordinator.topics

    def run(self, until_ms: int, tail_ms: int) -> Simulated:
        """Let everything happen until a moment, itself not included.

        Args:
            until_ms: the end of the life.
            tail_ms: for so long the coordinator goes on, so that what is under way at the end is on record.

        Raises:
            TooLong: it takes more steps than a simulation may.
        """
        is_over = False
        for _ in range(MOST_STEPS):
            self._leave_out_rest(until_ms + tail_ms)
            event_ms = self._next_event_ms
            due = self._queue[0][0] if self._queue else None
            timer = self.coordinator.next_due_ms
            at_ms = min((one for one in (event_ms, due, timer) if one is not None), default=None)
            next_ms = until_ms + tail_ms if at_ms is None else at_ms + self._left_out_ms
            if next_ms >= until_ms and not is_over:
                is_over = True
                self.result.pauses.end(until_ms, self._topics_wanted())
            if at_ms is None or next_ms >= until_ms + tail_ms:
                return self.result
            self.now_ms = max(self.now_ms, at_ms)
            if timer is not None and timer <= at_ms:
                self._take(self.coordinator.advance(self.now_ms))
                self._stir()
            elif event_ms is not None and event_ms <= at_ms:
                self._stir()
                heapq.heappop(self._script)[2]()
            else:
                heapq.heappop(self._queue)[2]()
        raise TooLong

    @property
    def life_ms(self) -> int:
        """The time of the life; ``now_ms`` is that of the simulation, which leaves long rests out."""
        return self.now_ms + self._left_out_ms

    @property
    def _next_event_ms(self) -> int | None:
        """When the script goes on, in the time of the simulation."""
        return self._script[0][0] - self._left_out_ms if self._script else None

    def _topics_wanted(self) -> set[str]:
        """The topics that consumers subscribe to."""
        wanted = {name for one in self._alive.values() for name in one.topics}
        regexes = {one.regex for one in self._alive.values() if one.regex}
        return wanted | {name for name in self.topics.by_name for regex in regexes if matches(regex, name)}

    def _leave_out_rest(self, until_ms: int) -> None:
        """Where the group is at rest until long after now, go to shortly before the next event of the script.

        Nothing is waited for then but heartbeats and what is due to them: every consumer has what it is to have, and
        whoever died was removed.
        """
        if self.now_ms < max(self._restless_until, self._unsettled_until):
            return
        rest_ms = min(self._script[0][0] if self._script else until_ms, until_ms) - self.life_ms - REST_MS
        # A multiple of the interval: heartbeats stay where they would be.
        rest_ms -= rest_ms % self.settings.heartbeat()
        if rest_ms > REST_MS and all(one.is_calm and not one.is_waiting for one in self._alive.values()):
            self._left_out_ms += rest_ms

    # What consumers ask for.

    def send(self, consumer: Consumer, api: str, body: dict[str, Any]) -> None:
        """Send a request of a consumer."""
        self._count += 1
        self._senders[self._count] = (consumer, api)
        consumer.is_waiting = True
        request = Request(
            api,
            {"groupId": self.group_id, **body},
            client_id=consumer.client_id,
            client_host=consumer.host,
            correlation_id=self._count,
        )
        if api == "ConsumerGroupHeartbeat" and consumer.member_id not in self.result.by_member:
            self.result.by_member[consumer.member_id] = self._names[id(consumer)]
        self._take(self.coordinator.handle(request, self.now_ms))

    def act_after(self, consumer: Consumer, delay_ms: int) -> None:
        """Let a consumer act so much later."""
        self._stir()
        self._beats.pop(id(consumer), None)
        self._at(self.now_ms + delay_ms + LATENCY_MS, lambda: self._act(consumer))

    def holds(self, consumer: Consumer, owned: Sequence[Partition]) -> None:
        """Take note of what a consumer owns from now on."""
        name = self._names[id(consumer)]
        self.result.pauses.holds(name, owned, self.life_ms)
        if owned:
            self._last_owned[consumer.member_id] = (tuple(owned), consumer.generation)

    def last_owned(self, member_id: str) -> tuple[Sequence[Partition], int]:
        """What a member owned last, and in which generation."""
        return self._last_owned.get(member_id, ((), -1))

    # What happens to consumers.

    def _arrival(self, client: ClientLife, visit: Visit) -> Callable[[], None]:
        def arrive() -> None:
            consumer = self._consumer(client, visit)
            self._alive[id(consumer)] = consumer
            self._act(consumer)
            for at_ms, told in visit.subscriptions[1:]:
                if at_ms > self.life_ms:
                    self._happen(at_ms, lambda told=told: self._subscribe(consumer, told))  # type: ignore[misc]
            if visit.gone_ms is not None:
                self._happen(visit.gone_ms, lambda: self._depart(consumer, visit))

        return arrive

    def _consumer(self, client: ClientLife, visit: Visit) -> Consumer:
        settings = self.settings
        told = visit.subscriptions[0][1]
        instance_id = client.instance_id
        if settings.instance == PER_CLIENT:
            instance_id = instance_id or client.name
        elif settings.instance == NO_INSTANCE:
            instance_id = None
        is_modern = settings.protocol == "consumer"
        session = settings.session_ms or told.session_timeout_ms or SESSION_MS
        recorded = told.rebalance_timeout_ms if told.rebalance_timeout_ms > 0 else REBALANCE_MS
        shared: dict[str, Any] = {
            "client_id": client.client_id,
            "host": client.host,
            "topics": told.topics or (),
            "instance_id": instance_id,
            "session_ms": settings.consumer_session() if is_modern else session,
            "rebalance_ms": settings.rebalance_ms or recorded,
            "revoke_ms": settings.revoke_ms,
        }
        consumer: Consumer
        if is_modern:
            number = sum(name == client.name for name in self.result.by_member.values()) + 1
            member_id = f"{client.name}-{number}"
            consumer = ModernConsumer(**shared, assignor=settings.assignor, regex=told.regex, member_id=member_id)
        else:
            shared["topics"] = self._matched(told)
            consumer = ClassicConsumer(**shared, strategy=settings.strategy)
        self._names[id(consumer)] = client.name
        return consumer

    def _matched(self, told: Subscription) -> tuple[str, ...]:
        """Topics that a classic consumer subscribes to: it resolves an expression itself."""
        names = list(told.topics or ())
        if told.regex:
            names += [name for name in sorted(self.topics.by_name) if matches(told.regex, name)]
        return tuple(dict.fromkeys(names))

    def _subscribe(self, consumer: Consumer, told: Subscription) -> None:
        if id(consumer) not in self._alive:
            return
        self._stir()
        if isinstance(consumer, ClassicConsumer):
            consumer.topics = self._matched(told)
            consumer.rejoin(self)
        elif consumer.generation > 0:
            consumer.topics = told.topics or ()
            self.send(
                consumer,
                "ConsumerGroupHeartbeat",
                {
                    "memberId": consumer.member_id,
                    "instanceId": consumer.instance_id,
                    "memberEpoch": consumer.generation,
                    "subscribedTopicNames": list(consumer.topics),
                },
            )

    def _depart(self, consumer: Consumer, visit: Visit) -> None:
        if self._alive.pop(id(consumer), None) is None:
            return
        self._beats.pop(id(consumer), None)
        if visit.how == CLOSED:
            if consumer.instance_id is None:
                self.result.left.add(consumer.member_id)
            consumer.leave(self)
        if visit.how != CLOSED or consumer.instance_id is not None:
            self._unsettled_until = self.now_ms + consumer.session_ms + self._restless_ms
        self.result.pauses.holds(self._names[id(consumer)], (), self.life_ms, is_gone=True)
        self._stir()

    def _topics_changed(self, image: Iterable[Topic]) -> Callable[[], None]:
        def change() -> None:
            self._take(self.coordinator.update_topics(image, self.now_ms))
            self._stir()
            delay_ms = self.settings.metadata_ms if self.settings.metadata_ms is not None else METADATA_MS
            if self.settings.protocol == "classic":
                self._at(self.now_ms + delay_ms, self._see_topics)

        return change

    def _see_topics(self) -> None:
        """Metadata that a classic consumer has is renewed."""
        self._stir()
        for consumer in list(self._alive.values()):
            if isinstance(consumer, ClassicConsumer):
                consumer.see_topics(self)

    # Time.

    def _at(self, at_ms: int, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (at_ms, self._count, action))

    def _happen(self, at_ms: int, action: Callable[[], None]) -> None:
        """Something of the script, at a time of the life: everybody beats in its usual interval around it."""
        self._count += 1
        heapq.heappush(self._script, (at_ms, self._count, action))

    def _act(self, consumer: Consumer) -> None:
        if id(consumer) in self._alive and not consumer.is_waiting:
            consumer.act(self)

    def _take(self, results: Iterable[Result]) -> None:
        for result in results:
            if isinstance(result, Batch):
                self.result.records += map(self._in_life, result.records)
                self._stir()
            elif isinstance(result, Response) and result.correlation_id in self._senders:
                consumer, api = self._senders.pop(result.correlation_id)
                consumer.is_waiting = False
                if id(consumer) in self._alive:
                    self._answer(consumer, api, result)

    def _in_life(self, record: Record) -> Record:
        """A record with the time of the life; of the values only those of classic groups have a time."""
        if not self._left_out_ms:
            return record
        value = record.value
        if value is not None and value.get("currentStateTimestamp", -1) >= 0:
            value = {**value, "currentStateTimestamp": value["currentStateTimestamp"] + self._left_out_ms}
        return record._replace(timestamp_ms=record.timestamp_ms + self._left_out_ms, value=value)

    def _answer(self, consumer: Consumer, api: str, response: Response) -> None:
        if api == "LeaveGroup":
            return
        consumer.answered(self, api, response.body)
        if isinstance(consumer, ClassicConsumer) and consumer.member_id:
            self.result.by_member.setdefault(consumer.member_id, self._names[id(consumer)])
        if consumer.is_joined:
            self._beat_later(consumer)

    def _beat_later(self, consumer: Consumer) -> None:
        """The next heartbeat: one interval on, or several where nothing is going on."""
        interval = min(self.settings.heartbeat(), max(consumer.session_ms // 2, 1))
        beats = 1
        if self.now_ms >= self._restless_until and consumer.is_calm:
            until = self.now_ms + consumer.session_ms * 6 // 10
            if (event_ms := self._next_event_ms) is not None:
                until = min(until, event_ms)
            beats = max((until - self.now_ms) // interval, 1)
        self._beat_at(consumer, self.now_ms, interval, self.now_ms + beats * interval)

    def _beat_at(self, consumer: Consumer, base_ms: int, interval: int, at_ms: int) -> None:
        self._beats[id(consumer)] = (base_ms, interval, at_ms)

        def beat() -> None:
            if self._beats.get(id(consumer), (0, 0, 0))[2] == at_ms and self._beats[id(consumer)][0] == base_ms:
                del self._beats[id(consumer)]
                self._act(consumer)

        self._at(at_ms, beat)

    def _stir(self) -> None:
        """Something happened: whoever has left heartbeats out beats again at its next usual moment."""
        was_restless = self._restless_until > self.now_ms
        self._restless_until = self.now_ms + self._restless_ms
        if was_restless:
            return
        for key, (base_ms, interval, at_ms) in list(self._beats.items()):
            next_ms = base_ms + -(-(self.now_ms - base_ms) // interval) * interval
            if base_ms < next_ms < at_ms:
                self._beat_at(self._alive[key], base_ms, interval, next_ms)


def simulate(life: Life, settings: Settings, clients: Sequence[ClientLife]) -> Simulated:
    """Let clients live a life under some settings.

    Raises:
        TooLong: it takes more steps than a simulation may.
    """
    return Fleet(life, settings, clients).run(life.end_ms, TAIL_MS)
