"""The life of a group from its records: which clients came, went, came back, and when topics changed.

A client is whoever has the same instance id, or the same client id and host while no other has: a member id is new
with every start. What the log does not hold is assumed, and every assumption is a sentence in ``Life.assumptions``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from coordinator_replay.analysis.reasons import TopicChanges
from coordinator_replay.coordinator import Topic
from coordinator_replay.engine.model import Member, Subscription
from coordinator_replay.whatif.operations import Operation
from coordinator_replay.whatif.settings import Settings

CLOSED, CRASHED = "closed", "crashed"
STATIC_RESTART_MS = 2000
"""How long a static classic member is assumed to be gone when it comes back: no record tells."""

TIMEOUTS = frozenset({"SESSION_TIMEOUT"})
NOT_SURE = "LEAVE_OR_TIMEOUT"


@dataclass(frozen=True, slots=True)
class Visit:
    """A client's time in the group, from its start to its end.

    Attributes:
        arrived_ms: when it started to join.
        gone_ms: when it closed or died; None where it stayed to the end.
        how: ``closed`` or ``crashed``.
        confidence: how sure that is, in the words of ``rebalances.confidence``.
        member_ids: the ids it had.
        subscriptions: what it asked for, and from when on.
    """

    arrived_ms: int
    gone_ms: int | None
    how: str
    confidence: str
    member_ids: tuple[str, ...]
    subscriptions: tuple[tuple[int, Subscription], ...]


@dataclass(frozen=True, slots=True)
class ClientLife:
    """One client with all its visits, oldest first."""

    name: str
    client_id: str
    host: str
    instance_id: str | None
    visits: tuple[Visit, ...]


@dataclass(frozen=True, slots=True)
class Life:
    """What happened to a group between two moments.

    Attributes:
        settings: the ones it had, as far as the record tells.
        topics: the cluster's topics as of each moment at which they changed; the first entry is the beginning.
        assumptions: what the log does not tell, in sentences.
    """

    group_id: str
    start_ms: int
    end_ms: int
    settings: Settings
    clients: tuple[ClientLife, ...]
    topics: tuple[tuple[int, tuple[Topic, ...]], ...]
    assumptions: tuple[str, ...]

    @property
    def by_member(self) -> Mapping[str, str]:
        """The client behind each member id."""
        return {
            member_id: client.name
            for client in self.clients
            for visit in client.visits
            for member_id in visit.member_ids
        }


@dataclass
class _Open:
    arrived_ms: int
    member_ids: list[str]
    subscriptions: list[tuple[int, Subscription]]
    away_ms: int | None = None


@dataclass
class _Client:
    key: tuple[str, ...]
    member: Member
    visits: list[Visit] = field(default_factory=list)
    now: _Open | None = None


class ClientLives:
    """Builds the visits of every client out of operations."""

    def __init__(self, settings: Settings, reasons: Mapping[str, tuple[str, str]]) -> None:
        """Begin.

        Args:
            settings: of the recorded life.
            reasons: cause and confidence of each departure, by member id.
        """
        self.settings = settings
        self.reasons = reasons
        self.clients: list[_Client] = []
        self.by_member: dict[str, _Client] = {}
        self.unsure = self.crashed = self.static_restarts = 0

    def take(self, operation: Operation) -> None:
        """Take the next operation."""
        at_ms = operation.began_ms(self.settings.heartbeat(), self.settings.initial_delay_ms)
        for event in operation.events:
            member, before, kind = event.member, event.before, str(event.kind)
            if kind == "MEMBER_LEFT" and (before or member) is not None:
                self._leave(before or member, at_ms, operation)  # type: ignore[arg-type]
            elif member is None:
                continue
            elif kind == "MEMBER_AWAY":
                self._away(member, operation.at_ms)
            elif kind == "MEMBER_REPLACED":
                self._replace(before, member, operation)
            elif kind == "MEMBER_REJOINED" or (kind == "MEMBER_JOINED" and member.member_id in self.by_member):
                self._rejoin(member, operation.at_ms)
            elif kind == "MEMBER_JOINED":
                self._arrive(member, at_ms)
            elif kind == "SUBSCRIPTION_CHANGED" and member.subscription is not None:
                self._subscribe(member.member_id, at_ms, member.subscription)

    def _arrive(self, member: Member, at_ms: int) -> None:
        told = member.subscription or Subscription()
        key = ("static", told.instance_id) if told.instance_id else (told.client_id or "", told.client_host or "")
        client = next((one for one in self.clients if one.key == key and one.now is None), None)
        if client is None:
            client = _Client(key, member)
            self.clients.append(client)
        elif client.visits and (last := client.visits[-1].gone_ms) is not None:
            at_ms = max(at_ms, last + 1)
        client.now = _Open(at_ms, [member.member_id], [(at_ms, told)])
        self.by_member[member.member_id] = client

    def _leave(self, member: Member, at_ms: int, operation: Operation) -> None:
        client = self.by_member.pop(member.member_id, None)
        if client is None or client.now is None:
            return
        cause, confidence = self.reasons.get(member.member_id, ("", "possible"))
        told = client.now.subscriptions[-1][1]
        if client.now.away_ms is not None:
            self._close(client, client.now.away_ms, CLOSED, "certain")
        elif cause in TIMEOUTS:
            session = told.session_timeout_ms or self.settings.consumer_session()
            removed_ms = operation.join_done_ms or operation.at_ms
            self.crashed += 1
            self._close(client, max(removed_ms - session, client.now.arrived_ms + 1), CRASHED, confidence)
        else:
            self.unsure += cause in (NOT_SURE, "")
            self._close(client, max(at_ms, client.now.arrived_ms + 1), CLOSED, confidence)

    def _away(self, member: Member, at_ms: int) -> None:
        client = self.by_member.get(member.member_id)
        if client is not None and client.now is not None:
            client.now.away_ms = at_ms

    def _rejoin(self, member: Member, at_ms: int) -> None:
        client = self.by_member.get(member.member_id)
        if client is None or client.now is None:
            self._arrive(member, at_ms)
        elif client.now.away_ms is not None:
            told = member.subscription or client.now.subscriptions[-1][1]
            self._close(client, client.now.away_ms, CLOSED, "certain")
            client.now = _Open(at_ms, [member.member_id], [(at_ms, told)])

    def _replace(self, before: Member | None, member: Member, operation: Operation) -> None:
        """A static member under a new id: of a classic one no record tells since when it was gone."""
        client = self.by_member.pop(before.member_id, None) if before is not None else None
        if client is None or client.now is None:
            self._arrive(member, operation.at_ms)
            return
        told = member.subscription or client.now.subscriptions[-1][1]
        gone_ms = client.now.away_ms
        if gone_ms is None:
            self.static_restarts += 1
            gone_ms = max(operation.at_ms - STATIC_RESTART_MS, client.now.arrived_ms + 1)
        self._close(client, gone_ms, CLOSED, "likely" if client.now is None else "possible")
        client.now = _Open(max(operation.at_ms, gone_ms + 1), [member.member_id], [(operation.at_ms, told)])
        self.by_member[member.member_id] = client

    def _subscribe(self, member_id: str, at_ms: int, told: Subscription) -> None:
        client = self.by_member.get(member_id)
        if client is not None and client.now is not None:
            client.now.subscriptions.append((at_ms, told))

    def _close(self, client: _Client, gone_ms: int | None, how: str, confidence: str) -> None:
        now = client.now
        if now is not None:
            client.visits.append(
                Visit(now.arrived_ms, gone_ms, how, confidence, tuple(now.member_ids), tuple(now.subscriptions))
            )
        client.now = None

    def finish(self) -> tuple[ClientLife, ...]:
        """End what is still open: it stayed to the end, unless it is away."""
        for client in self.clients:
            if client.now is not None:
                self._close(client, client.now.away_ms, CLOSED, "certain")
        found = []
        for number, client in enumerate(self.clients, 1):
            told = client.member.subscription or Subscription()
            name = told.instance_id or told.client_id or "client"
            found.append(
                ClientLife(
                    f"{name}#{number}",
                    told.client_id or "client",
                    (told.client_host or "/127.0.0.1").lstrip("/"),
                    told.instance_id,
                    tuple(client.visits),
                )
            )
        return tuple(found)

    def assumptions(self) -> Iterable[str]:
        """What was assumed of departures."""
        if self.unsure:
            yield (
                f"{self.unsure} departures may be a leave or a session timeout: the log does not tell which. They are "
                "simulated as a leave."
            )
        if self.crashed:
            yield (
                f"{self.crashed} departures were session timeouts: the client is simulated to stop one session timeout "
                "before it was removed."
            )
        if self.static_restarts:
            yield (
                f"{self.static_restarts} restarts of static members: the log has when they came back, not since when "
                f"they were gone or whether they were closed; {STATIC_RESTART_MS:,} ms and closed are assumed."
            )


def in_range(clients: Sequence[ClientLife], start_ms: int, end_ms: int, lead_ms: int) -> tuple[ClientLife, ...]:
    """The clients of a time range: who was there at its start comes a lead before it, who left before is left out."""
    found = []
    for client in clients:
        visits = []
        for visit in client.visits:
            if visit.arrived_ms >= end_ms or (visit.gone_ms is not None and visit.gone_ms <= start_ms):
                continue
            arrived = visit.arrived_ms if visit.arrived_ms >= start_ms else start_ms - lead_ms
            gone = visit.gone_ms if visit.gone_ms is not None and visit.gone_ms < end_ms else None
            visits.append(replace(visit, arrived_ms=arrived, gone_ms=gone))
        if visits:
            found.append(replace(client, visits=tuple(visits)))
    return tuple(found)


def without_restarts(clients: Sequence[ClientLife]) -> tuple[ClientLife, ...]:
    """Clients that never went where they came back: each stays from its first arrival to its last end."""
    return tuple(
        replace(
            client,
            visits=(
                replace(
                    client.visits[-1],
                    arrived_ms=client.visits[0].arrived_ms,
                    subscriptions=tuple(told for visit in client.visits for told in visit.subscriptions),
                ),
            ),
        )
        for client in clients
    )


def with_members(clients: Sequence[ClientLife], count: int) -> tuple[ClientLife, ...]:
    """So many clients: the first ones, and beyond those on record copies of the first that never leave."""
    kept = list(clients[:count])
    for number in range(len(kept), count):
        model = clients[0]
        visit = replace(model.visits[0], gone_ms=None, member_ids=())
        kept.append(
            replace(
                model,
                name=f"added#{number + 1}",
                client_id=f"{model.client_id}-added-{number + 1}",
                instance_id=f"{model.instance_id}-added-{number + 1}" if model.instance_id else None,
                visits=(visit,),
            )
        )
    return tuple(kept)


def topic_images(
    names: Mapping[str, str],
    counts: Mapping[str, int],
    changes: TopicChanges,
    wanted: Iterable[str],
    start_ms: int,
    end_ms: int,
) -> tuple[tuple[int, tuple[Topic, ...]], ...]:
    """The topics at each moment at which one of them changed.

    Args:
        names: topic name by id.
        counts: partitions by topic, for topics whose changes are not known.
        changes: when topics changed.
        wanted: names of topics to include.
        start_ms: changes until then are the first image.
        end_ms: changes after it are left out.
    """
    ids = {name: topic_id for topic_id, name in names.items()}
    chosen = sorted(set(wanted))
    moments = sorted({one.at_ms for name in chosen for one in changes.get(name, ()) if start_ms < one.at_ms <= end_ms})
    images = []
    for at_ms in (start_ms, *moments):
        image = []
        for number, name in enumerate(chosen):
            told = [one for one in changes.get(name, ()) if one.at_ms <= at_ms]
            count = told[-1].partition_count if told else (0 if changes.get(name) else counts.get(name, 0))
            if count:
                image.append(Topic(name, ids.get(name) or f"simulated-topic{number:07d}"[:22].ljust(22, "A"), count))
        images.append((at_ms, tuple(image)))
    return tuple(images)
