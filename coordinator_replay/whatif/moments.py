"""The moments at which clients come and go under other settings: not quite those on record.

Clients that come or go one right after the other do so because something starts or ends them together. How long each of
them takes differs from one time to the next: under other settings they may be closer together, or farther apart.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from coordinator_replay.whatif.script import ClientLife, Visit
from coordinator_replay.whatif.timing import SHIFT_MS, Timing


def moved(clients: Sequence[ClientLife], timing: Timing) -> list[ClientLife]:
    """Clients with the moments that a timing gives them.

    Args:
        clients: as on record.
        timing: of a simulation.
    """
    if timing.is_together:
        arrivals = _gathered([visit.arrived_ms for client in clients for visit in client.visits])
        return [
            replace(one, visits=tuple(replace(v, arrived_ms=arrivals[v.arrived_ms]) for v in one.visits))
            for one in clients
        ]
    numbers = count()
    return [replace(client, visits=tuple(_shifted(client, timing, numbers))) for client in clients]


def _gathered(moments: Sequence[int]) -> Mapping[int, int]:
    """By each moment the last one of those that lie within one shift of the first of them."""
    last: dict[int, int] = {}
    first_ms = None
    together: list[int] = []
    for at_ms in sorted(set(moments)):
        if first_ms is None or at_ms > first_ms + SHIFT_MS:
            first_ms, together = at_ms, []
        together.append(at_ms)
        last |= dict.fromkeys(together, at_ms)
    return last


def _shifted(client: ClientLife, timing: Timing, numbers: Iterator[int]) -> Iterator[Visit]:
    """When a client comes and departs with a timing: it stays for a moment at least; a restart takes as long as ever.

    Args:
        client: whose visits.
        timing: of the simulation.
        numbers: of arrivals and departures.
    """
    later_ms = timing.shift_ms(next(numbers))
    for visit in client.visits:
        if visit.departed_ms is None:
            yield replace(visit, arrived_ms=visit.arrived_ms + later_ms)
            return
        spare_ms = max((visit.departed_ms - visit.arrived_ms) // 2, 0)
        earlier_ms = min(timing.shift_ms(next(numbers)), spare_ms)
        yield replace(
            visit, arrived_ms=visit.arrived_ms + min(later_ms, spare_ms), departed_ms=visit.departed_ms - earlier_ms
        )
        later_ms = -earlier_ms
