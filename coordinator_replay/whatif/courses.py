"""Other courses of a recorded life: cut to a time range, without restarts, with other clients, or as it may have been.

Where the log does not show when and how a client departed, all that it leaves open is tried: ``courses``.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from coordinator_replay.whatif.script import CLOSED, CRASHED, ClientLife, Life, Visit, Window

Clients = tuple[ClientLife, ...]

FEW = 3
"""Unlikely endings that are tried."""


def courses(life: Life) -> list[Life]:
    """Lives that differ in what the log leaves open: how dynamic members departed, and when and how static ones did."""
    lives: list[Life] = []
    for course in (*_other_endings(life), *_other_departures(life)):
        if course != life and course not in lives:
            lives.append(course)
    return lives


def _other_endings(life: Life) -> Iterator[Life]:
    """Departures that may be a leave or a session timeout the other way: all, every second, and unlikely ones alone.

    A few unlikely ones stand for each of them.
    """
    endings = [visit.other_ending for client in life.clients for visit in client.visits if visit.other_ending]
    likely = [number for number, ending in enumerate(endings) if not ending.is_unlikely]
    unlikely = [number for number, ending in enumerate(endings) if ending.is_unlikely]
    few = unlikely[:: max(len(unlikely) // FEW, 1)][:FEW]
    for numbers in (likely, likely[::2], likely[1::2], *([*likely, one] for one in few), *([one] for one in few)):
        yield replace(life, clients=_with_other_endings(life.clients, numbers))


def _with_other_endings(clients: Sequence[ClientLife], numbers: Sequence[int]) -> Clients:
    """Clients some of whose departures are read the other way, by their place among those with two readings."""
    places = itertools.count()
    return tuple(
        replace(
            client,
            visits=tuple(
                _with_other_ending(visit) if visit.other_ending is not None and next(places) in numbers else visit
                for visit in client.visits
            ),
        )
        for client in clients
    )


def _with_other_ending(visit: Visit) -> Visit:
    if visit.other_ending is None:
        return visit
    return replace(visit, departed_ms=visit.other_ending.departed_ms, how=visit.other_ending.how, other_ending=None)


def _other_departures(life: Life) -> Iterator[Life]:
    """All static members closed or all killed, early, in between or late.

    What coincides shares a rebalance: in one course of each kind departures are spread over what is open of them, and
    arrivals of one join phase over that. Where only arrivals are open, that is the one other course.
    """
    open_count = sum(visit.window is not None for client in life.clients for visit in client.visits)
    if not open_count:
        yield replace(life, clients=_spread_arrivals(life.clients))
        return
    spread = [(number + 1) / (open_count + 1) for number in range(open_count)]
    for how in (CLOSED, CRASHED):
        for shares in ([0.0] * open_count, [0.5] * open_count, [1.0] * open_count, spread):
            clients = _spread_arrivals(life.clients) if shares is spread else life.clients
            yield replace(life, clients=_course(clients, how, iter(shares)))


def _course(clients: Sequence[ClientLife], how: str, shares: Iterator[float]) -> Clients:
    return tuple(
        replace(
            client,
            visits=tuple(
                visit if visit.window is None else _departure(visit, visit.window, how, next(shares))
                for visit in client.visits
            ),
        )
        for client in clients
    )


def _spread_arrivals(clients: Sequence[ClientLife]) -> Clients:
    """Clients that came in the same join phase one after the other."""
    together = Counter(visit.arrived_ms for client in clients for visit in client.visits)
    places: Counter[int] = Counter()
    spread = []
    for client in clients:
        visits = []
        for visit in client.visits:
            delay_ms = visit.later_ms * places[visit.arrived_ms] // together[visit.arrived_ms]
            places[visit.arrived_ms] += 1
            visits.append(replace(visit, arrived_ms=visit.arrived_ms + delay_ms))
        spread.append(replace(client, visits=tuple(visits)))
    return tuple(spread)


def _departure(visit: Visit, window: Window, how: str, share: float) -> Visit:
    """A visit that ended after that share of what is open."""
    departed_ms = window.earliest_ms + round((window.latest_ms - window.earliest_ms) * share)
    has_stayed = window.may_have_stayed and share == 1
    return replace(visit, how=how, departed_ms=None if has_stayed else departed_ms, window=None)


def in_range(clients: Sequence[ClientLife], start_ms: int, end_ms: int, lead_ms: int) -> tuple[ClientLife, ...]:
    """The clients of a time range.

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
            visits.append(replace(visit, arrived_ms=arrived, departed_ms=departed, window=window, other_ending=other))
        if visits:
            lives.append(replace(client, visits=tuple(visits)))
    return tuple(lives)


def _is_on_record(client: ClientLife, visit: Visit, start_ms: int, lead_ms: int) -> bool:
    """Whether a client may still be a member at the start, after a visit that began before it."""
    if visit.departed_ms is None or visit.departed_ms > start_ms:
        return True
    has_left = visit.how == CLOSED and client.instance_id is None
    return not has_left and visit.departed_ms > start_ms - lead_ms


def without_restarts(clients: Sequence[ClientLife]) -> tuple[ClientLife, ...]:
    """Clients that never went where they came back: each stays from its first arrival to its last end."""
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
        visit = replace(model.visits[0], departed_ms=None, member_ids=(), window=None, other_ending=None)
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
