"""One simulation of a group: simulated consumers come and go by a script, and send requests to the coordinator.

The simulation skips long times in which nothing happens. The records that it returns have the times of the script.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from coordinator_replay.engine.model import Record, Subscription
from coordinator_replay.simulation.coordinator import (
    Batch,
    Config,
    Coordinator,
    Request,
    Response,
    Result,
    Topic,
    Topics,
)
from coordinator_replay.simulation.coordinator.assignor.client import Partition
from coordinator_replay.simulation.what_if.clients import ClassicConsumer, Consumer, ModernConsumer
from coordinator_replay.simulation.what_if.libraries import JAVA, LIBRDKAFKA
from coordinator_replay.simulation.what_if.outcome import Pauses
from coordinator_replay.simulation.what_if.schedule import Agenda, Closing, Heartbeats
from coordinator_replay.simulation.what_if.script import CLOSED, ClientLife, Life, Visit, matches
from coordinator_replay.simulation.what_if.settings import NO_INSTANCE, PER_CLIENT, Settings
from coordinator_replay.simulation.what_if.timing import LIKELIEST, Timing, moved

SESSION_MS, REBALANCE_MS = 45_000, 300_000
"""Kafka's defaults of ``session.timeout.ms`` and ``max.poll.interval.ms``."""


def consumer_of(
    client: ClientLife, visit: Visit, settings: Settings, timing: Timing, *, number: int, topic_names: Iterable[str]
) -> Consumer:
    """Return the consumer that a client starts when it arrives in the group.

    Args:
        client: the client.
        visit: the time that the client spends in the group after this arrival, with its subscriptions.
        settings: the settings to try.
        timing: the timing of the clients, which no record shows.
        number: number of this consumer among the client's consumers, from 1; part of the member id under KIP-848.
        topic_names: names of all topics; the regex of a classic consumer is resolved with them.
    """
    subscription = visit.subscriptions[0][1]
    instance_id = client.instance_id
    if settings.instance == PER_CLIENT:
        instance_id = instance_id or client.name
    elif settings.instance == NO_INSTANCE:
        instance_id = None
    recorded_ms = subscription.loaded_rebalance_ms if subscription.loaded_rebalance_ms > 0 else REBALANCE_MS
    shared: dict[str, Any] = {
        "name": client.name,
        "client_id": client.client_id,
        "host": client.host,
        "instance_id": instance_id,
        "rebalance_ms": settings.rebalance_ms or recorded_ms,
        "library": settings.library or client.library or JAVA,
    }
    if settings.protocol == "consumer":
        return ModernConsumer(
            **shared,
            topics=subscription.topics or (),
            session_ms=settings.consumer_session(),
            assignor=settings.assignor,
            regex=subscription.regex,
            member_id=f"{client.name}-{number}",
            revoke_ms=timing.revocation_ms(settings.revoke_ms, shared["library"]),
            is_restarted=timing.is_restarted or shared["library"] != LIBRDKAFKA,
        )
    return ClassicConsumer(
        **shared,
        topics=topics_matched(subscription, topic_names),
        session_ms=settings.session_ms or subscription.session_timeout_ms or SESSION_MS,
        strategy=settings.strategy,
        wake_ms=timing.wake_ms,
    )


def topics_matched(subscription: Subscription, topic_names: Iterable[str]) -> tuple[str, ...]:
    """Return the topics that a classic consumer subscribes to, by name or by its regular expression."""
    names = list(subscription.topics or ())
    if subscription.regex:
        names += [name for name in sorted(topic_names) if matches(subscription.regex, name)]
    return tuple(dict.fromkeys(names))


LATENCY_MS = 1
"""Time from the coordinator's answer to a consumer's next step."""

TAIL_MS = 10_000
"""Time for which the simulation continues after the end of the life, so that rebalances slightly later than on record
are included."""

TIMER_MS = 10
"""Shortest delay of a broker's timer. So a member that joins at the same time as the first member is in the same
generation."""

MOST_STEPS = 3_000_000
"""Steps after which a simulation is given up; a longer life must be simulated in parts."""


class TooLong(Exception):  # noqa: N818 - it says that a limit was reached
    """An error: the simulation takes more steps than allowed."""


@dataclass
class Simulated:
    """Result of a simulation.

    Attributes:
        records: the records that the coordinator wrote.
        by_member: name of a client, by member id.
        left: ids of dynamic members that told the coordinator that they leave.
        pauses: the time ranges in which no running consumer owned a partition.
        steps: number of steps of the simulation.
    """

    pauses: Pauses
    records: list[Record] = field(default_factory=list)
    by_member: dict[str, str] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)
    steps: int = 0


