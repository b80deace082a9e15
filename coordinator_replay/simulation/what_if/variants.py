"""Changes to the script of a simulation: a shorter time range, no restarts, more or fewer clients, or other times.

The log does not always show when and how a client departed. ``drawn_course`` chooses such facts at random.

A rolling deployment closes and replaces clients one after the other. A static member of a classic group sends nothing
when it is closed. So the coordinator notices the close only when the member's session times out. The records then show
one of two signs:

* The coordinator removes members one session timeout after the end of a join phase.
* A generation number is missing: the leader was closed, so no assignment of this generation was written.

``roll_out`` finds these signs, and ``rolled_out`` simulates the deployment.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from random import Random

from coordinator_replay.simulation.what_if.script import CLOSED, CRASHED, ClientLife, Life, Visit, Window

TIMEOUT, UNLIKELY_TIMEOUT = 0.3, 0.05
"""Probabilities that ``Visit.other_ending`` is drawn: usually, and if this end is unlikely."""

KILLED = 0.2
"""Probability that a static member whose end is not on record is drawn as killed."""

LEFT_UNSEEN = 0.1
"""Probability that a static member that may have left shortly before the end of the log is drawn as having left."""

ALIKE = 0.5
"""Probability that all restarts are drawn as equally long. In a deployment, restarts mostly are equally long."""

LIKELY_PACE = 0.5
"""Simulated duration of a deployment, as a share of its longest possible duration."""


def drawn_course(life: Life, draw: Random) -> Life:
    """Return a script in which the details that the log does not show are chosen at random.

    Such details are how a client departed, when a static member departed, and when a client joined a classic group.

    Args:
        life: the script of the group's life with the likeliest details.
        draw: source of random numbers.
    """
    delay = draw.choice((0.0, 1.0))
    share = draw.random() if draw.random() < ALIKE else None
    clients = []
    for client in life.clients:
        visits = [_drawn_visit(visit, draw, delay, share) for visit in client.visits]
        clients.append(replace(client, visits=tuple(visits)))
    return replace(life, clients=tuple(clients))


def _drawn_visit(visit: Visit, draw: Random, delay: float, share: float | None) -> Visit:
    visit = replace(visit, arrived_ms=visit.arrived_ms + round(visit.later_ms * delay * draw.random()))
    other, window = visit.other_ending, visit.window
    if other is not None and draw.random() < (UNLIKELY_TIMEOUT if other.is_unlikely else TIMEOUT):
        visit = replace(visit, departed_ms=other.departed_ms, how=other.how)
    if window is not None and not (window.may_have_stayed and draw.random() >= LEFT_UNSEEN):
        departed_ms = visit.departed_ms
        if window.rollout_ms is None:
            is_alike = window.is_restart and not window.is_committed
            departed_ms = window.at(share if share is not None and is_alike else draw.random())
        how = CRASHED if draw.random() < KILLED else CLOSED
        visit = replace(visit, departed_ms=max(departed_ms or 0, visit.arrived_ms + 1), how=how)
    return replace(visit, other_ending=None, window=window if window is not None and window.rollout_ms else None)


def rolled_out(life: Life, draw: Random | None = None) -> Life:
    """Return a script in which each rolling deployment replaces its clients one after the other.

    The other clients stay as they are.

    Args:
        life: the script to change. ``roll_out`` has found its deployments.
        draw: source of random numbers for the durations of deployments; None for half of the longest possible duration.
    """
    paces: dict[int, float] = {}

    def moment(at_ms: int, window: Window | None) -> int:
        if window is None or window.rollout_ms is None:
            return at_ms
        if window.rollout_ms not in paces:
            paces[window.rollout_ms] = LIKELY_PACE if draw is None else draw.random()
        return window.at(paces[window.rollout_ms])

    clients = []
    for client in life.clients:
        visits, free_ms = [], 0
        for visit in client.visits:
            arrived_ms, departed_ms = max(moment(visit.arrived_ms, visit.arrival), free_ms), visit.departed_ms
            if departed_ms is not None:
                departed_ms = max(moment(departed_ms, visit.window), arrived_ms + 1)
                free_ms = departed_ms + 1
            visits.append(replace(visit, arrived_ms=arrived_ms, departed_ms=departed_ms, arrival=None))
        clients.append(replace(client, visits=tuple(visits)))
    return replace(life, clients=tuple(clients))


def in_range(clients: Sequence[ClientLife], start_ms: int, end_ms: int, lead_ms: int) -> tuple[ClientLife, ...]:
    """Return the clients that were members of the group in a time range.

    Each client has only its visits (its times in the group) within the time range. If a client was already a member at
    the start of the time range, its first visit begins ``lead_ms`` before the start.

    Args:
        clients: all clients of the group.
        start_ms: the start of the time range.
        end_ms: the end of the time range, not included.
        lead_ms: how long before ``start_ms`` the first members join in the simulation.
    """
    lives = []
    for client in clients:
        visits = []
        last_before = max((visit.arrived_ms for visit in client.visits if visit.arrived_ms < start_ms), default=None)
        for visit in client.visits:
            if visit.arrived_ms == last_before:
                is_in_range = _is_on_record(client, visit, start_ms, lead_ms)
            else:
                is_in_range = start_ms <= visit.arrived_ms < end_ms
            if not is_in_range:
                continue
            arrived = visit.arrived_ms if visit.arrived_ms >= start_ms else start_ms - lead_ms
            departed = visit.departed_ms if visit.departed_ms is not None and visit.departed_ms < end_ms else None
            window = visit.window if visit.window is not None and visit.window.earliest_ms < end_ms else None
            other = visit.other_ending
            other = other if other is not None and arrived < other.departed_ms < end_ms else None
            arrival = visit.arrival if arrived == visit.arrived_ms else None
            visit = replace(visit, arrived_ms=arrived, departed_ms=departed, window=window)
            visits.append(replace(visit, other_ending=other, arrival=arrival))
        if visits:
            lives.append(replace(client, visits=tuple(visits)))
    return tuple(lives)


def _is_on_record(client: ClientLife, visit: Visit, start_ms: int, lead_ms: int) -> bool:
    """Return whether a client may still be a member of its group at the start of a time range.

    A client that crashed, or a static member that was closed, stays a member until its session times out.

    Args:
        client: the client.
        visit: the client's last time in the group that began before the time range.
        start_ms: the start of the time range.
        lead_ms: how long such a client may stay a member; the same value as for ``in_range``.
    """
    if visit.departed_ms is None or visit.departed_ms > start_ms:
        return True
    has_left = visit.how == CLOSED and client.instance_id is None
    return not has_left and visit.departed_ms > start_ms - lead_ms


def without_restarts(clients: Sequence[ClientLife]) -> tuple[ClientLife, ...]:
    """Return clients that never restart: each stays from its first arrival to the end of its last visit."""
    return tuple(
        replace(
            client,
            visits=(
                replace(
                    client.visits[-1],
                    arrived_ms=client.visits[0].arrived_ms,
                    subscriptions=tuple(
                        subscription for visit in client.visits for subscription in visit.subscriptions
                    ),
                ),
            ),
        )
        for client in clients
    )


def with_members(clients: Sequence[ClientLife], count: int) -> tuple[ClientLife, ...]:
    """Return ``count`` clients: the first clients on record.

    If there are too few, add copies of the first client. The copies never leave.
    """
    kept = list(clients[:count])
    for number in range(len(kept), count):
        model = clients[0]
        visit = replace(model.visits[0], departed_ms=None, member_id="", window=None, other_ending=None, arrival=None)
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


GAP_MS = 1_000
"""Assumed time from the close of a member to the join of its replacement."""

Place = tuple[list[Visit], int]
"""A visit, given by the list of its client's visits and by its index in this list."""


