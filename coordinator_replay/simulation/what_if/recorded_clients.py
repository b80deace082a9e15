"""The clients of a recorded group, and when each client was a member, as the group's records show it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from coordinator_replay.engine.model import Member, Subscription
from coordinator_replay.simulation.what_if.libraries import (
    JAVA,
    LIBRDKAFKA,
    libraries_sentence,
    library_of,
    one_library,
)
from coordinator_replay.simulation.what_if.record import RecordedOperation
from coordinator_replay.simulation.what_if.script import CLOSED, CRASHED, ClientLife, Ending, Visit, Window
from coordinator_replay.simulation.what_if.settings import COOPERATIVE, Settings
from coordinator_replay.simulation.what_if.variants import RecordedPhase, roll_out

TIMEOUTS = frozenset({"SESSION_TIMEOUT"})
SURE = "certain"
LIKELY = "likely"
QUICK_MS = 1_000
"""Shortest time in which a client can be closed and back again."""
SOON = 0.5
"""A client that was back within this share of its session timeout was probably closed."""
STEPS = frozenset({"MEMBER_RECONCILING", "MEMBER_RECONCILED"})
"""Events that a member of a consumer group causes with a heartbeat."""
COORDINATORS = frozenset({"POLL_TIMEOUT_REJOIN", "REBALANCE_TIMEOUT"})
"""Causes of departures after which the client lives on. Such a departure is no session timeout."""


ASSUMPTIONS: Mapping[str, str] = {
    "unsure_leaves": (
        "Departures that may be a leave or a session timeout: {unsure_leaves}. The log doesn't show "
        "which, so they are simulated as leaves. Variants simulate some of them as session timeouts."
    ),
    "unlikely_timeouts": (
        "Departures whose client was back within half its session timeout: {unlikely_timeouts}. Variants seldom "
        "simulate them as session timeouts."
    ),
    "unsure_timeouts": (
        "Session timeouts that may be leaves: {unsure_timeouts}. Commits that stopped "
        "speak for timeouts; ranges cover leaves."
    ),
    "crashed": (
        "Session timeouts: {crashed}. The client is simulated to stop one session timeout before it was "
        "removed, or after its last commit."
    ),
    "silent": (
        "Members that probably went without a LeaveGroup: {silent}. Cooperative librdkafka members without "
        "partitions send none when they are closed; other clients were back in the generation that removed them. "
        "All are simulated to stop one session timeout before they were removed."
    ),
    "static_restarts": (
        "Restarts of static members: {static_restarts}. The log shows when they came back. It does not show "
        "whether they were closed or killed, or when (their last commit and session.timeout.ms bound the time). "
        "They are assumed closed, and away for some seconds or since their last commit; ranges cover the rest."
    ),
    "static_removals": (
        "Static members removed when their session was over: {static_removals}. The log doesn't show whether "
        "they were closed or killed. They are assumed closed; ranges cover the rest."
    ),
    "rolled_out": (
        "Static members that a deployment replaced one after the other: {rolled_out}. Members closed during a "
        "join phase show it, or a generation in which nobody assigned partitions. Under other settings the "
        "deployment is simulated with half of its longest possible time; ranges cover the rest."
    ),
    "not_back": (
        "Static members whose session timed out and that did not come back: {not_back}. A consumer of "
        "librdkafka that came back before the timeout got UNRELEASED_INSTANCE_ID, which leaves no record. They "
        "are simulated to stay away; ranges don't cover that they came back."
    ),
    "static_ends": (
        "Static members that may have left in the last session.timeout.ms of the log: {static_ends}. A "
        "departure shows only when the session is over. They are assumed to have stayed; ranges cover the rest."
    ),
}
"""Assumptions about departures, by the name of a count. The answer states an assumption if its count is not 0."""


@dataclass
class _Client:
    key: tuple[str, ...]
    member: Member
    visits: list[Visit] = field(default_factory=list)
    now: Visit | None = None


class ClientLives:
    """A builder of the list of a group's clients, with the arrival and the departure of each client.

    Call ``take`` with each operation in order, then ``finish``.

    Attributes:
        counts: number of departures for which an assumption was made. The key is the name of the assumption in
            ``ASSUMPTIONS``.
        libraries: the Kafka library of each client, set by ``finish``; None if the records don't show the library.
        phases: for each operation, the clients that arrived and the static members that were removed.
    """

    def __init__(
        self, settings: Settings, reasons: Mapping[str, tuple[str, str]], last_commits: Mapping[str, int]
    ) -> None:
        """Make a builder that has no clients yet.

        Args:
            settings: settings of the recorded life.
            reasons: cause and confidence of each departure, by member id.
            last_commits: time of each member's last commit, by member id.
        """
        self.settings = settings
        self.reasons = reasons
        self.last_commits = last_commits
        self.clients: list[_Client] = []
        self.by_member: dict[str, _Client] = {}
        self.libraries: list[str | None] = []
        self._silent: set[str] = set()
        self.phases: list[RecordedPhase] = []
        self._leader: str | None = None
        self.counts: Counter[str] = Counter()

    def take(self, operation: RecordedOperation) -> None:
        """Note which clients arrive and which depart in an operation. Call this for the operations in their order."""
        self._silent = set(self._silent_departures(operation))
        at_ms = self._began_ms(operation)
        self._begin_phase(operation)
        for event in operation.events:
            member, before, kind = event.member, event.before, str(event.kind)
            if kind == "MEMBER_LEFT" and (departed := before or member) is not None:
                self._leave(departed, at_ms, operation)
            elif member is None:
                continue
            elif kind == "MEMBER_AWAY":
                self._away(member, operation.at_ms)
            elif kind == "MEMBER_REPLACED":
                self._replace(before, member, operation)
            elif kind == "MEMBER_REJOINED" or (kind == "MEMBER_JOINED" and member.member_id in self.by_member):
                self._rejoin(member, operation.at_ms)
            elif kind == "MEMBER_JOINED":
                self._arrive(member, at_ms, max((operation.join_done_ms or at_ms) - at_ms, 0))
            elif kind == "SUBSCRIPTION_CHANGED" and member.subscription is not None:
                self._subscribe(member.member_id, at_ms, member.subscription)
        self._are_alive(operation)
        self._leader = _generation_of(operation).get("leader", self._leader)

    def _begin_phase(self, operation: RecordedOperation) -> None:
        left_out = max((_generation_of(operation).get("attempts") or 1) - 1, 0)
        self.phases.append(RecordedPhase(done_ms=operation.join_done_ms or operation.at_ms, left_out=left_out))

    def _are_alive(self, operation: RecordedOperation) -> None:
        """Store the time of an operation as the last time at which some clients were certainly alive.

        A new generation of a classic group shows this for all members. Under KIP-848, an operation in which a member
        revoked or received partitions shows it for this member.
        """
        for event in operation.events:
            if str(event.kind) in STEPS:
                lives = [self.by_member.get(event.member_id or "")]
            elif operation.join_done_ms is not None and str(event.kind) == "REBALANCE_COMPLETED":
                lives = list(self.by_member.values())
            else:
                continue
            for client in lives:
                if client is not None and client.now is not None:
                    client.now = replace(client.now, alive_ms=operation.join_done_ms or operation.at_ms)

    def _began_ms(self, operation: RecordedOperation) -> int:
        """Return the likely time of the join or departure that made a group rebalance.

        Args:
            operation: the operation that ended the rebalance's join phase, or changed the members of a consumer group.
        """
        # A join phase lasts until the sessions of members that departed without a LeaveGroup are over. So if the
        # operation removed such members, the rebalance most likely began soon after they departed.
        began_ms = operation.began_ms(self.settings.heartbeat(), self.settings.initial_delay())
        removed_ms = operation.join_done_ms or operation.at_ms
        died_ms = [
            self._died_ms(client.now, removed_ms)
            for member, client in self._departing(operation)
            if client.now is not None and (_is_static_classic(client.now) or member.member_id in self._silent)
        ]
        if not died_ms:
            return began_ms
        return max(min(began_ms, max(died_ms) + 1), (operation.before_ms or 0) + 1)

    def _arrive(self, member: Member, at_ms: int, later_ms: int = 0) -> None:
        subscription = member.subscription_or_empty
        key = _key(member)
        client = next((client for client in self.clients if client.key == key and client.now is None), None)
        if client is None:
            client = _Client(key, member)
            self.clients.append(client)
        elif client.visits and (last := client.visits[-1].departed_ms) is not None:
            at_ms = max(at_ms, last + 1)
        client.now = Visit(at_ms, member.member_id, ((at_ms, subscription),), later_ms=later_ms)
        self.phases[-1].arrived.append((client.visits, len(client.visits)))
        self.by_member[member.member_id] = client

    def _leave(self, member: Member, at_ms: int, operation: RecordedOperation) -> None:
        client = self.by_member.pop(member.member_id, None)
        if client is None or client.now is None:
            return
        cause, confidence = self._reason(member)
        is_static = _is_static_classic(client.now)
        if client.now.departed_ms is not None:
            _close(client, client.now.departed_ms)
        elif cause in TIMEOUTS or is_static:
            removed_ms = operation.join_done_ms or operation.at_ms
            self.counts["crashed"] += 1
            departed_ms, window, other = self._died_ms(client.now, removed_ms), None, None
            if is_static:
                self.counts["static_removals"] += 1
                window = Window(departed_ms, min(departed_ms + self.settings.heartbeat(), removed_ms - 1))
                self.phases[-1].session_ms = self._session(client.now.subscriptions[-1][1])
            elif confidence != SURE:
                self.counts["unsure_timeouts"] += 1
                other = Ending(max(at_ms, client.now.arrived_ms + 1), CLOSED, is_unlikely=confidence == LIKELY)
            _close(client, departed_ms, CLOSED if is_static else CRASHED, window, other)
            if is_static:
                place = client.visits, len(client.visits) - 1
                self.phases[-1].remove(place, is_leader=member.member_id == self._leader)
            self._continue_as(client, self._back_by_then(client, departed_ms))
        elif member.member_id in self._silent:
            departed_ms = self._died_ms(client.now, operation.join_done_ms or operation.at_ms)
            self.counts["silent"] += 1
            if _has_nothing(member):
                how, other = CLOSED, Ending(departed_ms, CRASHED, is_unlikely=True)
            else:
                how, other = CRASHED, Ending(departed_ms, CLOSED)
            _close(client, departed_ms, how, other=other)
        else:
            other = self._timeout(client.now, member, operation)
            back = None if other is None else self._back_by_then(client, other.departed_ms)
            if other is not None and back is not None:
                self.counts["crashed"] += 1
                _close(client, other.departed_ms, CRASHED)
                self._continue_as(client, back)
                return
            self.counts["unsure_leaves"] += other is not None
            _close(client, max(at_ms, client.now.arrived_ms + 1), other=other)

    def _back_by_then(self, client: _Client, died_ms: int) -> _Client | None:
        """Return the client that a dead client probably became when it was started again.

        This is a new client with the same client id and host that joined after ``died_ms``. Return None if there is no
        such client.

        Args:
            client: the client that died.
            died_ms: the time at which ``client`` died.
        """
        return next(
            (
                candidate
                for candidate in self.clients
                if candidate is not client
                and candidate.key == client.key
                and not candidate.visits
                and candidate.now is not None
                and candidate.now.arrived_ms > died_ms
            ),
            None,
        )

    def _continue_as(self, client: _Client, back: _Client | None) -> None:
        """Treat two clients as one client that died and was started again. Do nothing if ``back`` is None.

        Args:
            client: the client before its death. It stays in the list of clients.
            back: the client after the restart. It is removed from the list of clients.
        """
        if back is not None and back.now is not None:
            client.now = back.now
            self.by_member[back.now.member_id] = client
            self.clients = [client for client in self.clients if client is not back]

    def _departing(self, operation: RecordedOperation) -> Iterable[tuple[Member, _Client]]:
        """Yield each known member that an operation removes from the group, and the member's client."""
        for event in operation.events:
            member = event.before or event.member
            if str(event.kind) == "MEMBER_LEFT" and member is not None and member.member_id in self.by_member:
                yield member, self.by_member[member.member_id]

    def _silent_departures(self, operation: RecordedOperation) -> Iterable[str]:
        """Yield the ids of dynamic classic members that probably departed without a LeaveGroup.

        One of two signs shows such a member:

        * The member is a cooperative librdkafka consumer without partitions, which sends no LeaveGroup.
        * The member's client departs, and joins again, in the same generation.
        """
        # After a LeaveGroup, there would have been a generation without the client: the other members rebalance within
        # a heartbeat, and a group without other members becomes Empty. If heartbeats are more than ``QUICK_MS`` apart,
        # the second sign does not count: the client may have been back before the other members rebalanced.
        if not operation.is_classic:
            return
        joined = {
            _key(event.member) for event in operation.events if str(event.kind) == "MEMBER_JOINED" and event.member
        }
        is_quick = self.settings.heartbeat() > QUICK_MS and len(self.by_member) > 1
        for member, client in self._departing(operation):
            may_be_silent = client.now is not None and self._timeout(client.now, member, operation) is not None
            is_back = client.key in joined and not is_quick
            if may_be_silent and (is_back or (_has_nothing(member) and _is_cooperative_librdkafka(member))):
                yield member.member_id

    def _reason(self, member: Member) -> tuple[str, str]:
        """Return the cause of a member's departure, and its confidence; an empty cause if the cause is unknown."""
        return self.reasons.get(member.member_id, ("", "possible"))

    def _timeout(self, now: Visit, member: Member, operation: RecordedOperation) -> Ending | None:
        """Return the departure of a client in the case that its session timed out. None if this case is impossible.

        Args:
            now: the client's time in the group.
            member: the client's member.
            operation: the operation that removed the member.
        """
        # A session runs from the last heartbeat. Under the classic protocol, a commit also renews the session
        # (``GroupMetadataManager.rescheduleClassicGroupMemberHeartbeat``). Under the consumer protocol, the last
        # heartbeat may be one interval before the last commit.
        subscription = now.subscriptions[-1][1]
        cause, confidence = self._reason(member)
        if (cause == "MEMBER_LEAVE" and confidence == SURE) or cause in COORDINATORS:
            return None
        removed_ms = operation.join_done_ms or operation.at_ms
        slack_ms = 0 if subscription.uses_classic_protocol else self.settings.heartbeat()
        if self._last_sign(now) > removed_ms - self._session(subscription) + slack_ms:
            return None
        return Ending(self._died_ms(now, removed_ms), CRASHED)

    def _died_ms(self, now: Visit, removed_ms: int) -> int:
        """Return the likely time at which a client died, if its session timed out.

        Args:
            now: the client's time in the group.
            removed_ms: the time at which the coordinator removed the client's member.
        """
        return max(removed_ms - self._session(now.subscriptions[-1][1]), self._last_sign(now))

    def _away(self, member: Member, at_ms: int) -> None:
        client = self.by_member.get(member.member_id)
        if client is not None and client.now is not None:
            client.now = replace(client.now, departed_ms=at_ms)

    def _rejoin(self, member: Member, at_ms: int) -> None:
        client = self.by_member.get(member.member_id)
        if client is None or client.now is None:
            self._arrive(member, at_ms)
        elif client.now.departed_ms is not None:
            subscription = member.subscription or client.now.subscriptions[-1][1]
            _close(client, client.now.departed_ms)
            client.now = Visit(at_ms, member.member_id, ((at_ms, subscription),))

    def _replace(self, before: Member | None, member: Member, operation: RecordedOperation) -> None:
        """Note that a client was restarted: a static member has come back under a new member id.

        Args:
            before: the static member with its old id; None if the old id is not on record.
            member: the static member with its new id.
            operation: the operation that replaced the old id.
        """
        client = self.by_member.pop(before.member_id, None) if before is not None else None
        if client is None or client.now is None:
            self._arrive(member, operation.at_ms)
            return
        subscription = member.subscription or client.now.subscriptions[-1][1]
        departed_ms, window = client.now.departed_ms, None
        if departed_ms is None:
            self.counts["static_restarts"] += 1
            # If the member had been away for longer than its session, it would have been removed.
            earliest_ms = max(self._unnoticed_ms(operation.at_ms, subscription), self._last_sign(client.now))
            # If the group commits nothing later, the client's last commit does not show when the client stopped.
            group_commits_later = max(self.last_commits.values(), default=0) > operation.at_ms
            is_committed = group_commits_later and earliest_ms == self._last_commit(client.now) + 1
            latest_ms = max(operation.at_ms - 1, earliest_ms)
            window = Window(earliest_ms, latest_ms, is_restart=True, is_committed=is_committed)
            departed_ms = window.at(0.5)
        _close(client, departed_ms, window=window)
        arrived_ms = max(operation.at_ms, departed_ms + 1)
        client.now = Visit(arrived_ms, member.member_id, ((operation.at_ms, subscription),))
        self.by_member[member.member_id] = client

    def _subscribe(self, member_id: str, at_ms: int, subscription: Subscription) -> None:
        client = self.by_member.get(member_id)
        if client is not None and client.now is not None:
            asked = (*client.now.subscriptions, (at_ms, subscription))
            client.now = replace(client.now, subscriptions=asked)

    def _session(self, subscription: Subscription) -> int:
        return subscription.session_timeout_ms or self.settings.consumer_session()

    def _unnoticed_ms(self, at_ms: int, subscription: Subscription) -> int:
        """Return the earliest time at which a static member can have stopped, if its session was not over at ``at_ms``.

        Args:
            at_ms: a time at which the coordinator still counted the static member as a member.
            subscription: the member's subscription.
        """
        return at_ms - max(self._session(subscription) - self.settings.heartbeat(), 1)

    def _last_sign(self, now: Visit) -> int:
        """Return the first time at which a client can have left: 1 ms after its last sign of life.

        Signs of life are the client's join, its last rebalance and its last commit.
        """
        return max(now.arrived_ms, now.alive_ms, self._last_commit(now)) + 1

    def _last_commit(self, now: Visit) -> int:
        return self.last_commits.get(now.member_id, 0)

    def _weighed(self, visit: Visit, following: Visit | None) -> Visit:
        """Return a visit of a client. If the client was back soon, mark a crash as an unlikely end of this visit.

        Args:
            visit: the visit: the client's time in the group.
            following: the next visit of the same client; None if there is no next visit.
        """
        other = visit.other_ending
        if other is None or other.how != CRASHED or following is None or visit.departed_ms is None:
            return visit
        away_ms = following.arrived_ms - visit.departed_ms
        # If the client is back in the same generation (1 ms later), it may have waited for the end of its session.
        is_soon = 1 < away_ms < self._session(visit.subscriptions[-1][1]) * SOON
        self.counts["unlikely_timeouts"] += is_soon
        return replace(visit, other_ending=other._replace(is_unlikely=is_soon))

    def finish(self, end_ms: int) -> tuple[ClientLife, ...]:
        """Return the clients with all their visits: the times in which they were members of the group.

        A client that is still a member at ``end_ms`` is assumed to have stayed. A static member that has left for a
        restart is assumed to have departed.

        Args:
            end_ms: the end of the recorded life.
        """
        for client in self.clients:
            now = client.now
            if now is None:
                continue
            subscription, window = now.subscriptions[-1][1], None
            if now.departed_ms is None and subscription.instance_id and subscription.uses_classic_protocol:
                # A static member does not send a leave: until its session is over, no record shows that it left.
                earliest_ms = max(self._unnoticed_ms(end_ms, subscription), self._last_sign(now))
                if earliest_ms < end_ms:
                    self.counts["static_ends"] += 1
                    window = Window(earliest_ms, end_ms - 1, may_have_stayed=True)
            _close(client, now.departed_ms, window=window)
        phases = [phase for phase in self.phases if phase.removed or phase.arrived]
        self.counts["rolled_out"] = roll_out(phases, self.settings.heartbeat())
        for client in self.clients:
            client.visits = [self._weighed(*pair) for pair in zip_longest(client.visits, client.visits[1:])]
        lives = [_client_life(number, client) for number, client in enumerate(self.clients, 1)]
        self.libraries = [client.library for client in lives]
        self.counts["not_back"] = sum(_may_be_back(client) for client in lives)
        library = one_library(self.libraries)
        return tuple(client if library is None else replace(client, library=library) for client in lives)

    def assumptions(self) -> Iterable[str]:
        """Yield a sentence about the clients' libraries, and a sentence for each assumption about departures."""
        if self.libraries and self.settings.library is None:
            yield libraries_sentence(self.libraries)
        yield from (sentence.format_map(self.counts) for name, sentence in ASSUMPTIONS.items() if self.counts[name])