class Fleet:
    """A running simulation: the consumers of one group, the coordinator, and the clock."""

    def __init__(self, life: Life, settings: Settings, clients: Sequence[ClientLife], timing: Timing) -> None:
        self.settings = settings
        self.timing = timing
        self.group_id = life.group_id
        self.result = Simulated(Pauses(life.start_ms))
        first, *self._later = life.topics
        self._agenda = Agenda(
            min([life.start_ms, *(visit.arrived_ms for client in clients for visit in client.visits)]) - 1
        )
        self.coordinator = Coordinator(config_of(settings), first[1], now_ms=self.now_ms)
        self._restless_until_ms = self.now_ms
        self._requests = 0
        self._senders: dict[int, tuple[Consumer, str]] = {}
        self._alive: dict[Consumer, None] = {}
        self._arrivals = 0
        self._heartbeats = Heartbeats(settings, timing, self.now_ms, self._agenda.at, self._act)
        self._closing = Closing(self._agenda.at)
        self._last_owned: dict[str, tuple[Sequence[Partition], int]] = {}
        for at_ms, image in self._later:
            self._agenda.happen(at_ms, self._topics_changed(image))
        for client in moved(clients, timing):
            for visit in client.visits:
                self._agenda.happen(visit.arrived_ms, self._arrival(client, visit))

    @property
    def now_ms(self) -> int:
        """Return the time of the simulation."""
        return self._agenda.now_ms

    @property
    def topics(self) -> Topics:
        """Return the present topics."""
        return self.coordinator.topics

    def run(self, until_ms: int, tail_ms: int) -> Simulated:
        """Run the simulation, and return its result.

        Args:
            until_ms: the end of the time range to simulate, not included.
            tail_ms: how long the simulation continues after ``until_ms``, to finish rebalances.

        Raises:
            TooLong: the simulation takes more than ``MOST_STEPS`` steps.
        """
        is_over = False
        for self.result.steps in range(MOST_STEPS):
            self._leave_out_rest(until_ms + tail_ms)
            event_ms, timer = self._agenda.next_event_ms, self.coordinator.next_due_ms
            due = (event_ms, self._agenda.next_put_off_ms, timer)
            at_ms = min((at for at in due if at is not None), default=None)
            next_ms = until_ms + tail_ms if at_ms is None else at_ms + self._agenda.left_out_ms
            if next_ms >= until_ms and not is_over:
                is_over = True
                self.result.pauses.end(until_ms, self._topics_wanted())
            if at_ms is None or next_ms >= until_ms + tail_ms:
                return self.result
            self._agenda.now_ms = max(self.now_ms, at_ms)
            if timer is not None and timer <= at_ms:
                self._take(self.coordinator.advance(self.now_ms))
                self._stir()
            elif event_ms is not None and event_ms <= at_ms:
                self._stir()
                self._agenda.take_event()()
            else:
                self._agenda.take_put_off()()
        raise TooLong

    def _topics_wanted(self) -> set[str]:
        """Return the topics that consumers subscribe to."""
        wanted = {name for consumer in self._alive for name in consumer.topics}
        regexes = {consumer.regex for consumer in self._alive if consumer.regex}
        return wanted | {name for name in self.topics.by_name for regex in regexes if matches(regex, name)}

    def _leave_out_rest(self, until_ms: int) -> None:
        """Skip to shortly before the next event of the script, if consumers only send heartbeats until this event."""
        if self.now_ms < max(self._heartbeats.restless_until_ms, self._restless_until_ms):
            return
        rest_ms = self._agenda.rest_ms(until_ms, self.settings.heartbeat())
        if rest_ms and all(consumer.is_calm and not consumer.is_waiting for consumer in self._alive):
            self._agenda.left_out_ms += rest_ms

    # Requests of consumers.

    def send(self, consumer: Consumer, api: str, body: dict[str, Any]) -> None:
        """Send a request of a consumer."""
        self._requests += 1
        self._senders[self._requests] = (consumer, api)
        consumer.is_waiting = True
        request = Request(
            api,
            {"groupId": self.group_id, **body},
            client_id=consumer.client_id,
            client_host=consumer.host,
            correlation_id=self._requests,
        )
        if api == "ConsumerGroupHeartbeat" and consumer.member_id not in self.result.by_member:
            self.result.by_member[consumer.member_id] = consumer.name
        self._take(self.coordinator.handle(request, self.now_ms))

    def act_after(self, consumer: Consumer, delay_ms: int) -> None:
        """Let a consumer act after a delay."""
        self._stir()
        self._heartbeats.forget(consumer)
        self._agenda.at(self.now_ms + delay_ms + LATENCY_MS, lambda: self._act(consumer))

    def holds(self, consumer: Consumer, owned: Sequence[Partition]) -> None:
        """Take note of the partitions that a consumer owns from now on."""
        self.result.pauses.holds(consumer.name, owned, self._agenda.life_ms)
        if owned:
            self._last_owned[consumer.member_id] = (tuple(owned), consumer.generation)

    def last_owned(self, member_id: str) -> tuple[Sequence[Partition], int]:
        """Return the partitions that a member owned last, and the generation in which the member got them.

        Return no partitions and -1 if the member has never owned a partition.
        """
        return self._last_owned.get(member_id, ((), -1))

    # Events of consumers.

    def _arrival(self, client: ClientLife, visit: Visit) -> Callable[[], None]:
        def arrive() -> None:
            if self._closing.wait(client.name, arrive):
                return
            number = sum(name == client.name for name in self.result.by_member.values()) + 1
            names = self.topics.by_name
            consumer = consumer_of(client, visit, self.settings, self.timing, number=number, topic_names=names)
            consumer.number = self._arrivals = self._arrivals + 1
            consumer.arrived_ms = self._agenda.life_ms
            self._alive[consumer] = None
            self._act(consumer)
            for at_ms, asked in visit.subscriptions[1:]:
                if at_ms > self._agenda.life_ms:
                    self._agenda.happen(at_ms, lambda asked=asked: self._subscribe(consumer, asked))  # type: ignore[misc]
            if visit.departed_ms is not None:
                self._agenda.happen(visit.departed_ms, lambda: self._depart(consumer, visit))

        return arrive

    def _subscribe(self, consumer: Consumer, subscription: Subscription) -> None:
        if consumer not in self._alive:
            return
        self._stir()
        if isinstance(consumer, ClassicConsumer):
            consumer.topics = topics_matched(subscription, self.topics.by_name)
            consumer.rejoin(self)
        elif consumer.generation > 0:
            consumer.topics = subscription.topics or ()
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
        if consumer not in self._alive:
            return
        del self._alive[consumer]
        self._heartbeats.forget(consumer)
        leaves = visit.how == CLOSED and consumer.leaves
        if leaves and consumer.instance_id is None:
            self.result.left.add(consumer.member_id)
        if leaves and consumer.is_waiting:
            self._closing.begin(consumer, self.now_ms)
        elif leaves:
            consumer.leave(self)
        if not leaves or consumer.is_waiting or consumer.instance_id is not None:
            self._restless_until_ms = self.now_ms + consumer.session_ms + self._heartbeats.restless_ms
        self.result.pauses.holds(consumer.name, (), self._agenda.life_ms)
        self._stir()

    def _topics_changed(self, image: Iterable[Topic]) -> Callable[[], None]:
        def change() -> None:
            self._take(self.coordinator.update_topics(image, self.now_ms))
            self._stir()
            for consumer in self._alive:
                if isinstance(consumer, ClassicConsumer):
                    renewed_ms = consumer.metadata_renewed_ms(self._agenda.life_ms, self.settings.metadata_age())
                    self._agenda.happen(renewed_ms, partial(self._see_topics, consumer))

        return change

    def _see_topics(self, consumer: ClassicConsumer) -> None:
        if consumer in self._alive:
            self._stir()
            consumer.see_topics(self)

    # Time.

    def _act(self, consumer: Consumer) -> None:
        if consumer in self._alive and not consumer.is_waiting:
            consumer.act(self)

    def _take(self, results: Iterable[Result]) -> None:
        for result in results:
            if isinstance(result, Batch):
                self.result.records += map(self._agenda.in_life, result.records)
                self._stir()
            elif isinstance(result, Response) and result.correlation_id in self._senders:
                consumer, api = self._senders.pop(result.correlation_id)
                consumer.is_waiting = False
                if member_id := result.body.get("memberId"):
                    # A consumer that left before its JoinGroup was answered was a member too.
                    self.result.by_member.setdefault(member_id, consumer.name)
                if consumer in self._alive:
                    self._answer(consumer, api, result)
                elif self._closing.answered(consumer):
                    self._agenda.at(self.now_ms, partial(consumer.leave, self))

    def _answer(self, consumer: Consumer, api: str, response: Response) -> None:
        if api == "LeaveGroup":
            return
        consumer.answered(self, api, response.body)
        if consumer.is_joined:
            self._heartbeats.after(consumer, self.now_ms, self._agenda.next_event_ms)

    def _stir(self) -> None:
        """Make every consumer send all its heartbeats for a while, because something has happened in the group."""
        self._heartbeats.stir(self.now_ms)