@dataclass(kw_only=True)
class RecordedPhase:
    """The join phase that began a generation of a classic group.

    A visit is the time that a client spends in the group, from its arrival to its departure.

    Attributes:
        done_ms: end of the join phase.
        left_out: number of generations directly before this generation that left no record.
        session_ms: session timeout of the static members that were removed in the join phase.
        removed: the last visits of the removed static members; the leader's visit comes last.
        has_leader: whether the leader of the previous generation is among the removed members.
        arrived: visits that began in the join phase.
    """

    done_ms: int
    left_out: int
    session_ms: int = 0
    removed: list[Place] = field(default_factory=list)
    has_leader: bool = False
    arrived: list[Place] = field(default_factory=list)

    def remove(self, place: Place, *, is_leader: bool) -> None:
        """Note that the coordinator removed a static member in this join phase.

        Args:
            place: the last visit of the member.
            is_leader: whether the member was the leader of the previous generation.
        """
        self.removed.insert(len(self.removed) if is_leader else 0, place)
        self.has_leader |= is_leader

    def is_after(self, before: "RecordedPhase", heartbeat_ms: int) -> bool:
        """Return whether the members removed in this join phase were probably closed during the previous join phase.

        This is probable if the coordinator removed members in each of the two join phases, and if this join phase ended
        about one session timeout after the previous join phase.

        Args:
            before: the previous join phase.
            heartbeat_ms: the heartbeat interval of the members.
        """
        over_ms = self.done_ms - before.done_ms - self.session_ms
        return bool(self.removed and before.removed) and over_ms <= heartbeat_ms


