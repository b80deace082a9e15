"""Other courses of a recorded life: cut to a time range, without restarts, with other clients, or as it may have been.

Where the log does not show when and how a client departed, that is drawn: ``drawn_course``.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from coordinator_replay.simulation.what_if.script import CLOSED, CRASHED, ClientLife, Life, Visit, Window

TIMEOUT, UNLIKELY_TIMEOUT = 0.3, 0.05
"""How often a departure that may be a session timeout is drawn as one: most clients that go are closed."""

KILLED = 0.2
"""How often a static member whose end is not on record is drawn as killed."""

LEFT_UNSEEN = 0.1
"""How often a static member that may have left shortly before the end of the log is drawn as having left."""

ALIKE = 0.5
"""How often all restarts are drawn as equally long: those of one deployment mostly are."""

LIKELY_PACE = 0.5
"""How much of the longest time that it can have taken a deployment is simulated to take."""


def drawn_course(life: Life, draw: Random) -> Life:
    """Return the life with what the log leaves open drawn: how dynamic members departed, when and how static ones did.

    Clients that came in one join phase come together in half of the courses, one after the other in the others.

    Args:
        life: the likeliest course.
        draw: where chance comes from.
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
    """Return the life with its deployments one member after the other, where these were replaced so.

    Under the recorded settings that leaves the same record, if the same members lead, which chance decides.

    Args:
        life: any course of it.
        draw: how long each deployment took is drawn from; None for half of the longest time.
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
    """Return the clients of a time range.

    Clients that were in the group at its start join a lead before it. So do those that were away without having left: a
    member that died, or a static one, is on record until its session is over or it comes back, maybe within the range.

    Args:
        clients: of the whole life.
        start_ms: from then on; who left before is left out.
        end_ms: until then, not included.
        lead_ms: the lead.
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
    """Return whether a client may still be a member at the start, after a visit that began before it."""
    if visit.departed_ms is None or visit.departed_ms > start_ms:
        return True
    has_left = visit.how == CLOSED and client.instance_id is None
    return not has_left and visit.departed_ms > start_ms - lead_ms


def without_restarts(clients: Sequence[ClientLife]) -> tuple[ClientLife, ...]:
    """Return clients that never went where they came back: each stays from its first arrival to its last end."""
    return tuple(
        replace(
            client,
            visits=(
                replace(
                    client.visits[-1],
                    arrived_ms=client.visits[0].arrived_ms,
                    subscriptions=tuple(one for visit in client.visits for one in visit.subscriptions),
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