def simulate(life: Life, settings: Settings, clients: Sequence[ClientLife], timing: Timing = LIKELIEST) -> Simulated:
    """Simulate a group with the given clients and settings.

    Args:
        life: the script of the group's life.
        settings: the settings to try.
        clients: the clients to simulate.
        timing: the timing of the clients, which no record shows.

    Raises:
        TooLong: the simulation takes more than ``MOST_STEPS`` steps.
    """
    return Fleet(life, settings, clients, timing).run(life.end_ms, TAIL_MS)


def config_of(settings: Settings) -> Config:
    """Return the configuration of the coordinator.

    The bounds that a broker sets for timeouts and intervals are widened, so that any value can be tried.
    """
    session = settings.consumer_session()
    numbers = {"session.timeout.ms": session, "heartbeat.interval.ms": min(settings.heartbeat(), session)}
    bounds = {f"group.consumer.{end}.{name}": value for name, value in numbers.items() for end in ("min", "max")}
    return Config(
        {
            **bounds,
            **{f"group.consumer.{name}": value for name, value in numbers.items()},
            "group.consumer.max.assignment.interval.ms": max(settings.assignment_ms, 15_000),
            "group.consumer.assignment.interval.ms": settings.assignment_ms,
            "group.initial.rebalance.delay.ms": max(settings.initial_delay(), TIMER_MS),
            "group.min.session.timeout.ms": 1,
            "group.max.session.timeout.ms": 2**31 - 1,
        }
    )