def _close(
    client: _Client,
    departed_ms: int | None,
    how: str = CLOSED,
    window: Window | None = None,
    other: Ending | None = None,
) -> None:
    """Note that a client has departed from the group.

    Args:
        client: the client.
        departed_ms: the time of the departure; None if the client did not depart.
        how: ``CLOSED`` or ``CRASHED``.
        window: possible times of the departure; None if there is no choice.
        other: another possible departure; None if there is none.
    """
    if client.now is not None:
        ended = replace(client.now, departed_ms=departed_ms, how=how, window=window, other_ending=other)
        client.visits.append(ended)
    client.now = None


def _is_static_classic(now: Visit) -> bool:
    """Return whether a client is a static classic member, which sends no LeaveGroup when it is closed."""
    subscription = now.subscriptions[-1][1]
    return bool(subscription.instance_id) and subscription.uses_classic_protocol


def _generation_of(operation: RecordedOperation) -> Mapping[str, Any]:
    """Return the fields of the record of a new classic generation; empty if the operation is no new generation."""
    return next((event.changes for event in operation.events if "attempts" in event.changes), {})


def _has_nothing(member: Member) -> bool:
    """Return whether a member's record shows that it has no partitions."""
    assigned = None if member.current is None else member.current.assigned
    return assigned is not None and not any(assigned.values())