def unseen(phases: Iterable[RecordedPhase], start_ms: int, end_ms: int) -> float:
    """Return the share of a time range, from 0 to 1, in which a join phase waited for a static member that had left."""
    waited = [phase for phase in phases if phase.removed and start_ms <= phase.done_ms < end_ms]
    waited_ms = sum((phase.left_out + 1) * phase.session_ms for phase in waited)
    return min(waited_ms / (end_ms - start_ms), 1.0)


def roll_out(phases: Sequence[RecordedPhase], heartbeat_ms: int) -> int:
    """Find rolling deployments, and store when their clients may have departed and arrived.

    In a rolling deployment, clients are closed and replaced one after the other. The possible times are stored in
    ``window`` and ``arrival`` of the clients' visits.

    Args:
        phases: the join phases of a group, in order. They have the clients' visits: their times in the group.
        heartbeat_ms: the heartbeat interval of the group's members.

    Returns:
        The number of members that were replaced in this way.
    """
    count, is_rest = 0, False
    for phase, following in zip_longest(phases, phases[1:]):
        rest: list[Place] = []
        if following is not None and following.is_after(phase, heartbeat_ms):
            # The last member led the generation. If it had been closed, nobody would have assigned partitions.
            rest = following.removed[:-1] if following.has_leader else following.removed
        windows = _windows(phase, [] if is_rest else phase.removed, rest, GAP_MS + heartbeat_ms)
        is_rest = bool(rest)
        count += len(windows)
        for (visits, number), window in windows:
            visits[number] = replace(visits[number], window=window)
        last_ms = phase.done_ms - 1
        for (visits, number), (_, window) in zip(phase.arrived, windows, strict=False):
            earliest_ms, latest_ms = (min(at_ms + GAP_MS, last_ms) for at_ms in window[:2])
            if number < len(visits):  # Otherwise another client continues the visit.
                arrival = window._replace(earliest_ms=earliest_ms, latest_ms=latest_ms)
                visits[number] = replace(visits[number], arrival=arrival)
    return count


def _windows(
    phase: RecordedPhase, own: Sequence[Place], rest: Sequence[Place], joined_ms: int
) -> list[tuple[Place, Window]]:
    """Return when a deployment may have closed each of the old members: pairs of a visit and a time window.

    A visit is the time that a client spends in the group, from its arrival to its departure. Return an empty list if
    the join phase shows no deployment.

    Args:
        phase: the join phase in which the new members joined.
        own: last visits of the old members that the coordinator removed in this join phase.
        rest: last visits of the old members that the coordinator removed one session timeout later.
        joined_ms: time from the close of the first old member until the other old members have joined again.
    """
    if not own or not (phase.left_out or rest):
        return []
    begin_ms = phase.done_ms - (phase.left_out + 1) * phase.session_ms
    end_ms = begin_ms + phase.left_out * phase.session_ms
    steps = max(len(own) - (not rest), 1)
    windows = []
    for number, place in enumerate(own):
        latest_ms = begin_ms + (end_ms - begin_ms) * number // steps
        earliest_ms = min(begin_ms + joined_ms, latest_ms) if number else begin_ms
        # The deployment was still in progress when the skipped phase ended.
        windows.append((place, Window(latest_ms if rest else earliest_ms, latest_ms, rollout_ms=begin_ms)))
    for number, place in enumerate(rest, 1):
        latest_ms = end_ms + phase.session_ms * number // (len(rest) + 1)
        windows.append((place, Window(min(end_ms + joined_ms, latest_ms), latest_ms, rollout_ms=begin_ms)))
    return windows