def _is_cooperative_librdkafka(member: Member) -> bool:
    subscription = member.subscription
    if subscription is None or library_of((), [subscription]) != LIBRDKAFKA:
        return False
    return any(protocol.name == COOPERATIVE for protocol in subscription.protocols)


def _key(member: Member) -> tuple[str, ...]:
    """Return the identity of a client: the instance id, or the client id and host of a dynamic member."""
    subscription = member.subscription_or_empty
    if subscription.instance_id:
        return "static", subscription.instance_id
    return subscription.client_id or "", subscription.client_host or ""


def _may_be_back(client: ClientLife) -> bool:
    """Return whether a client may have started again, although the log does not show it.

    This is possible for a static member of a KIP-848 group that died, and that may use librdkafka.
    """
    # If such a member starts again before its session is over, the coordinator refuses it with an error that is fatal
    # for librdkafka, and writes no record.
    last = client.visits[-1]
    is_static = client.instance_id is not None and not last.subscriptions[-1][1].uses_classic_protocol
    return is_static and last.how == CRASHED and client.library != JAVA


def _client_life(number: int, client: _Client) -> ClientLife:
    subscription = client.member.subscription_or_empty
    name = subscription.instance_id or subscription.client_id or "client"
    subscriptions = [subscription for visit in client.visits for _, subscription in visit.subscriptions]
    return ClientLife(
        f"{name}#{number}",
        subscription.client_id or "client",
        (subscription.client_host or "/127.0.0.1").lstrip("/"),
        subscription.instance_id,
        tuple(client.visits),
        library_of((visit.member_id for visit in client.visits), subscriptions),
    )
